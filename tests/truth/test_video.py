"""Every way in which a finished file can differ from what was asked for is found."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.errors import SinkError
from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.output_truth import VideoTruth, check_video
from newsstudio_ditto.packet.reader import Packet
from tests.media import clips
from tests.render.tiny import FRAME, tiny_bundle, tiny_packet

NUM_SAMPLES = 3 * 16_000 + 100
NUM_FRAMES = 76
FRAME_CHROMA = FRAME.width * FRAME.height // 4
COLOURS = torch.tensor([[200, 40, 30], [30, 180, 60], [40, 60, 190], [210, 200, 40], [235, 235, 235], [12, 12, 12]])


def babble(num_samples: int) -> np.ndarray:
    """Noise that rises and falls as speech does, and never repeats."""
    draw = np.random.default_rng(2)
    loudness = np.repeat(10 ** draw.uniform(-2.2, -0.4, num_samples // 800 + 1), 800)[:num_samples]
    return np.asarray(draw.standard_normal(num_samples) * loudness * 0.3)


@pytest.fixture(scope="module")
def packet(tmp_path_factory: pytest.TempPathFactory) -> Packet:
    """Two frames of broad stripes in strong colours."""
    stripe = torch.arange(FRAME.width) * len(COLOURS) // FRAME.width
    picture = COLOURS[stripe].T[:, None, :].expand(3, FRAME.height, -1).to(torch.uint8)
    frames = picture.expand(2, -1, -1, -1).contiguous()
    return tiny_packet(tmp_path_factory.mktemp("packet"), tiny_bundle(), 2, frames=frames)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clips.write_wav(tmp_path_factory.mktemp("speech") / "speech.wav", babble(NUM_SAMPLES))


@pytest.fixture(scope="module")
def good(packet: Packet, speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(packet, speech, tmp_path_factory.mktemp("good") / "good.mp4")


def write(
    packet: Packet,
    speech: Path,
    output: Path,
    *,
    num_frames: int = NUM_FRAMES,
    crf: int = 18,
    frame: np.ndarray | None = None,
) -> Path:
    height, width = packet.frame_size
    frame = rgb_to_yuv420(packet.frames[:1])[0].numpy() if frame is None else frame
    sink = FfmpegSink(output, width=width, height=height, speech=speech, options=EncodeOptions(crf=crf), metadata={})
    with sink:
        for _ in range(num_frames):
            sink.write(frame)
    return output


def look(path: Path, speech: Path, packet: Packet | None = None) -> VideoTruth:
    return check_video(path, speech, packet=packet, lips="whole")


@pytest.mark.parametrize("crf", [18, 51])
def test_a_good_video_is_true(packet: Packet, speech: Path, tmp_path: Path, crf: int) -> None:
    truth = look(write(packet, speech, tmp_path / "a.mp4", crf=crf), speech, packet)
    assert truth.faults == ()
    assert truth.measured["colour_shift"] < 8
    assert truth.measured["sound_lost"] == 0
    assert truth.measured["sound_shift_ms"] == 0
    truth.require(tmp_path / "a.mp4")


def test_a_video_of_one_frame_is_true(packet: Packet, tmp_path: Path) -> None:
    short = clips.write_wav(tmp_path / "short.wav", babble(500))
    assert look(write(packet, short, tmp_path / "a.mp4", num_frames=1), short, packet).faults == ()


Spoil = Callable[[Path, Path], tuple[str, ...]]
SPOILT: dict[str, tuple[tuple[str, ...], str]] = {
    "a frame too few": (("-c", "copy", "-frames:v", "74"), "frames: expected 76, got"),
    "other rate": (("-r", "30", "-c:a", "copy"), "frames a second: expected 25, got 30"),
    "a late frame": (("-vf", "setpts=PTS+gt(N\\,40)*0.08/TB", "-fps_mode", "vfr", "-c:a", "copy"), "is shown at"),
    "no sound": (("-c", "copy", "-an"), "holds no sound"),
    "silence": (("-c:v", "copy", "-af", "volume=0"), "cannot be heard"),
    "silent in the middle": (("-c:v", "copy", "-af", "volume=0:enable='between(t,1,1.6)'"), "the first from 1.0"),
    "late sound": (("-c:v", "copy", "-af", "adelay=120:all=1", "-t", "3.04"), "120 ms too late"),
    "drifting sound": (("-c:v", "copy", "-af", "asetrate=15600,aresample=16000", "-t", "3.04"), "the sound"),
    "half the sound": (("-c:v", "copy", "-af", "atrim=0:1.5"), "the sound 1.5"),
    "no colour tags": (("-bsf:v", "h264_metadata=matrix_coefficients=2", "-c", "copy"), "colour tags: expected"),
    "full range tag": (("-bsf:v", "h264_metadata=video_full_range_flag=1", "-c", "copy"), "colour tags: expected"),
    "two streams": (("-map", "0", "-map", "0:a", "-c", "copy"), "streams of sound: expected 1, got 2"),
    "other size": (("-vf", "scale=126:96", "-c:a", "copy", *clips.BT709[2:]), "size in pixels: expected (128, 96)"),
    "no colour": (("-vf", "hue=s=0", *clips.BT709), "colours are off by"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_each_fault_is_found(name: str, packet: Packet, speech: Path, good: Path, tmp_path: Path) -> None:
    arguments, words = SPOILT[name]
    clips.run_ffmpeg(tmp_path, "-i", str(good), *arguments, "bad.mp4")
    faults = "; ".join(look(tmp_path / "bad.mp4", speech, packet).faults)
    assert words in faults


def stored_wrongly(packet: Packet, how: str) -> np.ndarray:
    """The packet's first frame as I420, in another way than the tags of a sink say."""
    if how == "bt601":
        return np.asarray(cv2.cvtColor(packet.frames[0].permute(1, 2, 0).numpy(), cv2.COLOR_RGB2YUV_I420)).reshape(-1)
    luma, red, blue = np.split(rgb_to_yuv420(packet.frames[:1])[0].numpy(), [4 * FRAME_CHROMA, 5 * FRAME_CHROMA])
    if how == "planes":
        return np.concatenate([luma, blue, red])
    chroma = (np.concatenate([red, blue]) - 128.0) * 255 / 224 + 128
    return np.concatenate([(luma - 16.0) * 255 / 219, chroma]).round().clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("how", "words"),
    [("bt601", "as bt601, limited range"), ("full range", "as bt709, full range"), ("planes", "colours are off by")],
)
@pytest.mark.parametrize("crf", [18, 40])
def test_colours_stored_otherwise_than_tagged_are_found(
    packet: Packet, speech: Path, tmp_path: Path, how: str, words: str, crf: int
) -> None:
    path = write(packet, speech, tmp_path / "a.mp4", frame=stored_wrongly(packet, how), crf=crf)
    (fault,) = look(path, speech, packet).faults
    assert words in fault


