"""The clip scheduler, whole and streamed, with the golden stand-in denoiser."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from newsstudio_ditto.maths.clips import (
    SHORTEST_STREAM_OVERLAP,
    ClipChain,
    ClipOptions,
    generate_motion,
    stream_motion,
    stream_windows,
)
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_vector import clip_motion, pack_motion
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import N, f32, load_golden
from tests.maths.motions import named_motion, tensor

ARRAYS, FACTS = load_golden("segments/segments")
SOURCE = pack_motion(named_motion("ms/xs/0"))[0]
FEATURES = tensor(f32(N("seg/feat", (400, 4))))
SILENCE = torch.zeros(4)
STORED = slice(None, None, 5)


class StandIn:
    """Deterministic denoiser that records what it was asked."""

    def __init__(self) -> None:
        self.kp_conds: list[Tensor] = []
        self.last_columns: list[Tensor] = []

    def __call__(self, kp_cond: Tensor, cond_window: Tensor) -> Tensor:
        noise = N(f"seg/pred/{len(self.kp_conds)}", (80, 265))
        self.kp_conds.append(kp_cond)
        self.last_columns.append(cond_window[:, -1])
        cond = cond_window.double().numpy()
        return tensor(f32(0.5 * kp_cond.double().numpy() + 0.1 * noise + 0.2 * cond[:, :1] + cond[:, -1:]))


def condition(features: Tensor, first_index: int) -> Tensor:
    index = np.arange(first_index, first_index + len(features))
    return torch.cat([features, tensor(f32(0.01 * index))[:, None]], dim=1)


def options_of(arguments: dict[str, Any]) -> ClipOptions:
    return ClipOptions(
        overlap_frames=arguments.get("overlap_v2", 10),
        smoothing_frames=arguments.get("smo_k_d", 3),
        reset_every=arguments.get("fix_kp_cond", 0),
        carried_dims=tuple(arguments.get("fix_kp_cond_dim", (0, 0))),
    )


def num_features(name: str) -> int:
    return int(re.findall(r"n(\d+)", name)[0])


def assert_calls(denoiser: StandIn, prefix: str) -> None:
    for recorded, key, step in ((denoiser.kp_conds, "kp_cond", 5), (denoiser.last_columns, "cond_last_col", 1)):
        actual = torch.stack(recorded)[:, ::step].numpy()
        assert_golden("segments", f"{prefix}/{key}", actual, ARRAYS[f"{prefix}/{key}"], tolerances.SEGMENTS)


def assert_rows(name: str, actual: Tensor, expected: Any) -> None:
    assert_golden("segments", name, actual[:, STORED], expected, tolerances.SEGMENTS)


@pytest.mark.parametrize("name", FACTS["offline"])
def test_whole_speech(name: str) -> None:
    facts, denoiser = FACTS["offline"][name], StandIn()
    conditions = condition(FEATURES[: num_features(name)], 0)
    motion = generate_motion(conditions, SOURCE, denoiser, options_of(facts["kwargs"]))
    if "v_min_max_for_clip" in facts["kwargs"]:
        motion = clip_motion(motion, torch.full((265,), -1.2), torch.full((265,), 1.1))
    assert_rows(f"offline/{name}/out", motion, ARRAYS[f"offline/{name}/out"])
    assert_calls(denoiser, f"offline/{name}")
    assert mirror_index(np.arange(len(facts["frame_idx"])), 5).tolist() == facts["frame_idx"]


@pytest.mark.parametrize("name", FACTS["online"])
def test_untrimmed_stream(name: str) -> None:
    """Golden row counts are a bug of the reference: too many, or none for a short speech, where ours flushes."""
    facts, denoiser = FACTS["online"][name], StandIn()
    options = options_of(facts["kwargs"])
    chain = ClipChain(denoiser, SOURCE, min(options.overlap_frames, options.stride), options)
    chunks = torch.split(FEATURES[: num_features(name)], 5)
    motion = torch.cat(list(stream_windows(chunks, SILENCE, condition, chain)))
    expected = ARRAYS[f"online/{name}/out"]
    if num_features(name) < options.stride:
        assert len(expected) == 0
        assert len(motion) > 0
    else:
        assert_rows(f"online/{name}/out", motion, expected)
    assert_rows(f"online/{name}/d0", chain.motion[:1], ARRAYS[f"online/{name}/d0"][None])
    assert_calls(denoiser, f"online/{name}")


@pytest.mark.parametrize("name", FACTS["online"])
def test_stream_emits_one_row_per_feature(name: str) -> None:
    options = options_of(FACTS["online"][name]["kwargs"])
    if options.overlap_frames < SHORTEST_STREAM_OVERLAP:
        return
    count = num_features(name)
    chunks = stream_motion(torch.split(FEATURES[:count], 5), SILENCE, condition, SOURCE, StandIn(), options)
    motion = torch.cat(list(chunks))
    expected = ARRAYS[f"online/{name}/out"][:count]
    assert len(motion) == count
    assert_rows(f"online/{name}/out, trimmed", motion[: len(expected)], expected)
