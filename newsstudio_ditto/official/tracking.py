"""Following a face with the official networks: the same track as the packaged networks give, laid the official way."""

from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt
from torch import Tensor

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.faces.detection import INPUT_PX, decode_candidates, suppress
from newsstudio_ditto.faces.finder import MIN_PRESENCE
from newsstudio_ditto.faces.region import region_of_detection
from newsstudio_ditto.faces.sessions import LANDMARK_INPUT_PX, FaceNetworks
from newsstudio_ditto.maths.affine import apply_affine
from newsstudio_ditto.maths.crop import CropTransform, anchors_203, crop_transform
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.official.face_chain import OfficialFaces
from newsstudio_ditto.official.packaged_crop import OFFICIAL_CROP, official_crop
from newsstudio_ditto.official.release import AUXILIARY_FOLDER, FETCH_COMMAND
from newsstudio_ditto.progress import report_stage
from newsstudio_ditto.stages.chunks import fill_gaps
from newsstudio_ditto.stages.face_track import FaceTrack, lay_track, require_face, track_face
from newsstudio_ditto.units import CROP_SIZE_PX

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def follow_face(frames: Tensor, options: PacketOptions, bundle: ModelBundle, generation: str) -> FaceTrack:
    """Follow the face with the networks that the options name.

    Args:
        frames: (N, 3, H, W) uint8, planar RGB.
        options: ``faces`` decides: the packaged networks, or the official ones beside the bundle's weights.
        bundle: its crop geometry and its folder are used.
        generation: kept in the track.

    Raises:
        NoFaceError: no frame shows a face.
        FaceError: the face is too small or turned too far.
        BundleError: official networks are asked for, and the bundle has none.
    """
    if options.faces == "packaged":
        return track_face(frames, options, bundle.config.crop, generation, blend=bundle.config.blend)
    if bundle.folder is None or not (bundle.folder / AUXILIARY_FOLDER).is_dir():
        raise BundleError(
            f"bundle {bundle.manifest.name!r} has no official face networks",
            f"use --faces packaged, or --model ditto after: {FETCH_COMMAND}",
        )
    options = replace(options, crop=options.crop or official_crop(bundle.config))
    return track_official(frames, options, generation, OfficialFaces.open(bundle.folder / AUXILIARY_FOLDER))


def track_official(
    frames: Tensor,
    options: PacketOptions,
    generation: str,
    faces: OfficialFaces,
    *,
    mesh: FaceNetworks | None = None,
) -> FaceTrack:
    """Find the largest face, follow it through the clip, and derive its crops from the 203 landmarks.

    The reference follows blindly. Here the 478 landmarks, which are read on every crop for the eyes anyway, say
    whether a face is still there; if not, the detector looks again, and frames without a face are marked.

    Args:
        frames: (N, 3, H, W) uint8, planar RGB; read frame by frame.
        options: paste window and feathering; a crop given here replaces the official one.
        generation: kept in the track.
        faces: the official networks.
        mesh: networks of the 478 landmarks; None opens the packaged ones, which are those of the release's task file.

    Raises:
        NoFaceError: no frame shows a face.
        FaceError: the face is too small or turned too far.
    """
    crop = options.crop or OFFICIAL_CROP
    points, landmarks, valid = _observe(frames, faces, mesh or FaceNetworks(), crop)
    require_face(valid)
    crops = [_crop(row, crop) for row in fill_gaps(points, valid)]
    landmarks = fill_gaps(landmarks, valid)
    return lay_track(frames, landmarks, valid, crops, crop, options, generation, blend="crop", num_faces=None)


def locate_478(crop_rgb: Pixels, mesh: FaceNetworks) -> Floats | None:
    """The 478 landmarks of the surest face in a square crop, as the release's task file finds them.

    Args:
        crop_rgb: (S, S, 3) uint8.
        mesh: BlazeFace and the landmark net.

    Returns:
        (478, 3) in crop pixels, depth too; None if there is no face.
    """
    side = crop_rgb.shape[0]
    small = cv2.resize(crop_rgb, (INPUT_PX, INPUT_PX))
    regressors, logits = mesh.detect(small[None].astype(np.float32) / np.float32(127.5) - 1)
    scores, points = decode_candidates(regressors[0], logits[0])
    found = suppress(scores, points * np.float32(side))
    if not found:
        return None
    region = region_of_detection(found[0])
    landmarks, presence = mesh.find_landmarks(region.cut(crop_rgb, LANDMARK_INPUT_PX)[None])
    if presence[0] < MIN_PRESENCE:
        return None
    matrix = region.to_frame(LANDMARK_INPUT_PX)
    plane = landmarks[0, :, :2] @ matrix[:, :2].T + matrix[:, 2]
    depth = landmarks[0, :, 2:] * (region.side_px / LANDMARK_INPUT_PX)
    return np.hstack([plane, depth]).astype(np.float32)


def _observe(
    frames: Tensor, faces: OfficialFaces, mesh: FaceNetworks, crop: CropConfig
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    num_frames = len(frames)
    points = np.zeros((num_frames, 203, 2), np.float32)
    landmarks = np.zeros((num_frames, 478, 3), np.float32)
    valid = np.zeros(num_frames, np.bool_)
    previous: Floats | None = None
    for index, frame in enumerate(frames):
        image = np.ascontiguousarray(frame.permute(1, 2, 0).numpy())
        found = next(_sightings(image, faces, mesh, crop, previous), None)
        previous = None if found is None else found[0]
        if found is not None:
            points[index], landmarks[index], valid[index] = *found, True
        report_stage("face_track", index + 1, num_frames)
    return points, landmarks, valid


def _sightings(
    image: Pixels, faces: OfficialFaces, mesh: FaceNetworks, crop: CropConfig, previous: Floats | None
) -> Iterator[tuple[Floats, Floats]]:
    """203 and 478 landmarks in frame pixels: first by following, then by detecting."""
    for points in _candidates(image, faces, previous):
        if points is None or not np.isfinite(points).all() or np.ptp(points, axis=0).max() < 1:
            continue
        transform = _crop(points, crop)
        size = (CROP_SIZE_PX, CROP_SIZE_PX)
        crop_rgb = cv2.warpAffine(image, transform.original_to_crop[:2], size, flags=cv2.INTER_LINEAR, borderValue=0)
        landmarks = locate_478(np.asarray(crop_rgb, np.uint8), mesh)
        if landmarks is not None:
            yield points, _to_frame(landmarks, transform)


def _crop(points: Floats, crop: CropConfig) -> CropTransform:
    return crop_transform(*anchors_203(points), size_px=CROP_SIZE_PX, crop=crop)


def _to_frame(landmarks: Floats, transform: CropTransform) -> Floats:
    plane = apply_affine(transform.crop_to_original, landmarks[:, :2])
    scale = np.hypot(transform.crop_to_original[0, 0], transform.crop_to_original[1, 0])
    return np.hstack([plane, landmarks[:, 2:] * scale]).astype(np.float32)


def _candidates(image: Pixels, faces: OfficialFaces, previous: Floats | None) -> Iterator[Floats | None]:
    if previous is not None:
        yield faces.follow(image, previous)
    yield faces.find(image)
