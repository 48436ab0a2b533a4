"""How fit a face is for talking: width, turn and sharpness, with documented limits."""

from dataclasses import dataclass

import cv2
import numpy as np

from newsstudio_ditto.errors import FaceError
from newsstudio_ditto.faces.observation import FaceObservation, Pixels
from newsstudio_ditto.faces.region import region_of_landmarks

MIN_WIDTH_PX = 32.0
ADVISED_WIDTH_PX = 96.0
MAX_YAW_DEG = 60.0
ADVISED_YAW_DEG = 30.0
ADVISED_SHARPNESS = 0.05
_LEFT_CHEEK, _RIGHT_CHEEK = 234, 454
_MEASURE_PX = 128


@dataclass(frozen=True)
class FaceQuality:
    """Measurements of one face.

    Args:
        width_px: width of the landmark box, across the face, in pixels of the frame.
        yaw_deg: turn to the side; 0 looks into the camera, positive turns the nose to the right of the picture.
        sharpness: mean absolute Laplacian over contrast, on the face at 128 px; above 0.1 when sharp.
    """

    width_px: float
    yaw_deg: float
    sharpness: float


def measure_quality(frame: Pixels, face: FaceObservation) -> FaceQuality:
    """Measure a face.

    Args:
        frame: (H, W, 3) uint8 RGB.
        face: a face in it.
    """
    across = face.landmarks[_RIGHT_CHEEK] - face.landmarks[_LEFT_CHEEK]
    width = float(np.hypot(across[0], across[1]))
    yaw = float(np.degrees(np.arctan2(across[2], width)))
    crop = region_of_landmarks(face.landmarks).cut(frame, _MEASURE_PX)
    grey = np.asarray(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), np.float32)
    edges = np.abs(cv2.Laplacian(grey, cv2.CV_32F, ksize=1))
    sharpness = float(edges.mean() / max(float(grey.std()), 1.0))
    return FaceQuality(width, yaw, sharpness)


def judge_quality(quality: FaceQuality) -> list[str]:
    """Sentences about what will look bad; an empty list for a face that is fit.

    Raises:
        FaceError: when the face is narrower than 32 px or turned by more than 60 degrees.
    """
    if quality.width_px < MIN_WIDTH_PX:
        raise FaceError(
            f"the face is {quality.width_px:.0f} px wide; at least {MIN_WIDTH_PX:.0f} are needed",
            f"use a closer shot; {ADVISED_WIDTH_PX:.0f} px and more look good",
        )
    if abs(quality.yaw_deg) > MAX_YAW_DEG:
        raise FaceError(
            f"the face is turned by {abs(quality.yaw_deg):.0f} degrees; at most {MAX_YAW_DEG:.0f} are possible",
            "use a shot in which the person looks towards the camera",
        )
    remarks = []
    if quality.width_px < ADVISED_WIDTH_PX:
        remarks.append(f"the face is only {quality.width_px:.0f} px wide; the mouth will look soft")
    if abs(quality.yaw_deg) > ADVISED_YAW_DEG:
        remarks.append(f"the face is turned by {abs(quality.yaw_deg):.0f} degrees; the far side may smear")
    if quality.sharpness < ADVISED_SHARPNESS:
        remarks.append(f"the face is blurred (sharpness {quality.sharpness:.3f}); the mouth will look sharper")
    return remarks
