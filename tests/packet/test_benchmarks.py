"""The packet benchmarks run, and what they measure holds at small sizes too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_benchmark(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / name), "--json", "-", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return dict(json.loads(finished.stdout))


def test_memory_does_not_grow_with_frames(tmp_path: Path) -> None:
    size = ("--height", "256", "--width", "256", "--folder", str(tmp_path))
    result = run_benchmark("packet_memory.py", "--frames", "8", "48", *size)
    few, many = result["cases"]
    assert many["written_mb"] > 5.5 * few["written_mb"]
    # One more chunk held for long would be 17 MB; all frames would be 200 MB.
    assert many["added_private_mb"] < few["added_private_mb"] + 10
    assert list(tmp_path.iterdir()) == []
