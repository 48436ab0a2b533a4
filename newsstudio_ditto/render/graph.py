"""CUDA graphs: a device function of fixed shapes, recorded once and replayed."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from newsstudio_ditto.errors import GraphInputError

log = logging.getLogger(__name__)

SWITCH = "DITTO_NO_CUDA_GRAPH"
EAGER_HINT = f"call with the captured shapes, or run without graphs: --eager, or {SWITCH}=1"


def use_graphs(device: torch.device, *, eager: bool) -> bool:
    """Whether functions on ``device`` are to be captured; says so in the log when a switch forbids it.

    Args:
        device: where the function runs; only CUDA devices have graphs.
        eager: the caller's switch. The environment variable ``DITTO_NO_CUDA_GRAPH=1`` is the other one.
    """
    if device.type != "cuda":
        return False
    if eager or os.environ.get(SWITCH, "") == "1":
        cause = "--eager" if eager else f"{SWITCH}=1"
        log.warning("CUDA graphs are switched off", extra={"device": str(device), "cause": cause})
        return False
    return True


def expect_like(given: Tensor, buffer: Tensor, name: str) -> None:
    """Refuse an input that the captured buffer cannot take.

    Raises:
        GraphInputError: if shape, dtype or device differ; names both sides and how to run eagerly.
    """
    if given.shape == buffer.shape and given.dtype == buffer.dtype and given.device == buffer.device:
        return
    raise GraphInputError(
        f"graph input {name!r}: captured with {_describe(buffer)}, called with {_describe(given)}", EAGER_HINT
    )


def expect_names(given: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> None:
    """Refuse a call that lacks a captured input or brings one that was not captured.

    Raises:
        GraphInputError: names the missing and the unknown inputs.
    """
    if given.keys() != buffers.keys():
        missing, unknown = sorted(buffers.keys() - given.keys()), sorted(given.keys() - buffers.keys())
        raise GraphInputError(f"graph inputs: missing {missing}, unknown {unknown}", EAGER_HINT)


class CapturedGraph:
    """One fixed-shape device function, replayed. The result is overwritten by the next call.

    The graph owns its input buffers: a call copies into them, so callers may reuse or free their own tensors.

    Args:
        function: takes the tensors of ``example`` by name and returns one tensor; no host synchronisation inside.
        example: one CUDA tensor per input, in the shapes and dtypes that every later call will have.
        warmup: plain runs before the capture, so that autotuning and lazy allocation are not recorded.
        share_with: a graph whose memory this one uses too. Such graphs overwrite each other's results.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        example: Mapping[str, Tensor],
        *,
        warmup: int = 3,
        share_with: "CapturedGraph | None" = None,
    ) -> None:
        """Warm up on a side stream, then capture."""
        self._inputs = {name: tensor.clone() for name, tensor in example.items()}
        device = next(iter(self._inputs.values())).device
        with torch.cuda.device(device), torch.no_grad():
            with side_stream(device):
                for _ in range(warmup):
                    function(**self._inputs)
            self._graph = torch.cuda.CUDAGraph()
            pool = share_with._graph.pool() if share_with else None
            # torch's own capture stream stays on the device that it was first used with
            stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            # thread_local: another thread may allocate or copy meanwhile without spoiling this capture
            with torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                self._output = function(**self._inputs)

    def __call__(self, **inputs: Tensor) -> Tensor:
        """Copy ``inputs`` into the captured buffers and replay; the result is valid until the next call.

        Raises:
            GraphInputError: if an input is missing, unknown, or of another shape, dtype or device.
        """
        expect_names(inputs, self._inputs)
        for name, buffer in self._inputs.items():
            expect_like(inputs[name], buffer, name)
        for name, buffer in self._inputs.items():
            buffer.copy_(inputs[name], non_blocking=True)
        self._graph.replay()
        return self._output


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Run the body on a fresh CUDA stream that waits for the current one on entry and is waited for on exit."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    current = torch.cuda.current_stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        yield
    current.wait_stream(stream)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)} on {tensor.device}"
