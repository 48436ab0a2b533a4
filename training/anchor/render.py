"""Render the anchor: ``python -m training.anchor.render --scene FOLDER --out FOLDER [still|train|loop|all]``.

The scene is what ``training.anchor.build`` writes. Every frame is skipped when its files exist, so a stopped run goes
on where it was; several processes share a folder when each takes every N-th frame (``--first I --stride N``).
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy

from training.anchor import shots, stage
from training.anchor.mesh import NeckPose
from training.anchor.puppet import pose
from training.anchor.rig import Rig, load_rig

logger = logging.getLogger(__name__)

BLOCK_TRAIN = 2
BLOCK_LOOP = 2


@dataclass(frozen=True)
class Options:
    """Sizes in pixels, quality, and which frames."""

    out: Path
    train_px: int
    train_quality: stage.Quality
    held_quality: stage.Quality
    train_frames: range
    wide_px: int
    wide_quality: stage.Quality
    loop_frames: range


class Camera:
    """Renders posed frames of the open scene."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.scene = bpy.context.scene

    def aim(
        self,
        framing: stage.Framing,
        size_px: int,
        quality: stage.Quality,
        region: tuple[float, ...] | None = None,
    ) -> None:
        """Choose view, size, quality, and optionally the part of the picture to render."""
        stage.frame(self.scene.camera, framing, self.rig.eye_height)
        stage.set_quality(self.scene, quality)
        render = self.scene.render
        render.resolution_x = render.resolution_y = size_px
        render.use_border = render.use_crop_to_border = region is not None
        if region is not None:
            render.border_min_x, render.border_max_x, render.border_min_y, render.border_max_y = region

    def take(self, shot: shots.Shot, path: Path) -> None:
        """Render ``shot`` to ``path`` (PNG) and its values beside it; the JSON file marks completion."""
        began = time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        pose(self.rig, shot.co, NeckPose(shot.rot, shot.tr, self.rig.eye_height))
        self.scene.render.filepath = str(path)
        bpy.ops.render.render(write_still=True)
        path.with_suffix(".json").write_text(json.dumps(shot.as_json()))
        logger.info("rendered %s in %.1f s", path, time.monotonic() - began)


def _missing(folder: Path, indices: range) -> list[int]:
    return [index for index in indices if not (folder / f"{index:04d}.json").exists()]


def render_still(camera: Camera, options: Options) -> None:
    """The whole wide frame, neutral; the loop is pasted into it."""
    path = options.out / "wide.png"
    if not path.with_suffix(".json").exists():
        camera.aim(stage.WIDE, options.wide_px, options.wide_quality)
        camera.take(shots.neutral(), path)


def render_train(camera: Camera, options: Options, indices: list[int]) -> None:
    """Face crops for training; the neutral one and those to be held out may be of better quality."""
    for index in indices:
        is_judged = index == 0 or index in shots.HELD_OUT
        quality = options.held_quality if is_judged else options.train_quality
        camera.aim(stage.FACE, options.train_px, quality)
        camera.take(shots.training_shot(index), options.out / "train" / f"{index:04d}.png")


def render_loop(camera: Camera, options: Options, indices: list[int]) -> None:
    """The moving region of the loop's frames."""
    if indices:
        camera.aim(stage.WIDE, options.wide_px, options.wide_quality, shots.MOVING_REGION)
    for index in indices:
        camera.take(shots.loop_shot(index), options.out / "loop" / f"{index:04d}.png")


def _blocks(indices: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def render_all(camera: Camera, options: Options) -> None:
    """Still first, then training frames and loop in turn, so that both are of use when time runs out."""
    render_still(camera, options)
    train = _blocks(_missing(options.out / "train", options.train_frames), BLOCK_TRAIN)
    loop = _blocks(_missing(options.out / "loop", options.loop_frames), BLOCK_LOOP)
    while True:
        train_block, loop_block = next(train, []), next(loop, [])
        if not train_block and not loop_block:
            return
        render_train(camera, options, train_block)
        render_loop(camera, options, loop_block)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("still", "train", "loop", "all"), nargs="?", default="all")
    parser.add_argument("--scene", type=Path, required=True, help="folder with anchor.blend and rig.npz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train-px", type=int, default=640)
    parser.add_argument("--train-frames", type=int, default=400)
    parser.add_argument("--wide-px", type=int, default=704)
    parser.add_argument("--samples", type=int, default=64, help="at most, per pixel of a training frame")
    parser.add_argument(
        "--held-samples", type=int, help="of frames 0 to 12, which judge the others; --samples if left out"
    )
    parser.add_argument("--wide-samples", type=int, default=24)
    parser.add_argument("--noise", type=float, default=0.01, help="pixels less noisy than this get no more samples")
    parser.add_argument("--seed", type=int, default=1, help="of the sampling, the same in every frame")
    parser.add_argument("--denoise-on-cpu", action="store_true")
    parser.add_argument("--first", type=int, default=0, help="first frame of this process")
    parser.add_argument("--stride", type=int, default=1, help="processes that share the folder")
    return parser.parse_args(argv)


def _options(chosen: argparse.Namespace) -> Options:
    rest = (chosen.noise, chosen.seed, chosen.denoise_on_cpu)
    return Options(
        out=chosen.out.resolve(),
        train_px=chosen.train_px,
        train_quality=stage.Quality(chosen.samples, *rest),
        held_quality=stage.Quality(chosen.held_samples or chosen.samples, *rest),
        train_frames=range(chosen.first, chosen.train_frames, chosen.stride),
        wide_px=chosen.wide_px,
        wide_quality=stage.Quality(chosen.wide_samples, *rest),
        loop_frames=range(chosen.first, shots.LOOP_FRAMES, chosen.stride),
    )


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    chosen = _arguments(argv)
    options = _options(chosen)
    bpy.ops.wm.open_mainfile(filepath=str(chosen.scene.resolve() / "anchor.blend"))
    stage.choose_device(bpy.context.scene, chosen.device, chosen.threads)
    camera = Camera(load_rig(chosen.scene / "rig.npz"))
    if chosen.what == "all":
        render_all(camera, options)
    elif chosen.what == "still":
        render_still(camera, options)
    elif chosen.what == "train":
        render_train(camera, options, _missing(options.out / "train", options.train_frames))
    else:
        render_loop(camera, options, _missing(options.out / "loop", options.loop_frames))


if __name__ == "__main__":
    main()
