from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from tests.render.tiny import tiny_bundle, tiny_packet


@pytest.fixture(scope="session")
def bundle() -> ModelBundle:
    return tiny_bundle()


@pytest.fixture(scope="session")
def packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return tiny_packet(tmp_path_factory.mktemp("still"), bundle, 1, avatar_id="still")


@pytest.fixture(scope="session")
def clip_packet(bundle: ModelBundle, tmp_path_factory: pytest.TempPathFactory) -> Packet:
    return tiny_packet(tmp_path_factory.mktemp("clip"), bundle, 4)


@pytest.fixture(scope="session")
def engine(bundle: ModelBundle) -> Engine:
    return Engine(bundle, device=torch.device("cpu"), batch_sizes=(4,))


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    soundfile.write(path, 0.2 * np.sin(np.arange(12 * 640) / 11), 16_000)
    return path
