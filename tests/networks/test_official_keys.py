"""The published checkpoints' keys, shapes and wrappings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.build import expected_state, seeded_network
from newsstudio_ditto.networks.bundle import check_bundle, load_bundle
from newsstudio_ditto.networks.checkpoints import (
    OFFICIAL_FILES,
    convert_official,
    read_checkpoint,
    unwrap_checkpoint,
    unwrap_hubert,
)
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.unwrap import find_mismatch, fold_spectral_norm, fold_weight_norm
from tests.golden_rules import load_json
from tests.networks.published import as_published
from tests.networks.sizes import TINY, TINY_NETWORKS

MANIFESTS = {
    "appearance": ("appearance_feature_extractor", 107),
    "motion_extractor": ("motion_extractor", 212),
    "warp": ("warping_network", 97),
    "decoder": ("spade_decoder", 182),
    "stitching": ("stitching_network", 8),
    "motion_diffusion": ("lmdm", 249),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_full_width_networks_take_the_published_keys_strictly(name: str) -> None:
    file, num_entries = MANIFESTS[name]
    entries = load_json(f"manifest/{file}.json")["entries"]
    assert len(entries) == num_entries
    published = {key: torch.empty(shape) for key, (shape, _, _) in entries.items()}
    plain = fold_spectral_norm(published)
    assert find_mismatch(expected_state(OFFICIAL.networks, name), plain) is None


def spectral_layer() -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(3)
    layer = nn.utils.spectral_norm(nn.Conv2d(3, 5, 3), n_power_iterations=4)
    layer.train()(torch.randn(1, 3, 8, 8))
    return layer.eval(), {f"conv.{key}": value for key, value in layer.state_dict().items()}


def test_folded_spectral_norm_computes_what_the_wrapped_layer_does() -> None:
    wrapped, state = spectral_layer()
    plain = nn.Sequential()
    plain.add_module("conv", nn.Conv2d(3, 5, 3))
    plain.load_state_dict(fold_spectral_norm(state), strict=True)
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(plain(x), wrapped(x))


@pytest.mark.parametrize("part", ["weight_orig", "weight_u", "weight_v"])
def test_spectral_norm_that_is_not_whole_is_refused(part: str) -> None:
    _, state = spectral_layer()
    del state[f"conv.{part}"]
    with pytest.raises(BundleError, match=part):
        fold_spectral_norm(state)


@pytest.mark.parametrize("old_names", [True, False])
def test_folded_weight_norm_computes_what_the_wrapped_layer_does(old_names: bool) -> None:
    torch.manual_seed(4)
    wrapped = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 4, 5), dim=2)
    state = dict(wrapped.state_dict())
    if old_names:
        state["weight_g"] = state.pop("parametrizations.weight.original0")
        state["weight_v"] = state.pop("parametrizations.weight.original1")
    state = {f"conv.{key}": value for key, value in state.items()}
    plain = nn.Sequential()
    plain.add_module("conv", nn.Conv1d(4, 4, 5))
    plain.load_state_dict(fold_weight_norm(state, dim=2), strict=True)
    x = torch.randn(1, 4, 9)
    torch.testing.assert_close(plain(x), wrapped(x))


keys = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), max_size=4)


@given(keys, keys)
@settings(max_examples=50)
def test_mismatch_is_found_exactly_if_there_is_one(expected: dict[str, int], found: dict[str, int]) -> None:
    tensors = [{key: torch.empty(size) for key, size in sizes.items()} for sizes in (expected, found)]
    mismatch = find_mismatch(*tensors)
    assert (mismatch is None) == (expected == found)
    if mismatch:
        first = min(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        assert f"key {first}" in mismatch


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release" / "models"
    folder.mkdir(parents=True)
    for name, file in OFFICIAL_FILES.items():
        torch.save(as_published(name), folder / file)
    return folder.parent


def test_release_becomes_a_bundle_that_loads(release: Path, tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    convert_official(release, target, config=TINY)
    assert check_bundle(target) == []
    bundle = load_bundle(target)
    assert bundle.untrained == ["audio_encoder"]
    for name in ("appearance", "motion_extractor", "warp", "stitching", "motion_diffusion"):
        original = seeded_network(TINY_NETWORKS, name, 7).state_dict()
        for key, value in getattr(bundle, name).state_dict().items():
            torch.testing.assert_close(value, original[key], rtol=0, atol=0)
    key = "up_0.conv_0.weight"
    scaled = seeded_network(TINY_NETWORKS, "decoder", 7).state_dict()[key] / bundle.decoder.state_dict()[key]
    assert float(scaled.std() / scaled.mean()) < 1e-4, "one factor for the whole layer: its norm"


@pytest.mark.parametrize("wrapper", ["retarget_shoulder", "model_state_dict"])
def test_checkpoint_without_its_wrapper_is_refused(wrapper: str) -> None:
    name = "stitching" if wrapper == "retarget_shoulder" else "motion_diffusion"
    with pytest.raises(BundleError, match=wrapper):
        unwrap_checkpoint(name, {"other": {}}, "file")


def drop_first_key(content: dict[str, Any]) -> dict[str, Any]:
    return dict(list(content.items())[1:])


def add_text(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"first.conv.note": "text"}


@pytest.mark.parametrize(("change", "words"), [(drop_first_key, "is missing"), (add_text, "is no tensor")])
def test_changed_checkpoint_is_refused_by_file_and_key(
    release: Path, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    path = release / "models" / OFFICIAL_FILES["appearance"]
    torch.save(change(as_published("appearance")), path)
    with pytest.raises(BundleError, match=f"{path.name}: key first.conv.*{words}"):
        convert_official(release, tmp_path / "bundle", config=TINY)


def test_release_with_a_missing_file_is_refused(release: Path, tmp_path: Path) -> None:
    (release / "models" / OFFICIAL_FILES["warp"]).unlink()
    with pytest.raises(BundleError, match=OFFICIAL_FILES["warp"]):
        convert_official(release, tmp_path / "bundle", config=TINY)


class Harmful:
    """Asks the reader of a pickle to call a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        """The function, and its argument."""
        return json.loads, ("{}",)


@pytest.mark.parametrize("content", [{"weight": Harmful()}, [1, 2]])
def test_checkpoint_with_code_or_without_a_dict_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "model.pth"
    torch.save(content, path)
    with pytest.raises(BundleError, match=r"model\.pth"):
        read_checkpoint(path)


def test_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"weight": torch.ones(1000)}, path)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(BundleError, match=r"model\.pth"):
        read_checkpoint(path)


def test_hubert_with_a_head_gives_the_encoder_alone() -> None:
    state = {key.removeprefix("hubert."): v for key, v in expected_state(TINY_NETWORKS, "audio_encoder").items()}
    content = {f"hubert.{key}": torch.ones(value.shape) for key, value in state.items()}
    content |= {"hubert.masked_spec_embed": torch.ones(16), "lm_head.weight": torch.ones(3, 16)}
    kernel = content.pop("hubert.encoder.pos_conv_embed.conv.weight")
    content["hubert.encoder.pos_conv_embed.conv.weight_v"] = kernel
    content["hubert.encoder.pos_conv_embed.conv.weight_g"] = torch.ones(1, 1, kernel.shape[2])
    assert find_mismatch(expected_state(TINY_NETWORKS, "audio_encoder"), unwrap_hubert(content)) is None
