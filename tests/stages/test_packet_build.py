import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import NoFaceError, PacketMixedError
from newsstudio_ditto.maths.smoothing import smooth_rows
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.packet.writer import write_part
from newsstudio_ditto.preparation import (
    VERSIONS,
    PacketBuild,
    build_packet,
    open_track,
    plan_packet,
    portable_model,
    require_sealed,
    stale_steps,
    track_path,
)
from newsstudio_ditto.stages import frames as frames_stage
from newsstudio_ditto.stages.crops import read_crops, to_network_input
from newsstudio_ditto.storage import StorageLayout
from tests.stages.conftest import DEMO_ANCHOR, GAP, Pixels, write_clip


@pytest.fixture
def copied(tmp_path: Path, layout: StorageLayout, build: PacketBuild) -> StorageLayout:
    """The finished storage, to be spoilt."""
    shutil.copytree(layout.root, tmp_path / "storage", symlinks=True)
    return StorageLayout(tmp_path / "storage")


def stale_in(layout: StorageLayout) -> list[str]:
    return stale_steps(AvatarStore(layout.root), plan_packet(layout, "anna"))


def test_every_step_ran_once_and_the_packet_verifies(build: PacketBuild) -> None:
    assert build.made == tuple(VERSIONS)
    assert set(build.seconds) == set(VERSIONS)
    report = verify_packet(build.packet.folder)
    assert report.ok, report.findings


def test_frames_are_those_of_the_clip_bit_for_bit(build: PacketBuild, demo_frames: list[Pixels]) -> None:
    for index in (0, 2):
        np.testing.assert_array_equal(build.packet.frames[index].numpy(), demo_frames[index].transpose(2, 0, 1))


def test_a_frame_without_a_face_has_an_empty_mask_and_finite_numbers(build: PacketBuild) -> None:
    packet = build.packet
    assert packet.meta.face_valid.tolist() == [True, False, True]
    assert not packet.masks[GAP].any()
    assert packet.masks[0].max() == packet.masks[2].max() == 255
    for values in (packet.grids, packet.appearance_volumes, *packet.keypoints.values()):
        assert torch.isfinite(values[GAP]).all()


def test_the_appearance_is_what_the_network_says_of_the_crop(
    build: PacketBuild, layout: StorageLayout, mini: ModelBundle
) -> None:
    track = open_track(AvatarStore(layout.root), "anna")
    input_px = mini.config.networks.appearance.input_px
    crops = next(read_crops(build.packet.frames, track.original_to_crop, input_px))
    with torch.inference_mode():
        expected = mini.appearance(to_network_input(crops[2:3], mini.appearance))
    torch.testing.assert_close(build.packet.appearance_volumes[2:3], expected.half(), rtol=2e-3, atol=2e-3)


