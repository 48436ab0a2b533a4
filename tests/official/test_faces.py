"""The official face networks around synthetic nets: what goes in, what comes out, and following a face."""

import itertools
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import BundleError, NoFaceError, UsageError
from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.faces.sessions import FaceNetworks
from newsstudio_ditto.maths.anchor_detector import landmark106_crop
from newsstudio_ditto.maths.crop import anchors_106, anchors_203, anchors_478, crop_transform
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.networks.bundle import load_bundle, seeded_bundle
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.official.face_chain import OfficialFaces
from newsstudio_ditto.official.packaged_crop import (
    OFFICIAL_CROP,
    PACKAGED_CROP,
    compare_crops,
    outline_anchors,
    packaged_crop,
)
from newsstudio_ditto.official.release import AUXILIARY_FOLDER
from newsstudio_ditto.official.tracking import follow_face, locate_478, track_official
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import U, f32, load_golden
from tests.networks.sizes import TINY
from tests.official.nets import constant_net, mean_net
from tests.official.releases import FILES

ARRAYS, _ = load_golden("prepost/aux")
PREPOST = load_golden("prepost/prepost")[0]
FRAMES = {"land": PREPOST["frame/a"], "port": np.ascontiguousarray(PREPOST["frame/a"][:, :200])}
DEMO = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"


def golden_nets(folder: Path, tag: str) -> OfficialFaces:
    """Nets that answer with the golden stand-in outputs."""
    counts = {8: 8192, 16: 2048, 32: 512}
    scores = [f32(U(f"det/{tag}/score/{s}", (n, 1)) ** 400) for s, n in counts.items()]
    boxes = [f32(3 + 5 * U(f"det/{tag}/box/{s}", (n, 4))) for s, n in counts.items()]
    offsets = [f32(-2 + 4 * U(f"det/{tag}/kps/{s}", (n, 10))) for s, n in counts.items()]
    constant_net(folder / FILES["detector"].name, (1, 3, "h", "w"), [*scores, *boxes, *offsets], "input.1")
    points = f32(-0.8 + 1.6 * U(f"lmk106/{tag}/out", (1, 212)))
    constant_net(folder / FILES["landmarks_106"].name, ("n", 3, 192, 192), [points], "data")
    others = [np.zeros((1, 5), np.float32), np.zeros((1, 6), np.float32)]
    answers = [*others, f32(U("lmk203/out", (1, 406)))]
    constant_net(folder / FILES["landmarks_203"].name, (1, 3, 224, 224), answers)
    return OfficialFaces.open(folder)


def close(actual: object, stored: str) -> None:
    assert_golden("detector and landmarks, ONNX", stored, actual, ARRAYS[stored], tolerances.LANDMARKS)


@pytest.mark.parametrize("tag", FRAMES)
def test_detector_and_106_landmarks_give_the_golden_faces(tmp_path: Path, tag: str) -> None:
    faces = golden_nets(tmp_path, tag)
    found = faces.detect(FRAMES[tag])
    close(found.boxes, f"det/{tag}/det")
    close(found.keypoints, f"det/{tag}/kps")
    points = faces.locate_106(FRAMES[tag], ARRAYS[f"det/{tag}/largest_box"])
    close(points, f"lmk106/{tag}/pts")


def test_203_landmarks_come_through_the_crop_around_the_106(tmp_path: Path) -> None:
    faces = golden_nets(tmp_path, "land")
    found = faces.find(FRAMES["land"])
    assert found is not None
    points = anchors_106(ARRAYS["lmk106/land/pts"])
    back = crop_transform(*points, size_px=224, crop=CropConfig(1.5, -0.1)).crop_to_original
    inside = f32(U("lmk203/out", (1, 406))).reshape(203, 2) * 224
    expected = inside @ back[:2, :2].T + back[:2, 2]
    np.testing.assert_allclose(found, expected, atol=tolerances.LANDMARKS)
    later = crop_transform(*anchors_203(found), size_px=224, crop=CropConfig(1.5, -0.1)).crop_to_original
    followed = faces.follow(FRAMES["land"], found)
    np.testing.assert_allclose(followed, inside @ later[:2, :2].T + later[:2, 2], atol=tolerances.LANDMARKS)


