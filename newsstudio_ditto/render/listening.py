"""The audio encoder as a graph: hundreds of small launches become one, however busy the host is."""

import logging

import torch
from torch import Tensor

from newsstudio_ditto.maths.audio_windows import WINDOW_SAMPLES
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.render.graph import CapturedGraph
from newsstudio_ditto.stages.speech import FIRST_WINDOWS, WINDOWS_PER_BATCH

log = logging.getLogger(__name__)

_SIZES = (FIRST_WINDOWS, WINDOWS_PER_BATCH)


class CapturedEncoder:
    """Encodes windows of speech; batches are padded to one of two sizes.

    Args:
        bundle: on a CUDA device.
    """

    def __init__(self, bundle: ModelBundle) -> None:
        """Nothing is captured yet."""
        self._bundle = bundle
        self._graphs: dict[int, CapturedGraph] = {}
        self._is_plain = False

    def warm_up(self) -> None:
        """Capture every size that is not captured yet."""
        weight = next(self._bundle.audio_encoder.parameters(), None)
        if weight is None:
            self._is_plain = True  # onnxruntime runs it
        for size in reversed(_SIZES):
            if weight is not None and not self._is_plain and size not in self._graphs:
                self._capture(torch.zeros(size, WINDOW_SAMPLES, dtype=weight.dtype, device=weight.device))

    def __call__(self, windows: Tensor) -> Tensor:
        """Encode windows (n, 6480) in the bundle's dtype, n up to 64: (n, 20, A), overwritten by the next call."""
        size = next((size for size in _SIZES if size >= len(windows)), None)
        if self._is_plain or size is None:
            return self._encode(windows)
        padded = windows.new_zeros(size, WINDOW_SAMPLES)
        padded[: len(windows)] = windows
        graph = self._graphs.get(size) or self._capture(padded)
        return self._encode(windows) if graph is None else graph(windows=padded)[: len(windows)]

    def _encode(self, windows: Tensor) -> Tensor:
        rows: Tensor = self._bundle.audio_encoder(windows)
        return rows

    def _capture(self, example: Tensor) -> CapturedGraph | None:
        try:
            graph = CapturedGraph(self._encode, {"windows": example}, warmup=2)
        except RuntimeError as error:
            # what transformers does inside is not ours to know
            log.warning("the audio encoder cannot be captured and runs eagerly", extra={"reason": str(error)})
            self._is_plain = True
            return None
        self._graphs[len(example)] = graph
        return graph
