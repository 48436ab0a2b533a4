from dataclasses import replace

import dagster as dg
import pytest

from assets.gate import unpassed_checks
from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import NoFaceError
from newsstudio_ditto.inspection import STEP_CHECKS
from newsstudio_ditto.orchestration import PreprocessReport, observe_anchor, prepare_home, run_preprocess
from newsstudio_ditto.packet.spec import PART_NAMES
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.preparation import VERSIONS, plan_packet
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, Studio, preprocess


def test_the_graph_makes_a_packet_that_verifies(prepared: PreprocessReport, layout: StorageLayout) -> None:
    assert prepared.made == tuple(VERSIONS)
    assert (prepared.num_frames, prepared.folder) == (2, layout.packet(AVATAR))
    assert verify_packet(prepared.folder).ok
    assert prepared.to_plain()["state"] == "made"


def test_data_versions_are_the_content_of_the_files(studio: Studio) -> None:
    store = AvatarStore(studio.layout.root)
    for part in PART_NAMES[:-1]:
        record = store.bench_record(AVATAR, part)
        assert record is not None
        tags = studio.latest(["packet", part], AVATAR).tags
        assert tags is not None
        assert tags["dagster/data_version"] == record.sha256
        assert tags["dagster/code_version"] == VERSIONS[part]


@pytest.mark.parametrize("key", [["packet", part] for part in PART_NAMES] + [["face_track"]])
def test_an_asset_shows_size_shapes_time_and_a_small_picture(studio: Studio, key: list[str]) -> None:
    metadata = studio.latest(key, AVATAR).metadata
    preview, tensors = metadata["preview"].value, metadata["tensors"]
    assert str(preview).startswith("![preview](data:image/jpeg;base64,")
    assert len(str(preview)) < 40_000
    assert isinstance(tensors, dg.TableMetadataValue)
    assert {"tensor", "shape", "dtype", "bytes"} == set(tensors.records[0].data)
    assert metadata["seconds"].value is not None
    assert metadata["bytes"].value


def test_every_check_has_passed_for_this_generation(studio: Studio, prepared: PreprocessReport) -> None:
    assert unpassed_checks(studio.instance, AVATAR, prepared.generation) == []
    num_blocking = sum(not check.is_warning for check in STEP_CHECKS)
    assert len(unpassed_checks(studio.instance, AVATAR, "another generation")) == num_blocking
    assert len(unpassed_checks(studio.instance, "somebody-else", prepared.generation)) == num_blocking


def test_fresh_input_is_fresh_and_starts_no_run(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    num_runs = studio.instance.get_runs_count()
    monkeypatch.setattr("newsstudio_ditto.orchestration._materialize", None)
    progress: list[tuple[int, int]] = []
    report = run_preprocess(
        studio.layout.anchor(AVATAR),
        avatar_id=AVATAR,
        options=PacketOptions(max_frames=2),
        storage=studio.layout,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert report.is_fresh
    assert report.to_plain()["state"] == "fresh"
    assert progress[-1][0] == progress[-1][1]
    assert studio.instance.get_runs_count() == num_runs


def test_only_what_is_stale_is_made(studio: Studio) -> None:
    before = studio.latest(["packet", "frames"], AVATAR)
    (AvatarStore(studio.layout.root).bench(AVATAR) / "masks.pt").unlink()
    assert preprocess(studio.layout).made == ("masks", "meta")
    assert studio.latest(["packet", "frames"], AVATAR) == before


def observed_anchors(instance: dg.DagsterInstance) -> list[str]:
    """Versions of the avatar's clip, oldest first."""
    of = dg.AssetRecordsFilter(asset_key=dg.AssetKey("anchor_video"), asset_partitions=[AVATAR])
    events = [record.asset_observation for record in instance.fetch_observations(of, limit=100).records[::-1]]
    return [(event.tags or {})["dagster/data_version"] for event in events if event is not None]


def test_what_a_packet_rests_on_was_observed(studio: Studio) -> None:
    assert plan_packet(studio.layout, AVATAR).source_hash in observed_anchors(studio.instance)


def test_the_anchor_is_observed_once_per_content(studio: Studio) -> None:
    plan = plan_packet(studio.layout, AVATAR)
    with dg.DagsterInstance.ephemeral() as instance:
        for source_hash in ("old", "old", "new", "new", "old"):
            observe_anchor(instance, replace(plan, source_hash=source_hash))
        assert observed_anchors(instance) == ["old", "new", "old"]


def test_an_error_of_ours_arrives_as_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    import cv2
    import numpy as np

    root = tmp_path_factory.mktemp("faceless")
    cv2.imwrite(str(root / "grey.png"), np.full((96, 96, 3), 100, np.uint8))
    with pytest.raises(NoFaceError):
        run_preprocess(
            root / "grey.png", avatar_id="grey", options=PacketOptions(), storage=StorageLayout(root), device="cpu"
        )


def test_an_instance_file_that_somebody_edited_is_left_alone(layout: StorageLayout, prepared: PreprocessReport) -> None:
    settings = prepare_home(layout) / "dagster.yaml"
    original = settings.read_text()
    settings.write_text(original + "# mine\n")
    assert prepare_home(layout) == settings.parent
    assert settings.read_text().endswith("# mine\n")
    settings.write_text(original)
