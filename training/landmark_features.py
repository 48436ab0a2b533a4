"""The packaged landmark network as a frozen differentiable feature extractor."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

import newsstudio_ditto

LANDMARK_MODEL = Path(newsstudio_ditto.__file__).parent / "bundled" / "faces" / "face_landmarks_detector.onnx"
FEATURE_ADDITIONS = (3, 8, 13, 18)


def _reverse_pads(amounts: list[int]) -> list[int]:
    """All begins then all ends, over NCHW -> pairs from the last axis on."""
    half = len(amounts) // 2
    return [v for axis in reversed(range(half)) for v in (amounts[axis], amounts[half + axis])]


class LandmarkFeatures(nn.Module):
    """Feature maps after the residual additions ``FEATURE_ADDITIONS``: 128 down to 16 pixels of a 256-pixel face."""

    def __init__(self, path: Path = LANDMARK_MODEL) -> None:
        super().__init__()
        graph = onnx.load(str(path)).graph
        constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self._steps: list[tuple[str, list[str], str, dict[str, list[int] | int]]] = []
        self._names: dict[str, str] = {}
        additions = 0
        for node in graph.node:
            if node.op_type == "Cast":
                constants[node.output[0]] = constants[node.input[0]].astype(np.float32)
                continue
            attributes = {a.name: list(a.ints) or a.i for a in node.attribute}
            if node.op_type == "Pad":
                attributes["reverse"] = _reverse_pads([int(v) for v in constants[node.input[1]]])
            self._steps.append((node.op_type, list(node.input), node.output[0], attributes))
            for name in node.input:
                if name in constants and name not in self._names:
                    self._names[name] = f"constant_{len(self._names)}"
                    value = torch.from_numpy(np.array(constants[name]))
                    self.register_buffer(self._names[name], value, persistent=False)
            additions += node.op_type == "Add"
            if additions > FEATURE_ADDITIONS[-1]:
                break

    def _constant(self, name: str) -> Tensor:
        return self.get_buffer(self._names[name])

    def _convolve(self, x: Tensor, inputs: list[str], attributes: dict[str, list[int] | int]) -> Tensor:
        top, left, bottom, right = attributes.get("pads") or [0, 0, 0, 0]
        bias = self._constant(inputs[2]) if len(inputs) > 2 else None
        padded = functional.pad(x, (left, right, top, bottom))
        groups = attributes.get("group") or 1
        return functional.conv2d(padded, self._constant(inputs[1]), bias, attributes["strides"], groups=groups)

    def forward(self, faces: Tensor) -> list[Tensor]:
        """Faces (B, 3, 256, 256), 0..1 -> feature maps, largest first."""
        values: dict[str, Tensor] = {}
        sums: list[Tensor] = []
        for operation, inputs, output, attributes in self._steps:
            x = values.get(inputs[0], faces)
            if operation == "Conv":
                x = self._convolve(x, inputs, attributes)
            elif operation == "PRelu":
                x = functional.prelu(x, self._constant(inputs[1]).flatten().to(x.dtype))
            elif operation == "Add":
                x = x + values[inputs[1]]
                sums.append(x)
            elif operation == "MaxPool":
                x = functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"])
            elif operation == "Pad":
                x = functional.pad(x, attributes["reverse"])
            elif operation != "Transpose":
                raise ValueError(f"the landmark network has an unexpected {operation}")
            values[output] = x
        return [sums[i] for i in FEATURE_ADDITIONS]
