"""From any decoded frame to RGB: colour matrices by tag, refused transfers, transparency over a background."""

import av
import numpy as np
from av.video.plane import VideoPlane
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from newsstudio_ditto.errors import UnsupportedMediaError
from newsstudio_ditto.media.facts import ColourTags

Pixels = NDArray[np.uint8]

BACKGROUND_RGB = (128, 128, 128)
"""What stands behind transparent pixels."""

UNSPECIFIED = 2
# Without full chroma, swscale takes a table that is fast but up to 3 levels too dark.
_SAMPLING = (
    Interpolation.POINT | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
)
_HDR_TRANSFERS = {16: "PQ (smpte2084)", 18: "HLG (arib-std-b67)"}
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
}
_TONE_MAP = "zscale=t=linear:npl=100,tonemap=hable,zscale=p=bt709:t=bt709:m=bt709:r=tv,format=yuv420p"


def require_sdr(tags: ColourTags, name: str) -> None:
    """Refuse high dynamic range, which would come out pale without tone mapping.

    Raises:
        UnsupportedMediaError: for the PQ and HLG transfers, with the command that maps the tones.
    """
    transfer = _HDR_TRANSFERS.get(tags.transfer)
    if transfer:
        raise UnsupportedMediaError(
            f"{name} is a high dynamic range picture, transfer {transfer}",
            f"map it to bt709 first: ffmpeg -i INPUT -vf {_TONE_MAP} OUTPUT.mp4",
        )


def choose_matrix(tags: ColourTags, height_px: int) -> Colorspace:
    """The YUV matrix of a picture: its tag, else bt709 from 720 lines on and bt601 below.

    Args:
        tags: colour tags.
        height_px: the shorter stored side.

    Raises:
        UnsupportedMediaError: for matrices that swscale does not convert.
    """
    if tags.matrix in (0, UNSPECIFIED):
        return Colorspace.ITU709 if height_px >= 720 else Colorspace.ITU601
    matrix = _MATRICES.get(tags.matrix)
    if matrix is None:
        raise UnsupportedMediaError(
            f"colour matrix {tags.matrix} (ITU-T H.273) is not supported", "convert the clip to bt709"
        )
    return matrix


class RgbConverter:
    """Converts the frames of one stream to RGB.

    Args:
        tags: colour tags of the stream.
        background_rgb: what stands behind transparent pixels, 0..255 each.
    """

    def __init__(self, tags: ColourTags, *, background_rgb: tuple[int, int, int] = BACKGROUND_RGB) -> None:
        """Nothing is converted yet."""
        self._tags = tags
        self._background = np.array(background_rgb, np.uint16)
        self._reformatter = VideoReformatter()

    def convert(self, frame: av.VideoFrame) -> Pixels:
        """RGB pixels (H, W, 3) uint8 of a decoded frame, as stored: not turned, not scaled.

        Chroma is repeated, not interpolated, so that averaging it back to 4:2:0 restores the stored values.
        """
        alpha = has_alpha(frame)
        full_range = bool(self._tags.full_range) or frame.format.name.startswith("yuvj")
        rgb = self._reformatter.reformat(
            without_siting(frame),
            format="rgba" if alpha else "rgb24",
            src_colorspace=choose_matrix(self._tags, min(frame.width, frame.height)),
            src_color_range=ColorRange.JPEG if full_range else ColorRange.MPEG,
            dst_color_range=ColorRange.JPEG,
            interpolation=_SAMPLING,
            threads=1,
        )
        pixels = np.asarray(rgb.to_ndarray(), np.uint8)
        return lay_over(pixels, self._background) if alpha else pixels


def without_siting(frame: av.VideoFrame) -> av.VideoFrame:
    """A frame whose chroma samples belong to the middle of their pixels, which makes swscale repeat them.

    With the usual tag, "left", the nearest sample of every second pixel is its neighbour's.
    """
    parts = frame.format.components
    if len(parts) < 3 or parts[1].width == frame.width:
        return frame
    copy = av.VideoFrame(frame.width, frame.height, frame.format.name)
    for source, target in zip(frame.planes, copy.planes, strict=True):
        width = min(source.line_size, target.line_size)
        _rows(target)[:, :width] = _rows(source)[:, :width]
    return copy


def _rows(plane: VideoPlane) -> Pixels:
    return np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[: plane.height]


def has_alpha(frame: av.VideoFrame) -> bool:
    """Whether the pixels of a frame, or its palette, carry transparency."""
    return frame.format.has_palette or any(part.is_alpha for part in frame.format.components)


def lay_over(rgba: Pixels, background: NDArray[np.uint16]) -> Pixels:
    """Lay (H, W, 4) uint8 with straight alpha over a colour (3,); fully transparent pixels show only the colour."""
    alpha = rgba[..., 3:].astype(np.uint16)
    mixed = rgba[..., :3] * alpha + background * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)
