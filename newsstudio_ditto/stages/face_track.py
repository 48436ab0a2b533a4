"""Follow the presenter's face through the clip: landmarks, crop geometry and paste window."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import NoFaceError
from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.faces.observation import FaceObservation
from newsstudio_ditto.faces.quality import FaceQuality, judge_quality, measure_quality
from newsstudio_ditto.maths.crop import CropTransform, anchors_478, crop_transform
from newsstudio_ditto.maths.feather import BlendRegion, blend_mask
from newsstudio_ditto.maths.paste import PasteWindow, full_window, mask_support, tight_window
from newsstudio_ditto.progress import report_stage
from newsstudio_ditto.stages import frames as frames_stage
from newsstudio_ditto.stages.chunks import Flags, Floats, fill_gaps
from newsstudio_ditto.stages.tensor_file import TensorFile
from newsstudio_ditto.units import CROP_SIZE_PX

log = logging.getLogger(__name__)

VERSION = f"{frames_stage.VERSION} face_track.3"
KIND = "face_track"
_FRAMES_MEASURED = 16


@dataclass(frozen=True)
class FaceTrack:
    """One face through N frames. Every frame has finite values; where no face was seen they are interpolated.

    Args:
        landmarks: (N, 478, 3) float32, frame pixels; z in pixels too, towards the camera negative.
        valid: (N,) bool, a face was seen.
        original_to_crop: (N, 3, 3) float32, frame pixels to pixels of the 512 x 512 crop.
        crop_to_original: (N, 3, 3) float32, its inverse.
        window: rectangle of the frame that grids and masks cover.
        crop: crop geometry.
        feather: share of the crop that the blend mask keeps at full weight.
        generation: fingerprint of source, options and model.
        blend: what of the crop is blended into the frame.
        quality: medians over frames spread through the clip; None where nobody measured.
        num_faces: the most faces seen in one frame; None where nobody counted.
    """

    landmarks: Floats
    valid: Flags
    original_to_crop: Floats
    crop_to_original: Floats
    window: PasteWindow
    crop: CropConfig
    feather: float
    generation: str
    blend: BlendRegion = "crop"
    quality: FaceQuality | None = None
    num_faces: int | None = None

    @property
    def num_frames(self) -> int:
        """N."""
        return len(self.valid)

    def to_tensors(self) -> TensorFile:
        """The form on disk."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        header = {
            "kind": KIND,
            "stage_version": VERSION,
            "window": list(self.window),
            "crop": [self.crop.scale, self.crop.shift_down, self.crop.upright],
            "feather": self.feather,
            "generation": self.generation,
            "blend": self.blend,
            "quality": None if self.quality is None else list(astuple(self.quality)),
            "num_faces": self.num_faces,
        }
        return TensorFile({name: torch.from_numpy(array) for name, array in arrays.items()}, header)

    @classmethod
    def from_tensors(cls, content: TensorFile) -> "FaceTrack":
        """Undo :meth:`to_tensors`."""
        landmarks, valid, original_to_crop, crop_to_original = (content.tensors[name].numpy() for name in _ARRAYS)
        header = content.header
        return cls(
            landmarks,
            valid,
            original_to_crop,
            crop_to_original,
            window=PasteWindow(*header["window"]),
            crop=CropConfig(*header["crop"]),
            feather=header["feather"],
            generation=header["generation"],
            blend=header["blend"],
            quality=None if header["quality"] is None else FaceQuality(*header["quality"]),
            num_faces=header["num_faces"],
        )


_ARRAYS = ("landmarks", "valid", "original_to_crop", "crop_to_original")


def track_face(
    frames: Tensor,
    options: PacketOptions,
    crop: CropConfig,
    generation: str,
    *,
    blend: BlendRegion = "crop",
    finder: FaceFinder | None = None,
) -> FaceTrack:
    """Find the same face in every frame and derive its crop.

    Args:
        frames: (N, 3, H, W) uint8, planar RGB; read frame by frame.
        options: paste window and feathering.
        crop: crop geometry, used where the options name none.
        generation: kept in the track.
        blend: what the model bundle wants blended into a clip's frames, used where the options leave it open.
        finder: detector and landmark nets; ``None`` makes one.

    Raises:
        NoFaceError: no frame shows a face.
        FaceError: the face is too small or turned too far.
    """
    landmarks, valid, num_faces = _observe(frames, finder or FaceFinder())
    require_face(valid)
    crop, landmarks = options.crop or crop, fill_gaps(landmarks, valid)
    crops = [_crop(points, crop) for points in landmarks]
    return lay_track(frames, landmarks, valid, crops, crop, options, generation, blend=blend, num_faces=num_faces)


