"""What goes over the wire: typed models, whose fields are spelled as JavaScript spells them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from newsstudio_ditto.daemon.artifacts import AvatarStatus
from newsstudio_ditto.daemon.jobs import Job, JobState

SLUG_PATTERN = "^[a-z0-9][a-z0-9_-]{0,63}$"
JOB_PATTERN = "^[0-9a-f]{16}$"


class Wire(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class Problem(Wire):
    """What every answer says when something is wrong."""

    what: str = Field(description="what happened, in one sentence")
    hint: str = Field(description="what to do about it; may be empty")


class TensorModel(Wire):
    """One tensor of a packet file."""

    name: str
    dtype: str
    shape: list[int]


class FileModel(Wire):
    """One of the six files."""

    name: str
    file_name: str
    present: bool
    num_bytes: int
    generation: str = Field(description="fingerprint of source, options and model; equal in all six")
    tensors: list[TensorModel]
    checksum: Literal["unknown", "recorded", "good", "bad"] = Field(
        description="recorded: the seal fits, the bytes were not read; good or bad: they were (verify=true)"
    )
    fault: str


class AvatarModel(Wire):
    """How an avatar is doing."""

    avatar_id: str
    engine: str = "ditto"
    ready: bool
    reason: str = Field(description="why it is not ready")
    hint: str
    stale: list[str] | None = Field(description="steps that preparing it again would run; null without an anchor")
    generation: str
    files: list[FileModel]

    @classmethod
    def of(cls, status: AvatarStatus) -> "AvatarModel":
        """The wire form of a status."""
        return cls.model_validate(status)


class AvatarRow(Wire):
    """One avatar of the list."""

    avatar_id: str
    ready: bool
    reason: str
    num_frames: int
    frame_size: str
    num_bytes: int
    generation: str
    model: str


class JobModel(Wire):
    """One job."""

    id: str
    kind: Literal["render", "preprocess"]
    avatar_id: str
    state: JobState
    stage: str
    percent: float
    fps: float | None
    eta_s: float | None = Field(description="seconds left")
    created_s: float = Field(description="Unix time")
    started_s: float | None
    ended_s: float | None
    what: str = Field(description="what went wrong")
    hint: str
    result: dict[str, Any]
    video: str | None = Field(description="address of the finished video")

    @classmethod
    def of(cls, job: Job) -> "JobModel":
        """The wire form of a job."""
        is_video = job.kind == "render" and job.state is JobState.DONE
        fields = {name: getattr(job, name) for name in cls.model_fields if name != "video"}
        return cls(**fields, video=f"/api/jobs/{job.id}/video" if is_video else None)


class ArtifactModel(Wire):
    """One file that an engine needs."""

    name: str
    file_name: str
    content: dict[str, str] = Field(description="tensor -> dtype, axes and meaning")


class DeviceModel(Wire):
    """One warm device."""

    name: str
    fps: float = Field(description="warp and decode, measured at the start")
    slower_than_real_time: bool


class Capabilities(Wire):
    """What this daemon can do."""

    version: str
    model: str
    devices: list[DeviceModel]
    typing: bool = Field(description="text can be spoken")
    preprocess: Literal["graph", "inline"]
    queue_limit: int
    most_upload_bytes: int
    longest_speech_s: float
    longest_anchor_s: float
    longest_text_chars: int
    live_sample_rate_hz: int


class Health(Wire):
    """Whether it lives, or is ready."""

    status: Literal["ok", "ready", "not ready"]
