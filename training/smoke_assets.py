"""Make the small pictures and speech of the smoke test: ``python -m training.smoke_assets CORPUS.npz``.

Needs GL and a corpus.
"""

import sys
from pathlib import Path

import cv2
import numpy as np

from training.files import save_arrays
from training.head_model import head_pack
from training.head_renderer import HeadRenderer
from training.pool import encode_webp
from training.sampling import sample_person
from training.smoke import ASSETS

PEOPLE, FRAMES, SIZE_PX, QUALITY = 3, 4, 192, 80
VOICES = ("hibari", "slt")


def picture_arrays() -> dict[str, np.ndarray]:
    """People, compressed, with labels."""
    renderer = HeadRenderer(head_pack(), 2 * SIZE_PX)
    arrays: dict[str, list[np.ndarray]] = {}
    images: dict[str, np.ndarray] = {}
    for person in range(PEOPLE):
        frames = sample_person(renderer, 50 + person, FRAMES)
        for i, image in enumerate(frames.images):
            small = cv2.resize(image, (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_AREA)
            images[f"webp/{person}/{i}"] = encode_webp(small, QUALITY)
        for name in ("keypoints", "canonical", "angles_deg", "scale", "crops", "jaw"):
            arrays.setdefault(name, []).append(getattr(frames, name))
    return images | {name: np.stack(values) for name, values in arrays.items()}


def speech_arrays(corpus_path: Path) -> dict[str, np.ndarray]:
    """The first utterance of two voices, once to train and once to test."""
    with np.load(corpus_path) as corpus:
        chosen = [int(np.flatnonzero(corpus["voices"] == voice)[0]) for voice in VOICES]
        arrays = {f"ogg/{n}": corpus[f"ogg/{i}"] for n, i in enumerate(chosen * 2)}
        tables = []
        for n, i in enumerate(chosen * 2):
            rows = corpus["phones"][corpus["phones"][:, 0] == i].copy()
            rows[:, 0] = n
            tables.append(rows)
        voices = [str(corpus["voices"][i]) for i in chosen * 2]
        sentences = [str(corpus["sentences"][i]) for i in chosen * 2]
    splits = ["train"] * len(VOICES) + ["test"] * len(VOICES)
    named = {"voices": np.array(voices), "splits": np.array(splits), "sentences": np.array(sentences)}
    return arrays | named | {"phones": np.concatenate(tables)}


if __name__ == "__main__":
    save_arrays(picture_arrays(), ASSETS / "smoke_heads.npz")
    save_arrays(speech_arrays(Path(sys.argv[1])), ASSETS / "smoke_speech.npz")
