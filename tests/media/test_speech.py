import logging
import wave
from pathlib import Path

import numpy as np
import pytest

from newsstudio_ditto.errors import EmptyAudioError, FfmpegError, MediaError, UnsupportedMediaError
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.units import count_frames
from tests.media import clips
from tests.media.fakes import fake_ffmpeg


def test_the_demo_speech() -> None:
    with wave.open(str(clips.SPEECH)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        stored = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    samples = read_speech(clips.SPEECH)
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, stored / 32768, atol=1e-6)
    samples[0] = 0.5  # callers may write


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("8k.wav", ("-ar", "8000")),
        ("44k.wav", ("-ar", "44100")),
        ("48k-stereo.wav", ("-ar", "48000", "-af", "pan=stereo|c0=c0|c1=c0")),
        ("24bit.wav", ("-c:a", "pcm_s24le")),
        ("32bit.wav", ("-c:a", "pcm_s32le")),
        ("float.wav", ("-c:a", "pcm_f32le")),
        ("unsigned.wav", ("-c:a", "pcm_u8")),
        ("a.flac", ()),
        ("a.w64", ()),
        ("a.aiff", ()),
        ("a.mka", ("-c:a", "pcm_s16le")),
    ],
)
def test_lossless_formats_give_every_sample(tmp_path: Path, name: str, codec: tuple[str, ...]) -> None:
    tone = clips.gated_tone()
    clips.write_wav(tmp_path / "s.wav", tone)
    clips.run_ffmpeg(tmp_path, "-i", "s.wav", *codec, name)
    samples = read_speech(tmp_path / name)
    assert samples.shape == (48000,)
    assert np.sqrt(np.mean((samples - tone) ** 2)) < 0.02


@pytest.mark.parametrize(
    ("name", "codec"), [("a.m4a", "aac"), ("a.ogg", "libvorbis"), ("a.opus", "libopus"), ("a.mp3", "libmp3lame")]
)
def test_lossy_formats_keep_length_and_timing(tmp_path: Path, name: str, codec: str) -> None:
    tone = clips.gated_tone()
    clips.write_wav(tmp_path / "s.wav", tone)
    clips.run_ffmpeg(tmp_path, "-i", "s.wav", "-c:a", codec, "-b:a", "96k", name)
    samples = read_speech(tmp_path / name)
    assert abs(count_frames(len(samples)) - 75) <= 2
    wanted, found = (np.abs(voice[: 75 * 640 - 1920]).reshape(-1, 640).mean(axis=1) for voice in (tone, samples))
    assert np.corrcoef(wanted, found)[0, 1] > 0.9


def test_the_suffix_means_nothing(tmp_path: Path) -> None:
    clips.write_wav(tmp_path / "s.wav", clips.gated_tone())
    clips.run_ffmpeg(tmp_path, "-i", "s.wav", "a.flac")
    (tmp_path / "a.flac").rename(tmp_path / "a.mp3")
    assert read_speech(tmp_path / "a.mp3").shape == (48000,)


def test_length_is_decoded_not_promised(tmp_path: Path) -> None:
    voice = np.concatenate([np.zeros(80000), clips.gated_tone(5.0) + np.random.default_rng(0).normal(0, 0.02, 80000)])
    clips.write_wav(tmp_path / "s.wav", voice)
    clips.run_ffmpeg(tmp_path, "-i", "s.wav", "-c:a", "libmp3lame", "-q:a", "4", "-write_xing", "0", "bare.mp3")
    assert abs(len(read_speech(tmp_path / "bare.mp3")) / 16000 - 10) < 0.15


@pytest.mark.parametrize("count", [1, 399, 400, 640])
def test_tiny_speech_is_read_whole(tmp_path: Path, count: int) -> None:
    assert read_speech(clips.write_wav(tmp_path / "s.wav", np.full(count, 0.25))).shape == (count,)


def test_stereo_is_averaged(tmp_path: Path) -> None:
    clips.run_ffmpeg(tmp_path, "-f", "lavfi", "-i", "aevalsrc=0.5|0.1:s=16000:d=1", "-c:a", "pcm_f32le", "s.wav")
    np.testing.assert_allclose(read_speech(tmp_path / "s.wav"), 0.3, atol=1e-4)


def test_sound_of_a_video_is_taken(tmp_path: Path) -> None:
    clips.run_ffmpeg(tmp_path, "-i", str(clips.ANCHOR), "-i", str(clips.SPEECH), "-c:a", "flac", "-t", "2", "v.mkv")
    assert read_speech(tmp_path / "v.mkv").shape == (32000,)


def test_empty_speech_is_named(tmp_path: Path) -> None:
    (tmp_path / "zero.wav").touch()
    for path in (clips.write_wav(tmp_path / "header.wav", np.zeros(0)), tmp_path / "zero.wav"):
        with pytest.raises(EmptyAudioError, match=path.name):
            read_speech(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    samples = clips.gated_tone().astype(np.float32)
    samples[8000] = bad
    with pytest.raises(UnsupportedMediaError, match=r"first at 0\.500 s"):
        read_speech(clips.write_float_wav(tmp_path / "s.wav", samples))


def test_a_file_without_sound_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no sound"):
        read_speech(clips.ANCHOR)
    with pytest.raises(MediaError, match="does not exist"):
        read_speech(tmp_path / "missing.wav")
    (tmp_path / "text.wav").write_text("hello " * 100)
    with pytest.raises(MediaError, match="cannot be opened"):
        read_speech(tmp_path / "text.wav")


@pytest.mark.parametrize(
    "name", ["-y.wav", "it's.wav", "$(touch X).wav", "a:b.wav", "a%03d.wav", "ведущий.wav", "pipe:0.wav"]
)
def test_hostile_names_mean_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clips.write_wav(Path(name), np.full(1600, 0.1))
    assert read_speech(Path(name)).shape == (1600,)
    assert [path.name for path in Path().iterdir()] == [name]


def test_flaws_are_logged_and_failures_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flawed = fake_ffmpeg(tmp_path, "head -c 64 /dev/zero; echo 'a packet was lost' >&2")
    with caplog.at_level(logging.WARNING):
        assert read_speech(clips.SPEECH, ffmpeg=flawed).shape == (16,)
    assert [record.complaint for record in caplog.records if hasattr(record, "complaint")] == ["a packet was lost"]
    broken = fake_ffmpeg(tmp_path, "yes noise | head -c 300000 >&2; echo 'no luck' >&2; exit 4")
    with pytest.raises(MediaError, match="cannot be decoded: no luck"):
        read_speech(clips.SPEECH, ffmpeg=broken)


def test_a_hanging_or_missing_ffmpeg_is_named(tmp_path: Path) -> None:
    with pytest.raises(FfmpegError, match="more than 0 s"):
        read_speech(clips.SPEECH, ffmpeg=fake_ffmpeg(tmp_path, "exec sleep 30"), timeout_s=0.3)
    with pytest.raises(FfmpegError, match="cannot be started"):
        read_speech(clips.SPEECH, ffmpeg=tmp_path / "nowhere")
