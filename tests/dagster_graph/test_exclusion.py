"""No two runs work on one avatar's bench at a time."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dagster._core.errors import DagsterResourceFunctionError

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.exclusion import hold_bench
from newsstudio_ditto.packet.store import AvatarStore
from tests.dagster_graph.conftest import AVATAR, Studio, preprocess

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.exclusion import hold_bench
with hold_bench(StorageLayout.at(sys.argv[1]), sys.argv[2], "a killed run"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_and_changes_nothing(studio: Studio) -> None:
    store = AvatarStore(studio.layout.root)
    before = [path.stat().st_mtime_ns for path in sorted(store.bench(AVATAR).iterdir())], store.open(AVATAR).folder
    with hold_bench(studio.layout, AVATAR, "run 1234"):
        with pytest.raises(DagsterResourceFunctionError) as refused:
            studio.run("preprocess", AVATAR)
        assert "being made by run 1234" in str(refused.value.user_exception)
        with pytest.raises(PacketError, match="being made by run 1234"):
            preprocess(studio.layout, force=True)
        with hold_bench(studio.layout, "ben", "run 5678"):
            pass
    after = [path.stat().st_mtime_ns for path in sorted(store.bench(AVATAR).iterdir())], store.open(AVATAR).folder
    assert before == after


def test_the_bench_is_free_again_after_a_run_and_after_a_kill(studio: Studio) -> None:
    studio.run("preprocess", AVATAR, ["packet", "meta"])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLDER, str(studio.layout.root), AVATAR],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(PacketError, match="being made by a killed run"), hold_bench(studio.layout, AVATAR, "us"):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with hold_bench(studio.layout, AVATAR, "us"):
        pass
