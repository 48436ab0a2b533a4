"""Small results that are no packet part (face track, feature rows, motion): one file of tensors with a plain header."""

import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError
from newsstudio_ditto.storage import replacing

Plain = str | int | float | bool | None | list[int] | list[float] | list[str]
"""What a header may hold."""


@dataclass(frozen=True)
class TensorFile:
    """Named tensors, and plain values that say what they are.

    Args:
        tensors: by name; the shapes are the business of whoever wrote them.
        header: plain values. ``kind`` and ``stage_version`` are always there.
    """

    tensors: Mapping[str, Tensor]
    header: Mapping[str, Any]

    @property
    def checksum(self) -> str:
        """sha256 over the header and over names, dtypes, shapes and bytes of the tensors: equal content, equal text."""
        digest = sha256(repr(sorted(self.header.items())).encode())
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def save_tensors(path: Path, content: TensorFile) -> None:
    """Write beside, then rename, so that a reader has the old file or the new one.

    Raises:
        StorageError: the folder is full, read-only or forbidden.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in content.tensors.items()}
    with replacing(path) as beside, beside.open("wb") as file:
        try:
            torch.save({"header": dict(content.header), "tensors": tensors}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error  # torch speaks of positions where the system said: disk full
            raise


def open_tensors(path: Path, *, kind: str, remedy: str) -> TensorFile:
    """Map a file read-only.

    Args:
        path: the file.
        kind: what its header must say it is.
        remedy: what makes the file again, for the error.

    Raises:
        PacketMissingError: there is no such file.
        PacketFormatError: it is damaged, or of another kind.
    """
    if not path.is_file():
        raise PacketMissingError(f"{path} does not exist", remedy)
    try:
        content = torch.load(path, mmap=True, weights_only=True, map_location="cpu")
        header, tensors = dict(content["header"]), dict(content["tensors"])
    except (
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ) as error:
        raise PacketFormatError(f"{path} cannot be read: {error}", remedy) from error
    if header.get("kind") != kind:
        raise PacketFormatError(f"{path}: kind: expected {kind!r}, got {header.get('kind')!r}", remedy)
    return TensorFile(tensors, header)
