"""The warm engine: warp and decoder as one CUDA graph per batch size, or eagerly where graphs are off.

Graphs replay the fused kernels of :mod:`newsstudio_ditto.render.fast` where they fit; eager code is always the plain
networks.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from newsstudio_ditto.errors import DeviceError, GraphInputError
from newsstudio_ditto.maths.paste import CropRegion
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle
from newsstudio_ditto.render.fast import FastCore, fast_core
from newsstudio_ditto.render.fast.precompile import compile_kernels
from newsstudio_ditto.render.fast.trial import disagreement, trial_inputs
from newsstudio_ditto.render.graph import EAGER_HINT, CapturedGraph, use_graphs
from newsstudio_ditto.render.listening import CapturedEncoder
from newsstudio_ditto.render.window_sampler import GuidedStep
from newsstudio_ditto.units import NUM_KEYPOINTS

log = logging.getLogger(__name__)

CUDA_BATCH_SIZES = (1, 4, 8)
CPU_BATCH_SIZES = (4,)
MAX_BATCH_SIZE = 64


def choose_device(name: str) -> torch.device:
    """The device that ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` stands for.

    Raises:
        DeviceError: if a CUDA device is asked for that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type != "cuda":
        return device
    index, count = device.index or 0, torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise DeviceError(f"device {name} was asked for, this machine has {count} CUDA devices", "use --device cpu")
    return torch.device("cuda", index)


def compute_dtype(device: torch.device) -> torch.dtype:
    """Type in which warp and decoder run: float16 on CUDA, float32 on the CPU. Grids stay float32 everywhere."""
    return torch.float16 if device.type == "cuda" else torch.float32


class Engine:
    """Warp and decode on one device, warm between renders.

    Use it from one thread at a time: hold :attr:`busy` for a whole render, since graphs share their memory.

    Args:
        bundle: the networks, already on ``device`` in its compute dtype.
        device: where to run.
        eager: never capture graphs, and run the plain networks.
        batch_sizes: batches to capture; a batch in between is padded to the next one. Without graphs any size
            runs as it is, and the largest of these is only the one to prefer.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        *,
        device: torch.device,
        eager: bool = False,
        batch_sizes: Sequence[int] | None = None,
    ) -> None:
        """Load the networks; nothing is captured before :meth:`warm_up` or the first render."""
        self.bundle = bundle
        self.device = device
        self.is_graphed = use_graphs(device, eager=eager)
        default = CUDA_BATCH_SIZES if device.type == "cuda" else CPU_BATCH_SIZES
        self.batch_sizes = tuple(sorted(set(batch_sizes or default)))
        self.busy = threading.RLock()
        self._warp, self._decoder = bundle.warp, bundle.decoder
        if device.type == "cpu":
            # A third faster there; the kernels of other devices choose for themselves.
            self._decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._dtype = next(self._warp.parameters()).dtype
        self._fast: FastCore | None = fast_core(bundle, device) if self.is_graphed else None
        self._graphs: dict[int, CapturedGraph] = {}
        self._guided_step: GuidedStep | None = None
        self._speech_encoder: CapturedEncoder | None = None

    @property
    def core(self) -> Literal["fused", "plain"]:
        """Whether warp and decoder run as fused kernels or as the plain networks."""
        return "plain" if self._fast is None else "fused"

    @property
    def batch_size(self) -> int:
        """The batch that gives the most frames a second."""
        return self.batch_sizes[-1]

    @property
    def max_batch_size(self) -> int:
        """The largest batch that :meth:`render` takes."""
        return self.batch_sizes[-1] if self.is_graphed else MAX_BATCH_SIZE

    @property
    def guided_step(self) -> GuidedStep:
        """The motion denoiser's step, loaded and captured when it is first used."""
        if self._guided_step is None:
            self._guided_step = GuidedStep(self.bundle.motion_diffusion, is_graphed=self.is_graphed)
        return self._guided_step

    @cached_property
    def motion_stream(self) -> torch.cuda.Stream | None:
        """Where motion is made beside the frames; None on the CPU.

        One for all speeches: memory that was freed on one stream is not used on another, which would ask the driver
        for more while the first frame waits.
        """
        if self.device.type != "cuda":
            return None
        return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @property
    def speech_encoder(self) -> CapturedEncoder | None:
        """The audio encoder, captured when it is first used; None without graphs."""
        if self.is_graphed and self._speech_encoder is None:
            self._speech_encoder = CapturedEncoder(self.bundle)
        return self._speech_encoder

    def include_batch_size(self, size: int) -> None:
        """Have batches of ``size`` captured as well; without graphs there is nothing to do."""
        if self.is_graphed:
            self.batch_sizes = tuple(sorted({*self.batch_sizes, size}))

    def warm_up(self) -> float:
        """Capture every graph that is not captured yet, and return the seconds that took; 0 without graphs."""
        if not self.is_graphed or len(self._graphs) == len(self.batch_sizes):
            return 0.0
        started = time.perf_counter()
        if self._fast is not None:
            networks = self.bundle.config.networks
            problems = compile_kernels(networks.warp, networks.decoder, self.batch_sizes, self.device)
            if problems:
                self._give_up_fast(f"the kernels do not compile: {problems[0]}")
        # the largest first, so that the smaller ones fit into its memory
        while missing := [size for size in reversed(self.batch_sizes) if size not in self._graphs]:
            self._graph(missing[0])
        torch.cuda.synchronize(self.device)
        seconds = time.perf_counter() - started
        free_bytes, _total = torch.cuda.mem_get_info(self.device)
        log.info(
            "captured graphs",
            extra={"sizes": self.batch_sizes, "core": self.core, "seconds": seconds, "free_bytes": free_bytes},
        )
        return seconds

    @torch.no_grad()
    def render(
        self,
        volume: Tensor,
        source_keypoints: Tensor,
        driving_keypoints: Tensor,
        *,
        region: CropRegion | None = None,
    ) -> Tensor:
        """Render faces.

        Args:
            volume: (B, C, D, h, w) floating, appearance.
            source_keypoints: (B, 21, 3) float32.
            driving_keypoints: (B, 21, 3) float32.
            region: what of the pictures is looked at; without graphs the rest may be black. Graphs paint all of it.

        Returns:
            (B, 3, 512, 512) on the device, 0..1. With graphs it is overwritten by the next call.

        Raises:
            GraphInputError: if the batch is larger than every captured one.
        """
        volume = volume.to(self._dtype)
        if not self.is_graphed:
            return self._plain(volume, source_keypoints, driving_keypoints, region)
        num_frames = len(volume)
        size = self._fitting_size(num_frames)
        inputs = (_padded(part, size) for part in (volume, source_keypoints, driving_keypoints))
        volume, source_keypoints, driving_keypoints = inputs
        graph = self._graph(size)
        return graph(volume=volume, source_keypoints=source_keypoints, driving_keypoints=driving_keypoints)[:num_frames]

    def _fitting_size(self, num_frames: int) -> int:
        for size in self.batch_sizes:
            if size >= num_frames:
                return size
        raise GraphInputError(f"a batch of {num_frames} frames, captured are batches of {self.batch_sizes}", EAGER_HINT)

    def _graph(self, size: int) -> CapturedGraph:
        graph = self._graphs.get(size)
        if graph is None:
            first = next(iter(self._graphs.values()), None)
            example = self._example(size)
            try:
                graph = CapturedGraph(self._synthesize, example, share_with=first)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                if self._fast is None:
                    raise
                self._give_up_fast(f"the kernels do not run: {error}")
                return self._graph(size)
            self._graphs[size] = graph
            if self._fast is not None:
                problem = disagreement(graph, self._plain, trial_inputs(example))
                if problem is not None:
                    self._give_up_fast(problem)
                    return self._graph(size)
        return graph

    def _give_up_fast(self, cause: str) -> None:
        """Go on with the plain networks; what was captured of the fused kernels is dropped."""
        log.warning("the fused kernels are not used: rendering is several times slower", extra={"cause": cause})
        self._fast = None
        self._graphs.clear()

    def _example(self, size: int) -> dict[str, Tensor]:
        shape = self.bundle.config.networks.appearance
        volume_shape = (size, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px)
        keypoints = torch.zeros(size, NUM_KEYPOINTS, 3, device=self.device)
        return {
            "volume": torch.zeros(volume_shape, dtype=self._dtype, device=self.device),
            "source_keypoints": keypoints,
            "driving_keypoints": keypoints.clone(),
        }

    def _synthesize(self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor) -> Tensor:
        if self._fast is not None:
            return self._fast(volume, source_keypoints, driving_keypoints)
        return self._plain(volume, source_keypoints, driving_keypoints)

    def _plain(
        self, volume: Tensor, source_keypoints: Tensor, driving_keypoints: Tensor, region: CropRegion | None = None
    ) -> Tensor:
        image: Tensor = self._decoder(self._warp(volume, source_keypoints, driving_keypoints), region)
        return image


def _padded(part: Tensor, size: int) -> Tensor:
    """Repeat the last row until there are ``size`` rows, so that a tail batch fits a captured graph."""
    missing = size - len(part)
    return part if missing == 0 else torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])


@dataclass(frozen=True)
class _Key:
    fingerprint: str
    device: str
    is_eager: bool


_bundles: dict[tuple[str, str], ModelBundle] = {}
_engines: dict[_Key, Engine] = {}
_lock = threading.RLock()


def warm_bundle(name_or_path: str | Path, device: torch.device) -> ModelBundle:
    """The process's one copy of a model bundle on this device; each network is read when it is first used.

    The manifest is read every time, so a bundle that has changed on disk is opened anew.

    Raises:
        BundleError: there is no such bundle, or it is damaged.
    """
    found = load_bundle(name_or_path, device=device, dtype=compute_dtype(device))
    key = (str(name_or_path), str(device))
    with _lock:
        kept = _bundles.get(key)
        if kept is None or kept.fingerprint != found.fingerprint:
            _bundles[key] = kept = found
        return kept


def warm_engine(bundle: ModelBundle, device: torch.device, *, eager: bool = False) -> Engine:
    """The process's one engine for these weights on this device; captured on the first call.

    Engines of other weights on the same device are dropped first, so that two models never share its memory.
    """
    key = _Key(bundle.fingerprint, str(device), eager)
    with _lock:
        engine = _engines.get(key)
        if engine is None:
            for other in [k for k in _engines if k.device == key.device and k.fingerprint != key.fingerprint]:
                del _engines[other]
            for name in [n for n, kept in _bundles.items() if n[1] == key.device and kept is not bundle]:
                del _bundles[name]
            engine = Engine(bundle, device=device, eager=eager)
            _engines[key] = engine
        engine.warm_up()
    return engine
