"""What one speech asks of the presenter, in a form that is kept with the motion made for it."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.control_choice import controls_from_text, controls_to_text
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.render.pipeline import check_controls
from newsstudio_ditto.stages.tensor_file import TensorFile


@dataclass(frozen=True)
class Direction:
    """Sampling, controls and stitching of one video; its frames follow the same as its motion.

    Args:
        sampling: of the motion.
        controls: of the presenter.
        stitch: whether to stitch, if a controls file says so.
    """

    sampling: SamplingOptions
    controls: ControlOptions
    stitch: bool | None

    def to_header(self) -> dict[str, Any]:
        """Plain values for the header of a motion file."""
        sampling, controls = json.dumps(asdict(self.sampling)), controls_to_text(self.controls)
        return {"sampling": sampling, "controls": controls, "stitch": self.stitch}

    @classmethod
    def of(cls, motion: TensorFile) -> "Direction":
        """Of motion that was made."""
        sampling = SamplingOptions(**json.loads(motion.header["sampling"]))
        return cls(sampling, controls_from_text(motion.header["controls"]), motion.header["stitch"])

    def sample(self, engine: Engine, features: Tensor, packet: Packet) -> Tensor:
        """(T, 265) driving motion of speech features (T, A); hold the engine's ``busy`` lock.

        Raises:
            UsageError: the model cannot do what a control asks for.
        """
        check_controls(packet, engine.bundle.config, self.controls, has_motion=False)
        return sample_motion(
            engine.bundle,
            features,
            packet,
            self.sampling,
            engine.device,
            step=engine.guided_step,
            controls=self.controls,
        )
