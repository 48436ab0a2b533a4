"""Chaining 80-frame diffusion windows into motion of any length: whole (offline) and streamed (online)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.smoothing import smooth_driving
from newsstudio_ditto.units import MOTION_DIM, WINDOW_FRAMES

Sample = Callable[[Tensor, Tensor], Tensor]
"""``sample(kp_cond (265,), cond_window (80, C)) -> (80, 265)``: one run of the diffusion model."""

Condition = Callable[[Tensor, int], Tensor]
"""``condition(features (W, A), first_index) -> (W, C)``; ``first_index``: output frame of row 0, from -79."""

SHORTEST_STREAM_OVERLAP = WINDOW_FRAMES // 2


@dataclass(frozen=True)
class ClipOptions:
    """How windows are chained.

    Args:
        overlap_frames: frames that two windows share.
        smoothing_frames: width of the mean filter over the generated motion; 1 switches it off.
        reset_every: condition every so many windows on the source instead of the window before; 0 never does.
        carried_dims: start and stop of the vector entries that keep the value of the window before at a reset.
    """

    overlap_frames: int = 10
    smoothing_frames: int = 3
    reset_every: int = 0
    carried_dims: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        """Refuse values outside the documented ranges."""
        if not 0 <= self.overlap_frames < WINDOW_FRAMES:
            raise UsageError(f"overlap_frames is {self.overlap_frames}", f"give a value from 0 to {WINDOW_FRAMES - 1}")
        if self.reset_every < 0 or not 0 <= self.carried_dims[0] <= self.carried_dims[1] <= MOTION_DIM:
            raise UsageError(
                f"reset_every {self.reset_every} with carried_dims {self.carried_dims} is not possible",
                f"give reset_every >= 0 and 0 <= start <= stop <= {MOTION_DIM}",
            )

    @property
    def stride(self) -> int:
        """Frames that each window after the first adds."""
        return WINDOW_FRAMES - self.overlap_frames


class ClipChain:
    """The motion so far, and what the next window is conditioned on.

    Args:
        sample: one run of the diffusion model.
        source: (265,) motion vector of the first source frame.
        fade_frames: frames over which a window fades into the one before.
        options: how windows are chained.
    """

    def __init__(self, sample: Sample, source: Tensor, fade_frames: int, options: ClipOptions) -> None:
        """Start without motion, conditioned on the source."""
        self._sample = sample
        self._source = source
        self.fade_frames = fade_frames
        self.options = options
        self._num_windows = 0
        self._condition = source
        self.motion = source.new_zeros((0, MOTION_DIM))

    def extend(self, cond_window: Tensor) -> None:
        """Generate one more window from (80, C) conditions, fade it in, append and smooth it."""
        window = self._sample(self._condition, cond_window)
        stride, fade = self.options.stride, self.fade_frames
        if self._num_windows == 0:
            self.motion = smooth_driving(window, self.options.smoothing_frames)
        else:
            kept = len(self.motion) - fade
            weight = (torch.arange(fade, device=window.device, dtype=window.dtype) / max(fade, 1))[:, None]
            start = WINDOW_FRAMES - stride
            faded = self.motion[kept:] * (1 - weight) + window[start - fade : start] * weight
            joined = torch.cat([self.motion[:kept], faded, window[start:]])
            first = len(joined) - stride - fade
            self.motion = smooth_driving(joined, self.options.smoothing_frames, first, len(joined) - stride + 1)
        self._num_windows += 1
        self._condition = self._next_condition()

    def forget(self, count: int) -> None:
        """Let go of the first ``count`` rows that are still kept; the windows to come must not need them."""
        self.motion = self.motion[count:].clone() if count > 0 else self.motion

    @property
    def reach_back(self) -> int:
        """Rows at the end of the motion that the next window reads or changes."""
        return max(self.options.overlap_frames + 1, self.fade_frames + self.options.smoothing_frames // 2)

    def _next_condition(self) -> Tensor:
        last = self.motion[len(self.motion) - self.options.overlap_frames - 1]
        if self.options.reset_every == 0 or self._num_windows % self.options.reset_every:
            return last
        start, stop = self.options.carried_dims
        return torch.cat([self._source[:start], last[start:stop], self._source[stop:]])


def pad_rows(rows: Tensor, count: int) -> Tensor:
    """Repeat the last of (W, C) rows, W >= 1, until there are ``count``."""
    return torch.cat([rows, rows[-1:].expand(count - len(rows), -1)])


def generate_motion(conditions: Tensor, source: Tensor, sample: Sample, options: ClipOptions) -> Tensor:
    """Generate motion for a whole speech.

    Args:
        conditions: (T, C), T >= 1.
        source: (265,) motion vector of the first source frame, which the first window starts from.
        sample: one run of the diffusion model.
        options: how windows are chained.

    Returns:
        (T, 265), smoothed, not clipped.

    Raises:
        UsageError: there is no row.
    """
    if len(conditions) == 0:
        raise UsageError("there is nothing to generate motion for", "give at least one condition row")
    return torch.cat(list(iterate_motion([conditions], source, sample, options)))


def iterate_motion(
    conditions: Iterable[Tensor], source: Tensor, sample: Sample, options: ClipOptions
) -> Iterator[Tensor]:
    """Generate motion for a whole speech, and yield rows as soon as no later window changes them.

    The rows are those of :func:`generate_motion`, however the conditions are cut into chunks. What is kept does not
    grow with the speech.

    Args:
        conditions: chunks (n, C) in order.
        source: (265,) motion vector of the first source frame.
        sample: one run of the diffusion model.
        options: how windows are chained.

    Yields:
        Chunks (k, 265), k >= 1, smoothed, not clipped; as many rows in all as there are condition rows.
    """
    settled = _SettledRows(ClipChain(sample, source, options.overlap_frames, options))
    buffer, num_rows = source.new_zeros(0, 0), 0
    for chunk in conditions:
        buffer = torch.cat([buffer, chunk]) if len(buffer) else chunk
        num_rows += len(chunk)
        while len(buffer) >= WINDOW_FRAMES:
            settled.chain.extend(buffer[:WINDOW_FRAMES])
            buffer = buffer[options.stride :]
            yield from settled.take()
    while len(buffer):
        settled.chain.extend(pad_rows(buffer, WINDOW_FRAMES))
        buffer = buffer[options.stride :]
    yield from settled.take(num_rows)


class _SettledRows:
    """Hands out the rows of a chain that no later window changes, and has the chain forget them.

    Args:
        chain: a new one.
    """

    def __init__(self, chain: ClipChain) -> None:
        self.chain = chain
        self._forgotten = self._num_taken = 0
        self._reach = chain.options.smoothing_frames // 2

    def take(self, num_rows: int | None = None) -> Iterator[Tensor]:
        """The rows that have settled since; with ``num_rows``, all that are left of a speech so long."""
        length = self._forgotten + len(self.chain.motion)
        # The next window fades and smooths this far back, and the last smoothing looks ahead.
        stop = length - self.chain.fade_frames - self._reach if num_rows is None else num_rows
        if stop <= self._num_taken:
            return
        low, high = max(self._num_taken - self._reach, 0), stop + self._reach if num_rows is None else num_rows
        near = self.chain.motion[low - self._forgotten : high - self._forgotten]
        smooth = smooth_driving(near, self.chain.options.smoothing_frames)
        yield smooth[self._num_taken - low : stop - low]
        self._num_taken = stop
        spare = min(stop - self._reach, length - self.chain.reach_back) - self._forgotten
        self.chain.forget(spare)
        self._forgotten += max(spare, 0)


def stream_motion(
    features: Iterable[Tensor],
    silence: Tensor,
    condition: Condition,
    source: Tensor,
    sample: Sample,
    options: ClipOptions,
) -> Iterator[Tensor]:
    """Generate motion while speech features arrive; exactly one row per feature row.

    Rows leave ``options.stride`` at a time once their window is full; the end flushes the rest, however short.

    Args:
        features: chunks (k, A) of speech features, in order.
        silence: (A,) features of silence, which precede the speech.
        condition: makes condition rows of feature rows.
        source: (265,) motion vector of the first source frame.
        sample: one run of the diffusion model.
        options: how windows are chained; the overlap must be at least half a window.

    Returns:
        Iterator of chunks (k, 265), smoothed, not clipped.

    Raises:
        UsageError: the overlap is shorter, so that the first frames would be lost.
    """
    if options.overlap_frames < SHORTEST_STREAM_OVERLAP:
        raise UsageError(
            f"overlap_frames is {options.overlap_frames}", f"streaming needs at least {SHORTEST_STREAM_OVERLAP}"
        )
    return _trimmed(features, silence, condition, ClipChain(sample, source, options.stride, options))


def stream_windows(
    features: Iterable[Tensor], silence: Tensor, condition: Condition, chain: ClipChain
) -> Iterator[Tensor]:
    """What each window of a stream adds, untrimmed: the last chunk may reach past the speech.

    Args:
        features: chunks (k, A) of speech features, in order.
        silence: (A,) features of silence.
        condition: makes condition rows of feature rows.
        chain: a new chain; its ``motion`` is read here.

    Yields:
        Chunks (k, 265).
    """
    overlap, stride = chain.options.overlap_frames, chain.options.stride
    buffer, first_index = silence.expand(overlap, -1), -overlap
    sent_to, started = WINDOW_FRAMES - chain.fade_frames, False
    for chunk in features:
        buffer = torch.cat([buffer, chunk])
        while len(buffer) >= WINDOW_FRAMES:
            chain.extend(condition(buffer[:WINDOW_FRAMES], first_index))
            if started:
                yield chain.motion[sent_to : sent_to + stride]
                sent_to += stride
            started = True
            buffer, first_index = buffer[stride:], first_index + stride
    chain.extend(condition(pad_rows(buffer, WINDOW_FRAMES), first_index))
    yield chain.motion[sent_to : sent_to + len(buffer)]


def _trimmed(features: Iterable[Tensor], silence: Tensor, condition: Condition, chain: ClipChain) -> Iterator[Tensor]:
    arrived = sent = 0

    def counted() -> Iterator[Tensor]:
        nonlocal arrived
        for chunk in features:
            arrived += len(chunk)
            yield chunk

    for rows in stream_windows(counted(), silence, condition, chain):
        part = rows[: arrived - sent]
        sent += len(part)
        if len(part):
            yield part
