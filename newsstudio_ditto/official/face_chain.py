"""The face networks of the official release, with the reference's own pre- and post-processing.

A frame goes through the detector, the 106 landmarks of its largest face, a crop of 224 pixels, and the 203 landmarks on
that; later frames start from the 203 landmarks before them. Detector and 106 landmarks get blue before red, because
that is what they have always been given; the 203 landmarks get red first.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.anchor_detector import (
    DETECTOR_SIZE_PX,
    LANDMARK106_SIZE_PX,
    LANDMARK203_SIZE_PX,
    Detections,
    decode_detections,
    detector_input_size,
    landmark106_crop,
    landmarks_106,
    landmarks_203,
    largest_box,
)
from newsstudio_ditto.maths.crop import FaceAnchors, anchors_106, anchors_203, crop_transform
from newsstudio_ditto.official.release import FACE_ROLES, require_file
from newsstudio_ditto.official.signatures import SIGNATURES, landmarks_203_output, open_checked

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

LANDMARK203_CROP = CropConfig(scale=1.5, shift_down=-0.1)
_DETECTOR_MEAN, _DETECTOR_SCALE = np.float32(127.5), np.float32(128)


@dataclass(frozen=True, eq=False)
class OfficialFaces:
    """The three networks, opened. Stateless, so threads may share one.

    Args:
        detector: det_10g.
        points_106: 2d106det.
        points_203: landmark203.
    """

    detector: ort.InferenceSession
    points_106: ort.InferenceSession
    points_203: ort.InferenceSession

    @classmethod
    def open(cls, folder: Path) -> "OfficialFaces":
        """Open the files in ``folder``, at any depth.

        Raises:
            BundleError: one is missing, damaged, or has other inputs or outputs.
        """
        opened = [open_checked(require_file(folder, role), SIGNATURES[role]) for role in FACE_ROLES]
        return cls(*opened)

    def detect(self, frame_rgb: Pixels) -> Detections:
        """Every face of a frame (H, W, 3), in frame pixels, by falling score."""
        height, width, scale = detector_input_size(*frame_rgb.shape[:2])
        canvas = np.zeros((DETECTOR_SIZE_PX, DETECTOR_SIZE_PX, 3), np.uint8)
        canvas[:height, :width] = cv2.resize(frame_rgb, (width, height))
        blob = (_planes(canvas[..., ::-1]) - _DETECTOR_MEAN) / _DETECTOR_SCALE
        flat = [output.reshape(-1, output.shape[-1]) for output in _run(self.detector, blob)]
        return decode_detections(flat[:3], flat[3:6], flat[6:9], scale)

    def locate_106(self, frame_rgb: Pixels, box: Floats) -> Floats:
        """(106, 2) landmarks in frame pixels of the face in ``box`` (4+,)."""
        matrix = landmark106_crop(box)
        size = (LANDMARK106_SIZE_PX, LANDMARK106_SIZE_PX)
        crop = cv2.warpAffine(frame_rgb, matrix[:2], size, flags=cv2.INTER_LINEAR, borderValue=0)
        return landmarks_106(_run(self.points_106, _planes(crop[..., ::-1]))[0], matrix)

    def locate_203(self, frame_rgb: Pixels, anchors: FaceAnchors) -> Floats:
        """(203, 2) landmarks in frame pixels, in the upright crop around earlier landmarks."""
        transform = crop_transform(*anchors, size_px=LANDMARK203_SIZE_PX, crop=LANDMARK203_CROP)
        size = (LANDMARK203_SIZE_PX, LANDMARK203_SIZE_PX)
        crop = cv2.warpAffine(frame_rgb, transform.original_to_crop[:2], size, flags=cv2.INTER_LINEAR, borderValue=0)
        outputs = _run(self.points_203, _planes(crop) / np.float32(255))
        return landmarks_203(outputs[landmarks_203_output(self.points_203)], transform.crop_to_original)

    def find(self, frame_rgb: Pixels) -> Floats | None:
        """(203, 2) landmarks of the largest face, or None if the detector sees none."""
        boxes = self.detect(frame_rgb).boxes
        if not len(boxes):
            return None
        return self.locate_203(frame_rgb, anchors_106(self.locate_106(frame_rgb, largest_box(boxes))))

    def follow(self, frame_rgb: Pixels, previous: Floats) -> Floats:
        """(203, 2) landmarks, starting from those of the frame before."""
        return self.locate_203(frame_rgb, anchors_203(previous))


def _planes(image: npt.NDArray[Any]) -> Floats:
    """(H, W, 3) uint8 -> (1, 3, H, W) float32, 0 to 255."""
    return np.ascontiguousarray(np.moveaxis(image, -1, 0)[None], np.float32)


def _run(session: ort.InferenceSession, blob: Floats) -> list[npt.NDArray[Any]]:
    outputs: list[npt.NDArray[Any]] = session.run(None, {session.get_inputs()[0].name: blob})
    return outputs