def test_another_speech_is_found(packet: Packet, speech: Path, good: Path, tmp_path: Path) -> None:
    other = clips.write_wav(tmp_path / "other.wav", np.roll(babble(NUM_SAMPLES), NUM_SAMPLES // 2))
    assert "not the speech" in look(good, other, packet).faults[0]
    assert look(good, speech, packet).is_true


def test_a_long_speech_is_compared_from_the_first_to_the_last_second(packet: Packet, tmp_path: Path) -> None:
    """Twelve chunks are heard of a longer speech; a loss between them is left to the whole check."""
    samples = babble(60 * 16_000)
    long = clips.write_wav(tmp_path / "long.wav", samples)
    path = write(packet, long, tmp_path / "long.mp4", num_frames=1500)
    assert check_video(path, long, packet=packet, lips="off").is_true
    clips.run_ffmpeg(tmp_path, "-i", "long.mp4", "-c:v", "copy", "-af", "volume=0:enable='gt(t,57)'", "cut.mp4")
    assert "the first from 5" in check_video(tmp_path / "cut.mp4", long, lips="off").faults[0]


def test_what_is_no_video_is_a_fault(speech: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.mp4").write_bytes(b"junk" * 100)
    assert "cannot be opened" in look(tmp_path / "junk.mp4", speech).faults[0]
    assert "does not exist" in look(tmp_path / "none.mp4", speech).faults[0]
    assert "neither picture" in look(speech, speech).faults[0] or "only sound" in look(speech, speech).faults[0]
    with pytest.raises(SinkError, match=r"not what was asked for: .*does not exist"):
        look(tmp_path / "none.mp4", speech).require(tmp_path / "none.mp4")


def test_a_cut_off_file_is_a_fault(speech: Path, good: Path, tmp_path: Path) -> None:
    content = good.read_bytes()
    (tmp_path / "cut.mp4").write_bytes(content[: len(content) * 2 // 3])
    assert not look(tmp_path / "cut.mp4", speech).is_true


def test_its_own_sound_stands_in_for_a_missing_speech(good: Path, packet: Packet) -> None:
    truth = check_video(good, packet=packet)
    assert truth.is_true
    assert "sound_lost" not in truth.measured
