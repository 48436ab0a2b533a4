"""The networks that draw a face and the one that reads it, as one training unit; their losses and scores."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from newsstudio_ditto.maths.keypoints import decode_head_pose, pose_keypoints, rotation_matrix
from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.config import NetworkConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.motion_extractor import MotionExtractor, MotionOutput
from newsstudio_ditto.networks.warp import WarpingNetwork
from training.labels import MotionLabels, soft_bins
from training.losses import blob, mouth_centre
from training.pool import Pair, PictureSet, cut_pairs, cut_singles

KEYPOINT_WEIGHT, SQUARE_WEIGHT, PART_WEIGHT, POSE_WEIGHT, MIRROR_WEIGHT = 20.0, 50.0, 3.0, 0.05, 20.0
MIN_SCALE = 0.2
FACE_BOX_MARGIN = 0.12


class Renderer(nn.Module):
    """Appearance, warp and decoder in a row."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.appearance = AppearanceExtractor(config.appearance)
        self.warp = WarpingNetwork(config.warp)
        self.decoder = SpadeDecoder(config.decoder)

    def forward(self, source: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        """Source (B, 3, 512, 512) and keypoints (B, 21, 3) -> picture (B, 3, 512, 512) float32."""
        shrink = source.shape[-1] // self.appearance.config.input_px
        source = functional.avg_pool2d(source, shrink) if shrink > 1 else source
        feature = self.warp(self.appearance(source), source_keypoints, driving_keypoints)
        picture: Tensor = self.decoder(feature).float()
        return picture


def posed(output: MotionOutput) -> tuple[Tensor, Tensor]:
    """Keypoints (B, 21, 3) that the product would compute from a motion extractor's output, and angles (B.

    3) in degrees.
    """
    angles = torch.stack([decode_head_pose(x.float()) for x in (output.pitch, output.yaw, output.roll)], -1)
    points = [x.float().unflatten(-1, (21, 3)) for x in (output.canonical, output.expression)]
    turn = rotation_matrix(*angles.unbind(-1))
    return pose_keypoints(points[0], turn, points[1], output.scale.float(), output.translation.float()), angles


def motion_loss(output: MotionOutput, labels: MotionLabels) -> tuple[Tensor, Tensor]:
    """Loss of a motion extractor, and the mean error of its posed keypoints in crop units (x, y)."""
    points, angles = posed(output)
    away = points - labels.keypoints
    parts = (
        (output.canonical.float() - labels.canonical.flatten(1)).abs().mean()
        + (output.expression.float() - labels.expression.flatten(1)).abs().mean()
        + (output.translation.float() - labels.translation).abs().mean()
        + (output.scale.float() - labels.scale).abs().mean()
    )
    logits = (output.pitch, output.yaw, output.roll)
    bins = [
        functional.cross_entropy(x.float(), soft_bins(a))
        for x, a in zip(logits, labels.angles_deg.unbind(-1), strict=True)
    ]
    pose = torch.stack(bins).mean() + (angles - labels.angles_deg).abs().mean()
    # A negative scale with every other part mirrored poses the same keypoints, and has trapped a run before.
    mirrored = functional.relu(MIN_SCALE - output.scale.float()).mean()
    total = MIRROR_WEIGHT * mirrored + KEYPOINT_WEIGHT * away.abs().mean() + SQUARE_WEIGHT * away.square().mean()
    return total + PART_WEIGHT * parts + POSE_WEIGHT * pose, away[..., :2].norm(dim=-1).mean().detach()


class Score(NamedTuple):
    """Quality of pictures (B,): PSNR of four regions, and the mouth's edge strength over the target's.

    Args:
        crop_db: the whole picture.
        box_db: the box around the keypoints with a margin, so with the hair beside the face.
        face_db: inside the outline that was given; the box where none was.
        mouth_db: around the mouth.
        sharpness: of the mouth.
    """

    crop_db: Tensor
    box_db: Tensor
    face_db: Tensor
    mouth_db: Tensor
    sharpness: Tensor


def _masked_db(error: Tensor, mask: Tensor) -> Tensor:
    """PSNR inside masks; not a number where one is empty."""
    return -10 * torch.log10((error * mask).sum((1, 2, 3)) / mask.sum((1, 2, 3)) + 1e-8)


def _laplacian_spread(images: Tensor, mask: Tensor) -> Tensor:
    grey = images.mean(1, keepdim=True)
    kernel = grey.new_tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]
    edges = functional.conv2d(grey, kernel, padding=1)
    weight = mask / mask.sum((1, 2, 3), keepdim=True).clamp_min(1)
    mean = (edges * weight).sum((1, 2, 3), keepdim=True)
    return ((edges - mean).square() * weight).sum((1, 2, 3)).sqrt()


