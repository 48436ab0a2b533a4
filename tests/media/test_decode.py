import logging
import struct
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from newsstudio_ditto.errors import MediaError, UnsupportedMediaError, UsageError
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.media.probe import probe
from tests.media import clips

CMYK = Path(__file__).parents[1] / "golden" / "media" / "cmyk.jpg"
CMYK_MEAN_BY_PILLOW = (153.0, 97.15, 34.09)


def difference(one: list[clips.Pixels], other: list[clips.Pixels]) -> float:
    return float(np.abs(np.stack(one).astype(int) - np.stack(other)).mean())


def test_a_presenter_clip() -> None:
    stream = decode_frames(clips.ANCHOR, max_frames=10)
    frames = list(stream.frames)
    assert (stream.width, stream.height, len(frames)) == (320, 320, 10)
    assert stream.num_frames is None
    assert stream.estimated_frames == 10
    assert stream.facts.duration_s == pytest.approx(6.0)
    assert {(frame.shape, frame.dtype, frame.flags.c_contiguous) for frame in frames} == {
        ((320, 320, 3), np.dtype(np.uint8), True)
    }


@pytest.mark.parametrize(("degrees", "turn"), [(90, "transpose=2"), (180, "hflip,vflip"), (270, "transpose=1")])
def test_rotation_tags_are_applied(tmp_path: Path, degrees: int, turn: str) -> None:
    clips.make_clip(tmp_path, "v.mp4", seconds=0.4)
    clips.run_ffmpeg(tmp_path, "-display_rotation", str(degrees), "-i", "v.mp4", "-c", "copy", "tagged.mp4")
    clips.run_ffmpeg(tmp_path, "-i", "v.mp4", "-vf", turn, "-crf", "1", "twin.mp4")
    video = probe(tmp_path / "tagged.mp4").video
    assert video is not None
    assert (video.width_px, video.height_px) == ((64, 96) if degrees != 180 else (96, 64))
    tagged, twin = clips.frames_of(tmp_path / "tagged.mp4"), clips.frames_of(tmp_path / "twin.mp4")
    assert len(tagged) == len(twin) == 10
    assert difference(tagged, twin) < 2


def test_averaging_chroma_restores_what_was_stored(tmp_path: Path) -> None:
    tagged = ("-vf", "setparams=colorspace=bt709:range=tv", "-chroma_sample_location", "left", "-qp", "12")
    path = clips.make_clip(tmp_path, "v.mp4", seconds=0.1, extra=tagged)
    with av.open(str(path)) as container:
        stored = next(container.decode(video=0)).to_ndarray()
    frame = clips.frames_of(path)[0]
    rgb = frame / 255
    red = (rgb[..., 0] - rgb @ (0.2126, 0.7152, 0.0722)) / (2 * 0.7874) * 224 + 128
    inside = ((frame > 0) & (frame < 255)).all(axis=-1).reshape(32, 2, 48, 2).all(axis=(1, 3))
    assert inside.mean() > 0.1
    error = red.reshape(32, 2, 48, 2).mean(axis=(1, 3)) - stored[80:].reshape(32, 48)
    assert np.abs(error[inside]).max() < 0.6


@pytest.mark.parametrize("rate", ["24000/1001", "30000/1001", "50"])
def test_other_rates_become_25_and_the_clock_holds(tmp_path: Path, rate: str) -> None:
    ramp = f"color=black:s=64x64:r={rate}:d=4,geq=lum='min(16+T*50,235)':cb=128:cr=128"
    clips.run_ffmpeg(tmp_path, "-f", "lavfi", "-i", ramp, "-c:v", "libx264", "-qp", "0", "v.mp4")
    stream = decode_frames(tmp_path / "v.mp4")
    frames = list(stream.frames)
    assert stream.facts.video is not None
    assert stream.facts.video.fps == Fraction(rate)
    assert abs(len(frames) - 100) <= 1
    for index in (0, 50, 99):
        clock_s = frames[index].mean() / 255 * 219 / 50
        assert abs(clock_s - index / 25) < 0.05


