"""From flags and options to the rendered video: every control arrives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner

from newsstudio_ditto.api import render_video
from newsstudio_ditto.cli import main
from newsstudio_ditto.cli_options import chosen_controls, control_options
from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.control_choice import ChosenControls
from newsstudio_ditto.controls import BlinkOptions, ControlOptions
from newsstudio_ditto.errors import DittoError, UsageError
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.networks.config import MINI
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render import speech_plan
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.motion import packet_conditioning, sample_motion
from newsstudio_ditto.render.pipeline import plan_frames
from tests.render.tiny import TINY

CPU = torch.device("cpu")


def ask(*arguments: str) -> ChosenControls:
    """What a command with the flags would be told."""
    answers: list[ChosenControls] = []

    @click.command()
    @control_options
    def command() -> None:
        answers.append(chosen_controls())

    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, DittoError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return answers[0]


def test_flags_become_controls() -> None:
    flags = "--emotion happy+sad --mouth-amplitude 1.2 --head-amplitude 0.5 --blink random:20 --fade-in-s 0.2"
    chosen = ask(*flags.split(), "--fade-out-s", "0.4", "--guidance", "1.5")
    assert chosen.controls == ControlOptions(
        emotion=("happy", "sad"),
        mouth_amplitude=1.2,
        head_amplitude=0.5,
        blink=BlinkOptions("random", 20.0),
        fade_in_s=0.2,
        fade_out_s=0.4,
    )
    assert chosen.sampling(num_steps=7, seed=None) == SamplingOptions(num_steps=7, guidance_scale=1.5)
    assert ask("--emotion", "fear").controls.emotion == "fear"


def test_without_flags_nothing_is_asked() -> None:
    chosen = ask()
    assert (chosen.controls, chosen.sampling(num_steps=None, seed=None)) == (ControlOptions(), SamplingOptions())
    assert (chosen.stitch(is_off=False), chosen.stitch(is_off=True)) == (None, False)


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "controls.toml"
    path.write_text(
        "mouth_amplitude = 2\nyaw_deg = 3\nstitch = false\n[blink]\nmode = 'fixed'\nper_minute = 9\nseed = 6\n"
        "[sampling]\nseed = 8\nnum_steps = 5\nguidance_scale = 3\n"
    )
    chosen = ask("--controls", str(path), "--mouth-amplitude", "1.5", "--blink", "random", "--guidance", "1")
    assert chosen.controls == ControlOptions(mouth_amplitude=1.5, yaw_deg=3.0, blink=BlinkOptions("random", 9.0, 6))
    assert chosen.sampling(num_steps=None, seed=4) == SamplingOptions(num_steps=5, seed=4, guidance_scale=1.0)
    assert chosen.stitch(is_off=False) is False


@pytest.mark.parametrize("flags", [("--blink", "random:often"), ("--blink", "x"), ("--mouth-amplitude", "4")])
def test_bad_flags_are_refused(flags: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        ask(*flags)


def test_the_render_command_has_the_flags_and_refuses_with_two_lines(tmp_path: Path) -> None:
    base = ["render", "--avatar-id", "a", "--speech", "s.wav", "-o", "o.mp4", "--storage", str(tmp_path)]
    result = CliRunner().invoke(main, [*base, "--head-amplitude", "9"])
    assert result.exit_code == 1
    assert result.stderr == "Error: head_amplitude is 9.0\nHint: give a value from 0 to 3\n"


def test_the_tags_of_a_video_tell_its_controls(packet: Packet, engine: Engine, speech: Path, tmp_path: Path) -> None:
    controls = ControlOptions(emotion="happy", mouth_amplitude=0.5, blink=BlinkOptions("random"), fade_in_s=9.0)
    options = RenderOptions(device="cpu", controls=controls)
    output = tmp_path / "controlled.mp4"
    assert render_video(packet.folder, speech, output, engine=engine, options=options).num_frames == 12
    assert read_provenance(output)["controls_sha256"] == options.controls_hash != RenderOptions().controls_hash


def test_emotion_conditions_the_motion(packet: Packet, bundle: ModelBundle) -> None:
    features = torch.randn(20, 16, generator=torch.Generator().manual_seed(1))

    def motion(**controls: Any) -> torch.Tensor:
        return sample_motion(bundle, features, packet, SamplingOptions(), CPU, controls=ControlOptions(**controls))

    plain = motion()
    assert torch.equal(plain, motion(emotion="neutral"))
    assert torch.equal(plain, motion(mouth_amplitude=2.0))
    assert not torch.equal(plain, motion(emotion="happy"))
    assert not torch.equal(motion(emotion={"happy": ((0.0, 1.0), (0.8, 0.0))}), motion(emotion="happy"))


def test_frozen_eyes_are_those_of_the_first_frame(clip_packet: Packet) -> None:
    frozen, following = (
        packet_conditioning(clip_packet, TINY, ControlOptions(freeze_eyes=freeze), 9) for freeze in (True, False)
    )
    assert frozen.eye_open is not None
    assert torch.equal(frozen.eye_open, clip_packet.meta.eye_open[:1])
    assert following.eye_open is not None
    assert len(following.eye_open) == 4


def test_eyes_that_do_not_count_cannot_be_frozen(clip_packet: Packet) -> None:
    with pytest.raises(UsageError, match="freeze_eyes"):
        packet_conditioning(clip_packet, MINI, ControlOptions(freeze_eyes=True), 9)


def test_a_render_passes_its_controls_on(
    packet: Packet, engine: Engine, speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both steps run for real; only what they are told is noted."""
    told: dict[str, ControlOptions] = {}
    for name in ("iterate_motion", "SpeechPoser"):
        monkeypatch.setattr(speech_plan, name, noting(getattr(speech_plan, name), name, told))
    controls = ControlOptions(emotion="sad", yaw_deg=4.0)
    options = RenderOptions(device="cpu", controls=controls)
    render_video(packet.folder, speech, tmp_path / "x.mp4", engine=engine, options=options)
    assert told == {"iterate_motion": controls, "SpeechPoser": controls}


def noting(step: Callable[..., Any], name: str, told: dict[str, ControlOptions]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        told[name] = options["controls"]
        return step(*arguments, **options)

    return noted


def test_controls_reach_the_keypoints(packet: Packet, bundle: ModelBundle) -> None:
    motion = torch.randn(6, 265, generator=torch.Generator().manual_seed(2)) * 0.1
    plain = plan_frames(packet, motion, bundle, stitch=False)
    turned = plan_frames(packet, motion, bundle, stitch=False, controls=ControlOptions(yaw_deg=15.0))
    assert (turned.driving_keypoints - plain.driving_keypoints).abs().max() > 0.01
    assert torch.equal(turned.source_keypoints, plain.source_keypoints)


def test_what_a_ready_motion_cannot_follow_is_refused(packet: Packet, engine: Engine, speech: Path) -> None:
    options = RenderOptions(device="cpu", controls=ControlOptions(emotion="happy"))
    with pytest.raises(UsageError, match="made already"):
        render_video(
            packet.folder, speech, Path("never.mp4"), engine=engine, options=options, motion=torch.zeros(12, 265)
        )
    with pytest.raises(UsageError, match="first and off"):
        wrong = RenderOptions(device="cpu", controls=ControlOptions(relative="rest"))
        render_video(packet.folder, Path("not read.wav"), Path("never.mp4"), engine=engine, options=wrong)
