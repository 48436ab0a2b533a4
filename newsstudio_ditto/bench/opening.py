"""Opening a packet against unpickling the same content."""

import pickle
from collections.abc import Callable
from pathlib import Path

import torch

from newsstudio_ditto.bench.setup import Bench
from newsstudio_ditto.bench.timing import Figure, Times, time_runs
from newsstudio_ditto.packet.reader import Packet, open_packet, open_part
from newsstudio_ditto.packet.spec import PART_NAMES
from newsstudio_ditto.render.frame_pool import FramePool

# Opening is too short to time a handful of times only.
OPENINGS_PER_RUN = 20
DEVICE_OPENINGS_PER_RUN = 4


def dump_pickle(packet: Packet, path: Path) -> int:
    """Write all tensors of the packet as one pickle of numpy arrays; returns its size."""
    arrays = {name: tensor.numpy() for part in packet.parts.values() for name, tensor in part.tensors.items()}
    with path.open("wb") as file:
        pickle.dump(arrays, file, protocol=pickle.HIGHEST_PROTOCOL)
    return path.stat().st_size


def load_pickle(path: Path) -> object:
    """Open the older way; the file is one that :func:`dump_pickle` has written."""
    with path.open("rb") as file:
        return pickle.load(file)


def touch_first_frame(folder: Path) -> list[torch.Tensor]:
    """Open, and read frame 0 of every tensor."""
    packet = open_packet(folder)
    return [tensor[0].clone() for part in packet.parts.values() for tensor in part.tensors.values()]


def load_all(packet: Packet) -> list[object]:
    """The same files through torch's own mapping loader."""
    return [torch.load(part.path, mmap=True, weights_only=True) for part in packet.parts.values()]


def first_frame_on_device(folder: Path, device: torch.device) -> None:
    """Open, and bring what frame 0 is rendered from to the device."""
    _rows, ready = FramePool(open_packet(folder), device, 1).gather([0])
    if ready is not None:
        ready.synchronize()


def measure_open(bench: Bench) -> list[Figure]:
    """Six maps, each file, and the first frame, beside the pickle."""
    packet, runs, device = bench.packet, bench.options.runs, bench.device
    pickled = bench.folder / "source_info.pkl"
    pickle_bytes = dump_pickle(packet, pickled)
    unpickled = Times.of(time_runs(lambda: load_pickle(pickled), runs, warmups=1))
    pickled.unlink()
    openings, few = runs * OPENINGS_PER_RUN, runs * DEVICE_OPENINGS_PER_RUN

    def figure(name: str, action: Callable[[], object], note: str = "", times: int = openings) -> Figure:
        ours = Times.of(time_runs(action, times, device=device))
        return Figure("open", name, ours, unpickled, "opening", None, note)

    size = f"{packet.num_bytes / 1e9:.2f} GB in maps, {pickle_bytes / 1e9:.2f} GB pickled, {packet.num_frames} frames"
    figures = [
        figure("six maps", lambda: open_packet(packet.folder), size),
        figure("six maps, first frame read", lambda: touch_first_frame(packet.folder)),
        figure("six times torch.load(mmap=True)", lambda: load_all(packet)),
        figure("six maps, first frame on the device", lambda: first_frame_on_device(packet.folder, device), times=few),
    ]
    for name in PART_NAMES:
        path = packet.parts[name].path
        megabytes = f"{packet.parts[name].bytes / 1e6:.1f} MB"
        times = Times.of(time_runs(lambda path=path, name=name: open_part(path, name), openings))  # type: ignore[misc]
        figures.append(Figure("open", path.name, times, None, "opening", None, megabytes))
    return figures
