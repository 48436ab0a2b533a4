"""Checking everything that opening does not: the bytes themselves, and whether the parts make sense together."""

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.packet.part_file import is_finite
from newsstudio_ditto.packet.reader import Packet, Part, open_packet
from newsstudio_ditto.packet.spec import PARTS

_CHUNK_BYTES = 8 * 2**20
_PEAK = 255
DEFAULT_TOLERANCE = 2


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Args:
        part: name of the file, or ``packet``.
        field: tensor or property.
        message: expected and got.
    """

    part: str
    field: str
    message: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.part}: {self.field}: {self.message}"


@dataclass(frozen=True)
class FrameParity:
    """The packet's frames against freshly decoded ones.

    Args:
        num_frames: frames compared.
        psnr_db: peak signal to noise ratio over all of them, dB; infinite if they are equal.
        max_difference: largest difference of one value, 0 to 255.
        first_bad_frame: first frame with a difference above the tolerance; None if there is none.
        worst_frame: the frame with the largest squared difference, the first of several; None if no frame was compared.
    """

    num_frames: int
    psnr_db: float
    max_difference: int
    first_bad_frame: int | None
    worst_frame: int | None = None

    @property
    def telling_frame(self) -> int | None:
        """The frame to look at: the first bad one, else the worst one."""
        return self.worst_frame if self.first_bad_frame is None else self.first_bad_frame


@dataclass(frozen=True)
class VerifyReport:
    """What :func:`verify_packet` found.

    Args:
        findings: what is wrong; empty for a good packet.
        num_bytes: bytes of tensors read.
        parity: comparison with the source, if one was given.
    """

    findings: list[Finding] = field(default_factory=list)
    num_bytes: int = 0
    parity: FrameParity | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_plain(self) -> dict[str, object]:
        """The report for machines. Equal frames have ``psnr_db`` null."""
        parity = None if self.parity is None else asdict(self.parity)
        if parity and math.isinf(parity["psnr_db"]):
            parity["psnr_db"] = None
        return {
            "ok": self.ok,
            "findings": [asdict(finding) for finding in self.findings],
            "num_bytes": self.num_bytes,
            "parity": parity,
        }


def verify_packet(
    folder: Path, *, source: Iterable[NDArray[np.uint8]] | None = None, tolerance: int = DEFAULT_TOLERANCE
) -> VerifyReport:
    """Read every byte of a packet and check it.

    Besides what opening checks: CRC-32 and sha256 of every tensor; keypoints, grids and conditioning finite; crop
    matrices invertible affines; a mask of some weight in every frame with a face; at least one frame with a face.

    Args:
        folder: the packet.
        source: the anchor's frames, (H, W, 3) uint8 RGB each, freshly decoded by the same rules; compared one by one.
        tolerance: largest difference of a value, of 255, that still counts as the same frame.

    Returns:
        The findings. A packet that cannot be opened, or is changed meanwhile, gives one finding with the reason.
    """
    try:
        return _verify_open(open_packet(folder), source, tolerance)
    except PacketError as error:
        return VerifyReport([Finding("packet", type(error).__name__, error.what)])


def _verify_open(packet: Packet, source: Iterable[NDArray[np.uint8]] | None, tolerance: int) -> VerifyReport:
    findings = [finding for part in packet.parts.values() for finding in check_bytes(part)]
    findings += _check_values(packet)
    findings += _check_faces(packet)
    num_bytes = sum(tensor.nbytes for part in packet.parts.values() for tensor in part.tensors.values())
    if source is None:
        return VerifyReport(findings, num_bytes)
    parity, parity_findings = _compare_frames(packet, source, tolerance)
    return VerifyReport(findings + parity_findings, num_bytes, parity)


def check_bytes(part: Part) -> Iterator[Finding]:
    """Recompute CRC-32 and sha256 of every tensor of an open file.

    Raises:
        PacketFormatError: the file was changed in place meanwhile.
    """
    for name, tensor in part.tensors.items():
        digest, crc = sha256(), 0
        content = tensor.reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(content), _CHUNK_BYTES):
            part.expect_unchanged()
            piece = content[start : start + _CHUNK_BYTES]
            digest.update(piece)
            crc = zlib.crc32(piece, crc)
        expected = part.header.checksums[name]
        if digest.hexdigest() != expected:
            yield Finding(part.header.part, name, f"sha256: expected {expected[:16]}, got {digest.hexdigest()[:16]}")
        if crc != part.entries[name].crc:
            yield Finding(part.header.part, name, f"CRC-32: expected {part.entries[name].crc:08x}, got {crc:08x}")


def _check_values(packet: Packet) -> Iterator[Finding]:
    for name, spec in PARTS.items():
        for tensor_spec in spec:
            chunks = _row_chunks(packet.parts[name], tensor_spec.name)
            bad = next((start for start, rows in chunks if not is_finite(rows)), None)
            if bad is not None:
                yield Finding(name, tensor_spec.name, f"expected finite values, got NaN or infinity from row {bad} on")


def _row_chunks(part: Part, name: str) -> Iterator[tuple[int, Tensor]]:
    tensor = part.tensors[name]
    length = max(1, _CHUNK_BYTES // max(1, tensor[0].nbytes))
    for start in range(0, len(tensor), length):
        part.expect_unchanged()
        yield start, tensor[start : start + length]


def _check_faces(packet: Packet) -> Iterator[Finding]:
    valid = packet.meta.face_valid
    if not bool(valid.any()):
        yield Finding("meta", "face_valid", "expected a face in at least one frame, got none")
    for start, rows in _row_chunks(packet.parts["masks"], "masks"):
        empty = (rows.amax(dim=(1, 2, 3)) == 0) & valid[start : start + len(rows)]
        if bool(empty.any()):
            index = start + int(empty.nonzero()[0])
            yield Finding(
                "masks", "masks", f"frame {index} has a face, expected a mask of some weight, got an empty one"
            )
            break
    matrices = packet.meta.crop_to_original.double()
    is_affine = (matrices[:, 2] == torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)).all(dim=1)
    good = is_affine & (torch.linalg.det(matrices[:, :2, :2]).abs() > 1e-9)
    if not bool(good.all()):
        index = int((~good).nonzero()[0])
        yield Finding(
            "meta", "crop_to_original", f"frame {index}: expected an invertible affine, got {matrices[index].tolist()}"
        )


def _compare_frames(
    packet: Packet, source: Iterable[NDArray[np.uint8]], tolerance: int
) -> tuple[FrameParity, list[Finding]]:
    frames = packet.frames
    count, squares, largest, first_bad = 0, 0, 0, None
    worst_frame, most_squares = None, -1
    findings = []
    for image in source:
        if count == len(frames):
            findings.append(Finding("frames", "parity", f"expected {len(frames)} frames in the source, got more"))
            break
        packet.expect_unchanged()
        stored = frames[count].numpy()
        fresh = np.moveaxis(image, -1, 0)
        if fresh.shape != stored.shape or fresh.dtype != np.uint8:
            got = f"{fresh.dtype} {fresh.shape}"
            findings.append(Finding("frames", "parity", f"frame {count}: expected uint8 {stored.shape}, got {got}"))
            break
        difference = np.abs(stored.astype(np.int16) - fresh)
        worst = int(difference.max())
        own_squares = int(np.square(difference, dtype=np.int64).sum())
        squares += own_squares
        if own_squares > most_squares:
            worst_frame, most_squares = count, own_squares
        largest = max(largest, worst)
        if worst > tolerance and first_bad is None:
            first_bad = count
            findings.append(
                Finding("frames", "parity", f"frame {count} is the first that differs, by up to {worst} of 255")
            )
        count += 1
    if count < len(frames) and not findings:
        findings.append(Finding("frames", "parity", f"expected {len(frames)} frames in the source, got {count}"))
    psnr_db = _psnr_db(squares, count * frames[0].numel())
    return FrameParity(count, psnr_db, largest, first_bad, worst_frame), findings


def _psnr_db(squares: int, count: int) -> float:
    return math.inf if squares == 0 else 10 * math.log10(_PEAK**2 * count / squares)