def test_odd_sizes_lose_one_pixel_and_nothing_is_rescaled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (47, 65, 3), np.uint8)
    path = clips.write_png(tmp_path / "odd.png", picture)
    with caplog.at_level(logging.INFO):
        stream = decode_frames(path)
    assert (stream.width, stream.height) == (64, 46)
    assert (stream.geometry.cropped_right_px, stream.geometry.cropped_bottom_px) == (1, 1)
    assert "cropped to an even size" in caplog.text
    np.testing.assert_array_equal(next(stream.frames), picture[:46, :64])


def test_odd_clips_too(tmp_path: Path) -> None:
    path = clips.make_clip(tmp_path, "odd.mp4", size="65x47", seconds=0.2, extra=("-pix_fmt", "yuv444p"))
    assert {frame.shape for frame in clips.frames_of(path)} == {(46, 64, 3)}


def test_square_pixels_keep_the_detail(tmp_path: Path) -> None:
    clips.make_clip(tmp_path, "v.mp4", size="96x64", seconds=0.2)
    for aspect, size in (("4/3", (64, 128)), ("1/2", (128, 96))):
        clips.run_ffmpeg(tmp_path, "-i", "v.mp4", "-vf", f"setsar={aspect}", "sar.mp4")
        assert clips.frames_of(tmp_path / "sar.mp4")[0].shape[:2] == size
    clips.run_ffmpeg(tmp_path, "-i", "v.mp4", "-vf", "setsar=9/1", "sar.mp4")
    with pytest.raises(UnsupportedMediaError, match="pixels of shape 9"):
        decode_frames(tmp_path / "sar.mp4")


def test_the_longer_side_is_limited(tmp_path: Path) -> None:
    path = clips.write_png(tmp_path / "large.png", clips.gradient(300, 200))
    stream = decode_frames(path, max_side_px=150)
    (frame,) = stream.frames
    assert frame.shape == (150, 100, 3)
    expected = cv2.resize(clips.gradient(300, 200), (100, 150), interpolation=cv2.INTER_AREA)
    np.testing.assert_array_equal(frame, expected)


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="max_side_px"):
        decode_frames(clips.ANCHOR, max_side_px=10)
    with pytest.raises(UsageError, match="max_frames"):
        decode_frames(clips.ANCHOR, max_frames=0)


def test_tags_decide_the_colours(tmp_path: Path) -> None:
    for matrix in ("bt709", "smpte170m"):
        for way in ("tv", "pc"):
            filters = (
                f"scale=out_color_matrix={matrix}:out_range={way},"
                f"format=yuv444p,setparams=colorspace={matrix}:range={way}"
            )
            clips.run_ffmpeg(
                tmp_path,
                "-f",
                "lavfi",
                "-i",
                "color=0xC83C28:s=64x64:r=25:d=0.1,format=rgb24",
                "-vf",
                filters,
                "-c:v",
                "libx264",
                "-qp",
                "0",
                "c.mp4",
            )
            assert np.abs(clips.frames_of(tmp_path / "c.mp4")[0].mean(axis=(0, 1)) - (200, 60, 40)).max() <= 2.5


@pytest.mark.parametrize("transfer", ["arib-std-b67", "smpte2084"])
def test_hdr_clips_are_refused(tmp_path: Path, transfer: str) -> None:
    filters = f"format=yuv420p10le,setparams=color_primaries=bt2020:color_trc={transfer}:colorspace=bt2020nc"
    clips.make_clip(
        tmp_path,
        "hdr.mp4",
        seconds=0.2,
        extra=("-vf", filters, "-c:v", "libx265", "-x265-params", "log-level=none", "-pix_fmt", "yuv420p10le"),
    )
    with pytest.raises(UnsupportedMediaError, match=transfer):
        decode_frames(tmp_path / "hdr.mp4")


def test_ten_bits_of_standard_range_are_welcome(tmp_path: Path) -> None:
    clips.make_clip(tmp_path, "eight.mp4", seconds=0.1, extra=("-qp", "0"))
    clips.make_clip(tmp_path, "ten.mp4", seconds=0.1, extra=("-pix_fmt", "yuv420p10le", "-qp", "0"))
    assert difference(clips.frames_of(tmp_path / "eight.mp4"), clips.frames_of(tmp_path / "ten.mp4")) < 1


