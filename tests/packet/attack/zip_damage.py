"""Archives that are built to mislead: each is whole as far as its headers say."""

import struct
import zlib
from collections.abc import Callable

from newsstudio_ditto.packet.plain_pickle import encode
from tests.packet.attack.case import FOUND, READ, Case, Registry
from tests.packet.attack.zip_form import End, Form, forms_of, load, pack, refs_of, reseal

ZIPS = Registry()
Forms = list[Form]


def entries(case: Case) -> Forms:
    """The entries of the file to spoil, as they should be."""
    content = load(case.path)
    tensors = content["tensors"]
    assert isinstance(tensors, dict)
    return forms_of(case.part, encode({"header": content["header"], "tensors": refs_of(case.part, tensors)}), tensors)


def store(case: Case, forms: Forms, end: End | None = None) -> None:
    """Write the archive, and make the seal agree with its size."""
    case.path.write_bytes(pack(forms, end))
    reseal(case.file("meta"), case.part, case.path.stat().st_size)


def _of_one(name: str, *outcomes: str) -> Callable[[Callable[[Form, Case], object]], object]:
    """A kind that changes one entry."""

    def register(change: Callable[[Form, Case], object]) -> object:
        @ZIPS.add(f"zip: {name}", *outcomes)
        def spoil(case: Case) -> None:
            forms = entries(case)
            change(case.draw.choice([form for form in forms if not form.name.endswith("version")]), case)
            store(case, forms)

        return spoil

    return register


def _of_all(name: str, *outcomes: str) -> Callable[[Callable[[Forms, Case], object]], object]:
    """A kind that changes the list of entries."""

    def register(change: Callable[[Forms, Case], object]) -> object:
        @ZIPS.add(f"zip: {name}", *outcomes)
        def spoil(case: Case) -> None:
            forms = entries(case)
            end = change(forms, case)
            store(case, forms, end if isinstance(end, End) else None)

        return spoil

    return register


@_of_all("nothing wrong, another tool's layout", READ)
def rebuilt(forms: Forms, case: Case) -> None:
    del forms, case


@_of_all("data descriptors", READ)
def descriptors(forms: Forms, case: Case) -> None:
    for form in forms:
        crc, size = zlib.crc32(form.content), len(form.content)
        form.flags, form.behind = 8, struct.pack("<4sLLL", b"PK\7\x08", crc, size, size)
        form.local = {"crc": 0, "size": 0, "packed": 0, "flags": 8}


@_of_all("an entry twice")
def duplicate(forms: Forms, case: Case) -> None:
    form = case.draw.choice(forms)
    forms.insert(0, Form(form.name, case.draw.randbytes(len(form.content))))


@_of_all("two entries of the same bytes")
def overlapping(forms: Forms, case: Case) -> None:
    forms[-1].offset = 0
    forms[-1].name = forms[0].name


@_of_all("an entry inside another")
def nested(forms: Forms, case: Case) -> None:
    inner = pack([Form(f"{case.part}/data.pkl", encode({"header": {}, "tensors": {}}))])
    forms[0].content = inner + forms[0].content[len(inner) :]
    forms.append(Form(f"{case.part}/extra", b""))
    forms[-1].offset = 64


@_of_one("compressed")
def compressed(form: Form, case: Case) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    form.size, form.crc, form.method = len(form.content), zlib.crc32(form.content), 8
    form.content = packer.compress(form.content) + packer.flush()


@_of_one("a compression bomb")
def bomb(form: Form, case: Case) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    form.content = packer.compress(bytes(50_000_000)) + packer.flush()
    form.size, form.method = 50_000_000, 8


@_of_one("encrypted")
def encrypted(form: Form, case: Case) -> None:
    form.flags = case.draw.choice([1, 0x41, 0x2000])


@_of_one("claims to be huge")
def huge(form: Form, case: Case) -> None:
    form.size = form.packed = case.draw.choice([2**31, 2**32 - 2, 0x7FFFFFFF])


@_of_one("claims to be huge in zip64")
def huge64(form: Form, case: Case) -> None:
    size = case.draw.choice([2**32, 2**40, 2**62, 2**63, 2**64 - 1])
    form.size = form.packed = 0xFFFFFFFF
    form.extra = struct.pack("<2H2Q", 1, 16, size, size)


