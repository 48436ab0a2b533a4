"""Live motion and pictures in this process: streamed equals whole, and nothing jumps."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newsstudio_ditto.daemon.live.encoder import FragmentEncoder, codecs_of, live_args
from newsstudio_ditto.daemon.live.features import LOOK_AHEAD_FRAMES, FeatureStream
from newsstudio_ditto.daemon.live.motion import LiveMotion, LiveOptions, PoseLine
from newsstudio_ditto.daemon.live.session import LiveReport, LiveSession
from newsstudio_ditto.errors import SinkError, UsageError
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.media.probe import probe
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.stages.speech import compute_speech_features
from tests.daemon.running import tone

QUICK = LiveOptions(overlap_frames=70, num_steps=3, gap_s=0.15, fade_frames=6)
LEAD_S = 0.12


def speech(seconds: float) -> np.ndarray:
    return tone(seconds).astype(np.float32) / 32768.0


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(num_samples=st.integers(1, 30_000), cuts=st.lists(st.integers(1, 9000), max_size=6))
def test_features_of_a_stream_are_those_of_the_whole_speech(
    bundle: ModelBundle, num_samples: int, cuts: list[int]
) -> None:
    samples = speech(2.0)[:num_samples]
    stream, rows, place = FeatureStream(bundle), [], 0
    for size in cuts:
        rows.append(stream.feed(samples[place : place + size]))
        place += size
    rows += [stream.feed(samples[place:]), stream.finish()]
    whole = compute_speech_features(samples, bundle)
    streamed = torch.cat(rows)
    assert streamed.shape == whole.shape
    torch.testing.assert_close(streamed, whole, rtol=1e-4, atol=1e-5)


def test_a_feature_row_needs_no_more_than_the_documented_look_ahead(bundle: ModelBundle) -> None:
    samples = speech(2.0)
    stream, num_rows = FeatureStream(bundle), 0
    for frame in range(len(samples) // 640):
        num_rows += len(stream.feed(samples[frame * 640 : (frame + 1) * 640]))
        assert num_rows >= frame + 1 - LOOK_AHEAD_FRAMES


def motion_of(packet: Packet, engine: Engine, features: torch.Tensor, chunk: int) -> torch.Tensor:
    return torch.cat(list(LiveMotion(packet, engine, QUICK).utter(torch.split(features, chunk), 0)))


@pytest.mark.parametrize("avatar", ["clip_packet", "still_packet"])
def test_streamed_motion_is_that_of_the_whole_speech(
    avatar: str, bundle: ModelBundle, engine: Engine, request: pytest.FixtureRequest
) -> None:
    packet = request.getfixturevalue(avatar)
    features = compute_speech_features(speech(4.3), bundle)
    whole = motion_of(packet, engine, features, len(features))
    assert whole.shape == (len(features), 265)
    for chunk in (1, 5, 7):
        assert torch.equal(motion_of(packet, engine, features, chunk), whole)


def test_motion_does_not_depend_on_speech_past_the_look_ahead(
    clip_packet: Packet, bundle: ModelBundle, engine: Engine
) -> None:
    """What has come out for a prefix is what comes out for the whole; only the documented look-ahead may differ."""
    features = compute_speech_features(speech(4.0), bundle)
    whole = motion_of(clip_packet, engine, features, 5)
    strides = QUICK.look_ahead_frames - LOOK_AHEAD_FRAMES
    assert strides == 19
    for heard in (40, 63, 85):
        prefix = motion_of(clip_packet, engine, features[:heard], 5)
        assert torch.equal(prefix[: heard - strides], whole[: heard - strides])
    assert not torch.equal(motion_of(clip_packet, engine, features[:63], 5), whole[:63])


def test_motion_comes_out_no_later_than_documented(clip_packet: Packet, bundle: ModelBundle, engine: Engine) -> None:
    features = compute_speech_features(speech(3.0), bundle)
    heard = 0

    def counted() -> object:
        nonlocal heard
        for row in features:
            heard += 1
            yield row[None]

    out = 0
    for rows in LiveMotion(clip_packet, engine, QUICK).utter(counted(), 0):  # type: ignore[arg-type]
        # the first frame of this chunk was known as soon as this much had been heard
        assert heard - (out + 1) <= QUICK.look_ahead_frames - LOOK_AHEAD_FRAMES
        out += len(rows)
    assert out == len(features)


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.frames: list[np.ndarray] = []
        self.sound = b""
        self.marks: list[int] = []

    def write(self, frame: np.ndarray, sound: bytes) -> None:
        assert len(sound) == 1280
        self.frames.append(frame.copy())
        self.sound += sound

    def mark(self) -> None:
        self.marks.append(len(self.frames))

    def marked_s(self) -> float | None:
        return None


def spoken(packet: Packet, engine: Engine, *utterances: np.ndarray) -> tuple[Kept, LiveReport, list[FramePlan]]:
    """A session in which utterances were pushed at once, one after the other, each ended."""
    sink, plans = Kept(), []
    session = LiveSession(packet, engine, sink, QUICK)
    render = session._picture.render

    def watched(plan: FramePlan) -> object:
        plans.append(plan)
        return render(plan)

    session._picture.render = watched  # type: ignore[method-assign, assignment]
    for samples in utterances:
        for start in range(0, len(samples), 3200):
            session.push(samples[start : start + 3200].tobytes())
        session.end_utterance()
    session.stop()
    return sink, session.run(), plans


def test_a_session_says_every_utterance_with_its_own_sound(clip_packet: Packet, engine: Engine) -> None:
    first, second = tone(1.3), tone(0.5, hz=330)
    sink, report, _ = spoken(clip_packet, engine, first, second)
    assert (report.utterances, report.speech_frames) == (2, 33 + 13)
    assert report.idle_frames == len(sink.frames) - report.speech_frames
    assert report.speech_seconds == pytest.approx(1.8)
    assert len(sink.sound) == 1280 * len(sink.frames)
    for samples, start in zip((first, second), sink.marks, strict=True):
        said = sink.sound[1280 * start : 1280 * start + 2 * len(samples)]
        assert said == samples.tobytes()  # sound begins with the first frame of its utterance
    assert report.real_time_factor is not None


def test_the_picture_never_jumps(still_packet: Packet, engine: Engine) -> None:
    """From idling to speech, through it, and back: no step of a keypoint is larger than fades and speech explain."""
    _, report, plans = spoken(still_packet, engine, tone(1.3), tone(1.0))
    assert report.utterances == 2
    driving = torch.cat([plan.driving_keypoints for plan in plans])
    rest = PoseLine(still_packet, engine).idle(1).driving_keypoints[0]
    away = (driving - rest).abs().amax(dim=(1, 2))
    assert away[0] == 0, "the session begins with the source's own face"
    assert away[-1] < away.max() / 3, "and returns to it"
    steps = driving.diff(dim=0).abs().amax(dim=(1, 2))
    kinds = [torch.full((plan.num_frames,), index) for index, plan in enumerate(plans)]
    borders = torch.cat(kinds).diff() != 0
    inside = steps[~borders].max()
    assert steps[borders].max() <= inside + away.max() / (QUICK.fade_frames + 1)


def test_the_clip_behind_goes_on_without_a_break(clip_packet: Packet, engine: Engine) -> None:
    line = PoseLine(clip_packet, engine)
    motion = torch.zeros(4, 265)
    plans = [line.idle(3), line.speak(motion, torch.ones(4), motion[0]), line.idle(6)]
    index = np.concatenate([plan.source_index for plan in plans])
    assert index.tolist() == mirror_index(np.arange(13, dtype=np.int64), 5).tolist()


class Leaving(Kept):
    """Stops its session when so many frames have come since the first one of speech, and keeps the time of each."""

    def __init__(self, num_frames: int) -> None:
        super().__init__()
        self.num_frames = num_frames
        self.came_s: list[float] = []
        self.session: LiveSession | None = None

    def write(self, frame: np.ndarray, sound: bytes) -> None:
        self.came_s.append(time.monotonic())
        super().write(frame, sound)
        if self.session is not None and self.marks and len(self.frames) == self.marks[0] + self.num_frames:
            self.session.stop()


def test_silence_ends_an_utterance_and_idle_frames_do_not_hurry(clip_packet: Packet, engine: Engine) -> None:
    num_speech, num_idle = 8, 12
    sink = Leaving(num_speech + QUICK.fade_frames + num_idle)
    sink.session = session = LiveSession(clip_packet, engine, sink, QUICK)
    session.push(tone(0.3).tobytes())
    began_s = time.monotonic()
    report = session.run()
    assert (report.utterances, report.speech_frames) == (1, num_speech)
    assert report.idle_frames == len(sink.frames) - num_speech == sink.marks[0] + QUICK.fade_frames + num_idle
    # However slow the machine is, a frame may come late, but none before its time, less the documented lead.
    for index in range(len(sink.frames) - num_idle, len(sink.frames)):
        assert sink.came_s[index] - began_s > index / 25 - LEAD_S - 0.01


def test_a_long_utterance_is_cut_and_goes_on(clip_packet: Packet, engine: Engine) -> None:
    sink = Kept()
    options = LiveOptions(num_steps=2, utterance_s=1.0, gap_s=0.15)
    session = LiveSession(clip_packet, engine, sink, options)
    samples = tone(2.5)
    session.push(samples.tobytes())
    session.end_utterance()
    session.stop()
    report = session.run()
    assert (report.utterances, report.speech_frames) == (3, 25 + 25 + 13)
    assert np.frombuffer(sink.sound, "<i2")[np.frombuffer(sink.sound, "<i2") != 0].size == np.count_nonzero(samples)


def test_half_a_sample_is_refused(clip_packet: Packet, engine: Engine) -> None:
    session = LiveSession(clip_packet, engine, Kept(), QUICK)
    with pytest.raises(UsageError, match="16-bit"):
        session.push(b"123")
    with pytest.raises(UsageError, match="overlap_frames"):
        LiveOptions(overlap_frames=30)


def test_ffmpeg_is_asked_for_fragments_at_once() -> None:
    args = live_args(width=64, height=48, sound_pipe=7)
    assert args[args.index("-i") + 1] == "pipe:0"
    assert "pipe:7" in args
    assert args[args.index("-tune") + 1] == "zerolatency"
    assert args[args.index("-profile:v") + 1] == "baseline"
    assert args[-1] == "pipe:1"


def test_fragments_come_while_frames_are_written_and_make_a_playable_file(tmp_path: Path) -> None:
    pieces: list[bytes] = []
    with FragmentEncoder(width=64, height=48, on_bytes=pieces.append) as encoder:
        for index in range(50):
            encoder.write(np.full(64 * 48 * 3 // 2, index * 4, np.uint8), tone(0.04).tobytes())
            if index == 25:
                encoder.mark()
        assert codecs_of(b"".join(pieces)[:200]) is None
        early = len(pieces)
    assert early > 3, "fragments leave before the end"
    assert encoder.marked_s() is not None
    whole = b"".join(pieces)
    assert (codecs_of(whole) or "").startswith("avc1.42c0")
    path = tmp_path / "live.mp4"
    path.write_bytes(whole)
    facts = probe(path)
    assert facts.video is not None
    assert facts.audio is not None
    assert (facts.video.codec, facts.video.width_px, facts.audio.codec) == ("h264", 64, "aac")


def test_a_reader_that_fails_fails_the_writer() -> None:
    def fail(_piece: bytes) -> None:
        raise UsageError("gone")

    with pytest.raises(UsageError, match="gone"), FragmentEncoder(width=64, height=48, on_bytes=fail) as encoder:
        for _ in range(500):
            encoder.write(np.zeros(64 * 48 * 3 // 2, np.uint8), bytes(1280))


def test_an_ffmpeg_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsstudio_ditto.daemon.live.encoder.find_ffmpeg", lambda: Path("/bin/false"))
    with pytest.raises(SinkError), FragmentEncoder(width=64, height=48, on_bytes=lambda _piece: None) as encoder:
        for _ in range(200):
            encoder.write(np.zeros(64 * 48 * 3 // 2, np.uint8), bytes(1280))
