"""A daemon as a program, for tests that need a process of its own: its settings come as JSON."""

import json
import logging
import sys
from pathlib import Path

import torch

from newsstudio_ditto.daemon.server import serve
from newsstudio_ditto.daemon.settings import DaemonSettings, UploadLimits
from newsstudio_ditto.storage import StorageLayout


def main(text: str) -> None:
    told = json.loads(text)
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    limits = UploadLimits(**told.pop("limits", {}))
    tuples = {name: tuple(told.pop(name)) for name in ("devices", "hosts", "origins") if name in told}
    storage = StorageLayout(Path(told.pop("root")))
    serve(DaemonSettings(storage=storage, limits=limits, **tuples, **told))


if __name__ == "__main__":
    main(sys.argv[1])
