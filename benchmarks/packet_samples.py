"""Packets of realistic size with seeded noise, and what to say about the machine, for the packet benchmarks."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import DTYPES, META, PARTS, TENSOR_PARTS, FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part

AVATAR = "bench"
GENERATION = "0" * 64
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


def make_noise_packet(root: Path, lengths: dict[str, int]) -> Packet:
    """A sealed packet below ``root``."""
    store = AvatarStore(root)
    for part in TENSOR_PARTS:
        write_part(store.bench(AVATAR), noise_stream(part, lengths), generation=GENERATION, avatar_id=AVATAR)
    tensors = _random_rows(META.name, lengths)
    fields = MetaFields(
        generation=GENERATION,
        stage_version="meta.1",
        eye_open=tensors["eye_open"],
        eye_ball=tensors["eye_ball"],
        sc=tensors["sc"],
        crop_to_original=torch.eye(3).expand(lengths["N"], 3, 3).contiguous(),
        face_valid=torch.ones(lengths["N"], dtype=torch.bool),
        paste_window=PasteWindow(0, 0, lengths["h"], lengths["w"]),
        frame_size=FrameSize(lengths["H"], lengths["W"]),
        window="tight",
        fps_rule="resampled to 25 frames a second",
        colour="sRGB",
        crop=CropConfig(),
        source_hash="1" * 64,
        model_fingerprint="2" * 64,
        options={"max_side_px": 1920},
    )
    return store.seal(AVATAR, fields)


def time_runs(action: Callable[[], object], runs: int, warmups: int = 2) -> list[float]:
    """Seconds of each run after the warm-ups. What ``action`` returns is dropped outside the clock."""
    seconds = []
    for index in range(warmups + runs):
        started = time.perf_counter()
        result = action()
        elapsed = time.perf_counter() - started
        del result
        if index >= warmups:
            seconds.append(elapsed)
    return seconds


def median_and_p95_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    return {
        "median_ms": round(statistics.median(ordered) * 1000, 4),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] * 1000, 4),
    }


def describe_run() -> dict[str, object]:
    """Machine, versions, commit and command, without which a number is not a result."""
    command = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit or None,
        "load_average": round(os.getloadavg()[0], 2),
        "command": " ".join(["python", *sys.argv]),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Markdown table; the first row is the head."""
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
