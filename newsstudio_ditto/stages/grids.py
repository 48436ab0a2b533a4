"""Where each pixel of the paste window reads the rendered crop."""

from collections.abc import Iterator

import torch

from newsstudio_ditto.maths.paste import paste_grid
from newsstudio_ditto.packet.writer import PartStream
from newsstudio_ditto.stages import face_track
from newsstudio_ditto.stages.chunks import Chunk, chunk_length, counted, spans
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.units import CROP_SIZE_PX

VERSION = f"{face_track.VERSION} grids.1"


def stream_grids(track: FaceTrack) -> PartStream:
    """Build the sampling grids.

    Returns:
        ``grids`` (N, h, w, 2) float32, x before y, normalised for ``grid_sample(align_corners=False)``.
    """
    shape = (track.num_frames, track.window.height, track.window.width, 2)
    return PartStream(
        part="grids",
        shapes={"grids": shape},
        chunks=counted("grids", _grids(track), track.num_frames),
        stage_version=VERSION,
        extra={},
    )


def _grids(track: FaceTrack) -> Iterator[Chunk]:
    length = chunk_length(8 * track.window.height * track.window.width)
    for span in spans(track.num_frames, length):
        rows = [torch.from_numpy(paste_grid(m, track.window, CROP_SIZE_PX)) for m in track.original_to_crop[span]]
        yield {"grids": torch.stack(rows)}
