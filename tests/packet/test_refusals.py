"""Everything a reader must refuse, and how it says so."""

import io
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from newsstudio_ditto.errors import (
    PacketError,
    PacketFormatError,
    PacketMissingError,
    PacketMixedError,
    PacketModelError,
)
from newsstudio_ditto.packet.reader import open_packet, open_part
from newsstudio_ditto.packet.spec import PART_NAMES, PARTS
from newsstudio_ditto.packet.writer import write_part
from tests.packet.samples import AVATAR, GENERATION, MODEL, make_packet, random_part, stream_of


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_packet(tmp_path_factory.mktemp("root")).folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A packet that may be spoiled."""
    return Path(shutil.copytree(original, tmp_path / "packet"))


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        """Make unpickling run code."""
        return (os.mkdir, ("pwned",))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a packet file and save it by plain torch."""
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)


def set_header(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["header"].__setitem__(name, value)


def set_tensor(name: str, tensor: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["tensors"].__setitem__(name, tensor)


def set_meta(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["header"]["extra"].__setitem__(name, value)


@pytest.mark.parametrize("part", PART_NAMES)
def test_a_missing_file_is_named(folder: Path, part: str) -> None:
    (folder / f"{part}.pt").unlink()
    with pytest.raises(PacketMissingError, match=rf"lacks {part}\.pt") as caught:
        open_packet(folder)
    assert "newsstudio-ditto preprocess" in caught.value.hint


def test_all_missing_files_are_named_at_once(folder: Path) -> None:
    (folder / "grids.pt").unlink()
    (folder / "meta.pt").unlink()
    with pytest.raises(PacketMissingError, match=r"lacks grids\.pt, meta\.pt"):
        open_packet(folder)


def test_no_packet_at_all(tmp_path: Path) -> None:
    with pytest.raises(PacketMissingError, match="no packet at"):
        open_packet(tmp_path / "nobody")
    (tmp_path / "file").write_text("x")
    with pytest.raises(PacketMissingError, match="no packet at"):
        open_packet(tmp_path / "file")


@pytest.mark.parametrize("part", PART_NAMES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(folder: Path, part: str, share: float) -> None:
    path = folder / f"{part}.pt"
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(PacketFormatError, match=rf"{part}\.pt is"):
        open_packet(folder)


def legacy_save(path: Path) -> None:
    content = torch.load(path, weights_only=True)
    torch.save(content, path, _use_new_zipfile_serialization=False)


def text_file(path: Path) -> None:
    path.write_text("these are not the masks you are looking for")


def safetensors_file(path: Path) -> None:
    save_file(random_part("f_s"), path)


def other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes/hello.txt", "hello")


def compressed_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def code(path: Path) -> None:
    torch.save({"header": Bomb(), "tensors": {}}, path)


def numpy_scalar(path: Path) -> None:
    edit(path, set_header("num_frames", np.float64(3.0)))


def path_value(path: Path) -> None:
    edit(path, set_header("extra", {"source": Path("a.mp4")}))


FOREIGN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "legacy torch format": ("frames", legacy_save, "old format"),
    "text": ("masks", text_file, "is text, not a packet file"),
    "safetensors": ("f_s", safetensors_file, "is a safetensors file"),
    "pickle": ("meta", lambda path: path.write_bytes(pickle.dumps({"a": 1}, protocol=4)), "a bare pickle"),
    "code": ("meta", code, "names 'posix.mkdir', code that packets never hold"),
    "numpy scalar": ("meta", numpy_scalar, "names 'numpy"),
    "path": ("meta", path_value, "names 'pathlib"),
    "other zip": ("grids", other_zip, "no entry byteorder"),
    "compressed zip": ("grids", compressed_zip, "compressed"),
    "tensor alone": ("frames", lambda path: torch.save(torch.zeros(3), path), "expected a dict of header and tensors"),
    "other dict": ("frames", lambda path: torch.save({"state": 1}, path), "expected a dict of header and tensors"),
    "empty": ("frames", lambda path: path.write_bytes(b""), "is empty"),
    "appended": ("frames", lambda path: path.write_bytes(path.read_bytes() + b"x"), "something was appended"),
    "another file of the packet": (
        "grids",
        lambda path: shutil.copy(path.with_name("masks.pt"), path),
        "expected 'grids'",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused_with_reason_and_remedy(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    part, spoil, message = FOREIGN[name]
    spoil(folder / f"{part}.pt")
    with pytest.raises(PacketFormatError, match=message) as caught:
        open_packet(folder)
    assert f"{part}.pt" in caught.value.what
    assert "newsstudio-ditto preprocess" in caught.value.hint
    assert not (folder / "pwned").exists()


WRONG_CONTENT: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "version": ("f_s", set_header("version", 2), "version: expected 1, got 2"),
    "format": ("f_s", set_header("format", "zip"), "format: expected 'newsstudio-ditto packet', got 'zip'"),
    "unknown field": ("f_s", set_header("flavour", "x"), "header: expected format"),
    "missing field": ("f_s", lambda content: content["header"].pop("generation"), "header: expected format"),
    "field type": ("f_s", set_header("generation", 7), "generation: expected str, got int"),
    "boolean number": ("f_s", set_header("num_frames", True), "num_frames: expected int, got bool"),
    "checksum": ("f_s", set_header("checksums", {"f_s": "abc"}), "checksums: expected 64 hex digits"),
    "header is a list": ("f_s", lambda content: content.__setitem__("header", []), "header: expected a dict"),
    "number of frames": ("f_s", set_header("num_frames", 4), "with N = 4"),
    "dtype": ("f_s", set_tensor("f_s", torch.zeros(3, 2, 2, 4, 4)), "expected float16 .*got dtype float32"),
    "axes": (
        "frames",
        set_tensor("frames", torch.zeros(3, 16, 12, 3, dtype=torch.uint8)),
        r"got shape \(3, 16, 12, 3\)",
    ),
    "channels": ("frames", set_tensor("frames", torch.zeros(3, 4, 16, 12, dtype=torch.uint8)), "got shape"),
    "frames differ": ("keypoints", set_tensor("t", torch.zeros(2, 3)), "tensor t: .*with N = 3, got shape"),
    "plain tensor": ("masks", set_tensor("masks", [1, 2]), "got a plain value"),
    "unknown tensor": ("masks", set_tensor("extra", torch.zeros(1)), "tensors: expected masks"),
    "missing tensor": ("keypoints", lambda content: content["tensors"].pop("yaw"), "tensors: expected kp"),
    "meta field missing": ("meta", lambda content: content["header"]["extra"].pop("crop"), "meta fields: expected"),
    "meta field unknown": ("meta", set_meta("mood", "good"), "meta fields: expected"),
    "window type": ("meta", set_meta("paste_window", [1, 2, "a", 4]), "paste_window: expected 4 whole numbers"),
    "window outside": ("meta", set_meta("paste_window", [10, 2, 8, 6]), "inside the frame of 16 x 12"),
    "window odd": ("meta", set_meta("paste_window", [3, 2, 8, 6]), "paste_window: expected even numbers"),
    "window negative": ("meta", set_meta("paste_window", [-2, 2, 8, 6]), "paste_window: expected even numbers"),
    "window shape": ("meta", set_meta("paste_window", [4, 2, 8, 4]), "tensor grids: .*w = 4.*got shape"),
    "frame size": ("meta", set_meta("frame_size", [16, 14]), "tensor frames: .*W = 14.*got shape"),
    "window rule": ("meta", set_meta("window", "loose"), "window: expected tight or full, got loose"),
    "crop range": ("meta", lambda content: content["header"]["extra"]["crop"].update(scale=99.0), "crop scale"),
    "crop type": (
        "meta",
        lambda content: content["header"]["extra"]["crop"].update(scale="2"),
        r"crop\.scale: expected",
    ),
    "options type": ("meta", set_meta("options", {"a": [1]}), r"options\.a: expected a plain value"),
    "parts missing": ("meta", lambda content: content["header"]["extra"]["parts"].pop("masks"), "parts: expected f_s"),
    "parts type": ("meta", set_meta("parts", "all"), "parts: expected a dict"),
    "hash type": ("meta", set_meta("source_hash", 5), "source_hash: expected text, got 5"),
}


@pytest.mark.parametrize("name", WRONG_CONTENT)
def test_wrong_content_names_field_expected_and_got(folder: Path, name: str) -> None:
    part, change, message = WRONG_CONTENT[name]
    edit(folder / f"{part}.pt", change)
    with pytest.raises(PacketFormatError, match=message) as caught:
        open_packet(folder)
    assert caught.value.hint


def test_an_unchanged_torch_save_stays_readable_but_breaks_the_seal(folder: Path) -> None:
    """So the tests above fail for the reason they name."""
    edit(folder / "meta.pt", lambda content: None)
    open_packet(folder)
    edit(folder / "f_s.pt", lambda content: None)
    with pytest.raises(PacketMixedError, match=r"f_s\.pt: bytes: meta\.pt has"):
        open_packet(folder)


@pytest.mark.parametrize("part", [part for part in PART_NAMES if part != "meta"])
def test_a_part_of_another_generation_is_refused(folder: Path, part: str) -> None:
    write_part(folder, stream_of(part, random_part(part)), generation="f0" * 32, avatar_id=AVATAR)
    with pytest.raises(PacketMixedError, match="generation: expected one throughout"):
        open_packet(folder)


def test_a_part_of_another_avatar_is_refused(folder: Path) -> None:
    write_part(folder, stream_of("masks", random_part("masks")), generation=GENERATION, avatar_id="bob")
    with pytest.raises(PacketMixedError, match="avatar_id: expected one throughout"):
        open_packet(folder)


def test_a_part_made_again_with_other_content_is_refused(folder: Path) -> None:
    write_part(folder, stream_of("masks", random_part("masks", seed=9)), generation=GENERATION, avatar_id=AVATAR)
    with pytest.raises(PacketMixedError, match=r"masks\.pt: checksums: meta\.pt has"):
        open_packet(folder)


@pytest.mark.parametrize("part", PART_NAMES)
def test_a_link_out_of_the_packet_is_refused(folder: Path, part: str) -> None:
    path = folder / f"{part}.pt"
    elsewhere = folder.parent / "elsewhere.pt"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(PacketFormatError, match="symbolic link"):
        open_packet(folder)


def test_pipes_and_folders_are_refused_without_waiting(folder: Path) -> None:
    path = folder / "masks.pt"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PacketFormatError, match="not a regular file"):
        open_packet(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(PacketFormatError, match=r"masks\.pt is not a regular file"):
        open_packet(folder)


def test_no_descriptor_is_left_open_by_refusals(folder: Path) -> None:
    (folder / "f_s.pt").write_text("x")
    (folder / "masks.pt").unlink()
    os.mkfifo(folder / "masks.pt")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for part in ("f_s", "masks"):
        for _ in range(5):
            with pytest.raises(PacketError):
                open_part(folder / PARTS[part].file_name, part)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_another_model_is_refused_with_the_remedy(original: Path) -> None:
    packet = open_packet(original)
    packet.expect_model(MODEL)
    with pytest.raises(PacketModelError, match="made for model c3c3c3c3c3c3, the one loaded is 999999999999") as caught:
        packet.expect_model("9" * 64)
    assert caught.value.hint.endswith("--avatar-id anna")


def test_big_endian_files_are_refused(folder: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(folder / "masks.pt") as archive, zipfile.ZipFile(buffer, "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, b"big" if name.endswith("byteorder") else archive.read(name))
    (folder / "masks.pt").write_bytes(buffer.getvalue())
    with pytest.raises(PacketFormatError, match="byte order"):
        open_packet(folder)
