"""Dagster from the command line: materialise what is stale, in this process, on the instance that the UI shows."""

import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newsstudio_ditto.config import PacketOptions, validate_slug
from newsstudio_ditto.graph_run import run_here
from newsstudio_ditto.packet.files import reporting_refusals
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import (
    VERSIONS,
    PacketPlan,
    plan_anchor,
    portable_model,
    stale_steps,
)
from newsstudio_ditto.progress import OnProgress, OnStage, listening
from newsstudio_ditto.remarks import packet_remarks
from newsstudio_ditto.storage import DEFAULT_MODEL, STORAGE_VARIABLE, AvatarRecipe, StorageLayout, replacing
from newsstudio_ditto.video_link import VIDEO_PORT, VIDEO_URL_VARIABLE

if TYPE_CHECKING:
    from dagster import AssetKey, DagsterInstance, JobDefinition

log = logging.getLogger(__name__)

_BUNDLED = Path(__file__).parent / "bundled"
_STEP_UNITS = 100


@dataclass(frozen=True)
class PreprocessReport:
    """What :func:`run_preprocess` did.

    Args:
        avatar_id: who.
        folder: the published packet.
        generation: of source, options and model.
        made: assets that were materialised, in order; empty when everything was fresh.
        num_frames: source frames in the packet.
        num_bytes: size of the six files.
        seconds: wall time.
        warnings: what may look wrong when this packet is rendered.
    """

    avatar_id: str
    folder: Path
    generation: str
    made: tuple[str, ...]
    num_frames: int
    num_bytes: int
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def is_fresh(self) -> bool:
        """Whether nothing had to be made."""
        return not self.made

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **asdict(self),
            "folder": str(self.folder),
            "made": list(self.made),
            "warnings": list(self.warnings),
            "state": "fresh" if self.is_fresh else "made",
        }


@reporting_refusals()
def run_preprocess(
    anchor: Path,
    *,
    avatar_id: str,
    options: PacketOptions,
    storage: StorageLayout,
    model: str = DEFAULT_MODEL,
    device: str = "auto",
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> PreprocessReport:
    """Prepare an anchor through the asset graph. What is fresh stays; if all is, Dagster is not even imported.

    The anchor is linked into the storage, its recipe kept, and its content observed before anything is made, so that
    the UI can tell stale from fresh.

    Args:
        anchor: clip or still.
        avatar_id: a slug.
        options: what the packet contains.
        storage: where everything lives.
        model: name or folder of the model bundle.
        device: for the networks.
        force: make every file again.
        on_progress: called with (units done, units in all).

    Raises:
        MediaError: the anchor cannot be read.
        NoFaceError: no frame shows a face.
        FaceError: the face is too small, or turned too far.
    """
    started = time.perf_counter()
    layout = StorageLayout.at(storage.root)
    recipe, store = AvatarRecipe(portable_model(model), options), AvatarStore(layout.root)
    plan = plan_anchor(layout, anchor, validate_slug(avatar_id), recipe)
    steps = list(VERSIONS) if force else stale_steps(store, plan)
    if steps:
        with listening(_in_units(steps, on_progress)):
            _materialize(layout, plan, steps, device)
    if on_progress is not None:
        on_progress(max(len(steps), 1) * _STEP_UNITS, max(len(steps), 1) * _STEP_UNITS)
    packet = store.open(avatar_id)
    return PreprocessReport(
        avatar_id=avatar_id,
        folder=layout.packet(avatar_id),
        generation=packet.generation,
        made=tuple(steps),
        num_frames=packet.num_frames,
        num_bytes=packet.num_bytes,
        seconds=time.perf_counter() - started,
        warnings=packet_remarks(packet),
    )


def prepare_home(layout: StorageLayout) -> Path:
    """Dagster's home below the storage root, with its instance file; one that is there already is left alone."""
    home = layout.dagster_home
    settings = home / "dagster.yaml"
    if not settings.is_file():
        with replacing(settings) as beside:
            beside.write_text((_BUNDLED / settings.name).read_text())
    return home


@contextmanager
def open_instance(layout: StorageLayout) -> Iterator["DagsterInstance"]:
    """The Dagster instance of a storage folder, the one that ``serve_ui`` shows."""
    from dagster import DagsterInstance

    with DagsterInstance.from_config(str(prepare_home(layout))) as instance:
        yield instance


def serve_ui(layout: StorageLayout, *, host: str = "127.0.0.1", port: int = 3000, video_port: int = VIDEO_PORT) -> None:
    """Become ``dagster dev`` on a storage folder, with a server of its finished videos beside it; does not return."""
    root = StorageLayout.at(layout.root)
    reached = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    environment = {
        VIDEO_URL_VARIABLE: f"http://{reached}:{video_port}",
        **os.environ,
        "DAGSTER_HOME": str(prepare_home(root)),
        STORAGE_VARIABLE: str(root.root),
    }
    # A shell without job control starts background programs with interrupts ignored, and Dagster would keep it so.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    videos = [sys.executable, "-m", "newsstudio_ditto.video_server", "--storage", str(root.root), "--host", host]
    subprocess.Popen([*videos, "--port", str(video_port), "--parent", str(os.getpid())], env=environment)
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(_BUNDLED / "workspace.yaml")]
    os.execve(sys.executable, [*command, "-h", host, "-p", str(port)], environment)


