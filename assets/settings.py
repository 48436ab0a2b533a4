"""Settings of a render in the Launchpad: the controls of the command line, with the same ranges."""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.control_choice import ChosenControls, choose_controls

_CONTROLS = ("emotion", "mouth_amplitude", "head_amplitude", "blink", "fade_in_s", "fade_out_s", "guidance_scale")


class MotionSettings(dg.Config):
    """What the speech asks of the presenter. What is left out is the model's own; single values win over the file."""

    controls_file: str = Field(
        "",
        description="TOML or JSON file of controls; a relative path is meant from `controls/` in the storage folder.",
    )
    emotion: str | None = Field(None, description="happy, or a mix: happy+surprise. Only models trained with emotions.")
    mouth_amplitude: float | None = Field(None, description="How far the mouth opens; 0 to 3, 1 is the model's own.")
    head_amplitude: float | None = Field(None, description="How far the head moves; 0 to 3, 1 is the model's own.")
    blink: str | None = Field(
        None, description="model, generated, off, fixed or random; with blinks a minute: random:16."
    )
    fade_in_s: float | None = Field(None, description="Seconds in which motion rises at the start; 0 to 600.")
    fade_out_s: float | None = Field(None, description="Seconds in which motion returns at the end; 0 to 600.")
    guidance_scale: float | None = Field(None, description="Classifier-free guidance, 0 to 10.")
    num_steps: int | None = Field(None, description="Diffusion steps, 1 to 1000.")
    seed: int | None = Field(None, description="Equal inputs and seeds give equal videos; 0 if nothing says otherwise.")

    def chosen(self, folder: Path) -> ChosenControls:
        """The controls, checked.

        Args:
            folder: where a relative ``controls_file`` lies.

        Raises:
            UsageError: the file or a value is not understood, or lies outside its range.
        """
        values = {name: getattr(self, name) for name in _CONTROLS if getattr(self, name) is not None}
        return choose_controls(folder / self.controls_file if self.controls_file else None, values)

    def sampling(self, chosen: ChosenControls) -> SamplingOptions:
        """Sampling of file and settings."""
        return chosen.sampling(num_steps=self.num_steps, seed=self.seed)

    def motion_config(self) -> dict[str, Any]:
        """Run configuration of the job ``render`` that says the same."""
        given = {name: getattr(self, name) for name in MotionSettings.model_fields}
        return {"ops": {"driving_motion": {"config": {name: v for name, v in given.items() if v not in (None, "")}}}}


class VideoSettings(dg.Config):
    """How frames are made of motion."""

    stitch: bool | None = Field(None, description="Apply the stitching network; left out, the model's own.")
    batch_size: int | None = Field(None, description="Frames that go through the engine together, 1 to 64.")
