"""The release's own settings: stored in the bundle, in use by default, and each of them outdone by a control."""

import json
import random
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions, SamplingOptions
from newsstudio_ditto.controls import BlinkOptions, ControlOptions
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.blink import blink_table
from newsstudio_ditto.maths.clips import ClipOptions, generate_motion
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows
from newsstudio_ditto.maths.controls import FrameControls
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.motion_stitch import Blinks, MotionStitchOptions, stitch_motion
from newsstudio_ditto.maths.motion_vector import clip_motion, unpack_motion
from newsstudio_ditto.networks.bundle import ModelBundle, check_bundle, load_bundle, replace_networks, seeded_bundle
from newsstudio_ditto.networks.default_tables import TABLES_NAME
from newsstudio_ditto.networks.manifest import MANIFEST_NAME
from newsstudio_ditto.networks.release_defaults import DefaultTables
from newsstudio_ditto.official.install import install_ditto
from newsstudio_ditto.official.settings import read_settings
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.preparation import build_packet
from newsstudio_ditto.render.frame_plan import SpeechPoser
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.render.pipeline import plan_frames
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.render.window_sampler import GuidedStep, SessionNoise, WindowSampler
from newsstudio_ditto.storage import StorageLayout
from tests.networks.sizes import TINY_NETWORKS
from tests.official.releases import FILES, blink_offsets, saved_character, shipped_settings, write_settings
from tests.render.tiny import tiny_packet

CPU = torch.device("cpu")
NUM_FRAMES = 220
FEATURES = torch.randn(NUM_FRAMES, 16, generator=torch.Generator().manual_seed(8))


def settings_with(**session: Any) -> dict[str, Any]:
    settings = shipped_settings()
    settings["default_kwargs"] |= {"sampling_timesteps": 2, **session}
    return settings


