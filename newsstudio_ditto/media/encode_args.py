"""FFmpeg command lines as plain lists of arguments, program name excluded. Nothing is run here."""

from pathlib import Path

import ffmpeg

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLE_RATE_HZ

QUIET = ("-hide_banner", "-loglevel", "error", "-nostdin")
# The slower coder takes as long for the sound as the encoder takes for a tenth of the pictures.
_AUDIO = {"c:a": "aac", "b:a": "160k", "aac_coder": "fast"}


def encode_args(
    *, width: int, height: int, speech: Path, output: Path, options: EncodeOptions, comment: str
) -> list[str]:
    """Frames from stdin and a speech file become an mp4.

    Args:
        width: of the piped frames, planar YUV 4:2:0, bt709, limited range.
        height: of the piped frames.
        speech: sound file; all of it is taken, from its first sample.
        output: file to write, whatever its suffix.
        options: encoder settings.
        comment: text of the mp4's comment tag.
    """
    pictures = ffmpeg.input("pipe:0", format="rawvideo", pix_fmt="yuv420p", s=f"{width}x{height}", r=FRAME_RATE_HZ)
    # FFmpeg takes colour tags from the frames, so that options of the encoder alone would be lost.
    tagged = pictures.filter("setparams", range="tv", color_primaries="bt709", color_trc="bt709", colorspace="bt709")
    # Timestamps are counted anew: a gap before or in the speech would move it against the lips.
    sound = ffmpeg.input(file_url(speech))["a:0"].filter("asetpts", "N/SR/TB")
    settings = {
        **encoder_settings(options),
        **_AUDIO,
        "pix_fmt": "yuv420p",
        "color_range": "tv",
        "color_primaries": "bt709",
        "color_trc": "bt709",
        "colorspace": "bt709",
        "map_metadata": "-1",
        "map_chapters": "-1",
        "metadata": f"comment={comment}",
        "movflags": "+faststart",
        "format": "mp4",
    }
    return _arguments(ffmpeg.output(tagged, sound, file_url(output), **settings))


def preflight_args(encoder: str, *, side_px: int) -> list[str]:
    """One grey frame from stdin and silence are encoded and thrown away.

    Args:
        encoder: FFmpeg's name of a video encoder.
        side_px: side of the square frame.
    """
    picture = ffmpeg.input("pipe:0", format="rawvideo", pix_fmt="yuv420p", s=f"{side_px}x{side_px}", r=FRAME_RATE_HZ)
    settings = {"c:v": encoder, "frames:v": 1, "format": "null"}
    return _arguments(ffmpeg.output(picture, "-", **settings))


def speech_args(speech: Path) -> list[str]:
    """The first audio stream of a file becomes raw 32-bit floats on stdout, mono, 16 kHz.

    Args:
        speech: any file with sound.
    """
    # Without the limit, float samples of two equal channels would come out 3 dB louder than one.
    settings = {"c:a": "pcm_f32le", "ac": 1, "ar": SAMPLE_RATE_HZ, "rematrix_maxval": 1, "format": "f32le"}
    source = ffmpeg.input(file_url(speech), protocol_whitelist="file")
    return _arguments(ffmpeg.output(source["a:0"], "pipe:1", **settings))


def encoder_settings(options: EncodeOptions) -> dict[str, str | int]:
    """Quality settings in the words of each encoder family; other encoders keep their defaults."""
    name = options.encoder
    if name in ("libx264", "libx265"):
        return {"c:v": name, "preset": options.preset, "crf": options.crf}
    if name.endswith("_nvenc"):
        return {"c:v": name, "preset": "p4", "rc": "vbr", "cq": options.crf, "b:v": 0}
    return {"c:v": name}


def file_url(path: Path) -> str:
    """A path as FFmpeg takes it literally, whatever characters it holds."""
    return f"file:{path}"


def _arguments(node: object) -> list[str]:
    return [*QUIET, *ffmpeg.get_args(node, overwrite_output=True)]
