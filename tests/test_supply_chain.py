"""What the product is made of is pinned, hashed, licensed, and can be listed."""

import fnmatch
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from newsstudio_ditto import __version__

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = {
    canonicalize_name(name): Version(version)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for name, version in [line.split("==")]
}


def requirements() -> list[Requirement]:
    project = PYPROJECT["project"]
    listed = [*PYPROJECT["build-system"]["requires"], *project["dependencies"]]
    listed += [entry for extra in project["optional-dependencies"].values() for entry in extra]
    return [Requirement(entry) for entry in listed]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_what_is_asked_for_is_pinned_to_a_version_that_is_allowed(requirement: Requirement) -> None:
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_what_those_need_in_turn_is_pinned() -> None:
    """As far as it is installed here."""
    from importlib.metadata import PackageNotFoundError, distribution

    waiting, seen = [requirement.name for requirement in requirements()], set[str]()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        parsed = [Requirement(entry) for entry in needs]
        waiting += [need.name for need in parsed if need.marker is None or need.marker.evaluate({"extra": ""})]
    # The CUDA libraries are pinned by torch itself, to the digit, and differ from platform to platform.
    loose = {name for name in seen - PINS.keys() if not re.match(r"nvidia-|cuda-|triton$", name)}
    assert loose - {"pip", "setuptools", "wheel"} == set()
    assert len(seen) > 60


def test_everything_carried_along_that_is_no_code_is_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    named = [entry for line in notice.splitlines() if not line.startswith(" ") for entry in line.split(", ")]
    carried = [*(ROOT / "newsstudio_ditto/bundled").rglob("*"), *(ROOT / "tests/media_files").rglob("*")]
    files = [path.relative_to(ROOT).as_posix() for path in carried if path.is_file()]
    own = [path for path in files if path.endswith((".yaml", "README.md", "SHA256SUMS"))]
    loose = [path for path in set(files) - set(own) if not any(_covers(entry, path) for entry in named)]
    assert loose == []
    assert PYPROJECT["project"]["license-files"] == ["LICENSE", "NOTICE"]


def _covers(entry: str, path: str) -> bool:
    return path.startswith(entry) if entry.endswith("/") else fnmatch.fnmatch(path, entry)


@pytest.fixture(scope="module")
def sbom_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("complete_sbom", ROOT / "deploy" / "complete_sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials_names_every_packaged_model_by_its_hash(sbom_program: ModuleType) -> None:
    document = {
        "specVersion": "1.6",
        "metadata": {"component": {"bom-ref": "root-component", "name": "newsstudio-ditto", "type": "application"}},
        "components": [{"type": "library", "name": "torch", "bom-ref": "torch"}],
        "dependencies": [{"ref": "root-component", "dependsOn": ["torch"]}, {"ref": "torch"}],
    }
    completed = sbom_program.complete(document)
    models = [part for part in completed["components"] if part["type"] == "machine-learning-model"]
    files = {f"{path.parent.name}/{path.name}" for path in (ROOT / "newsstudio_ditto/bundled").glob("*/*.safetensors")}
    files |= {f"faces/{path.name}" for path in (ROOT / "newsstudio_ditto/bundled/faces").glob("*.onnx")}
    assert {model["name"] for model in models} == files
    assert all(re.fullmatch("[0-9a-f]{64}", model["hashes"][0]["content"]) for model in models)
    assert completed["metadata"]["component"]["version"] == __version__
    (root,) = [entry for entry in completed["dependencies"] if entry["ref"] == "root-component"]
    assert set(root["dependsOn"]) == {"torch", *(model["bom-ref"] for model in models)}
    assert sbom_program.complete(completed) == completed
