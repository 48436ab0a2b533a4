from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle
from newsstudio_ditto.preparation import PacketBuild, build_packet
from newsstudio_ditto.storage import StorageLayout

Pixels = NDArray[np.uint8]

DEMO_ANCHOR = Path(__file__).parents[2] / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"
GAP = 1
"""The frame of the test clip that shows no face."""


def write_clip(path: Path, frames: list[Pixels]) -> Path:
    """A lossless 25 fps clip of (H, W, 3) RGB frames."""
    with av.open(path, "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="session")
def demo_frames() -> list[Pixels]:
    """The first frames of the packaged clip."""
    return [np.array(frame) for frame in decode_frames(DEMO_ANCHOR, max_frames=3).frames]


@pytest.fixture(scope="session")
def gapped_clip(tmp_path_factory: pytest.TempPathFactory, demo_frames: list[Pixels]) -> Path:
    """Three frames; the middle one is grey."""
    frames = [frame if index != GAP else np.full_like(frame, 128) for index, frame in enumerate(demo_frames)]
    return write_clip(tmp_path_factory.mktemp("clips") / "gapped.mkv", frames)


@pytest.fixture(scope="session")
def mini() -> ModelBundle:
    return load_bundle("mini")


@pytest.fixture(scope="session")
def layout(tmp_path_factory: pytest.TempPathFactory) -> StorageLayout:
    return StorageLayout(tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="session")
def build(layout: StorageLayout, gapped_clip: Path, mini: ModelBundle) -> PacketBuild:
    """A packet of the gapped clip."""
    return build_packet(layout, gapped_clip, "anna", bundle=mini)


@pytest.fixture
def stages_seen() -> tuple[list[tuple[str, int, int]], Callable[[str, int, int], None]]:
    seen: list[tuple[str, int, int]] = []
    return seen, lambda stage, done, total: seen.append((stage, done, total))
