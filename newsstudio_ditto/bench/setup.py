"""What every section of the benchmark shares, made once."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from newsstudio_ditto.bench.reference import ReferenceWay
from newsstudio_ditto.bench.samples import (
    FULL_WIDTH,
    SEED,
    PacketShape,
    calm,
    make_packet,
    make_speech,
    open_model,
    picture_px,
)
from newsstudio_ditto.bench.timing import Roof, measure_roof
from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle, seeded_bundle
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.engine import Engine


@dataclass(frozen=True)
class BenchOptions:
    """What to measure with.

    Args:
        model: a bundle, or ``full-width``.
        device: where the networks run.
        frame: size of the frames, even.
        num_frames: N of the packet.
        speech_s: length of the speech.
        runs: of each figure, at least 5.
        batch_sizes: of the core; the pipeline uses the engine's own of these.
        reference_frames: frames that the reference's way renders in the pipeline.
        encode: encoder settings of the sink and the pipeline, FFmpeg alone and the reference's way included.
    """

    model: str
    device: torch.device
    frame: FrameSize
    num_frames: int = 165
    speech_s: float = 6.6
    runs: int = 5
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    reference_frames: int = 24
    encode: EncodeOptions = field(default_factory=EncodeOptions)


class Bench:
    """Model, packet, speech and engine of one run; each made when it is first needed.

    Args:
        options: what to measure with.
        folder: for files that vanish with the run.
    """

    def __init__(self, options: BenchOptions, folder: Path) -> None:
        """Nothing is made yet."""
        self.options, self.folder = options, folder
        self.device = options.device

    @property
    def warmups(self) -> int:
        """Runs before those that count: a CPU has neither clocks nor kernels to wake that one run does not."""
        return 2 if self.device.type == "cuda" else 1

    @cached_property
    def bundle(self) -> ModelBundle:
        """In the engine's dtype."""
        return open_model(self.options.model, self.device)

    @cached_property
    def reference(self) -> ReferenceWay:
        """The same weights in float32, run as the reference runs them."""
        if self.options.model == FULL_WIDTH:
            return ReferenceWay(calm(seeded_bundle(OFFICIAL, SEED, device=self.device)))
        return ReferenceWay(load_bundle(self.options.model, device=self.device))

    @cached_property
    def engine(self) -> Engine:
        """Warm, with its own batch sizes."""
        engine = Engine(self.bundle, device=self.device)
        engine.warm_up()
        return engine

    @cached_property
    def shape(self) -> PacketShape:
        """Of the packet."""
        return PacketShape(self.options.frame, self.options.num_frames, picture_px(self.bundle))

    @cached_property
    def packet(self) -> Packet:
        """The avatar."""
        return make_packet(self.folder / "storage", self.bundle, self.shape)

    @cached_property
    def speech(self) -> "torch.Tensor":
        """(samples,) float32, 16 kHz."""
        return torch.from_numpy(make_speech(self.options.speech_s))

    @cached_property
    def roof(self) -> Roof:
        """Measured in this run, with nothing else on the device."""
        return measure_roof(self.device, self.bundle.dtype)
