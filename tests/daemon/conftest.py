import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from tests.daemon.running import RunningDaemon, running_daemon, write_tiny
from tests.render.tiny import tiny_packet

TOKEN = "a-long-secret-token"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def bundle(tiny_model: Path) -> ModelBundle:
    torch.set_num_threads(1)
    return write_tiny(tiny_model.with_name("same"))


@pytest.fixture(scope="session")
def filled_storage(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage folder with the avatars anna (a clip of five frames) and still."""
    root = tmp_path_factory.mktemp("filled") / "storage"
    tiny_packet(root, bundle, 5, no_face=(2,))
    tiny_packet(root, bundle, 1, avatar_id="still")
    return root


@pytest.fixture
def storage(filled_storage: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(filled_storage, tmp_path / "storage", symlinks=True))


@pytest.fixture(scope="session")
def daemon(filled_storage: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """One daemon for all tests that leave it as it was."""
    root = tmp_path_factory.mktemp("shared") / "storage"
    shutil.copytree(filled_storage, root, symlinks=True)
    limits = {"body_bytes": 4_000_000, "speech_s": 60.0, "anchor_s": 20.0, "idle_s": 2.0, "decode_s": 20.0}
    with running_daemon(root, tiny_model, limits=limits, queue_limit=2, live_wait_s=1.0) as running:
        yield running


@pytest.fixture(scope="session")
def clip_packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return tiny_packet(tmp_path_factory.mktemp("clip"), bundle, 5)


@pytest.fixture(scope="session")
def still_packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return tiny_packet(tmp_path_factory.mktemp("one"), bundle, 1, avatar_id="still")


@pytest.fixture(scope="session")
def engine(bundle: ModelBundle) -> Engine:
    return Engine(bundle, device=torch.device("cpu"), batch_sizes=(4,))
