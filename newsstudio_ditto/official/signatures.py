"""Inputs and outputs of the release's ONNX files, and opening a file only if it has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.onnx_encoder import open_session
from newsstudio_ditto.official.release import FETCH_COMMAND, Role

_FLOAT = "tensor(float)"
Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs that an ONNX file must have.

    Args:
        takes: axes of its one input; None is any length.
        gives: axes of the outputs that are read, by their place among the outputs.
    """

    takes: Axes
    gives: Mapping[int, Axes]

    def problem(self, session: ort.InferenceSession) -> str | None:
        """Why a session does not fit, or None."""
        inputs, outputs = session.get_inputs(), session.get_outputs()
        if len(inputs) != 1:
            return f"expected one input, got {len(inputs)}"
        ports = [("input", inputs[0], self.takes)]
        ports += [("output", outputs[at], axes) for at, axes in self.gives.items() if at < len(outputs)]
        for what, port, axes in ports:
            if port.type != _FLOAT or not _fits(axes, port.shape):
                wanted = ", ".join("any" if axis is None else str(axis) for axis in axes)
                return f"{what} {port.name}: expected float32 ({wanted}), got {port.type} {tuple(port.shape)}"
        if len(outputs) <= max(self.gives):
            return f"expected {max(self.gives) + 1} outputs, got {len(outputs)}"
        return None


def _fits(wanted: Axes, found: list[int | str | None]) -> bool:
    if len(wanted) != len(found):
        return False
    pairs = zip(wanted, found, strict=True)
    return all(want is None or not isinstance(have, int) or want == have for want, have in pairs)


DETECTOR = Signature((1, 3, None, None), {place: (None, (1, 4, 10)[place // 3]) for place in range(9)})
LANDMARKS_106 = Signature((None, 3, 192, 192), {0: (None, 212)})
LANDMARKS_203 = Signature((None, 3, 224, 224), {2: (None, 406)})
LANDMARKS_203_ALONE = Signature((None, 3, 224, 224), {0: (None, 406)})


def landmarks_203_output(session: ort.InferenceSession) -> int:
    """Which output holds the 203 landmarks: the third of the release's file, the only one of a repacked file."""
    return 2 if len(session.get_outputs()) > 1 else 0


SIGNATURES: Mapping[Role, tuple[Signature, ...]] = {
    "detector": (DETECTOR,),
    "landmarks_106": (LANDMARKS_106,),
    "landmarks_203": (LANDMARKS_203, LANDMARKS_203_ALONE),
}
"""Signatures by role; a file has to fit one of them."""


def open_checked(path: Path, signatures: tuple[Signature, ...]) -> ort.InferenceSession:
    """Open an ONNX file that fits one of some signatures.

    Raises:
        BundleError: it cannot be opened, or fits none.
    """
    session = open_session(path)
    problems = [signature.problem(session) for signature in signatures]
    if None in problems:
        return session
    raise BundleError(f"{path}: {problems[0]}", f"fetch the file again: {FETCH_COMMAND}")
