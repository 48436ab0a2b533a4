from pathlib import Path

import pytest

from training.command_line import read_options
from training.renderer_training import RendererOptions
from training.speech_training import SpeechOptions


def test_nothing_given_is_the_defaults() -> None:
    assert read_options(RendererOptions, None, []) == RendererOptions()
    assert read_options(SpeechOptions, None, []) == SpeechOptions()


def test_every_kind_of_value_is_read() -> None:
    words = ["--run", "r", "--start", "b", "--rate", "2e-4", "--motion-every", "0", "--device", "cpu"]
    options = read_options(RendererOptions, None, words)
    assert (options.run, options.start, options.rate) == (Path("r"), Path("b"), 2e-4)
    assert (options.motion_every, options.device) == (0, "cpu")


def test_an_unknown_setting_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(SpeechOptions, "Train.", ["--rat", "1", "--nonsense", "2"])
    assert "--nonsense" in capsys.readouterr().err
