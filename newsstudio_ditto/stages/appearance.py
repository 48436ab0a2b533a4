"""The appearance feature volume of every frame: what the presenter looks like, without pose."""

from collections.abc import Iterator

import torch
from torch import Tensor

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.stages import face_track
from newsstudio_ditto.stages.chunks import Chunk, counted
from newsstudio_ditto.stages.crops import BATCH_FRAMES, read_crops, to_network_input
from newsstudio_ditto.stages.face_track import FaceTrack

VERSION = f"{face_track.VERSION} f_s.2"
CPU_BATCH_FRAMES = 2
"""More leave a processor's cache, and take twice the time a frame."""


def stream_appearance(frames: Tensor, track: FaceTrack, bundle: ModelBundle) -> PartStream:
    """Run the appearance extractor over every face crop.

    Args:
        frames: (N, 3, H, W) uint8.
        track: crop geometry.
        bundle: its appearance extractor runs where the bundle lives.

    Returns:
        ``f_s`` (N, C, D, h, w) float16.
    """
    config = bundle.config.networks.appearance
    shape = (len(frames), config.volume_channels, config.volume_depth, config.volume_px, config.volume_px)
    return PartStream(
        part="f_s",
        shapes={"f_s": shape},
        chunks=counted("f_s", _volumes(frames, track, bundle), len(frames)),
        stage_version=VERSION,
        extra={},
    )


@torch.inference_mode()
def _volumes(frames: Tensor, track: FaceTrack, bundle: ModelBundle) -> Iterator[Chunk]:
    input_px = bundle.config.networks.appearance.input_px
    length = CPU_BATCH_FRAMES if bundle.device.type == "cpu" else BATCH_FRAMES
    for crops in read_crops(frames, track.original_to_crop, input_px, length=length):
        volume = bundle.appearance(to_network_input(crops, bundle.appearance))
        yield {"f_s": volume.to(torch.float16).cpu()}
