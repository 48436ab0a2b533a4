"""How finished frames are encoded on this installation."""

import dagster as dg
from pydantic import Field

from newsstudio_ditto.config import EncodeOptions


class SinkResource(dg.ConfigurableResource[None]):
    """Settings of the FFmpeg sink."""

    encoder: str = Field("libx264", description="FFmpeg video encoder.")
    preset: str = Field("veryfast", description="Encoder preset.")
    crf: int = Field(18, description="Constant rate factor of x264; lower is better and larger.")

    @property
    def options(self) -> EncodeOptions:
        """The settings, checked."""
        return EncodeOptions(encoder=self.encoder, preset=self.preset, crf=self.crf)
