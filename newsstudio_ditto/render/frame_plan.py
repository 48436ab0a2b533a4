"""What is known of output frames before they are rendered, chunk by chunk, and how chunks become batches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import CLIP_KEYS, STILL_KEYS, MotionStitchOptions
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.prestitch import prestitch, stitch_options, stitching_of
from newsstudio_ditto.render.sources import source_motion


@dataclass(frozen=True)
class FramePlan:
    """Everything about T output frames that is known before the first one is rendered.

    Args:
        source_index: (T,) int64, the source frame behind each output frame.
        source_keypoints: (T, 21, 3) float32 on the engine's device.
        driving_keypoints: (T, 21, 3) float32 on the engine's device.
    """

    source_index: npt.NDArray[np.int64]
    source_keypoints: Tensor
    driving_keypoints: Tensor

    def __post_init__(self) -> None:
        """Refuse parts of different lengths."""
        lengths = {len(self.source_index), len(self.source_keypoints), len(self.driving_keypoints)}
        if len(lengths) != 1:
            raise ValueError(f"parts of a frame plan have different lengths: {sorted(lengths)}")

    @property
    def num_frames(self) -> int:
        """T."""
        return len(self.source_index)

    def rows(self, span: slice) -> "FramePlan":
        """Some of the frames."""
        return FramePlan(self.source_index[span], self.source_keypoints[span], self.driving_keypoints[span])

    def to(self, device: torch.device) -> "FramePlan":
        """The same plan with its keypoints on another device."""
        return replace(
            self,
            source_keypoints=self.source_keypoints.to(device),
            driving_keypoints=self.driving_keypoints.to(device),
        )

    def use_on_current_stream(self) -> None:
        """Keep the keypoints' memory until the current stream has used them, wherever they were made."""
        if self.source_keypoints.is_cuda:
            stream = torch.cuda.current_stream(self.source_keypoints.device)
            self.source_keypoints.record_stream(stream)
            self.driving_keypoints.record_stream(stream)


def join_plans(first: FramePlan, second: FramePlan) -> FramePlan:
    """The frames of both, in order."""
    return FramePlan(
        np.concatenate([first.source_index, second.source_index]),
        torch.cat([first.source_keypoints, second.source_keypoints]),
        torch.cat([first.driving_keypoints, second.driving_keypoints]),
    )


def cut_batches(plans: Iterable[FramePlan], size: int, first_size: int) -> Iterator[FramePlan]:
    """Cut chunks of any length into batches.

    Args:
        plans: chunks in order; a chunk is asked for when the frames of the one before are used up.
        size: frames of every batch but the first and the last.
        first_size: frames of the first batch; a short one shows a picture sooner.
    """
    left: FramePlan | None = None
    wanted = first_size
    for plan in plans:
        plan.use_on_current_stream()
        left = plan if left is None else join_plans(left, plan)
        while left is not None and left.num_frames >= wanted:
            yield left.rows(slice(0, wanted))
            left = left.rows(slice(wanted, None)) if left.num_frames > wanted else None
            wanted = size
    if left is not None and left.num_frames:
        yield left


class SpeechPoser:
    """Poses the keypoints of one speech, chunk after chunk; the frames are those of one pass over all of them.

    Args:
        packet: the avatar.
        bundle: for the stitching network, and for which points speech drives.
        num_frames: T, of the whole speech.
        controls: of the speech.
        stitch: apply the stitching network; None asks the bundle.

    Raises:
        UsageError: the bundle cannot do what a control asks for.
    """

    def __init__(
        self,
        packet: Packet,
        bundle: ModelBundle,
        num_frames: int,
        *,
        controls: ControlOptions | None = None,
        stitch: bool | None = None,
    ) -> None:
        """Work out the per-frame arrays of the controls."""
        self._source = source_motion(packet)
        plan = plan_controls(
            controls or ControlOptions(), stitch_options(bundle.config), bundle.config, self._source, num_frames
        )
        self._options = self._said_outright(plan.options)
        self._controls = plan.frames
        self._stitching = stitching_of(bundle, stitch)
        self._first: Tensor | None = None
        self._num_posed = 0

    def _said_outright(self, options: MotionStitchOptions) -> MotionStitchOptions:
        """A chunk of source rows no longer shows whether they come from a still, so that defaults have to be named."""
        is_still = self._source.num_frames == 1
        keys = (STILL_KEYS if is_still else CLIP_KEYS) if options.driven_keys is None else options.driven_keys
        drive_eyes = is_still if options.drive_eyes is None else options.drive_eyes
        return replace(options, driven_keys=keys, drive_eyes=drive_eyes)

    def pose(self, motion: Tensor) -> FramePlan:
        """Plan the next frames.

        Args:
            motion: (n, 265) float32 driving motion, on the device where the keypoints are to be.
        """
        first = motion[:1] if self._first is None else self._first
        self._first = first
        start, self._num_posed = self._num_posed, self._num_posed + len(motion)
        # The first frame leads every chunk, since changes are measured, and fades may end, there.
        frames = np.concatenate([[0], np.arange(start, self._num_posed)])
        index = mirror_index(frames, self._source.num_frames)
        options, rows = self._options, torch.from_numpy(frames)
        if options.blinks is not None:
            shown = options.blinks.index[rows % len(options.blinks.index)]
            options = replace(options, blinks=replace(options.blinks, index=shown))
        posed = prestitch(
            self._source.rows(torch.from_numpy(index)),
            torch.cat([first, motion]),
            options,
            self._stitching,
            self._controls.rows(rows),
        )
        return FramePlan(index[1:], posed.source_keypoints[1:], posed.driving_keypoints[1:])
