"""Audio encoder: HuBERT as transformers builds it, with plain weights instead of a weight norm."""

from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import HubertConfig, HubertModel

from newsstudio_ditto.networks.config import AudioEncoderConfig

CONV_KERNELS = (10, 3, 3, 3, 3, 2, 2)
CONV_STRIDES = (5, 2, 2, 2, 2, 2, 2)


def hubert_config(config: AudioEncoderConfig) -> HubertConfig:
    """Settings of the transformers model: layer norms throughout, and nothing random, not even in training."""
    return HubertConfig(
        hidden_size=config.hidden,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.feed_forward,
        conv_dim=list(config.conv_widths),
        conv_kernel=list(CONV_KERNELS),
        conv_stride=list(CONV_STRIDES),
        conv_bias=True,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embeddings=config.position_kernel,
        num_conv_pos_embedding_groups=config.position_groups,
        apply_spec_augment=False,
        mask_time_prob=0.0,
        mask_feature_prob=0.0,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
    )


class AudioEncoder(nn.Module):
    """Rows of speech features at 50 Hz.

    Args:
        config: widths.
    """

    def __init__(self, config: AudioEncoderConfig) -> None:
        """Build the layers."""
        super().__init__()
        self.config = config
        self.hubert = HubertModel(hubert_config(config))
        convolution = self.hubert.encoder.pos_conv_embed.conv
        if parametrize.is_parametrized(convolution, "weight"):
            parametrize.remove_parametrizations(convolution, "weight")

    def forward(self, windows: Tensor) -> Tensor:
        """Encode windows of speech.

        Args:
            windows: (B, 6480), 16 kHz samples, -1..1; other lengths work as well.

        Returns:
            (B, 20, hidden); row r sees the samples [320 r, 320 r + 400).
        """
        rows: Tensor = self.hubert(windows).last_hidden_state
        return rows
