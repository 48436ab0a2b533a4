"""Turn a presenter clip and a speech into a talking video."""

__version__ = "0.1.0"
