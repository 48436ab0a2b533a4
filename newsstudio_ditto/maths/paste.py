"""Putting the rendered crop back into its frame: window, sampling grid, warped mask, and a reference blend."""

from collections.abc import Iterable
from math import floor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.affine import Floats, apply_affine

Bytes = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]


class PasteWindow(NamedTuple):
    """The rectangle of the frame that grids and masks cover, pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def bottom(self) -> int:
        """First row below the window."""
        return self.top + self.height

    @property
    def right(self) -> int:
        """First column to the right of the window."""
        return self.left + self.width

    @property
    def slices(self) -> tuple[slice, slice]:
        """Row and column slices of a (H, W, ...) frame."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


class CropRegion(NamedTuple):
    """A rectangle of the crop in the coordinates of sampling grids: -1 to 1 from edge to edge."""

    top: float
    left: float
    bottom: float
    right: float

    def cells(self, num_cells: int, cell_px: int, reach: int) -> tuple[slice, slice]:
        """Rows and columns of the cells that hold what bilinear sampling inside the rectangle reads.

        Args:
            num_cells: of the crop, a side.
            cell_px: pixels of a cell, a side.
            reach: so many cells more on every side, as far as there are any.
        """
        return self._span(self.top, self.bottom, num_cells, cell_px, reach), self._span(
            self.left, self.right, num_cells, cell_px, reach
        )

    @staticmethod
    def _span(low: float, high: float, num_cells: int, cell_px: int, reach: int) -> slice:
        first, last = (floor(((place + 1) * num_cells * cell_px - 1) / 2) for place in (low, high))
        start, stop = first // cell_px - reach, (last + 1) // cell_px + 1 + reach
        return slice(min(max(start, 0), num_cells - 1), max(min(stop, num_cells), 1))


def region_read(grids: Tensor) -> CropRegion:
    """Where sampling grids (..., 2), x and y, read the crop."""
    places = grids.flatten(0, -2)
    (left, top), (right, bottom) = places.amin(0).tolist(), places.amax(0).tolist()
    return CropRegion(top, left, bottom, right)


def mask_support(crop_to_original: Floats, frame_size: tuple[int, int], mask: Singles) -> PasteWindow:
    """Rectangle of the frame outside which the warped mask is 0.

    Exact for the outline of the mask: each pixel of weight spreads over the open square of one pixel around
    it, and the corners of those squares are mapped.

    Args:
        crop_to_original: (3, 3), crop pixels to frame pixels.
        frame_size: (H, W) of the frame.
        mask: (h, w) weights of the crop.

    Returns:
        The rectangle, cut to the frame; of height and width 0 if the mask misses the frame.
    """
    rows = np.flatnonzero((mask > 0).any(axis=1))
    if rows.size == 0:
        return PasteWindow(0, 0, 0, 0)
    weighted = mask[rows] > 0
    first = weighted.argmax(axis=1) - 1.0
    last = mask.shape[1] - weighted[:, ::-1].argmax(axis=1)
    x = np.concatenate([first, first, last, last])
    y = np.concatenate([rows - 1.0, rows + 1.0, rows - 1.0, rows + 1.0])
    outline = apply_affine(crop_to_original.astype(np.float64), np.stack([x, y], axis=1))
    left, top = np.maximum(np.ceil(outline.min(axis=0)), 0).astype(int)
    right, bottom = np.minimum(np.floor(outline.max(axis=0)) + 1, frame_size[::-1]).astype(int)
    if right <= left or bottom <= top:
        return PasteWindow(0, 0, 0, 0)
    return PasteWindow(int(top), int(left), int(bottom - top), int(right - left))


