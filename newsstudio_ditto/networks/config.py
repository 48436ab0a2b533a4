"""Shapes of the networks and the settings that belong to a set of weights.

Defaults are the published full-width model; :data:`MINI` is the embedded one. Both are instances of the same
classes and make the same modules with the same layer names, so one code path serves both.
"""

from dataclasses import dataclass, field
from typing import Literal

from newsstudio_ditto.config import CropConfig, require_range
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.maths.feather import BlendRegion
from newsstudio_ditto.networks.release_defaults import ReleaseDefaults
from newsstudio_ditto.units import CROP_SIZE_PX, MOTION_DIM, NETWORK_INPUT_PX, NUM_KEYPOINTS, WINDOW_FRAMES

FEATURE_CELLS = 64
"""Cells a side of the decoder's feature image, an eighth of the crop."""


def picture_values(picture_px: int | None, cells: int) -> int:
    """Values that one of ``cells`` x ``cells`` holds of a carried picture; 0 where none is carried."""
    return 0 if picture_px is None else 3 * (picture_px // cells) ** 2


@dataclass(frozen=True)
class AppearanceConfig:
    """Appearance extractor: image -> feature volume.

    Args:
        block_expansion: channels of the first convolution; every halving doubles them.
        num_down_blocks: halvings; the volume has 256 / 2**num_down_blocks pixels a side.
        max_features: upper limit of the channels.
        volume_channels: C of the volume.
        volume_depth: D of the volume.
        num_resblocks: 3-D residual blocks.
        picture_px: the last channels of the volume are the picture itself, of so many pixels a side (see
            ``networks/picture.py``); None where it carries none.
    """

    block_expansion: int = 64
    num_down_blocks: int = 2
    max_features: int = 512
    volume_channels: int = 32
    volume_depth: int = 16
    num_resblocks: int = 6
    picture_px: int | None = None

    def __post_init__(self) -> None:
        """Refuse a picture that no crop can give, or that does not fill the depth of the volume."""
        if self.picture_px is None:
            return
        if self.picture_px not in (NETWORK_INPUT_PX, CROP_SIZE_PX):
            raise BundleError(
                f"appearance: picture_px is {self.picture_px}", f"give {NETWORK_INPUT_PX}, {CROP_SIZE_PX} or nothing"
            )
        if picture_values(self.picture_px, self.volume_px) % self.volume_depth:
            raise BundleError(
                f"appearance: a picture of {self.picture_px} px does not fill a volume {self.volume_depth} deep",
                "give a volume_depth that divides the picture's values in a cell",
            )

    @property
    def input_px(self) -> int:
        """Height and width of the picture that the network takes."""
        return self.picture_px or NETWORK_INPUT_PX

    @property
    def volume_px(self) -> int:
        """Height and width of the volume."""
        return NETWORK_INPUT_PX >> self.num_down_blocks

    @property
    def learned_channels(self) -> int:
        """Channels of the volume without the picture."""
        return self.volume_channels - picture_values(self.picture_px, self.volume_px) // self.volume_depth


@dataclass(frozen=True)
class MotionExtractorConfig:
    """ConvNeXt-V2 that reads pose, expression and canonical keypoints off an image.

    Args:
        depths: blocks of each of the four stages.
        widths: channels of each of the four stages.
    """

    depths: tuple[int, ...] = (3, 3, 9, 3)
    widths: tuple[int, ...] = (96, 192, 384, 768)


@dataclass(frozen=True)
class DenseMotionConfig:
    """The part of the warp that turns keypoints into a flow.

    Args:
        block_expansion: base width of the hourglass.
        max_features: upper limit of the hourglass's width.
        num_blocks: levels of the hourglass.
        compressed_channels: channels that the volume is squeezed to before it is deformed.
        motion_grid_px: height and width of the grid on which the flow is estimated; a smaller one than the
            volume's is enlarged afterwards.
        mask_kernel: kernel of the mask convolution.
        occlusion_kernel: kernel of the occlusion convolution.
        final_block: one more convolution at the end of the hourglass.
    """

    block_expansion: int = 32
    max_features: int = 1024
    num_blocks: int = 5
    compressed_channels: int = 4
    motion_grid_px: int = 64
    mask_kernel: int = 7
    occlusion_kernel: int = 7
    final_block: bool = True


@dataclass(frozen=True)
class WarpConfig:
    """Warping network: volume and two sets of keypoints -> feature image.

    Args:
        volume_channels: C of the volume.
        volume_depth: D of the volume.
        volume_px: height and width of the volume.
        feature_channels: channels of the feature image.
        dense_motion: the flow estimator.
        picture_px: the last channels of volume and feature image are a source picture of this size.
    """

    volume_channels: int = 32
    volume_depth: int = 16
    volume_px: int = 64
    feature_channels: int = 256
    dense_motion: DenseMotionConfig = field(default_factory=DenseMotionConfig)
    picture_px: int | None = None

    @property
    def learned_channels(self) -> int:
        """Channels of the volume without the picture."""
        return self.volume_channels - picture_values(self.picture_px, self.volume_px) // self.volume_depth

    @property
    def learned_features(self) -> int:
        """Channels of the feature image without the picture."""
        return self.feature_channels - picture_values(self.picture_px, self.volume_px)

    def __post_init__(self) -> None:
        """Refuse a motion grid that the volume is not a whole multiple of."""
        if self.volume_px % self.dense_motion.motion_grid_px:
            raise BundleError(
                f"warp: a volume of {self.volume_px} px is no whole multiple of a motion grid of "
                f"{self.dense_motion.motion_grid_px} px",
                "give a motion_grid_px that divides volume_px",
            )


@dataclass(frozen=True)
class DecoderConfig:
    """SPADE decoder: feature image -> picture of eight times its size.

    Args:
        feature_channels: channels of the feature image, which also conditions every SPADE block.
        channels: width of the middle blocks.
        hidden_channels: width inside a SPADE layer.
        num_middle_blocks: SPADE blocks at the feature image's size.
        up_channels: widths after the first and the second doubling.
        upsampling: ``spade`` repeats pixels and runs a SPADE block after each doubling; ``pixel_shuffle``
            rearranges channels into pixels and follows with one convolution, about ten times cheaper.
        picture_px: the last channels of the feature image are a source picture of this size.
    """

    feature_channels: int = 256
    channels: int = 512
    hidden_channels: int = 128
    num_middle_blocks: int = 6
    up_channels: tuple[int, ...] = (256, 64)
    upsampling: Literal["spade", "pixel_shuffle"] = "spade"
    picture_px: int | None = None

    @property
    def learned_features(self) -> int:
        """Channels of the feature image without the picture."""
        return self.feature_channels - picture_values(self.picture_px, FEATURE_CELLS)

    def __post_init__(self) -> None:
        """Refuse a kind of upsampling that does not exist."""
        if self.upsampling not in ("spade", "pixel_shuffle"):
            raise BundleError(f"decoder: upsampling is {self.upsampling!r}", "give 'spade' or 'pixel_shuffle'")
        if len(self.up_channels) != 2:
            raise BundleError(f"decoder: up_channels is {self.up_channels}", "give two widths")


@dataclass(frozen=True)
class StitchingConfig:
    """Stitching network.

    Args:
        hidden: widths of the hidden layers.
    """

    hidden: tuple[int, ...] = (128, 128, 64)


@dataclass(frozen=True)
class MotionDiffusionConfig:
    """Motion diffusion transformer.

    Args:
        latent: width d.
        num_heads: attention heads.
        num_layers: decoder layers.
        num_condition_layers: layers of the condition encoder.
        feed_forward: width inside the feed-forward parts.
        audio_dim: columns of the speech features.
        use_emotion: the condition has 8 columns of emotion.
        use_eye_open: the condition has 2 columns of eye openness.
        use_eye_ball: the condition has 6 columns of gaze.
        use_canonical: the condition has 63 columns of canonical keypoints.
    """

    latent: int = 512
    num_heads: int = 8
    num_layers: int = 8
    num_condition_layers: int = 2
    feed_forward: int = 1024
    audio_dim: int = 1024
    use_emotion: bool = True
    use_eye_open: bool = True
    use_eye_ball: bool = True
    use_canonical: bool = True

    @property
    def condition_dim(self) -> int:
        """Columns of a condition row: audio, then each part that is in use, in the order of the fields."""
        parts = ((self.use_emotion, 8), (self.use_eye_open, 2), (self.use_eye_ball, 6))
        canonical = 3 * NUM_KEYPOINTS if self.use_canonical else 0
        return self.audio_dim + sum(width for used, width in parts if used) + canonical

    @property
    def motion_dim(self) -> int:
        """Columns of the motion vector."""
        return MOTION_DIM

    @property
    def window_frames(self) -> int:
        """Frames of one window."""
        return WINDOW_FRAMES


@dataclass(frozen=True)
class AudioEncoderConfig:
    """HuBERT encoder: 16 kHz samples -> rows, hop 320 samples, receptive field 400.

    Args:
        hidden: columns of a row.
        num_layers: transformer layers.
        num_heads: attention heads.
        feed_forward: width inside the feed-forward parts.
        conv_widths: channels of the seven convolutions.
        position_kernel: kernel of the positional convolution, rows.
        position_groups: groups of the positional convolution.
    """

    hidden: int = 1024
    num_layers: int = 24
    num_heads: int = 16
    feed_forward: int = 4096
    conv_widths: tuple[int, ...] = (512,) * 7
    position_kernel: int = 128
    position_groups: int = 16


@dataclass(frozen=True)
class NetworkConfig:
    """All seven networks of a bundle. Widths that two of them share are checked when it is built."""

    appearance: AppearanceConfig = field(default_factory=AppearanceConfig)
    motion_extractor: MotionExtractorConfig = field(default_factory=MotionExtractorConfig)
    warp: WarpConfig = field(default_factory=WarpConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    stitching: StitchingConfig = field(default_factory=StitchingConfig)
    motion_diffusion: MotionDiffusionConfig = field(default_factory=MotionDiffusionConfig)
    audio_encoder: AudioEncoderConfig = field(default_factory=AudioEncoderConfig)

    def __post_init__(self) -> None:
        """Refuse networks that do not fit each other."""
        a, w = self.appearance, self.warp
        pairs = {
            "appearance volume and warp volume": (
                (a.volume_channels, a.volume_depth, a.volume_px),
                (w.volume_channels, w.volume_depth, w.volume_px),
            ),
            "warp feature_channels and decoder feature_channels": (w.feature_channels, self.decoder.feature_channels),
            "picture_px of appearance and warp": (a.picture_px, w.picture_px),
            "picture_px of warp and decoder": (w.picture_px, self.decoder.picture_px),
            "audio_encoder hidden and motion_diffusion audio_dim": (
                self.audio_encoder.hidden,
                self.motion_diffusion.audio_dim,
            ),
        }
        for what, (left, right) in pairs.items():
            if left != right:
                raise BundleError(f"{what} differ: {left} and {right}", "give both networks the same width")


@dataclass(frozen=True)
class BundleConfig:
    """The networks of a bundle, and the settings its weights were trained for.

    Args:
        networks: shapes of the networks.
        lip_points: indices of the keypoints that speech drives.
        eye_points: indices of the keypoints that blinks drive.
        relative: what generated motion is relative to: the ``first`` generated frame, ``rest`` (a closed,
            looking-ahead face, motion zero), or ``off``.
        crop: crop geometry of the training pictures.
        blend: what of a rendered crop is blended into a clip's frames: the whole ``crop``, or the ``mouth`` region
            where speech drives nothing else.
        num_steps: default number of DDIM steps.
        guidance_scale: default classifier-free guidance; 1 is the conditional prediction alone.
        keypoint_landmarks: which of the 478 face landmarks lies under each keypoint, -1 for none; None where keypoints
            have no fixed place in the face.
        defaults: further settings that came with the weights; None where they came with none.
    """

    networks: NetworkConfig = field(default_factory=NetworkConfig)
    lip_points: tuple[int, ...] = (6, 12, 14, 17, 19, 20)
    eye_points: tuple[int, ...] = (11, 13, 15, 16, 18)
    relative: Literal["first", "rest", "off"] = "first"
    crop: CropConfig = field(default_factory=CropConfig)
    blend: BlendRegion = "crop"
    num_steps: int = 50
    guidance_scale: float = 2.0
    keypoint_landmarks: tuple[int, ...] | None = None
    defaults: ReleaseDefaults | None = None

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        if self.relative not in ("first", "rest", "off"):
            raise BundleError(f"relative is {self.relative!r}", "give 'first', 'rest' or 'off'")
        if self.blend not in ("crop", "mouth"):
            raise BundleError(f"blend is {self.blend!r}", "give 'crop' or 'mouth'")
        for name in ("lip_points", "eye_points"):
            if not all(0 <= point < NUM_KEYPOINTS for point in getattr(self, name)):
                raise BundleError(f"{name} is {getattr(self, name)}", f"give indices below {NUM_KEYPOINTS}")
        require_range("num_steps", self.num_steps, 1, 1000)
        require_range("guidance_scale", self.guidance_scale, 0.0, 10.0)


OFFICIAL = BundleConfig()

MINI_NETWORKS = NetworkConfig(
    appearance=AppearanceConfig(
        block_expansion=24, volume_channels=40, volume_depth=8, num_resblocks=3, picture_px=512
    ),
    motion_extractor=MotionExtractorConfig(depths=(2, 2, 8, 3), widths=(24, 48, 96, 192)),
    warp=WarpConfig(
        volume_channels=40,
        volume_depth=8,
        feature_channels=288,
        picture_px=512,
        dense_motion=DenseMotionConfig(
            block_expansion=16,
            max_features=256,
            num_blocks=4,
            motion_grid_px=32,
            mask_kernel=3,
            occlusion_kernel=3,
            final_block=False,
        ),
    ),
    decoder=DecoderConfig(
        feature_channels=288,
        picture_px=512,
        channels=128,
        hidden_channels=32,
        num_middle_blocks=4,
        up_channels=(48, 24),
        upsampling="pixel_shuffle",
    ),
    motion_diffusion=MotionDiffusionConfig(
        latent=128,
        num_heads=4,
        num_layers=4,
        feed_forward=256,
        audio_dim=128,
        use_emotion=False,
        use_eye_open=False,
        use_eye_ball=False,
        use_canonical=False,
    ),
    audio_encoder=AudioEncoderConfig(
        hidden=128,
        num_layers=8,
        num_heads=4,
        feed_forward=512,
        conv_widths=(32, 48, 64, 64, 96, 96, 128),
        position_kernel=32,
        position_groups=8,
    ),
)

MINI = BundleConfig(
    networks=MINI_NETWORKS,
    lip_points=tuple(range(9)),
    eye_points=(9, 10, 11, 12, 19, 20),
    relative="rest",
    crop=CropConfig(scale=1.8, shift_down=0.03),
    blend="mouth",
    num_steps=10,
    guidance_scale=1.0,
    keypoint_landmarks=(13, 14, 61, 291, 0, 17, -1, -1, -1, 159, 145, 386, 374, -1, -1, 19, -1, -1, -1, -1, -1),
)