def require_face(valid: Flags) -> None:
    """Say in the log how many of the frames (N,) show no face.

    Raises:
        NoFaceError: none shows one.
    """
    if not valid.any():
        raise NoFaceError(
            f"none of the {len(valid)} frames shows a face",
            "give a clip in which one face, at least about 60 pixels wide, looks towards the camera",
        )
    if not valid.all():
        log.warning("frames without a face", extra={"num_frames": len(valid), "num_missing": int((~valid).sum())})


def lay_track(
    frames: Tensor,
    landmarks: Floats,
    valid: Flags,
    crops: Sequence[CropTransform],
    crop: CropConfig,
    options: PacketOptions,
    generation: str,
    *,
    blend: BlendRegion,
    num_faces: int | None,
) -> FaceTrack:
    """Put a track together from what was seen and how each frame is cropped.

    Args:
        frames: (N, 3, H, W) uint8, planar RGB.
        landmarks: (N, 478, 3) float32, frame pixels, bridged where no face was seen.
        valid: (N,) bool, at least one of them true.
        crops: N of them, bridged alike.
        crop: the geometry that they follow.
        options: paste window and feathering.
        generation: kept in the track.
        blend: used where the options leave it open.
        num_faces: the most faces seen in one frame; None where nobody counted.

    Raises:
        FaceError: the face is too small or turned too far.
    """
    quality = measure_clip(frames, landmarks, valid)
    original_to_crop = np.stack([transform.original_to_crop for transform in crops]).astype(np.float32)
    crop_to_original = np.stack([transform.crop_to_original for transform in crops]).astype(np.float32)
    height, width = frames.shape[-2:]
    region = choose_blend(options, blend, len(valid))
    window = choose_window(crop_to_original[valid], (height, width), options, region)
    return FaceTrack(
        landmarks,
        valid,
        original_to_crop,
        crop_to_original,
        window,
        crop,
        options.feather,
        generation,
        region,
        quality,
        num_faces,
    )


def measure_clip(frames: Tensor, landmarks: Floats, valid: Flags) -> FaceQuality:
    """How fit the face is for talking: the medians over at most 16 frames with a face.

    Args:
        frames: (N, 3, H, W) uint8, planar RGB.
        landmarks: (N, 478, 3) float32, frame pixels.
        valid: (N,) bool, at least one of them true.

    Raises:
        FaceError: the face is too small or turned too far for any result.
    """
    seen = np.flatnonzero(valid)
    chosen = seen[np.linspace(0, len(seen) - 1, min(len(seen), _FRAMES_MEASURED)).round().astype(int)]
    rows = [
        astuple(measure_quality(frame, FaceObservation(landmarks[index], 1.0)))
        for index, frame in zip(chosen, _interleaved(frames[i] for i in chosen), strict=True)
    ]
    quality = FaceQuality(*(float(value) for value in np.median(rows, axis=0)))
    judge_quality(quality)
    return quality


def choose_blend(options: PacketOptions, blend: BlendRegion, num_frames: int) -> BlendRegion:
    """What is blended: the options' word, else the bundle's; of a still always the whole crop, so that it can blink."""
    if options.blend != "auto":
        return options.blend
    return blend if num_frames > 1 else "crop"


def _observe(frames: Tensor, finder: FaceFinder) -> tuple[Floats, Flags, int]:
    num_frames = len(frames)
    landmarks = np.zeros((num_frames, 478, 3), np.float32)
    valid = np.zeros(num_frames, np.bool_)
    tracker = finder.tracker()
    for index, frame in enumerate(_interleaved(frames)):
        face = tracker.step(frame)
        if face is not None:
            landmarks[index], valid[index] = face.landmarks, True
        report_stage("face_track", index + 1, num_frames)
    return landmarks, valid, tracker.num_faces


def _interleaved(frames: Iterable[Tensor]) -> Iterator[NDArray[np.uint8]]:
    for frame in frames:
        yield np.ascontiguousarray(frame.permute(1, 2, 0).numpy())


def _crop(landmarks: Floats, crop: CropConfig) -> CropTransform:
    anchors = anchors_478(landmarks[:, :2])
    return crop_transform(anchors.points, anchors.mouth, anchors.eyes, size_px=CROP_SIZE_PX, crop=crop)


def choose_window(
    crop_to_original: Floats, frame_size: tuple[int, int], options: PacketOptions, blend: BlendRegion = "crop"
) -> PasteWindow:
    """The rectangle of the frame that holds the masks of all crops (N, 3, 3), or the frame if the options say so."""
    if options.window == "full":
        return full_window(frame_size)
    mask = blend_mask(blend, options.feather)
    return tight_window([mask_support(matrix, frame_size, mask) for matrix in crop_to_original], frame_size)
