"""Fill a folder with people for the trainer.

``python -m training.head_worker FOLDER --index I --workers N --first S --count C``.

Each person is ``SEED.npy`` (images) and then ``SEED.npz`` (labels); the second appears only when both are whole. A
full folder makes the worker wait; a file named ``stop`` ends it.
"""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np

from training.files import save_arrays
from training.head_model import head_pack
from training.head_renderer import HeadRenderer
from training.sampling import sample_person

FULL_FOLDER_FILES = 160
WAIT_S = 0.2


def write_person(renderer: HeadRenderer, seed: int, num_frames: int, folder: Path) -> None:
    """Render and store one person."""
    frames = sample_person(renderer, seed, num_frames)
    np.save(folder / f"{seed}.npy", frames.images)
    labels = {name: getattr(frames, name) for name in ("keypoints", "canonical", "angles_deg", "scale", "crops", "jaw")}
    save_arrays(labels, folder / f"{seed}.npz")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--size", type=int, default=640)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    renderer = HeadRenderer(head_pack(), options.size)
    for seed in range(options.first + options.index, options.first + options.count, options.workers):
        while len(list(options.folder.iterdir())) > FULL_FOLDER_FILES:
            time.sleep(WAIT_S)
        if (options.folder / "stop").exists():
            return
        write_person(renderer, seed, options.frames, options.folder)


if __name__ == "__main__":
    main()
