import cv2
import numpy as np
import torch

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.crop import anchors_203, crop_transform, halve_image
from newsstudio_ditto.stages.crops import crop_face, read_crops
from tests.golden_rules import load_golden


def test_a_face_crop_is_the_reference_crop_halved() -> None:
    arrays, _ = load_golden("prepost/prepost")
    frame = arrays["frame/a"]
    anchors = anchors_203(arrays["crop/203_17/pts"])
    matrix = crop_transform(*anchors, size_px=512, crop=CropConfig()).original_to_crop
    np.testing.assert_allclose(matrix, arrays["crop/203_17/B512/M_o2c"], atol=2e-3)
    golden = arrays["crop/203_17/B512/M_o2c"]
    whole = cv2.warpAffine(frame, np.float64(golden[:2]), (512, 512), flags=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(whole[::4, ::4], arrays["crop/203_17/B512/img_stride4"])
    crop = crop_face(np.ascontiguousarray(frame.transpose(2, 0, 1)), golden)
    np.testing.assert_array_equal(crop.transpose(1, 2, 0), halve_image(whole))


def test_batches_hold_every_frame_whatever_their_length() -> None:
    generator = np.random.default_rng(3)
    frames = torch.from_numpy(generator.integers(0, 256, (5, 3, 40, 60), np.uint8))
    matrices = np.tile(np.diag([8.0, 8.0, 1.0]).astype(np.float32), (5, 1, 1))
    matrices[:, 0, 2] = np.arange(5)
    whole = torch.cat(list(read_crops(frames, matrices, length=5)))
    parts = list(read_crops(frames, matrices, length=2))
    assert [len(part) for part in parts] == [2, 2, 1]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=0)
    assert whole.shape == (5, 3, 256, 256)
