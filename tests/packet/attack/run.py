"""Running workers, and making verdicts of how they die."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.packet.attack.case import FAULT
from tests.packet.attack.worker import MUTATIONS, Verdict

ROOT = Path(__file__).parents[3]


def attack(first: int, count: int) -> list[Verdict]:
    """Verdicts on the mutations of ``count`` seeds. A worker that dies is a fault, and the next seed gets a new one."""
    verdicts: list[Verdict] = []
    while len(verdicts) < count:
        verdicts += _run_worker(first + len(verdicts), first + count)
    return verdicts


def _run_worker(first: int, stop: int) -> list[Verdict]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.packet.attack.worker", str(first), str(stop)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    verdicts = [Verdict(**json.loads(line)) for line in ended.stdout.splitlines()]
    seed = first + len(verdicts)
    if seed < stop:
        verdicts.append(Verdict(seed, MUTATIONS[seed % len(MUTATIONS)].name, "", FAULT, _death(ended)))
    return verdicts


def _death(ended: "subprocess.CompletedProcess[str]") -> str:
    code = ended.returncode
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    what = "it hangs" if name == "SIGALRM" else f"it kills the process ({name})"
    return f"{what}: {ended.stderr[-1500:]}"
