"""Seeded damage to packet files: a typed error, or content that is right, or a finding of verify. Never a crash."""

import random
import shutil
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.spec import PART_NAMES
from newsstudio_ditto.packet.verify import verify_packet
from tests.packet.samples import make_packet

NUM_MUTATIONS = 72
KINDS = ("flip a bit", "flip a header bit", "zero a range", "cut out", "insert", "repeat", "truncate", "swap")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return make_packet(tmp_path_factory.mktemp("root"))


def mutate(content: bytearray, kind: str, draw: random.Random) -> bytearray:
    """One change to the bytes of a file; ``kind`` says which."""
    start = draw.randrange(len(content))
    length = draw.choice([1, 4, 64, 4096])
    piece = content[start : start + length]
    match kind:
        case "flip a bit":
            content[start] ^= 1 << draw.randrange(8)
        case "flip a header bit":
            # Headers are at the end of the file, and in front of each page-aligned tensor.
            place = draw.choice([len(content) - 1 - draw.randrange(1200), draw.randrange(60)])
            content[place] ^= 1 << draw.randrange(8)
        case "zero a range":
            content[start : start + length] = bytes(len(piece))
        case "cut out":
            del content[start : start + length]
        case "insert":
            content[start:start] = draw.randbytes(length)
        case "repeat":
            content[start:start] = piece
        case "truncate":
            del content[start:]
        case "swap":
            other = draw.randrange(len(content))
            content[start], content[other] = content[other], content[start]
    return content


@pytest.mark.parametrize("seed", range(NUM_MUTATIONS))
def test_damage_is_refused_found_or_harmless(original: Packet, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    folder = Path(shutil.copytree(original.folder, tmp_path / "packet"))
    path = folder / f"{draw.choice(PART_NAMES)}.pt"
    path.write_bytes(mutate(bytearray(path.read_bytes()), KINDS[seed % len(KINDS)], draw))
    try:
        packet = open_packet(folder)
    except PacketError as error:
        assert error.what
        assert error.hint
        return
    same = all(
        torch.equal(tensor, original.parts[part].tensors[name])
        for part in PART_NAMES
        for name, tensor in packet.parts[part].tensors.items()
    )
    assert packet.meta.parts == original.meta.parts
    assert verify_packet(folder).ok == same


def test_every_bit_of_the_headers_is_guarded(original: Packet, tmp_path: Path) -> None:
    """Any single bit flipped behind the tensors is refused, or changes nothing that is read."""
    folder = Path(shutil.copytree(original.folder, tmp_path / "packet"))
    path = folder / "masks.pt"
    good = path.read_bytes()
    entry = original.parts["masks"].entries["masks"]
    refused = 0
    places = range(entry.offset + entry.size, len(good), 3)
    for place in places:
        content = bytearray(good)
        content[place] ^= 1 << (place % 8)
        path.write_bytes(content)
        try:
            packet = open_packet(folder)
        except PacketError:
            refused += 1
            continue
        assert torch.equal(packet.masks, original.masks)
        assert packet.meta.parts == original.meta.parts
    assert refused > 0.85 * len(places)
