"""Which devices a name stands for, and which of them rendering runs on."""

import torch

from newsstudio_ditto.render.engine import choose_device


def choose_devices(names: str) -> list[torch.device]:
    """The devices that a list of names stands for, each once.

    Args:
        names: ``all`` is every CUDA device there is, else the CPU; otherwise names for
            :func:`~newsstudio_ditto.render.engine.choose_device`, separated by commas.

    Raises:
        DeviceError: a CUDA device is asked for that is not there.
    """
    if names == "all":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [torch.device("cuda", index) for index in range(count)] or [torch.device("cpu")]
    return list(dict.fromkeys(choose_device(name) for name in names.split(",")))
