"""What jobs do: prepare an anchor, render a speech."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import PacketOptions, RenderOptions, SamplingOptions
from newsstudio_ditto.control_file import ControlFile, read_control_file
from newsstudio_ditto.daemon.artifacts import link_anchor
from newsstudio_ditto.daemon.jobs import Job
from newsstudio_ditto.daemon.report import JobReport
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.errors import MediaError
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import VERSIONS, build_packet, plan_anchor, portable_model, stale_steps
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.storage import AvatarRecipe

log = logging.getLogger(__name__)

SPEECH_NAME = "speech.wav"
CONTROLS_NAME = "controls.json"

_POLL_S = 0.25
_KILL_AFTER_S = 5.0


def job_folder(settings: DaemonSettings, job_id: str) -> Path:
    """Folder of what a job was given; it is removed when the job ends."""
    return settings.folder / "jobs" / job_id


def render_options(settings: DaemonSettings, request: dict[str, Any], controls: Path) -> RenderOptions:
    """Options of a render, from its plain request and its controls file; what the request says wins.

    Raises:
        UsageError: something is not understood, or out of range.
    """
    file = read_control_file(controls) if controls.is_file() else ControlFile()
    given = {key: request[key] for key in ("seed", "num_steps") if request.get(key) is not None}
    return RenderOptions(
        sampling=SamplingOptions(**{**file.sampling, **given}),
        controls=file.controls,
        stitch=file.stitch,
        eager=settings.eager,
    )


def run_render(job: Job, engine: Engine, settings: DaemonSettings, report: JobReport) -> dict[str, Any]:
    """Render a speech and return what the job ends with.

    Raises:
        DittoError: what the render raises.
        JobCancelled: while frames are rendered.
    """
    folder = job_folder(settings, job.id)
    report.stage("motion", 0.0)
    done = render_video(
        settings.storage.packet(job.avatar_id),
        folder / SPEECH_NAME,
        settings.storage.video(job.avatar_id, job.output_name),
        engine=engine,
        options=render_options(settings, dict(job.request), folder / CONTROLS_NAME),
        lips=settings.lips,
        on_progress=lambda done, total: report.frames("render", done, total),
    )
    plain = done.to_plain()
    del plain["output"]
    return {**plain, "num_bytes": done.output.stat().st_size}


def run_preprocess(job: Job, engine: Engine, settings: DaemonSettings, report: JobReport) -> dict[str, Any]:
    """Prepare an anchor and return what the job ends with.

    Raises:
        DittoError: what a stage raises.
        JobCancelled: between frames, or while the child process runs.
    """
    name = job.request.get("anchor")
    layout = settings.storage
    anchor = job_folder(settings, job.id) / name if name else layout.anchor(job.avatar_id)
    options = PacketOptions(**job.request.get("options", {}))
    report.stage("frames", 0.0)
    if settings.uses_graph:
        made = _run_graph(anchor, job.avatar_id, options, settings, report)
    else:
        build = build_packet(
            layout,
            anchor,
            job.avatar_id,
            options=options,
            model=settings.model,
            bundle=engine.bundle,
            on_stage=report.frames,
        )
        made = list(build.made)
    packet = AvatarStore(layout.root).open(job.avatar_id)
    link_anchor(layout, job.avatar_id)
    return {
        "made": made,
        "generation": packet.generation,
        "num_frames": packet.num_frames,
        "num_bytes": packet.num_bytes,
    }


def _run_graph(
    anchor: Path, avatar_id: str, options: PacketOptions, settings: DaemonSettings, report: JobReport
) -> list[str]:
    """Run the command line's ``preprocess`` in a child process; its progress is read off the files it makes.

    Dagster stays out of this process, the run is on the instance that the UI shows, and a child can be killed.
    """
    layout = settings.storage
    recipe, store = AvatarRecipe(portable_model(settings.model), options), AvatarStore(layout.root)
    plan = plan_anchor(layout, anchor, avatar_id, recipe)
    stale = stale_steps(store, plan)
    argv = [sys.executable, "-m", "newsstudio_ditto.cli", "preprocess", str(layout.anchor(avatar_id))]
    argv += ["--avatar-id", avatar_id, "--model", portable_model(settings.model), "--storage", str(layout.root)]
    argv += ["--json", "--window", options.window, "--max-side", str(options.max_side_px)]
    argv += ["--max-frames", str(options.max_frames)] if options.max_frames is not None else []
    with tempfile.TemporaryFile() as stderr:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        try:
            while child.poll() is None:
                report.check()
                left = stale_steps(store, plan)
                stage = next((step for step in VERSIONS if step in left), "meta")
                report.stage(stage, 100.0 * (1 - len(left) / max(len(stale), 1)))
                _wait(child, _POLL_S)
        finally:
            _end(child)
        stderr.seek(0)
        words = stderr.read().decode("utf-8", "replace")
    if child.returncode:
        raise _graph_error(words, child.returncode)
    return stale


def _wait(child: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started; politely first, so that Dagster can write down that it was stopped."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        os.killpg(child.pid, number)
        _wait(child, _KILL_AFTER_S)


def _graph_error(words: str, status: int) -> MediaError:
    lines = dict(line.split(": ", 1) for line in words.splitlines() if line.startswith(("Error: ", "Hint: ")))
    if "Error" not in lines:
        log.error("preprocessing failed", extra={"status": status, "stderr": words[-4000:]})
    return MediaError(
        lines.get("Error", "preprocessing ended badly"), lines.get("Hint", "the daemon's log has the details")
    )