def _in_units(steps: Sequence[str], on_progress: OnProgress | None) -> OnStage:
    """Turn frames of one step into hundredths of a step over all steps."""

    def on_stage(step: str, done: int, total: int) -> None:
        if on_progress is not None and step in steps:
            units = steps.index(step) * _STEP_UNITS + done * _STEP_UNITS // max(total, 1)
            on_progress(units, len(steps) * _STEP_UNITS)

    return on_stage


def find_job(layout: StorageLayout, name: str, device: str) -> "JobDefinition":
    """A job of the asset graph on a storage folder, to be run in this process."""
    from dagster import BetaWarning, PreviewWarning

    with warnings.catch_warnings():
        # Partitioned checks and observable sources are marked so; a person at the terminal can do nothing about it.
        for category in (BetaWarning, PreviewWarning):
            warnings.simplefilter("ignore", category)
        from newsstudio_ditto.definitions import build_definitions

        return build_definitions(layout, device=device).resolve_job_def(name)


def _materialize(layout: StorageLayout, plan: PacketPlan, steps: Sequence[str], device: str) -> None:
    job = find_job(layout, "preprocess", device)
    with open_instance(layout) as instance:
        observe_anchor(instance, plan)
        run_here(job, instance, plan.avatar_id, assets=[_asset_key(step) for step in steps])


def observe_anchor(instance: "DagsterInstance", plan: PacketPlan) -> None:
    """Add the avatar's partition and record what its packet rests on; what is recorded already is not repeated."""
    instance.add_dynamic_partitions("avatar_id", [plan.avatar_id])
    observe(instance, "anchor_video", plan.avatar_id, plan.source_hash)
    observe(instance, "avatar_recipe", plan.avatar_id, plan.generation)


def observe(instance: "DagsterInstance", asset: str, partition: str, version: str) -> bool:
    """Record the version of a source partition, unless it is the one recorded last; whether it was new."""
    from dagster import AssetKey, AssetObservation

    latest = instance.get_latest_data_version_record(AssetKey(asset), partition_key=partition)
    event = latest.event_log_entry.asset_observation if latest else None
    if event is not None and event.tags.get("dagster/data_version") == version:
        return False
    observation = AssetObservation(asset, partition=partition, tags={"dagster/data_version": version})
    instance.report_runless_asset_event(observation)
    return True


def _asset_key(step: str) -> "AssetKey":
    from dagster import AssetKey

    return AssetKey(step) if step == "face_track" else AssetKey(["packet", step])
