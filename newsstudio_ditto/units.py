"""Constants of the model family, with units in their names; impossible combinations fail at import."""

from typing import Literal

SAMPLE_RATE_HZ = 16_000
FRAME_RATE_HZ = 25
SAMPLES_PER_FRAME, _rest = divmod(SAMPLE_RATE_HZ, FRAME_RATE_HZ)
assert _rest == 0, "a video frame must be a whole number of audio samples"

NUM_KEYPOINTS = 21
NUM_POSE_BINS = 66
POSE_BIN_DEG = 3.0
POSE_OFFSET_DEG = -97.5

MOTION_DIM = 1 + 3 * NUM_POSE_BINS + 3 + 3 * NUM_KEYPOINTS
assert MOTION_DIM == 265, "scale, three heads of pose logits, translation, expression"
WINDOW_FRAMES = 80

MotionKey = Literal["scale", "pitch", "yaw", "roll", "translation", "expression"]
MOTION_KEYS: tuple[MotionKey, ...] = ("scale", "pitch", "yaw", "roll", "translation", "expression")
EMOTIONS = ("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise", "contempt")

CROP_SIZE_PX = 512
NETWORK_INPUT_PX = 256


def count_frames(num_samples: int) -> int:
    """Number of video frames that a speech of ``num_samples`` 16 kHz samples gets: the ceiling of samples / 640."""
    return -(-num_samples // SAMPLES_PER_FRAME)