def test_hidden_colours_never_show(tmp_path: Path) -> None:
    picture = np.dstack([clips.gradient(), np.zeros((48, 64), np.uint8)])
    picture[12:36, 16:48, 3] = 255
    picture[10:12, :, 3] = 100
    twin = picture.copy()
    twin[picture[..., 3] == 0, :3] = 255
    shown = [
        clips.frames_of(clips.write_png(tmp_path / f"{name}.png", rgba))[0]
        for name, rgba in (("a", picture), ("b", twin))
    ]
    np.testing.assert_array_equal(*shown)
    assert (shown[0][0, 0] == 128).all()
    np.testing.assert_array_equal(shown[0][12:36, 16:48], picture[12:36, 16:48, :3])
    (green,) = decode_frames(tmp_path / "a.png", background_rgb=(0, 177, 64)).frames
    assert green[0, 0].tolist() == [0, 177, 64]
    facts = probe(tmp_path / "a.png").video
    assert facts is not None
    assert facts.has_alpha


@pytest.mark.parametrize("name", ["a.webp", "a.bmp", "a.tiff", "a.jpg", "palette.png", "palette.gif"])
def test_stills_of_many_formats(tmp_path: Path, name: str) -> None:
    clips.write_png(tmp_path / "a.png", np.ascontiguousarray(np.asarray(clips.frames_of(clips.ANCHOR)[0])))
    palette = ("-vf", "split[a][b];[a]palettegen=max_colors=64[p];[b][p]paletteuse") if "palette" in name else ()
    clips.run_ffmpeg(tmp_path, "-i", "a.png", *palette, name)
    (frame,) = clips.frames_of(tmp_path / name)
    assert frame.shape == (320, 320, 3)
    assert np.abs(frame.astype(int) - clips.frames_of(tmp_path / "a.png")[0]).mean() < 8
    assert decode_frames(tmp_path / name).estimated_frames == 1


