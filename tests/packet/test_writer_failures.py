"""A write that fails leaves nothing behind, whatever the reason, and says what was wrong."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.errors import PacketError, PacketFormatError, StorageError, UsageError
from newsstudio_ditto.packet.files import reporting_refusals, require_space
from newsstudio_ditto.packet.reader import open_part
from newsstudio_ditto.packet.spec import PARTS
from newsstudio_ditto.packet.writer import PartStream, packet_bytes, part_bytes, write_part
from tests.packet.samples import AVATAR, GENERATION, LENGTHS, random_part, stream_of

FRAMES = random_part("frames")["frames"]
GRIDS = random_part("grids")["grids"]
SHAPE = tuple(FRAMES.shape)


def frames_stream(*chunks: Tensor) -> PartStream:
    return PartStream("frames", {"frames": SHAPE}, iter([{"frames": chunk} for chunk in chunks]), "1")


def spoiled(value: float) -> PartStream:
    grids = GRIDS.clone()
    grids[1, 2, 3, 0] = value
    return stream_of("grids", {"grids": grids})


BAD_STREAMS: dict[str, tuple[Callable[[], PartStream], str]] = {
    "no chunk": (lambda: frames_stream(), "expected 3 rows, got only 0"),
    "too few rows": (lambda: frames_stream(FRAMES[:2]), "expected 3 rows, got only 2"),
    "too many rows": (lambda: frames_stream(FRAMES, FRAMES[:1]), "expected 3 rows, got at least 4"),
    "wrong dtype": (lambda: frames_stream(FRAMES.float()), "expected uint8 .* got dtype float32"),
    "wrong height": (lambda: frames_stream(FRAMES[:, :, 1:]), "expected rows of"),
    "no frame axis": (lambda: frames_stream(FRAMES[0]), "expected rows of"),
    "not a number": (lambda: spoiled(float("nan")), "NaN or infinity in rows 0 to 1"),
    "infinite": (lambda: spoiled(float("-inf")), "NaN or infinity"),
    "other tensor": (
        lambda: PartStream("frames", {"frames": SHAPE}, [{"images": FRAMES}], "1"),
        "expected chunks of frames, got images",
    ),
    "odd rows": (
        lambda: PartStream(
            "keypoints",
            PARTS["keypoints"].shapes(LENGTHS),
            [{**random_part("keypoints"), "t": random_part("keypoints")["t"][:2]}],
            "1",
        ),
        "same number of rows",
    ),
    "path in header": (
        lambda: replace(frames_stream(FRAMES), extra={"source": Path("a.mp4")}),
        "plain values only, got PosixPath",
    ),
    "unknown part": (lambda: PartStream("images", {"images": SHAPE}, [], "1"), "no part 'images'"),
    "missing tensor": (lambda: PartStream("keypoints", {"kp": (3, 21, 3)}, [], "1"), "tensors: expected kp, pitch"),
    "wrong axes": (lambda: PartStream("frames", {"frames": (3, 4, 8, 8)}, [], "1"), r"got shape \(3, 4, 8, 8\)"),
    "no frames": (lambda: PartStream("frames", {"frames": (0, 3, 8, 8)}, [], "1"), "got shape"),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_bad_chunks_are_refused_and_leave_nothing(name: str, tmp_path: Path) -> None:
    make, message = BAD_STREAMS[name]
    with pytest.raises(PacketFormatError, match=message) as caught:
        write_part(tmp_path, make(), generation=GENERATION, avatar_id=AVATAR)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_older_file(tmp_path: Path) -> None:
    write_part(tmp_path, frames_stream(FRAMES), generation=GENERATION, avatar_id=AVATAR)
    before = (tmp_path / "frames.pt").read_bytes()
    with pytest.raises(PacketFormatError):
        write_part(tmp_path, frames_stream(FRAMES[:1]), generation=GENERATION, avatar_id=AVATAR)
    assert (tmp_path / "frames.pt").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError("decoder broke"), KeyboardInterrupt(), GeneratorExit()])
def test_an_error_in_the_chunks_passes_through(tmp_path: Path, error: BaseException) -> None:
    def chunks() -> Iterator[dict[str, Tensor]]:
        yield {"frames": FRAMES[:1]}
        raise error

    with pytest.raises(type(error)):
        write_part(tmp_path, PartStream("frames", {"frames": SHAPE}, chunks(), "1"), generation="g", avatar_id="a")
    assert list(tmp_path.iterdir()) == []


def test_chunks_are_closed_when_writing_fails(tmp_path: Path) -> None:
    closed = []

    def chunks() -> Iterator[dict[str, Tensor]]:
        try:
            yield {"frames": FRAMES.float()}
        finally:
            closed.append(True)

    stream = PartStream("frames", {"frames": SHAPE}, chunks(), "1")
    with pytest.raises(PacketFormatError) as caught:
        write_part(tmp_path, stream, generation="g", avatar_id="a")
    assert closed == [True]
    assert caught.value is not None


def test_generation_and_avatar_are_checked_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="generation"):
        write_part(tmp_path, frames_stream(FRAMES), generation="", avatar_id=AVATAR)
    with pytest.raises(UsageError, match="slug"):
        write_part(tmp_path, frames_stream(FRAMES), generation=GENERATION, avatar_id="../anna")


def test_too_small_a_disk_is_refused_before_the_first_chunk(tmp_path: Path) -> None:
    asked = []

    def chunks() -> Iterator[dict[str, Tensor]]:
        asked.append(True)
        yield {}

    shapes = {"frames": (10**9, 3, 2160, 3840)}
    with pytest.raises(PacketError, match=r"needs .* MiB, the disk of") as caught:
        write_part(tmp_path / "new", PartStream("frames", shapes, chunks(), "1"), generation="g", avatar_id="a")
    assert "--max-frames" in caught.value.hint
    assert asked == []
    assert list((tmp_path / "new").iterdir()) == []


def test_room_is_worked_out_exactly_but_for_the_header(tmp_path: Path) -> None:
    total = 0
    for part in PARTS:
        tensors = random_part(part)
        stream = replace(stream_of(part, tensors), chunks=[tensors])
        record = write_part(tmp_path, stream, generation=GENERATION, avatar_id=AVATAR)
        total += record.bytes
        assert record.bytes <= part_bytes(part, record.shapes) < record.bytes + 2**20
    assert total <= packet_bytes(LENGTHS) < total + 6 * 2**20
    require_space(tmp_path, packet_bytes(LENGTHS), "a packet")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_a_typed_error(code: int) -> None:
    with pytest.raises(StorageError, match=f"x: {os.strerror(code)}") as caught, reporting_refusals(Path("x")):
        raise OSError(code, os.strerror(code))
    assert "free some space" in caught.value.hint
    with pytest.raises(InterruptedError), reporting_refusals(Path("x")):
        raise OSError(errno.EINTR, "no")


SLOW_WRITER = """
    import sys, time
    from pathlib import Path
    from tests.packet.samples import random_part
    from newsstudio_ditto.packet.writer import PartStream, write_part

    def chunks():
        frames = random_part("frames")["frames"]
        yield {"frames": frames[:1]}
        print("one chunk written", flush=True)
        time.sleep(60)

    stream = PartStream("frames", {"frames": (3, 3, 16, 12)}, chunks(), "1")
    write_part(Path(sys.argv[1]), stream, generation="g", avatar_id="a")
"""


def test_a_killed_writer_leaves_only_what_the_next_one_removes(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW_WRITER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "one chunk written\n"
    write_part(tmp_path, frames_stream(FRAMES), generation=GENERATION, avatar_id=AVATAR)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2, "a file that is being written by another process is not taken for a stale one"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    write_part(tmp_path, frames_stream(FRAMES), generation=GENERATION, avatar_id=AVATAR)
    assert [path.name for path in tmp_path.iterdir()] == ["frames.pt"]
    assert torch.equal(open_part(tmp_path / "frames.pt", "frames").tensors["frames"], FRAMES)


def test_many_writers_of_one_file_leave_one_whole_file(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def write(seed: int) -> None:
        tensors = random_part("frames", seed=seed)
        write_part(tmp_path, stream_of("frames", tensors, 1), generation=f"g{seed}", avatar_id=AVATAR)

    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(12)))
    assert time.monotonic() - started < 30
    assert [path.name for path in tmp_path.iterdir()] == ["frames.pt"]
    opened = open_part(tmp_path / "frames.pt", "frames")
    seed = int(opened.header.generation.removeprefix("g"))
    assert torch.equal(opened.tensors["frames"], random_part("frames", seed=seed)["frames"])