def test_keypoints_are_smoothed_and_bridged_while_identity_is_not(
    build: PacketBuild, layout: StorageLayout, mini: ModelBundle
) -> None:
    track = open_track(AvatarStore(layout.root), "anna")
    crops = next(read_crops(build.packet.frames, track.original_to_crop))
    with torch.inference_mode():
        output = mini.motion_extractor(to_network_input(crops, mini.motion_extractor))
    rows = output.expression.clone()
    rows[GAP] = (rows[0] + rows[2]) / 2
    torch.testing.assert_close(build.packet.keypoints["exp"], smooth_rows(rows, 13), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(build.packet.meta.sc, output.canonical[0], rtol=1e-5, atol=1e-6)


def test_masks_of_a_clip_lie_where_grids_read_the_mouth(build: PacketBuild) -> None:
    across, down = build.packet.grids[0].unbind(-1)
    mouth = (across.abs() < 0.3) & ((down - 0.31).abs() < 0.22)
    assert mouth.any()
    assert (build.packet.masks[0, 0][mouth] == 255).all()
    assert (build.packet.masks[0, 0][(down < -0.15) | (across.abs() > 0.6) | (down > 0.8)] == 0).all()


def test_masks_cover_the_inside_of_the_crop_if_asked(
    layout: StorageLayout, gapped_clip: Path, mini: ModelBundle
) -> None:
    options = PacketOptions(max_frames=1, blend="crop")
    packet = build_packet(layout, gapped_clip, "whole", options=options, bundle=mini).packet
    reads_crop = (packet.grids[0].abs() < 0.85).all(dim=-1)
    assert (packet.masks[0, 0][reads_crop] == 255).all()
    outside = (packet.grids[0].abs() > 1.01).any(dim=-1)
    assert (packet.masks[0, 0][outside] == 0).all()


def test_nothing_is_made_twice(layout: StorageLayout, gapped_clip: Path, build: PacketBuild, mini: ModelBundle) -> None:
    again = build_packet(layout, gapped_clip, "anna", bundle=mini)
    assert again.made == ()
    assert again.packet.folder == build.packet.folder


def test_other_options_make_everything_stale(copied: StorageLayout) -> None:
    assert stale_in(copied) == []
    recipe = copied.recipe("anna")
    copied.keep_recipe("anna", type(recipe)(recipe.model, PacketOptions(max_frames=2)))
    assert stale_in(copied) == list(VERSIONS)


def test_another_clip_under_the_same_id_makes_everything_stale(
    copied: StorageLayout, demo_frames: list[Pixels]
) -> None:
    other = write_clip(copied.root / "other.mkv", demo_frames[:1])
    copied.place_anchor(other, "anna")
    assert stale_in(copied) == list(VERSIONS)


def test_what_is_missing_is_made_again_with_all_that_rests_on_it(copied: StorageLayout) -> None:
    bench = AvatarStore(copied.root).bench("anna")
    (bench / "masks.pt").unlink()
    assert stale_in(copied) == ["masks", "meta"]
    track_path(AvatarStore(copied.root), "anna").unlink()
    assert stale_in(copied) == ["face_track", "f_s", "keypoints", "grids", "masks", "meta"]
    (bench / "frames.pt").write_bytes(b"no packet file")
    assert stale_in(copied) == list(VERSIONS)


def test_a_new_stage_version_makes_that_step_stale_alone(
    copied: StorageLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERSIONS, "grids", VERSIONS["grids"] + "1")
    assert stale_in(copied) == ["grids", "meta"]


def test_a_stage_version_names_what_it_rests_on() -> None:
    for step, version in VERSIONS.items():
        assert version.startswith(VERSIONS["frames"])
        assert step in ("frames", "face_track") or version.startswith(VERSIONS["face_track"])
    assert all(VERSIONS[step].split()[-1] in VERSIONS["meta"] for step in VERSIONS if step != "meta")


def test_a_part_made_after_the_seal_is_refused_until_it_is_sealed(copied: StorageLayout) -> None:
    store = AvatarStore(copied.root)
    packet = store.open("anna")
    require_sealed(store, "anna", packet)
    stream = frames_stage.stream_frames(copied.anchor("anna"), PacketOptions(max_frames=2))
    write_part(store.bench("anna"), stream, generation="f" * 64, avatar_id="anna")
    with pytest.raises(PacketMixedError, match="frames of 'anna'"):
        require_sealed(store, "anna", packet)


def test_a_failed_build_leaves_the_older_packet_published(copied: StorageLayout, mini: ModelBundle) -> None:
    grey = write_clip(copied.root / "grey.mkv", [np.full((96, 96, 3), 120, np.uint8)])
    before = AvatarStore(copied.root).open("anna").generation
    with pytest.raises(NoFaceError):
        build_packet(copied, grey, "anna", bundle=mini)
    assert AvatarStore(copied.root).open("anna").generation == before
    assert not list(AvatarStore(copied.root).bench("anna").glob("*.tmp"))


def test_a_still_is_an_anchor_of_one_frame(layout: StorageLayout, demo_frames: list[Pixels], mini: ModelBundle) -> None:
    import cv2

    picture = layout.root / "still.png"
    cv2.imwrite(str(picture), cv2.cvtColor(demo_frames[0], cv2.COLOR_RGB2BGR))
    packet = build_packet(layout, picture, "still", bundle=mini).packet
    assert (packet.num_frames, packet.meta.fps_rule) == (1, "still")


def test_progress_is_told_by_step(
    layout: StorageLayout,
    mini: ModelBundle,
    stages_seen: tuple[list[tuple[str, int, int]], object],
) -> None:
    seen, listener = stages_seen
    build_packet(
        layout,
        DEMO_ANCHOR,
        "short",
        options=PacketOptions(max_frames=1),
        bundle=mini,
        on_stage=listener,  # type: ignore[arg-type]
    )
    ended = [stage for stage, done, total in seen if done == total]
    assert ended == ["frames", "face_track", "f_s", "keypoints", "grids", "masks"]


def test_a_model_folder_is_kept_absolute_and_a_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled"
    monkeypatch.chdir(bundled.parent)
    assert portable_model("mini") == "mini"
    assert portable_model("bundled/mini") == str(bundled / "mini")
