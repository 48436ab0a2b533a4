"""Two workers share the renders of one studio; one of them is killed in the middle of a step."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.networks.bundle import BUNDLED
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.storage import AvatarRecipe
from newsstudio_ditto.video_inspection import check_render
from tests.dagster_graph.conftest import AVATAR, DEMO, write_speech
from tests.dagster_graph.test_server import SELECTOR, encoders, half_made, launch
from tests.scale.services import Studio, running_studio, wait_for

pytestmark = pytest.mark.scale

SHORT = ["one", "two", "three", "four"]
LONG = "long"
STARTED = time.monotonic()


def tell(text: str) -> None:
    """A line of the transcript; shown by ``pytest -s``."""
    print(f"{time.monotonic() - STARTED:7.1f} s  {text}")  # noqa: T201


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with running_studio(["gpu0", "gpu1"]) as studio:
        layout = studio.layout
        layout.place_anchor(DEMO / "anchor.mp4", AVATAR)
        shutil.copytree(BUNDLED / "mini", studio.folder / "model")
        layout.keep_recipe(AVATAR, AvatarRecipe(str(studio.folder / "model"), PacketOptions(max_frames=2)))
        for name in SHORT:
            layout.place_speech(write_speech(studio.folder / f"{name}.wav", 0.4), name)
        layout.place_speech(write_speech(studio.folder / "long.wav", 2.0), LONG)
        for definition, keys in (("avatar_id", [AVATAR]), ("speech_id", [*SHORT, LONG])):
            for key in keys:
                add_partition(studio, definition, key)
        tell(f"up: {', '.join(f'{name} (pid {process.pid})' for name, process in studio.processes.items())}")
        yield studio


def add_partition(studio: Studio, definition: str, key: str) -> None:
    added = studio.server.ask(
        """mutation($selector: RepositorySelector!, $name: String!, $key: String!) { addDynamicPartition(
            repositorySelector: $selector, partitionsDefName: $name, partitionKey: $key) { __typename } }""",
        selector=SELECTOR,
        name=definition,
        key=key,
    )
    assert added["addDynamicPartition"]["__typename"] == "AddDynamicPartitionSuccess"


def render(studio: Studio, speech_id: str) -> str:
    pair = {"dagster/partition/avatar_id": AVATAR, "dagster/partition/speech_id": speech_id}
    return launch(studio.server, "render", {"dagster/partition": f"{AVATAR}|{speech_id}", **pair})


def finish(studio: Studio, run_id: str, what: str) -> None:
    status = studio.server.wait_for_run(run_id)
    tell(f"{what}: {status}")
    assert status == "SUCCESS", events(studio, run_id)


def events(studio: Studio, run_id: str) -> list[dict[str, Any]]:
    answer = studio.server.ask(
        """query($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events {
            __typename ... on MessageEvent { message timestamp stepKey }
            ... on ErrorEvent { error { message } } } } } }""",
        id=run_id,
    )
    found: list[dict[str, Any]] = answer["logsForRun"]["events"]
    return found


def process_of(studio: Studio, run_id: str) -> int:
    text = " ".join(event.get("message") or "" for event in events(studio, run_id))
    match = re.search(r"process \(pid: (\d+)\)", text)
    assert match, text
    return int(match[1])


def seconds_of(studio: Studio, run_id: str) -> float:
    """From the first step to the last."""
    run = studio.server.ask(
        "query($id: ID!) { runOrError(runId: $id) { ... on Run { startTime endTime } } }", id=run_id
    )["runOrError"]
    return float(run["endTime"]) - float(run["startTime"])


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


def worker_of(studio: Studio, process_id: int) -> str:
    for name in ("gpu0", "gpu1"):
        process = studio.processes.get(name)
        if process is not None and process_id in children_of(process.pid):
            return name
    raise AssertionError(f"no worker has a child {process_id}")


def test_renders_are_shared_by_two_warm_workers(studio: Studio) -> None:
    finish(studio, launch(studio.server, "preprocess", {"dagster/partition": AVATAR}), "preprocess anna")
    for name in [*SHORT, LONG]:
        config = {"ops": {"speech_features": {"config": {"model": str(studio.folder / "model")}}}}
        finish(studio, launch(studio.server, "listen", {"dagster/partition": name}, config), f"listen {name}")
    runs = {name: render(studio, name) for name in SHORT}
    for name, run_id in runs.items():
        finish(studio, run_id, f"render {name}")
    workers = {name: process_of(studio, run_id) for name, run_id in runs.items()}
    for name, run_id in runs.items():
        worker = worker_of(studio, workers[name])
        tell(f"render {name}: {worker}, child {workers[name]}, {seconds_of(studio, run_id):.2f} s")
        assert check_render(studio.layout, AVATAR, name).is_true
    again = [render(studio, name) for name in SHORT[:2]]
    for run_id in again:
        finish(studio, run_id, "render again")
        tell(f"again: child {process_of(studio, run_id)}, {seconds_of(studio, run_id):.2f} s")
    second = {process_of(studio, run_id) for run_id in again}
    tell(f"the same children as before: {sorted(second)}")
    assert len({*workers.values()} | second) == 2, "two workers, one long-lived child each"
    for worker in {worker_of(studio, child) for child in second}:
        assert len(list((studio.folder / f"local-{worker}").glob(f"{AVATAR}/*"))) == 1, "copied once"


def test_a_worker_killed_in_mid_step_costs_a_retry_and_nothing_else(studio: Studio) -> None:
    run_id = render(studio, LONG)
    wait_for(lambda: encoders(studio.layout.videos), "an encoder")
    child = process_of(studio, run_id)
    name = worker_of(studio, child)
    tell(f"run {run_id[:8]} is encoding in {name}, child {child}: kill -9 of the whole worker")
    studio.kill(name)
    status = studio.server.wait_for_run(run_id)
    messages = [event["message"] for event in events(studio, run_id) if event["__typename"] == "RunFailureEvent"]
    tell(f"run {run_id[:8]}: {status}; {messages}")
    assert status == "FAILURE"
    retries: list[str] = []

    def has_retry() -> bool:
        answer = studio.server.ask(
            """query($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results { runId } } } }""",
            filter={"tags": [{"key": "dagster/parent_run_id", "value": run_id}]},
        )
        retries[:] = [run["runId"] for run in answer["runsOrError"]["results"]]
        return bool(retries)

    wait_for(has_retry, "the retry")
    finish(studio, retries[0], f"retry {retries[0][:8]}")
    tell(f"the retry ran in {worker_of(studio, process_of(studio, retries[0]))}")
    assert check_render(studio.layout, AVATAR, LONG).is_true
    assert half_made(studio.layout.root) == []
    assert encoders(studio.layout.videos) == []
    assert AvatarStore(studio.layout.root).leftovers() == []


def test_a_cancelled_run_ends_as_cancelled_and_the_worker_goes_on(studio: Studio) -> None:
    run_id = render(studio, LONG)
    wait_for(lambda: encoders(studio.layout.videos), "an encoder")
    child = process_of(studio, run_id)
    ended = studio.server.ask("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)
    assert ended["terminateRun"]["__typename"] == "TerminateRunSuccess"
    status = studio.server.wait_for_run(run_id)
    tell(f"cancelled run {run_id[:8]} in child {child}: {status}")
    assert status == "CANCELED"
    wait_for(lambda: not encoders(studio.layout.videos), "the encoder's end")
    assert half_made(studio.layout.root) == []
    assert check_render(studio.layout, AVATAR, LONG).is_true, "the older video is still there"
    finish(studio, render(studio, "one"), "render after the cancel")
