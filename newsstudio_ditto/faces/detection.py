"""Decoding of the BlazeFace detector: anchors, boxes, weighted suppression, and tiles for small faces."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from newsstudio_ditto.faces.observation import Floats, Pixels

INPUT_PX = 128
MIN_SCORE = 0.5
SAME_FACE_IOU = 0.3
_LAYERS = ((16, 2), (8, 6))  # cells per side, anchors per cell
_DEEPEST_TILE_PX = 256  # the last, most costly level is for frames so large that it can pay


@dataclass(frozen=True)
class Detection:
    """A box found by the detector.

    Args:
        score: 0 to 1.
        box: (left, top, right, bottom) in pixels of the frame.
        eyes: both eyes, the one on the left of the picture first, (x, y) in pixels.
    """

    score: float
    box: tuple[float, float, float, float]
    eyes: tuple[tuple[float, float], tuple[float, float]]


def anchor_centres() -> Floats:
    """(896, 2) centres of the detector's anchors, in units of the input side."""
    layers = []
    for cells, repeats in _LAYERS:
        ticks = (np.arange(cells, dtype=np.float32) + 0.5) / cells
        grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        layers.append(np.repeat(grid, repeats, axis=0))
    return np.concatenate(layers)


ANCHORS = anchor_centres()


def decode_candidates(regressors: Floats, logits: Floats, *, min_score: float = MIN_SCORE) -> tuple[Floats, Floats]:
    """Turn network outputs for one picture into candidates above ``min_score``.

    Args:
        regressors: (896, 16): box centre, box size, six points, relative to the anchor, in input pixels.
        logits: (896,) raw scores.
        min_score: candidates below it are dropped.

    Returns:
        scores (P,) 0 to 1 and points (P, 4, 2) in units of the input side: top left, bottom right, both eyes.
    """
    scores = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
    keep = scores >= min_score
    values = regressors[keep].reshape(-1, 8, 2) / INPUT_PX
    anchors = ANCHORS[keep]
    centre, half = values[:, 0] + anchors, values[:, 1] / 2
    eyes = values[:, 2:4] + anchors[:, None]
    points = np.concatenate([(centre - half)[:, None], (centre + half)[:, None], eyes], axis=1)
    return scores[keep].astype(np.float32), points.astype(np.float32)


def box_overlap(box: NDArray[np.floating], boxes: NDArray[np.floating]) -> NDArray[np.floating]:
    """Intersection over union of ``box`` (4,) with each of ``boxes`` (P, 4)."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=1)
    area = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1)
    own = np.clip(box[2:] - box[:2], 0, None).prod()
    return np.asarray(shared / np.maximum(area + own - shared, 1e-9))


def suppress(scores: Floats, points: Floats) -> list[Detection]:
    """Weighted non-maximum suppression: each group of overlapping candidates becomes its score-weighted mean.

    Args:
        scores: (P,).
        points: (P, 4, 2) in pixels of the frame, as :func:`decode_candidates` orders them.

    Returns:
        Detections, best first; ties keep the order of the candidates.
    """
    order = np.argsort(-scores, kind="stable")
    boxes = points[:, :2].reshape(-1, 4)
    found = []
    while order.size:
        joined = box_overlap(boxes[order[0]], boxes[order]) > SAME_FACE_IOU
        joined[0] = True
        group = order[joined]
        weights = scores[group] / scores[group].sum()
        mean = (points[group] * weights[:, None, None]).sum(axis=0).astype(float)
        (left, top), (right, bottom), *eyes = ((float(x), float(y)) for x, y in mean)
        found.append(Detection(float(scores[group[0]]), (left, top, right, bottom), (eyes[0], eyes[1])))
        order = order[~joined]
    return found


def tile_sides_px(height: int, width: int) -> list[float]:
    """Sides of the square tiles of each search level for a frame, whole frame first."""
    longest = float(max(height, width))
    sides = [longest]
    for divisor, least_px in ((2, INPUT_PX), (4, INPUT_PX), (8, _DEEPEST_TILE_PX)):
        if longest / divisor >= least_px:
            sides.append(longest / divisor)
    return sides


def cut_tiles(frame: Pixels, side_px: float) -> tuple[Floats, Floats]:
    """Cut a frame into square tiles that overlap by about half.

    Args:
        frame: (H, W, 3) uint8 RGB.
        side_px: side of a tile in pixels of the frame.

    Returns:
        tiles (B, 128, 128, 3) float32 in -1..1, black beyond the frame, and their top-left corners (B, 2)
        in pixels of the frame.
    """
    scale = INPUT_PX / side_px
    height, width = (max(round(length * scale), 1) for length in frame.shape[:2])
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    level = np.asarray(cv2.resize(frame, (width, height), interpolation=way))
    pad_y, pad_x = max(INPUT_PX - height, 0), max(INPUT_PX - width, 0)
    level = np.pad(level, ((pad_y // 2, pad_y - pad_y // 2), (pad_x // 2, pad_x - pad_x // 2), (0, 0)))
    corners = [(x, y) for y in _starts(level.shape[0]) for x in _starts(level.shape[1])]
    tiles = np.stack([level[y : y + INPUT_PX, x : x + INPUT_PX] for x, y in corners])
    offsets = np.array(corners, np.float32) - np.array([pad_x // 2, pad_y // 2], np.float32)
    return tiles.astype(np.float32) / 127.5 - 1, offsets / np.float32(scale)


def _starts(length: int) -> list[int]:
    """Evenly spaced tile starts that cover ``length`` pixels with steps of at most half a tile."""
    spare = length - INPUT_PX
    steps = -(-spare // (INPUT_PX // 2))
    return [round(spare * index / steps) for index in range(steps + 1)] if steps else [0]
