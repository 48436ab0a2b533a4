"""Every check of a packet finds the damage that it is there for."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pytest
import torch

from assets.gate import unpassed_checks
from newsstudio_ditto import inspection
from newsstudio_ditto.inspection import STEP_CHECKS
from newsstudio_ditto.orchestration import PreprocessReport, open_instance
from newsstudio_ditto.packet.spec import PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part
from newsstudio_ditto.preparation import VERSIONS, open_bench_part, open_track, track_path
from newsstudio_ditto.stages.tensor_file import save_tensors
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, Studio


@pytest.fixture
def spoilt(tmp_path: Path, prepared: PreprocessReport, layout: StorageLayout) -> StorageLayout:
    """A copy to do harm in."""
    for name in ("cache", "anchors", "recipes"):
        shutil.copytree(layout.root / name, tmp_path / name, symlinks=True)
    return StorageLayout(tmp_path)


def faults(layout: StorageLayout) -> set[str]:
    return {f"{check.step} {check.name}" for check in STEP_CHECKS if check.run(layout, AVATAR).faults}


def rewrite(layout: StorageLayout, part: str, spoil: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Write a part again with other values, checksums and all."""
    store = AvatarStore(layout.root)
    found = open_bench_part(store, AVATAR, part)
    tensors = {name: tensor.clone() for name, tensor in found.tensors.items()}
    spoil(tensors)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    stream = PartStream(part, shapes, [tensors], found.header.stage_version, dict(found.header.extra))
    write_part(store.bench(AVATAR), stream, generation=found.header.generation, avatar_id=AVATAR)


def flip_a_byte(layout: StorageLayout, part: str) -> None:
    """Inside the values of the largest tensor."""
    found = open_bench_part(AvatarStore(layout.root), AVATAR, part)
    tensor = max(found.tensors.values(), key=lambda tensor: tensor.nbytes)
    content = bytearray(found.path.read_bytes())
    start = content.index(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    content[start + tensor.nbytes // 2] ^= 0xFF
    found.path.write_bytes(content)


def test_a_good_packet_has_no_fault(spoilt: StorageLayout) -> None:
    assert faults(spoilt) == set()
    assert {check.step for check in STEP_CHECKS} == {*VERSIONS}


@pytest.mark.parametrize("part", [part for part in PARTS if part != "meta"])
def test_a_flipped_byte_is_found_in_every_file(spoilt: StorageLayout, part: str) -> None:
    flip_a_byte(spoilt, part)
    assert f"{part} intact" in faults(spoilt)


def test_damage_to_the_published_meta_is_found(spoilt: StorageLayout) -> None:
    (spoilt.packet(AVATAR) / "meta.pt").write_bytes(b"x")
    assert {"meta intact", "meta matches_spec", "meta in_range"} <= faults(spoilt)


def test_values_outside_their_range_are_found(spoilt: StorageLayout) -> None:
    rewrite(spoilt, "keypoints", lambda tensors: tensors["scale"].fill_(100.0))
    assert "keypoints in_range" in faults(spoilt)


def test_features_of_one_value_are_found(spoilt: StorageLayout) -> None:
    rewrite(spoilt, "f_s", lambda tensors: tensors["f_s"].fill_(0.5))
    assert "f_s in_range" in faults(spoilt)


def test_frames_that_are_not_those_of_the_clip_are_found(spoilt: StorageLayout) -> None:
    rewrite(spoilt, "frames", lambda tensors: tensors["frames"].add_(5))
    assert "frames shows_the_source" in faults(spoilt)


def test_a_mask_that_does_not_fade_out_is_found(spoilt: StorageLayout) -> None:
    rewrite(spoilt, "masks", lambda tensors: tensors["masks"].fill_(255))
    assert "masks fades_out" in faults(spoilt)


def test_a_face_in_too_few_frames_is_found(spoilt: StorageLayout) -> None:
    store = AvatarStore(spoilt.root)
    track = open_track(store, AVATAR)
    save_tensors(track_path(store, AVATAR), replace(track, valid=np.zeros_like(track.valid)).to_tensors())
    assert "face_track sees_the_face" in faults(spoilt)


def test_another_number_of_frames_is_found(spoilt: StorageLayout) -> None:
    def halve(tensors: dict[str, torch.Tensor]) -> None:
        tensors["masks"] = tensors["masks"][:1]

    rewrite(spoilt, "masks", halve)
    assert "masks matches_spec" in faults(spoilt)


def test_slow_opening_only_warns(spoilt: StorageLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "OPENING_BUDGET_S", 0.0)
    assert faults(spoilt) == {"meta opens_fast"}
    assert [check.name for check in STEP_CHECKS if check.is_warning] == ["opens_fast"]


@pytest.fixture
def damaged(tmp_path: Path, studio: Studio) -> Iterator[Studio]:
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    with open_instance(layout) as instance:
        yield Studio(layout, instance)


def test_the_nightly_job_finds_damage_and_renders_then_refuse(damaged: Studio, prepared: PreprocessReport) -> None:
    nightly = damaged.definitions.resolve_job_def("nightly")
    assert nightly.execute_in_process(instance=damaged.instance).success
    assert unpassed_checks(damaged.instance, AVATAR, prepared.generation) == []
    flip_a_byte(damaged.layout, "grids")
    with pytest.raises(dg.Failure, match="anna: intact of packet/grids"):
        nightly.execute_in_process(instance=damaged.instance)
    unpassed = unpassed_checks(damaged.instance, AVATAR, prepared.generation)
    assert "grids intact" in {f"{key.asset_key.path[-1]} {key.name}" for key in unpassed}


def test_the_nightly_job_observes_what_has_changed_unseen(damaged: Studio) -> None:
    def latest() -> str | None:
        record = damaged.instance.get_latest_data_version_record(dg.AssetKey("anchor_video"), partition_key=AVATAR)
        event = record.event_log_entry.asset_observation if record else None
        return (event.tags or {})["dagster/data_version"] if event else None

    before = latest()
    anchor = damaged.layout.anchor(AVATAR)
    content = bytearray(anchor.read_bytes())
    anchor.unlink()
    anchor.write_bytes(content + b"\0")
    damaged.definitions.resolve_job_def("nightly").execute_in_process(instance=damaged.instance, raise_on_error=False)
    assert latest() not in (None, before)
