"""A whole run of the motion sampler, unrolled, so that a few CUDA graphs replay it.

The same mathematics as :func:`~newsstudio_ditto.networks.motion_diffusion.sample_window` with a guided denoiser, in
float32, with everything taken out of the loop that does not depend on the noisy motion:

- of the steps: time embeddings, and keys and values of the time tokens, once for all windows;
- of the window: keys and values of the condition rows, the modulation of every sublayer at every step, and the part of
  the first layer that reads the first frame, once for all steps;
- the conditional and the unconditional half share everything up to the first modulation, and guidance comes before the
  last projection, which is linear.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from newsstudio_ditto.maths.diffusion import DdimStep, Schedule, ddim_schedule
from newsstudio_ditto.networks.motion_diffusion import NUM_TIME_TOKENS, MotionDenoiser
from newsstudio_ditto.networks.transformer import Attention, DenoiserLayer, RotaryEmbedding
from newsstudio_ditto.render.graph import expect_like, side_stream
from newsstudio_ditto.render.modulation import (
    Mix,
    Norm,
    Pair,
    attend,
    linear,
    linear_mixed,
    linear_of_two,
    linear_parts,
    modulate,
)
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES

log = logging.getLogger(__name__)

MOST_STEPS = 100
"""Longer runs would make graphs of too many nodes; they are replayed step by step."""

_MOST_GRAPHS = 4
_STEPS_A_GRAPH = 5
_REPLAY_TOLERANCE = 1e-3


class _Window(NamedTuple):
    """What all steps of one window share.

    Args:
        keys: (halves, layers, 80, d), of the cross-attention; those of a step's tokens follow them.
        values: likewise.
        modulations: (S, sublayers, halves, 2 d), scale and shift of every sublayer at every step.
        fixed: (d,), what the first frame adds to the first projection, and its bias.
    """

    keys: Tensor
    values: Tensor
    modulations: Tensor
    fixed: Tensor


class UnrolledSampler:
    """All DDIM steps of one window as one function of tensors: ``(noise, first_frame, condition) -> motion``.

    Args:
        denoiser: on its device, float32.
        schedule: S steps.
        scale: of the guidance; 1 is the conditional prediction alone.
    """

    @torch.no_grad()
    def __init__(self, denoiser: MotionDenoiser, schedule: Schedule, scale: float) -> None:
        """Compute what depends on the steps alone."""
        device = next(denoiser.parameters()).device
        self._denoiser, self._scale = denoiser, scale
        self._layers = [cast(DenoiserLayer, layer) for layer in denoiser.seqTransDecoder.stack]
        self._steps = schedule.steps()
        self._rotation = rotation_table(denoiser.rotary, WINDOW_FRAMES + NUM_TIME_TOKENS)
        time = denoiser.time_mlp[1:](denoiser.time_mlp[0](schedule.times.to(device)))
        self._step_embedding = denoiser.to_time_cond(time)  # (S, d)
        tokens = denoiser.norm_cond(denoiser.to_time_tokens(time))  # (S, 2, d)
        self._token_keys, self._token_values = self._keys_and_values(tokens, WINDOW_FRAMES)  # (S, layers, 2, d)
        self._to_scale_and_shift = [
            film.block[1] for layer in self._layers for film in (layer.film1, layer.film2, layer.film3)
        ]
        from_both = denoiser.input_projection.weight
        self._from_motion = from_both[:, :MOTION_DIM].contiguous()
        self._from_first = from_both[:, MOTION_DIM:].contiguous()

    @torch.no_grad()
    def __call__(self, noise: Tensor, first_frame: Tensor, condition: Tensor) -> Tensor:
        """Draw one window of motion.

        Args:
            noise: (S, 1, 80, 265) standard normal: the start, then the fresh noise of each step but the last.
            first_frame: (1, 265), motion that the window continues.
            condition: (1, 80, C) condition rows.

        Returns:
            (1, 80, 265).
        """
        window = self.prepare(first_frame, condition)
        return self.run(noise[0], noise, window, range(len(self._steps)))

    @torch.no_grad()
    def prepare(self, first_frame: Tensor, condition: Tensor) -> _Window:
        """Compute what all steps of a window share; arguments as for a call."""
        encoded = self._denoiser.encode_for(condition, self._scale)
        keys, values = self._keys_and_values(encoded.memory, 0)
        fixed = functional.linear(first_frame, self._from_first, self._denoiser.input_projection.bias)[0]
        return _Window(keys, values, self._modulations(encoded.hidden), fixed)

    @torch.no_grad()
    def run(self, x: Tensor, noise: Tensor, window: _Window, steps: range) -> Tensor:
        """Take some of the steps from ``x`` (1, 80, 265)."""
        final = self._denoiser.final_layer
        for index in steps:
            hidden = self._run_layers(linear(x, self._from_motion, window.fixed), window, index)
            mix = _mix(x, noise, index, self._steps[index])
            x = linear_mixed(hidden, final.weight, final.bias, self._scale, mix)
        return x

    def _keys_and_values(self, memory: Tensor, first_row: int) -> tuple[Tensor, Tensor]:
        """Of the cross-attention in every layer: memory (n, m, d) -> (n, layers, m, d) each."""
        cos, sin = (table[first_row : first_row + memory.shape[1]] for table in self._rotation)
        turned = memory * cos + swap_pairs(memory) * sin
        keys, values = [], []
        for layer in self._layers:
            attention = layer.multihead_attn
            _, key, value = attention.in_proj_weight.chunk(3)
            _, key_bias, value_bias = attention.in_proj_bias.chunk(3)
            keys.append(functional.linear(turned, key, key_bias))
            values.append(functional.linear(memory, value, value_bias))
        return torch.stack(keys, dim=1), torch.stack(values, dim=1)

    def _modulations(self, hidden: Tensor) -> Tensor:
        """Scale and shift of every sublayer at every step, (S, sublayers, halves, 2 d), of hidden (halves, d)."""
        embedding = functional.mish(self._step_embedding[:, None] + hidden)
        return torch.stack([layer(embedding) for layer in self._to_scale_and_shift], dim=1)

    def _run_layers(self, x: Tensor, window: _Window, step: int) -> Tensor:
        """All layers at one step: x (1, 80, d) -> (halves, 80, d)."""
        rotation = self._rotation[0][:WINDOW_FRAMES], self._rotation[1][:WINDOW_FRAMES]
        norms = [norm for layer in self._layers for norm in (layer.norm1, layer.norm2, layer.norm3)]
        x, normal, turned = modulate(x, None, None, _norm(norms[0]), rotation)
        for index, layer in enumerate(self._layers):
            own = window.modulations[step, 3 * index : 3 * index + 3]
            memory = window.keys[:, index], window.values[:, index]
            tokens = self._token_keys[step, index], self._token_values[step, index]
            attended = _attend_self(layer.self_attn, turned, normal)
            x, _, turned = modulate(x, attended, own[0], _norm(layer.norm2), rotation)
            crossed = _attend(layer.multihead_attn, turned, memory, tokens)
            x, normal, _ = modulate(x, crossed, own[1], _norm(layer.norm3), None)
            inner = linear(normal, layer.linear1.weight, layer.linear1.bias, gelu=True)
            forward = linear_parts(inner, layer.linear2.weight, layer.linear2.bias)
            following = _norm(norms[3 * index + 3]) if index + 1 < len(self._layers) else None
            x, normal, turned = modulate(x, forward, own[2], following, rotation)
        return x


def rotation_table(rotary: RotaryEmbedding, num_rows: int) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines (rows, d): the embedding turns x into ``x * cos + swap_pairs(x) * sin``."""
    rows = torch.arange(num_rows, device=rotary.freqs.device, dtype=torch.float32)
    angle = rows[:, None] * rotary.freqs
    cos, sin = angle.cos(), angle.sin()
    return cos.repeat_interleave(2, dim=1), torch.stack([-sin, sin], dim=-1).flatten(1)


