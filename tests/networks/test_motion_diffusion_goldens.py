"""Motion diffusion against the reference: guided steps, intermediates, rotary embedding, whole DDIM runs."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.maths.diffusion import ddim_schedule, guide
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.motion_diffusion import EncodedCondition, MotionDenoiser, sample_window
from newsstudio_ditto.networks.transformer import RotaryEmbedding
from tests.golden_rules import Arrays, N, f32, load_golden
from tests.networks.golden_checks import assert_matches, load_rule_weights
from tests.networks.recording import record

GUIDANCE = 2.0
Golden = tuple[Arrays, Any]


@pytest.fixture(scope="module")
def denoiser() -> MotionDenoiser:
    network = MotionDenoiser(OFFICIAL.networks.motion_diffusion)
    load_rule_weights(network, "lmdm", "lmdm")
    return network


@pytest.fixture(scope="module")
def golden() -> Golden:
    return load_golden("lmdm/lmdm")


def inputs(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    x = [N(f"input/lmdm/x/{i}", (80, 265)) for i in range(rows)]
    first = [0.5 * N(f"input/lmdm/cond_frame/{i}", (265,)) for i in range(rows)]
    condition = [0.5 * N(f"input/lmdm/cond/{i}", (80, 1103)) for i in range(rows)]
    return torch.from_numpy(f32(x)), torch.from_numpy(f32(first)), torch.from_numpy(f32(condition))


def predicted_noise(golden: Golden, x: Tensor, clean: Tensor, step: int) -> Tensor:
    factor = torch.from_numpy(golden[0]["sched/sqrt_recip1m_alphas_cumprod"])[step]
    divisor = torch.from_numpy(golden[0]["sched/sqrt_recipm1_alphas_cumprod"])[step]
    return x * factor - clean / divisor


@pytest.mark.parametrize("step", [999, 499, 259, 19, 0])
def test_guided_step_matches_the_reference(denoiser: MotionDenoiser, golden: Golden, step: int) -> None:
    x, first, condition = inputs(1)
    encoded = denoiser.encode_guided(condition)
    conditional, unconditional = denoiser.predict_pair(x, first, encoded, torch.tensor([step]))
    clean = guide(conditional, unconditional, GUIDANCE)
    found = {"cond": conditional, "uncond": unconditional, "x_start": clean}
    found["pred_noise"] = predicted_noise(golden, x, clean, step)
    for name, tensor in found.items():
        assert_matches(golden, f"step/b1/t{step}/{name}", tensor)


def test_two_rows_at_different_steps_match_the_reference(denoiser: MotionDenoiser, golden: Golden) -> None:
    x, first, condition = inputs(2)
    encoded = denoiser.encode_guided(condition)
    clean = denoiser.predict_guided(x, first, encoded, torch.tensor([499, 19]), GUIDANCE)
    assert_matches(golden, "step/b2/t499_19/x_start", clean)
    noise = torch.cat([predicted_noise(golden, x[i : i + 1], clean[i : i + 1], t) for i, t in enumerate((499, 19))])
    assert_matches(golden, "step/b2/t499_19/pred_noise", noise)


@pytest.mark.parametrize("kind", ["cond", "uncond"])
def test_intermediates_match_the_reference(denoiser: MotionDenoiser, golden: Golden, kind: str) -> None:
    x, first, condition = inputs(1)
    names = {"cond_projection": "cond_projection", "cond_encoder.0": "cond_enc0", "cond_encoder.1": "cond_enc1"}
    with record(denoiser, names) as encoder:
        given = denoiser.encode_condition(condition)
    encoded = given if kind == "cond" else denoiser.null_condition(1)
    rows = encoder["cond_enc1"] if kind == "cond" else denoiser.null_cond_embed
    names = {f"seqTransDecoder.stack.{i}": f"layer{i}" for i in range(8)} | {
        "input_projection": "input_projection",
        "time_mlp.0": "time_sinusoid",
        "to_time_tokens": "time_tokens",
        "to_time_cond": "time_cond",
        "time_mlp.2": "time_hidden",
        "seqTransDecoder.stack.0.self_attn": "layer0_self_attn",
        "seqTransDecoder.stack.0.multihead_attn": "layer0_cross_attn",
        "seqTransDecoder.stack.0.film1.block": "film1_out",
        "final_layer": "out",
    }
    with record(denoiser, names) as found:
        denoiser(x, first, encoded, torch.tensor([499]))
    found["film_t"] = found.pop("time_cond") + encoded.hidden
    found["memory"] = torch.cat([encoded.memory, denoiser.norm_cond(found["time_tokens"])], dim=1)
    pooled = rows.mean(dim=1)  # of the unconditional pass the reference stored what it computes and then replaces
    found |= encoder | {"cond_hidden": denoiser.non_attn_cond_projection(pooled), "pooled_tokens": pooled}
    prefix = f"inter/{kind}/"
    assert {name for name in golden[1]["tensors"] if name.startswith(prefix)} == {prefix + name for name in found}
    for name, tensor in found.items():
        assert_matches(golden, prefix + name, tensor)


def test_rotary_embedding_matches_the_reference(golden: Golden) -> None:
    turned = RotaryEmbedding(512)(torch.from_numpy(f32(N("input/lmdm/rotary", (1, 80, 512)))))
    assert_matches(golden, "rotary/out", turned)


@pytest.mark.parametrize("num_steps", [pytest.param(50, marks=pytest.mark.slow), 25, 10, 5])
def test_whole_sampling_run_matches_the_reference(denoiser: MotionDenoiser, golden: Golden, num_steps: int) -> None:
    _, first, condition = inputs(1)
    start = N(f"lmdm/ddim/{num_steps}/x_T", (1, 80, 265))
    fresh = [N(f"lmdm/ddim/{num_steps}/noise/{i}", (1, 80, 265)) for i in range(num_steps - 1)]
    seen: list[tuple[Tensor, Tensor]] = []

    def predict(x: Tensor, first_frame: Tensor, encoded: EncodedCondition, step: Tensor) -> Tensor:
        clean = denoiser.predict_guided(x, first_frame, encoded, step, GUIDANCE)
        seen.append((x, clean))
        return clean

    schedule = ddim_schedule(num_steps)
    encoded = denoiser.encode_guided(condition)
    motion = sample_window(predict, first, encoded, torch.from_numpy(f32([start, *fresh])), schedule)
    assert torch.isfinite(motion).all()
    assert_matches(golden, f"ddim/{num_steps}/out", motion)
    if num_steps == 5:
        check_every_step(golden, seen, schedule.times.tolist())


def check_every_step(golden: Golden, seen: list[tuple[Tensor, Tensor]], times: list[int]) -> None:
    for index, (x, clean) in enumerate(seen):
        noise = predicted_noise(golden, x, clean, times[index])
        for name, tensor in {"x": x, "x_start": clean, "pred_noise": noise}.items():
            assert_matches(golden, f"ddim/5/step{index}/{name}", tensor)


def test_guidance_of_one_is_the_conditional_prediction(denoiser: MotionDenoiser) -> None:
    x, first, condition = inputs(1)
    step = torch.tensor([499])
    both = denoiser.encode_guided(condition)
    alone = partial(denoiser.predict_guided, x, first, denoiser.encode_for(condition, 1.0), step, 1.0)
    torch.testing.assert_close(alone(), denoiser.predict_pair(x, first, both, step)[0], atol=1e-5, rtol=0)
