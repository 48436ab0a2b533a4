"""Configs of a few thousand weights each, for tests that need every path but no speed."""

from newsstudio_ditto.networks.config import (
    AppearanceConfig,
    AudioEncoderConfig,
    BundleConfig,
    DecoderConfig,
    DenseMotionConfig,
    MotionDiffusionConfig,
    MotionExtractorConfig,
    NetworkConfig,
    WarpConfig,
)

TINY_NETWORKS = NetworkConfig(
    appearance=AppearanceConfig(
        block_expansion=4, num_down_blocks=3, volume_channels=3, volume_depth=4, num_resblocks=1
    ),
    motion_extractor=MotionExtractorConfig(depths=(1, 1, 1, 1), widths=(4, 4, 8, 8)),
    warp=WarpConfig(
        volume_channels=3,
        volume_depth=4,
        volume_px=32,
        feature_channels=6,
        dense_motion=DenseMotionConfig(
            block_expansion=4, max_features=8, num_blocks=2, compressed_channels=2, motion_grid_px=32, mask_kernel=3
        ),
    ),
    decoder=DecoderConfig(
        feature_channels=6, channels=8, hidden_channels=4, num_middle_blocks=1, up_channels=(6, 4), upsampling="spade"
    ),
    motion_diffusion=MotionDiffusionConfig(latent=16, num_heads=2, num_layers=2, feed_forward=16, audio_dim=16),
    audio_encoder=AudioEncoderConfig(
        hidden=16,
        num_layers=1,
        num_heads=2,
        feed_forward=16,
        conv_widths=(4,) * 7,
        position_kernel=8,
        position_groups=2,
    ),
)
TINY = BundleConfig(networks=TINY_NETWORKS)
