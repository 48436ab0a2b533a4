"""Source frames on a device: what is gathered is what the packet holds, and room is made for whoever needs it."""

import logging
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render import frame_pool
from newsstudio_ditto.render.frame_pool import FramePool, ResidentPools, SourceRows, row_bytes
from newsstudio_ditto.render.slices import read_slices
from tests.render.conftest import CPU
from tests.render.tiny import tiny_packet


def assert_same(rows: SourceRows, others: SourceRows) -> None:
    for mine, other in zip(rows.tensors, others.tensors, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("capacity", [3, 5])
def test_gathered_rows_are_those_of_the_packet(clip_packet: Packet, capacity: int) -> None:
    pool = FramePool(clip_packet, CPU, capacity)
    batches = [[0, 1, 2], [3, 4, 4], [4, 3, 2], [1, 0, 0], [0, 1, 2]]
    for indices, expected in zip(batches, read_slices(clip_packet, batches, CPU), strict=True):
        rows, ready = pool.gather(indices)
        assert ready is None
        assert_same(rows, expected.rows)


def test_a_frame_that_fits_is_uploaded_once(clip_packet: Packet) -> None:
    pool = FramePool(clip_packet, CPU, 5)
    for _ in range(3):
        pool.gather([0, 1, 2, 3, 4])
    assert pool.num_uploads == 5


def test_painting_into_gathered_rows_leaves_the_pool_alone(clip_packet: Packet) -> None:
    pool = FramePool(clip_packet, CPU, 5)
    first, _ = pool.gather([1, 2])
    kept = first.planes.clone()
    first.planes.zero_()
    again, _ = pool.gather([1, 2])
    assert torch.equal(again.planes, kept)


class Free:
    """Memory that a test says is free."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes

    def __call__(self, device: torch.device) -> int:
        return self.num_bytes


def test_whole_avatars_stay_and_the_one_not_used_longest_makes_room(bundle: ModelBundle, tmp_path: Path) -> None:
    packets = [tiny_packet(tmp_path / name, bundle, 4, avatar_id=name) for name in ("anna", "bert", "cleo")]
    need = 4 * row_bytes(packets[0])
    free = Free(2 * need)
    pools = ResidentPools(free)
    anna = pools.pool(packets[0], CPU)
    bert = pools.pool(packets[1], CPU)
    free.num_bytes = 0
    assert pools.pool(packets[0], CPU) is anna  # used again, so that bert is now the oldest
    cleo = pools.pool(packets[2], CPU)
    assert pools.pool(packets[2], CPU) is cleo
    assert pools.pool(packets[0], CPU) is anna
    assert pools.pool(packets[1], CPU) is not bert


def test_an_avatar_that_does_not_fit_streams(clip_packet: Packet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_pool, "RING_ROWS", 2)
    pools = ResidentPools(Free(row_bytes(clip_packet)))
    pool = pools.pool(clip_packet, CPU)
    assert pools.pool(clip_packet, CPU) is not pool
    for _ in range(2):
        pool.gather([0, 1])
        pool.gather([2, 3])
    assert pool.num_uploads == 8


def test_the_switch_keeps_frames_off_the_device(clip_packet: Packet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(frame_pool.SWITCH, "1")
    pools = ResidentPools(Free(1 << 40))
    assert pools.pool(clip_packet, CPU) is not pools.pool(clip_packet, CPU)


def test_memory_that_vanishes_between_asking_and_taking_is_no_failure(
    clip_packet: Packet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Scarce(FramePool):
        def __init__(self, packet: Packet, device: torch.device, capacity: int) -> None:
            if capacity == packet.num_frames:
                raise torch.OutOfMemoryError("taken by somebody else")
            super().__init__(packet, device, capacity)

    monkeypatch.setattr(frame_pool, "FramePool", Scarce)
    monkeypatch.setattr(frame_pool, "RING_ROWS", 3)
    with caplog.at_level(logging.WARNING):
        rows, _ = ResidentPools(Free(1 << 40)).pool(clip_packet, CPU).gather([0, 1])
    assert "do not fit" in caplog.text
    assert len(rows.planes) == 2
