import os

import pytest
import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from tests.render.tiny import tiny_bundle, tiny_packet

CPU = torch.device("cpu")


@pytest.fixture
def needs_cuda() -> torch.device:
    """A CUDA device; skips where there is none, unless ``DITTO_REQUIRE_CUDA=1`` promises one."""
    if not torch.cuda.is_available():
        if os.environ.get("DITTO_REQUIRE_CUDA") == "1":
            pytest.fail("DITTO_REQUIRE_CUDA=1, but torch finds no CUDA device")
        pytest.skip("needs a CUDA device")
    return torch.device("cuda", 0)


@pytest.fixture(scope="session")
def bundle() -> ModelBundle:
    return tiny_bundle()


@pytest.fixture(scope="session")
def clip_packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    """Five frames; the face of frame 2 was not found."""
    return tiny_packet(tmp_path_factory.mktemp("clip"), bundle, 5, no_face=(2,))


@pytest.fixture(scope="session")
def still_packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return tiny_packet(tmp_path_factory.mktemp("still"), bundle, 1, avatar_id="still")


@pytest.fixture
def engine(bundle: ModelBundle) -> Engine:
    return Engine(bundle, device=CPU, batch_sizes=(4,))
