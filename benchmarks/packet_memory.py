"""Peak private memory of writing packet files, for several numbers of frames.

    python benchmarks/packet_memory.py --frames 75 750

Each case writes f_s and frames in a fresh process through ``write_part`` while a thread samples RssAnon, the memory
that is the process's own; file pages, which the system takes back at will, are reported beside it. Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # a checkout that is not installed

from benchmarks.packet_samples import full_width_lengths, noise_stream
from newsstudio_ditto.bench.output import PeakMemory
from newsstudio_ditto.bench.report import markdown_table
from newsstudio_ditto.bench.timing import describe_run
from newsstudio_ditto.packet.writer import write_part

PARTS_WRITTEN = ("f_s", "frames")


def write_and_sample(folder: Path, num_frames: int, height: int, width: int) -> dict[str, float]:
    """Write both parts of ``num_frames`` frames in this process."""
    lengths = full_width_lengths(num_frames, height, width)
    started = time.perf_counter()
    with PeakMemory() as memory:
        records = [
            write_part(folder, noise_stream(part, lengths), generation="0" * 64, avatar_id="bench")
            for part in PARTS_WRITTEN
        ]
    seconds = time.perf_counter() - started
    num_bytes = sum(record.bytes for record in records)
    return {
        "frames": num_frames,
        "written_mb": round(num_bytes / 1e6, 1),
        "peak_private_mb": round(memory.peak_mb, 1),
        "added_private_mb": round(memory.added_mb, 1),
        "peak_file_pages_mb": round(memory.file_mb, 1),
        "seconds": round(seconds, 2),
        "mb_per_second": round(num_bytes / 1e6 / seconds, 1),
    }


def run_case(num_frames: int, options: argparse.Namespace) -> dict[str, float]:
    """One case in a fresh process and a fresh folder."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        size = ["--height", str(options.height), "--width", str(options.width)]
        command = [sys.executable, __file__, "--child", folder, "--frames", str(num_frames), *size]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(json.loads(finished.stdout))


def main() -> None:
    """Run every case, print a table, and JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, nargs="+", default=[75, 750])
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--folder", type=Path, help="where the files are made, and removed again; default: temporary")
    parser.add_argument("--json", type=Path, help="also write the result here; - prints it in place of the table")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(write_and_sample(options.child, options.frames[0], options.height, options.width)))
        return
    cases = [run_case(num_frames, options) for num_frames in options.frames]
    growth = cases[-1]["peak_private_mb"] / cases[0]["peak_private_mb"]
    result = {"benchmark": "packet_memory", "cases": cases, "growth": round(growth, 3), "run": describe_run()}
    if options.json and str(options.json) != "-":
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if str(options.json) == "-":
        print(json.dumps(result, indent=2))
        return
    print("\n".join(markdown_table([tuple(cases[0]), *(tuple(case.values()) for case in cases)])))
    print(f"peak at {options.frames[-1]} frames / peak at {options.frames[0]} frames: {growth:.3f}")
    print(json.dumps(result["run"]))


if __name__ == "__main__":
    main()
