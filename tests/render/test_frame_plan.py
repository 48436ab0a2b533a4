"""Frames planned chunk by chunk are those planned at once, and batches lose nothing."""

from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newsstudio_ditto.controls import BlinkOptions, ControlOptions
from newsstudio_ditto.maths.motion_stitch import stitch_motion
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.frame_plan import FramePlan, SpeechPoser, cut_batches
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from newsstudio_ditto.render.sources import source_motion

NUM_FRAMES = 23
CONTROLS = {
    "none": ControlOptions(),
    "fades": ControlOptions(fade_in_s=0.2, fade_out_s=0.3),
    "fades to the source": ControlOptions(fade_in_s=0.2, fade_out_s=0.3, fade_to="source"),
    "head": ControlOptions(yaw_deg=((0.0, 0.0), (0.8, 12.0)), head_amplitude=1.5, pitch_factor=0.5),
    "mouth": ControlOptions(mouth_amplitude=((0.0, 0.0), (0.5, 2.0))),
    "blinks": ControlOptions(blink=BlinkOptions(mode="random", per_minute=40.0)),
    "not relative": ControlOptions(relative="off"),
}


def drawn_motion() -> torch.Tensor:
    return 0.1 * torch.randn(NUM_FRAMES, 265, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("kind", ["clip_packet", "still_packet"])
def test_chunks_are_posed_as_one_pass_poses_them(
    name: str, kind: str, bundle: ModelBundle, request: pytest.FixtureRequest
) -> None:
    packet: Packet = request.getfixturevalue(kind)
    motion, config = drawn_motion(), bundle.config
    plan = plan_controls(CONTROLS[name], stitch_options(config), config, source_motion(packet), NUM_FRAMES)
    whole = prestitch(source_motion(packet), motion, plan.options, bundle.stitching, plan.frames)
    poser = SpeechPoser(packet, bundle, NUM_FRAMES, controls=CONTROLS[name])
    parts = [poser.pose(chunk) for chunk in torch.split(motion, [1, 2, 9, 11])]
    for field in ("source_keypoints", "driving_keypoints"):
        posed = torch.cat([getattr(part, field) for part in parts])
        torch.testing.assert_close(posed, getattr(whole, field), atol=2e-6, rtol=1e-5)
    assert (whole.driving_keypoints - whole.source_keypoints).abs().max() > 0.01


def test_poses_without_the_stitching_network_are_those_of_the_maths(clip_packet: Packet, bundle: ModelBundle) -> None:
    motion, options = drawn_motion(), stitch_options(bundle.config)
    plain = stitch_motion(source_motion(clip_packet), motion, options)
    posed = SpeechPoser(clip_packet, bundle, NUM_FRAMES, stitch=False).pose(motion)
    torch.testing.assert_close(posed.driving_keypoints, plain.driving_keypoints, atol=2e-6, rtol=1e-5)


def numbered(start: int, count: int) -> FramePlan:
    points = torch.arange(start, start + count, dtype=torch.float32)[:, None, None].expand(-1, 21, 3)
    return FramePlan(np.arange(start, start + count), points, points + 0.5)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 30), max_size=8), size=st.integers(1, 12), first_size=st.integers(1, 12))
def test_batches_hold_every_frame_once_in_order(lengths: list[int], size: int, first_size: int) -> None:
    starts = [0, *accumulate(lengths)]
    chunks = [numbered(start, count) for start, count in zip(starts, lengths, strict=False)]
    batches = list(cut_batches(chunks, size, first_size))
    total = sum(lengths)
    assert [index for batch in batches for index in batch.source_index.tolist()] == list(range(total))
    for batch in batches:
        assert batch.driving_keypoints[:, 0, 0].tolist() == [index + 0.5 for index in batch.source_index.tolist()]
    sizes = [batch.num_frames for batch in batches]
    assert sizes[:1] == [min(first_size, total)][: len(sizes)]
    assert all(count == size for count in sizes[1:-1])
    assert all(1 <= count <= max(size, first_size) for count in sizes)


def test_a_chunk_is_not_asked_for_before_it_is_needed() -> None:
    asked = []

    def chunks() -> object:
        for number in range(3):
            asked.append(number)
            yield numbered(10 * number, 10)

    batches = cut_batches(chunks(), 4, 1)  # type: ignore[arg-type]
    for _ in range(3):
        next(batches)
    assert asked == [0]
    next(batches)
    assert asked == [0, 1]