def swap_pairs(x: Tensor) -> Tensor:
    """Neighbouring columns of x (..., d) swapped."""
    return x.view(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)


def _norm(layer: torch.nn.LayerNorm) -> Norm:
    return Norm(layer.weight, layer.bias, layer.eps)


def _attend_self(attention: Attention, turned: Tensor, normal: Tensor) -> Tensor:
    width = turned.shape[-1]
    joined = linear_of_two(turned, normal, 2 * width, attention.in_proj_weight, attention.in_proj_bias)
    query, key, value = joined.chunk(3, dim=-1)
    attended = attend(query, key, value, attention.num_heads)
    return linear_parts(attended, attention.out_proj.weight, attention.out_proj.bias)


def _attend(attention: Attention, turned: Tensor, memory: Pair, tokens: Pair) -> Tensor:
    width = turned.shape[-1]
    projection = attention.in_proj_weight[:width], attention.in_proj_bias[:width]
    attended = attend(turned, memory[0], memory[1], attention.num_heads, more=tokens, projection=projection)
    return linear_parts(attended, attention.out_proj.weight, attention.out_proj.bias)


def _mix(x: Tensor, noise: Tensor, index: int, step: DdimStep) -> Mix | None:
    """One DDIM step with its factors put together: what is predicted is linear in ``x`` and the clean motion."""
    if step.next_time < 0:
        return None
    of_clean = step.sqrt_alpha_next - step.c * step.noise_from_x0
    return Mix(of_clean, x, step.c * step.noise_from_x, noise[index + 1], step.sigma)


