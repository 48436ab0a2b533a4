"""One process that spoils packets, opens them and says what came of it, one line of JSON for each.

``python -m tests.packet.attack.worker FIRST STOP``. It lives under limits: address space, and seconds for each packet.
A line is missing where a packet killed the process.
"""

import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.spec import PART_NAMES
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import verify_packet
from tests.packet.attack.byte_damage import BYTES
from tests.packet.attack.case import FAULT, FORGED, FOUND, READ, REFUSED, Case, Mutation
from tests.packet.attack.file_damage import FILES
from tests.packet.attack.header_damage import HEADERS
from tests.packet.attack.zip_damage import ZIPS
from tests.packet.samples import AVATAR, LENGTHS, fill_bench, make_packet, meta_fields

MUTATIONS: list[Mutation] = [*BYTES.mutations, *FILES.mutations, *ZIPS.mutations, *HEADERS.mutations]
SECONDS_EACH = 20
SPARE_BYTES = 1536 * 2**20
MOST_GROWTH_KIB = 512 * 2**10
NOBODY = 65534
_CODE_EVENTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "exec")


@dataclass(frozen=True)
class Verdict:
    """What one mutation came to."""

    seed: int
    kind: str
    part: str
    outcome: str
    detail: str


def another(root: Path, avatar: str, generation: str, seed: int) -> Packet:
    store = AvatarStore(root)
    fill_bench(store, avatar, generation=generation, seed=seed)
    return store.seal(avatar, meta_fields(generation=generation, seed=seed))


def good_packets(root: Path) -> tuple[Packet, dict[str, Packet]]:
    """The packet that is spoiled, and others to mix it with."""
    original = make_packet(root / "original")
    others = {
        "another generation": another(root / "generation", AVATAR, "b7" * 32, 5),
        "other content": make_packet(root / "content", seed=6),
        "another avatar": make_packet(root / "avatar", "bob"),
        "another shape": make_packet(root / "shape", lengths={**LENGTHS, "N": 4}),
    }
    return original, others


def judge(case: Case, mutation: Mutation, events: list[str]) -> tuple[str, str]:
    """Spoil a packet, open it as a reader does, and say what that gives."""
    opened = open_packet(case.folder) if mutation.while_open else None
    mutation.change(case)
    with watched(events, Path.cwd()):
        return read(case, mutation, opened)


def read(case: Case, mutation: Mutation, opened: Packet | None) -> tuple[str, str]:
    """Open the packet, or go on with the one that is open, and compare it with good ones."""
    try:
        if opened is not None:
            opened.expect_unchanged()
        packet = opened or as_reader(case.folder, mutation)
    except PacketError as error:
        return REFUSED, complaint(case, error)
    goods = (case.original, *case.others.values())
    if any(same_content(packet, good) for good in goods):
        return READ, ""
    if any(same_tensors(packet, good) for good in goods):
        return FORGED, ""
    report = verify_packet(packet.folder)
    return (FAULT, "another picture, and verify says nothing") if report.ok else (FOUND, str(report.findings[0]))


def as_reader(folder: Path, mutation: Mutation) -> Packet:
    """Open it; where modes of files matter, as somebody who is not allowed everything."""
    if not mutation.unprivileged or os.geteuid():
        return open_packet(folder)
    os.seteuid(NOBODY)
    try:
        return open_packet(folder)
    finally:
        os.seteuid(0)


def complaint(case: Case, error: PacketError) -> str:
    """What a refusal says; it must name the file or the packet, and a command or remedy, in printable text."""
    named = case.path.name in error.what or str(case.folder) in error.what
    assert named, f"it does not name the file: {error.what!r}"
    assert error.hint, f"no remedy: {error.what!r}"
    assert f"{error.what}{error.hint}".isprintable(), f"not printable: {error.what!r}"
    assert len(error.what) < 2000, f"{len(error.what)} characters"
    return error.what


def same_tensors(packet: Packet, good: Packet) -> bool:
    return all(
        torch.equal(bits(tensor), bits(good.parts[part].tensors[name]))
        for part in PART_NAMES
        for name, tensor in packet.parts[part].tensors.items()
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def same_content(packet: Packet, good: Packet) -> bool:
    names = ("paste_window", "frame_size", "window", "crop", "avatar_id", "generation", "model_fingerprint", "fps_rule")
    meta, wanted = packet.meta, good.meta
    same = all(getattr(meta, name) == getattr(wanted, name) for name in (*names, "colour", "source_hash"))
    return same and repr(meta.options) == repr(wanted.options) and same_tensors(packet, good)


@contextlib.contextmanager
def watched(events: list[str], place: Path) -> Iterator[None]:
    """Limit the time, and see to it that nothing ran, stayed open or took much memory."""
    gc.collect()
    files, events[:] = len(os.listdir("/proc/self/fd")), []  # noqa: PTH208
    resident = resident_kib()
    signal.alarm(SECONDS_EACH)
    try:
        yield
    finally:
        signal.alarm(0)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    gc.collect()
    assert not events, f"it ran {events}"
    assert not list(place.iterdir()), f"it made {list(place.iterdir())}"
    assert len(os.listdir("/proc/self/fd")) == files, "a file stayed open"  # noqa: PTH208
    assert growth < MOST_GROWTH_KIB, f"it took {growth // 1024} MiB"


def resident_kib() -> int:
    """Memory in use, after the record of the peak was reset to it."""
    Path("/proc/self/clear_refs").write_text("5")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def try_one(seed: int, root: Path, packets: tuple[Packet, dict[str, Packet]], events: list[str]) -> Verdict:
    """One mutation. The seed says which, of which file, and where."""
    draw = random.Random(seed)
    mutation = MUTATIONS[seed % len(MUTATIONS)]
    original, others = packets
    folder = root / f"case{seed}"
    folder.mkdir()
    for path in original.folder.iterdir():
        shutil.copyfile(path, folder / path.name)
    case = Case(folder, draw.choice(mutation.parts), draw, others, original)
    try:
        outcome, detail = judge(case, mutation, events)
        if outcome not in mutation.outcomes:
            outcome, detail = FAULT, f"{outcome}, expected {sorted(mutation.outcomes)}: {detail}"
    except Exception as error:  # noqa: BLE001 - any other end is what is looked for
        outcome, detail = FAULT, f"{type(error).__name__}: {error}"
    finally:
        if os.path.lexists(folder) and not folder.is_symlink() and folder.is_dir():
            folder.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        folder.unlink(missing_ok=True)
    return Verdict(seed, mutation.name, case.part, outcome, detail)


def main(first: int, stop: int) -> None:
    """Try the mutations of some seeds."""
    events: list[str] = []
    with tempfile.TemporaryDirectory() as root_name:
        root = Path(root_name)
        root.chmod(0o755)
        place = root / "here"
        place.mkdir()
        place.chmod(0o777)
        packets = good_packets(root / "good")
        assert verify_packet(packets[0].folder).ok  # and loads what is loaded late
        os.chdir(place)
        gc.collect()
        gc.freeze()  # what is loaded by now need not be looked through after every packet
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, resource.RLIM_INFINITY))
        sys.addaudithook(lambda event, _: events.append(event) if event in _CODE_EVENTS else None)
        for seed in range(first, stop):
            sys.stdout.write(json.dumps(asdict(try_one(seed, root, packets, events))) + "\n")
            sys.stdout.flush()
        os.chdir("/")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
