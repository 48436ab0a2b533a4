import pytest
import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from tests.render.tiny import tiny_bundle, tiny_packet

CPU = torch.device("cpu")


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