def test_inputs_have_the_reference_values(tmp_path: Path) -> None:
    """Nets that add the mean of what they get: of the 106 crop as it is, of the 203 crop over 255."""
    golden_nets(tmp_path, "land")
    mean_net(tmp_path / FILES["landmarks_106"].name, ("n", 3, 192, 192), np.zeros((1, 212), np.float32), "data")
    mean_net(tmp_path / FILES["landmarks_203"].name, (1, 3, 224, 224), np.zeros((1, 406), np.float32))
    faces = OfficialFaces.open(tmp_path)
    frame, box = FRAMES["land"], ARRAYS["det/land/largest_box"]
    matrix = np.vstack([ARRAYS["lmk106/land/M"], [0, 0, 1]])
    mean = float(cv2.warpAffine(frame, matrix[:2], (192, 192)).mean())
    expected = np.linalg.inv(matrix) @ [(mean + 1) * 96, (mean + 1) * 96, 1]
    np.testing.assert_allclose(faces.locate_106(frame, box)[0], expected[:2], rtol=1e-4)
    anchors = anchors_106(ARRAYS["lmk106/land/pts"])
    transform = crop_transform(*anchors, size_px=224, crop=CropConfig(1.5, -0.1))
    value = float(cv2.warpAffine(frame, transform.original_to_crop[:2], (224, 224)).mean()) / 255 * 224
    expected = transform.crop_to_original @ [value, value, 1]
    np.testing.assert_allclose(faces.locate_203(frame, anchors)[0], expected[:2], rtol=1e-4)


def test_detector_blob_is_blue_first_and_centred(tmp_path: Path) -> None:
    """A detector whose scores are its own input: red must not reach the plane that blue belongs to."""
    golden_nets(tmp_path, "land")
    faces = OfficialFaces.open(tmp_path)
    seen: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    session = faces.detector

    class Listening:
        def get_inputs(self) -> list[object]:
            return list(session.get_inputs())

        def run(self, names: None, feeds: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]) -> list[object]:
            seen.extend(feeds.values())
            return list(session.run(names, feeds))

    OfficialFaces(Listening(), faces.points_106, faces.points_203).detect(FRAMES["land"])
    np.testing.assert_allclose(seen[0][:, :, ::8, ::8], ARRAYS["det/land/blob_sub"], atol=1e-6)


@pytest.fixture(scope="module")
def demo() -> torch.Tensor:
    frames = [frame for frame, _ in zip(decode_frames(DEMO, max_frames=40).frames, range(40), strict=False)][::20]
    return torch.from_numpy(np.stack(frames).transpose(0, 3, 1, 2).copy())