def tight_window(supports: Iterable[PasteWindow], frame_size: tuple[int, int]) -> PasteWindow:
    """Smallest even-aligned rectangle that holds every support.

    Args:
        supports: one rectangle per frame; empty ones are passed over.
        frame_size: (H, W), both even.

    Returns:
        A window with even top, left, height and width inside the frame; 2x2 at the top left if every support is empty.

    Raises:
        UsageError: the frame size is odd.
    """
    _require_even(frame_size)
    filled = [support for support in supports if support.height > 0 and support.width > 0]
    if not filled:
        return PasteWindow(0, 0, 2, 2)
    top = min(support.top for support in filled) // 2 * 2
    left = min(support.left for support in filled) // 2 * 2
    bottom = -(-max(support.bottom for support in filled) // 2) * 2
    right = -(-max(support.right for support in filled) // 2) * 2
    return PasteWindow(top, left, bottom - top, right - left)


def full_window(frame_size: tuple[int, int]) -> PasteWindow:
    """The whole frame of ``frame_size`` (H, W), both even.

    Raises:
        UsageError: the frame size is odd.
    """
    _require_even(frame_size)
    return PasteWindow(0, 0, *frame_size)


def paste_grid(original_to_crop: Floats, window: PasteWindow, crop_size_px: int) -> Singles:
    """Where each frame pixel of the window reads the crop.

    Coordinates are exact (float64, cast once). OpenCV 4 rounds them to 1/32 pixel instead; see the paste goldens.

    Args:
        original_to_crop: (3, 3), frame pixels to crop pixels, pixel centres at integers.
        window: rectangle of the frame.
        crop_size_px: side of the crop.

    Returns:
        (h, w, 2) float32, x before y, normalised for ``grid_sample`` with ``align_corners=False``.
    """
    matrix = original_to_crop.astype(np.float64)
    x = np.arange(window.left, window.right, dtype=np.float64)[None, :]
    y = np.arange(window.top, window.bottom, dtype=np.float64)[:, None]
    crop = np.stack([row[0] * x + row[1] * y + row[2] for row in matrix[:2]], axis=-1)
    return ((2.0 * crop + 1.0) / crop_size_px - 1.0).astype(np.float32)


def warped_alpha(grid: Singles, mask: Singles) -> Bytes:
    """Warp the blend mask into the window.

    Args:
        grid: (h, w, 2) from :func:`paste_grid`.
        mask: (S, S) weights of the crop, 0..1.

    Returns:
        (1, h, w) uint8, the weight times 255, rounded.
    """
    weight = sample_crop(mask[..., None], grid)[None, ..., 0]
    return np.rint(np.clip(weight, 0.0, 1.0) * 255.0).astype(np.uint8)


def sample_crop(image: Singles, grid: Singles) -> Singles:
    """Read a crop bilinearly, 0 outside.

    Args:
        image: (S, S, C) float32.
        grid: (h, w, 2) from :func:`paste_grid`.

    Returns:
        (h, w, C) float32.
    """
    planes = torch.from_numpy(np.ascontiguousarray(np.moveaxis(image, -1, 0)))[None]
    positions = torch.from_numpy(np.ascontiguousarray(grid))[None]
    warped = F.grid_sample(planes, positions, mode="bilinear", padding_mode="zeros", align_corners=False)
    return np.asarray(warped[0].permute(1, 2, 0).numpy())


def paste_back(
    frame: Bytes, image: Singles, grid: Singles, alpha: npt.NDArray[Any], window: PasteWindow | None = None
) -> Bytes:
    """Composite a rendered crop into its frame; the reference that device code is compared with.

    The blend is cut to whole levels, not rounded, as the official pipeline does.

    Args:
        frame: (H, W, 3) uint8.
        image: (S, S, 3) float32, 0..255.
        grid: (h, w, 2) from :func:`paste_grid`.
        alpha: (1, h, w), uint8 0..255 or float 0..1.
        window: the rectangle that grid and alpha cover; ``None`` means the whole frame.

    Returns:
        (H, W, 3) uint8, a new array.
    """
    place = (window or PasteWindow(0, 0, *frame.shape[:2])).slices
    weight = np.moveaxis(alpha, 0, -1).astype(np.float32)
    if alpha.dtype == np.uint8:
        weight = weight / np.float32(255)
    blend = weight * sample_crop(image, grid) + (1 - weight) * frame[place].astype(np.float32)
    result = frame.copy()
    result[place] = np.clip(blend, 0, 255).astype(np.uint8)
    return result


def _require_even(frame_size: tuple[int, int]) -> None:
    if frame_size[0] % 2 or frame_size[1] % 2:
        raise UsageError(f"frame of {frame_size[1]}x{frame_size[0]} has an odd side", "make both sides even first")
