import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.errors import UnsupportedMediaError
from newsstudio_ditto.media.exif import read_exif_orientation
from newsstudio_ditto.media.orientation import UPRIGHT, Orientation, orientation_of_turn, parse_display_matrix
from tests.media import clips

ONE = 1 << 16
orientations = st.builds(Orientation, st.booleans(), st.booleans(), st.booleans())


def matrix(a: int, b: int, c: int, d: int) -> bytes:
    return struct.pack("=9i", a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(
    "coefficients",
    [
        (1, 0, 0, 1),
        (-1, 0, 0, 1),
        (1, 0, 0, -1),
        (-1, 0, 0, -1),
        (0, 1, 1, 0),
        (0, -1, 1, 0),
        (0, 1, -1, 0),
        (0, -1, -1, 0),
    ],
)
def test_the_matrix_moves_every_point_as_it_says(coefficients: tuple[int, int, int, int]) -> None:
    a, b, c, d = coefficients
    stored = np.arange(12).reshape(3, 4)
    shown = parse_display_matrix(matrix(*coefficients)).apply(stored)
    points = {(a * x + c * y, b * x + d * y): stored[y, x] for y in range(3) for x in range(4)}
    left, top = min(x for x, _ in points), min(y for _, y in points)
    assert all(shown[y - top, x - left] == value for (x, y), value in points.items())


def test_no_rotation_and_no_matrix_are_upright() -> None:
    assert parse_display_matrix(matrix(1, 0, 0, 1)) == UPRIGHT
    assert parse_display_matrix(bytes(36)) == UPRIGHT


def test_odd_turns_are_refused() -> None:
    with pytest.raises(UnsupportedMediaError, match="multiple of 90"):
        parse_display_matrix(struct.pack("=9i", ONE, ONE, 0, -ONE, ONE, 0, 0, 0, 1 << 30))
    with pytest.raises(UnsupportedMediaError, match="multiple of 90"):
        orientation_of_turn(30)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, -90, -180])
def test_turns_are_counter_clockwise(degrees: int) -> None:
    picture = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(orientation_of_turn(degrees).apply(picture), np.rot90(picture, degrees // 90))


@given(orientations, st.integers(1, 5), st.integers(1, 5))
def test_size_agrees_with_apply(orientation: Orientation, height: int, width: int) -> None:
    picture = np.arange(height * width * 3).reshape(height, width, 3)
    turned = orientation.apply(picture)
    assert turned.shape[1::-1] == orientation.size(width, height)
    assert sorted(turned.ravel()) == sorted(picture.ravel())


UPRIGHT_FROM = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: p[::-1, ::-1],
    4: lambda p: p[::-1],
    5: lambda p: p.swapaxes(0, 1),
    6: lambda p: np.rot90(p, -1),
    7: lambda p: np.rot90(p[:, ::-1], -1),
    8: lambda p: np.rot90(p),
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_of_png_and_jpeg(tmp_path: Path, orientation: int) -> None:
    picture = clips.gradient()
    png = clips.write_png(tmp_path / "a.png", picture, orientation=orientation)
    (frame,) = clips.frames_of(png)
    np.testing.assert_array_equal(frame, UPRIGHT_FROM[orientation](picture))
    clips.run_ffmpeg(tmp_path, "-i", "a.png", "-q:v", "1", "-pix_fmt", "yuvj444p", "a.jpg")
    plain = tmp_path / "plain.jpg"
    clips.write_png(tmp_path / "plain.png", picture)
    clips.run_ffmpeg(tmp_path, "-i", "plain.png", "-q:v", "1", "-pix_fmt", "yuvj444p", "plain.jpg")
    clips.add_jpeg_exif(plain, orientation, order="<")
    (frame,) = clips.frames_of(plain)
    assert np.abs(frame.astype(int) - UPRIGHT_FROM[orientation](picture)).mean() < 3


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n\0\0", b"RIFF\4\0\0\0WEBP", b"MM\0*\0\0\0\xff", b"II*\0", b"GIF89a"],
)
def test_cut_files_count_as_upright(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cut"
    path.write_bytes(content)
    assert read_exif_orientation(path) == UPRIGHT


def test_exif_of_webp_and_tiff(tmp_path: Path) -> None:
    block = clips.exif_block(6, order="<")
    webp, tiff = tmp_path / "a.webp", tmp_path / "a.tiff"
    body = b"WEBP" + b"VP8 " + struct.pack("<I", 3) + b"abc\0" + b"EXIF" + struct.pack("<I", len(block)) + block
    webp.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    tiff.write_bytes(block)
    assert read_exif_orientation(webp) == read_exif_orientation(tiff) == orientation_of_turn(-90)
