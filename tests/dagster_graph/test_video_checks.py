"""The checks of a finished video, run on files that are wrong on purpose."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
import torch

from assets.checks import truth_result
from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.media.sink import FfmpegSink
from newsstudio_ditto.orchestration import open_instance
from newsstudio_ditto.output_truth import VideoTruth
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.stages.tensor_file import TensorFile, save_tensors
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.units import count_frames
from tests.dagster_graph.conftest import AVATAR, QUIET, RENDER, SPEECH, Studio, write_speech


@dataclass(frozen=True)
class Frozen:
    """A studio whose finished video shows one picture while somebody speaks."""

    studio: Studio
    num_frames: int

    def look(self) -> dict[str, dg.AssetCheckEvaluation]:
        """Run the checks of the video, as the browser's *Execute* does."""
        checks = dg.define_asset_job("look", selection=dg.AssetSelection.checks_for_assets("talking_video"))
        known = dg.Definitions.merge(self.studio.definitions, dg.Definitions(jobs=[checks]))
        result = known.resolve_job_def("look").execute_in_process(
            run_config=QUIET,
            instance=self.studio.instance,
            tags={"dagster/partition": RENDER},
            raise_on_error=False,
        )
        return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}


@pytest.fixture
def frozen(tmp_path: Path, studio: Studio) -> Iterator[Frozen]:
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    speech = layout.place_speech(write_speech(tmp_path / "four_seconds.wav", 4.0), SPEECH)
    packet = AvatarStore(layout.root).open(AVATAR)
    num_frames = count_frames(len(read_speech(speech)))
    header = {"kind": "driving_motion", "stage_version": "x"}
    save_tensors(layout.motion(AVATAR, SPEECH), TensorFile({"motion": torch.zeros(num_frames, 265)}, header))
    height, width = packet.frame_size
    layout.video(AVATAR, SPEECH).unlink(missing_ok=True)
    sink = FfmpegSink(
        layout.video(AVATAR, SPEECH), width=width, height=height, speech=speech, options=EncodeOptions(), metadata={}
    )
    picture = rgb_to_yuv420(packet.frames[:1])[0].numpy()
    with sink:
        for _ in range(num_frames):
            sink.write(picture)
    with open_instance(layout) as instance:
        yield Frozen(Studio(layout, instance), num_frames)


def test_lips_that_stand_still_in_speech_are_an_error(frozen: Frozen) -> None:
    found = frozen.look()
    assert found["plays"].passed, found["plays"].metadata
    assert not found["lips_move"].passed
    assert found["lips_move"].severity == dg.AssetCheckSeverity.ERROR
    assert found["lips_move"].blocking
    assert "stand still" in str(found["lips_move"].metadata["faults"].value)


def test_a_doubt_warns_and_a_fault_stops_the_run() -> None:
    doubtful = truth_result(VideoTruth((), ("the lips hardly move with the sound",)))
    assert (doubtful.passed, doubtful.severity) == (False, dg.AssetCheckSeverity.WARN)
    wrong = truth_result(VideoTruth(("no sound",), ()))
    assert (wrong.passed, wrong.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert truth_result(VideoTruth()).passed
