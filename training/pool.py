"""Training pictures held on the device, and random crops of them."""

import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from training.labels import MotionLabels, crop_keypoints, crop_labels

CROP_PX = 512
INPUT_PX = 256
SCALE_JITTER, SHIFT_JITTER, ANGLE_JITTER_RAD = 0.08, 0.08, 0.05
NUM_HELD_FRAMES = 12
POLL_S = 0.1


@dataclass
class PictureSet:
    """People with several pictures each.

    Args:
        images: (P, F, S, S, 3) uint8.
        half_images: the same at half the size.
        keypoints: (P, F, 21, 3).
        canonical: (P, 21, 3).
        angles_deg: (P, F, 3).
        scale: (P, F).
        crops: (P, F, 4).
        jaw: (P, F).
        padding: what a crop shows beyond the picture: ``zeros`` or ``reflection``.
    """

    images: Tensor
    half_images: Tensor
    keypoints: Tensor
    canonical: Tensor
    angles_deg: Tensor
    scale: Tensor
    crops: Tensor
    jaw: Tensor
    padding: str = "zeros"

    @classmethod
    def empty(
        cls, people: int, frames: int, size_px: int, device: torch.device, padding: str = "zeros"
    ) -> "PictureSet":
        """Room for ``people`` with ``frames`` pictures each."""
        images = torch.empty(people, frames, size_px, size_px, 3, dtype=torch.uint8, device=device)
        half = torch.empty(people, frames, size_px // 2, size_px // 2, 3, dtype=torch.uint8, device=device)
        shapes = (
            (people, frames, 21, 3),
            (people, 21, 3),
            (people, frames, 3),
            (people, frames),
            (people, frames, 4),
            (people, frames),
        )
        return cls(images, half, *(torch.zeros(shape, device=device) for shape in shapes), padding=padding)

    @classmethod
    def noise(cls, people: int, frames: int, size_px: int, device: torch.device) -> "PictureSet":
        """Random pictures with random labels, as a stand-in of the right shape."""
        pictures = cls.empty(people, frames, size_px, device)
        pictures.images.random_(0, 256)
        for values in (pictures.keypoints, pictures.canonical):
            values.uniform_(-0.5, 0.5)
        pictures.scale.fill_(1)
        pictures.crops[..., 2] = 0.8
        return pictures.halve()

    def put(self, person: int, images: np.ndarray, labels: dict[str, np.ndarray]) -> None:
        """Store one person's pictures (F, S, S, 3) and labels; :meth:`halve` follows once all are there."""
        device = self.images.device
        self.images[person].copy_(torch.from_numpy(images))
        for name in ("keypoints", "canonical", "angles_deg", "scale", "crops", "jaw"):
            getattr(self, name)[person] = torch.from_numpy(labels[name]).to(device).float()

    def halve(self) -> "PictureSet":
        """Fill ``half_images``; not done picture by picture.

        Because rendering on the same GPU makes small work wait.
        """
        for person in range(len(self.images)):
            small = functional.avg_pool2d(self.images[person].permute(0, 3, 1, 2).float(), 2)
            self.half_images[person] = small.round().byte().permute(0, 2, 3, 1)
        return self

    def select(self, frames: Tensor) -> "PictureSet":
        """Only these frames of everybody."""
        names = ("images", "half_images", "keypoints", "angles_deg", "scale", "crops", "jaw")
        parts = {name: getattr(self, name)[:, frames] for name in names}
        return PictureSet(canonical=self.canonical, padding=self.padding, **parts)

    def head(self, people: int) -> "PictureSet":
        """The first ``people`` only, without copying."""
        fields = ("images", "half_images", "keypoints", "canonical", "angles_deg", "scale", "crops", "jaw")
        return PictureSet(*(getattr(self, name)[:people] for name in fields), padding=self.padding)


def fill_from_folder(
    folder: Path, train: PictureSet, held_out: PictureSet, *, patience_s: float, min_people: int
) -> PictureSet:
    """Read people as the workers finish them; seeds below the number of held-out people are those.

    Files are removed once read. Returns when ``train`` is full, or after ``patience_s`` seconds if at least
    ``min_people`` are there, and in any case after twice that time.

    Returns:
        The filled part of ``train``.

    Raises:
        TimeoutError: nobody came.
    """
    began, num_train = time.monotonic(), 0
    capacity, num_held = len(train.images), len(held_out.images)
    while num_train < capacity:
        waited_s = time.monotonic() - began
        if waited_s > patience_s * (1 if num_train >= min_people else 2):
            break
        found = sorted(folder.glob("*.npz"))
        if not found:
            time.sleep(POLL_S)
        for path in found:
            seed = int(path.stem)
            with np.load(path) as labels:
                images = np.load(path.with_suffix(".npy"), mmap_mode="c")
                if seed < num_held:
                    held_out.put(seed, images, dict(labels))
                elif num_train < capacity:
                    train.put(num_train, images, dict(labels))
                    num_train += 1
            del images
            path.with_suffix(".npy").unlink()
            path.unlink()
    if not num_train:
        raise TimeoutError(f"no head worker delivered anybody into {folder} within {2 * patience_s:.0f} s")
    held_out.halve()
    return train.head(num_train).halve()


def load_people(folder: Path, device: torch.device) -> PictureSet:
    """Everybody whom head workers left in a folder; the files stay.

    Raises:
        FileNotFoundError: there is nobody.
    """
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise FileNotFoundError(f"{folder} holds no people: run training.head_worker")
    first = np.load(paths[0].with_suffix(".npy"), mmap_mode="r")
    people = PictureSet.empty(len(paths), *first.shape[:2], device)
    for person, path in enumerate(paths):
        with np.load(path) as labels:
            people.put(person, np.load(path.with_suffix(".npy")), dict(labels))
    return people.halve()


def load_packed(path: Path, device: torch.device, limit: int | None = None) -> tuple[PictureSet, PictureSet]:
    """Pictures of one person packed by ``training.anchor_pack``; smaller ones are enlarged to the crop's size.

    Returns:
        For training, and held out (frames 1 to ``NUM_HELD_FRAMES``; frame 0, the neutral face, leads both). An archive
        of no more frames than that is held out as a whole.
    """
    with np.load(path) as pack:
        num = min(limit or 10**9, len(pack["keypoints"]))
        images = np.stack([decode_image(pack[f"webp/{i}"]) for i in range(num)])
        labels = {name: pack[name][:num] for name in ("keypoints", "angles_deg", "scale", "crops", "jaw")}
        labels["canonical"] = pack["canonical"]
    pictures = PictureSet.empty(1, num, images.shape[1], device, padding="reflection")
    pictures.put(0, images, labels)
    pictures.halve()
    held = num - 1 if num <= NUM_HELD_FRAMES + 1 else min(NUM_HELD_FRAMES, num // 4)
    every = torch.arange(num, device=device)
    return pictures.select(torch.cat([every[:1], every[1 + held :]])), pictures.select(every[: 1 + held])


def decode_image(raw: np.ndarray) -> np.ndarray:
    """Bytes of a compressed picture -> (S, S, 3) RGB, S at least CROP_PX."""
    image = cv2.cvtColor(cv2.imdecode(raw, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    if image.shape[0] < CROP_PX:
        image = cv2.resize(image, (CROP_PX, CROP_PX), interpolation=cv2.INTER_CUBIC)
    return image


def encode_webp(image: np.ndarray, quality: int = 92) -> np.ndarray:
    """RGB picture -> bytes."""
    return cv2.imencode(".webp", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_WEBP_QUALITY, quality])[1]


def encode_png(image: np.ndarray) -> np.ndarray:
    """RGB picture -> bytes, nothing lost, quick rather than small."""
    return cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1]


def jitter_crops(crops: Tensor, amount: float = 1.0) -> Tensor:
    """Crops (B, 4) moved, turned and scaled a little, as landmark noise and other framing do."""
    num, device = len(crops), crops.device
    spread = (torch.rand(num, 4, device=device) * 2 - 1) * amount
    half = crops[:, 2] * torch.exp(spread[:, 2] * SCALE_JITTER)
    centre = crops[:, :2] + spread[:, :2] * SHIFT_JITTER * half[:, None]
    return torch.cat([centre, half[:, None], (crops[:, 3] + spread[:, 3] * ANGLE_JITTER_RAD)[:, None]], 1)


def cut(pictures: Tensor, crops: Tensor, size_px: int, padding: str, mode: str = "bilinear") -> Tensor:
    """Crops (B, 4) of pictures (B, S, S, 3) uint8 -> (B, 3, size, size) float 0..1."""
    cos, sin, half = crops[:, 3].cos(), crops[:, 3].sin(), crops[:, 2]
    rows = (
        torch.stack([cos * half, -sin * half, crops[:, 0]], 1),
        torch.stack([sin * half, cos * half, crops[:, 1]], 1),
    )
    grid = functional.affine_grid(torch.stack(rows, 1), [len(crops), 3, size_px, size_px], align_corners=False)
    values = pictures.permute(0, 3, 1, 2).float()
    return (functional.grid_sample(values, grid, mode=mode, padding_mode=padding, align_corners=False) / 255).clamp(
        0, 1
    )


@dataclass(frozen=True)
class Pair:
    """Source and target crops of the same people, cut alike.

    Args:
        source: (B, 3, 512, 512). target: (B, 3, 512, 512). source_keypoints, target_keypoints: (B, 21, 3).
    """

    source: Tensor
    target: Tensor
    source_keypoints: Tensor
    target_keypoints: Tensor


def _pick_source(pictures: PictureSet, person: Tensor, quiet_share: float) -> Tensor:
    """Random frame; often the more closed mouth of two, since anchors mostly have it closed."""
    frames = pictures.images.shape[1]
    first, second = torch.randint(0, frames, (2, len(person)), device=person.device)
    quieter = torch.where(pictures.jaw[person, first] <= pictures.jaw[person, second], first, second)
    return torch.where(torch.rand(len(person), device=person.device) < quiet_share, quieter, first)


def sample_pairs(pictures: PictureSet, num: int, *, jitter: float = 1.0, quiet_share: float = 0.6) -> Pair:
    """``num`` random pairs."""
    device = pictures.images.device
    person = torch.randint(0, len(pictures.images), (num,), device=device)
    source = _pick_source(pictures, person, quiet_share)
    target = torch.randint(0, pictures.images.shape[1], (num,), device=device)
    return cut_pairs(pictures, person, source, target, jitter)


def cut_pairs(pictures: PictureSet, person: Tensor, source: Tensor, target: Tensor, jitter: float) -> Pair:
    """Pairs of given frames. The crop is the source's own, jittered; the target is cut with the same."""
    crops = pictures.crops[person, source]
    if jitter:
        crops = jitter_crops(crops, jitter)
    return Pair(
        cut(pictures.images[person, source], crops, CROP_PX, pictures.padding),
        cut(pictures.images[person, target], crops, CROP_PX, pictures.padding, "bicubic"),
        crop_keypoints(pictures.keypoints[person, source], crops),
        crop_keypoints(pictures.keypoints[person, target], crops),
    )


def join(pairs: list[Pair]) -> Pair:
    """One batch out of several."""
    names = ("source", "target", "source_keypoints", "target_keypoints")
    return Pair(*(torch.cat([getattr(pair, name) for pair in pairs]) for name in names))


def sample_singles(pictures: PictureSet, num: int, *, jitter: float = 1.0) -> tuple[Tensor, MotionLabels]:
    """``num`` random crops (B, 3, 256, 256) with all their labels, for the motion extractor."""
    device = pictures.images.device
    person = torch.randint(0, len(pictures.images), (num,), device=device)
    frame = torch.randint(0, pictures.images.shape[1], (num,), device=device)
    return cut_singles(pictures, person, frame, jitter)


def cut_singles(pictures: PictureSet, person: Tensor, frame: Tensor, jitter: float) -> tuple[Tensor, MotionLabels]:
    """Crops of given frames, with labels."""
    crops = pictures.crops[person, frame]
    if jitter:
        crops = jitter_crops(crops, jitter)
    images = cut(pictures.half_images[person, frame], crops, INPUT_PX, pictures.padding)
    picked = (pictures.keypoints[person, frame], pictures.canonical[person])
    return images, crop_labels(*picked, pictures.angles_deg[person, frame], pictures.scale[person, frame], crops)
