import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.errors import DagsterAssetCheckFailedError

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import PacketError, PacketMixedError, PacketModelError
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.orchestration import PreprocessReport, open_instance
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, RENDER, SPEECH, Studio


@pytest.fixture(scope="module")
def rendered(studio: Studio) -> Studio:
    studio.run("listen", SPEECH)
    studio.run("render", RENDER)
    return studio


@pytest.fixture
def spoilt(tmp_path: Path, rendered: Studio) -> Iterator[Studio]:
    """A copy of the studio, records included, to do harm in."""
    shutil.copytree(rendered.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    with open_instance(layout) as instance:
        yield Studio(layout, instance)


def test_a_talking_video_is_made_checked_and_shown(rendered: Studio, prepared: PreprocessReport) -> None:
    metadata = rendered.latest(["talking_video"], RENDER).metadata
    video = rendered.layout.video(AVATAR, SPEECH)
    assert metadata["num_frames"].value == 5
    assert metadata["path"].value == str(video)
    assert "data:image/jpeg" in str(metadata["preview"].value)
    assert read_provenance(video)["packet_generation"] == prepared.generation
    key = dg.AssetCheckKey(dg.AssetKey("talking_video"), "plays")
    checked = rendered.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert checked.evaluation is not None
    assert checked.evaluation.passed, checked.evaluation.metadata


def test_motion_and_features_are_kept_with_their_pictures(rendered: Studio) -> None:
    for key, partition in (["speech_features"], SPEECH), (["driving_motion"], RENDER):
        metadata = rendered.latest(key, partition).metadata
        assert "data:image/jpeg" in str(metadata["preview"].value)
        assert metadata["seconds"].value is not None


def test_the_same_seed_gives_the_same_motion(rendered: Studio) -> None:
    def version() -> str:
        tags = rendered.latest(["driving_motion"], RENDER).tags
        return (tags or {})["dagster/data_version"]

    before = version()
    rendered.run("render", RENDER, ["driving_motion"])
    assert version() == before


def test_frames_made_again_alone_stop_the_render_until_the_packet_is_sealed(spoilt: Studio) -> None:
    recipe = spoilt.layout.recipe(AVATAR)
    spoilt.layout.keep_recipe(AVATAR, type(recipe)(recipe.model, PacketOptions(max_frames=1)))
    spoilt.run("preprocess", AVATAR, ["packet", "frames"])
    with pytest.raises(PacketMixedError, match="frames of 'anna' were made again"):
        spoilt.run("render", RENDER, ["talking_video"])
    spoilt.run("preprocess", AVATAR)
    with pytest.raises(PacketMixedError, match="driving motion of anna"):
        spoilt.run("render", RENDER, ["talking_video"])


def test_a_packet_that_was_never_checked_is_not_rendered(tmp_path: Path, rendered: Studio) -> None:
    shutil.copytree(rendered.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    shutil.rmtree(layout.dagster_home)
    with open_instance(layout) as instance:
        instance.add_dynamic_partitions("avatar_id", [AVATAR])
        instance.add_dynamic_partitions("speech_id", [SPEECH])
        with pytest.raises(PacketError, match="checks have not passed for generation"):
            Studio(layout, instance).run("render", RENDER, ["driving_motion"])


def test_a_check_that_fails_blocks_the_seal_of_its_run(spoilt: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    from newsstudio_ditto import inspection

    monkeypatch.setattr(inspection, "compare_with_frames", lambda *_: ["too dark"])
    before = AvatarStore(spoilt.layout.root).open(AVATAR).folder
    with pytest.raises(DagsterAssetCheckFailedError, match="matches_spec"):
        spoilt.run("preprocess", AVATAR, ["packet", "masks"], ["packet", "meta"])
    assert AvatarStore(spoilt.layout.root).open(AVATAR).folder == before


def test_features_of_another_model_are_refused(spoilt: Studio) -> None:
    from dataclasses import replace

    from newsstudio_ditto.stages.tensor_file import open_tensors, save_tensors

    path = spoilt.layout.speech_features(SPEECH)
    content = open_tensors(path, kind="speech_features", remedy="")
    save_tensors(path, replace(content, header={**content.header, "model_fingerprint": "0" * 64}))
    with pytest.raises(PacketModelError, match="made by another model"):
        spoilt.run("render", RENDER, ["driving_motion"])


def test_ids_that_are_no_slugs_never_become_a_path(studio: Studio) -> None:
    from newsstudio_ditto.errors import UsageError
    from resources.partitions import avatar_of, render_of, speech_of

    assert render_of("anna|bulletin") == ("anna", "bulletin")
    for call, key in ((avatar_of, "../x"), (speech_of, "a/b"), (render_of, "anna|..")):
        with pytest.raises(UsageError):
            call(key)
