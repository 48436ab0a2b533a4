"""The packaged face nets are the ones that belong to this release."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import newsstudio_ditto
from newsstudio_ditto.cli import main
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.faces import packaged
from newsstudio_ditto.faces.sessions import FaceNetworks

BUNDLED = Path(newsstudio_ditto.__file__).parent / "bundled"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copies of the nets, taken for the packaged ones."""
    folder = Path(shutil.copytree(BUNDLED / "faces", tmp_path / "faces"))
    monkeypatch.setattr(packaged, "_folder", lambda: folder)
    yield folder


def test_every_packaged_net_has_its_hash_and_no_other() -> None:
    assert packaged.check_networks() == []
    assert set(packaged.expected_hashes()) == {path.name for path in (BUNDLED / "faces").glob("*.onnx")}


@pytest.mark.parametrize("name", ["face_detector.onnx", "face_landmarks_detector.onnx"])
def test_one_flipped_bit_is_refused_on_opening_and_found_by_the_check(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(BundleError, match=rf"{name}: sha256: expected"):
        FaceNetworks(num_threads=1)
    assert [f"{name}: sha256" in fault for fault in packaged.check_networks()] == [True]
    result = CliRunner().invoke(main, ["models", "check", "faces"])
    assert result.exit_code == 1
    assert f"{name}: sha256" in result.stdout


def test_without_a_name_everything_packaged_is_checked(copy: Path) -> None:
    (copy / "face_detector.onnx").write_bytes(b"")
    result = CliRunner().invoke(main, ["models", "check"])
    assert result.exit_code == 1
    assert result.stderr == "mini: good\nfaces: 1 faults\n"


def test_a_missing_net_or_list_is_named(copy: Path) -> None:
    (copy / "face_detector.onnx").unlink()
    assert "face_detector.onnx cannot be read" in packaged.check_networks()[0]
    (copy / packaged.HASHES).write_text("nothing\n")
    assert packaged.check_networks() == [f"{copy / packaged.HASHES} holds something else than hashes"]
    (copy / packaged.HASHES).unlink()
    with pytest.raises(BundleError, match="cannot be read"):
        packaged.read_network("face_detector.onnx")


def test_a_net_that_is_not_listed_is_refused(copy: Path) -> None:
    (copy / "other.onnx").write_bytes(b"net")
    with pytest.raises(BundleError, match="expected none"):
        packaged.read_network("other.onnx")
