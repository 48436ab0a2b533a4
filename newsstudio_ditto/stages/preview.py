"""Small pictures of what a stage made, for people who look at the asset graph."""

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto.maths.motion_vector import EXPRESSION_START
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.units import NUM_KEYPOINTS

MOST_BYTES = 28_000
"""A preview is kept in Dagster's event rows, so it has to stay small."""

_GREEN = (90, 200, 90)
_INK = (40, 40, 40)
_LINES = ((31, 119, 180), (214, 90, 40), (44, 150, 44))
_TILE_PX = 160
_NUM_TILES = 6

Picture = NDArray[np.uint8]
"""(H, W, 3) RGB."""


def encode_picture(picture: Picture) -> bytes:
    """Encode as JPEG below :data:`MOST_BYTES`, at the best quality that fits, halving the size when none does."""
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    while True:
        for quality in (85, 70, 50, 30):
            _, encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
            if encoded.nbytes <= MOST_BYTES:
                return encoded.tobytes()
        bgr = cv2.resize(bgr, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def frame_sheet(frames: Tensor) -> Picture:
    """Contact sheet of a few frames spread over the clip. ``frames``: (N, 3, H, W) uint8."""
    return _row([_picture(frames, index) for index in _spread(len(frames))])


def track_sheet(frames: Tensor, landmarks: NDArray[np.float32], crop_to_original: NDArray[np.float32]) -> Picture:
    """Contact sheet with the landmarks and the outline of the crop.

    Args:
        frames: (N, 3, H, W) uint8.
        landmarks: (N, 478, 3), frame pixels.
        crop_to_original: (N, 3, 3).
    """
    corners = np.array([[0, 0, 1], [511, 0, 1], [511, 511, 1], [0, 511, 1]], np.float32)
    tiles = []
    for index in _spread(len(frames)):
        picture, scale = _picture(frames, index), max(frames.shape[-2:]) / (2 * _TILE_PX)
        outline = (corners @ crop_to_original[index].T)[:, :2].round().astype(np.int32)
        cv2.polylines(picture, [outline], True, _GREEN, max(1, round(2 * scale)), cv2.LINE_AA)
        for x, y in landmarks[index, ::3, :2].round().astype(int).tolist():
            cv2.circle(picture, (x, y), max(1, round(scale)), (255, 220, 60), -1)
        tiles.append(picture)
    return _row(tiles)


def mask_sheet(frames: Tensor, masks: Tensor, window: PasteWindow) -> Picture:
    """Contact sheet with the blend mask laid over the frames in green.

    Args:
        frames: (N, 3, H, W) uint8.
        masks: (N, 1, h, w) uint8.
        window: where the masks lie.
    """
    tiles = []
    for index in _spread(len(frames)):
        picture = _picture(frames, index)
        place = picture[window.top : window.top + window.height, window.left : window.left + window.width]
        weight = masks[index, 0].numpy()[..., None].astype(np.float32) / 510.0
        place[:] = (place * (1 - weight) + np.array(_GREEN) * weight).astype(np.uint8)
        tiles.append(picture)
    return _row(tiles)


def grid_sheet(grids: Tensor) -> Picture:
    """A chequered crop read through a few of the grids: shows turn, size and position. ``grids``: (N, h, w, 2)."""
    cells = torch.arange(512) // 64 % 2
    board = (60 + 130 * (cells[:, None] ^ cells[None, :])).float()
    board[:8], board[-8:], board[:, :8], board[:, -8:] = 255, 255, 255, 255
    tiles = []
    for index in _spread(len(grids)):
        read = F.grid_sample(board[None, None], grids[index : index + 1].clone(), align_corners=False)
        tiles.append(np.repeat(read[0, 0].numpy().astype(np.uint8)[..., None], 3, axis=2))
    return _row(tiles)


def volume_sheet(volumes: Tensor) -> Picture:
    """Feature volumes, their mean over channels and depth in false colours. ``volumes``: (N, C, D, h, w)."""
    tiles = []
    for index in _spread(len(volumes)):
        energy = volumes[index].float().abs().mean(dim=(0, 1)).numpy()
        tiles.append(cv2.cvtColor(_heat(energy), cv2.COLOR_BGR2RGB))
    return _row(tiles)


def feature_map(features: Tensor) -> Picture:
    """Feature rows over time (to the right) in false colours. ``features``: (T, A)."""
    rows = features[:: max(1, len(features) // 800)].float()
    normal = (rows - rows.mean(dim=0)) / (rows.std(dim=0, correction=0) + 1e-6)
    picture = _heat(normal.clamp(-2.5, 2.5).numpy().T)
    wide = cv2.resize(picture, (720, 180), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(wide, cv2.COLOR_BGR2RGB), np.uint8)


def mouth_opening(motion: Tensor, lip_points: list[int]) -> NDArray[np.float32]:
    """How far the lip keypoints are pulled apart vertically, in keypoint units.

    Args:
        motion: (T, 265) driving motion.
        lip_points: which of the 21 keypoints belong to the mouth.

    Returns:
        (T,) float32.
    """
    vertical = motion[:, EXPRESSION_START:].reshape(len(motion), NUM_KEYPOINTS, 3)[:, lip_points, 1]
    return np.asarray((vertical.amax(dim=1) - vertical.amin(dim=1)).numpy(), np.float32)


def curve_plot(curves: dict[str, NDArray[np.float32]], *, seconds_per_step: float) -> Picture:
    """Curves over time, each scaled alike, with the range on the left and names on top.

    Args:
        curves: up to three named arrays (T,).
        seconds_per_step: for the time axis.
    """
    height, width, left, top, bottom = 240, 720, 64, 30, 24
    canvas: Picture = np.full((height, width, 3), 255, np.uint8)
    values = np.concatenate([np.asarray(curve, np.float32) for curve in curves.values()])
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    plot_height = height - top - bottom
    for share in (0.0, 0.5, 1.0):
        row = round(top + plot_height * (1 - share))
        cv2.line(canvas, (left, row), (width - 8, row), (225, 225, 225), 1)
        _write(canvas, f"{low + share * span:.3g}", (6, row + 4))
    for (name, curve), colour, order in zip(curves.items(), _LINES, range(3), strict=False):
        x = np.linspace(left, width - 8, max(2, len(curve)))
        y = top + plot_height * (1 - (np.resize(curve, max(2, len(curve))) - low) / span)
        points = np.stack([x, y], axis=1).round().astype(np.int32)
        cv2.polylines(canvas, [points], False, colour, 2, cv2.LINE_AA)
        _write(canvas, name, (left + 200 * order, 18), colour)
    num_steps = max(len(curve) for curve in curves.values())
    _write(canvas, "0 s", (left, height - 6))
    _write(canvas, f"{num_steps * seconds_per_step:.2f} s", (width - 70, height - 6))
    return canvas


def _spread(num_frames: int) -> list[int]:
    return sorted({round(index) for index in np.linspace(0, num_frames - 1, min(num_frames, _NUM_TILES))})


def _picture(frames: Tensor, index: int) -> Picture:
    return np.ascontiguousarray(frames[index].permute(1, 2, 0).numpy())


def _heat(values: NDArray[np.float32]) -> Picture:
    span = float(values.max() - values.min()) or 1.0
    levels = ((values - values.min()) / span * 255).astype(np.uint8)
    return np.asarray(cv2.applyColorMap(levels, cv2.COLORMAP_VIRIDIS), np.uint8)


def _row(tiles: list[Picture]) -> Picture:
    small = []
    for tile in tiles:
        width = max(1, round(tile.shape[1] * _TILE_PX / tile.shape[0]))
        interpolation = cv2.INTER_AREA if tile.shape[0] > _TILE_PX else cv2.INTER_NEAREST
        small.append(cv2.resize(tile, (width, _TILE_PX), interpolation=interpolation))
        small.append(np.full((_TILE_PX, 4, 3), 255, np.uint8))
    return np.concatenate(small[:-1], axis=1)


def _write(canvas: Picture, text: str, place: tuple[int, int], colour: tuple[int, int, int] = _INK) -> None:
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, colour, 1, cv2.LINE_AA)
