"""Render through the asset graph, so that the UI shows the video with its lineage; ``render`` itself needs none."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newsstudio_ditto.config import validate_slug
from newsstudio_ditto.graph_run import run_here
from newsstudio_ditto.orchestration import find_job, observe, open_instance
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.progress import OnProgress, listening
from newsstudio_ditto.storage import StorageLayout

if TYPE_CHECKING:
    from dagster import ExecuteInProcessResult


@dataclass(frozen=True)
class GraphRender:
    """What :func:`render_through_graph` made.

    Args:
        video: the finished video.
        num_frames: its frames.
        fps: frames a second while rendering and encoding.
        seconds: wall time by stage.
        warnings: what the reader of the video should know.
    """

    video: Path
    num_frames: int
    fps: float
    seconds: dict[str, float]
    warnings: tuple[str, ...]


def render_through_graph(
    layout: StorageLayout,
    *,
    avatar_id: str,
    speech: Path,
    speech_id: str,
    device: str = "auto",
    on_progress: OnProgress | None = None,
) -> GraphRender:
    """Materialise speech features, driving motion and talking video of a prepared avatar, in this process.

    Args:
        layout: where everything lives.
        avatar_id: an avatar whose packet is published.
        speech: any audio file that FFmpeg reads; it is linked into the storage under ``speech_id``.
        speech_id: a slug.
        device: for the networks.
        on_progress: called with (frames done, frames in all).

    Raises:
        MediaError: the speech cannot be read.
        PacketError: the packet is missing or mixed.
    """
    layout = StorageLayout.at(layout.root)
    placed = layout.place_speech(speech, validate_slug(speech_id, "speech id"))

    def on_stage(stage: str, done: int, total: int) -> None:
        if on_progress is not None and stage == "talking_video":
            on_progress(done, total)

    with open_instance(layout) as instance, listening(on_stage):
        instance.add_dynamic_partitions("speech_id", [speech_id])
        observe(instance, "speech_audio", speech_id, content_hash(placed))
        listened, rendered = (
            run_here(find_job(layout, job, device), instance, key)
            for job, key in (("listen", speech_id), ("render", f"{avatar_id}|{speech_id}"))
        )
    video = _metadata(rendered, "talking_video")
    return GraphRender(
        video=layout.video(avatar_id, speech_id),
        num_frames=video["num_frames"],
        fps=video["frames_a_second"],
        seconds={
            "speech features": _metadata(listened, "speech_features")["seconds"],
            "motion": _metadata(rendered, "driving_motion")["seconds"],
            **video["seconds_by_stage"],
        },
        warnings=tuple(video["warnings"]),
    )


def _metadata(result: "ExecuteInProcessResult", asset: str) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}
