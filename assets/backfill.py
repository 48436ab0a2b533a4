"""Many speeches of one avatar as one run: for a person in the browser who wants a whole rundown at once."""

import dagster as dg
from pydantic import Field

from assets.jobs import GPU_QUEUE
from assets.settings import MotionSettings
from newsstudio_ditto.backfill import VideoOutcome, make_videos, unmade_speeches
from resources import EngineResource, StorageResource


class ManyVideos(MotionSettings):
    """An avatar, speeches, and what is asked of the presenter; an empty list means all without a current video."""

    avatar_id: str
    speech_ids: list[str] = Field(default_factory=list)


def outcome_table(outcomes: list[VideoOutcome]) -> dg.TableMetadataValue:
    """A row for each video."""
    columns = [dg.TableColumn(name, kind) for name, kind in _COLUMNS.items()]
    rows = [dg.TableRecord({name: getattr(outcome, name) for name in _COLUMNS}) for outcome in outcomes]
    return dg.MetadataValue.table(rows, schema=dg.TableSchema(columns=columns))


_COLUMNS = {"speech_id": "string", "seconds": "float", "process_id": "int", "run_id": "string", "fault": "string"}


# Not in the pool `gpu` itself: each step of each video is, and would wait for this one for ever.
@dg.op(description="Each video is a run of its own, with its own checks; all run in this process.")
def make_all(
    context: dg.OpExecutionContext, config: ManyVideos, storage: StorageResource, engine: EngineResource
) -> None:
    """Go through the speeches, and fail at the end if any of them did."""
    speeches = config.speech_ids or unmade_speeches(storage.layout, config.avatar_id)
    outcomes = make_videos(
        storage.layout,
        context.instance,
        config.avatar_id,
        speeches,
        device=engine.device,
        batch=context.run_id,
        config=config.motion_config(),
    )
    faults = [outcome.fault for outcome in outcomes if outcome.fault]
    context.add_output_metadata(
        {
            "videos": len(outcomes) - len(faults),
            "processes": len({outcome.process_id for outcome in outcomes}),
            "outcomes": outcome_table(outcomes),
        }
    )
    if faults:
        raise dg.Failure("; ".join(faults[:20]), allow_retries=False)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=GPU_QUEUE,
    description="Many videos of one avatar in one process, with models loaded and graphs captured once.",
)
def render_many() -> None:
    """One step."""
    make_all()