class _CapturedRun:
    """One kind of run as a row of graphs, a few steps each: graphs of thousands of nodes hold up whoever launches.

    Args:
        sampler: kept, since the graphs read its tables.
        noise: (S, 1, 80, 265), an example.
        condition: (1, 80, C), an example.
    """

    def __init__(self, sampler: UnrolledSampler, noise: Tensor, condition: Tensor) -> None:
        self._sampler = sampler
        self._noise, self._condition = torch.zeros_like(noise), torch.zeros_like(condition)
        self._first_frame = noise.new_zeros(1, MOTION_DIM)
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._window: _Window | None = None
        device, num_steps = noise.device, len(noise)
        with torch.cuda.device(device):
            with side_stream(device):
                window = self._prepared()
                for index in (0, num_steps - 1):  # compiles and allocates; the last step is another kernel
                    sampler.run(self._noise[0], self._noise, window, range(index, index + 1))
            self._capture(self._prepare)
            self._result = self._noise[0]
            for start in range(0, num_steps, _STEPS_A_GRAPH):
                self._capture(partial(self._run, range(start, min(start + _STEPS_A_GRAPH, num_steps))))

    def __call__(self, noise: Tensor, first_frame: Tensor, condition: Tensor) -> Tensor:
        """Replay; the result is overwritten by the next call."""
        given = ((self._noise, noise), (self._first_frame, first_frame), (self._condition, condition))
        for name, (buffer, tensor) in zip(("noise", "first_frame", "condition"), given, strict=True):
            expect_like(tensor, buffer, name)
            buffer.copy_(tensor, non_blocking=True)
        for graph in self._graphs:
            graph.replay()
        return self._result

    def _prepared(self) -> _Window:
        return self._sampler.prepare(self._first_frame, self._condition)

    def _prepare(self) -> None:
        self._window = self._prepared()

    def _run(self, steps: range) -> None:
        assert self._window is not None, "captured first"
        self._result = self._sampler.run(self._result, self._noise, self._window, steps)

    def _capture(self, action: Callable[[], None]) -> None:
        # All in one pool: what one graph leaves behind is referred to here, so that the next does not overwrite it.
        pool = self._graphs[0].pool() if self._graphs else None
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(self._noise.device)  # type: ignore[no-untyped-call]
        with torch.no_grad(), torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            action()
        self._graphs.append(graph)


class SamplingGraphs:
    """Captured runs by number of steps and guidance scale; the few that were used last are kept.

    Args:
        denoiser: on a CUDA device, float32.
    """

    def __init__(self, denoiser: MotionDenoiser) -> None:
        """Nothing is captured yet."""
        self._denoiser = denoiser
        self._runs: OrderedDict[tuple[int, float], _CapturedRun | None] = OrderedDict()

    def is_captured(self, num_steps: int, scale: float) -> bool:
        """Whether the next run of this kind is a replay."""
        return (num_steps, scale) in self._runs

    def run(self, noise: Tensor, first_frame: Tensor, condition: Tensor, scale: float) -> Tensor | None:
        """As :meth:`UnrolledSampler.__call__`; the result is overwritten by the next call of the same kind.

        None if what was captured does not follow its inputs here; that is tried once, and said in the log.
        """
        key = (len(noise), scale)
        if key not in self._runs:
            with torch.cuda.device(noise.device):
                sampler = UnrolledSampler(self._denoiser, ddim_schedule(len(noise)), scale)
                run = _CapturedRun(sampler, noise, condition)
                self._runs[key] = run if _follows_inputs(run, sampler, noise, condition) else None
            while len(self._runs) > _MOST_GRAPHS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        captured = self._runs[key]
        return None if captured is None else captured(noise, first_frame, condition)


def _follows_inputs(run: _CapturedRun, sampler: UnrolledSampler, noise: Tensor, condition: Tensor) -> bool:
    """Whether replays of two different inputs are what the sampler computes without graphs."""
    draw = torch.Generator().manual_seed(0)
    furthest = 0.0
    for _ in range(2):
        inputs = [torch.randn(x.shape, generator=draw).to(x) for x in (noise, noise[0, :, 0], condition)]
        difference = (run(*inputs) - sampler(*inputs)).abs().max().item()
        furthest = max(furthest, difference) if difference == difference else float("inf")
    if furthest <= _REPLAY_TOLERANCE:
        return True
    log.error(
        "a captured sampling run is not what it should be; steps are replayed one by one", extra={"off": furthest}
    )
    return False
