"""Small ONNX files with the signatures of the release's: their answers are written down beforehand, or linear."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]
Axes = tuple[int | str, ...]

ROW_SAMPLES, ROW_HOP = 400, 320


def constant_net(path: Path, takes: Axes, answers: list[Floats], name: str = "input") -> Path:
    """A net of one input whose outputs are always ``answers``, plus zero times the input's sum."""
    nodes = [
        helper.make_node("ReduceSum", [name], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "nothing"], ["zero"]),
    ]
    stored = [numpy_helper.from_array(np.float32(0), "nothing")]
    outputs = []
    for place, answer in enumerate(answers):
        stored.append(numpy_helper.from_array(answer, f"answer{place}"))
        nodes.append(helper.make_node("Add", [f"answer{place}", "zero"], [f"out{place}"]))
        outputs.append(helper.make_tensor_value_info(f"out{place}", TensorProto.FLOAT, answer.shape))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, takes)]
    return _save(path, helper.make_graph(nodes, "constant", inputs, outputs, stored))


def mean_net(path: Path, takes: Axes, answer: Floats, name: str = "input") -> Path:
    """A net whose only output is ``answer`` plus the mean of its input: what goes in shows in what comes out."""
    nodes = [
        helper.make_node("ReduceMean", [name], ["mean"], keepdims=0),
        helper.make_node("Add", ["answer", "mean"], ["out0"]),
    ]
    stored = [numpy_helper.from_array(answer, "answer")]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, takes)]
    outputs = [helper.make_tensor_value_info("out0", TensorProto.FLOAT, answer.shape)]
    return _save(path, helper.make_graph(nodes, "mean", inputs, outputs, stored))


def row_encoder(path: Path, kernel: Floats, *, batch: int | str, squeezed: bool = False) -> Path:
    """An encoder of speech: row r is ``samples[320 r : 320 r + 400] @ kernel``.

    Args:
        path: to write.
        kernel: (400, A).
        batch: length of the batch axis; a text leaves it free.
        squeezed: give (rows, A) for one window instead of (1, rows, A).
    """
    width = kernel.shape[1]
    weights = np.ascontiguousarray(kernel.T[:, None, :])
    nodes = [
        helper.make_node("Unsqueeze", ["input_values", "one"], ["channel"]),
        helper.make_node("Conv", ["channel", "weights"], ["columns"], strides=[ROW_HOP]),
        helper.make_node("Transpose", ["columns"], ["rows"], perm=[0, 2, 1]),
        *([helper.make_node("Squeeze", ["rows", "zero"], ["encoding_out"])] if squeezed else []),
    ]
    if not squeezed:
        nodes[-1].output[0] = "encoding_out"
    stored = [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
        numpy_helper.from_array(np.array([0], np.int64), "zero"),
    ]
    inputs = [helper.make_tensor_value_info("input_values", TensorProto.FLOAT, (batch, "samples"))]
    shape: Axes = ("rows", width) if squeezed else (batch, "rows", width)
    outputs = [helper.make_tensor_value_info("encoding_out", TensorProto.FLOAT, shape)]
    return _save(path, helper.make_graph(nodes, "rows", inputs, outputs, stored))


def _save(path: Path, graph: onnx.GraphProto) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path
