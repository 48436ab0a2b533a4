"""Losses of the renderer: weighted pixels and edges on a pyramid, landmark features, and a patch critic."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

LEVEL_WEIGHTS = (1.0, 1.0, 1.0, 0.7)
EDGE_LEVELS = 3
MOUTH_WEIGHT, EYE_WEIGHT = 5.0, 3.0
MOUTH_RADIUS, EYE_RADIUS = 0.16, 0.10
WEIGHT_PX = 128
FACE_REACH = 0.72
FACE_PX, PATCH_PX = 256, 160
ENERGY_PX, ENERGY_FLOOR = 8, 1e-5
SQUARE_FLOOR = 1e-5


def blob(centre: Tensor, radius: float, size_px: int = WEIGHT_PX) -> Tensor:
    """Gaussian bumps (B, 1, size, size) at centres (B, 2)."""
    axis = torch.linspace(-1, 1, size_px, device=centre.device)
    x = torch.exp(-0.5 * ((axis - centre[:, :1]) / radius) ** 2)
    y = torch.exp(-0.5 * ((axis - centre[:, 1:]) / radius) ** 2)
    return (y[:, :, None] * x[:, None, :])[:, None]


def mouth_centre(keypoints: Tensor) -> Tensor:
    """(B, 2)."""
    return keypoints[:, :6, :2].mean(1)


def weight_map(keypoints: Tensor) -> Tensor:
    """Pixel weights (B, 1, WEIGHT_PX, WEIGHT_PX): more on mouth and eyes."""
    eyes = [blob(keypoints[:, i : i + 2, :2].mean(1), EYE_RADIUS) for i in (9, 11)]
    return 1 + MOUTH_WEIGHT * blob(mouth_centre(keypoints), MOUTH_RADIUS) + EYE_WEIGHT * (eyes[0] + eyes[1])


def _edges(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., :, 1:] - x[..., :, :-1], x[..., 1:, :] - x[..., :-1, :]


def pixel_losses(output: Tensor, target: Tensor, keypoints: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted L1 of pixels and of edges over a pyramid of halvings, and weighted squares at the finest level."""
    weights = weight_map(keypoints)
    pixels = edges = squares = output.new_zeros(())
    for level, share in enumerate(LEVEL_WEIGHTS):
        if level:
            output, target = functional.avg_pool2d(output, 2), functional.avg_pool2d(target, 2)
        local = functional.interpolate(weights, size=output.shape[-2:], mode="bilinear", align_corners=False)
        away = output - target
        pixels = pixels + share * (local * away.abs()).mean()
        if not level:
            squares = (local * away.square()).mean()
        if level < EDGE_LEVELS:
            for mine, wanted in zip(_edges(output), _edges(target), strict=True):
                cut = local[..., : mine.shape[-2], : mine.shape[-1]]
                edges = edges + (cut * (mine - wanted).abs()).mean()
    return pixels, edges, squares


def square(images: Tensor, centre: Tensor, half: Tensor, size_px: int) -> Tensor:
    """Squares of half side ``half`` (B,) around ``centre`` (B, 2) out of images (B, 3, S, S).

    Resampled to ``size_px``.
    """
    axis = torch.linspace(-1, 1, size_px, device=images.device) * (1 - 1 / size_px)
    x, y = (centre[:, i, None] + half[:, None] * axis for i in (0, 1))
    grid = torch.stack([x[:, None, :].expand(-1, size_px, -1), y[:, :, None].expand(-1, -1, size_px)], -1)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def face_square(images: Tensor, keypoints: Tensor) -> Tensor:
    """The face at FACE_PX."""
    low, high = keypoints[..., :2].amin(1), keypoints[..., :2].amax(1)
    return square(images, (low + high) / 2, (high - low).amax(1) * FACE_REACH, FACE_PX)


def native_centres(keypoints: Tensor, size_px: int) -> Tensor:
    """Centres (2B, 2) of native patches, on whole pixels: the mouth of each, and a random place of each."""
    mouth = mouth_centre(keypoints)
    reach = 1 - PATCH_PX / size_px
    anywhere = torch.rand_like(mouth) * 2 - 1
    both = torch.cat([mouth.clamp(-reach, reach), anywhere * reach])
    return ((both + 1) * size_px / 2).round() * 2 / size_px - 1


