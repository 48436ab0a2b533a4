"""Small media files, made with the real FFmpeg."""

import struct
import subprocess
import wave
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.media.ffmpeg import find_ffmpeg

Pixels = NDArray[np.uint8]

PACKAGE = Path(__file__).parents[2] / "newsstudio_ditto"
ANCHOR = Path(__file__).parents[1] / "media_files" / "presenter_320.mp4"
BT709 = (
    *("-color_range", "tv", "-color_primaries", "bt709", "-color_trc", "bt709", "-colorspace", "bt709"),
    *("-bsf:v", "h264_metadata=colour_primaries=1:transfer_characteristics=1:matrix_coefficients=1"),
)
"""Tags, whatever the pictures are."""

SPEECH = PACKAGE / "bundled" / "demo" / "speech.wav"


def run_ffmpeg(folder: Path, *arguments: str) -> None:
    """Run FFmpeg in a folder; file names are relative to it."""
    subprocess.run([str(find_ffmpeg()), "-y", "-v", "error", "-nostdin", *arguments], check=True, cwd=folder)


def frames_of(path: Path) -> list[Pixels]:
    return list(decode_frames(path).frames)


def make_clip(
    folder: Path, name: str, *, size: str = "96x64", rate: str = "25", seconds: float = 1.0, extra: tuple[str, ...] = ()
) -> Path:
    """A moving test pattern."""
    source = f"testsrc2=s={size}:r={rate}:d={seconds}"
    run_ffmpeg(folder, "-f", "lavfi", "-i", source, "-c:v", "libx264", "-pix_fmt", "yuv420p", *extra, "file:" + name)
    return folder / name


def write_wav(path: Path, samples: NDArray[np.floating], *, rate_hz: int = 16000) -> Path:
    """Mono 16-bit."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def write_float_wav(path: Path, samples: NDArray[np.float32]) -> Path:
    """Mono 32-bit float, 16 kHz, which may hold NaN."""
    body = samples.astype("<f4").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(body),
        b"WAVE",
        b"fmt ",
        16,
        3,
        1,
        16000,
        64000,
        4,
        32,
        b"data",
        len(body),
    )
    path.write_bytes(head + body)
    return path


def gated_tone(seconds: float = 3.0, *, rate_hz: int = 16000) -> NDArray[np.float64]:
    """Harmonics that open and close three times a second, like speech."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    voice = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 6))
    return np.asarray(0.2 * voice * (np.sin(2 * np.pi * 3 * time) > 0))


def write_png(path: Path, pixels: NDArray[np.uint8] | NDArray[np.uint16], *, orientation: int | None = None) -> Path:
    """Grey (H, W), RGB or RGBA (H, W, 3 or 4); 8 or 16 bits; optionally with an eXIf block."""
    kinds = {1: 0, 3: 2, 4: 6}
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    depth = pixels.dtype.itemsize * 8
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(pixels.shape[0], -1)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, kinds[channels], 0, 0, 0)
    blocks = [(b"IHDR", head)]
    if orientation is not None:
        blocks.append((b"eXIf", exif_block(orientation)))
    blocks += [(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in blocks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


def exif_block(orientation: int, *, order: str = ">") -> bytes:
    """A TIFF block whose only entry is the orientation."""
    start = {">": b"MM\0*", "<": b"II*\0"}[order]
    return start + struct.pack(f"{order}IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def add_jpeg_exif(path: Path, orientation: int, *, order: str = ">") -> None:
    """Put an EXIF block behind the start of a JPEG file."""
    body = b"Exif\0\0" + exif_block(orientation, order=order)
    content = path.read_bytes()
    path.write_bytes(content[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + content[2:])


def gradient(height: int = 48, width: int = 64) -> Pixels:
    """A picture without symmetry (height, width, 3)."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // (width - 1), y * 255 // (height - 1), np.full_like(x, 60)], axis=-1).astype(np.uint8)