@_of_one("zip64 without its field")
def lacks_zip64(form: Form, case: Case) -> None:
    form.size = form.packed = 0xFFFFFFFF
    form.extra = case.draw.choice([b"", b"\1\0", struct.pack("<2HQ", 1, 8, 1), struct.pack("<2H", 1, 60000)])


@_of_one("sizes that differ")
def sizes_differ(form: Form, case: Case) -> None:
    form.size = len(form.content) + case.draw.choice([-1, 1, 64])


@_of_one("another size in the local header")
def local_size(form: Form, case: Case) -> None:
    form.local = {"size": case.draw.randrange(2**32)}


@_of_one("another name in the local header")
def local_name(form: Form, case: Case) -> None:
    form.local = {"name": form.name[:-1] + "~"}


@_of_one("starts outside the file")
def outside(form: Form, case: Case) -> None:
    form.offset = case.draw.choice([2**31, 2**32 - 2, 0xFFFFFFF0])


@_of_one("a gap in front")
def gap(form: Form, case: Case) -> None:
    form.before = case.draw.randbytes(case.draw.choice([25, 4096]))


def _named(kind: str, change: Callable[[str], str]) -> None:
    @_of_one(f"named {kind}")
    def rename(form: Form, case: Case) -> None:
        form.name = change(form.name)


_named("absolutely", lambda name: f"/{name}")
_named("upwards", lambda name: f"../../{name}")
_named("of another folder", lambda name: name.replace("/", "2/", 1))
_named("with backslashes", lambda name: name.replace("/", "\\"))
_named("with a drive", lambda name: f"C:/{name}")
_named("with a zero byte", lambda name: f"{name}\0.txt")
_named("with a control character", lambda name: f"{name}\x1b[31m\n")
_named("nothing", lambda name: "")


@_of_all("all names absolute")
def all_absolute(forms: Forms, case: Case) -> None:
    for form in forms:
        form.name = "/" + form.name.partition("/")[2]


@_of_all("an entry missing")
def lacks_entry(forms: Forms, case: Case) -> None:
    del forms[case.draw.randrange(len(forms) - 1)]


@_of_all("an unknown entry")
def stranger(forms: Forms, case: Case) -> None:
    name = case.draw.choice(["code.py", "data/99", "data/0.bak", "../../.bashrc", "__pycache__/x.pyc", "data/"])
    forms.append(Form(f"{case.part}/{name}", b"import os\n"))


@_of_all("thousands of entries")
def many(forms: Forms, case: Case) -> None:
    forms += [Form(f"{case.part}/data/{index}", b"") for index in range(100, 3100)]


@_of_all("a tensor of other length", FOUND)
def longer(forms: Forms, case: Case) -> None:
    forms[0].content = bytes(len(forms[0].content))


@_of_all("a tensor cut short")
def shorter(forms: Forms, case: Case) -> None:
    forms[0].content = forms[0].content[: -case.draw.choice([1, 2, 64])]


@_of_all("tensors off their alignment")
def misaligned(forms: Forms, case: Case) -> None:
    forms[0].name = forms[0].name.replace("/data/", "/data//")


@_of_all("a comment")
def comment(forms: Forms, case: Case) -> End:
    return End(comment=case.draw.choice([b"hello", b"PK\5\6" + bytes(18)]))


@_of_all("something between directory and end")
def between(forms: Forms, case: Case) -> End:
    return End(between=case.draw.randbytes(20), wide=case.draw.random() < 0.5)


@_of_all("another count in the end record")
def wrong_count(forms: Forms, case: Case) -> End:
    return End(count=case.draw.choice([0, len(forms) - 1, len(forms) + 1, 0xFFFF]))


@_of_all("a directory elsewhere")
def wrong_start(forms: Forms, case: Case) -> End:
    return End(start=case.draw.choice([0, 4, 2**31, 0xFFFFFFFF]), wide=case.draw.random() < 0.5)


@_of_all("a directory of another length")
def wrong_size(forms: Forms, case: Case) -> End:
    return End(size=case.draw.choice([0, 1, 2**31, 0xFFFFFFFF]))


@_of_all("zip64 records that are not needed", READ)
def needless_zip64(forms: Forms, case: Case) -> End:
    return End(wide=True)


@_of_all("zip64 records of a huge file")
def huge_zip64(forms: Forms, case: Case) -> End:
    return End(wide=True, start=2**62, size=case.draw.choice([2**61, 2**63]), count=case.draw.choice([3, 2**40]))
