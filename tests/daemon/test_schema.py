"""Requests made from the OpenAPI schema, good and bad, against a real daemon: no surprise in any answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.running import RunningDaemon, running_daemon

pytest.importorskip("schemathesis", reason="needs schemathesis")


@pytest.mark.slow
def test_generated_requests_get_the_answers_that_the_schema_promises(
    storage: Path, tiny_model: Path, tmp_path: Path
) -> None:
    # A queue that is never full: "busy" is a promised answer, and yet one that the program takes for a fault.
    with running_daemon(storage, tiny_model, queue_limit=1000) as daemon:
        run_schemathesis(daemon, tmp_path)
        assert daemon.client.get("/readyz").status_code == 200
    assert "Traceback" not in daemon.log.read_text()


def run_schemathesis(daemon: RunningDaemon, folder: Path) -> None:
    argv = [sys.executable, "-m", "schemathesis.cli", "run", f"{daemon.url}/openapi.json", "--url", daemon.url]
    argv += ["--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--seed", "7", "--workers", "1"]
    argv += ["--request-timeout", "30", "--generation-database", "none", "--suppress-health-check", "all"]
    # A request may fit the schema and still ask for what is not there, or hold bytes that are no sound.
    argv += ["--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
