"""Verification finds what opening cannot see."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.spec import PART_NAMES, TENSOR_PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.packet.writer import write_part
from tests.packet.samples import AVATAR, GENERATION, fill_bench, make_packet, meta_fields, random_part, stream_of

Frames = list[NDArray[np.uint8]]


@pytest.fixture
def packet(tmp_path: Path) -> Packet:
    return make_packet(tmp_path)


def sealed_with(root: Path, fields: MetaFields, **changed: torch.Tensor) -> Path:
    store = AvatarStore(root)
    fill_bench(store)
    for part, tensor in changed.items():
        write_part(store.bench(AVATAR), stream_of(part, {part: tensor}), generation=GENERATION, avatar_id=AVATAR)
    return store.seal(AVATAR, fields).folder


def decoded(packet: Packet) -> Frames:
    return [np.ascontiguousarray(frame.permute(1, 2, 0).numpy()) for frame in packet.frames]


def test_a_good_packet_has_no_findings(packet: Packet) -> None:
    report = verify_packet(packet.folder)
    assert report.ok
    assert report.num_bytes == sum(tensor.nbytes for part in packet.parts.values() for tensor in part.tensors.values())
    assert report.to_plain() == {"ok": True, "findings": [], "num_bytes": report.num_bytes, "parity": None}


@pytest.mark.parametrize("part", PART_NAMES)
def test_one_flipped_bit_in_a_tensor_is_found_though_it_opens(packet: Packet, part: str) -> None:
    name, entry = next(iter(packet.parts[part].entries.items()))
    path = packet.folder / f"{part}.pt"
    content = bytearray(path.read_bytes())
    content[entry.offset + entry.size // 2] ^= 1
    path.write_bytes(content)
    open_packet(packet.folder)
    found = {
        (finding.part, finding.field, finding.message.split(":")[0])
        for finding in verify_packet(packet.folder).findings
    }
    assert {(part, name, "sha256"), (part, name, "CRC-32")} <= found


@pytest.mark.parametrize("part", TENSOR_PARTS)
def test_a_packet_that_cannot_be_opened_is_one_finding(packet: Packet, part: str) -> None:
    (packet.folder / f"{part}.pt").unlink()
    report = verify_packet(packet.folder)
    assert [finding.field for finding in report.findings] == ["PacketMissingError"]
    assert not report.ok
    assert f"{part}.pt" in str(report.findings[0])


def test_a_mask_without_weight_on_a_frame_with_a_face(tmp_path: Path) -> None:
    masks = random_part("masks")["masks"]
    masks[1] = 0
    folder = sealed_with(tmp_path, meta_fields(), masks=masks)
    assert [str(finding) for finding in verify_packet(folder).findings] == [
        "masks: masks: frame 1 has a face, expected a mask of some weight, got an empty one"
    ]


def test_an_empty_mask_is_right_where_no_face_was_found(tmp_path: Path) -> None:
    masks = random_part("masks")["masks"]
    masks[1] = 0
    valid = torch.tensor([True, False, True])
    assert verify_packet(sealed_with(tmp_path, replace(meta_fields(), face_valid=valid), masks=masks)).ok


def test_no_face_in_any_frame(tmp_path: Path) -> None:
    folder = sealed_with(tmp_path, replace(meta_fields(), face_valid=torch.zeros(3, dtype=torch.bool)))
    assert [finding.field for finding in verify_packet(folder).findings] == ["face_valid"]


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.5], [0.1, 0.0, 1.0]])
def test_crop_matrices_are_affine(tmp_path: Path, row: list[float]) -> None:
    fields = meta_fields()
    matrices = fields.crop_to_original.clone()
    matrices[2, 2] = torch.tensor(row)
    folder = sealed_with(tmp_path, replace(fields, crop_to_original=matrices))
    assert [finding.field for finding in verify_packet(folder).findings] == ["crop_to_original"]
    assert "frame 2" in str(verify_packet(folder).findings[0])


def test_crop_matrices_are_invertible(tmp_path: Path) -> None:
    fields = meta_fields()
    matrices = fields.crop_to_original.clone()
    matrices[0, :2, :2] = 0
    folder = sealed_with(tmp_path, replace(fields, crop_to_original=matrices))
    assert [finding.field for finding in verify_packet(folder).findings] == ["crop_to_original"]


def test_values_that_are_not_finite_are_found_even_with_right_checksums(packet: Packet) -> None:
    """Our writer refuses them, so the file is made by plain torch, with checksums to match."""
    import hashlib

    content = torch.load(packet.folder / "grids.pt", weights_only=True)
    content["tensors"]["grids"][2, 0, 0, 0] = float("nan")
    raw = content["tensors"]["grids"].reshape(-1).view(torch.uint8).numpy().tobytes()
    content["header"]["checksums"]["grids"] = hashlib.sha256(raw).hexdigest()
    torch.save(content, packet.folder / "grids.pt")
    meta = torch.load(packet.folder / "meta.pt", weights_only=True)
    sealed = meta["header"]["extra"]["parts"]["grids"]
    sealed.update(bytes=(packet.folder / "grids.pt").stat().st_size, checksums=content["header"]["checksums"])
    torch.save(meta, packet.folder / "meta.pt")
    assert [str(finding) for finding in verify_packet(packet.folder).findings] == [
        "grids: grids: expected finite values, got NaN or infinity from row 0 on"
    ]


def test_frames_equal_to_the_source(packet: Packet) -> None:
    report = verify_packet(packet.folder, source=iter(decoded(packet)))
    assert report.ok
    assert report.parity is not None
    assert (report.parity.num_frames, report.parity.max_difference, report.parity.first_bad_frame) == (3, 0, None)
    assert report.parity.psnr_db == float("inf")
    parity = report.to_plain()["parity"]
    assert isinstance(parity, dict)
    assert parity["psnr_db"] is None


def test_the_first_frame_that_differs_is_named(packet: Packet) -> None:
    images = decoded(packet)
    images[1] = images[1] ^ np.uint8(128)
    images[2] = images[2] ^ np.uint8(64)
    report = verify_packet(packet.folder, source=images)
    assert report.parity is not None
    assert report.parity.first_bad_frame == 1
    assert report.parity.max_difference == 128
    expected = 10 * np.log10(255**2 * 3 / (128**2 + 64**2))
    assert report.parity.psnr_db == pytest.approx(expected)
    assert [str(finding) for finding in report.findings] == [
        "frames: parity: frame 1 is the first that differs, by up to 128 of 255"
    ]


def test_differences_within_the_tolerance_are_reported_but_no_finding(packet: Packet) -> None:
    images = [np.where(image > 100, image - 2, image + 2).astype(np.uint8) for image in decoded(packet)]
    report = verify_packet(packet.folder, source=images)
    assert report.ok
    assert report.parity is not None
    assert report.parity.max_difference == 2
    assert not verify_packet(packet.folder, source=images, tolerance=1).ok


def endless(packet: Packet) -> Iterator[NDArray[np.uint8]]:
    while True:
        yield from decoded(packet)


def test_a_source_of_another_length_or_size(packet: Packet) -> None:
    images = decoded(packet)
    longer = verify_packet(packet.folder, source=endless(packet))
    assert "expected 3 frames in the source, got more" in str(longer.findings[0])
    shorter = verify_packet(packet.folder, source=images[:2])
    assert "expected 3 frames in the source, got 2" in str(shorter.findings[0])
    other = verify_packet(packet.folder, source=[image[:-2] for image in images])
    assert "frame 0: expected uint8 (3, 16, 12), got uint8 (3, 14, 12)" in str(other.findings[0])
