"""Looking at a finished video: is it whole, and does the mouth move when there is something to say?"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.media.decode import decode_frames, read_speech
from newsstudio_ditto.media.probe import probe, require_picture
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import open_track
from newsstudio_ditto.stages.tensor_file import open_tensors
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLES_PER_FRAME

LENGTH_SLACK_S = 0.15
LEAST_MOVEMENT = 0.2
"""Grey levels by which the mouth has to change from frame to frame while somebody speaks, of 255, on average."""

MOST_UNREST = 1.25
"""Movement in silence over movement in speech above which the video is reported as restless."""

_MOST_FRAMES = 500
_SILENCE_DB = -35.0
_QUIETEST_DB = -60.0
_LEAST_LEVEL = 1e-6
_FEWEST_FRAMES = 8
_LIPS = (61, 291, 0, 17)

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class MouthMovement:
    """How much the mouth changes from frame to frame, grey levels of 255 on average.

    Args:
        in_speech: while the speech is loud; None if it hardly ever is.
        in_silence: while it is not; None if it always is.
    """

    in_speech: float | None
    in_silence: float | None

    def faults(self) -> list[str]:
        """Sentences; empty if the mouth moves in speech and is calm in silence."""
        if self.in_speech is None:
            return []
        if self.in_speech < LEAST_MOVEMENT:
            return [f"the mouth stands still while somebody speaks: {self.in_speech:.2f} grey levels a frame"]
        if self.in_silence is not None and self.in_silence > MOST_UNREST * self.in_speech:
            return [f"the mouth moves more in silence ({self.in_silence:.2f}) than in speech ({self.in_speech:.2f})"]
        return []


def check_video(layout: StorageLayout, avatar_id: str, speech_id: str) -> list[str]:
    """Compare a finished video with its motion and its packet; sentences, empty if all is well.

    It has one frame for each row of motion, the size of the background, 25 frames a second, and sound of the same
    length; its first frame can be decoded.
    """
    path = layout.video(avatar_id, speech_id)
    try:
        motion = open_tensors(
            layout.motion(avatar_id, speech_id), kind="driving_motion", remedy="materialize driving_motion"
        )
        frame = AvatarStore(layout.root).open(avatar_id).frame_size
        facts = probe(path)
        picture = require_picture(facts)
        opened = next(iter(decode_frames(path).frames), None)
    except DittoError as error:
        return [str(error)]
    num_frames = len(motion.tensors["motion"])
    wanted = {
        "frames": (num_frames, picture.header_frames),
        "size in pixels": ((frame.width, frame.height), (picture.width_px, picture.height_px)),
        "frames a second": (FRAME_RATE_HZ, picture.fps),
        "streams of sound": (1, facts.num_audio_streams),
        "first frame": ((frame.height, frame.width, 3), None if opened is None else opened.shape),
    }
    faults = [f"{name}: expected {want}, got {got}" for name, (want, got) in wanted.items() if want != got]
    sound_s = facts.audio.duration_s if facts.audio else None
    picture_s = num_frames / FRAME_RATE_HZ
    if sound_s is not None and abs(sound_s - picture_s) > LENGTH_SLACK_S:
        faults.append(f"the picture lasts {picture_s:.2f} s, the sound {sound_s:.2f} s")
    return faults


def mouth_movement(layout: StorageLayout, avatar_id: str, speech_id: str) -> MouthMovement:
    """Measure the pixels of the mouth in the first twenty seconds of a finished video.

    Raises:
        DittoError: video, speech or face track cannot be read.
    """
    track = open_track(AvatarStore(layout.root), avatar_id)
    frames = islice(decode_frames(layout.video(avatar_id, speech_id)).frames, _MOST_FRAMES)
    changes, before = [], None
    for index, frame in enumerate(frames):
        patch = _mouth(frame, track.landmarks[mirror_index(index, track.num_frames)])
        if before is not None and patch.shape == before.shape:
            changes.append(float(np.abs(patch - before).mean()))
        before = patch
    loud = is_loud(read_speech(layout.speech(speech_id)))[1 : len(changes) + 1]
    return movement_of(np.asarray(changes[: len(loud)], np.float32), loud)


def movement_of(changes: Floats, loud: Flags) -> MouthMovement:
    """Mean of ``changes`` (T,) over loud and over silent frames; None where there are too few."""
    by_loudness = pd.Series(changes).groupby(loud).agg(["mean", "size"]).reindex([True, False])
    means = by_loudness["mean"].where(by_loudness["size"] >= _FEWEST_FRAMES)
    in_speech, in_silence = (None if np.isnan(mean) else float(mean) for mean in means)
    return MouthMovement(in_speech, in_silence)


def is_loud(speech: Floats) -> Flags:
    """(T,) one flag per video frame: within 35 dB of the loudest. ``speech``: (samples,) 16 kHz."""
    level_db = loudness_db(speech)
    return np.asarray((level_db > level_db.max() + _SILENCE_DB) & (level_db > _QUIETEST_DB))


def loudness_db(speech: Floats) -> Floats:
    """(T,) level of each video frame's sound, dB of full scale. ``speech``: (samples,) 16 kHz."""
    import librosa  # takes a second, and most of what this module does needs no sound

    whole = np.pad(speech, (0, -len(speech) % SAMPLES_PER_FRAME))
    level = librosa.feature.rms(y=whole, frame_length=SAMPLES_PER_FRAME, hop_length=SAMPLES_PER_FRAME, center=False)
    return np.asarray(librosa.amplitude_to_db(level[0], ref=1.0, amin=_LEAST_LEVEL, top_db=None), np.float32)


def _mouth(frame: NDArray[np.uint8], landmarks: Floats) -> Floats:
    """Grey picture of the mouth, in a box of fixed size around the lips of the source frame."""
    lips = landmarks[list(_LIPS), :2]
    (x, y), reach = lips.mean(axis=0), float(np.linalg.norm(lips[0] - lips[1])) * 0.7
    height, width = frame.shape[:2]
    top, bottom = (round(min(max(y + side * reach, 0), height)) for side in (-1, 1))
    left, right = (round(min(max(x + side * reach, 0), width)) for side in (-1, 1))
    return np.asarray(frame[top:bottom, left:right].mean(axis=-1), np.float32)