def test_grey_pictures_are_scaled_not_cut(tmp_path: Path) -> None:
    grey = np.linspace(0, 65535, 48 * 64).astype(np.uint16).reshape(48, 64)
    (frame,) = clips.frames_of(clips.write_png(tmp_path / "g16.png", grey))
    np.testing.assert_allclose(frame[..., 0], grey / 257, atol=1.5)
    assert (frame[..., 0] == frame[..., 2]).all()
    cv2.imwrite(str(tmp_path / "g.jpg"), (grey // 257).astype(np.uint8))
    (frame,) = clips.frames_of(tmp_path / "g.jpg")
    np.testing.assert_allclose(frame[..., 1], grey / 257, atol=4)


def test_cmyk_jpeg() -> None:
    (frame,) = clips.frames_of(CMYK)
    np.testing.assert_allclose(frame.mean(axis=(0, 1)), CMYK_MEAN_BY_PILLOW, atol=2)


def test_animated_pictures_are_clips(tmp_path: Path) -> None:
    clips.run_ffmpeg(tmp_path, "-f", "lavfi", "-i", "testsrc2=s=64x64:r=10:d=1", "anim.gif")
    assert len(clips.frames_of(tmp_path / "anim.gif")) == 25


@pytest.mark.parametrize(
    "name", ["a b", "it's", "ведущий", "-y", "$(touch X)", "a%03d", "a:b", "concat:a|b", "new\nline"]
)
@pytest.mark.parametrize("suffix", ["png", "mp4"])
def test_hostile_names_mean_nothing(tmp_path: Path, name: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if suffix == "png":
        clips.write_png(Path(f"{name}.png"), clips.gradient())
        clips.write_png(Path("a001.png"), clips.gradient()[::-1])
    else:
        clips.make_clip(tmp_path, "v.mp4", seconds=0.1)
        Path("v.mp4").rename(f"{name}.mp4")
    frames = clips.frames_of(Path(f"{name}.{suffix}"))
    assert len(frames) == (1 if suffix == "png" else 3)
    if suffix == "png":
        np.testing.assert_array_equal(frames[0], clips.gradient())
    assert not Path("X").exists()


def test_sound_is_no_anchor(tmp_path: Path) -> None:
    clips.write_png(tmp_path / "cover.png", clips.gradient())
    cover = ("-map", "0", "-map", "1", "-c:a", "libmp3lame", "-c:v", "copy", "-disposition:v", "attached_pic")
    clips.run_ffmpeg(tmp_path, "-i", str(clips.SPEECH), "-i", "cover.png", *cover, "song.mp3")
    assert probe(tmp_path / "song.mp3").has_cover
    for path, words in ((clips.SPEECH, "only sound"), (tmp_path / "song.mp3", "only sound and a cover picture")):
        with pytest.raises(MediaError, match=words) as caught:
            decode_frames(path)
        assert "anchor" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.mp4", None, "does not exist"),
        ("empty.mp4", b"", "0 bytes"),
        ("text.mp4", b"no video at all\n" * 90, "cannot be opened"),
        ("text.txt", b"no video at all\n" * 90, "a text"),
        ("list.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1,\nv.mp4\n#EXT-X-ENDLIST\n", "playlist"),
        ("list.ffconcat", b"ffconcat version 1.0\nfile v.mp4\n", "playlist"),
        ("cut.png", b"\x89PNG\r\n\x1a\n" + bytes(40), "c"),
    ],
)
def test_what_is_no_media_file_is_refused(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    clips.make_clip(tmp_path, "v.mp4", seconds=0.1)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(MediaError, match=words) as caught:
        decode_frames(tmp_path / name)
    assert caught.value.hint


def test_folders_and_heic_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="not a file"):
        decode_frames(tmp_path)
    clip = clips.make_clip(tmp_path, "v.mp4", seconds=0.1)
    clip.write_bytes(clip.read_bytes().replace(b"ftypisom", b"ftypheic", 1))
    with pytest.raises(UnsupportedMediaError, match="HEIC"):
        decode_frames(clip)


def test_a_cut_clip_gives_what_can_be_decoded(tmp_path: Path) -> None:
    clips.make_clip(tmp_path, "v.mkv")
    whole = (tmp_path / "v.mkv").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    assert 1 <= len(clips.frames_of(tmp_path / "cut.mkv")) < 25
    (tmp_path / "cut.mp4").write_bytes(clips.ANCHOR.read_bytes()[:5000])
    with pytest.raises(MediaError, match="cannot be opened"):
        decode_frames(tmp_path / "cut.mp4")


def test_lost_transparency_is_refused(tmp_path: Path) -> None:
    clips.make_clip(tmp_path, "v.mp4", seconds=0.1)
    clips.run_ffmpeg(tmp_path, "-i", "v.mp4", "-c:v", "libvpx-vp9", "-pix_fmt", "yuva420p", "-cpu-used", "8", "al.webm")
    with pytest.raises(UnsupportedMediaError, match="transparency"):
        decode_frames(tmp_path / "al.webm")


def test_a_change_of_size_is_refused(tmp_path: Path) -> None:
    for size in ("96x64", "64x64"):
        clips.make_clip(tmp_path, f"{size}.ts", size=size, seconds=0.4)
    (tmp_path / "both.ts").write_bytes(b"".join((tmp_path / f"{size}.ts").read_bytes() for size in ("96x64", "64x64")))
    with pytest.raises(UnsupportedMediaError, match="changes from 96x64 to 64x64"):
        clips.frames_of(tmp_path / "both.ts")


def test_huge_pictures_are_refused_before_decoding(tmp_path: Path) -> None:
    path = clips.write_png(tmp_path / "bomb.png", clips.gradient())
    content = bytearray(path.read_bytes())
    content[16:24] = (30000).to_bytes(4, "big") * 2
    path.write_bytes(content)
    with pytest.raises(MediaError):
        decode_frames(path)


def test_one_pixel_is_too_small(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="1x1 pixels small"):
        decode_frames(clips.write_png(tmp_path / "one.png", np.zeros((1, 1, 3), np.uint8)))


def test_a_tag_that_is_not_utf8_is_still_text(tmp_path: Path) -> None:
    path = clips.write_wav(tmp_path / "speech.wav", clips.gated_tone(0.2))
    title = b"INFOINAM" + struct.pack("<I", 6) + b"caf\xe9\0\0"
    content = path.read_bytes() + b"LIST" + struct.pack("<I", len(title)) + title
    path.write_bytes(content[:4] + struct.pack("<I", len(content) - 8) + content[8:])
    assert probe(path).tags["title"] == "caf\ufffd"
