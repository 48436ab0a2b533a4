"""Whether a rendered video shows where the rendered part was blended in."""

from collections.abc import Iterator, Sequence

import cv2
import numpy as np

from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.packet.reader import Packet

NUM_SECTORS = 32
RING_PX = 8
INSIDE_ALPHA = (0.5, 0.98)
FLAT_LEVELS = 2.0
FLAT_WINDOW_PX = 9
FEWEST_PIXELS = 24


def flat_ground(picture: np.ndarray) -> np.ndarray:
    """Where a picture (H, W, 3) hardly varies: (H, W) bool."""
    window = (FLAT_WINDOW_PX, FLAT_WINDOW_PX)
    values = picture.astype(np.float32)
    spread = cv2.blur(values**2, window) - cv2.blur(values, window) ** 2
    return np.asarray(np.sqrt(spread.max(axis=2).clip(min=0)) < FLAT_LEVELS)


def ring_steps(output: np.ndarray, source: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Steps that blending put between the ring inside the mask and the ring outside it.

    Both rings are cut into sectors around the middle of the mask; on the source's flat ground only.

    Args:
        output: (H, W, 3) uint8, rendered.
        source: (H, W, 3) uint8, as filmed.
        alpha: (H, W) float, 0..1.

    Returns:
        (S,) one value per sector with enough flat ground in both rings: the change from source to output inside, less
        the same outside, in levels of 255, by the colour where it is largest.
    """
    covered = (alpha > 0).astype(np.uint8)
    near = cv2.dilate(covered, np.ones((2 * RING_PX + 1, 2 * RING_PX + 1), np.uint8))
    flat = flat_ground(source)
    inside = (alpha >= INSIDE_ALPHA[0]) & (alpha < INSIDE_ALPHA[1]) & flat
    outside = (near > 0) & (covered == 0) & flat
    rows, columns = np.indices(alpha.shape)
    middle = [float((axis * alpha).sum() / max(alpha.sum(), 1e-6)) for axis in (rows, columns)]
    turn = np.arctan2(rows - middle[0], columns - middle[1]) / (2 * np.pi) + 0.5
    sector = np.minimum((turn * NUM_SECTORS).astype(int), NUM_SECTORS - 1)
    change = output.astype(np.float32) - source.astype(np.float32)
    steps = []
    for index in range(NUM_SECTORS):
        rings = [ring & (sector == index) for ring in (inside, outside)]
        if all(ring.sum() >= FEWEST_PIXELS for ring in rings):
            means = [change[ring].mean(axis=0) for ring in rings]
            steps.append(np.abs(means[0] - means[1]).max())
    return np.array(steps, np.float32)


def packet_frames(packet: Packet, indices: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Source frame (H, W, 3) and alpha (H, W) of each of a packet's frames."""
    for index in indices:
        source = np.ascontiguousarray(packet.frames[index].permute(1, 2, 0).numpy())
        alpha = np.zeros(source.shape[:2], np.float32)
        alpha[packet.paste_window.slices] = packet.masks[index, 0].numpy() / np.float32(255)
        yield source, alpha


def seam_levels(video: Sequence[np.ndarray], packet: Packet, *, every: int = 5) -> np.ndarray:
    """Steps of all sectors of every ``every``-th frame of a video that was rendered from a packet, in levels of 255."""
    chosen = range(0, len(video), every)
    shown = [int(mirror_index(index, packet.num_frames)) for index in chosen]
    pairs = zip(chosen, packet_frames(packet, shown), strict=True)
    return np.concatenate([ring_steps(video[index], source, alpha) for index, (source, alpha) in pairs])
