import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.observe import observe

from assets.sensors import anchors_folder, new_speeches, speeches_folder
from newsstudio_ditto.orchestration import PreprocessReport
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.watching import WatchState, decide, look_at
from resources import StorageResource
from tests.dagster_graph.conftest import AVATAR, RENDER, SPEECH, Studio, write_speech


class Ticker:
    """A sensor with its cursor, on an instance whose partitions follow what it asks for."""

    def __init__(self, sensor: dg.SensorDefinition, layout: StorageLayout, instance: dg.DagsterInstance) -> None:
        self.sensor, self.layout, self.instance = sensor, layout, instance
        self.cursor: str | None = None

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        with dg.build_sensor_context(self.instance, cursor=self.cursor) as context:
            result = self.sensor(context, storage=StorageResource(root=str(self.layout.root)))
        if isinstance(result, dg.SkipReason):
            return result
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        for request in result.dynamic_partitions_requests or []:
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition(request.partitions_def_name, key)
        return result

    def runs(self) -> list[str]:
        """Partitions that one tick asks runs for."""
        result = self.tick()
        assert isinstance(result, dg.SensorResult)
        return [str(request.partition_key) for request in result.run_requests or []]

    def run_keys(self) -> list[str | None]:
        result = self.tick()
        assert isinstance(result, dg.SensorResult)
        return [request.run_key for request in result.run_requests or []]


def put(path: Path, content: bytes, *, age_s: float = 60) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age_s, time.time() - age_s))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def speeches(tmp_path: Path, instance: dg.DagsterInstance) -> Ticker:
    layout = StorageLayout(tmp_path)
    put(layout.speeches / "news.wav", b"one")
    put(layout.speeches / "Not A Slug.wav", b"x")
    put(layout.speeches / ".hidden.wav", b"x")
    put(layout.speeches / "copying.wav.part", b"x")
    return Ticker(speeches_folder, layout, instance)


def test_a_new_speech_becomes_a_partition_an_observation_and_a_run(speeches: Ticker) -> None:
    assert speeches.runs() == []
    result = speeches.tick()
    assert isinstance(result, dg.SensorResult)
    assert [event.partition for event in result.asset_events] == ["news"]
    assert [request.partition_key for request in result.run_requests or []] == ["news"]
    assert speeches.instance.get_dynamic_partitions("speech_id") == ["news"]


def test_a_file_is_taken_when_it_is_complete(speeches: Ticker) -> None:
    path = speeches.layout.speeches / "news.wav"
    speeches.tick()
    for length in range(2, 7):
        put(path, b"piece" * length)
        assert speeches.runs() == []
    assert speeches.runs() == ["news"]
    state = WatchState.from_cursor(speeches.cursor)
    assert state.seen["news"][0] == hash_file(path)[:12]
    assert speeches.runs() == []


def test_a_file_that_was_written_just_now_is_left_alone(speeches: Ticker) -> None:
    put(speeches.layout.speeches / "news.wav", b"two", age_s=0)
    assert speeches.runs() + speeches.runs() == []


def test_a_touch_does_nothing(speeches: Ticker) -> None:
    speeches.tick(), speeches.tick()
    put(speeches.layout.speeches / "news.wav", b"one", age_s=30)
    assert speeches.runs() + speeches.runs() == []


def test_run_keys_do_not_swallow_a_return_to_older_content(speeches: Ticker) -> None:
    keys = []
    for content in (b"one", b"two", b"one", b"two"):
        put(speeches.layout.speeches / "news.wav", content)
        keys += speeches.run_keys() + speeches.run_keys()
    assert len(keys) == len({*keys}) == 4
    before = speeches.cursor
    put(speeches.layout.speeches / "news.wav", b"one")
    speeches.tick()
    waiting = speeches.cursor
    again = [speeches.run_keys()]
    speeches.cursor = waiting
    again.append(speeches.run_keys())
    assert again[0] == again[1] != [], "a tick that is evaluated again asks for the same run"
    speeches.cursor = None
    speeches.tick()
    assert not {*speeches.run_keys()} & {*keys, *again[0]}, "after a reset everything is asked for anew"
    assert before != waiting


def test_a_lost_file_loses_its_partition_after_a_second_look(speeches: Ticker) -> None:
    put(speeches.layout.speeches / "stays.wav", b"x")
    speeches.tick(), speeches.tick()
    (speeches.layout.speeches / "news.wav").unlink()
    speeches.tick()
    assert {*speeches.instance.get_dynamic_partitions("speech_id")} == {"news", "stays"}
    speeches.tick()
    assert speeches.instance.get_dynamic_partitions("speech_id") == ["stays"]
    put(speeches.layout.speeches / "news.wav", b"one")
    assert speeches.runs() + speeches.runs() == ["news"]


def test_a_folder_that_empties_at_once_retires_nobody(speeches: Ticker) -> None:
    put(speeches.layout.speeches / "other.wav", b"x")
    speeches.tick(), speeches.tick()
    shutil.rmtree(speeches.layout.speeches)
    assert isinstance(speeches.tick(), dg.SkipReason)
    speeches.layout.speeches.mkdir()
    speeches.tick(), speeches.tick(), speeches.tick()
    assert {*speeches.instance.get_dynamic_partitions("speech_id")} == {"news", "other"}


