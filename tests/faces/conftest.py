import pytest

from newsstudio_ditto.faces import FaceFinder


@pytest.fixture(scope="session")
def finder() -> FaceFinder:
    return FaceFinder(num_threads=1)
