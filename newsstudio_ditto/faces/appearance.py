"""A small signature of how a face is coloured, to tell persons apart when position cannot."""

import cv2
import numpy as np

from newsstudio_ditto.faces.observation import FaceObservation, Floats, Pixels

_SIDE_PX = 64
_BINS = 32
_CHROMA_RANGE = (80, 208)  # of the 0..255 a* and b* axes: what skin and hair of any light can reach


def colour_signature(frame: Pixels, face: FaceObservation) -> Floats:
    """Distribution of colour, without brightness, inside the outline of a face.

    Args:
        frame: (H, W, 3) uint8 RGB.
        face: a face in it.

    Returns:
        (32, 32) float32 that sums to 1, or all 0 when the face lies outside the frame.
    """
    height, width = frame.shape[:2]
    left, top, right, bottom = (int(value) for value in face.box)
    left, right = np.clip([left, right + 1], 0, width)
    top, bottom = np.clip([top, bottom + 1], 0, height)
    if right - left < 2 or bottom - top < 2:
        return np.zeros((_BINS, _BINS), np.float32)
    patch = cv2.resize(frame[top:bottom, left:right], (_SIDE_PX, _SIDE_PX), interpolation=cv2.INTER_AREA)
    scale = _SIDE_PX / np.array([right - left, bottom - top], np.float32)
    outline = cv2.convexHull(((face.landmarks[:, :2] - (left, top)) * scale).astype(np.int32))
    mask = np.asarray(cv2.fillConvexPoly(np.zeros((_SIDE_PX, _SIDE_PX), np.uint8), outline, 255))
    lab = cv2.cvtColor(patch, cv2.COLOR_RGB2LAB)
    ranges = [*_CHROMA_RANGE, *_CHROMA_RANGE]
    counts = cv2.calcHist([lab], [1, 2], mask, [_BINS, _BINS], ranges)
    smooth = np.asarray(cv2.GaussianBlur(counts, (0, 0), 1.0), np.float32)  # forgives shifts of about one bin
    return smooth / max(float(smooth.sum()), 1e-9)


def signature_distance(one: Floats, other: Floats) -> float:
    """Hellinger distance of two signatures, 0 (equal) to 1 (nothing shared)."""
    return float(np.sqrt(max(1.0 - float(np.sqrt(one * other).sum()), 0.0)))
