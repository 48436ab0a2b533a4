"""The code location behind a real webserver, driven over GraphQL as a person's browser drives it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.storage import AvatarRecipe, StorageLayout
from newsstudio_ditto.video_inspection import check_render
from tests.dagster_graph.conftest import AVATAR, DEMO, write_speech

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0
SELECTOR = {"repositoryLocationName": "newsstudio_ditto", "repositoryName": "__repository__"}
# Runs start at once, without the queue that needs a daemon.
SETTINGS = """
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}
"""


class Server:
    """A webserver with its own port and home."""

    def __init__(self, port: int, layout: StorageLayout) -> None:
        self.port = port
        self.layout = layout

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = json.loads(reply.read())
        assert "errors" not in answer, answer
        return answer["data"]

    def wait_for_run(self, run_id: str) -> str:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            run = self.ask("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run_id)
            if run["runOrError"]["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
                return str(run["runOrError"]["status"])
            time.sleep(0.5)
        return "DEADLINE"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        assert process.poll() is None, "the webserver ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5):
            return
        time.sleep(0.3)
    raise TimeoutError(f"no webserver on port {port}")


def default_signals() -> None:
    # A parent that ignores interrupts would hand that down, and the server could not be stopped.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    layout = StorageLayout(tmp_path_factory.mktemp("served"))
    layout.place_anchor(DEMO / "anchor.mp4", AVATAR)
    layout.keep_recipe(AVATAR, AvatarRecipe("mini", PacketOptions(max_frames=1)))
    layout.dagster_home.mkdir()
    (layout.dagster_home / "dagster.yaml").write_text(SETTINGS)
    port = free_port()
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(layout.dagster_home),
        "DITTO_STORAGE": str(layout.root),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "dagster_webserver", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    log = (layout.root / "webserver.log").open("wb")
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True, preexec_fn=default_signals
    )
    try:
        wait_until_up(port, process)
        yield Server(port, layout)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def test_the_location_loads_with_its_assets_and_jobs(server: Server) -> None:
    location = server.ask(
        """{ workspaceOrError { ... on Workspace { locationEntries { loadStatus locationOrLoadError {
            ... on RepositoryLocation { repositories { jobs { name } assetNodes { assetKey { path } groupName } } }
            ... on PythonError { message } } } } } }"""
    )["workspaceOrError"]["locationEntries"][0]
    assert location["loadStatus"] == "LOADED"
    repository = location["locationOrLoadError"]["repositories"][0]
    groups = {"/".join(node["assetKey"]["path"]): node["groupName"] for node in repository["assetNodes"]}
    assert groups["packet/meta"] == "packet"
    assert groups["talking_video"] == "render"
    assert {"preprocess", "listen", "render"} <= {job["name"] for job in repository["jobs"]}


def test_a_packet_is_made_from_the_browser(server: Server) -> None:
    added = server.ask(
        """mutation($selector: RepositorySelector!, $key: String!) { addDynamicPartition(
            repositorySelector: $selector, partitionsDefName: "avatar_id", partitionKey: $key) { __typename } }""",
        selector=SELECTOR,
        key=AVATAR,
    )
    assert added["addDynamicPartition"]["__typename"] == "AddDynamicPartitionSuccess"
    launched = server.ask(
        """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
        params={
            "selector": {**SELECTOR, "pipelineName": "preprocess"},
            "runConfigData": {},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": AVATAR}]},
        },
    )["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    assert server.wait_for_run(launched["run"]["runId"]) == "SUCCESS"
    assert AvatarStore(server.layout.root).open(AVATAR).num_frames == 1
    node = server.ask(
        """{ assetNodeOrError(assetKey: {path: ["packet", "meta"]}) { ... on AssetNode {
            latestMaterializationByPartition(partitions: ["anna"]) { metadataEntries { label } } } } }"""
    )["assetNodeOrError"]
    labels = {entry["label"] for entry in node["latestMaterializationByPartition"][0]["metadataEntries"]}
    assert {"preview", "bytes", "tensors", "seconds", "generation"} <= labels


def launch(server: Server, job: str, tags: dict[str, str], config: dict[str, Any] | None = None) -> str:
    launched = server.ask(
        """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
        params={
            "selector": {**SELECTOR, "pipelineName": job},
            "runConfigData": config or {},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        },
    )["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    return str(launched["run"]["runId"])


def half_made(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if ".partial" in path.name or path.suffix == ".tmp"]


def encoders(folder: Path) -> list[int]:
    """Living FFmpeg processes that write below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                if "ffmpeg" in command.split("\0")[0] and str(folder) in command:
                    found.append(int(entry.name))
    return found


def test_a_cancelled_render_takes_its_encoder_along_and_leaves_no_half_made_file(server: Server) -> None:
    speech = server.layout.root / "long.wav"
    with wave.open(str(DEMO / "speech.wav"), "rb") as source, wave.open(str(speech), "wb") as target:
        target.setparams(source.getparams())
        sound = source.readframes(source.getnframes())
        for _ in range(6):
            target.writeframes(sound)
    server.layout.place_speech(speech, "long")
    server.ask(
        """mutation($selector: RepositorySelector!) { addDynamicPartition(
            repositorySelector: $selector, partitionsDefName: "speech_id", partitionKey: "long") { __typename } }""",
        selector=SELECTOR,
    )
    assert server.wait_for_run(launch(server, "listen", {"dagster/partition": "long"})) == "SUCCESS"
    pair = {"dagster/partition/avatar_id": AVATAR, "dagster/partition/speech_id": "long"}
    run_id = launch(server, "render", {"dagster/partition": f"{AVATAR}|long", **pair})
    end = time.monotonic() + DEADLINE_S
    while not (half_made(server.layout.videos) and encoders(server.layout.videos)) and time.monotonic() < end:
        time.sleep(0.1)
    assert encoders(server.layout.videos), "the encoder never started"
    ended = server.ask(
        """mutation($id: String!) { terminateRun(runId: $id) { __typename ... on PythonError { message }
            ... on TerminateRunFailure { message } } }""",
        id=run_id,
    )
    assert ended["terminateRun"]["__typename"] == "TerminateRunSuccess", ended
    assert server.wait_for_run(run_id) == "CANCELED"
    assert encoders(server.layout.videos) == []
    assert half_made(server.layout.root) == []
    assert not server.layout.video(AVATAR, "long").exists()


def test_a_cancelled_batch_keeps_what_is_finished_and_nothing_half_made(server: Server) -> None:
    layout = server.layout
    for name in ("short", "later"):
        layout.place_speech(write_speech(layout.root / f"{name}.wav", 0.2), name)
    config = {"ops": {"make_all": {"config": {"avatar_id": AVATAR, "speech_ids": ["short", "long", "later"]}}}}
    run_id = launch(server, "render_many", {}, config)
    end = time.monotonic() + DEADLINE_S
    while not (layout.video(AVATAR, "short").exists() and encoders(layout.videos)) and time.monotonic() < end:
        time.sleep(0.1)
    assert encoders(layout.videos), "the second encoder never started"
    server.ask("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)
    assert server.wait_for_run(run_id) == "CANCELED"
    assert encoders(layout.videos) == []
    assert half_made(layout.root) == []
    assert not layout.video(AVATAR, "long").exists()
    assert not layout.video(AVATAR, "later").exists()
    assert check_render(layout, AVATAR, "short").faults == ()
    inner = server.ask(
        """query($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs {
            results { jobName status } } } }""",
        filter={"tags": [{"key": "newsstudio/batch", "value": run_id}]},
    )["runsOrError"]["results"]
    renders = [run["status"] for run in reversed(inner) if run["jobName"] == "render"]
    assert renders == ["SUCCESS", "CANCELED"]


def test_a_run_on_a_partition_that_is_gone_says_so(server: Server) -> None:
    run_id = launch(server, "preprocess", {"dagster/partition": "nobody"})
    assert server.wait_for_run(run_id) == "FAILURE"
    events = server.ask(
        """query($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
            ... on MessageEvent { message } ... on ErrorEvent { error { message causes { message } } } } } } }""",
        id=run_id,
    )["logsForRun"]["events"]
    assert "nobody" in json.dumps(events), events
    assert AvatarStore(server.layout.root).list() == [AVATAR]
