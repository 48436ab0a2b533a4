"""Whether a finished video is what was asked for: one check for command line, asset graph and daemon."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from newsstudio_ditto.colour_truth import ColourMatch, match_colours
from newsstudio_ditto.errors import DittoError, MediaError, SinkError
from newsstudio_ditto.lip_truth import LipCheck, measure_lips
from newsstudio_ditto.media.excerpt import read_timing
from newsstudio_ditto.media.facts import MediaFacts, VideoFacts
from newsstudio_ditto.media.finished import AUDIO_SLACK_S
from newsstudio_ditto.media.loudness import SpeechOutline
from newsstudio_ditto.media.probe import probe, require_picture
from newsstudio_ditto.media.speech import read_speech
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.sound_truth import match_sound
from newsstudio_ditto.units import FRAME_RATE_HZ, count_frames

LIPS_TAG = "lips"
"""Provenance: ``speech`` where the lips should follow it, ``held`` where controls or an untrained model keep them."""

_BT709 = (1, 1, 1, False)


@dataclass(frozen=True)
class VideoTruth:
    """What a look at a finished video found.

    Args:
        faults: sentences about what makes it untrue; empty if all is well.
        warnings: sentences about what is doubtful.
        measured: numbers worth showing.
    """

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def is_true(self) -> bool:
        """Whether nothing makes it untrue."""
        return not self.faults

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"ok": self.is_true, "faults": [*self.faults], "warnings": [*self.warnings], "measured": self.measured}

    def require(self, path: Path) -> None:
        """Refuse an untrue video.

        Raises:
            SinkError: names every fault.
        """
        if self.faults:
            raise SinkError(
                f"the video {path.name} is not what was asked for: {'; '.join(self.faults)}",
                "render again; if it stays, look at the packet: newsstudio-ditto verify AVATAR_ID",
            )


def check_video(
    path: Path, speech: Path | None = None, *, packet: Packet | None = None, lips: LipCheck = "sampled"
) -> VideoTruth:
    """Look at a finished video: pictures, sound, colours, lips.

    Args:
        path: the video.
        speech: what it should say; None takes its own sound, which then is compared with nothing.
        packet: what it should show; None leaves size and colours of the picture unchecked.
        lips: how much of it is searched for lips.

    Returns:
        Faults, also where a file cannot be read; nothing of ours is raised.
    """
    try:
        outline = SpeechOutline(read_speech(path if speech is None else speech))
        return judge_video(path, outline, packet=packet, lips=lips, is_own_sound=speech is None)
    except DittoError as error:
        return VideoTruth((str(error),))


def judge_video(
    path: Path,
    speech: SpeechOutline,
    *,
    packet: Packet | None = None,
    lips: LipCheck = "sampled",
    is_own_sound: bool = False,
) -> VideoTruth:
    """The same for a speech that was read already. Without lips it costs some tens of milliseconds.

    Args:
        path: the video.
        speech: what it should say.
        packet: what it should show.
        lips: how much of it is searched for lips.
        is_own_sound: ``speech`` is the video's own sound.

    Raises:
        MediaError: the video cannot be read, or lacks picture or sound.
    """
    facts = probe(path)
    picture = require_picture(facts)
    if facts.audio is None:
        raise MediaError(f"{path} holds no sound", "render it again")
    faults = _stream_faults(facts, picture, packet)
    num_frames = None if is_own_sound else count_frames(speech.num_samples)
    faults += _timing_faults(path, num_frames)
    measured: dict[str, float] = {}
    if not is_own_sound:
        sound = match_sound(path, speech, whole=lips == "whole")
        faults += sound.faults
        measured |= {"sound_lost": round(sound.lost, 4), "sound_difference_db": round(sound.difference_db, 2)}
        measured |= {} if sound.shift_ms is None else {"sound_shift_ms": sound.shift_ms}
    colours = ColourMatch() if packet is None else match_colours(path, picture.colour, packet)
    faults += colours.faults()
    measured |= {} if colours.shift is None else {"colour_shift": round(colours.shift, 2)}
    if lips == "off" or faults:
        return VideoTruth(tuple(faults), (), measured)
    return _with_lips(path, picture, speech, measured, whole=lips == "whole")


def _with_lips(
    path: Path, picture: VideoFacts, speech: SpeechOutline, measured: dict[str, float], *, whole: bool
) -> VideoTruth:
    if read_provenance(path).get(LIPS_TAG, "speech") != "speech":
        return VideoTruth((), (), measured)
    movement = measure_lips(path, picture.colour, speech, whole=whole)
    return VideoTruth(tuple(movement.faults()), tuple(movement.warnings()), {**measured, **movement.measured()})


def _stream_faults(facts: MediaFacts, picture: VideoFacts, packet: Packet | None) -> list[str]:
    colour = picture.colour
    wanted: dict[str, tuple[object, object]] = {
        "streams of picture": (1, facts.num_video_streams),
        "streams of sound": (1, facts.num_audio_streams),
        "frames a second": (FRAME_RATE_HZ, picture.fps),
        "colour tags": (_BT709, (colour.matrix, colour.primaries, colour.transfer, colour.full_range)),
    }
    if packet is not None:
        size = packet.frame_size
        wanted["size in pixels"] = ((size.width, size.height), (picture.width_px, picture.height_px))
    return [f"{name}: expected {want}, got {got}" for name, (want, got) in wanted.items() if want != got]


def _timing_faults(path: Path, num_frames: int | None) -> list[str]:
    timing = read_timing(path)
    count, faults = len(timing.times_s), []
    if num_frames is not None and count != num_frames:
        faults.append(f"frames: expected {num_frames}, got {count}")
    late = timing.first_late()
    if late is not None:
        faults.append(f"frame {late} is shown at {timing.times_s[late]:.3f} s, not {late / FRAME_RATE_HZ:.3f} s")
    picture_s = count / FRAME_RATE_HZ
    if abs(timing.sound_s - picture_s) > AUDIO_SLACK_S:
        faults.append(f"the picture lasts {picture_s:.2f} s, the sound {timing.sound_s:.2f} s")
    return faults
