"""Frames of whole renders on a tiny model: how many, which, and that none is torn."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.paste import CropRegion, region_read
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.render.paste import paste_back
from newsstudio_ditto.render.pipeline import FRAMES_HELD, plan_frames, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from newsstudio_ditto.render.sources import source_motion
from newsstudio_ditto.render.speech_plan import SpeechPlanner
from newsstudio_ditto.stages.speech import iterate_speech_features
from newsstudio_ditto.units import count_frames
from tests.render.conftest import CPU
from tests.render.tiny import FRAME, tiny_packet

NUM_BYTES = FRAME.height * FRAME.width * 3 // 2


def steady_plan(packet: Packet, num_frames: int) -> FramePlan:
    index = mirror_index(np.arange(num_frames), packet.num_frames)
    keypoints = packet.keypoints["x_s"][torch.from_numpy(index)]
    return FramePlan(index, keypoints, keypoints + 0.02 * torch.sin(torch.arange(num_frames))[:, None, None])


def one_by_one(packet: Packet, plan: FramePlan, engine: Engine) -> Iterator[np.ndarray]:
    """The same frames without batches, ring or threads."""
    for i, source in enumerate(plan.source_index.tolist()):
        rows = slice(source, source + 1)
        image = engine.render(
            packet.appearance_volumes[rows], plan.source_keypoints[i : i + 1], plan.driving_keypoints[i : i + 1]
        )
        valid = packet.meta.face_valid[rows]
        frame = paste_back(
            packet.frames[rows], image, packet.grids[rows], packet.masks[rows], valid, packet.paste_window
        )
        yield rgb_to_yuv420(frame)[0].numpy()


@pytest.mark.parametrize("num_samples", [1, 640, 641, 9 * 640 + 1])
def test_a_speech_gets_the_ceiling_of_samples_over_640_frames(
    num_samples: int, clip_packet: Packet, bundle: ModelBundle, engine: Engine
) -> None:
    speech = 0.1 * np.sin(np.arange(num_samples, dtype=np.float32) / 9)
    planner = SpeechPlanner(clip_packet, engine, count_frames(num_samples), RenderOptions())
    plans = planner.plans(planner.motion(iterate_speech_features(speech, bundle)))
    frames = list(render_plan(clip_packet, plans, engine))
    assert len(frames) == count_frames(num_samples) == -(-num_samples // 640)
    assert all(frame.shape == (NUM_BYTES,) and frame.dtype == np.uint8 for frame in frames)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 64])
def test_batches_ring_and_threads_change_nothing(batch_size: int, clip_packet: Packet, engine: Engine) -> None:
    plan = steady_plan(clip_packet, 13)
    frames = [frame.copy() for frame in render_plan(clip_packet, plan, engine, batch_size=batch_size)]
    expected = list(one_by_one(clip_packet, plan, engine))
    assert len(frames) == len(expected)
    for frame, other in zip(frames, expected, strict=True):
        assert np.abs(frame.astype(int) - other.astype(int)).max() <= 1


def test_the_engine_is_told_what_the_paste_reads(
    clip_packet: Packet, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, paint = steady_plan(clip_packet, 7), engine.render
    asked: list[CropRegion | None] = []

    def note_and_paint(*inputs: Tensor, region: CropRegion | None) -> Tensor:
        asked.append(region)
        return paint(*inputs, region=region)

    monkeypatch.setattr(engine, "render", note_and_paint)
    assert sum(1 for _ in render_plan(clip_packet, plan, engine, batch_size=1)) == 7
    assert asked == [region_read(clip_packet.grids[index]) for index in plan.source_index.tolist()]
    assert len(set(asked)) > 1


def test_a_source_frame_without_a_face_is_passed_on_bit_for_bit(clip_packet: Packet, engine: Engine) -> None:
    frames = [frame.copy() for frame in render_plan(clip_packet, steady_plan(clip_packet, 10), engine)]
    untouched = rgb_to_yuv420(clip_packet.frames)
    np.testing.assert_array_equal(frames[2], untouched[2].numpy())
    np.testing.assert_array_equal(frames[7], untouched[2].numpy())
    assert (frames[1] != untouched[1].numpy()).any()


class Counted:
    """Passes frames on and counts them, so that a reader can wait until the producer can get no further ahead."""

    def __init__(self, frames: Iterator[np.ndarray], total: int) -> None:
        self.frames, self.total, self.num_made = frames, total, 0

    def pass_on(self) -> Iterator[np.ndarray]:
        for frame in self.frames:
            self.num_made += 1
            yield frame

    def wait_for(self, num_made: int) -> None:
        deadline = time.monotonic() + 20
        while self.num_made < min(num_made, self.total):
            assert time.monotonic() < deadline, "the producer stalled"
            time.sleep(0.001)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_slow_sink_sees_no_torn_and_no_doubled_frame(batch_size: int, clip_packet: Packet, engine: Engine) -> None:
    plan, depth = steady_plan(clip_packet, 24), FRAMES_HELD - 1
    expected = [frame.copy() for frame in render_plan(clip_packet, plan, engine, batch_size=batch_size)]
    made = Counted(render_plan(clip_packet, plan, engine, batch_size=batch_size), plan.num_frames)
    for number, frame in enumerate(prefetch(made.pass_on(), depth)):
        made.wait_for(number + 1 + depth + 1)  # this frame, a full queue, and one in the producer's hand
        np.testing.assert_array_equal(frame, expected[number])
    assert number == plan.num_frames - 1


def test_a_reader_may_hold_as_many_frames_as_promised(clip_packet: Packet, engine: Engine) -> None:
    plan = steady_plan(clip_packet, 30)
    expected = [frame.copy() for frame in render_plan(clip_packet, plan, engine)]
    held: list[tuple[int, np.ndarray]] = []
    for number, frame in enumerate(render_plan(clip_packet, plan, engine)):
        held = [*held, (number, frame)][-FRAMES_HELD:]
        for index, kept in held:
            np.testing.assert_array_equal(kept, expected[index])


def test_stopping_early_ends_the_threads(clip_packet: Packet, engine: Engine) -> None:
    before = threading.active_count()
    frames = prefetch(render_plan(clip_packet, steady_plan(clip_packet, 50), engine), 2)
    next(frames)
    frames.close()
    assert threading.active_count() == before


def test_equal_seeds_give_equal_motion_and_other_seeds_do_not(clip_packet: Packet, bundle: ModelBundle) -> None:
    features = torch.randn(90, 16, generator=torch.Generator().manual_seed(1))

    def motion(seed: int) -> torch.Tensor:
        return sample_motion(bundle, features, clip_packet, SamplingOptions(seed=seed), CPU)

    first = motion(3)
    assert first.shape == (90, 265)
    assert torch.equal(first, motion(3))
    assert not torch.equal(first, motion(4))


def test_the_stitching_switch_leaves_the_network_out(clip_packet: Packet, bundle: ModelBundle) -> None:
    motion = torch.randn(6, 265, generator=torch.Generator().manual_seed(2)) * 0.01
    last = bundle.stitching.mlp[-1]
    with torch.no_grad():
        last.bias.fill_(0.1)
    try:
        stitched = plan_frames(clip_packet, motion, bundle)
        plain = plan_frames(clip_packet, motion, bundle, stitch=False)
    finally:
        bundle.stitching.reset_to_identity()
    assert (stitched.driving_keypoints - plain.driving_keypoints).abs().max() > 0.05
    assert torch.equal(stitched.source_keypoints, plain.source_keypoints)


@settings(max_examples=30, deadline=None)
@given(num_source=st.integers(1, 6), num_frames=st.integers(1, 40))
def test_source_frames_run_back_and_forth_without_a_jump(num_source: int, num_frames: int) -> None:
    index = mirror_index(np.arange(num_frames), num_source)
    assert index[0] == 0
    assert index.max() < num_source
    assert np.abs(np.diff(index)).max(initial=0) <= 1


def test_a_plan_of_unequal_parts_is_refused() -> None:
    keypoints = torch.zeros(3, 21, 3)
    with pytest.raises(ValueError, match=r"\[3, 4\]"):
        FramePlan(np.zeros(4, np.int64), keypoints, keypoints)


def test_a_still_repeats_its_one_frame(still_packet: Packet, engine: Engine) -> None:
    plan = steady_plan(still_packet, 6)
    assert plan.source_index.tolist() == [0] * 6
    assert len(list(render_plan(still_packet, plan, engine))) == 6


def test_memory_maps_are_not_written_to(bundle: ModelBundle, engine: Engine, tmp_path: Path) -> None:
    packet = tiny_packet(tmp_path, bundle, 3, avatar_id="kept")
    before = {name: tensor.clone() for name, tensor in packet.parts["frames"].tensors.items()}
    list(render_plan(packet, steady_plan(packet, 9), engine))
    assert torch.equal(packet.frames, before["frames"])


def test_motion_from_rest_drives_the_expression_and_leaves_the_pose(still_packet: Packet, bundle: ModelBundle) -> None:
    motion = torch.randn(6, 265, generator=torch.Generator().manual_seed(3)) * 0.1
    options = stitch_options(replace(bundle.config, relative="rest"))
    posed = prestitch(source_motion(still_packet), motion, options, stitching=None)
    assert (posed.head_pose_deg - posed.head_pose_deg[0]).abs().max() == 0
    lips = list(bundle.config.lip_points)
    moved = posed.driving_keypoints - posed.source_keypoints
    scale = still_packet.keypoints["scale"][0]
    expected = scale * motion[:, -63:].unflatten(1, (21, 3))
    torch.testing.assert_close(moved[:, lips], expected[:, lips], atol=1e-5, rtol=1e-4)
