"""Damage to files and folders: missing, swapped, of another kind, unreadable, and mixed packets."""

import os
import shutil
import socket

from newsstudio_ditto.packet.spec import PART_NAMES
from tests.packet.attack.case import FOUND, READ, Case, Registry

FILES = Registry()
TIB = 2**40


@FILES.add("missing")
def missing(case: Case) -> None:
    case.path.unlink()


@FILES.add("empty")
def empty(case: Case) -> None:
    os.truncate(case.path, 0)


@FILES.add("a hole at the end")
def extended(case: Case) -> None:
    os.truncate(case.path, case.path.stat().st_size + case.draw.choice([1, 4096, TIB]))


@FILES.add("nothing but a hole")
def all_hole(case: Case) -> None:
    os.truncate(case.path, 0)
    os.truncate(case.path, case.draw.choice([4096, 2**32, 8 * TIB]))


@FILES.add("a tensor lost to a hole", FOUND)
def hole_in_a_tensor(case: Case) -> None:
    """What a crash can leave on file systems that fill in late."""
    entry = case.original.parts[case.part].entries[case.tensor_name]
    content = bytearray(case.path.read_bytes())
    content[entry.offset : entry.offset + entry.size] = bytes(entry.size)
    case.path.write_bytes(content)


@FILES.add("a folder")
def folder_instead(case: Case) -> None:
    case.path.unlink()
    case.path.mkdir()


@FILES.add("a pipe")
def pipe_instead(case: Case) -> None:
    case.path.unlink()
    os.mkfifo(case.path)


@FILES.add("a socket")
def socket_instead(case: Case) -> None:
    case.path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(case.path))


@FILES.add("a link to the real file")
def link_to_file(case: Case) -> None:
    case.path.unlink()
    case.path.symlink_to(case.original.parts[case.part].path)


@FILES.add("a link to somewhere else")
def link_elsewhere(case: Case) -> None:
    case.path.unlink()
    case.path.symlink_to(case.draw.choice(["/dev/zero", "/dev/null", "/etc/hostname", "/proc/self/mem", "nowhere"]))


@FILES.add("a link to itself")
def link_ring(case: Case) -> None:
    case.path.unlink()
    case.path.symlink_to(case.path.name)


@FILES.add("the folder a link to itself")
def folder_ring(case: Case) -> None:
    shutil.rmtree(case.folder)
    case.folder.symlink_to(case.folder.name)


@FILES.add("the folder a file")
def folder_is_a_file(case: Case) -> None:
    shutil.rmtree(case.folder)
    case.folder.write_bytes(b"packet")


@FILES.add("a file that may not be read", unprivileged=True)
def unreadable_file(case: Case) -> None:
    case.path.chmod(0)


@FILES.add("a folder that may not be entered", unprivileged=True)
def unreadable_folder(case: Case) -> None:
    case.folder.chmod(0)


@FILES.add("two files swapped")
def swapped_names(case: Case) -> None:
    other = case.draw.choice([part for part in PART_NAMES if part != case.part])
    first, second = case.path.read_bytes(), case.file(other).read_bytes()
    case.path.write_bytes(second)
    case.file(other).write_bytes(first)


@FILES.add("one file copied over another")
def copied_over(case: Case) -> None:
    other = case.draw.choice([part for part in PART_NAMES if part != case.part])
    case.path.write_bytes(case.file(other).read_bytes())


def _mixed(name: str) -> None:
    @FILES.add(f"a file of a packet of {name}")
    def change(case: Case) -> None:
        shutil.copyfile(case.others[name].parts[case.part].path, case.path)


for _name in ("another generation", "other content", "another avatar", "another shape"):
    _mixed(_name)


@FILES.add("several files of another generation")
def half_replaced(case: Case) -> None:
    other = case.others["another generation"]
    for part in case.draw.sample(PART_NAMES, case.draw.randrange(1, 6)):
        shutil.copyfile(other.parts[part].path, case.file(part))


@FILES.add("all files of another packet", READ)
def all_replaced(case: Case) -> None:
    other = case.draw.choice(list(case.others.values()))
    for part in PART_NAMES:
        shutil.copyfile(other.parts[part].path, case.file(part))


@FILES.add("other files beside it", READ)
def strangers(case: Case) -> None:
    (case.folder / "notes.txt").write_text("hello")
    (case.folder / ".f_s.pt.0011.tmp").write_bytes(b"half")
    (case.folder / "pickle.pt").write_bytes(b"\x80\x02cos\nsystem\n(X\x04\0\0\0truetR.")


@FILES.add("cut in place while it is open", while_open=True)
def cut_in_use(case: Case) -> None:
    os.truncate(case.path, case.draw.randrange(case.path.stat().st_size))


@FILES.add("rewritten in place while it is open", while_open=True)
def rewritten_in_use(case: Case) -> None:
    content = case.path.read_bytes()
    case.path.write_bytes(case.draw.randbytes(len(content)))
    os.utime(case.path, ns=(0, case.draw.randrange(10**18)))


@FILES.add("extended in place while it is open", while_open=True)
def extended_in_use(case: Case) -> None:
    with case.path.open("ab") as file:
        file.write(case.draw.randbytes(4096))


@FILES.add("removed while it is open", READ, while_open=True)
def removed_in_use(case: Case) -> None:
    shutil.rmtree(case.folder)


@FILES.add("replaced by rename while it is open", READ, while_open=True)
def replaced_in_use(case: Case) -> None:
    beside = case.folder / "beside"
    beside.write_bytes(case.draw.randbytes(100))
    beside.replace(case.path)


@FILES.add("linked and locked while it is open", READ, while_open=True)
def linked_in_use(case: Case) -> None:
    os.link(case.path, case.folder / "second name")
    case.path.chmod(0)
