"""How strongly each pixel of the paste window takes the rendered crop."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.maths.feather import blend_mask
from newsstudio_ditto.maths.paste import paste_grid, warped_alpha
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.stages import face_track
from newsstudio_ditto.stages.chunks import Chunk, Floats, chunk_length, counted, spans
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.units import CROP_SIZE_PX

VERSION = f"{face_track.VERSION} masks.2"


def stream_masks(track: FaceTrack) -> PartStream:
    """Warp the feathered blend mask into the paste window.

    Returns:
        ``masks`` (N, 1, h, w) uint8, alpha x 255; zero in frames without a face, which so stay as they are.
    """
    shape = (track.num_frames, 1, track.window.height, track.window.width)
    return PartStream(
        part="masks",
        shapes={"masks": shape},
        chunks=counted("masks", _masks(track), track.num_frames),
        stage_version=VERSION,
        extra={},
    )


def _masks(track: FaceTrack) -> Iterator[Chunk]:
    feather = blend_mask(track.blend, track.feather)
    length = chunk_length(8 * track.window.height * track.window.width)
    for span in spans(track.num_frames, length):
        yield {"masks": torch.stack([_mask(track, index, feather) for index in range(span.start, span.stop)])}


def _mask(track: FaceTrack, index: int, feather: Floats) -> Tensor:
    if not track.valid[index]:
        return torch.zeros((1, track.window.height, track.window.width), dtype=torch.uint8)
    grid = paste_grid(track.original_to_crop[index], track.window, CROP_SIZE_PX)
    return torch.from_numpy(np.ascontiguousarray(warped_alpha(grid, feather)))
