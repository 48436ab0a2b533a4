"""Replays against eager code on a CUDA device, always with two inputs: one cannot show a stale buffer."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.errors import GraphInputError
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.networks.motion_diffusion import sample_window
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.frame_pool import SWITCH, convert_rows, read_rows
from newsstudio_ditto.render.graph import CapturedGraph
from newsstudio_ditto.render.motion import sample_motion
from newsstudio_ditto.render.pipeline import render_plan
from newsstudio_ditto.render.ring import HostRing
from newsstudio_ditto.render.slices import SourceSlice
from newsstudio_ditto.render.window_sampler import GuidedStep
from tests.render.conftest import CPU
from tests.render.test_pipeline import steady_plan
from tests.render.tiny import tiny_bundle, tiny_packet

MAX_MEAN_LEVELS, MAX_LEVELS = 0.5, 8


def inputs(device: torch.device, seed: int, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    volume = torch.randn(size, 4, 4, 16, 16, generator=draw).half()
    source = 0.3 * torch.randn(size, 21, 3, generator=draw)
    driving = source + 0.05 * torch.randn(size, 21, 3, generator=draw)
    return volume.to(device), source.to(device), driving.to(device)


def on(device: torch.device, plan: FramePlan) -> FramePlan:
    return FramePlan(plan.source_index, plan.source_keypoints.to(device), plan.driving_keypoints.to(device))


def test_a_captured_graph_on_cuda_follows_its_inputs_and_owns_its_buffers(needs_cuda: torch.device) -> None:
    first, second = torch.ones(4, device=needs_cuda), torch.full((4,), 5.0, device=needs_cuda)
    graph = CapturedGraph(lambda x: x * 2 + 1, {"x": first})
    assert graph(x=first).tolist() == [3.0] * 4
    result = graph(x=second)
    assert result.tolist() == [11.0] * 4
    second.zero_()
    assert result.tolist() == [11.0] * 4
    assert graph(x=first) is result  # the same memory, overwritten
    assert result.tolist() == [3.0] * 4


def test_a_captured_graph_on_cuda_refuses_another_shape(needs_cuda: torch.device) -> None:
    graph = CapturedGraph(lambda x: x + 1, {"x": torch.zeros(2, 3, device=needs_cuda)})
    with pytest.raises(GraphInputError, match=r"\(2, 3\).*\(2, 4\)"):
        graph(x=torch.zeros(2, 4, device=needs_cuda))


def test_engine_graphs_on_cuda_paint_what_eager_paints(needs_cuda: torch.device) -> None:
    bundle = tiny_bundle(needs_cuda, torch.float16)
    graphed = Engine(bundle, device=needs_cuda, batch_sizes=(1, 4))
    eager = Engine(bundle, device=needs_cuda, eager=True)
    assert graphed.warm_up() > 0.0
    assert graphed.warm_up() == 0.0
    batches = [inputs(needs_cuda, seed, size) for seed, size in ((1, 4), (2, 4), (3, 1), (4, 3))]
    replayed = [graphed.render(*batch).clone() for batch in batches]
    for image, batch in zip(replayed, batches, strict=True):
        expected = eager.render(*batch)
        assert image.shape == expected.shape
        difference = (image.float() - expected.float()).abs() * 255
        assert difference.mean() < MAX_MEAN_LEVELS
        assert difference.max() < MAX_LEVELS
    with pytest.raises(GraphInputError):
        graphed.render(*inputs(needs_cuda, 5, 5))


def test_motion_on_cuda_is_that_of_the_cpu_and_equal_with_and_without_graphs(
    needs_cuda: torch.device, tmp_path: Path
) -> None:
    features = torch.randn(100, 16, generator=torch.Generator().manual_seed(1))
    options = SamplingOptions(seed=5, num_steps=4)
    on_cpu, on_cuda = tiny_bundle(), tiny_bundle(needs_cuda, torch.float16)
    packet = tiny_packet(tmp_path, on_cpu, 3)
    expected = sample_motion(on_cpu, features, packet, options, CPU)
    step = Engine(on_cuda, device=needs_cuda).guided_step
    replayed = sample_motion(on_cuda, features, packet, options, needs_cuda, step=step)
    eager = sample_motion(on_cuda, features, packet, options, needs_cuda)
    torch.testing.assert_close(replayed, eager, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(replayed.cpu(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("num_source", [1, 5])
def test_frames_on_cuda_are_those_of_the_cpu(num_source: int, needs_cuda: torch.device, tmp_path: Path) -> None:
    on_cpu, on_cuda = tiny_bundle(), tiny_bundle(needs_cuda, torch.float16)
    packet = tiny_packet(tmp_path, on_cpu, num_source)
    plan = steady_plan(packet, 23)
    expected = [frame.copy() for frame in render_plan(packet, plan, Engine(on_cpu, device=CPU))]
    engine = Engine(on_cuda, device=needs_cuda, batch_sizes=(1, 4))
    frames = [frame.copy() for frame in render_plan(packet, on(needs_cuda, plan), engine)]
    assert len(frames) == len(expected)
    for frame, other in zip(frames, expected, strict=True):
        difference = np.abs(frame.astype(int) - other.astype(int))
        assert difference.mean() < MAX_MEAN_LEVELS
        assert difference.max() <= MAX_LEVELS


def test_rows_leave_cuda_through_pinned_slots_in_order(needs_cuda: torch.device) -> None:
    ring = HostRing(4, 1 << 20, needs_cuda)
    for start in range(0, 12, 4):
        values = torch.arange(start, start + 4, dtype=torch.uint8, device=needs_cuda)
        slots = ring.push(values[:, None].expand(-1, 1 << 20).contiguous())
        for value, slot in enumerate(slots, start):
            assert (ring.read(slot) == value).all()


def test_the_motion_kernels_on_cuda_compute_what_the_plain_way_computes(needs_cuda: torch.device) -> None:
    kernels = pytest.importorskip("newsstudio_ditto.render.modulation_kernel")
    assert kernels.find_problem() is None


def test_a_whole_sampling_run_on_cuda_is_that_of_the_plain_loop(needs_cuda: torch.device) -> None:
    denoiser = tiny_bundle(needs_cuda).motion_diffusion
    plain, captured = GuidedStep(denoiser, is_graphed=False), GuidedStep(denoiser, is_graphed=True)
    draw = torch.Generator().manual_seed(6)
    windows = [
        (torch.randn(6, 1, 80, 265, generator=draw), torch.randn(80, denoiser.config.condition_dim, generator=draw))
        for _ in range(2)
    ]
    first = torch.zeros(1, 265, device=needs_cuda)
    found = [captured.sample(noise.to(needs_cuda), first, rows, 2.0) for noise, rows in windows[:1]]
    assert found[0] is not None
    for noise, rows in windows:
        on_device = noise.to(needs_cuda)
        with torch.no_grad():
            encoded = plain.encode(rows, 2.0)
            predict = partial(plain.predict, scale=2.0)
            expected = sample_window(predict, first, encoded, on_device, ddim_schedule(6))
        replayed = captured.sample(on_device, first, rows, 2.0)
        assert replayed is not None
        torch.testing.assert_close(replayed, expected, atol=1e-4, rtol=0)


def test_paste_kernels_on_cuda_paint_what_the_plain_way_paints(needs_cuda: torch.device, tmp_path: Path) -> None:
    packet = tiny_packet(tmp_path, tiny_bundle(), 4, no_face=(2,))
    parts = read_rows(packet, 0, 4)
    images = torch.rand(4, 3, 128, 128, generator=torch.Generator().manual_seed(7)) * 1.2 - 0.1
    plain = SourceSlice(convert_rows(packet, parts))
    on_cuda = SourceSlice(convert_rows(packet, [part.to(needs_cuda) for part in parts]))
    assert torch.equal(on_cuda.rows.planes.cpu(), plain.rows.planes)
    for kind in (torch.contiguous_format, torch.channels_last):
        expected = plain.paint(images, packet.paste_window, packet.frame_size)
        painted = on_cuda.paint(
            images.to(needs_cuda).contiguous(memory_format=kind), packet.paste_window, packet.frame_size
        )
        difference = (painted.cpu().int() - expected.int()).abs()
        assert difference.max() <= 1
        assert difference.float().mean() < 0.01


@pytest.mark.parametrize("switch", ["", "1"])
def test_frames_on_cuda_do_not_depend_on_where_they_wait(
    switch: str, needs_cuda: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    bundle = tiny_bundle(needs_cuda, torch.float16)
    packet = tiny_packet(tmp_path, bundle, 5)
    plan, engine = on(needs_cuda, steady_plan(packet, 41)), Engine(bundle, device=needs_cuda, batch_sizes=(1, 4))
    first, second = ([frame.copy() for frame in render_plan(packet, plan, engine)] for _ in range(2))
    expected = [frame.copy() for frame in render_plan(packet, plan, engine, batch_size=1)]
    for frame, again, other in zip(first, second, expected, strict=True):
        np.testing.assert_array_equal(frame, again)
        assert np.abs(frame.astype(int) - other.astype(int)).max() <= MAX_LEVELS
