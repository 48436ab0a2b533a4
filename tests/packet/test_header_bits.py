"""Every bit behind the tensors, one by one. Seeded damage of all kinds is in ``test_attack``."""

import shutil
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.errors import PacketError
from newsstudio_ditto.packet.reader import Packet, open_packet
from tests.packet.samples import make_packet


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return make_packet(tmp_path_factory.mktemp("root"))


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
