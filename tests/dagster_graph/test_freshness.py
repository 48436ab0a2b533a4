"""What a change makes stale, what the sensor asks for because of it, and what the run then makes."""

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import dagster as dg
import numpy as np
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from assets.sensors import anchors_folder
from newsstudio_ditto import preparation
from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.networks.bundle import BUNDLED
from newsstudio_ditto.orchestration import observe
from newsstudio_ditto.preparation import plan_packet
from newsstudio_ditto.storage import AvatarRecipe, StorageLayout
from resources import StorageResource
from tests.dagster_graph.conftest import DEMO, QUIET, Studio

ALL = ["frames", "face_track", "f_s", "keypoints", "grids", "masks", "meta"]
OPTIONS = PacketOptions(max_frames=1)


class Watcher:
    """The sensor, its cursor, and runs in this process in place of the daemon."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.cursor: str | None = None

    def tick(self) -> dict[str, list[str]]:
        """Apply one tick as the daemon does; steps that were run, by avatar."""
        storage = StorageResource(root=str(self.studio.layout.root))
        with dg.build_sensor_context(self.studio.instance, cursor=self.cursor) as context:
            result = anchors_folder(context, storage=storage)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        for event in result.asset_events:
            self.studio.instance.report_runless_asset_event(event)
        for request in result.dynamic_partitions_requests or []:
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.studio.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    self.studio.instance.delete_dynamic_partition(request.partitions_def_name, key)
        return {str(request.partition_key): self.run(request) for request in result.run_requests or []}

    def run(self, request: dg.RunRequest) -> list[str]:
        result = self.studio.definitions.resolve_job_def("preprocess").execute_in_process(
            run_config=QUIET,
            instance=self.studio.instance,
            partition_key=request.partition_key,
            asset_selection=list(request.asset_selection or []),
            run_id=None,
            raise_on_error=False,
        )
        made = {event.asset_key.path[-1] for event in result.get_asset_materialization_events() if event.asset_key}
        return [step for step in ALL if step in made]

    def settle(self) -> dict[str, list[str]]:
        """Two ticks: a file is taken when it has not moved between them."""
        first = self.tick()
        return first | self.tick()

    def stale(self, avatar_id: str) -> list[str]:
        """Assets that the UI would call stale."""
        graph = self.studio.definitions.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.studio.instance, graph, LoadingContextForTest(self.studio.instance))
        keys = {step: dg.AssetKey(step if step == "face_track" else ["packet", step]) for step in ALL}
        return [step for step, key in keys.items() if resolver.get_status(key, avatar_id).value != "FRESH"]


def still(path: Path, brightness: float) -> None:
    """The packaged presenter as a still, written in place and older than the settling time."""
    frame = next(iter(decode_frames(DEMO / "anchor.mp4").frames)).astype(np.float32) * brightness
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), cv2.cvtColor(frame.clip(0, 255).astype(np.uint8), cv2.COLOR_RGB2BGR))
    age(path)


def age(path: Path) -> None:
    os.utime(path, (time.time() - 60, time.time() - 60 + path.stat().st_size % 7))


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    layout = StorageLayout(tmp_path_factory.mktemp("watched"))
    for avatar_id in ("anna", "ben"):
        still(layout.anchors / f"{avatar_id}.png", 1.0 if avatar_id == "anna" else 0.9)
        layout.keep_recipe(avatar_id, AvatarRecipe("mini", OPTIONS))
    with dg.DagsterInstance.ephemeral() as instance:
        watcher = Watcher(Studio(layout, instance))
        assert watcher.settle() == {"anna": ALL, "ben": ALL}
        yield watcher


@dataclass(frozen=True)
class Change:
    """Something that happens, and the steps that are made again, by avatar."""

    apply: Callable[[Watcher, pytest.MonkeyPatch], None]
    rebuilt: dict[str, list[str]]


def repaint(brightness: float) -> Callable[[Watcher, pytest.MonkeyPatch], None]:
    return lambda watcher, _: still(watcher.studio.layout.anchors / "anna.png", brightness)


def touch(watcher: Watcher, _: pytest.MonkeyPatch) -> None:
    path = watcher.studio.layout.anchors / "anna.png"
    os.utime(path, (time.time() - 40, time.time() - 40))


def rename(watcher: Watcher, _: pytest.MonkeyPatch) -> None:
    """Other bytes on disk, same content: a new inode under the old name."""
    path = watcher.studio.layout.anchors / "anna.png"
    copy = path.with_suffix(".tmp")
    copy.write_bytes(path.read_bytes())
    age(copy)
    copy.replace(path)


def recipe(recipe: AvatarRecipe) -> Callable[[Watcher, pytest.MonkeyPatch], None]:
    return lambda watcher, _: watcher.studio.layout.keep_recipe("anna", recipe)


def other_model(watcher: Watcher, _: pytest.MonkeyPatch) -> None:
    """The packaged model under another folder and another set of settings, hence another fingerprint."""
    import json
    import shutil

    folder = watcher.studio.layout.root / "model"
    shutil.copytree(BUNDLED / "mini", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["num_steps"] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    watcher.studio.layout.keep_recipe("anna", AvatarRecipe(str(folder), OPTIONS))


def new_mask_code(_: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    from newsstudio_ditto.stages import masks, meta

    for stage, step in ((masks, "masks"), (meta, "meta")):
        version = re.sub(r"masks\.\d+", "masks.999", stage.VERSION)
        assert version != stage.VERSION
        monkeypatch.setattr(stage, "VERSION", version)
        monkeypatch.setitem(preparation.VERSIONS, step, version)


TIGHTER = AvatarRecipe("mini", replace(OPTIONS, crop=CropConfig(scale=2.0)))
MATRIX = {
    "nothing": Change(lambda *_: None, {}),
    "touched": Change(touch, {}),
    "replaced by an equal file": Change(rename, {}),
    "recipe written again": Change(recipe(AvatarRecipe("mini", OPTIONS)), {}),
    "other content": Change(repaint(0.8), {"anna": ALL}),
    "another crop": Change(recipe(TIGHTER), {"anna": ALL}),
    "another model": Change(other_model, {"anna": ALL}),
    "new code for masks": Change(new_mask_code, {"anna": ["masks", "meta"], "ben": ["masks", "meta"]}),
}


def undo(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything as it was at first, whatever was changed."""
    monkeypatch.undo()
    repaint(1.0)(watcher, monkeypatch)
    MATRIX["recipe written again"].apply(watcher, monkeypatch)


@pytest.mark.parametrize("name", MATRIX)
def test_a_change_makes_exactly_its_own_assets_stale_and_so_does_its_undoing(
    name: str, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = MATRIX[name]
    for step in (change.apply, undo):
        step(watcher, monkeypatch)
        assert watcher.settle() == change.rebuilt
        assert watcher.stale("anna") == []
        assert watcher.stale("ben") == []
        assert watcher.settle() == {}


def test_the_browser_shows_all_seven_stale_when_a_source_or_a_recipe_moves(watcher: Watcher) -> None:
    observe(watcher.studio.instance, "avatar_recipe", "ben", "another")
    assert watcher.stale("ben") == ALL
    assert watcher.stale("anna") == []
    observe(watcher.studio.instance, "avatar_recipe", "ben", plan_packet(watcher.studio.layout, "ben").generation)
    assert watcher.stale("ben") == []
