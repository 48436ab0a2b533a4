"""What surrounds the official bundle's face nets: anchors, decoding, suppression, and landmarks back to the frame."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from newsstudio_ditto.maths.affine import Floats, apply_affine, invert_affine

Singles = npt.NDArray[np.float32]

STRIDES_PX = (8, 16, 32)
DETECTOR_SIZE_PX = 512
LANDMARK106_SIZE_PX = 192
LANDMARK203_SIZE_PX = 224
_ANCHORS_PER_CELL = 2
_LANDMARK106_MARGIN = 1.5
_BLAZE_LAYERS = ((16, 2), (8, 6))  # cells per side, anchors per cell


class Detections(NamedTuple):
    """Faces by falling score: ``boxes`` (n, 5) = x1, y1, x2, y2, score and ``keypoints`` (n, 5, 2); frame pixels."""

    boxes: Singles
    keypoints: Singles


def detector_input_size(height: int, width: int) -> tuple[int, int, float]:
    """Size (h, w) of the frame inside the 512x512 detector input, and the scale h / height of both axes."""
    ratio = height / width
    if ratio > 1:
        return DETECTOR_SIZE_PX, int(DETECTOR_SIZE_PX / ratio), DETECTOR_SIZE_PX / height
    new_height = int(DETECTOR_SIZE_PX * ratio)
    return new_height, DETECTOR_SIZE_PX, new_height / height


def anchor_centres(stride_px: int) -> Singles:
    """Anchor centres of one detector layer, row by row, each cell twice: (n, 2), x before y, detector pixels."""
    cells = np.arange(DETECTOR_SIZE_PX // stride_px, dtype=np.float32) * stride_px
    y, x = np.meshgrid(cells, cells, indexing="ij")
    return np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2), _ANCHORS_PER_CELL, axis=0)


def decode_detections(
    scores: Sequence[Floats],
    distances: Sequence[Floats],
    offsets: Sequence[Floats],
    scale: float,
    *,
    min_score: float = 0.5,
    max_overlap: float = 0.4,
) -> Detections:
    """Turn detector outputs into faces.

    Args:
        scores: per stride (n, 1).
        distances: per stride (n, 4), from the anchor to left, top, right, bottom, in strides.
        offsets: per stride (n, 10), of five keypoints from the anchor, in strides.
        scale: detector pixels per frame pixel, from :func:`detector_input_size`.
        min_score: faces below it are dropped.
        max_overlap: a face that overlaps a better one by more is dropped.

    Returns:
        Faces in frame pixels.
    """
    boxes, keypoints = [], []
    for stride, score, distance, offset in zip(STRIDES_PX, scores, distances, offsets, strict=True):
        chosen = np.flatnonzero(score[:, 0] >= min_score)
        centre = anchor_centres(stride)[chosen]
        reach = distance[chosen] * stride
        box = np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1) / scale
        boxes.append(np.concatenate([box, score[chosen]], axis=1))
        keypoints.append((centre[:, None] + offset[chosen].reshape(-1, 5, 2) * stride) / scale)
    all_boxes = np.concatenate(boxes).astype(np.float32)
    order = np.argsort(-all_boxes[:, 4])
    kept = order[suppress_overlaps(all_boxes[order], max_overlap)]
    return Detections(all_boxes[kept], np.concatenate(keypoints).astype(np.float32)[kept])


def suppress_overlaps(boxes: Singles, max_overlap: float) -> npt.NDArray[np.int64]:
    """Rows of (n, 5) boxes, sorted by falling score, that overlap no better kept one by more than ``max_overlap``."""
    area = np.prod(boxes[:, 2:4] - boxes[:, :2] + 1, axis=1)
    rest, kept = np.arange(len(boxes)), []
    while rest.size:
        best, rest = rest[0], rest[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[rest, :2])
        high = np.minimum(boxes[best, 2:4], boxes[rest, 2:4])
        shared = np.prod(np.maximum(high - low + 1, 0), axis=1)
        rest = rest[shared / (area[best] + area[rest] - shared) <= max_overlap]
    return np.array(kept, dtype=np.int64)


def largest_box(boxes: Singles) -> Singles:
    """The (5,) row of (n, 5) boxes, n >= 1, with the largest area."""
    area = np.prod(boxes[:, 2:4] - boxes[:, :2], axis=1)
    return boxes[int(area.argmax())]


def landmark106_crop(box: Floats) -> npt.NDArray[np.float64]:
    """Affine (3, 3) from frame pixels to the 192x192 input of the 106-landmark net; ``box`` (4+,) = x1, y1, x2, y2."""
    x1, y1, x2, y2 = (float(value) for value in box[:4])
    scale = LANDMARK106_SIZE_PX / (_LANDMARK106_MARGIN * max(x2 - x1, y2 - y1))
    half = LANDMARK106_SIZE_PX / 2
    return np.array([[scale, 0, half - scale * (x1 + x2) / 2], [0, scale, half - scale * (y1 + y2) / 2], [0, 0, 1]])


def landmarks_106(output: npt.NDArray[Any], original_to_crop: Floats) -> Singles:
    """Net output (1, 212) in -1..1 to (106, 2) frame pixels."""
    inside = (output.reshape(106, 2) + 1) * (LANDMARK106_SIZE_PX / 2)
    return apply_affine(invert_affine(original_to_crop), inside).astype(np.float32)


def landmarks_203(output: npt.NDArray[Any], crop_to_original: Floats) -> Singles:
    """Net output (1, 406) in 0..1 to (203, 2) frame pixels."""
    return apply_affine(crop_to_original, output.reshape(203, 2) * LANDMARK203_SIZE_PX).astype(np.float32)


def blaze_anchors() -> Singles:
    """Anchor centres of the short-range face detector: (896, 2), x before y, 0..1."""
    layers = []
    for cells, per_cell in _BLAZE_LAYERS:
        middle = (np.arange(cells, dtype=np.float32) + np.float32(0.5)) / cells
        y, x = np.meshgrid(middle, middle, indexing="ij")
        layers.append(np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2), per_cell, axis=0))
    return np.concatenate(layers)
