"""Turn a presenter clip and a speech into a talking video."""

import os

__version__ = "0.1.0"

# ONNX Runtime, from 1.29 on, keeps a device id below the home folder and reports every session to its maker. It looks
# for this once, when it is imported; here is the one place that comes before all others.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
