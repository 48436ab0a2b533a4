import os

import pytest
import torch
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # the first call of an operation may take a second
settings.load_profile("untimed")


@pytest.fixture
def needs_cuda() -> torch.device:
    """A CUDA device; skips where there is none, unless ``DITTO_REQUIRE_CUDA=1`` promises one."""
    if not torch.cuda.is_available():
        if os.environ.get("DITTO_REQUIRE_CUDA") == "1":
            pytest.fail("DITTO_REQUIRE_CUDA=1, but torch finds no CUDA device")
        pytest.skip("needs a CUDA device")
    return torch.device("cuda", 0)
