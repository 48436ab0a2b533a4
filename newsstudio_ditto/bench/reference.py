"""The reference's way of rendering, restated plainly from its description, to be measured beside ours.

Autocast float16, one frame at a time, numpy at every network's door, guidance in two passes, speech encoded chunk by
chunk, paste-back by OpenCV on whole frames, and rgb24 to FFmpeg.
"""

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.maths.audio_windows import cut_windows, merge_rows
from newsstudio_ditto.maths.clips import ClipOptions, generate_motion
from newsstudio_ditto.maths.diffusion import ddim_schedule, ddim_step, guide
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES, count_frames

Picture = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]


class ReferenceWay:
    """A model run as the reference runs it.

    Args:
        bundle: with float32 weights; autocast does the rest.
    """

    def __init__(self, bundle: ModelBundle) -> None:
        """Hold the networks."""
        self.bundle = bundle

    def _enter(self, array: npt.NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(array).to(self.bundle.device)

    def _autocast(self) -> torch.autocast:
        kind = self.bundle.device.type
        return torch.autocast(kind, dtype=torch.float16, enabled=kind == "cuda")

    @torch.no_grad()
    def face(self, volume: Singles, source: Singles, driving: Singles) -> Singles:
        """One rendered crop (S, S, 3) float32, 0..255, of arrays with a batch axis of one."""
        with self._autocast():
            feature = self.bundle.warp(*(self._enter(part) for part in (volume, source, driving)))
        entered = self._enter(feature.float().cpu().numpy())
        with self._autocast():
            image = self.bundle.decoder(entered)
        picture = image.float().cpu().numpy()[0].transpose(1, 2, 0)
        return np.asarray(np.clip(picture, 0, 1) * 255, np.float32)

    @torch.no_grad()
    def features(self, speech: npt.NDArray[np.float32]) -> Tensor:
        """Speech features (T, A), one window of the encoder after the other."""
        rows = []
        for window in cut_windows(torch.from_numpy(speech)):
            with self._autocast():
                encoded = self.bundle.audio_encoder(self._enter(window.numpy()[None]))
            rows.append(encoded.float().cpu())
        return merge_rows(torch.cat(rows), count_frames(len(speech)))

    def motion(self, conditions: Tensor, source: Tensor, num_steps: int, scale: float, options: ClipOptions) -> Tensor:
        """Motion (T, 265): every step encodes the condition anew, and guidance takes two passes."""
        noise = torch.Generator().manual_seed(0)
        steps = torch.randn(num_steps, WINDOW_FRAMES, MOTION_DIM, generator=noise).to(self.bundle.device)

        @torch.no_grad()
        def sample(first_frame: Tensor, rows: Tensor) -> Tensor:
            denoiser, schedule = self.bundle.motion_diffusion, ddim_schedule(num_steps)
            x, first, condition = steps[:1], first_frame[None], rows[None]
            for index, step in enumerate(schedule.steps()):
                time = torch.full((1,), step.time, device=x.device)
                given = denoiser(x, first, denoiser.encode_condition(condition), time)
                free = denoiser(x, first, denoiser.null_condition(1), time)
                following = steps[min(index + 1, num_steps - 1)][None]
                x = ddim_step(x, guide(given, free, scale), following, step)
            return x[0]

        return generate_motion(conditions, source, sample, options)


def paste(frame: Picture, face: Singles, crop_to_original: npt.NDArray[np.float64], mask: Singles) -> Picture:
    """One frame (H, W, 3): crop and mask are warped over the whole frame, and the whole frame is blended."""
    size = frame.shape[1], frame.shape[0]
    warped = cv2.warpAffine(face, crop_to_original[:2], size, flags=cv2.INTER_LINEAR)
    alpha = cv2.warpAffine(mask, crop_to_original[:2], size, flags=cv2.INTER_LINEAR)[..., None]
    return np.asarray(np.clip(alpha * warped + (1 - alpha) * frame, 0, 255).astype(np.uint8))


def frames(way: ReferenceWay, packet: Packet, plan: FramePlan) -> Iterator[Picture]:
    """Finished frames (H, W, 3) uint8 RGB of a plan, one at a time."""
    source_keypoints, driving_keypoints = plan.source_keypoints.cpu().numpy(), plan.driving_keypoints.cpu().numpy()
    mask = None
    for number, index in enumerate(plan.source_index.tolist()):
        volume = packet.appearance_volumes[index : index + 1].float().numpy()
        span = slice(number, number + 1)
        face = way.face(volume, source_keypoints[span], driving_keypoints[span])
        mask = feather_mask(*face.shape[:2]).astype(np.float32) if mask is None else mask
        frame = np.ascontiguousarray(packet.frames[index].permute(1, 2, 0).numpy())
        yield paste(frame, face, packet.meta.crop_to_original[index].double().numpy(), mask)
