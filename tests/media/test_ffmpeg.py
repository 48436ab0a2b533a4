import logging
import os
from pathlib import Path

import imageio_ffmpeg
import pytest

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import FfmpegError
from newsstudio_ditto.media.encode_args import encode_args, preflight_args, speech_args
from newsstudio_ditto.media.ffmpeg import choose_encoder, find_ffmpeg, last_line, preflight
from tests.media.fakes import fake_ffmpeg

QUIET = ["-hide_banner", "-loglevel", "error", "-nostdin"]


def test_encode_args_whole() -> None:
    argv = encode_args(
        width=720,
        height=1280,
        speech=Path("in/it's $(x).wav"),
        output=Path("out/-y %03d.mp4"),
        options=EncodeOptions(),
        comment='{"a": "b=c"}',
    )
    assert argv == [
        *QUIET,
        *("-f", "rawvideo", "-pix_fmt", "yuv420p", "-r", "25", "-s", "720x1280", "-i", "pipe:0"),
        *("-i", "file:in/it's $(x).wav"),
        "-filter_complex",
        "[0]setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv[s0];[1:a:0]asetpts=N/SR/TB[s1]",
        *("-map", "[s0]", "-map", "[s1]", "-f", "mp4", "-aac_coder", "fast", "-b:a", "160k"),
        *("-c:a", "aac", "-c:v", "libx264"),
        *("-color_primaries", "bt709", "-color_range", "tv", "-color_trc", "bt709", "-colorspace", "bt709"),
        *("-crf", "18", "-map_chapters", "-1", "-map_metadata", "-1", "-metadata", 'comment={"a": "b=c"}'),
        *("-movflags", "+faststart", "-pix_fmt", "yuv420p", "-preset", "veryfast"),
        "file:out/-y %03d.mp4",
        "-y",
    ]


def test_speech_args_whole() -> None:
    assert speech_args(Path("-y.wav")) == [
        *QUIET,
        *("-protocol_whitelist", "file", "-i", "file:-y.wav", "-map", "0:a:0"),
        *("-f", "f32le", "-ac", "1", "-ar", "16000", "-c:a", "pcm_f32le", "-rematrix_maxval", "1", "pipe:1", "-y"),
    ]


def test_preflight_args_whole() -> None:
    assert preflight_args("h264_nvenc", side_px=256) == [
        *QUIET,
        *("-f", "rawvideo", "-pix_fmt", "yuv420p", "-r", "25", "-s", "256x256", "-i", "pipe:0"),
        *("-f", "null", "-c:v", "h264_nvenc", "-frames:v", "1", "-", "-y"),
    ]


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ("libx265", ["-crf", "30", "-preset", "slow"]),
        ("h264_nvenc", ["-cq", "30", "-preset", "p4", "-rc", "vbr"]),
        ("h264_qsv", ["-c:v", "h264_qsv"]),
    ],
)
def test_each_encoder_family_has_its_own_words(encoder: str, words: list[str]) -> None:
    options = EncodeOptions(encoder=encoder, preset="slow", crf=30)
    argv = encode_args(width=2, height=2, speech=Path("a"), output=Path("b"), options=options, comment="")
    pairs = {(argv[i], argv[i + 1]) for i in range(len(argv) - 1)}
    assert set(zip(words[::2], words[1::2], strict=True)) <= pairs
    assert ("-crf" in argv) == encoder.startswith("lib")


def test_ffmpeg_of_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ffmpeg(tmp_path, "true").rename(tmp_path / "ffmpeg")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ffmpeg() == tmp_path / "ffmpeg"


def test_the_packaged_ffmpeg_is_the_second_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ffmpeg() == Path(imageio_ffmpeg.get_ffmpeg_exe())


def test_no_ffmpeg_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", absent)
    with pytest.raises(FfmpegError, match="not found") as caught:
        find_ffmpeg()
    assert "install ffmpeg" in caught.value.hint


def test_preflight_encodes_for_real() -> None:
    preflight("libx264")
    with pytest.raises(FfmpegError, match=r"cannot encode with no_such_encoder: .*[Uu]nknown encoder|cannot encode"):
        preflight("no_such_encoder")


def test_a_listed_encoder_that_fails_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = 'case "$*" in *nvenc*) cat >/dev/null; echo "No capable devices found" >&2; exit 1;; esac; cat >/dev/null'
    ffmpeg = fake_ffmpeg(tmp_path, script)
    asked = EncodeOptions(encoder="h264_nvenc", crf=20)
    with caplog.at_level(logging.WARNING):
        assert choose_encoder(asked, ffmpeg=ffmpeg) == EncodeOptions(encoder="libx264", crf=20)
    (record,) = caplog.records
    assert record.__dict__["encoder"] == "h264_nvenc"
    assert "No capable devices found" in record.__dict__["reason"]


def test_an_encoder_that_works_is_kept() -> None:
    assert choose_encoder(EncodeOptions()) == EncodeOptions()


def test_auto_takes_the_first_hardware_encoder_that_works(tmp_path: Path) -> None:
    script = 'case "$*" in *nvenc*|*264_amf*) cat >/dev/null; exit 1;; esac; cat >/dev/null'
    assert choose_encoder(EncodeOptions(encoder="auto", crf=20), ffmpeg=fake_ffmpeg(tmp_path, script)) == EncodeOptions(
        encoder="h264_videotoolbox", crf=20
    )


def test_auto_falls_back_on_software_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = 'case "$*" in *libx264*) cat >/dev/null;; *) cat >/dev/null; exit 1;; esac'
    with caplog.at_level(logging.WARNING):
        chosen = choose_encoder(EncodeOptions(encoder="auto"), ffmpeg=fake_ffmpeg(tmp_path, script))
    assert chosen == EncodeOptions(encoder="libx264")
    assert not caplog.records


def test_what_worked_is_not_tried_again_until_the_program_changes(tmp_path: Path) -> None:
    ffmpeg = fake_ffmpeg(tmp_path, f"echo tried >> {tmp_path}/trials; cat >/dev/null")
    for _ in range(3):
        choose_encoder(EncodeOptions(), ffmpeg=ffmpeg)
    assert (tmp_path / "trials").read_text().split() == ["tried"]
    os.utime(ffmpeg, ns=(1, 1))
    choose_encoder(EncodeOptions(), ffmpeg=ffmpeg)
    assert (tmp_path / "trials").read_text().split() == ["tried", "tried"]


def test_a_software_encoder_that_fails_is_an_error(tmp_path: Path) -> None:
    ffmpeg = fake_ffmpeg(tmp_path, "echo 'Unknown encoder' >&2; exit 8")
    with pytest.raises(FfmpegError, match="Unknown encoder"):
        choose_encoder(EncodeOptions(), ffmpeg=ffmpeg)
    with pytest.raises(FfmpegError, match="Unknown encoder"):
        choose_encoder(EncodeOptions(encoder="h264_nvenc"), ffmpeg=ffmpeg)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(FfmpegError, match="cannot be started"):
        preflight("libx264", ffmpeg=tmp_path / "nowhere")


def test_last_line() -> None:
    assert last_line(b"one\n two \n\n") == "two"
    assert last_line(b"\xff\n") == "\ufffd"
    assert last_line(b" \n") == "it gave no reason"
