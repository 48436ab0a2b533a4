"""The controls of the command line, given as settings of a run."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.settings import MotionSettings
from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.control_choice import choose_controls, controls_from_text, controls_to_text
from newsstudio_ditto.controls import BlinkOptions, ControlOptions, PointOffset
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.orchestration import open_instance
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, QUIET, RENDER, SPEECH, Studio

FILE = """
mouth_amplitude = [[0, 1.0], [0.1, 1.4]]
[sampling]
num_steps = 4
guidance_scale = 2.0
"""


@pytest.fixture
def directed(tmp_path: Path, studio: Studio) -> Iterator[Studio]:
    """A copy of the studio with a controls file and an encoded speech."""
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    layout.controls.mkdir()
    (layout.controls / "news.toml").write_text(FILE)
    with open_instance(layout) as instance:
        copied = Studio(layout, instance)
        if not layout.speech_features(SPEECH).is_file():
            copied.run("listen", SPEECH)
        yield copied


def render(studio: Studio, motion: dict[str, Any]) -> dg.ExecuteInProcessResult:
    return studio.definitions.resolve_job_def("render").execute_in_process(
        run_config=QUIET | {"ops": {"driving_motion": {"config": motion}}},
        instance=studio.instance,
        partition_key=RENDER,
    )


def test_settings_do_what_the_flags_of_the_command_line_do(directed: Studio) -> None:
    motion = {"controls_file": "news.toml", "guidance_scale": 1.5, "blink": "random:20", "fade_out_s": 0.1, "seed": 4}
    render(directed, motion)
    chosen = choose_controls(
        directed.layout.controls / "news.toml", {"guidance_scale": 1.5, "blink": "random:20", "fade_out_s": 0.1}
    )
    assert chosen.controls.blink == BlinkOptions("random", 20.0)
    options = RenderOptions(sampling=chosen.sampling(num_steps=None, seed=4), controls=chosen.controls)
    assert options.sampling.num_steps == 4
    tags = read_provenance(directed.layout.video(AVATAR, SPEECH))
    assert tags["controls_sha256"] == options.controls_hash
    assert tags["seed"] == "4"
    shown = directed.latest(["driving_motion"], RENDER).metadata["controls"].value
    assert isinstance(shown, dict)
    assert shown["fade_out_s"] == 0.1


@pytest.mark.parametrize(
    ("motion", "said"),
    [
        ({"mouth_amplitude": 9.0}, "mouth_amplitude is 9"),
        ({"blink": "sometimes"}, "blink mode is 'sometimes'"),
        ({"num_steps": 0}, "num_steps is 0"),
        ({"emotion": "happy"}, "emotion"),
        ({"controls_file": "absent.toml"}, "absent.toml: cannot be read"),
    ],
)
def test_a_value_out_of_range_is_refused_before_anything_is_made(
    motion: dict[str, Any], said: str, directed: Studio
) -> None:
    before = directed.instance.get_latest_materialization_event(dg.AssetKey("driving_motion"))
    with pytest.raises(UsageError, match=said):
        render(directed, motion)
    after = directed.instance.get_latest_materialization_event(dg.AssetKey("driving_motion"))
    assert (before and before.timestamp) == (after and after.timestamp)


def test_controls_come_back_from_their_text() -> None:
    controls = ControlOptions(
        emotion={"happy": ((0.0, 0.5), (1.0, 1.0))},
        mouth_amplitude=((0.0, 1.0), (2.0, 0.5)),
        driven_parts={"expression": 1.0, "pitch": 0.5},
        relative="first",
        drive_eyes=True,
        blink=BlinkOptions("fixed", 12.0, seed=7),
        expression_offsets=(PointOffset(3, x=0.1, y=((0.0, 0.0), (1.0, 0.1))),),
        fade_in_s=0.5,
        fade_parts=("pitch", "expression"),
    )
    assert controls_from_text(controls_to_text(controls)) == controls
    assert controls_from_text(controls_to_text(ControlOptions())) == ControlOptions()
    assert controls_to_text(ControlOptions()) == "{}"


def test_a_batch_hands_its_settings_to_every_render() -> None:
    settings = MotionSettings(blink="off", seed=0, num_steps=5)
    assert settings.motion_config() == {
        "ops": {"driving_motion": {"config": {"blink": "off", "num_steps": 5, "seed": 0}}}
    }
