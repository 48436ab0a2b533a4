"""Painting into planes is pasting back and converting the whole frame."""

import pytest
import torch

from newsstudio_ditto.maths.colour import rgb_to_yuv420
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.paste import frames_to_planes, paint_planes, paste_back
from tests.render.test_device_paste import SIZE, WINDOW, scene

__all__ = ["scene"]


@pytest.mark.parametrize("has_face", [True, False])
def test_painted_planes_are_the_converted_paste_back(scene: dict[str, torch.Tensor], has_face: bool) -> None:
    scene["face_valid"] = torch.tensor([True, has_face])
    expected = rgb_to_yuv420(paste_back(**scene, window=WINDOW))
    frames = scene.pop("frames")
    planes = frames_to_planes(frames)
    untouched = planes.clone()
    patches = frames[..., WINDOW.slices[0], WINDOW.slices[1]]
    paint_planes(planes, patches, **scene, window=WINDOW, frame_size=FrameSize(*SIZE))
    assert torch.equal(planes, expected)
    assert torch.equal(planes[1], untouched[1]) != has_face


def test_painting_twice_is_painting_once(scene: dict[str, torch.Tensor]) -> None:
    frames = scene.pop("frames")
    planes = frames_to_planes(frames)
    patches = frames[..., WINDOW.slices[0], WINDOW.slices[1]]
    paint_planes(planes, patches, **scene, window=WINDOW, frame_size=FrameSize(*SIZE))
    once = planes.clone()
    paint_planes(planes, patches, **scene, window=WINDOW, frame_size=FrameSize(*SIZE))
    assert torch.equal(planes, once)
