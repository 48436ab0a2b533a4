"""The controls file: everything it may say, in both languages, and what it refuses."""

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from newsstudio_ditto.control_file import read_control_file
from newsstudio_ditto.controls import BlinkOptions, ControlOptions, PointOffset
from newsstudio_ditto.errors import UsageError

MANUAL = Path(__file__).parents[2] / "docs" / "controls.md"
FULL = """
mouth_amplitude = [[0, 1], [2.5, 1.4]]
head_amplitude = 2
pitch_deg = -3.5
driven_parts = ["expression", "yaw"]
relative = "first"
drive_eyes = true
freeze_eyes = false
gaze_follows_head = false
gaze_up = 0.2
fade_in_s = 0.4
fade_to = "first"
fade_parts = ["expression"]
stitch = false

[blink]
mode = "random"
per_minute = 20
seed = 3

[emotion]
happy = [[0, 0], [1, 0.8]]
surprise = 0.1

[[expression_offsets]]
point = 14
y = [[0, 0], [1, 0.05]]

[sampling]
num_steps = 10
guidance_scale = 2
smoothing_frames = 5
"""
EXPECTED = ControlOptions(
    mouth_amplitude=((0.0, 1.0), (2.5, 1.4)),
    head_amplitude=2.0,
    pitch_deg=-3.5,
    driven_parts={"expression": 1.0, "yaw": 1.0},
    relative="first",
    drive_eyes=True,
    freeze_eyes=False,
    gaze_follows_head=False,
    gaze_up=0.2,
    fade_in_s=0.4,
    fade_to="first",
    fade_parts=("expression",),
    blink=BlinkOptions("random", 20.0, 3),
    emotion={"happy": ((0.0, 0.0), (1.0, 0.8)), "surprise": 0.1},
    expression_offsets=(PointOffset(14, y=((0.0, 0.0), (1.0, 0.05))),),
)


@pytest.mark.parametrize("name", ["controls.toml", "controls.json"])
def test_both_languages_say_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(tomllib.loads(FULL)) if name.endswith("json") else FULL)
    said = read_control_file(path)
    assert said.controls == EXPECTED
    assert said.sampling == {"num_steps": 10, "guidance_scale": 2.0, "smoothing_frames": 5}
    assert said.stitch is False


def test_short_forms(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('emotion = [[0, "neutral"], [2, "happy"]]\nblink = "off"\n[driven_parts]\nyaw = 0.5\n')
    said = read_control_file(path).controls
    assert said.emotion == {"neutral": ((0.0, 1.0), (2.0, 0.0)), "happy": ((0.0, 0.0), (2.0, 1.0))}
    assert (said.blink, said.driven_parts) == (BlinkOptions("off"), {"yaw": 0.5})
    path.write_text('emotion = ["happy", "sad"]')
    assert read_control_file(path).controls.emotion == ("happy", "sad")
    path.write_text("")
    assert read_control_file(path).controls == ControlOptions()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mouth = 1", r"unknown: mouth \(known are .*mouth_amplitude"),
        ("[blink]\nrate = 3", r"unknown: blink.rate \(known are .*per_minute"),
        ("[sampling]\nsteps = 3", r"unknown: sampling.steps \(known are .*num_steps"),
        ("[sampling]\nnum_steps = 0", r"num_steps is 0 \(give a value from 1 to 1000"),
        ("[sampling]\nnum_steps = 2.5", r"sampling.num_steps is 2.5"),
        ("[[expression_offsets]]\nx = 0.1", r"no point"),
        ('mouth_amplitude = "wide"', r"mouth_amplitude is 'wide' \(give a number or \[\[t_seconds"),
        ("mouth_amplitude = true", r"mouth_amplitude is True"),
        ("mouth_amplitude = [1, 2]", r"mouth_amplitude has the point 1"),
        ('mouth_amplitude = [[0, "a"]]', r"mouth_amplitude at 0 s is 'a'"),
        ("mouth_amplitude = [[0, 1], [1, 9]]", r"mouth_amplitude at 1 s is 9.0 \(give a value from 0 to 3"),
        ("emotion = 3", r"emotion is 3"),
        ('emotion = [[0, "glad"]]', r"'glad' unknown"),
        ("drive_eyes = 1", r"drive_eyes is 1 \(give true or false"),
        ("blink = 3", r"blink is 3"),
        ("fade_parts = 'yaw'", r"fade_parts is 'yaw'"),
        ("fade_to = 1", r"fade_to is 1"),
        ("pitch_deg = ", r"cannot be read"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "speech.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"speech.toml.*{message}"):
        read_control_file(path)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_control_file(tmp_path / "none.toml")
    broken = tmp_path / "broken.json"
    broken.write_text("[1, 2]")
    with pytest.raises(UsageError, match="give a table"):
        read_control_file(broken)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.json", "[" * 100_000),
        ("deep.json", '{"emotion": ' + "[" * 970 + "]" * 970 + "}"),
        ("deep.json", '{"blink": ' * 5000 + "1" + "}" * 5000),
        ("deep.toml", "emotion = " + "[" * 5000 + "]" * 5000),
    ],
)
def test_deeply_nested_files_are_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=r"deep\.(json|toml): "):
        read_control_file(path)


def test_the_manual_names_every_control_and_its_example_is_read(tmp_path: Path) -> None:
    text = MANUAL.read_text()
    missing = [part.name for part in fields(ControlOptions) if f"`{part.name}`" not in text]
    assert missing == []
    examples = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    assert examples
    for example in examples:
        path = tmp_path / "example.toml"
        path.write_text(example)
        assert read_control_file(path).controls != ControlOptions()
