"""docs/format.md says what the code does."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.packet.format_table import refresh_table
from newsstudio_ditto.packet.meta import PartSeal
from newsstudio_ditto.packet.spec import PARTS
from tests.packet.samples import make_packet

DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"


def test_the_table_is_fresh() -> None:
    text = DOCUMENT.read_text()
    assert refresh_table(text) == text, "run refresh_table on docs/format.md"


def test_a_stale_table_would_be_noticed() -> None:
    text = DOCUMENT.read_text()
    assert refresh_table(text.replace("| uint8 |", "| int8 |")) == text
    with pytest.raises(ValueError, match="unpack"):
        refresh_table("no markers")


def documented(heading: str) -> set[str]:
    """First column of the first table after some words."""
    table = DOCUMENT.read_text().split(heading, 1)[1].split("\n\n", 2)[1]
    return set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))


def test_header_and_meta_fields_are_those_in_the_files(tmp_path: Path) -> None:
    folder = make_packet(tmp_path).folder
    header = torch.load(folder / "meta.pt", weights_only=True)["header"]
    assert documented("A header has exactly these fields:") == set(header)
    assert documented("`extra` of `meta.pt` has exactly these fields:") == set(header["extra"])
    assert set(header["extra"]["parts"]["f_s"]) == {item.name for item in fields(PartSeal)}
    for name in header["extra"]["parts"]["f_s"]:
        assert f"`{name}`" in DOCUMENT.read_text()


def test_the_bytes_are_as_described(tmp_path: Path) -> None:
    import zipfile

    folder = make_packet(tmp_path).folder
    for spec in PARTS.values():
        with zipfile.ZipFile(folder / spec.file_name) as archive:
            names = [f"data/{index}" for index in range(len(spec.tensors))]
            assert archive.namelist() == [
                f"{spec.name}/{name}" for name in (*names, "data.pkl", "byteorder", "version")
            ]
            assert archive.read(f"{spec.name}/byteorder") == b"little"
            assert archive.read(f"{spec.name}/version") == b"3\n"


def test_every_part_and_tensor_is_in_the_design_order() -> None:
    assert [spec.file_name for spec in PARTS.values()] == [
        "f_s.pt",
        "keypoints.pt",
        "grids.pt",
        "masks.pt",
        "frames.pt",
        "meta.pt",
    ]
    assert [tensor.name for tensor in PARTS["keypoints"]] == ["kp", "pitch", "yaw", "roll", "t", "exp", "scale", "x_s"]