def native_patches(images: Tensor, centres: Tensor) -> Tensor:
    """Patches (2B, 3, PATCH_PX, PATCH_PX) of images (B, 3, S, S), pixel for pixel.

    So that a pattern of single pixels shows.
    """
    half = images.new_full((len(centres),), PATCH_PX / images.shape[-1])
    return square(torch.cat([images, images]), centres, half, PATCH_PX)


def edge_energy_loss(output: Tensor, wanted: Tensor) -> Tensor:
    """How far the local strength of edges is from what it should be (B,), wherever they lie: against soft pictures.

    Args:
        output: (B, 3, S, S).
        wanted: the same; strengths are compared over squares of ENERGY_PX.
    """
    kernel = output.new_tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]

    def strength(images: Tensor) -> Tensor:
        edges = functional.conv2d(images.mean(1, keepdim=True), kernel)
        return (functional.avg_pool2d(edges.square(), ENERGY_PX) + ENERGY_FLOOR).sqrt()

    return (strength(output) - strength(wanted)).abs().mean((1, 2, 3))


def relative_square_loss(output: Tensor, target: Tensor, keypoints: Tensor) -> Tensor:
    """Mean logarithm of the squared error of each picture (B, 3, S, S), of its mouth and of all of it.

    So that a picture that is easy counts as much as one that turns far, as it does in a mean PSNR.
    """
    error = functional.adaptive_avg_pool2d((output - target).square().mean(1, keepdim=True), WEIGHT_PX)
    mouth = blob(mouth_centre(keypoints), MOUTH_RADIUS)
    at_mouth = (error * mouth).sum((1, 2, 3)) / mouth.sum((1, 2, 3))
    return ((at_mouth + SQUARE_FLOOR).log() + (error.mean((1, 2, 3)) + SQUARE_FLOOR).log()).mean() / 2


class PatchCritic(nn.Module):
    """Spectrally normalised patch critic; also returns its feature maps."""

    def __init__(self, widths: tuple[int, ...] = (48, 96, 192, 256)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(spectral_norm(nn.Conv2d(narrow, wide, 4, 2, 1)), nn.LeakyReLU(0.2))
            for narrow, wide in pairwise((3, *widths))
        )
        self.score = spectral_norm(nn.Conv2d(widths[-1], 1, 3, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Scores (B, 1, h, w) and feature maps."""
        maps = []
        for layer in self.layers:
            x = layer(x)
            maps.append(x)
        return self.score(x), maps


def relative_distance(mine: list[Tensor], wanted: list[Tensor]) -> Tensor:
    """Mean L1 of feature maps, each in units of the wanted map's mean."""
    terms = [
        (a - b).abs().mean(dtype=torch.float32) / (b.abs().mean(dtype=torch.float32) + 1e-3)
        for a, b in zip(mine, wanted, strict=True)
    ]
    return torch.stack(terms).mean()


def landmark_loss(features: Callable[[Tensor], list[Tensor]], faces: Tensor, wanted: Tensor) -> Tensor:
    """Distance in the landmark network."""
    with torch.no_grad():
        reference = features(wanted)
    return relative_distance(features(faces), reference)


def critic_losses(critic: PatchCritic, fake: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Generator side: adversarial loss and feature matching."""
    for parameter in critic.parameters():
        parameter.requires_grad_(False)
    score, maps = critic(fake)
    with torch.no_grad():
        _, wanted = critic(real)
    for parameter in critic.parameters():
        parameter.requires_grad_(True)
    return -score.mean(dtype=torch.float32), relative_distance(maps, wanted)


def hinge_loss(critic: PatchCritic, fake: Tensor, real: Tensor) -> Tensor:
    """Critic side."""
    good, bad = critic(real)[0].float(), critic(fake)[0].float()
    return functional.relu(1 - good).mean() + functional.relu(1 + bad).mean()
