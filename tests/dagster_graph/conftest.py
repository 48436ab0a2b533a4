import wave
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.definitions import build_definitions
from newsstudio_ditto.orchestration import PreprocessReport, open_instance, run_preprocess
from newsstudio_ditto.storage import StorageLayout

DEMO = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled" / "demo"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
AVATAR, SPEECH = "anna", "bulletin"
RENDER = f"{AVATAR}|{SPEECH}"
TWO_FRAMES = PacketOptions(max_frames=2)


def write_speech(path: Path, seconds: float) -> Path:
    """The beginning of the packaged speech."""
    with wave.open(str(DEMO / "speech.wav"), "rb") as source, wave.open(str(path), "wb") as target:
        target.setparams(source.getparams())
        target.writeframes(source.readframes(round(seconds * source.getframerate())))
    return path


def preprocess(layout: StorageLayout, options: PacketOptions = TWO_FRAMES, *, force: bool = False) -> PreprocessReport:
    return run_preprocess(
        DEMO / "anchor.mp4", avatar_id=AVATAR, options=options, storage=layout, device="cpu", force=force
    )


class Studio:
    """A storage folder, its instance and its jobs."""

    def __init__(self, layout: StorageLayout, instance: dg.DagsterInstance) -> None:
        self.layout = layout
        self.instance = instance
        self.definitions = build_definitions(layout, device="cpu")

    def run(self, job: str, partition: str, *assets: list[str]) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def(job).execute_in_process(
            run_config=QUIET,
            instance=self.instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(key) for key in assets] or None,
        )

    def latest(self, key: list[str], partition: str) -> dg.AssetMaterialization:
        record = self.instance.get_latest_data_version_record(dg.AssetKey(key), partition_key=partition)
        assert record is not None
        materialization = record.event_log_entry.asset_materialization
        assert materialization is not None
        return materialization


@pytest.fixture(scope="package")
def layout(tmp_path_factory: pytest.TempPathFactory) -> StorageLayout:
    return StorageLayout(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="package")
def prepared(layout: StorageLayout) -> PreprocessReport:
    """Two frames of the packaged clip, prepared through the graph."""
    return preprocess(layout)


@pytest.fixture(scope="package")
def studio(layout: StorageLayout, prepared: PreprocessReport) -> Iterator[Studio]:
    layout.place_speech(write_speech(layout.root / "speech.wav", 0.2), SPEECH)
    with open_instance(layout) as instance:
        instance.add_dynamic_partitions("speech_id", [SPEECH])
        yield Studio(layout, instance)
