from pathlib import Path

import pytest
import torch

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError
from newsstudio_ditto.stages.tensor_file import TensorFile, open_tensors, save_tensors

HEADER = {"kind": "driving_motion", "stage_version": "1", "lip_points": [1, 2]}


def test_what_is_saved_comes_back_mapped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "motion.pt"
    content = TensorFile({"motion": torch.arange(6.0).view(2, 3)}, HEADER)
    save_tensors(path, content)
    back = open_tensors(path, kind="driving_motion", remedy="render again")
    torch.testing.assert_close(back.tensors["motion"], content.tensors["motion"])
    assert back.header == HEADER
    assert back.checksum == content.checksum
    assert list(path.parent.iterdir()) == [path]


def test_the_checksum_sees_values_names_dtypes_and_header() -> None:
    base = TensorFile({"a": torch.zeros(2)}, HEADER)
    others = [
        TensorFile({"a": torch.ones(2)}, HEADER),
        TensorFile({"b": torch.zeros(2)}, HEADER),
        TensorFile({"a": torch.zeros(4, dtype=torch.float16)}, HEADER),
        TensorFile({"a": torch.zeros(2)}, {**HEADER, "stage_version": "2"}),
    ]
    assert len({content.checksum for content in (base, *others)}) == 5


def test_a_map_stays_valid_when_its_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save_tensors(path, TensorFile({"a": torch.zeros(5000)}, HEADER))
    old = open_tensors(path, kind="driving_motion", remedy="").tensors["a"]
    save_tensors(path, TensorFile({"a": torch.ones(5000)}, HEADER))
    assert old.sum() == 0


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_damaged_files_are_refused_by_name(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(damage)
    with pytest.raises(PacketFormatError, match=r"x\.pt") as caught:
        open_tensors(path, kind="driving_motion", remedy="render again")
    assert caught.value.hint == "render again"


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PacketMissingError):
        open_tensors(tmp_path / "none.pt", kind="driving_motion", remedy="")
    save_tensors(tmp_path / "x.pt", TensorFile({"a": torch.zeros(1)}, HEADER))
    with pytest.raises(PacketFormatError, match="expected 'face_track', got 'driving_motion'"):
        open_tensors(tmp_path / "x.pt", kind="face_track", remedy="")
