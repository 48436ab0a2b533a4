"""All tolerances of golden tests: largest absolute difference, float32 on a CPU (golden README, section 11)."""

CROP = 2e-3  # matrices and points, pixels
DEGREES = 1e-4
KEYPOINTS = 5e-6
MOTION_STITCH = 5e-6
SMOOTHING = 5e-6
SEGMENTS = 5e-6
AUDIO = 5e-6
HUBERT = 2e-5  # rows of a small seeded HuBERT, two runtimes
CONDITIONS = 5e-6
MOTION_VECTOR = 1e-6
SCHEDULE = 1e-7
EYE_OPEN = 2e-4
EYE_BALL = 1e-5
MASK = 1e-6
DETECTOR_INPUT = 1e-6
LANDMARK_CROP = 1e-4
ANCHORS = 1e-7
LANDMARKS = 2e-3  # detector boxes and landmarks, pixels

PASTE_LEVELS = 0.02  # coordinates rounded to 1/32 pixel like OpenCV 4; of 255
PASTE_EXACT_SMOOTH_LEVELS = 0.12  # exact coordinates against OpenCV 4, smooth render
PASTE_EXACT_NOISE_LEVELS = 6.5  # exact coordinates against OpenCV 4, white noise
PASTE_EXACT_MASK = 1e-3  # of 1
PASTE_UINT8 = 1
PASTE_EQUAL_SHARE = 0.96  # of uint8 values that are equal for a smooth render

NETWORK_REFERENCE_FACTOR = 10.0  # times the reference's own float32 error
NETWORK_RELATIVE = 2e-6  # of the largest magnitude
NETWORK_MEAN_OVER_STD = 1e-5

END_TO_END_PICTURE = 1e-6  # 256 px, 0..1
END_TO_END_SOURCE = 3e-4  # volume and motion of the source picture
END_TO_END_CONDITIONS = 2e-4
END_TO_END_KEYPOINTS = 5e-4
END_TO_END_IMAGE = 5e-3
END_TO_END_UINT8 = 2


def network(reference_error: float, low: float, high: float) -> float:
    """Tolerance of a network's tensor from the reference's own float32 error and the tensor's range."""
    return max(NETWORK_REFERENCE_FACTOR * reference_error, NETWORK_RELATIVE * max(1.0, abs(low), abs(high)))
