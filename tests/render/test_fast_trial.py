import pytest
import torch
from torch import Tensor

from newsstudio_ditto.render.fast.trial import disagreement, trial_inputs

LIKE = {
    "volume": torch.zeros(3, 2, 2, 4, 4),
    "source_keypoints": torch.zeros(3, 21, 3),
    "driving_keypoints": torch.zeros(3, 21, 3),
}


def plain(volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
    """Pictures in which every input counts."""
    moved = (driving_keypoints - source_keypoints).mean(dim=(1, 2))[:, None, None, None]
    return (torch.sigmoid(volume.mean(dim=2)[:, :1]) * (1 + moved)).clamp(0, 1).expand(-1, 3, -1, -1)


def test_inputs_are_the_same_every_time_and_no_two_rows_are_equal() -> None:
    first, second = trial_inputs(LIKE), trial_inputs(LIKE)
    assert {name: part.shape for name, part in first.items()} == {name: part.shape for name, part in LIKE.items()}
    for name, part in first.items():
        assert torch.equal(part, second[name])
        assert not torch.equal(part[0], part[-1])


def test_equal_pictures_and_rounding_pass() -> None:
    assert disagreement(plain, plain, trial_inputs(LIKE)) is None
    assert disagreement(lambda **given: plain(**given) + 0.4 / 255, plain, trial_inputs(LIKE)) is None


@pytest.mark.parametrize("row", [0, 2])
@pytest.mark.parametrize("wrong", [0.0, float("nan"), float("inf")])
def test_a_wrong_row_is_named(row: int, wrong: float) -> None:
    def fast(**given: Tensor) -> Tensor:
        pictures = plain(**given).clone()
        pictures[row] = wrong
        return pictures

    assert f"row {row} of 3" in str(disagreement(fast, plain, trial_inputs(LIKE)))


def test_a_small_spot_is_found_by_its_squares() -> None:
    def fast(**given: Tensor) -> Tensor:
        pictures = plain(**given).clone()
        pictures[:, :, 0, 0] += 0.1
        return pictures

    assert "dB" in str(disagreement(fast, plain, trial_inputs(LIKE)))


def test_a_stale_input_is_found() -> None:
    stale = trial_inputs(LIKE)["driving_keypoints"].flip(0) * 3

    def fast(volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        return plain(volume, source_keypoints, stale + 0 * driving_keypoints)

    assert disagreement(fast, plain, trial_inputs(LIKE)) is not None
