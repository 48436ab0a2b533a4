"""Stand-ins for an FFmpeg that misbehaves."""

from pathlib import Path


def fake_ffmpeg(folder: Path, script: str) -> Path:
    """A program that runs a shell script, whatever its arguments."""
    path = folder / "fake-ffmpeg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
