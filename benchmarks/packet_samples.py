"""Packet parts of realistic size with seeded noise, made chunk by chunk."""

from collections.abc import Iterator

import torch
from torch import Tensor

from newsstudio_ditto.packet.spec import DTYPES, PARTS
from newsstudio_ditto.packet.writer import PartStream

CHUNK_FRAMES = 4


def full_width_lengths(num_frames: int, height: int, width: int) -> dict[str, int]:
    """Axes of a packet of the official model; the paste window takes 5/9 of the shorter side, as a presenter's does."""
    side = min(height, width) * 5 // 18 * 2
    volume = {"C": 32, "D": 16, "Hf": 64, "Wf": 64}
    return {"N": num_frames, "H": height, "W": width, "h": side, "w": side, **volume}


def noise_stream(part: str, lengths: dict[str, int]) -> PartStream:
    """A part of repeated seeded noise, made chunk by chunk; memory does not depend on N."""
    shapes = PARTS[part].shapes(lengths)
    return PartStream(part, shapes, _noise(part, lengths), stage_version=f"{part}.1")


def _noise(part: str, lengths: dict[str, int]) -> Iterator[dict[str, Tensor]]:
    chunk = _random_rows(part, {**lengths, "N": CHUNK_FRAMES})
    for start in range(0, lengths["N"], CHUNK_FRAMES):
        rows = min(CHUNK_FRAMES, lengths["N"] - start)
        yield {name: tensor[:rows] for name, tensor in chunk.items()}


def _random_rows(part: str, lengths: dict[str, int]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = {}
    for spec in PARTS[part]:
        shape, dtype = PARTS[part].shapes(lengths)[spec.name], DTYPES[spec.dtype]
        if dtype.is_floating_point:
            rows[spec.name] = torch.randn(shape, generator=generator).to(dtype)
        else:
            high = 2 if dtype is torch.bool else 256
            rows[spec.name] = torch.randint(0, high, shape, generator=generator, dtype=dtype)
    return rows
