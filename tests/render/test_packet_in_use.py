"""Renders whose packet is removed, replaced or damaged meanwhile."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.pipeline import render_plan
from tests.render.test_pipeline import steady_plan
from tests.render.tiny import tiny_packet

NUM_FRAMES = 24
BATCH = 2


def frames_after(packet: Packet, engine: Engine, happens: object) -> list[np.ndarray]:
    """Frames of a render in the middle of which something happens."""
    assert callable(happens)
    frames = []
    for index, frame in enumerate(render_plan(packet, steady_plan(packet, NUM_FRAMES), engine, batch_size=BATCH)):
        frames.append(frame.copy())
        if index == 3:
            happens()
    return frames


@pytest.mark.parametrize("event", ["removed", "replaced"])
def test_a_packet_that_goes_away_renders_to_the_end(
    event: str, bundle: ModelBundle, engine: Engine, tmp_path: Path
) -> None:
    packet = tiny_packet(tmp_path, bundle, 3)
    undisturbed = frames_after(packet, engine, lambda: None)
    store = AvatarStore(tmp_path)

    def happens() -> None:
        if event == "removed":
            store.remove(packet.avatar_id)
        else:
            tiny_packet(tmp_path, bundle, 5)
        assert not packet.folder.exists()

    disturbed = frames_after(packet, engine, happens)
    assert len(disturbed) == NUM_FRAMES
    for frame, other in zip(disturbed, undisturbed, strict=True):
        np.testing.assert_array_equal(frame, other)


def test_a_packet_that_is_cut_in_place_ends_the_render_with_its_name(
    clip_packet: Packet, engine: Engine, tmp_path: Path
) -> None:
    packet = open_packet(Path(shutil.copytree(clip_packet.folder, tmp_path / "copy")))
    with pytest.raises(PacketFormatError, match=r"frames\.pt is damaged: it was cut"):
        frames_after(packet, engine, lambda: os.truncate(packet.folder / "frames.pt", 100))