@pytest.fixture(scope="module")
def installed(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a synthetic release, through the real conversion."""
    release = Path(shutil.copytree(original, tmp_path_factory.mktemp("shipped") / "release"))
    write_settings(release / FILES["settings"].path, settings_with())
    return install_ditto(release, release.parent / "ditto", networks=TINY_NETWORKS).folder


@pytest.fixture(scope="module")
def bundle(installed: Path) -> ModelBundle:
    return load_bundle(installed)


@pytest.fixture(scope="module")
def packets(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Packet]:
    root = tmp_path_factory.mktemp("avatars")
    return {count: tiny_packet(root, bundle, count, avatar_id=f"of-{count}") for count in (1, 4)}


def converted(installed: Path, folder: Path, **session: Any) -> ModelBundle:
    """The installed bundle with other settings of the release, by way of the disk."""
    settings = read_settings(write_settings(folder / "cfg.pkl", settings_with(**session)))
    shutil.copytree(installed, folder / "ditto", copy_function=shutil.copy)
    replace_networks(folder / "ditto", {}, config=replace(settings.bundle, networks=TINY_NETWORKS))
    return load_bundle(folder / "ditto")


def keypoints(
    bundle: ModelBundle,
    packet: Packet,
    controls: ControlOptions | None = None,
    sampling: SamplingOptions | None = None,
    stitch: bool | None = None,
) -> Tensor:
    """Driving keypoints of every frame, which are all that the picture is made of."""
    motion = sample_motion(bundle, FEATURES, packet, sampling or SamplingOptions(), CPU, controls=controls)
    return plan_frames(packet, motion, bundle, stitch=stitch, controls=controls).driving_keypoints


@dataclass(frozen=True)
class Case:
    """A setting of the release that is changed, and what a speech says to have its own way.

    Args:
        session: changed entries of the release's settings.
        wins: control with which the changed and the shipped release give the same.
        sampling: the same for sampling options.
        stitch: the same for the stitching network.
        also: control without which the setting shows no effect.
        source_frames: 1 is a still.
    """

    session: dict[str, Any]
    wins: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    stitch: bool | None = None
    also: dict[str, Any] = field(default_factory=dict)
    source_frames: int = 1


FADE = {"fade_in_s": 2.0}
CASES = {
    "emotion": Case({"emo": 3}, {"emotion": "sad"}),
    "emotion by frame": Case({"emo": [[3], [4, 5], [6]]}, {"emotion": {"sad": 1.0}}),
    "frozen eyes": Case({"eye_f0_mode": True}, {"freeze_eyes": True}),
    "no character": Case({"ch_info": None}, {"reference_character": False}),
    "another character": Case({"ch_info": saved_character(1)}, {"reference_character": False}),
    "overlap": Case({"overlap_v2": 30}, sampling={"overlap_frames": 15}),
    "smoothing": Case({"smo_k_d": 9}, sampling={"smoothing_frames": 5}),
    "steps": Case({"sampling_timesteps": 3}, sampling={"num_steps": 4}),
    "limits": Case({"v_min_max_for_clip": np.stack([np.full(265, x) for x in (-0.1, 0.1)])}, {"limit_motion": False}),
    "resets": Case({"fix_kp_cond": 0}),
    "carried entries": Case({"fix_kp_cond_dim": [0, 0]}),
    "driven parts": Case({"use_d_keys": {"exp": 1.0, "yaw": 0.5}}, {"driven_parts": {"expression": 1.0}}),
    "relative": Case({"relative_d": False}, {"relative": "first"}),
    "driven eyes": Case({"drive_eye": False}, {"drive_eyes": True}),
    "driven eyes of a clip": Case({"drive_eye": True}, {"drive_eyes": False}, source_frames=4),
    "no blink offsets": Case({"delta_eye_arr": None}, {"blink": BlinkOptions("generated")}),
    "blink offsets": Case({"delta_eye_arr": 2 * blink_offsets()}, {"blink": BlinkOptions("off")}),
    "no blinks": Case({"delta_eye_open_n": -1}, {"blink": BlinkOptions("fixed")}),
    "blink distances": Case({"delta_eye_open_n": [20, 50]}, {"blink": BlinkOptions("random", seed=2)}),
    "stitching": Case({"flag_stitching": False}, stitch=True),
    "pitch": Case({"overall_ctrl_info": {"delta_pitch": 5}}, {"pitch_deg": 0.0}),
    "yaw": Case({"overall_ctrl_info": {"delta_pitch": 2, "delta_yaw": 5}}, {"yaw_deg": 1.0}),
    "roll": Case({"overall_ctrl_info": {"delta_pitch": 2, "delta_roll": 5}}, {"roll_deg": 1.0}),
    "fade target": Case({"fade_type": "s"}, {"fade_to": "first"}, also={**FADE, "relative": "off"}),
    "fade parts": Case({"fade_out_keys": ["exp", "yaw"]}, {"fade_parts": ("expression",)}, also=FADE),
    "no fade": Case({"fade_type": ""}, {"fade_to": "first", "fade_parts": ("pitch",)}, also=FADE),
}


@pytest.mark.parametrize("name", CASES)
def test_a_setting_of_the_release_reaches_the_keypoints_and_a_control_wins(
    name: str, bundle: ModelBundle, installed: Path, packets: dict[int, Packet], tmp_path: Path
) -> None:
    case = CASES[name]
    other, packet = converted(installed, tmp_path, **case.session), packets[case.source_frames]
    assert other.fingerprint != bundle.fingerprint
    plain = ControlOptions(**case.also)
    assert not torch.equal(keypoints(other, packet, plain), keypoints(bundle, packet, plain))
    if case.wins or case.sampling or case.stitch is not None:
        controls, sampling = ControlOptions(**case.also, **case.wins), SamplingOptions(**case.sampling)
        assert torch.equal(*(keypoints(each, packet, controls, sampling, case.stitch) for each in (other, bundle)))


def test_an_unchanged_release_gives_equal_keypoints(
    bundle: ModelBundle, installed: Path, packets: dict[int, Packet], tmp_path: Path
) -> None:
    same = converted(installed, tmp_path, crop_scale=2.3)
    assert torch.equal(keypoints(same, packets[1]), keypoints(bundle, packets[1]))


def test_by_default_a_still_moves_as_the_reference_moves_it(bundle: ModelBundle, packets: dict[int, Packet]) -> None:
    """Put together from the parts that the golden vectors prove, with the settings written out."""
    shipped, packet = settings_with()["default_kwargs"], packets[1]
    character = shipped["ch_info"]
    first = character["x_s_info_lst"][0]
    vector = np.concatenate([first["scale"] - 1, *(first[key] for key in ("pitch", "yaw", "roll", "t", "exp"))], axis=1)
    conditioning = Conditioning(
        emotion=torch.full((600, 8), 0.125),
        eye_open=torch.from_numpy(np.concatenate(character["eye_open_lst"])),
        eye_ball=torch.from_numpy(np.concatenate(character["eye_ball_lst"])),
        identity=torch.from_numpy(character["sc"]),
    )
    step = GuidedStep(bundle.motion_diffusion, is_graphed=False)
    sampler = WindowSampler(step, ddim_schedule(2), 2.0, SessionNoise(0, 2))
    conditions = condition_rows(FEATURES, conditioning)
    motion = generate_motion(conditions, torch.from_numpy(vector[0]), sampler, ClipOptions(10, 3, 1, (0, 202)))
    clipped = unpack_motion(clip_motion(motion, torch.full((265,), -2.0), torch.full((265,), 2.0)))
    index = torch.from_numpy(blink_table(NUM_FRAMES, 15, 0, random.Random(0)))
    assert (index > 0).sum() >= 14, "one blink or more"
    options = MotionStitchOptions(
        blinks=Blinks(torch.from_numpy(shipped["delta_eye_arr"]), index), character_scale=first["scale"].item()
    )
    tilt = FrameControls(pose_delta_deg={"pitch": torch.full((NUM_FRAMES,), 2.0)})
    posed = stitch_motion(source_motion(packet), clipped, options, tilt)
    expected = bundle.stitching(posed.source_keypoints, posed.driving_keypoints)
    torch.testing.assert_close(keypoints(bundle, packet), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("source_frames", [1, 4])
def test_chunks_of_motion_are_driven_as_the_whole(
    source_frames: int, bundle: ModelBundle, packets: dict[int, Packet]
) -> None:
    controls = ControlOptions(fade_in_s=1.0, blink=BlinkOptions("random"))
    motion = 3 * torch.randn(NUM_FRAMES, 265, generator=torch.Generator().manual_seed(5))
    poser = SpeechPoser(packets[source_frames], bundle, NUM_FRAMES, controls=controls)
    parts = torch.cat([poser.pose(chunk).driving_keypoints for chunk in motion.split(37)])
    whole = plan_frames(packets[source_frames], motion, bundle, controls=controls).driving_keypoints
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)


def test_generated_eyes_are_those_of_a_release_without_blinks(
    bundle: ModelBundle, installed: Path, packets: dict[int, Packet], tmp_path: Path
) -> None:
    own = converted(installed, tmp_path, delta_eye_arr=None)
    generated = keypoints(bundle, packets[1], ControlOptions(blink=BlinkOptions("generated")))
    assert torch.equal(generated, keypoints(own, packets[1]))


def test_asked_blinks_close_the_eyes_as_the_release_does(bundle: ModelBundle, packets: dict[int, Packet]) -> None:
    """In two seconds, where the release itself would not blink at all."""
    motion = torch.zeros(50, 265)

    def eyes(mode: str, **more: Any) -> Tensor:
        controls = ControlOptions(blink=BlinkOptions(mode, **more), gaze_follows_head=False)  # type: ignore[arg-type]
        plan = plan_frames(packets[1], motion, bundle, stitch=False, controls=controls)
        return plan.driving_keypoints / packets[1].keypoints["scale"]

    torch.testing.assert_close(eyes("model"), eyes("off"))
    moved = (eyes("fixed", closing=0.5) - eyes("off")).flatten(1)
    mask = torch.zeros(21, 3)
    mask[[11, 13, 15, 16, 18]] = 1
    start = int(moved.abs().amax(dim=1).nonzero()[0]) - 1  # the first row of a blink is open
    expected = 0.5 * torch.from_numpy(blink_offsets()) * mask.flatten()
    torch.testing.assert_close(moved[start : start + 15], expected, atol=1e-5, rtol=1e-4)


def test_the_bundle_on_disk_says_what_the_release_said(installed: Path, bundle: ModelBundle) -> None:
    expected = read_settings(installed.parent / "release" / FILES["settings"].path).bundle.defaults
    assert expected is not None and bundle.config.defaults == expected
    stored = bundle.config.defaults.tables.present()
    assert stored.keys() == expected.tables.present().keys() and len(stored) == 7
    assert all(torch.equal(table, stored[name]) for name, table in expected.tables.present().items())
    assert check_bundle(installed) == []


def test_fingerprints_cover_settings_and_tables(installed: Path, bundle: ModelBundle) -> None:
    defaults = bundle.config.defaults
    assert defaults is not None and defaults.tables.blink_offsets is not None
    tables = replace(defaults.tables, blink_offsets=1.01 * defaults.tables.blink_offsets)
    changed = [replace(defaults, tables=tables), replace(defaults, pitch_deg=1.0), None]
    found = {seeded_bundle(replace(bundle.config, defaults=each)).fingerprint for each in (defaults, *changed)}
    assert len(found) == 4


def test_a_bundle_without_defaults_opens_as_before(installed: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(installed, tmp_path / "old"))
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    del manifest["config"]["defaults"], manifest["tables_sha256"]
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    (folder / TABLES_NAME).unlink()
    assert load_bundle(folder).config.defaults is None
    assert check_bundle(folder) == []


@pytest.mark.parametrize("change", [{"tables_sha256": 5}, {"tables_sha256": "0" * 64}, {"config": {"defaults": None}}])
def test_a_manifest_that_speaks_of_other_tables_is_refused(
    installed: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(installed, tmp_path / "other"))
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    config = manifest["config"] | change.get("config", {})
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest | change | {"config": config}))
    with pytest.raises(BundleError, match=r"tables_sha256 is no hash|expected content 000000000000"):
        load_bundle(folder)


def cut(folder: Path) -> None:
    path = folder / TABLES_NAME
    path.write_bytes(path.read_bytes()[:100])


def exchange(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({"blink_offsets": torch.ones(15, 63)}, folder / TABLES_NAME)


def reshape(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({"blink_offsets": torch.ones(15, 60)}, folder / TABLES_NAME)


def add(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({"hair": torch.ones(1)}, folder / TABLES_NAME)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut, r"defaults\.safetensors cannot be read"),
        (exchange, r"defaults\.safetensors: expected content"),
        (reshape, r"table blink_offsets: expected float32 \(n, 63\), got torch\.float32 \(15, 60\)"),
        (add, "table hair is unknown"),
        (lambda folder: (folder / TABLES_NAME).unlink(), r"defaults\.safetensors cannot be read"),
    ],
)
def test_damaged_tables_are_refused(installed: Path, tmp_path: Path, damage: Any, words: str) -> None:
    folder = Path(shutil.copytree(installed, tmp_path / "damaged"))
    damage(folder)
    with pytest.raises(BundleError, match=words):
        load_bundle(folder)


def test_tables_of_no_row_are_refused() -> None:
    with pytest.raises(BundleError, match="table emotion"):
        DefaultTables(emotion=torch.ones(0, 8))


def test_what_the_release_prepares_otherwise_is_said(original: Path, tmp_path: Path) -> None:
    release = Path(shutil.copytree(original, tmp_path / "release"))
    write_settings(release / FILES["settings"].path, settings_with(smo_k_s=9, crop_scale=2.0))
    made = install_ditto(release, tmp_path / "ditto", networks=TINY_NETWORKS)
    assert made.notes == ("the release prepares sources with smoothing_frames 9, this product with 13",)
    config = load_bundle(made.folder).config
    assert config.defaults is not None and config.defaults.crop.scale == 2.0
    assert config.crop.scale == pytest.approx(1.94 * 2.0 / 2.3, abs=1e-5)


def test_from_the_release_to_the_video(
    installed: Path, bundle: ModelBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prepared and rendered twice; without its tilt of two degrees the same release gives another picture."""
    demo = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"
    speech = tmp_path / "speech.wav"
    soundfile.write(speech, 0.1 * np.sin(np.arange(2 * 640) / 20), 16_000)
    layout = StorageLayout(tmp_path / "storage")
    build_packet(layout, demo, "anna", options=PacketOptions(max_frames=1), model=str(installed))
    hashes = []
    for controls in (ControlOptions(), ControlOptions(pitch_deg=0.0), ControlOptions(pitch_deg=2.0)):
        output = tmp_path / "anna.mp4"
        options = RenderOptions(device="cpu", controls=controls)
        assert render_video(layout.packet("anna"), speech, output, options=options).num_frames == 2
        hashes.append(picture_of(output))
    assert np.array_equal(hashes[0], hashes[2]) and not np.array_equal(hashes[0], hashes[1])


def picture_of(video: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    import av

    with av.open(str(video)) as opened:
        return next(opened.decode(video=0)).to_ndarray(format="rgb24")
