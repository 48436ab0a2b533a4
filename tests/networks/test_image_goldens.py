"""Appearance extractor, motion extractor, decoder and stitching network against the reference's outputs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from newsstudio_ditto.networks.stitching import StitchingNetwork
from tests.golden_rules import Arrays, N, U, f32, load_golden
from tests.networks.golden_checks import assert_all_match, load_rule_weights
from tests.networks.recording import record

CONFIG = OFFICIAL.networks


def pictures(net: str) -> Tensor:
    return torch.from_numpy(f32([U(f"input/{net}/image/{i}", (3, 256, 256)) for i in range(2)]))


def keypoints(net: str, scales: tuple[tuple[float, float], ...]) -> tuple[Tensor, Tensor]:
    source = [a * N(f"input/{net}/kp_source/{i}", (21, 3)) for i, (a, _) in enumerate(scales)]
    driving = [
        start + b * N(f"input/{net}/kp_delta/{i}", (21, 3))
        for i, (start, (_, b)) in enumerate(zip(source, scales, strict=True))
    ]
    return torch.from_numpy(f32(source)), torch.from_numpy(f32(driving))


def check_both(golden: tuple[Arrays, Any], outputs: dict[str, Tensor]) -> None:
    assert_all_match(golden, "b2/", outputs)
    assert_all_match(golden, "b1/", {name: tensor[:1] for name, tensor in outputs.items()})


def test_appearance_extractor_matches_the_reference_stage_by_stage() -> None:
    with torch.device("meta"):
        appearance = AppearanceExtractor(CONFIG.appearance)
    load_rule_weights(appearance, "appearance_feature_extractor", "appearance")
    golden = load_golden("nets/appearance")
    names = {"first": "first", "down_blocks.0": "down0", "down_blocks.1": "down1", "second": "second"}
    names |= {f"resblocks_3d.3dr{i}": f"res{i}" for i in range(6)}
    with record(appearance, names) as seen:
        volume = appearance(pictures("appearance"))
    check_both(golden, seen | {"f_s": volume})


def test_motion_extractor_matches_the_reference_stage_by_stage() -> None:
    with torch.device("meta"):
        network = MotionExtractor(CONFIG.motion_extractor)
    load_rule_weights(network, "motion_extractor", "motion")
    golden = load_golden("nets/motion")
    names = {f"detector.downsample_layers.{i}": f"down{i}" for i in range(4)}
    names |= {f"detector.stages.{i}": f"stage{i}" for i in range(4)} | {"detector.norm": "pooled"}
    with record(network, names) as seen:
        output = network(pictures("motion"))
    published = ("pitch", "yaw", "roll", "t", "exp", "scale", "kp")
    check_both(golden, seen | dict(zip(published, output, strict=True)))


@pytest.fixture(scope="module")
def decoder() -> SpadeDecoder:
    with torch.device("meta"):
        network = SpadeDecoder(CONFIG.decoder)
    load_rule_weights(network, "spade_decoder", "decoder")
    return network


def test_stitching_network_matches_the_reference() -> None:
    with torch.device("meta"):
        network = StitchingNetwork(CONFIG.stitching)
    load_rule_weights(network, "stitching_network", "stitch")
    golden = load_golden("nets/stitch")
    source, driving = keypoints("stitch", ((0.3, 0.05), (0.3, 0.05)))
    for rows in (1, 2):
        pair = source[:rows], driving[:rows]
        outputs = {"delta": network.predict_delta(*pair), "out": network(*pair)}
        assert_all_match(golden, f"b{rows}/", outputs)


@pytest.mark.parametrize("rows", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_decoder_matches_the_reference_stage_by_stage(decoder: SpadeDecoder, rows: int) -> None:
    names = {"fc": "fc", "G_middle_0.norm_0": "mid0_norm0", "up_0": "up0", "up_1": "up1", "up_0.conv_s": "up0_shortcut"}
    names |= {f"G_middle_{i}": f"mid{i}" for i in range(6)} | {"conv_img": "logits"}
    feature = torch.from_numpy(f32([0.5 * N(f"input/decoder/feature/{i}", (256, 64, 64)) for i in range(rows)]))
    with record(decoder, names) as seen:
        image = decoder(feature)
    assert_all_match(load_golden("nets/decoder"), f"b{rows}/", seen | {"image": image})