def image(frames: torch.Tensor, index: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.ascontiguousarray(frames[index].permute(1, 2, 0).numpy())


@pytest.fixture(scope="module")
def meshes(demo: torch.Tensor) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    finder = FaceFinder(num_threads=1)
    return [finder.observe(image(demo, index))[0].landmarks for index in range(len(demo))]


class Pointing(OfficialFaces):
    """Stands in for the three nets: puts 203 points where the packaged net sees jaw, brows, eyes and mouth."""

    def __init__(self, demo: torch.Tensor, finder: FaceFinder, absent: int | None = None) -> None:
        super().__init__(None, None, None)
        object.__setattr__(self, "absent", None if absent is None else image(demo, absent))
        object.__setattr__(self, "finder", finder)

    def find(self, frame_rgb):  # type: ignore[no-untyped-def]
        if self.absent is not None and np.array_equal(frame_rgb, self.absent):  # type: ignore[attr-defined]
            return None
        observed = self.finder.observe(frame_rgb)  # type: ignore[attr-defined]
        return to_203(observed[0].landmarks) if observed else None

    def follow(self, frame_rgb, previous):  # type: ignore[no-untyped-def]
        return self.find(frame_rgb) if self.find(frame_rgb) is not None else previous


def to_203(
    mesh: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    anchors = outline_anchors(mesh)
    points = np.repeat(anchors.points[:1], 203, axis=0)
    points[60 : 60 + len(anchors.points)] = anchors.points
    whole = anchors_478(mesh)
    points[[48, 66]] = mesh[[61, 291], :2]
    points[[0, 6, 12, 18, 24, 30, 36, 42]] = whole.eyes
    return points.astype(np.float32)


def test_478_landmarks_on_the_official_crop_agree_with_the_packaged_finder(demo: torch.Tensor) -> None:
    finder = FaceFinder(num_threads=1)
    frame = image(demo, 0)
    seen = finder.observe(frame)[0].landmarks
    transform = crop_transform(*outline_anchors(seen), size_px=512, crop=OFFICIAL_CROP)
    crop = cv2.warpAffine(frame, transform.original_to_crop[:2], (512, 512))
    found = locate_478(crop, FaceNetworks(num_threads=1))
    assert found is not None
    moved = seen[:, :2] @ transform.original_to_crop[:2, :2].T + transform.original_to_crop[:2, 2]
    assert np.abs(found[:, :2] - moved).mean() < 512 * 0.01
    assert locate_478(np.full((512, 512, 3), 90, np.uint8), FaceNetworks(num_threads=1)) is None


def test_official_track_lays_the_crop_around_the_203_points(
    demo: torch.Tensor, meshes: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]
) -> None:
    faces = Pointing(demo, FaceFinder(num_threads=1))
    track = track_official(demo, PacketOptions(), "g", faces, mesh=FaceNetworks(num_threads=1))
    assert track.num_faces is None, "only the packaged networks count"
    assert track.valid.all() and track.crop == OFFICIAL_CROP
    for index, mesh in enumerate(meshes):
        expected = crop_transform(*anchors_203(to_203(mesh)), size_px=512, crop=OFFICIAL_CROP)
        np.testing.assert_allclose(track.original_to_crop[index], expected.original_to_crop, atol=1e-3)
        assert np.abs(track.landmarks[index, :, :2] - mesh[:, :2]).mean() < 3
    narrow = PacketOptions(crop=CropConfig(scale=1.6))
    assert track_official(demo, narrow, "g", faces, mesh=FaceNetworks(num_threads=1)).crop == CropConfig(scale=1.6)


def test_official_networks_beside_a_bundle_lay_the_crop_of_a_packet(
    demo: torch.Tensor, meshes: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]], tmp_path: Path
) -> None:
    """Nets that answer for one still what good nets would answer, from the detector's raw distances on."""
    mesh, frame = meshes[0], image(demo, 0)
    auxiliary = tmp_path / "bundle" / AUXILIARY_FOLDER
    scale = 512 / frame.shape[0]
    low, high = mesh[:, :2].min(axis=0) * scale, mesh[:, :2].max(axis=0) * scale
    row, column = (int(value) // 32 for value in (low + high)[::-1] / 2)
    answers = [np.zeros((n, width), np.float32) for width in (1, 4, 10) for n in (8192, 2048, 512)]
    cell, centre = 2 * (row * 16 + column), np.array([column, row]) * 32
    answers[2][cell] = 0.9
    answers[5][cell] = np.concatenate([centre - low, high - centre]) / 32
    constant_net(auxiliary / FILES["detector"].name, (1, 3, "h", "w"), answers)
    points = to_203(mesh)
    at_106 = np.repeat(points[:1], 106, axis=0)
    at_106[:33] = points[60:93]
    at_106[[52, 61]] = points[[48, 66]]
    at_106[[33, 35, 40, 39, 87, 89, 94, 93]] = points[[0, 6, 12, 18, 24, 30, 36, 42]]
    box = np.concatenate([low, high]) / scale
    inside = at_106 @ landmark106_crop(box)[:2, :2].T + landmark106_crop(box)[:2, 2]
    constant_net(auxiliary / FILES["landmarks_106"].name, ("n", 3, 192, 192), [f32(inside / 96 - 1).reshape(1, 212)])
    forward = crop_transform(*anchors_106(at_106), size_px=224, crop=CropConfig(1.5, -0.1)).original_to_crop
    on_crop = (points @ forward[:2, :2].T + forward[:2, 2]) / 224
    constant_net(auxiliary / FILES["landmarks_203"].name, (1, 3, 224, 224), [f32(on_crop).reshape(1, 406)])
    bundle = seeded_bundle(TINY)
    bundle.folder = auxiliary.parent
    track = follow_face(demo[:1], PacketOptions(faces="official"), bundle, "g")
    expected = crop_transform(*anchors_203(points), size_px=512, crop=OFFICIAL_CROP)
    np.testing.assert_allclose(track.original_to_crop[0], expected.original_to_crop, atol=0.05)
    assert np.abs(track.landmarks[0, :, :2] - mesh[:, :2]).mean() < 3
    own = CropConfig(scale=2.0, shift_down=-0.1)
    other = seeded_bundle(replace(TINY, defaults=ReleaseDefaults(crop=own)))
    other.folder = bundle.folder
    assert follow_face(demo[:1], PacketOptions(faces="official"), other, "g").crop == own


def test_frames_without_a_face_are_marked_and_all_without_is_an_error(demo: torch.Tensor) -> None:
    gapped = torch.cat([demo, torch.full_like(demo[:1], 90)])
    faces = Pointing(gapped, FaceFinder(num_threads=1), absent=2)
    track = track_official(gapped, PacketOptions(), "g", faces, mesh=FaceNetworks(num_threads=1))
    assert track.valid.tolist() == [True, True, False]
    assert np.isfinite(track.original_to_crop).all()
    with pytest.raises(NoFaceError, match="none of the 1 frames"):
        track_official(gapped[2:], PacketOptions(), "g", faces, mesh=FaceNetworks(num_threads=1))


def test_official_faces_need_the_official_bundle(demo: torch.Tensor) -> None:
    with pytest.raises(BundleError, match=r"mini.*no official face networks"):
        follow_face(demo, PacketOptions(faces="official"), load_bundle("mini"), "g")


def test_packaged_crop_stands_in_for_the_official_one(
    meshes: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]],
) -> None:
    assert packaged_crop(OFFICIAL_CROP) == PACKAGED_CROP
    for mesh, wanted in itertools.product(meshes, (OFFICIAL_CROP, CropConfig(1.8, 0.05), CropConfig(3.0, -0.2))):
        official = crop_transform(*outline_anchors(mesh), size_px=512, crop=wanted).crop_to_original
        packaged = crop_transform(*anchors_478(mesh), size_px=512, crop=packaged_crop(wanted)).crop_to_original
        difference = compare_crops(official, packaged, 512)
        assert abs(difference.scale - 1) < 0.006
        assert difference.corner < 0.01
        unadapted = crop_transform(*anchors_478(mesh), size_px=512, crop=wanted).crop_to_original
        assert compare_crops(official, unadapted, 512).scale > 1.15


def test_crop_difference_measures_what_it_says() -> None:
    first = np.diag([2.0, 2.0, 1.0]).astype(np.float32)
    angle = np.radians(30)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * 3
    second = np.eye(3, dtype=np.float32)
    second[:2, :2] = turned
    second[:2, 2] = np.array([120, 90]) - turned @ np.array([50, 50])
    difference = compare_crops(first, second, 100)
    assert difference.scale == pytest.approx(1.5)
    assert (difference.right, difference.down) == (pytest.approx(0.1), pytest.approx(-0.05))
    assert difference.angle_deg == pytest.approx(30)


def test_other_faces_are_refused() -> None:
    with pytest.raises(UsageError, match="faces is 'mine'"):
        PacketOptions(faces="mine")  # type: ignore[arg-type]
