"""Every network, captured in a CUDA graph, replays what it computes eagerly."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.networks.bundle import ModelBundle, seeded_bundle
from newsstudio_ditto.networks.config import MINI, BundleConfig
from tests.networks.sizes import TINY


def captured(function: Callable[..., Tensor], *inputs: Tensor) -> Callable[..., Tensor]:
    static = [tensor.clone() for tensor in inputs]
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function(*static)

    def replay(*fresh: Tensor) -> Tensor:
        for buffer, tensor in zip(static, fresh, strict=True):
            buffer.copy_(tensor)
        graph.replay()
        return output.clone()

    return replay


def capture_cases(bundle: ModelBundle) -> dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]]]]:
    device, warp, columns = bundle.device, bundle.config.networks.warp, bundle.config.networks.motion_diffusion
    size, half = warp.volume_px, bundle.dtype

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device)

    def points() -> list[Tensor]:
        return [0.4 * normal(2, 21, 3), 0.4 * normal(2, 21, 3)]

    def predict(x: Tensor, first: Tensor, condition: Tensor, step: Tensor) -> Tensor:
        denoiser = bundle.motion_diffusion
        return denoiser.predict_guided(x, first, denoiser.encode_guided(condition), step, 2.0)

    input_px = bundle.config.networks.appearance.input_px
    return {
        "appearance": (bundle.appearance, lambda: [normal(2, 3, input_px, input_px).to(half)]),
        "motion_extractor": (lambda x: torch.cat(bundle.motion_extractor(x), 1), lambda: [normal(2, 3, 256, 256)]),
        "warp": (
            bundle.warp,
            lambda: [normal(2, warp.volume_channels, warp.volume_depth, size, size).to(half), *points()],
        ),
        "decoder": (bundle.decoder, lambda: [normal(2, warp.feature_channels, size, size).to(half)]),
        "stitching": (bundle.stitching, points),
        "motion_diffusion": (
            predict,
            lambda: [
                normal(2, 80, 265),
                normal(2, 265),
                normal(2, 80, columns.condition_dim),
                torch.randint(1000, (2,), device=device),
            ],
        ),
        "audio_encoder": (bundle.audio_encoder, lambda: [0.1 * normal(2, 6480).to(half)]),
    }


@pytest.mark.parametrize("config", [TINY, MINI], ids=["tiny", "mini"])
@pytest.mark.parametrize(
    "name",
    ["appearance", "motion_extractor", "warp", "decoder", "stitching", "motion_diffusion", "audio_encoder"],
)
def test_captured_network_on_cuda_replays_what_it_computes(
    needs_cuda: torch.device, config: BundleConfig, name: str
) -> None:
    bundle = seeded_bundle(config, device=needs_cuda, dtype=torch.float16)
    function, make_inputs = capture_cases(bundle)[name]
    replay = captured(function, *make_inputs())
    for _ in range(2):
        inputs = make_inputs()
        torch.testing.assert_close(replay(*inputs), function(*inputs), atol=2e-2, rtol=2e-2)
