"""Whatever names and settings are: FFmpeg gets them as they are, each in one argument, none as an option."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from newsstudio_ditto.config import EncodeOptions
from newsstudio_ditto.media.encode_args import (
    QUIET,
    encode_args,
    encoder_settings,
    file_url,
    preflight_args,
    speech_args,
)

few = settings(deadline=None, max_examples=60, derandomize=True)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)
paths = (
    texts
    | st.sampled_from(["-y", "-i", "--", "a b", "%d.wav", "$(x)", "'", '"', "[0:a]", "a:b,c;d", "pipe:0", "http://x/y"])
).map(Path)
encoders = st.sampled_from(["libx264", "libx265", "h264_nvenc", "hevc_nvenc", "mpeg4"])
options = st.builds(
    EncodeOptions, encoder=encoders, preset=st.sampled_from(["veryfast", "slow"]), crf=st.integers(0, 51)
)
sizes = st.integers(1, 2048).map(lambda half: 2 * half)
REFERENCE = {"speech": Path("speech"), "output": Path("output"), "comment": "comment"}


@few
@given(paths, paths, texts, options, sizes, sizes)
def test_names_and_comment_reach_ffmpeg_whole(
    speech: Path, output: Path, comment: str, chosen: EncodeOptions, width: int, height: int
) -> None:
    argv = encode_args(width=width, height=height, speech=speech, output=output, options=chosen, comment=comment)
    plain = encode_args(width=width, height=height, options=chosen, **REFERENCE)  # type: ignore[arg-type]
    assert argv[: len(QUIET)] == list(QUIET)
    changed = {old: new for old, new in zip(plain, argv, strict=True) if old != new}
    wanted = {"file:speech": file_url(speech), "file:output": file_url(output), "comment=comment": f"comment={comment}"}
    assert changed == {old: new for old, new in wanted.items() if old != new}
    assert f"{width}x{height}" in argv


@few
@given(options)
def test_settings_are_those_asked_for(chosen: EncodeOptions) -> None:
    argv = encode_args(width=2, height=2, options=chosen, **REFERENCE)  # type: ignore[arg-type]
    for name, value in encoder_settings(chosen).items():
        assert argv[argv.index(f"-{name}") + 1] == str(value)
    assert argv[argv.index("-c:v") + 1] == chosen.encoder
    assert argv.count("-i") == 2


@few
@given(paths)
def test_a_speech_is_a_file_whatever_it_is_called(speech: Path) -> None:
    argv = speech_args(speech)
    assert argv[argv.index("-i") + 1] == f"file:{speech}"
    assert argv[argv.index("-protocol_whitelist") + 1] == "file"
    assert argv[-1] == "-y" or "pipe:1" in argv
    assert argv.count(f"file:{speech}") == 1


@few
@given(encoders, sizes)
def test_a_preflight_throws_its_frame_away(encoder: str, side_px: int) -> None:
    argv = preflight_args(encoder, side_px=side_px)
    assert argv[argv.index("-f", argv.index("-i")) + 1] == "null"
    assert f"{side_px}x{side_px}" in argv
    assert argv[argv.index("-c:v") + 1] == encoder
