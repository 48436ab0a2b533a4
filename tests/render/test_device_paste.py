"""Device paste-back against the numpy reference, and what it must never touch."""

import numpy as np
import pytest
import torch

from newsstudio_ditto.maths import paste as reference
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.render.paste import paste_back

SIZE = (48, 64)
CROP = 32


def _transform(angle: float, scale: float, shift: tuple[float, float]) -> np.ndarray:
    c, s = scale * np.cos(angle), scale * np.sin(angle)
    return np.array([[c, s, shift[0]], [-s, c, shift[1]], [0, 0, 1]])


@pytest.fixture
def scene() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    mask = feather_mask(CROP, CROP)
    window = PasteWindow(8, 10, 36, 44)
    crops = [_transform(0.2, 0.9, (-14.0, -6.0)), _transform(-0.1, 1.1, (-20.0, -12.0))]
    grids = [reference.paste_grid(matrix, window, CROP) for matrix in crops]
    return {
        "frames": torch.randint(0, 256, (2, 3, *SIZE), dtype=torch.uint8, generator=draw),
        "images": torch.rand(2, 3, CROP, CROP, generator=draw) * 1.2 - 0.1,
        "grids": torch.from_numpy(np.stack(grids)),
        "alphas": torch.from_numpy(np.stack([reference.warped_alpha(grid, mask) for grid in grids])),
        "face_valid": torch.tensor([True, True]),
    }


WINDOW = PasteWindow(8, 10, 36, 44)


def test_it_is_the_numpy_reference(scene: dict[str, torch.Tensor]) -> None:
    pasted = paste_back(**scene, window=WINDOW)
    for i in range(2):
        image = scene["images"][i].clamp(0, 1).permute(1, 2, 0).numpy() * np.float32(255)
        frame = scene["frames"][i].permute(1, 2, 0).numpy()
        expected = reference.paste_back(frame, image, scene["grids"][i].numpy(), scene["alphas"][i].numpy(), WINDOW)
        difference = np.abs(pasted[i].permute(1, 2, 0).numpy().astype(int) - expected.astype(int))
        assert difference.max() <= 1
        assert difference.mean() < 0.01
    assert (pasted != scene["frames"]).any()


def test_a_frame_without_a_face_comes_back_bit_for_bit(scene: dict[str, torch.Tensor]) -> None:
    pasted = paste_back(**{**scene, "face_valid": torch.tensor([False, True])}, window=WINDOW)
    assert torch.equal(pasted[0], scene["frames"][0])
    assert not torch.equal(pasted[1], scene["frames"][1])


def test_outside_window_and_mask_nothing_changes_even_if_the_render_is_broken(scene: dict[str, torch.Tensor]) -> None:
    broken = {**scene, "images": torch.full_like(scene["images"], float("nan"))}
    pasted = paste_back(**broken, window=WINDOW)
    touched = torch.zeros(2, 1, *SIZE, dtype=torch.bool)
    touched[..., WINDOW.slices[0], WINDOW.slices[1]] = scene["alphas"] > 0
    keep = ~touched.expand(-1, 3, -1, -1)
    assert torch.equal(pasted[keep], scene["frames"][keep])


def test_the_background_given_is_not_written_to(scene: dict[str, torch.Tensor]) -> None:
    before = scene["frames"].clone()
    paste_back(**scene, window=WINDOW)
    assert torch.equal(scene["frames"], before)
