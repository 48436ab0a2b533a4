"""Warping network against the reference's outputs, stage by stage."""

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.warp import WarpingNetwork
from tests.golden_rules import N, f32, load_golden
from tests.networks.golden_checks import assert_all_match, load_rule_weights
from tests.networks.recording import record

ENCODER, DECODER = "dense_motion_network.hourglass.encoder", "dense_motion_network.hourglass.decoder"
NAMES = {f"{ENCODER}.down_blocks.{i}": f"enc{i}" for i in range(5)}
NAMES |= {f"{DECODER}.up_blocks.{i}": f"dec{i}" for i in range(5)}
NAMES |= {
    "dense_motion_network.hourglass": "hourglass",
    "dense_motion_network.mask": "mask_logits",
    "dense_motion_network.occlusion": "occ_logits",
    "dense_motion_network": "motion",
    "third": "third",
    "fourth": "fourth",
}
INPUTS = {"dense_motion_network.hourglass": "hourglass_in", "third": "third_in"}


@pytest.fixture(scope="module")
def warp() -> WarpingNetwork:
    network = WarpingNetwork(OFFICIAL.networks.warp)
    load_rule_weights(network, "warping_network", "warp")
    return network


def volumes() -> Tensor:
    return torch.from_numpy(f32([N(f"input/warp/feature_3d/{i}", (32, 16, 64, 64)) for i in range(2)]))


def keypoints() -> tuple[Tensor, Tensor]:
    source, driving = [], []
    for i, (a, b) in enumerate(((0.3, 0.05), (0.5, 0.15))):
        source.append(a * N(f"input/warp/kp_source/{i}", (21, 3)))
        driving.append(source[i] + b * N(f"input/warp/kp_delta/{i}", (21, 3)))
    return torch.from_numpy(f32(source)), torch.from_numpy(f32(driving))


def run(warp: WarpingNetwork, volume: Tensor, source: Tensor, driving: Tensor) -> dict[str, Tensor]:
    motion = warp.dense_motion_network
    with record(warp, NAMES, INPUTS) as seen:
        seen["out"] = warp(volume, source, driving)
    seen["compressed"] = motion.compress_volume(volume)
    seen["mask"] = seen["mask_logits"].softmax(dim=1)
    seen["deformation"], seen["occlusion_map"] = seen.pop("motion.0"), seen.pop("motion.1")
    return seen


def test_both_samples_match_the_reference_stage_by_stage(warp: WarpingNetwork) -> None:
    golden = load_golden("nets/warp")
    outputs = run(warp, volumes(), *keypoints())
    assert_all_match(golden, "b2/", outputs)
    assert_all_match(golden, "b1/", {name: tensor[:1] for name, tensor in outputs.items()})


def test_equal_keypoints_match_the_reference_though_they_are_no_identity(warp: WarpingNetwork) -> None:
    source, _ = keypoints()
    assert_all_match(load_golden("nets/warp"), "identity/", run(warp, volumes()[:1], source[:1], source[:1]))
