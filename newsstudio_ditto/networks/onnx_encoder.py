"""Audio encoder of the official release: a HuBERT that exists as an ONNX file only, run by onnxruntime."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch
from torch import Tensor, nn

from newsstudio_ditto.errors import BundleError

INPUT_NAME = "input_values"
_HINT = "fetch the file again: newsstudio-ditto models fetch ditto"


def open_session(path: Path) -> ort.InferenceSession:
    """Open an ONNX file on the CPU.

    Raises:
        BundleError: it is absent or no ONNX file that onnxruntime can run.
    """
    if not path.is_file():
        raise BundleError(f"{path} does not exist", _HINT)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no class but this one
        raise BundleError(f"{path} is no ONNX file that can be run: {str(error)[:200]}", _HINT) from error


class OnnxAudioEncoder(nn.Module):
    """Rows of speech features at 50 Hz, as :class:`~newsstudio_ditto.networks.audio_encoder.AudioEncoder` gives them.

    A file whose batch axis is free gets all windows of a call at once, any other one window after the other.

    Args:
        path: the ONNX file: ``input_values`` (B, samples) -> (B, rows, A), or (rows, A) for one window.
        width: A, columns of a row.

    Raises:
        BundleError: the file cannot be opened, or has other inputs or outputs.
    """

    def __init__(self, path: Path, width: int) -> None:
        """Open the file and compare its signature."""
        super().__init__()
        self.path = path
        self.width = width
        self._session = open_session(path)
        problem = signature_problem(self._session, width)
        if problem:
            raise BundleError(f"{path}: {problem}", _HINT)
        self._output = self._session.get_outputs()[0].name
        batch_axis = self._session.get_inputs()[0].shape[0]
        self.takes_batches = not isinstance(batch_axis, int) and len(self._session.get_outputs()[0].shape) == 3

    @torch.no_grad()
    def forward(self, windows: Tensor) -> Tensor:
        """Encode windows of speech.

        Args:
            windows: (B, samples) 16 kHz, -1..1, on any device.

        Returns:
            (B, rows, A) float32 on the device of ``windows``.
        """
        samples = windows.detach().float().cpu().numpy()
        groups = [samples] if self.takes_batches else np.split(samples, len(samples))
        rows = np.concatenate([self._encode(group) for group in groups])
        return torch.from_numpy(rows).to(windows.device)

    def _encode(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        encoded = self._session.run([self._output], {INPUT_NAME: np.ascontiguousarray(samples)})[0]
        return np.asarray(encoded, np.float32).reshape(len(samples), -1, self.width)


def signature_problem(session: ort.InferenceSession, width: int) -> str | None:
    """Why a session is not the streaming HuBERT, or None."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if [port.name for port in inputs] != [INPUT_NAME]:
        return f"expected the one input {INPUT_NAME}, got {', '.join(port.name for port in inputs)}"
    if inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 2:
        return f"input {INPUT_NAME}: expected float32 (1, samples), got {inputs[0].type} {inputs[0].shape}"
    shape = outputs[0].shape
    if outputs[0].type != "tensor(float)" or len(shape) not in (2, 3) or shape[-1] not in (width, None):
        return f"output {outputs[0].name}: expected float32 (rows, {width}), got {outputs[0].type} {shape}"
    return None
