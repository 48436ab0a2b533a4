"""Fetching, checking and installing a synthetic release in the official layout."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.inventory import check_model, list_models
from newsstudio_ditto.networks.bundle import check_bundle, find_bundle, load_bundle
from newsstudio_ditto.networks.places import MODELS_VARIABLE
from newsstudio_ditto.official.fetch import RECORD_NAME, fetch_release
from newsstudio_ditto.official.install import install_ditto
from newsstudio_ditto.official.packaged_crop import PACKAGED_CROP
from newsstudio_ditto.official.release import RELEASE_FILES
from newsstudio_ditto.official.release_check import check_release
from newsstudio_ditto.official.settings import read_settings
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.stages.speech import compute_speech_features
from tests.golden_rules import load_json
from tests.networks.published import as_published
from tests.networks.sizes import TINY, TINY_NETWORKS
from tests.official.nets import constant_net, row_encoder
from tests.official.releases import FILES, shipped_settings, write_settings


def place(release: Path, role: str) -> Path:
    return release / FILES[role].path


def test_published_names_and_sizes_are_those_known() -> None:
    known = load_json("manifest/aux_models.json")["published_file_sizes_bytes"]
    sizes = {name: size for name, size in known.items() if not name.startswith("_")}
    assert {file.name: file.published_bytes for file in RELEASE_FILES} == sizes


def test_a_good_release_has_no_fault(original: Path) -> None:
    assert check_release(original, TINY) == []


def rename_key(content: dict[str, Any]) -> dict[str, Any]:
    first, *rest = content
    return {f"{first}x": content[first], **{key: content[key] for key in rest}}


def reshape_key(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"first.conv.weight": torch.zeros(1, 2, 3)}


def halve_key(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"first.conv.weight": content["first.conv.weight"].half()}


def spoil_value(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"first.conv.weight": content["first.conv.weight"] * float("nan")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (rename_key, "key first.conv.weight is missing, key first.conv.weightx is unknown"),
        (reshape_key, r"first.conv.weight: expected shape \(4, 3, 3, 3\), got \(1, 2, 3\)"),
        (halve_key, "first.conv.weight: expected torch.float32, got torch.float16"),
        (spoil_value, "first.conv.weight has values that are not finite"),
    ],
)
def test_a_wrong_checkpoint_is_named_with_its_key(
    release: Path, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    torch.save(change(as_published("appearance")), place(release, "appearance"))
    (finding,) = check_release(release, TINY)
    assert finding.startswith(str(place(release, "appearance")))
    with pytest.raises(BundleError, match=words):
        install_ditto(release, release / "bundle", networks=TINY_NETWORKS)
    assert not (release / "bundle").exists()


@pytest.mark.parametrize("role", FILES)
def test_a_cut_file_is_named_with_the_published_size(release: Path, role: str) -> None:
    path = place(release, role)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (finding,) = check_release(release, TINY)
    assert str(path) in finding
    assert f"published were {FILES[role].published_bytes:,}" in finding


class Harmful:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:  # noqa: D105
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "bare pickle"])
def test_code_in_a_checkpoint_is_refused_and_not_run(release: Path, tmp_path: Path, is_archive: bool) -> None:
    path, bomb = place(release, "stitching"), {"retarget_shoulder": Harmful(tmp_path / "ran")}
    if is_archive:
        torch.save(bomb, path)
    else:
        path.write_bytes(pickle.dumps(bomb, protocol=2))
    (finding,) = check_release(release, TINY)
    assert "stitch_network.pth holds more than tensors and plain values" in finding
    assert f"it names '{os.mkdir.__module__}.mkdir'" in finding
    assert "weights_only" not in finding, "no advice to open it after all"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("role", FILES)
def test_an_absent_file_is_named_with_its_place(release: Path, role: str) -> None:
    place(release, role).unlink()
    assert check_release(release, TINY) == [f"{FILES[role].path} is missing"]


@pytest.mark.parametrize(
    ("role", "takes", "shapes", "words"),
    [
        ("detector", (1, 3, "h", "w"), [(10, 1)], "expected 9 outputs, got 1"),
        ("detector", (1, 1, "h", "w"), [(10, 1)], r"input input: expected float32 \(1, 3, any, any\)"),
        ("landmarks_106", ("n", 3, 192, 192), [(1, 200)], r"output out0: expected float32 \(any, 212\)"),
        ("landmarks_203", (1, 3, 112, 112), [(1, 406)] * 3, r"expected float32 \(any, 3, 224, 224\)"),
        ("hubert", (1, 6480), [(20, 16)], "expected the one input input_values, got input"),
    ],
)
def test_a_net_with_other_ports_is_named(
    release: Path, role: str, takes: tuple[int | str, ...], shapes: list[tuple[int, ...]], words: str
) -> None:
    constant_net(place(release, role), takes, [np.zeros(shape, np.float32) for shape in shapes])
    (finding,) = check_release(release, TINY)
    with pytest.raises(BundleError, match=words):
        raise BundleError(finding)


def test_repacked_203_landmarks_with_one_output_are_taken(release: Path) -> None:
    constant_net(place(release, "landmarks_203"), (1, 3, 224, 224), [np.zeros((1, 406), np.float32)])
    assert check_release(release, TINY) == []


def test_the_folder_check_of_the_command_line_sees_a_release(original: Path, tmp_path: Path) -> None:
    findings = check_model(str(original))
    assert len(findings) == 6, "tiny checkpoints, and a tiny HuBERT, do not fit the full width"
    assert FILES["appearance"].name in findings[0]
    with pytest.raises(BundleError, match="no model bundle"):
        check_model(str(tmp_path))


def test_an_installed_release_is_the_bundle_ditto(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path / "models"))
    with pytest.raises(BundleError, match="models fetch ditto"):
        find_bundle("ditto")
    made = install_ditto(original, networks=TINY_NETWORKS)
    assert find_bundle("ditto") == made.folder == tmp_path / "models" / "ditto"
    assert check_bundle("ditto") == []
    assert "ditto" in [row["name"] for row in list_models()]
    bundle = load_bundle("ditto")
    assert bundle.untrained == []
    settings = read_settings(place(original, "settings"))
    assert bundle.config == replace(settings.bundle, networks=TINY_NETWORKS, crop=PACKAGED_CROP)
    assert bundle.fingerprint == made.fingerprint
    encoder = made.folder / "audio_encoder.onnx"
    assert encoder.samefile(original / FILES["hubert"].path), "linked, not copied"
    speech = np.sin(np.arange(4000, dtype=np.float32))
    assert compute_speech_features(speech, bundle).shape == (7, 16)


def test_without_a_config_the_full_width_of_the_settings_is_asked_for(original: Path, tmp_path: Path) -> None:
    settings = shipped_settings()
    settings["default_kwargs"] |= {"sampling_timesteps": 10, "odd": 1}
    shutil.copytree(original, tmp_path / "release")
    write_settings(tmp_path / "release" / FILES["settings"].path, settings)
    with pytest.raises(BundleError, match=r"appearance.*key .*; 5 more files are wrong"):
        install_ditto(tmp_path / "release", tmp_path / "bundle")


def copying(original: Path, wanted: list[str]) -> Callable[[str, Path, str | None], Path]:
    def download(path: str, folder: Path, revision: str | None) -> Path:
        wanted.append(f"{path}@{revision}")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(original / path, folder / path))

    return download


def test_fetching_takes_what_is_absent_and_records_hashes(original: Path, tmp_path: Path) -> None:
    by_hand = tmp_path / "anywhere" / FILES["detector"].name
    by_hand.parent.mkdir()
    shutil.copyfile(original / FILES["detector"].path, by_hand)
    wanted: list[str] = []
    steps: list[tuple[str, int, int]] = []
    report = fetch_release(
        tmp_path, revision="v1", download=copying(original, wanted), on_file=lambda *step: steps.append(step)
    )
    assert len(wanted) == 11 and all(item.endswith("@v1") for item in wanted)
    assert steps[0] == (RELEASE_FILES[0].name, 1, 12) and steps[-1][1:] == (12, 12)
    assert set(json.loads((tmp_path / RECORD_NAME).read_text())) == {file.path for file in RELEASE_FILES}
    assert len(report.notes) == 12, "no tiny file has the published size"
    again = fetch_release(tmp_path, download=copying(original, wanted))
    assert again.downloaded == () and again.files == report.files and len(wanted) == 11


def test_a_file_that_changed_after_fetching_is_refused(original: Path, tmp_path: Path) -> None:
    fetch_release(tmp_path, download=copying(original, []))
    row_encoder(place(tmp_path, "hubert"), np.ones((400, 16), np.float32), batch=1)
    with pytest.raises(BundleError, match="has changed since it was fetched"):
        fetch_release(tmp_path, download=copying(original, []))


def test_a_file_that_the_hub_announced_differently_is_refused(original: Path, tmp_path: Path) -> None:
    file = FILES["stitching"]
    note = tmp_path / ".cache" / "huggingface" / "download" / f"{file.path}.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"commit\n{hash_file(original / file.path)}\n1.0\n")
    fetch_release(tmp_path, download=copying(original, []))
    note.write_text(f"commit\n{'0' * 64}\n1.0\n")
    with pytest.raises(BundleError, match=r"stitch_network\.pth is not what the hub announced"):
        fetch_release(tmp_path, download=copying(original, []))


def test_without_network_the_error_lists_files_and_places(original: Path, tmp_path: Path) -> None:
    wanted: list[str] = []
    copy = copying(original, wanted)

    def breaking(path: str, folder: Path, revision: str | None) -> Path:
        if len(wanted) == 3:
            raise ConnectionError("no route to host")
        return copy(path, folder, revision)

    with pytest.raises(BundleError, match="no route to host") as caught:
        fetch_release(tmp_path, download=breaking)
    hint = caught.value.hint
    for file in RELEASE_FILES[3:]:
        assert f"resolve/main/{file.path} -> {tmp_path / file.path} ({file.published_bytes:,} bytes)" in hint
    assert RELEASE_FILES[0].name not in hint
    assert len(fetch_release(tmp_path, download=copy).downloaded) == 9, "the rest is fetched on the next call"


def test_the_hub_client_itself_says_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(BundleError, match=r"appearance_extractor\.pth could not be fetched") as caught:
        fetch_release(tmp_path)
    assert "put the files there" in caught.value.hint
