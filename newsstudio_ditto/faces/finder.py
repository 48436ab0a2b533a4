"""Finding every face of a frame, and following one face over many frames."""

from collections.abc import Iterable, Iterator

import numpy as np

from newsstudio_ditto.config import require_range
from newsstudio_ditto.faces.detection import (
    Detection,
    box_overlap,
    cut_tiles,
    decode_candidates,
    suppress,
    tile_sides_px,
)
from newsstudio_ditto.faces.observation import FaceObservation, Pixels, is_continuous
from newsstudio_ditto.faces.region import Region, region_of_detection, region_of_landmarks
from newsstudio_ditto.faces.sessions import LANDMARK_INPUT_PX, FaceNetworks
from newsstudio_ditto.faces.tracker import FaceTracker

MIN_PRESENCE = 0.5
MAX_FACES = 32
_SAME_PLACE = 0.5


class FaceFinder:
    """Finds faces in frames. Deterministic; holds no state between calls.

    Args:
        num_threads: threads of each network, 1 to 256; ``None`` lets onnxruntime take every core.

    Raises:
        UsageError: for a thread count out of range.
    """

    def __init__(self, *, num_threads: int | None = None) -> None:
        """Open the networks."""
        if num_threads is not None:
            require_range("num_threads", num_threads, 1, 256)
        self._networks = FaceNetworks(num_threads=num_threads)

    def observe(self, frame_rgb: Pixels) -> list[FaceObservation]:
        """Every face of a frame, largest first.

        The whole frame and tiles of half its length are searched; only if no face is found in them, ever smaller
        tiles are. So a large face hides very small ones.

        Args:
            frame_rgb: (H, W, 3) uint8.

        Returns:
            At most 32 observations; an empty list means that there is no face.
        """
        require_frame(frame_rgb)
        sides = tile_sides_px(*frame_rgb.shape[:2])
        for level in (sides[:2], *([side] for side in sides[2:])):
            found = sorted((box for side in level for box in self._detect(frame_rgb, side)), key=lambda box: -box.score)
            coarse = self._look(frame_rgb, [region_of_detection(box) for box in found[:MAX_FACES]])
            fine = self._look(frame_rgb, [region_of_landmarks(face.landmarks) for face in coarse])
            if fine:
                return _drop_duplicates(fine)
        return []

    def follow(self, frame_rgb: Pixels, previous: FaceObservation) -> FaceObservation | None:
        """Look for a face where it was in the frame before.

        Args:
            frame_rgb: (H, W, 3) uint8.
            previous: the face in the frame before.

        Returns:
            The face, or ``None`` when the network sees none there.
        """
        require_frame(frame_rgb)
        found = self._look(frame_rgb, [region_of_landmarks(previous.landmarks)])
        return found[0] if found else None

    def track(self, frames: Iterable[Pixels]) -> Iterator[FaceObservation | None]:
        """Follow one person through a clip: see :class:`FaceTracker`.

        Args:
            frames: (H, W, 3) uint8 RGB each, all of one size.

        Yields:
            One entry per frame; ``None`` where that person is not to be seen.
        """
        tracker = self.tracker()
        for frame in frames:
            yield tracker.step(frame)

    def tracker(self) -> FaceTracker:
        """A tracker that has seen no frame yet; it also counts frames, faces and losses."""
        return FaceTracker(self)

    def _detect(self, frame: Pixels, side_px: float) -> list[Detection]:
        tiles, offsets = cut_tiles(frame, side_px)
        regressors, logits = self._networks.detect(tiles)
        scores, points = [], []
        for tile_regressors, tile_logits, offset in zip(regressors, logits, offsets, strict=True):
            tile_scores, tile_points = decode_candidates(tile_regressors, tile_logits)
            scores.append(tile_scores)
            points.append(tile_points * np.float32(side_px) + offset)
        return suppress(np.concatenate(scores), np.concatenate(points))

    def _look(self, frame: Pixels, regions: list[Region]) -> list[FaceObservation]:
        """Landmarks in each region that holds a face."""
        regions = [region for region in regions if region.side_px >= 1 and np.isfinite(region.side_px)]
        if not regions:
            return []
        crops = np.stack([region.cut(frame, LANDMARK_INPUT_PX) for region in regions])
        landmarks, presence = self._networks.find_landmarks(crops)
        faces = []
        for region, points, score in zip(regions, landmarks, presence, strict=True):
            if score >= MIN_PRESENCE:
                matrix = region.to_frame(LANDMARK_INPUT_PX)
                plane = points[:, :2] @ matrix[:, :2].T + matrix[:, 2]
                depth = points[:, 2:] * (region.side_px / LANDMARK_INPUT_PX)
                faces.append(FaceObservation(np.hstack([plane, depth]).astype(np.float32), float(score)))
        return faces


def require_frame(frame: Pixels) -> None:
    """Raise :class:`ValueError` unless ``frame`` is (H, W, 3) uint8."""
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise ValueError(f"frame: expected uint8 (H, W, 3), got {frame.dtype} {frame.shape}")


def _drop_duplicates(faces: list[FaceObservation]) -> list[FaceObservation]:
    """Keep the surest of faces that lie on each other, then order by size and from left to right."""
    kept: list[FaceObservation] = []
    for face in sorted(faces, key=lambda face: -face.score):
        apart = not any(
            is_continuous(other, face, shift=_SAME_PLACE, ratio=np.inf)
            or box_overlap(np.array(face.box), np.array([other.box]))[0] > _SAME_PLACE
            for other in kept
        )
        if apart:
            kept.append(face)
    return sorted(kept, key=lambda face: (-face.side_px, face.centre))
