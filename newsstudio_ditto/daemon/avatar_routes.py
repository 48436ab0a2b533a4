"""Avatars: the list, previews, the six files, and preparing an anchor."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Query, Response, UploadFile
from fastapi import Path as PathParameter

from newsstudio_ditto import __version__
from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.daemon.artifacts import ENGINE_ARTIFACTS, avatar_status
from newsstudio_ditto.daemon.daemon import Daemon, DaemonOf
from newsstudio_ditto.daemon.guard import ANCHOR_SUFFIXES, require_suffix, try_strange_anchor
from newsstudio_ditto.daemon.jobs import Job
from newsstudio_ditto.daemon.models import (
    SLUG_PATTERN,
    ArtifactModel,
    AvatarModel,
    AvatarRow,
    Capabilities,
    DeviceModel,
    JobModel,
    Problem,
)
from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.daemon.speak import can_speak
from newsstudio_ditto.inventory import list_packets
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.stages.preview import encode_picture
from newsstudio_ditto.units import SAMPLE_RATE_HZ

router = APIRouter(prefix="/api/presenter", tags=["avatars"])

Problems = dict[int | str, dict[str, Any]]
AvatarId = Annotated[
    str, Query(alias="avatarId", pattern=SLUG_PATTERN, description="a slug such as 'anna'", examples=["anna"])
]
EngineName = Annotated[str, Query(pattern="^ditto$", description="the only engine")]


def refusals(*statuses: int) -> Problems:
    """How the documentation describes refusals: those of every route, and these."""
    return {status: {"model": Problem} for status in (400, 401, 403, 408, 413, 421, 422, 500, *statuses)}


@router.get("/capabilities", responses=refusals())
def capabilities(daemon: DaemonOf) -> Capabilities:
    """What this daemon can do."""
    settings = daemon.settings
    devices = [
        DeviceModel(name=device.name, fps=device.fps, slower_than_real_time=device.is_slower_than_real_time)
        for device in daemon.pool.devices
    ]
    return Capabilities(
        version=__version__,
        model=settings.model.rstrip("/").rpartition("/")[2],
        devices=devices,
        typing=can_speak(),
        preprocess="graph" if settings.uses_graph else "inline",
        queue_limit=settings.queue_limit,
        most_upload_bytes=settings.limits.body_bytes,
        longest_speech_s=settings.limits.speech_s,
        longest_anchor_s=settings.limits.anchor_s,
        longest_text_chars=settings.limits.text_chars,
        live_sample_rate_hz=SAMPLE_RATE_HZ,
    )


@router.get("/engines/{engine}", responses=refusals(404))
def engine_artifacts(engine: Annotated[str, PathParameter(pattern="^[a-z0-9-]{1,32}$")]) -> list[ArtifactModel]:
    """The files that an engine needs of an avatar."""
    if engine not in ENGINE_ARTIFACTS:
        raise RequestError(404, f"there is no engine {engine!r}", f"there is {', '.join(ENGINE_ARTIFACTS)}")
    return [ArtifactModel.model_validate(artifact) for artifact in ENGINE_ARTIFACTS[engine]]


@router.get("/avatars", responses=refusals())
def avatars(daemon: DaemonOf) -> list[AvatarRow]:
    """Every avatar that has a packet, also those whose packet is damaged."""
    rows = []
    for row in list_packets(daemon.settings.storage):
        plain = row.to_plain()
        ready = plain.pop("state") == "ready"
        model = plain.pop("model").rstrip("/").rpartition("/")[2]
        rows.append(AvatarRow(**plain, model=model, ready=ready, reason="" if ready else daemon.public(row.state)))
    return rows


@router.get(
    "/avatars/{avatar_id}/preview.jpg",
    response_class=Response,
    responses={**refusals(404, 409), 200: {"content": {"image/jpeg": {}}, "description": "the first frame"}},
)
def preview(
    daemon: DaemonOf, avatar_id: Annotated[str, PathParameter(pattern=SLUG_PATTERN, examples=["anna"])]
) -> Response:
    """The first frame of an avatar, as a small JPEG."""
    packet = AvatarStore(daemon.settings.storage.root).open(avatar_id)
    picture = np.ascontiguousarray(packet.frames[0].permute(1, 2, 0).numpy())
    return Response(encode_picture(picture), media_type="image/jpeg", headers={"ETag": f'"{packet.generation[:16]}"'})


@router.get("/preprocess-avatar", responses=refusals())
def preprocess_status(
    daemon: DaemonOf,
    avatar_id: AvatarId,
    engine: EngineName = "ditto",
    verify: Annotated[bool, Query(description="read every byte and recompute the checksums")] = False,
) -> AvatarModel:
    """The six files of an avatar: presence, size, shapes, checksums, generation; ready, or why not."""
    status = AvatarModel.of(avatar_status(daemon.settings.storage, avatar_id, verify=verify))
    files = [file.model_copy(update={"fault": daemon.public(file.fault)}) for file in status.files]
    words = {"reason": daemon.public(status.reason), "hint": daemon.public(status.hint)}
    return status.model_copy(update={"engine": engine, "files": files, **words})


@router.post("/preprocess-avatar", status_code=202, responses=refusals(409, 415, 503))
def preprocess_avatar(
    daemon: DaemonOf,
    response: Response,
    avatar_id: AvatarId,
    engine: EngineName = "ditto",
    max_frames: Annotated[int | None, Query(alias="maxFrames", ge=1, le=100_000)] = None,
    max_side_px: Annotated[int, Query(alias="maxSidePx", ge=64, le=4096)] = 1920,
    anchor: Annotated[
        UploadFile | None, File(description="clip or still; without it, the anchor that is there already is prepared")
    ] = None,
) -> JobModel:
    """Prepare an anchor. Through the asset graph where the storage has a Dagster instance, else in this process."""
    options = asdict(PacketOptions(max_frames=max_frames, max_side_px=max_side_px))
    options.pop("crop")
    daemon.runner.reserve()
    try:
        with daemon.inbox() as (job_id, folder):
            name = ""
            if anchor is None or not anchor.filename:
                daemon.settings.storage.anchor(avatar_id)  # there has to be one
            else:
                name = f"anchor{require_suffix(anchor.filename, ANCHOR_SUFFIXES)}"
                save_upload(anchor, folder / name)
                with daemon.decoders:
                    try_strange_anchor(folder / name, daemon.settings.limits)
            request = {"anchor": name, "engine": engine, "options": options}
            job = daemon.runner.submit(Job(job_id, "preprocess", avatar_id, request))
    except BaseException:
        daemon.runner.unreserve()
        raise
    return accepted(daemon, response, job)


def accepted(daemon: Daemon, response: Response, job: Job) -> JobModel:
    """The answer to a job that was taken."""
    response.headers["Location"] = f"/api/jobs/{job.id}"
    return JobModel.of(daemon.board.get(job.id))


def save_upload(upload: UploadFile, target: Path) -> None:
    """Write an upload to ``target``, whatever the name that came with it."""
    with target.open("wb") as file:
        shutil.copyfileobj(upload.file, file, 1 << 20)
