"""Jobs: render a speech, watch, cancel, download."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, StreamingResponse

from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.daemon.avatar_routes import accepted, refusals, save_upload
from newsstudio_ditto.daemon.daemon import Daemon, DaemonOf
from newsstudio_ditto.daemon.guard import SPEECH_SUFFIXES, read_strange_speech, require_suffix
from newsstudio_ditto.daemon.jobs import Job, JobState
from newsstudio_ditto.daemon.models import JOB_PATTERN, SLUG_PATTERN, JobModel
from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.daemon.speak import speak
from newsstudio_ditto.daemon.work import CONTROLS_NAME, SPEECH_NAME, render_options
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.render.pipeline import check_controls

router = APIRouter()

_EVENT_EVERY_S = 0.2
_HEARTBEAT_S = 10.0
_CACHED = {"Cache-Control": "private, max-age=3600"}  # a player that seeks asks for parts again and again

JobId = Annotated[str, PathParameter(pattern=JOB_PATTERN)]


@router.post("/api/presenter/render", status_code=202, tags=["jobs"], responses=refusals(404, 409, 415, 503))
def render(
    daemon: DaemonOf,
    response: Response,
    avatar_id: Annotated[str, Form(alias="avatarId", pattern=SLUG_PATTERN, examples=["anna"])],
    speech: Annotated[UploadFile | None, File(description="a sound file")] = None,
    speech_path: Annotated[
        str | None, Form(alias="speechPath", max_length=500, description="a file below the allowed folder")
    ] = None,
    text: Annotated[str | None, Form(max_length=20_000, description="English text to be spoken")] = None,
    controls: Annotated[
        str | None, Form(max_length=100_000, description="JSON document of controls, as the command line takes it")
    ] = None,
    seed: Annotated[int | None, Form(ge=0, le=2**53)] = None,
    num_steps: Annotated[int | None, Form(alias="numSteps", ge=1, le=1000)] = None,
) -> JobModel:
    """Render a speech: exactly one of ``speech``, ``speechPath`` and ``text``."""
    given = [bool(speech is not None and speech.filename), bool(speech_path), bool(text)]
    if sum(given) != 1:
        raise RequestError(400, f"{sum(given)} speeches were given", "give one of speech, speechPath and text")
    daemon.runner.reserve()
    try:
        with daemon.inbox() as (job_id, folder):
            request = {"seed": seed, "num_steps": num_steps}
            if controls:
                _require_json(controls)
                (folder / CONTROLS_NAME).write_text(controls)
            options = render_options(daemon.settings, request, folder / CONTROLS_NAME)
            _check(daemon, avatar_id, options)
            _bring_speech(daemon, folder, speech, speech_path, text)
            job = daemon.runner.submit(Job(job_id, "render", avatar_id, request))
    except BaseException:
        daemon.runner.unreserve()
        raise
    return accepted(daemon, response, job)


def _require_json(text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: a document of brackets
        raise RequestError(400, "the controls are no JSON document", "see docs/controls.md") from error


def _check(daemon: Daemon, avatar_id: str, options: RenderOptions) -> None:
    """Refuse at once what could only fail later."""
    bundle = daemon.pool.devices[0].engine.bundle
    packet = AvatarStore(daemon.settings.storage.root).open(avatar_id)
    packet.expect_model(bundle.fingerprint)
    check_controls(packet, bundle.config, options.controls, has_motion=False)


def _bring_speech(
    daemon: Daemon, folder: Path, speech: UploadFile | None, speech_path: str | None, text: str | None
) -> None:
    """Put the speech into the job's folder, decoded."""
    limits = daemon.settings.limits
    if text:
        source = folder / "spoken.wav"
        speak(text, source, most_chars=limits.text_chars)
    elif speech_path:
        source = allowed_file(daemon.settings.speeches, speech_path)
    else:
        assert speech is not None, "one of the three was given"
        source = folder / f"upload{require_suffix(speech.filename, SPEECH_SUFFIXES)}"
        save_upload(speech, source)
    with daemon.decoders:
        read_strange_speech(source, folder / SPEECH_NAME, limits)
    if source.parent == folder:
        source.unlink()


