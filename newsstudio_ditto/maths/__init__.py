"""Pure maths of the pipeline: arrays in, arrays out; no file, no process, no log."""
