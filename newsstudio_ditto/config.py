"""Options of preprocessing and rendering: frozen, with units in their names, checked when built."""

import re
from dataclasses import dataclass, field
from typing import Literal

from newsstudio_ditto.controls import ControlOptions, hash_values
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.ranges import require_range as require_range

SLUG = re.compile(r"^[a-z0-9][a-z0-9_-]{0,63}$")


def validate_slug(value: str, what: str = "avatar id") -> str:
    """Return ``value`` if it is a slug (``[a-z0-9][a-z0-9_-]{0,63}``).

    Raises:
        UsageError: otherwise. Characters are never replaced, so two ids cannot share a folder.
    """
    if not SLUG.fullmatch(value):
        raise UsageError(
            f"{what} {value!r} is not a slug",
            "use 1 to 64 lower-case letters, digits, '-' or '_', starting with a letter or digit",
        )
    return value


@dataclass(frozen=True)
class CropConfig:
    """Where the square face crop sits, relative to the landmark box.

    Args:
        scale: crop side over the longest side of the landmark box.
        shift_down: shift of the crop centre along the face's down axis, in crop sides.
        upright: rotate the crop so that the face stands upright.
    """

    scale: float = 2.3
    shift_down: float = -0.125
    upright: bool = True

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        require_range("crop scale", self.scale, 1.0, 4.0)
        require_range("crop shift_down", self.shift_down, -0.5, 0.5)


@dataclass(frozen=True)
class PacketOptions:
    """Everything besides the source and the model that decides what a packet contains.

    Args:
        window: ``tight`` stores grids and masks over the smallest even-aligned rectangle that holds
            the mask of every frame; ``full`` over the whole frame.
        crop: crop geometry; ``None`` takes the one the model bundle was trained with.
        max_side_px: a source with a longer side is shrunk to this.
        max_frames: at most this many source frames are taken; ``None`` takes all.
        smoothing_frames: width of the mean filter over a clip's motion; 1 switches it off.
        feather: share of the crop that the blend mask keeps at full weight.
        blend: what of the rendered crop is blended into the frame: all of the ``crop``, or the ``mouth``, chin and jaw
            alone; ``auto`` takes what the model bundle asks for, and the whole crop for a still.
        faces: ``packaged`` finds faces with the nets inside the package; ``official`` with those of the official
            release, which have to be fetched and are for non-commercial use.
    """

    window: Literal["tight", "full"] = "tight"
    crop: CropConfig | None = None
    max_side_px: int = 1920
    max_frames: int | None = None
    smoothing_frames: int = 13
    feather: float = 0.9
    blend: Literal["auto", "crop", "mouth"] = "auto"
    faces: Literal["packaged", "official"] = "packaged"

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        if self.window not in ("tight", "full"):
            raise UsageError(f"window is {self.window!r}", "give 'tight' or 'full'")
        if self.faces not in ("packaged", "official"):
            raise UsageError(f"faces is {self.faces!r}", "give 'packaged' or 'official'")
        require_range("max_side_px", self.max_side_px, 64, 8192)
        require_range("smoothing_frames", self.smoothing_frames, 1, 999)
        require_range("feather", self.feather, 0.1, 1.0)
        if self.blend not in ("auto", "crop", "mouth"):
            raise UsageError(f"blend is {self.blend!r}", "give 'auto', 'crop' or 'mouth'")
        if self.max_frames is not None:
            require_range("max_frames", self.max_frames, 1, 10**9)


@dataclass(frozen=True)
class SamplingOptions:
    """Motion diffusion.

    Args:
        num_steps: DDIM steps; ``None`` takes the bundle's own default.
        guidance_scale: classifier-free guidance; ``None`` takes the bundle's own default.
        overlap_frames: frames that two windows share; ``None`` takes the bundle's own default, or 10.
        smoothing_frames: width of the mean filter over the generated motion (expression excepted); ``None`` takes the
            bundle's own default, or 3.
        seed: seed of the session's one random stream; equal inputs give equal videos.
    """

    num_steps: int | None = None
    guidance_scale: float | None = None
    overlap_frames: int | None = None
    smoothing_frames: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        ranges = {"num_steps": 1000.0, "guidance_scale": 10.0, "overlap_frames": 79.0, "smoothing_frames": 999.0}
        for name, high in ranges.items():
            value = getattr(self, name)
            if value is not None:
                require_range(name, value, 0.0 if name == "guidance_scale" else 1.0, high)
        require_range("seed", self.seed, 0, 2**63 - 1)


X264_PRESETS = (
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
)
"""Of libx264 and libx265, the fastest first: smaller files towards the end."""


@dataclass(frozen=True)
class EncodeOptions:
    """The output video.

    Args:
        encoder: FFmpeg encoder name; ``auto`` takes a hardware encoder that passes a trial, else libx264.
        preset: one of :data:`X264_PRESETS`; other encoders take none.
        crf: constant rate factor of x264.
    """

    encoder: str = "libx264"
    preset: str = "veryfast"
    crf: int = 18

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        require_range("crf", self.crf, 0, 51)
        if self.preset not in X264_PRESETS:
            raise UsageError(f"preset is {self.preset!r}", f"give one of {', '.join(X264_PRESETS)}")


@dataclass(frozen=True)
class RenderOptions:
    """One render.

    Args:
        sampling: motion diffusion.
        encode: the output video.
        batch_size: frames that go through warp and decoder together; ``None`` chooses by device.
        stitch: apply the stitching network; ``None`` takes the bundle's own default, which is to apply it.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N``, several such as ``cuda:0,cuda:1``, or ``all``.
        eager: never capture CUDA graphs.
        controls: what the speech asks of the presenter.
    """

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    encode: EncodeOptions = field(default_factory=EncodeOptions)
    batch_size: int | None = None
    stitch: bool | None = None
    device: str = "auto"
    eager: bool = False
    controls: ControlOptions = field(default_factory=ControlOptions)

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        if self.batch_size is not None:
            require_range("batch_size", self.batch_size, 1, 64)
        if not re.fullmatch(r"auto|all|cpu|cuda(:\d+)?(,cuda:\d+)*", self.device):
            raise UsageError(f"device is {self.device!r}", "give auto, all, cpu, cuda, cuda:N or cuda:0,cuda:1")

    @property
    def controls_hash(self) -> str:
        """SHA-256 over everything that shapes the motion: controls, sampling and stitching; 64 hexadecimal digits."""
        return hash_values({"controls": self.controls, "sampling": self.sampling, "stitch": self.stitch})