def allowed_file(root: Path, given: str) -> Path:
    """The sound file ``given`` below ``root``, links followed.

    Raises:
        RequestError: 404, it is not there, or leads out of the folder; which of the two is not told.
        RequestError: 415, no kind of sound file.
    """
    absent = RequestError(404, "there is no such speech in the allowed folder", "upload it instead")
    if "\0" in given:
        raise absent
    require_suffix(given, SPEECH_SUFFIXES)
    try:
        path = (root / given).resolve()
        is_there = path.is_relative_to(root.resolve()) and path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, a link to itself
        is_there = False
    if not is_there:
        raise absent
    return path


@router.get("/api/jobs", tags=["jobs"], responses=refusals())
def jobs(daemon: DaemonOf, limit: Annotated[int, Query(ge=1, le=200)] = 20) -> list[JobModel]:
    """The newest jobs, newest first."""
    return [JobModel.of(job) for job in daemon.board.newest(limit)]


@router.get("/api/jobs/{job_id}", tags=["jobs"], responses=refusals(404))
def job_status(daemon: DaemonOf, job_id: JobId) -> JobModel:
    """One job."""
    return JobModel.of(daemon.board.get(job_id))


@router.post("/api/jobs/{job_id}/cancel", tags=["jobs"], responses=refusals(404))
def cancel(daemon: DaemonOf, job_id: JobId) -> JobModel:
    """End a job; one that renders ends at its next frame, and one that has ended stays as it is."""
    daemon.runner.cancel(job_id)
    return JobModel.of(daemon.board.get(job_id))


@router.get(
    "/api/jobs/{job_id}/events",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={**refusals(404), 200: {"content": {"text/event-stream": {}}, "description": "a job in each event"}},
)
def events(daemon: DaemonOf, job_id: JobId) -> StreamingResponse:
    """Server-sent events: ``progress`` whenever the job changes, ``end`` once it is final; each holds the job."""
    daemon.board.get(job_id)
    return StreamingResponse(_events(daemon, job_id), media_type="text/event-stream")


async def _events(daemon: Daemon, job_id: str) -> AsyncIterator[str]:
    told: Job | None = None
    told_s = time.monotonic()
    while True:
        job = daemon.board.get(job_id)
        if job != told:
            told, told_s = job, time.monotonic()
            name = "end" if job.state.is_final else "progress"
            yield f"event: {name}\ndata: {JobModel.of(job).model_dump_json(by_alias=True)}\n\n"
            if job.state.is_final:
                return
        elif time.monotonic() - told_s > _HEARTBEAT_S:
            told_s = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(_EVENT_EVERY_S)


@router.get(
    "/api/jobs/{job_id}/video",
    tags=["jobs"],
    response_class=FileResponse,
    responses={
        **refusals(404, 409),
        200: {"content": {"video/mp4": {}}, "description": "the finished video; ranges are served"},
        206: {"content": {"video/mp4": {}}, "description": "a part of it"},
        416: {"description": "no such part"},
    },
)
def video(daemon: DaemonOf, request: Request, job_id: JobId) -> FileResponse:
    """The finished video; HTTP ranges are served."""
    job = daemon.board.get(job_id)
    path = daemon.settings.storage.video(job.avatar_id, job.output_name)
    if job.kind != "render" or job.state is not JobState.DONE:
        raise RequestError(409, f"job {job_id} has no video: it is {job.state}", "watch its events")
    if not path.is_file():
        raise RequestError(404, "the video was removed", "render it again")
    name = f"{job.avatar_id}-{job_id}.mp4"
    disposition = "attachment" if "download" in request.query_params else "inline"
    return FileResponse(
        path, media_type="video/mp4", filename=name, content_disposition_type=disposition, headers=_CACHED
    )
