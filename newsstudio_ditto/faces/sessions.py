"""The two face networks, opened with onnxruntime on the CPU."""

import numpy as np
import onnxruntime as ort

from newsstudio_ditto.faces.observation import NUM_LANDMARKS, Floats, Pixels
from newsstudio_ditto.faces.packaged import read_network

LANDMARK_INPUT_PX = 256
_MAX_BATCH = 16


class FaceNetworks:
    """BlazeFace and the landmark network. Stateless once opened, so threads may share one instance.

    Args:
        num_threads: threads of each network; ``None`` lets onnxruntime take every core.
    """

    def __init__(self, *, num_threads: int | None = None) -> None:
        """Open both networks.

        Raises:
            BundleError: a file is not the one that belongs to this release.
        """
        self._detector = _open_session("face_detector.onnx", num_threads)
        self._landmarks = _open_session("face_landmarks_detector.onnx", num_threads)

    def detect(self, tiles: Floats) -> tuple[Floats, Floats]:
        """Run the detector.

        Args:
            tiles: (B, 128, 128, 3) in -1..1, RGB.

        Returns:
            regressors (B, 896, 16) and logits (B, 896), raw.
        """
        outputs = [
            self._detector.run(None, {"input": tiles[start : start + _MAX_BATCH]})
            for start in range(0, len(tiles), _MAX_BATCH)
        ]
        regressors, logits = (np.concatenate([output[index] for output in outputs]) for index in (0, 1))
        return regressors, logits[..., 0]

    def find_landmarks(self, crops: Pixels) -> tuple[Floats, Floats]:
        """Run the landmark network.

        Args:
            crops: (B, 256, 256, 3) uint8 RGB, upright faces.

        Returns:
            landmarks (B, 478, 3) in pixels of the crop and presence (B,), 0 to 1.
        """
        points, presence, _tongue = self._landmarks.run(None, {"input_12": crops.astype(np.float32) / 255})
        logits = np.clip(presence.reshape(-1), -80, 80)
        return points.reshape(-1, NUM_LANDMARKS, 3), 1 / (1 + np.exp(-logits))


def _open_session(name: str, num_threads: int | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads or 0
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Waiting threads would otherwise burn the cores that decoding and encoding need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(read_network(name), options, providers=["CPUExecutionProvider"])
