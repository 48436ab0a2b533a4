"""An installed synthetic release prepares and renders; and old pickles become packets that render the same."""

import os
import pickle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import torch

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions, SamplingOptions
from newsstudio_ditto.errors import BundleError, PacketFormatError, PacketModelError, UsageError
from newsstudio_ditto.inventory import verify_avatar
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.networks.places import MODELS_VARIABLE
from newsstudio_ditto.official.install import install_ditto
from newsstudio_ditto.official.legacy import import_legacy
from newsstudio_ditto.official.legacy_source import open_legacy
from newsstudio_ditto.official.packaged_crop import PACKAGED_CROP
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.preparation import build_packet
from newsstudio_ditto.storage import StorageLayout
from tests.networks.sizes import TINY_NETWORKS

DEMO = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"
OPTIONS = PacketOptions(max_frames=3, crop=PACKAGED_CROP, smoothing_frames=3)


@pytest.fixture(scope="module")
def models(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    install_ditto(original, folder / "ditto", networks=TINY_NETWORKS)
    return folder


@pytest.fixture(autouse=True)
def named_models(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS_VARIABLE, str(models))


@pytest.fixture(scope="module")
def layout(models: Path, tmp_path_factory: pytest.TempPathFactory) -> StorageLayout:
    layout = StorageLayout(tmp_path_factory.mktemp("storage"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODELS_VARIABLE, str(models))
        build_packet(layout, DEMO, "anna", options=OPTIONS, model="ditto")
    return layout


@pytest.fixture(scope="module")
def packet(layout: StorageLayout) -> Packet:
    return AvatarStore(layout.root).open("anna")


@pytest.fixture(scope="module")
def source_info(packet: Packet) -> dict[str, Any]:
    """The packet's content in the reference's layout, as its registrar returns it."""
    count = packet.num_frames
    keys = ("kp", "pitch", "yaw", "roll", "t", "exp", "scale")
    motion = {key: packet.keypoints[key].numpy().reshape(count, -1).copy() for key in keys}
    return {
        "x_s_info_lst": [{key: motion[key][index][None] for key in keys} for index in range(count)],
        "f_s_lst": [volume.numpy()[None].astype(np.float32) for volume in packet.appearance_volumes],
        "M_c2o_lst": list(packet.meta.crop_to_original.numpy()),
        "eye_open_lst": [row.numpy()[None] for row in packet.meta.eye_open],
        "eye_ball_lst": [row.numpy()[None] for row in packet.meta.eye_ball],
        "sc": packet.meta.sc.numpy(),
        "is_image_flag": False,
        "img_rgb_lst": [np.ascontiguousarray(frame.permute(1, 2, 0).numpy()) for frame in packet.frames],
    }


def write(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def test_the_installed_release_renders(layout: StorageLayout, tmp_path: Path) -> None:
    speech = tmp_path / "speech.wav"
    soundfile.write(speech, np.sin(np.arange(3200) / 20).astype(np.float32) * 0.1, 16_000)
    options = RenderOptions(sampling=SamplingOptions(num_steps=2), device="cpu")
    report = render_video(layout.packet("anna"), speech, tmp_path / "anna.mp4", options=options)
    assert report.num_frames == 5
    with av.open(tmp_path / "anna.mp4") as video:
        assert sum(1 for _ in video.decode(video=0)) == 5


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_smoothed_pickle_gives_the_packet_it_came_from(
    layout: StorageLayout, packet: Packet, source_info: dict[str, Any], tmp_path: Path, protocol: int
) -> None:
    assert np.abs(source_info["x_s_info_lst"][0]["kp"][0] - source_info["sc"]).max() > 1e-6
    source = write(tmp_path / "source_info.pkl", source_info | {"lmk203_lst": [1]}, protocol)
    seen: list[str] = []
    report = import_legacy(
        layout,
        source,
        "old",
        options=OPTIONS,
        on_stage=lambda stage, done, total: seen.append(f"{stage} {done}/{total}"),
    )
    assert (report.num_frames, report.was_smoothed, report.ignored) == (3, True, ("lmk203_lst",))
    assert "f_s 3/3" in seen and "frames 3/3" in seen
    imported = AvatarStore(layout.root).open("old")
    for name, part in packet.parts.items():
        for key, tensor in part.tensors.items():
            tolerance = 2e-5 if name == "grids" else 1.1 if name == "masks" else 1e-6
            torch.testing.assert_close(
                imported.parts[name].tensors[key].float(), tensor.float(), rtol=0, atol=tolerance
            )
    assert imported.paste_window == packet.paste_window
    assert imported.model_fingerprint == packet.model_fingerprint
    assert verify_packet(imported.folder).ok
    assert report.pickle_bytes == source.stat().st_size and report.packet_bytes == imported.num_bytes
    assert report.packet_open_seconds > 0 and 0 < report.pickle_open_seconds < report.import_seconds
    assert set(report.to_plain()) >= {"pickle_open_seconds", "packet_open_seconds"}


def test_unsmoothed_motion_is_smoothed_on_the_way(
    layout: StorageLayout, source_info: dict[str, Any], tmp_path: Path
) -> None:
    raw = source_info | {"sc": source_info["x_s_info_lst"][0]["kp"].flatten()}
    report = import_legacy(layout, write(tmp_path / "a.pkl", raw), "raw", options=OPTIONS)
    assert not report.was_smoothed
    stored = AvatarStore(layout.root).open("raw").keypoints["exp"]
    before = np.concatenate([entry["exp"] for entry in raw["x_s_info_lst"]])
    np.testing.assert_allclose(stored[1], before.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(AvatarStore(layout.root).open("raw").meta.sc, raw["sc"])


def test_a_still_is_imported_and_renders(layout: StorageLayout, source_info: dict[str, Any], tmp_path: Path) -> None:
    still = {key: value[:1] if isinstance(value, list) else value for key, value in source_info.items()}
    still |= {"is_image_flag": True, "sc": still["x_s_info_lst"][0]["kp"].flatten()}
    report = import_legacy(layout, write(tmp_path / "still.pkl", still), "still")
    assert report.num_frames == 1
    speech = tmp_path / "speech.wav"
    soundfile.write(speech, np.zeros(1280, np.float32), 16_000)
    options = RenderOptions(sampling=SamplingOptions(num_steps=1), device="cpu")
    assert render_video(layout.packet("still"), speech, tmp_path / "v.mp4", options=options).num_frames == 2


class Harmful:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:  # noqa: D105
        return os.mkdir, (str(self.trace),)


def test_a_pickle_with_code_is_refused_and_not_run(
    layout: StorageLayout, source_info: dict[str, Any], tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    source = write(tmp_path / "bad.pkl", source_info | {"extra": Harmful(trace)})
    with pytest.raises(PacketFormatError, match=r"bad\.pkl: it names 'posix\.mkdir'"):
        import_legacy(layout, source, "bad")
    assert not trace.exists()
    assert "bad" not in AvatarStore(layout.root).list()


def spoil(source_info: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    return source_info | {name: [*source_info[name][:1], value, *source_info[name][2:]]}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("M_c2o_lst", np.eye(2, dtype=np.float32), r"M_c2o_lst\[1\]: expected floats \(3, 3\), got float32 \(2, 2\)"),
        ("f_s_lst", np.zeros((1, 3, 4, 32, 16), np.float32), r"f_s_lst\[1\]: expected float32 \(1, 3, 4, 32, 32\)"),
        ("img_rgb_lst", np.zeros((4, 4, 3), np.uint8), r"img_rgb_lst\[1\]: expected uint8"),
        ("img_rgb_lst", None, r"img_rgb_lst\[1\]: expected an array, got NoneType"),
        ("x_s_info_lst", {"kp": np.zeros((1, 63), np.float32)}, r"x_s_info_lst\[1\].pitch: expected floats \(1, 66\)"),
        ("eye_open_lst", 3, r"eye_open_lst\[1\]: expected floats \(2,\), got int"),
    ],
)
def test_another_layout_is_named(
    source_info: dict[str, Any], tmp_path: Path, name: str, value: object, words: str
) -> None:
    with pytest.raises(PacketFormatError, match=words):
        open_legacy(write(tmp_path / "a.pkl", spoil(source_info, name, value)))


def test_missing_lists_and_unequal_lengths_are_named(source_info: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PacketFormatError, match="x_s_info_lst: expected a list, got keys a"):
        open_legacy(write(tmp_path / "a.pkl", {"a": 1}))
    with pytest.raises(PacketFormatError, match="f_s_lst: expected 3 entries, got 2"):
        open_legacy(write(tmp_path / "a.pkl", source_info | {"f_s_lst": source_info["f_s_lst"][:2]}))
    with pytest.raises(PacketFormatError, match="expected 1 entries, got 0"):
        open_legacy(write(tmp_path / "a.pkl", {key: [] for key in source_info}))


def test_another_model_or_no_model_is_refused(
    layout: StorageLayout, source_info: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "a.pkl", source_info)
    with pytest.raises(PacketModelError, match=r"volumes of \(3, 4, 32, 32\), bundle 'mini' makes \(\d+, 8, 64, 64\)"):
        import_legacy(layout, source, "other", model="mini")
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path))
    with pytest.raises(BundleError, match="models fetch ditto"):
        import_legacy(layout, source, "other")


def resident_private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024


def measure_import(layout: StorageLayout, source: Path, model: Path) -> tuple[int, int]:
    """Bytes of the pickle, and by how many bytes private memory rose at most while it was imported."""
    before, levels = resident_private_bytes(), [0]
    report = import_legacy(
        layout, source, "large", model=str(model), on_stage=lambda *_: levels.append(resident_private_bytes())
    )
    return report.pickle_bytes, max(levels) - before


def test_memory_does_not_grow_with_the_pickle(
    layout: StorageLayout, models: Path, source_info: dict[str, Any], tmp_path: Path
) -> None:
    """240 MB of pictures, in a process with a heap of its own: it rises by chunks, not by the pictures."""
    many = {key: value[:1] * 200 if isinstance(value, list) else value for key, value in source_info.items()}
    many["img_rgb_lst"] = [np.full((640, 640, 3), index, np.uint8) for index in range(200)]
    source = tmp_path / "large.pkl"
    with source.open("wb") as file:
        pickle.dump(many, file, protocol=4)
    del many
    with get_context("spawn").Pool(1) as pool:
        pickle_bytes, rise = pool.apply(measure_import, (layout, source, models / "ditto"))
    assert pickle_bytes > 240_000_000
    assert rise < 190_000_000
    AvatarStore(layout.root).remove("large")


def test_verify_writes_the_picture_of_the_telling_frame(layout: StorageLayout, tmp_path: Path) -> None:
    import cv2

    same = verify_avatar(layout, "anna", against=DEMO, picture=tmp_path / "same.png")
    assert same.parity is not None and same.parity.first_bad_frame is None
    frames = [np.array(frame) for frame in decode_frames(DEMO, max_frames=3).frames]
    height, width = frames[0].shape[:2]
    picture = cv2.imread(str(tmp_path / "same.png"))
    assert picture.shape == (height, 3 * width + 8, 3)
    assert picture[:, 2 * width + 8 :].max() == 0
    changed = tmp_path / "changed.mkv"
    frames[1][10:20, 10:20] += 20
    with av.open(changed, "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = height, width, "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    report = verify_avatar(layout, "anna", against=changed, picture=tmp_path / "changed.png")
    assert report.parity is not None
    assert (report.parity.first_bad_frame, report.parity.worst_frame) == (1, 1)
    picture = cv2.imread(str(tmp_path / "changed.png"))[..., ::-1]
    np.testing.assert_array_equal(picture[:, width + 4 : 2 * width + 4], frames[1])
    assert picture[15, 2 * width + 8 + 15].min() == 160, "20 of 255, times eight"
    assert picture[50, 2 * width + 8 + 50].max() == 0


@pytest.mark.parametrize(("against", "name"), [(None, "a.png"), (DEMO, "a.jpg")])
def test_a_picture_that_cannot_be_made_is_refused_first(
    layout: StorageLayout, tmp_path: Path, against: Path | None, name: str
) -> None:
    with pytest.raises(UsageError, match="cannot be made"):
        verify_avatar(layout, "anna", against=against, picture=tmp_path / name)