def test_an_unmoved_file_is_not_read_again(speeches: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, memory = speeches.layout.speeches, speeches.layout.hash_memory("speeches")
    first = look_at(folder, memory, {})
    seen = look_at(folder, memory, first.waiting)
    assert seen.hashes == {"news": hash_file(folder / "news.wav")}
    monkeypatch.setattr("newsstudio_ditto.watching.hash_file", None)
    assert look_at(folder, memory, {}) == seen
    memory.write_text("damaged")
    assert look_at(folder, memory, {}).waiting.keys() == {"news"}


def test_an_anchor_that_always_fails_is_tried_once_per_content(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    anchors = Ticker(anchors_folder, StorageLayout(tmp_path), instance)
    put(tmp_path / "anchors" / "broken.mp4", b"no video at all")
    assert [anchors.runs() for _ in range(4)] == [[], ["broken"], [], []]
    put(tmp_path / "anchors" / "broken.mp4", b"no video either")
    assert [anchors.runs() for _ in range(4)] == [[], ["broken"], [], []]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "broken.json").write_text("no recipe")
    assert [anchors.runs() for _ in range(3)] == [["broken"], [], []]
    studio = Studio(anchors.layout, instance)
    result = studio.definitions.resolve_job_def("preprocess").execute_in_process(
        instance=instance, partition_key="broken", raise_on_error=False
    )
    assert not result.success


def test_hundreds_of_files_take_ticks_below_five_seconds(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    anchors = Ticker(anchors_folder, StorageLayout(tmp_path), instance)
    (tmp_path / "anchors").mkdir()
    for index in range(300):
        path = tmp_path / "anchors" / f"avatar-{index:03}.mp4"
        with path.open("wb") as file:
            file.write(b"%d" % index)
            file.truncate(4 * 2**20)
        os.utime(path, (1, 1))
    asked, longest = 0, 0.0
    for _ in range(20):
        started = time.perf_counter()
        asked += len(anchors.runs())
        longest = max(longest, time.perf_counter() - started)
        if asked == 300:
            break
    assert asked == 300
    assert longest < 5.0
    assert len(anchors.cursor or "") < 300 * 60
    assert anchors.runs() == []


def test_an_avatar_that_is_fresh_gets_no_run(studio: Studio, prepared: PreprocessReport) -> None:
    os.utime(studio.layout.anchor(AVATAR), (1, 1))
    with dg.DagsterInstance.ephemeral() as instance:
        ticker = Ticker(anchors_folder, studio.layout, instance)
        assert ticker.runs() + ticker.runs() == []
        assert instance.get_dynamic_partitions("avatar_id") == [AVATAR]


def test_a_new_speech_is_rendered_once_with_its_presenters(tmp_path: Path, studio: Studio) -> None:
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout, instance = StorageLayout(tmp_path / "studio"), studio.instance
    shutil.rmtree(layout.videos, ignore_errors=True)
    (layout.speeches / f"{SPEECH}.wav").unlink(missing_ok=True)
    write_speech(layout.speeches / f"{SPEECH}.wav", 0.2)
    os.utime(layout.speeches / f"{SPEECH}.wav", (1, 1))
    files, renders = Ticker(speeches_folder, layout, instance), Ticker(new_speeches, layout, instance)
    files.tick()
    assert renders.runs() == [], "not encoded yet"
    files.tick()
    Studio(layout, instance).run("listen", SPEECH)
    (layout.root / "presenters.json").write_text(json.dumps(["nobody"]))
    assert renders.runs() == []
    (layout.root / "presenters.json").unlink()
    result = renders.tick()
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert isinstance(request.partition_key, dg.MultiPartitionKey)
    assert request.partition_key == RENDER
    assert renders.runs() == []


def test_presenters_of_a_speech(tmp_path: Path) -> None:
    from newsstudio_ditto.errors import UsageError
    from newsstudio_ditto.rundown import presenters_of

    layout = StorageLayout(tmp_path)
    assert presenters_of(layout, "news", ["anna"]) == ["anna"]
    assert presenters_of(layout, "news", ["anna", "ben"]) == []
    assert presenters_of(layout, "ben--news", ["anna", "ben"]) == ["ben"]
    (tmp_path / "presenters.json").write_text('["ben", "gone"]')
    assert presenters_of(layout, "news", ["anna", "ben"]) == ["ben"]
    for text in ("{", '{"a": 1}', '["../x"]'):
        (tmp_path / "presenters.json").write_text(text)
        with pytest.raises(UsageError):
            presenters_of(layout, "news", ["anna", "ben"])


def test_a_cursor_of_another_version_starts_anew(speeches: Ticker) -> None:
    for text in (None, "", "[]", '{"news": {"stamp": "1"}}'):
        state = WatchState.from_cursor(text)
        assert state.seen == {}
        assert WatchState.from_cursor(state.to_cursor()) == state
    look = look_at(speeches.layout.speeches, speeches.layout.hash_memory("x"), {})
    assert decide(WatchState(), look, lambda *_: "", lambda *_: True).runs == {}


def test_observing_a_source_hashes_the_partitions_that_have_a_file(studio: Studio) -> None:
    for key, file in (("anchor_video", studio.layout.anchor(AVATAR)), ("speech_audio", studio.layout.speech(SPEECH))):
        source = studio.definitions.resolve_assets_def(key)
        result = observe([source], instance=studio.instance)
        assert result.success
        record = studio.instance.fetch_observations(dg.AssetKey(key), limit=1).records[0].asset_observation
        assert record is not None
        assert (record.tags or {})["dagster/data_version"] == content_hash(file)
