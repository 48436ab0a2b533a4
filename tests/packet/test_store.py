"""Benches, seals and the published link: whole at every moment, whatever is interrupted or happens at once."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.errors import PacketFormatError, PacketMissingError, PacketMixedError, UsageError
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.files import link_or_copy, locked
from newsstudio_ditto.packet.reader import open_packet
from newsstudio_ditto.packet.spec import TENSOR_PARTS, FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from newsstudio_ditto.packet.writer import write_part
from tests.packet.samples import (
    AVATAR,
    GENERATION,
    LENGTHS,
    fill_bench,
    make_packet,
    meta_fields,
    random_part,
    stream_of,
)

OTHER = "d4" * 32


@pytest.fixture
def store(tmp_path: Path) -> AvatarStore:
    return AvatarStore(tmp_path)


def sets_of(store: AvatarStore, avatar: str = AVATAR) -> list[Path]:
    return sorted((store.root / "cache/sets/ditto" / avatar).iterdir())


def test_the_published_packet_lies_where_the_design_says(store: AvatarStore) -> None:
    make_packet(store.root)
    folder = store.root / "cache/avatars/ditto" / AVATAR
    assert store.published(AVATAR) == folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "f_s.pt",
        "frames.pt",
        "grids.pt",
        "keypoints.pt",
        "masks.pt",
        "meta.pt",
    ]
    assert open_packet(folder).avatar_id == AVATAR
    assert not folder.readlink().is_absolute(), "the storage folder can be moved"


def test_the_storage_folder_can_be_moved(tmp_path: Path) -> None:
    make_packet(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert AvatarStore(tmp_path / "there").open(AVATAR).num_frames == LENGTHS["N"]


def test_parts_take_no_room_twice(store: AvatarStore) -> None:
    packet = make_packet(store.root)
    assert (store.bench(AVATAR) / "frames.pt").samefile(packet.folder / "frames.pt")


def test_a_new_packet_replaces_the_old_one_and_open_maps_stay(store: AvatarStore) -> None:
    old = make_packet(store.root, seed=1)
    frames = old.frames.clone()
    new = make_packet(store.root, seed=2)
    assert not old.folder.exists()
    assert sets_of(store) == [new.folder]
    assert torch.equal(old.frames, frames)
    assert not torch.equal(store.open(AVATAR).frames, frames)


def test_one_part_can_be_made_again(store: AvatarStore) -> None:
    old = make_packet(store.root)
    changed = random_part("masks", seed=5)
    write_part(store.bench(AVATAR), stream_of("masks", changed), generation=GENERATION, avatar_id=AVATAR)
    assert torch.equal(store.open(AVATAR).masks, old.masks), "the published set does not see the bench"
    assert torch.equal(store.seal(AVATAR, meta_fields()).masks, changed["masks"])


def test_bench_records_tell_what_is_there(store: AvatarStore) -> None:
    assert store.bench_record(AVATAR, "masks") is None
    fill_bench(store)
    record = store.bench_record(AVATAR, "masks")
    assert record is not None
    assert (record.generation, record.stage_version, record.shapes["masks"]) == (GENERATION, "masks.1", (3, 1, 8, 6))
    (store.bench(AVATAR) / "masks.pt").write_text("damaged")
    assert store.bench_record(AVATAR, "masks") is None


@pytest.mark.parametrize("part", TENSOR_PARTS)
def test_sealing_wants_all_five_parts_and_keeps_the_old_packet(store: AvatarStore, part: str) -> None:
    old = make_packet(store.root)
    (store.bench(AVATAR) / f"{part}.pt").unlink()
    with pytest.raises(PacketMissingError, match=f"lacks {part}"):
        store.seal(AVATAR, meta_fields())
    assert store.open(AVATAR).folder == old.folder
    assert sets_of(store) == [old.folder]


def spoil_generation(store: AvatarStore) -> None:
    write_part(store.bench(AVATAR), stream_of("masks", random_part("masks")), generation=OTHER, avatar_id=AVATAR)


def spoil_length(store: AvatarStore) -> None:
    tensors = random_part("masks", {**LENGTHS, "N": 4})
    write_part(store.bench(AVATAR), stream_of("masks", tensors), generation=GENERATION, avatar_id=AVATAR)


def spoil_window(store: AvatarStore) -> None:
    tensors = random_part("grids", {**LENGTHS, "w": 4})
    write_part(store.bench(AVATAR), stream_of("grids", tensors), generation=GENERATION, avatar_id=AVATAR)


def spoil_avatar(store: AvatarStore) -> None:
    for part in TENSOR_PARTS:
        write_part(store.bench(AVATAR), stream_of(part, random_part(part)), generation=GENERATION, avatar_id="bob")


def spoil_bytes(store: AvatarStore) -> None:
    (store.bench(AVATAR) / "grids.pt").unlink()
    (store.bench(AVATAR) / "grids.pt").write_bytes(b"PK\x03\x04 no more")


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (spoil_generation, PacketMixedError, "generation: expected one throughout"),
        (spoil_length, PacketFormatError, "with N = 3"),
        (spoil_window, PacketFormatError, "tensor grids"),
        (spoil_avatar, PacketMixedError, "expected parts of anna"),
        (spoil_bytes, PacketFormatError, "grids.pt is damaged"),
    ],
)
def test_a_bench_that_does_not_fit_together_is_not_published(
    store: AvatarStore, spoil: object, error: type[Exception], message: str
) -> None:
    old = make_packet(store.root)
    spoil(store)  # type: ignore[operator]
    with pytest.raises(error, match=message):
        store.seal(AVATAR, meta_fields())
    assert store.open(AVATAR).folder == old.folder
    assert sets_of(store) == [old.folder]


@pytest.mark.parametrize(
    "fields",
    [
        meta_fields(generation=OTHER),
        meta_fields(window=PasteWindow(10, 2, 8, 6)),
        meta_fields(window=PasteWindow(4, 3, 8, 6)),
        replace(meta_fields(), frame_size=FrameSize(18, 12)),
        replace(meta_fields(), eye_open=torch.zeros(4, 2)),
        replace(meta_fields(), eye_ball=torch.full((3, 6), float("nan"))),
        replace(meta_fields(), sc=torch.zeros(21, 3)),
        replace(meta_fields(), options={"path": Path("a")}),  # type: ignore[dict-item]
    ],
    ids=["generation", "window outside", "window odd", "frame size", "length", "not finite", "shape", "not plain"],
)
def test_meta_that_contradicts_the_parts_is_not_published(store: AvatarStore, fields: object) -> None:
    fill_bench(store)
    with pytest.raises((PacketMixedError, PacketFormatError)):
        store.seal(AVATAR, fields)  # type: ignore[arg-type]
    assert store.list() == []
    assert sets_of(store) == []


def test_unknown_avatars_and_bad_names(store: AvatarStore) -> None:
    with pytest.raises(PacketMissingError, match="no packet of avatar 'nobody'"):
        store.open("nobody")
    with pytest.raises(PacketMissingError):
        store.remove("nobody")
    for use in (store.open, store.remove, store.bench, store.published):
        with pytest.raises(UsageError, match="slug"):
            use("../anna")
    assert store.list() == []


def test_list_and_remove(store: AvatarStore) -> None:
    packet = make_packet(store.root)
    make_packet(store.root, "bob")
    frames = packet.frames.clone()
    assert store.list() == ["anna", "bob"]
    assert store.remove(AVATAR) == packet.num_bytes
    assert store.list() == ["bob"]
    assert torch.equal(packet.frames, frames), "open maps outlive the files"
    with pytest.raises(PacketMissingError):
        store.open(AVATAR)
    assert make_packet(store.root).num_frames == LENGTHS["N"]


def test_a_link_out_of_the_store_is_not_followed(store: AvatarStore, tmp_path: Path) -> None:
    packet = make_packet(store.root)
    shutil.copytree(packet.folder, tmp_path / "outside")
    link = store.published(AVATAR)
    link.unlink()
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(PacketFormatError, match="leads out of the store"):
        store.open(AVATAR)


def test_a_folder_copied_in_by_hand_is_read_and_then_replaced(store: AvatarStore) -> None:
    packet = make_packet(store.root)
    link = store.published(AVATAR)
    link.unlink()
    shutil.copytree(packet.folder, link)
    assert store.open(AVATAR).num_frames == LENGTHS["N"]
    new = make_packet(store.root, seed=4)
    assert link.is_symlink()
    assert sets_of(store) == [new.folder]


def test_leftovers_are_listed_and_pruned(store: AvatarStore) -> None:
    packet = make_packet(store.root)
    half = packet.folder.parent / "half-made"
    half.mkdir()
    (half / "f_s.pt").write_bytes(b"x")
    stale = store.bench(AVATAR) / ".f_s.pt.0123456789ab.tmp"
    stale.write_bytes(b"x")
    nowhere = store.published("carl")
    nowhere.symlink_to("../../sets/ditto/carl/gone")
    beside = store.published(AVATAR).with_name(f".{AVATAR}.link")
    beside.symlink_to("gone")
    expected = sorted([half, stale, nowhere, beside])
    assert sorted(store.leftovers()) == expected
    assert sorted(store.prune()) == expected
    assert not any(os.path.lexists(path) for path in expected)
    assert store.leftovers() == []
    assert verify_packet(store.open(AVATAR).folder).ok


def test_interrupted_seals_mend_themselves_at_the_next_good_run(store: AvatarStore) -> None:
    old = make_packet(store.root)
    (old.folder.parent / "half-made").mkdir()
    store.published(AVATAR).with_name(f".{AVATAR}.link").symlink_to("gone")
    (store.bench(AVATAR) / ".grids.pt.0123456789ab.tmp").write_bytes(b"x")
    new = make_packet(store.root, seed=1)
    assert sets_of(store) == [new.folder]
    assert store.leftovers() == []


def test_links_fall_back_to_copies(tmp_path: Path) -> None:
    # /proc is another file system, so a hard link from it cannot be made.
    link_or_copy(Path("/proc/version"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == Path("/proc/version").read_bytes()
    with pytest.raises(FileExistsError):
        link_or_copy(tmp_path / "copy", tmp_path / "copy")


def test_seals_of_one_avatar_take_turns(store: AvatarStore) -> None:
    fill_bench(store)
    sealed = threading.Event()
    with locked(store.root / "cache/locks/ditto" / f"{AVATAR}.lock"):
        thread = threading.Thread(target=lambda: (store.seal(AVATAR, meta_fields()), sealed.set()))
        thread.start()
        assert not sealed.wait(0.3)
        assert store.list() == []
    assert sealed.wait(20)
    thread.join()
    assert store.list() == [AVATAR]


def test_readers_and_sealers_at_once_see_whole_packets(store: AvatarStore) -> None:
    fill_bench(store)
    store.seal(AVATAR, meta_fields())
    stop = time.monotonic() + 2.0

    def seal() -> int:
        count = 0
        while time.monotonic() < stop:
            store.seal(AVATAR, meta_fields(seed=count))
            count += 1
        return count

    def read() -> int:
        count = 0
        while time.monotonic() < stop:
            assert store.open(AVATAR).num_frames == LENGTHS["N"]
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = [job.result() for job in [pool.submit(seal), pool.submit(seal), pool.submit(read), pool.submit(read)]]
    assert min(counts) > 0
    assert sets_of(store) == [store.open(AVATAR).folder]


SEALER = """
    import sys
    from pathlib import Path
    from newsstudio_ditto.packet.store import AvatarStore
    from tests.packet.samples import AVATAR, fill_bench, meta_fields

    store = AvatarStore(Path(sys.argv[1]))
    seed = 0
    while True:
        fill_bench(store, seed=seed)
        store.seal(AVATAR, meta_fields(seed=seed))
        print("sealed", flush=True)
        seed += 1
"""


def test_killed_at_any_moment_the_packet_stays_whole(store: AvatarStore) -> None:
    make_packet(store.root)
    for delay_s in (0.0, 0.013, 0.031):
        command = [sys.executable, "-c", textwrap.dedent(SEALER), str(store.root)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "sealed\n"
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert verify_packet(store.open(AVATAR).folder).ok
    make_packet(store.root, seed=99)
    assert len(sets_of(store)) == 1
    assert store.leftovers() == []
