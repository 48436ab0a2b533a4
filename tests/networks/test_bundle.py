"""Bundles on disk: round trip, laziness, fingerprint, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.build import seeded_network
from newsstudio_ditto.networks.bundle import (
    BUNDLED,
    check_bundle,
    load_bundle,
    replace_networks,
    seeded_bundle,
    write_bundle,
)
from newsstudio_ditto.networks.config import MINI
from newsstudio_ditto.networks.manifest import MANIFEST_NAME, NETWORK_NAMES, read_manifest
from tests.networks.sizes import TINY, TINY_NETWORKS


def write(folder: Path, seed: int = 0) -> Path:
    networks = {name: seeded_network(TINY_NETWORKS, name, seed) for name in NETWORK_NAMES}
    trained = {name: name == "warp" for name in NETWORK_NAMES}
    write_bundle(folder, TINY, networks, name="tiny", licence="none", trained=trained)
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "tiny"
    copy.mkdir()
    for path in original.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def edit_manifest(folder: Path, change: Callable[[Any], None]) -> None:
    path = folder / MANIFEST_NAME
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_written_bundle_comes_back_in_half_precision(folder: Path) -> None:
    bundle = load_bundle(folder)
    assert bundle.config == TINY
    assert check_bundle(folder) == []
    for name in NETWORK_NAMES:
        stored = seeded_network(TINY_NETWORKS, name, 0).state_dict()
        for key, value in getattr(bundle, name).state_dict().items():
            if not key.endswith("freqs"):
                torch.testing.assert_close(value, stored[key].half().to(value.dtype), rtol=0, atol=0)


def test_networks_are_loaded_when_first_used_and_only_once(folder: Path) -> None:
    bundle = load_bundle(folder)
    assert not set(NETWORK_NAMES) & vars(bundle).keys()
    first = bundle.stitching
    assert set(NETWORK_NAMES) & vars(bundle).keys() == {"stitching"}
    assert bundle.stitching is first
    assert not first.training
    assert not any(parameter.requires_grad for parameter in first.parameters())


def test_reduced_precision_leaves_positions_in_float32(folder: Path) -> None:
    bundle = load_bundle(folder, dtype=torch.float16)
    dtypes = {name: next(getattr(bundle, name).parameters()).dtype for name in NETWORK_NAMES}
    assert {name for name, dtype in dtypes.items() if dtype == torch.float32} == {
        "motion_extractor",
        "stitching",
        "motion_diffusion",
    }
    assert bundle.warp.dense_motion_network.axis_px.dtype == torch.float32


def test_fingerprint_follows_weights_and_settings_only(folder: Path, tmp_path: Path) -> None:
    fingerprint = load_bundle(folder).fingerprint
    assert load_bundle(write(tmp_path / "again")).fingerprint == fingerprint
    assert load_bundle(write(tmp_path / "other", seed=1)).fingerprint != fingerprint
    edit_manifest(folder, lambda manifest: manifest["config"].update(num_steps=7))
    assert load_bundle(folder).fingerprint != fingerprint
    assert load_bundle(folder).config.num_steps == 7


def test_replaced_network_counts_as_trained_and_the_others_stay(folder: Path) -> None:
    before = read_manifest(folder)
    network = seeded_network(TINY_NETWORKS, "stitching", 5)
    torch.nn.init.ones_(network.get_parameter("mlp.6.bias"))
    replace_networks(folder, {"stitching": network}, config=replace(TINY, num_steps=3))
    after = read_manifest(folder)
    assert check_bundle(folder) == []
    assert "stitching" in before.untrained
    assert "stitching" not in after.untrained
    changed = {name for name in NETWORK_NAMES if before.files[name].sha256 != after.files[name].sha256}
    assert changed == {"stitching"}
    assert after.config.num_steps == 3


def flip_a_byte(folder: Path) -> None:
    path = folder / "warp.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "warp.safetensors"
    path.write_bytes(path.read_bytes()[:-2])


def remove(folder: Path) -> None:
    (folder / "warp.safetensors").unlink()


@pytest.mark.parametrize(("harm", "words"), [(flip_a_byte, "sha256"), (cut, "bytes"), (remove, "does not exist")])
def test_check_names_the_damaged_file(folder: Path, harm: Callable[[Path], None], words: str) -> None:
    harm(folder)
    findings = check_bundle(folder)
    assert len(findings) == 1
    assert "warp.safetensors" in findings[0]
    assert words in findings[0]


@pytest.mark.parametrize("harm", [cut, remove])
def test_loading_refuses_a_missing_or_cut_file_before_any_network_is_used(
    folder: Path, harm: Callable[[Path], None]
) -> None:
    harm(folder)
    with pytest.raises(BundleError, match=r"warp\.safetensors"):
        load_bundle(folder)


def test_weights_of_another_shape_are_named_by_key(folder: Path) -> None:
    edit_manifest(folder, lambda manifest: manifest["config"]["networks"]["stitching"].update(hidden=[128, 128, 32]))
    expected = r"stitching\.safetensors: key mlp\.4\.bias: expected shape \(32,\), got \(64,\)"
    with pytest.raises(BundleError, match=expected):
        _ = load_bundle(folder).stitching
    assert len(check_bundle(folder)) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(version=2), "version 2"),
        (lambda m: m.update(format="other"), "no manifest"),
        (lambda m: m.update(colour="red"), "colour is unknown"),
        (lambda m: m["config"].pop("crop"), "config.crop is missing"),
        (lambda m: m["config"].update(num_steps="ten"), "config.num_steps: expected int, got 'ten'"),
        (lambda m: m["config"].update(num_steps=0), "num_steps is 0"),
        (lambda m: m["config"].update(relative="last"), "config.relative"),
        (lambda m: m["config"]["networks"]["decoder"].update(feature_channels=7), "differ: 6 and 7"),
        (lambda m: m["files"].pop("warp"), "network warp is missing"),
        (lambda m: m["files"]["warp"].update(file="../warp.safetensors"), "no plain file name"),
    ],
)
def test_manifest_that_is_not_understood_is_refused_by_field(
    folder: Path, change: Callable[[Any], None], words: str
) -> None:
    edit_manifest(folder, change)
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    assert words in caught.value.what
    assert check_bundle(folder) == [caught.value.what]


def test_manifest_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / MANIFEST_NAME).write_text("{")
    with pytest.raises(BundleError, match="cannot be read"):
        load_bundle(folder)


def test_unknown_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no model bundle 'nothing'"):
        load_bundle("nothing")
    assert check_bundle(tmp_path) == [f"there is no model bundle {str(tmp_path)!r}"]


def test_weights_that_half_precision_cannot_hold_are_refused(tmp_path: Path) -> None:
    networks = {name: seeded_network(TINY_NETWORKS, name, 0) for name in NETWORK_NAMES}
    torch.nn.init.constant_(networks["decoder"].get_parameter("fc.bias"), 1e6)
    with pytest.raises(BundleError, match=r"decoder: key fc\.bias"):
        write_bundle(tmp_path, TINY, networks, name="", licence="", trained=dict.fromkeys(NETWORK_NAMES, True))
    assert not (tmp_path / MANIFEST_NAME).exists()


def test_seeded_bundles_are_equal_for_equal_seeds_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first, same, other = (seeded_bundle(TINY, seed) for seed in (1, 1, 2))
    key = "fc.weight"
    assert torch.equal(first.decoder.state_dict()[key], same.decoder.state_dict()[key])
    assert not torch.equal(first.decoder.state_dict()[key], other.decoder.state_dict()[key])
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert set(first.untrained) == set(NETWORK_NAMES)
    torch.testing.assert_close(torch.rand(3), expected)


def test_packaged_bundle_is_sound() -> None:
    assert check_bundle("mini") == []
    bundle = load_bundle("mini")
    assert bundle.config.networks == MINI.networks
    assert not {"appearance", "warp", "decoder"} & set(bundle.untrained)
    assert sum(path.stat().st_size for path in (BUNDLED / "mini").iterdir()) < 22 << 20
