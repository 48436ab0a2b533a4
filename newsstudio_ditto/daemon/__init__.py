"""The HTTP door: a small API, live streaming, and a page that people use."""
