"""How long opening a packet takes, against a pickle of the same content, in one run.

    python benchmarks/packet_open.py --frames 165

Both are in the page cache. The pickle is one file with one dict of numpy arrays, as the older way of keeping an avatar
had it. "First frame touched" also reads frame 0 of every tensor. Needs about twice the packet's size on disk, and
once in memory.
"""

import argparse
import json
import pickle
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from benchmarks.packet_samples import (
    describe_run,
    full_width_lengths,
    make_noise_packet,
    median_and_p95_ms,
    print_table,
    time_runs,
)
from newsstudio_ditto.packet.reader import Packet, open_packet, open_part
from newsstudio_ditto.packet.spec import PART_NAMES

# Opening is too short to time a handful of times only.
_OPENINGS_PER_RUN = 20


def dump_pickle(packet: Packet, path: Path) -> int:
    """Write all tensors of the packet as one pickle of numpy arrays; returns its size."""
    arrays = {name: tensor.numpy() for part in packet.parts.values() for name, tensor in part.tensors.items()}
    with path.open("wb") as file:
        pickle.dump(arrays, file, protocol=pickle.HIGHEST_PROTOCOL)
    return path.stat().st_size


def load_pickle(path: Path) -> object:
    """Open the older way."""
    with path.open("rb") as file:
        return pickle.load(file)


def touch_first_frame(folder: Path) -> list[torch.Tensor]:
    """Open, and read frame 0 of every tensor."""
    packet = open_packet(folder)
    return [tensor[0].clone() for part in packet.parts.values() for tensor in part.tensors.values()]


def measure(folder: Path, pickled: Path, runs: int) -> dict[str, dict[str, float]]:
    """Median and p95 of every way of opening."""
    openings = runs * _OPENINGS_PER_RUN
    times = {
        "pickle": time_runs(lambda: load_pickle(pickled), runs, warmups=1),
        "six maps": time_runs(lambda: open_packet(folder), openings),
        "six maps, first frame touched": time_runs(lambda: touch_first_frame(folder), openings),
        "six times torch.load(mmap=True)": time_runs(
            lambda: [torch.load(folder / f"{part}.pt", mmap=True, weights_only=True) for part in PART_NAMES], openings
        ),
    }
    for part in PART_NAMES:
        path = folder / f"{part}.pt"
        times[f"{part}.pt"] = time_runs(lambda path=path, part=part: open_part(path, part), openings)  # type: ignore[misc]
    return {name: median_and_p95_ms(seconds) for name, seconds in times.items()}


def main() -> None:
    """Make the packet, measure, print a table, and JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=165)
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--runs", type=int, default=5, help="at least 5")
    parser.add_argument("--folder", type=Path, help="where the files are made, and removed again; default: temporary")
    parser.add_argument("--json", type=Path, help="also write the result here; - prints it in place of the table")
    options = parser.parse_args()
    if options.runs < 5:
        parser.error("--runs: at least 5")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        packet = make_noise_packet(Path(folder), full_width_lengths(options.frames, options.height, options.width))
        pickled = Path(folder) / "source_info.pkl"
        pickle_bytes = dump_pickle(packet, pickled)
        times = measure(packet.folder, pickled, options.runs)
        sizes = {f"{name}.pt": part.bytes for name, part in packet.parts.items()}
    result = {
        "benchmark": "packet_open",
        "frames": options.frames,
        "frame_size": [options.height, options.width],
        "packet_bytes": sum(sizes.values()),
        "pickle_bytes": pickle_bytes,
        "runs": options.runs,
        "times": times,
        "ratio": round(times["pickle"]["median_ms"] / times["six maps"]["median_ms"], 1),
        "ratio_first_frame": round(
            times["pickle"]["median_ms"] / times["six maps, first frame touched"]["median_ms"], 1
        ),
        "run": describe_run(),
    }
    if options.json and str(options.json) != "-":
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if str(options.json) == "-":
        print(json.dumps(result, indent=2))
        return
    print(
        f"{options.frames} frames of {options.height} x {options.width}, {sum(sizes.values()) / 1e9:.2f} GB, "
        "warm page cache"
    )
    megabytes = {**{name: size / 1e6 for name, size in sizes.items()}, "pickle": pickle_bytes / 1e6}
    rows = [
        (name, f"{megabytes[name]:.1f}" if name in megabytes else "", time["median_ms"], time["p95_ms"])
        for name, time in times.items()
    ]
    print_table([("what is opened", "MB", "median ms", "p95 ms"), *rows])
    print(f"pickle / six maps: {result['ratio']}; with the first frame touched: {result['ratio_first_frame']}")
    print(json.dumps(result["run"]))


if __name__ == "__main__":
    main()
