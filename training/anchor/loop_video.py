"""Compose and encode the idle loop: ``python -m training.anchor.loop_video FOLDER OUT.mp4``.

Runs in the product's environment, not in Blender's. FOLDER is what :mod:`training.anchor.render` wrote; ``loop.json``
is added to it.
"""

import argparse
import json
import logging
import subprocess
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from imageio_ffmpeg import get_ffmpeg_exe

from newsstudio_ditto.faces.finder import FaceFinder
from training.anchor.shots import FRAME_RATE_HZ, LOOP_FRAMES, MOVING_REGION

logger = logging.getLogger(__name__)

Pixels = npt.NDArray[np.uint8]

FEATHER_PX = 20
CRF = 16
FOV_DEG, HEIGHT_FROM_EYES, DISTANCE = 14.5, -0.45, 16.0
# Landmarks: inner lips; outer eye corners; then per eye upper lid, lower lid, outer and inner corner.
LIPS = (13, 14)
EYE_CORNERS = (33, 263)
LIDS = ((159, 145, 33, 133), (386, 374, 263, 362))


@dataclass(frozen=True)
class FaceCurves:
    """Measured on the frames: lid and lip gaps, each over its own reference length; NaN where no face was found."""

    eye_open: npt.NDArray[np.float64]
    lip_gap: npt.NDArray[np.float64]


def region_weight(height: int, width: int) -> npt.NDArray[np.float32]:
    """(height, width, 1): 1 inside, fading to 0 at the rim, so that the pasted region leaves no edge."""
    rows, columns = (np.minimum(np.arange(n), np.arange(n)[::-1]) for n in (height, width))
    inside = np.minimum(rows[:, None], columns[None]) / FEATHER_PX
    ramp = np.clip(inside, 0, 1)
    return (ramp * ramp * (3 - 2 * ramp))[..., None].astype(np.float32)


def region_corner(still_height: int, still_width: int) -> tuple[int, int]:
    """(top, left) px of the rendered region in the still; Blender cuts the region's edges down to whole pixels."""
    left, _, _, top = MOVING_REGION
    return still_height - int(top * still_height), int(left * still_width)


def _read(path: Path) -> Pixels:
    pixels = cv2.imread(str(path))
    if pixels is None:
        raise FileNotFoundError(f"{path} is missing or no picture; run training.anchor.render again")
    return np.asarray(pixels, dtype=np.uint8)


def compose(folder: Path) -> list[Pixels]:
    """All frames of the loop, (H, W, 3) BGR."""
    still = _read(folder / "wide.png")
    regions = [_read(folder / "loop" / f"{index:04d}.png") for index in range(LOOP_FRAMES)]
    height, width = regions[0].shape[:2]
    top, left = region_corner(*still.shape[:2])
    logger.info("region %d x %d at top %d, left %d", width, height, top, left)
    weight = region_weight(height, width)
    frames = []
    for region in regions:
        frame = still.astype(np.float32)
        window = frame[top : top + height, left : left + width]
        window += weight * (region.astype(np.float32) - window)
        frames.append(np.rint(frame).astype(np.uint8))
    return frames


def encode(frames: list[Pixels], path: Path) -> None:
    """H.264, 4:2:0, tagged BT.709, ready to stream."""
    height, width = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{width}x{height}", "-r", str(FRAME_RATE_HZ), "-i", "-"]
    colour = ["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
    convert = [
        "-vf",
        "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_inp,format=yuv420p",
    ]
    codec = ["-c:v", "libx264", "-preset", "veryslow", "-crf", str(CRF), "-movflags", "+faststart", "-an"]
    argv = [get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *convert, *codec, *colour, str(path)]
    subprocess.run(argv, input=b"".join(frame.tobytes() for frame in frames), check=True)


def closing_steps(frames: list[Pixels]) -> npt.NDArray[np.float64]:
    """(N,) mean absolute difference of each frame to the next, the last one to the first."""
    following = [*frames[1:], frames[0]]
    return np.array([np.abs(a.astype(np.int16) - b).mean() for a, b in zip(frames, following, strict=True)])


def measure(frames: list[Pixels]) -> FaceCurves:
    """Lid and lip gaps by the packaged landmark net."""
    finder = FaceFinder(num_threads=1)
    eyes, lips = [], []
    for found in finder.track(np.ascontiguousarray(frame[..., ::-1]) for frame in frames):
        if found is None:
            eyes.append(np.nan)
            lips.append(np.nan)
            continue
        points = found.landmarks[:, :2]

        def gap(first: int, second: int, points: npt.NDArray[np.float32] = points) -> float:
            return float(np.linalg.norm(points[first] - points[second]))

        eyes.append(float(np.mean([gap(up, low) / gap(out, inner) for up, low, out, inner in LIDS])))
        lips.append(gap(*LIPS) / gap(*EYE_CORNERS))
    return FaceCurves(np.array(eyes), np.array(lips))


def write_record(folder: Path, path: Path) -> None:
    """Camera and per-frame values in one file, enough to place every vertex in the picture."""
    camera = {"fov_deg": FOV_DEG, "height_from_eyes_dm": HEIGHT_FROM_EYES, "distance_dm": DISTANCE}
    frames = [json.loads((folder / "loop" / f"{index:04d}.json").read_text()) for index in range(LOOP_FRAMES)]
    path.write_text(json.dumps({"fps": FRAME_RATE_HZ, "camera": camera, "frames": frames}, indent=1) + "\n")


def main() -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    frames = compose(chosen.folder)
    encode(frames, chosen.out)
    write_record(chosen.folder, chosen.folder / "loop.json")
    steps = closing_steps(frames)
    logger.info("frame steps: median %.3f, largest %.3f, closing %.3f", np.median(steps), steps.max(), steps[-1])
    curves = measure(frames)
    logger.info("faces missed: %d of %d", np.isnan(curves.eye_open).sum(), len(frames))
    logger.info("eye opening: %s", np.array2string(curves.eye_open, precision=2, max_line_width=110))
    logger.info("lip gap: %s", np.array2string(curves.lip_gap, precision=3, max_line_width=110))


if __name__ == "__main__":
    main()