def score_pictures(output: Tensor, target: Tensor, keypoints: Tensor, outline: Tensor | None = None) -> Score:
    """Quality of pictures (B, 3, S, S), per picture; the outline of the face is a mask (B, 1, S, S)."""
    size = output.shape[-1]
    axis = torch.linspace(-1, 1, size, device=output.device)
    low, high = keypoints[..., :2].amin(1) - FACE_BOX_MARGIN, keypoints[..., :2].amax(1) + FACE_BOX_MARGIN
    across = (axis > low[:, :1]) & (axis < high[:, :1])
    down = (axis > low[:, 1:]) & (axis < high[:, 1:])
    box = (down[:, :, None] & across[:, None, :])[:, None].float()
    mouth = (blob(mouth_centre(keypoints), 0.16, size) > 0.5).float()
    error = (output - target).square().mean(1, keepdim=True)
    ratio = _laplacian_spread(output, mouth) / _laplacian_spread(target, mouth).clamp_min(1e-6)
    regions = (torch.ones_like(box), box, box if outline is None else outline, mouth)
    return Score(*(_masked_db(error, region) for region in regions), ratio)


@torch.no_grad()
def evaluate_renderer(
    renderer: Renderer,
    pictures: PictureSet,
    *,
    frames: int,
    find_outline: Callable[[Tensor], Tensor] | None = None,
) -> tuple[dict[str, float], list[Tensor]]:
    """Mean scores with frame 0 or the most closed mouth as the source, and example rows (3, 512, 1536).

    ``find_outline`` gives the masks (B, 1, S, S) of the faces in target pictures (B, 3, S, S); an empty one, of a face
    that was not found, does not count.
    """
    scores: list[Score] = []
    examples: list[Tensor] = []
    total = pictures.images.shape[1]
    for person in range(len(pictures.images)):
        source = int(pictures.jaw[person].argmin()) if len(pictures.images) > 1 else 0
        others = [i for i in range(total) if i != source][:frames]
        pair = _frames_of(pictures, person, source, others)
        output = renderer(pair.source, pair.source_keypoints, pair.target_keypoints)
        outline = None if find_outline is None else find_outline(pair.target)
        scores.append(score_pictures(output, pair.target, pair.target_keypoints, outline))
        source_row = pair.source[0]
        picked = int(pictures.jaw[person, others].argmax()), len(others) // 2
        examples += [torch.cat([source_row, pair.target[i], output[i]], -1) for i in picked]
    means = {name: float(torch.cat([getattr(s, name) for s in scores]).nanmean()) for name in Score._fields}
    return means, examples


def _frames_of(pictures: PictureSet, person: int, source: int, others: list[int]) -> Pair:
    device = pictures.images.device
    target = torch.tensor(others, device=device)
    return cut_pairs(pictures, torch.full_like(target, person), torch.full_like(target, source), target, 0.0)


@torch.no_grad()
def evaluate_motion(extractor: MotionExtractor, pictures: PictureSet) -> float:
    """Mean keypoint error in pixels of the 512 crop."""
    errors = []
    for person in range(len(pictures.images)):
        frames = torch.arange(pictures.images.shape[1], device=pictures.images.device)
        images, labels = cut_singles(pictures, torch.full_like(frames, person), frames, 0.0)
        errors.append(motion_loss(extractor(images), labels)[1])
    return float(torch.stack(errors).mean()) * 256
