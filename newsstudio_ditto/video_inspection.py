"""Looking at a finished video of the storage folder: is it what its packet, its motion and its speech make of it?"""

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.lip_truth import LipCheck
from newsstudio_ditto.media.loudness import SpeechOutline
from newsstudio_ditto.media.speech import read_speech
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.output_truth import VideoTruth, check_video, judge_video
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.stages.tensor_file import open_tensors
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.units import SAMPLES_PER_FRAME, count_frames

log = logging.getLogger(__name__)

_LEAST_LEVEL = 1e-6

Floats = NDArray[np.float32]


def check_render(layout: StorageLayout, avatar_id: str, speech_id: str, *, lips: LipCheck = "off") -> VideoTruth:
    """Look at a finished video; see :func:`~newsstudio_ditto.output_truth.judge_video`. Nothing of ours is raised.

    Args:
        layout: where everything lives.
        avatar_id: who speaks.
        speech_id: what.
        lips: how much of the video is searched for lips.
    """
    try:
        motion = open_tensors(
            layout.motion(avatar_id, speech_id), kind="driving_motion", remedy="materialize driving_motion"
        )
        speech = SpeechOutline(read_speech(layout.speech(speech_id)))
        packet = AvatarStore(layout.root).open(avatar_id)
        truth = judge_video(layout.video(avatar_id, speech_id), speech, packet=packet, lips=lips)
    except DittoError as error:
        return VideoTruth((str(error),))
    num_rows, num_frames = len(motion.tensors["motion"]), count_frames(speech.num_samples)
    if num_rows == num_frames:
        return truth
    fault = f"the motion has {num_rows} rows, the speech needs {num_frames}: it was made for another recording"
    return VideoTruth((fault, *truth.faults), truth.warnings, truth.measured)


def verify_video(layout: StorageLayout, path: Path, speech: Path | None = None) -> VideoTruth:
    """Look at all of a video, wherever it lies; nothing of ours is raised.

    Args:
        layout: where the packet that it names may be; one that was prepared anew since is left out.
        path: the video.
        speech: what it should say; None takes its own sound.
    """
    return check_video(path, speech, packet=_packet_of(layout, path), lips="whole")


def _packet_of(layout: StorageLayout, path: Path) -> Packet | None:
    """The packet that a video was rendered from, if it is there."""
    try:
        origin = read_provenance(path)
        packet = AvatarStore(layout.root).open(origin.get("avatar_id", ""))
    except DittoError as error:
        log.info("no packet to compare the video with", extra={"reason": str(error)})
        return None
    return packet if packet.generation == origin.get("packet_generation") else None


def loudness_db(speech: Floats) -> Floats:
    """(T,) level of each video frame's sound, dB of full scale. ``speech``: (samples,) 16 kHz."""
    import librosa  # takes a second, and most of what this module does needs no sound

    whole = np.pad(speech, (0, -len(speech) % SAMPLES_PER_FRAME))
    level = librosa.feature.rms(y=whole, frame_length=SAMPLES_PER_FRAME, hop_length=SAMPLES_PER_FRAME, center=False)
    return np.asarray(librosa.amplitude_to_db(level[0], ref=1.0, amin=_LEAST_LEVEL, top_db=None), np.float32)
