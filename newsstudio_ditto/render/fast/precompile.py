"""Compiles the kernels once per machine, in several processes at a time.

One process needs about a minute for all of them; they land in Triton's cache on disk, which
``TRITON_CACHE_DIR`` moves, and every later start reads them from there.

    python -m newsstudio_ditto.render.fast.precompile    # one share; reads its task from standard input
"""

import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from newsstudio_ditto.networks.config import DecoderConfig, WarpConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.manifest import read_plain, to_plain
from newsstudio_ditto.networks.warp import WarpingNetwork
from newsstudio_ditto.render.fast.core import FastCore
from newsstudio_ditto.units import NUM_KEYPOINTS

log = logging.getLogger(__name__)

_MAX_PROCESSES = 8
_BYTES_PER_PROCESS = 8 << 30
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Task:
    """One process's share of the kernels.

    Args:
        warp: widths of the warp.
        decoder: widths of the decoder.
        sizes: batch sizes.
        device: index of the CUDA device.
        share: which share, from 0.
        num_shares: how many there are.
    """

    warp: WarpConfig
    decoder: DecoderConfig
    sizes: tuple[int, ...]
    device: int
    share: int = 0
    num_shares: int = 1


def cache_folder() -> Path:
    """Where Triton keeps compiled kernels: ``TRITON_CACHE_DIR``, else its own folder in the user's home."""
    named = os.environ.get("TRITON_CACHE_DIR")
    return Path(named) if named else Path.home() / ".triton" / "cache"


def marker(task: Task, versions: str) -> Path:
    """File that says that everything for ``task`` has been compiled by these ``versions`` of the compiler."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    content = b"".join(path.read_bytes() for path in sources)
    words = json.dumps([to_plain(task.warp), to_plain(task.decoder), sorted(task.sizes), versions])
    name = hashlib.sha256(content + words.encode()).hexdigest()[:16]
    return cache_folder() / f"newsstudio-ditto-{name}"


def compile_kernels(warp: WarpConfig, decoder: DecoderConfig, sizes: Sequence[int], device: torch.device) -> list[str]:
    """Compile whatever this machine has not compiled yet.

    Returns:
        What went wrong, a line for each process that failed: the kernels are not to be used then.
    """
    import triton

    versions = f"{triton.__version__} {torch.__version__} {torch.cuda.get_device_capability(device)}"
    tasks = [Task(warp, decoder, (size,), device.index or 0) for size in sizes]
    missing = [task for task in tasks if not marker(task, versions).exists()]
    if not missing:
        return []
    task = replace(missing[0], sizes=tuple(each.sizes[0] for each in missing))
    free_bytes, _total = torch.cuda.mem_get_info(device)
    count = max(1, min(_MAX_PROCESSES, os.cpu_count() or 1, free_bytes // _BYTES_PER_PROCESS))
    log.warning(
        "compiling kernels, once on this machine; this takes up to a minute",
        extra={"cache": str(cache_folder()), "processes": count},
    )
    started = time.perf_counter()
    problems = _run_shares(task, count)
    seconds = time.perf_counter() - started
    if not problems:
        for each in missing:
            done = marker(each, versions)
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()
        log.info("compiled kernels", extra={"seconds": seconds, "cache": str(cache_folder())})
    return problems


def _run_shares(task: Task, count: int) -> list[str]:
    """Run all shares side by side; returns the last line that each failed one said."""
    children = []
    for share in range(count):
        plain = to_plain(replace(task, share=share, num_shares=count))
        child = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        children.append((child, json.dumps(plain).encode()))
    for child, words in children:
        assert child.stdin is not None
        try:
            child.stdin.write(words)
            child.stdin.close()
        except BrokenPipeError:
            pass  # its last line says why it ended
        child.stdin = None  # all is said, and waiting would flush it
    deadline = time.monotonic() + _TIMEOUT_S
    return [problem for child, _ in children if (problem := _wait(child, deadline))]


def _wait(child: "subprocess.Popen[bytes]", deadline: float) -> str:
    """The last line that a failed process said, or nothing."""
    try:
        _, complaint = child.communicate(timeout=max(deadline - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return f"no end after {_TIMEOUT_S} s"
    said = complaint.decode(errors="replace").strip().splitlines()
    return (said or [f"ended with status {child.returncode}"])[-1] if child.returncode else ""


@torch.no_grad()
def compile_share(task: Task) -> None:
    """Go through warp and decoder without running anything, and compile every ``num_shares``-th kind of launch."""
    # only CUDA builds of torch bring Triton
    from newsstudio_ditto.render.fast.kernel_operators import KernelOperators

    class CompilingOperators(KernelOperators):
        """Compiles instead of running."""

        def __init__(self) -> None:
            super().__init__()
            self.seen: set[object] = set()

        def launcher(self, kernel: Any, programs: tuple[int, ...]) -> Any:
            def compile_once(*arguments: object, **options: object) -> None:
                kind = launch_kind(kernel, arguments, options)
                if kind in self.seen:
                    return
                self.seen.add(kind)
                if len(self.seen) % task.num_shares == task.share:
                    kernel.run(*arguments, grid=programs, warmup=True, **options)

            return compile_once

    device = torch.device("cuda", task.device)
    with torch.cuda.device(device):
        with device:
            warp, decoder = WarpingNetwork(task.warp).eval().half(), SpadeDecoder(task.decoder).eval().half()
        core = FastCore(warp, decoder, CompilingOperators())
        side, depth = task.warp.volume_px, task.warp.volume_depth
        for size in task.sizes:
            volume = torch.zeros(size, task.warp.volume_channels, depth, side, side, dtype=torch.float16, device=device)
            keypoints = torch.zeros(size, NUM_KEYPOINTS, 3, device=device)
            core(volume, keypoints, keypoints)


def launch_kind(kernel: Any, arguments: tuple[object, ...], options: dict[str, object]) -> tuple[object, ...]:
    """What launches have in common that run the same machine code.

    Finer than what Triton itself tells apart would cost time only, and coarser too: what no process has compiled is
    compiled when it is first run.
    """
    pairs = zip(kernel.params, arguments, strict=False)  # further constants are among the options
    kinds = (value if parameter.is_constexpr else _kind(value) for parameter, value in pairs)
    return kernel.__name__, tuple(kinds), tuple(sorted(options.items()))


def _kind(value: object) -> object:
    if isinstance(value, int):
        return value == 1, value % 16 == 0, value.bit_length() > 31
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if isinstance(value, float):
        return float
    block = getattr(value, "block_shape", None)  # of a descriptor
    return type(value), None if block is None else tuple(block)


if __name__ == "__main__":
    compile_share(read_plain(Task, json.load(sys.stdin), "task"))
