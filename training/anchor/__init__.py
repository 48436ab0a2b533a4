"""Renders the demo anchor: an invented newsreader made of CC0 shapes."""
