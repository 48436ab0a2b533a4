"""A live session: what comes in as sound goes out as frames, utterance by utterance, idling in between."""

import math
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newsstudio_ditto.daemon.live.features import FeatureStream
from newsstudio_ditto.daemon.live.motion import LiveMotion, LiveOptions, PoseLine
from newsstudio_ditto.daemon.live.picture import LivePicture
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.pipeline import Frame
from newsstudio_ditto.units import FRAME_RATE_HZ, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

Pcm = npt.NDArray[np.int16]

MOST_WAITING = 64
FIRST_IDLE_FRAMES = 3
_LEAD_S = 0.12  # idle frames leave this much early, so that a player's buffer does not run dry
_LONGEST_WAIT_S = 3600.0
_FULL_SCALE = 32768.0
_FRAME_BYTES = 2 * SAMPLES_PER_FRAME
_SILENCE = bytes(_FRAME_BYTES)


class LiveSink(Protocol):
    """Where frames and their sound go."""

    def write(self, frame: Frame, sound: bytes) -> None:
        """Take one frame and its 1280 bytes of 16-bit sound."""
        ...

    def mark(self) -> None:
        """The frame that comes next is the first of an utterance."""
        ...

    def marked_s(self) -> float | None:
        """When the first bytes after the mark left, ``time.monotonic()``."""
        ...


@dataclass(frozen=True)
class _Sound:
    samples: Pcm
    arrived_s: float


class _EndUtterance:
    """No more sound of this utterance."""


class _Stop:
    """No more sound at all."""


_Event = _Sound | _EndUtterance | _Stop


@dataclass
class LiveReport:
    """What a session did.

    Args:
        utterances: how many.
        speech_frames: frames with generated motion.
        idle_frames: frames without.
        speech_seconds: of sound.
        busy_seconds: that it took to make frames of speech, waiting for sound excepted.
        first_frame_ms: by utterance, from its first sound to the first bytes of its first frame.
        look_ahead_ms: that the motion needs to hear, at most; sound that comes at the pace of speech waits for it.
    """

    utterances: int = 0
    speech_frames: int = 0
    idle_frames: int = 0
    speech_seconds: float = 0.0
    busy_seconds: float = 0.0
    first_frame_ms: list[float] = field(default_factory=list)
    look_ahead_ms: float = 0.0

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of video for each second of work; below 1 it falls behind. None before any speech."""
        return self.speech_frames / FRAME_RATE_HZ / self.busy_seconds if self.busy_seconds else None


class LiveSession:
    """One presenter who listens. ``push``, ``end_utterance`` and ``stop`` are called from any thread, ``run`` from one.

    Args:
        packet: the avatar.
        engine: warm, and this session's alone.
        sink: takes frames.
        options: of the session.
    """

    def __init__(self, packet: Packet, engine: Engine, sink: LiveSink, options: LiveOptions) -> None:
        """Prepare everything that does not depend on sound."""
        self._options, self._sink, self._bundle = options, sink, engine.bundle
        self._motion = LiveMotion(packet, engine, options)
        self._line = PoseLine(packet, engine, stitch=options.stitch)
        self._picture = LivePicture(packet, engine)
        self._inbox: queue.Queue[_Event] = queue.Queue(maxsize=MOST_WAITING)
        self._held: _Event | None = None
        self._sound = bytearray()
        self._num_frames = 0
        self._started_s = 0.0
        self._waited_s = 0.0
        self._is_over = False
        self._is_marking = False
        self._faded_from = 0
        self.report = LiveReport(look_ahead_ms=options.look_ahead_ms)

    def push(self, sound: bytes) -> None:
        """Take sound: 16-bit little-endian mono PCM, 16 kHz. Blocks while much of it waits.

        Raises:
            UsageError: half a sample.
        """
        if len(sound) % 2:
            what = f"{len(sound)} bytes are no whole number of 16-bit samples"
            raise UsageError(what, "send 16-bit PCM, 16 kHz, mono")
        if sound:
            self._inbox.put(_Sound(np.frombuffer(sound, "<i2"), time.monotonic()))

    def end_utterance(self) -> None:
        """Say that the utterance is complete, so that its last frames need not wait."""
        self._inbox.put(_EndUtterance())

    def stop(self) -> None:
        """End the session after what has been pushed."""
        self._inbox.put(_Stop())

    def abandon(self) -> None:
        """End the session now; what has been pushed and not been heard yet is dropped."""
        while True:
            try:
                self._inbox.get_nowait()
            except queue.Empty:
                break
        self._inbox.put(_Stop())

    def run(self) -> LiveReport:
        """Idle, and speak whenever there is sound, until :meth:`stop`.

        Raises:
            SinkError: the sink takes no more.
        """
        self._started_s = time.monotonic()
        for _ in range(FIRST_IDLE_FRAMES):
            self._show_idle()
        while not self._is_over:
            event = self._next_event(is_idling=True)
            if isinstance(event, _Sound):
                self._utter(event)
            self._is_over = self._is_over or isinstance(event, _Stop)
        return self.report

    def _utter(self, first: _Sound) -> None:
        started, self._waited_s = time.monotonic(), 0.0
        self._sound.clear()
        last = origin = None
        for rows in self._motion.utter(self._features(first), self.report.utterances):
            if origin is None:
                origin, self._is_marking = rows[0].clone(), True
            assert isinstance(origin, Tensor), "set with the first rows"
            self._speak(rows, origin)
            last = rows[-1:]
        if last is not None and origin is not None:
            self._fade_out(last, origin)
        self.report.utterances += 1
        self.report.busy_seconds += time.monotonic() - started - self._waited_s
        left = self._sink.marked_s()
        if left is not None:
            self.report.first_frame_ms.append(1000.0 * (left - first.arrived_s))

    def _features(self, first: _Sound) -> Iterator[Tensor]:
        """Feature rows of one utterance; waits for sound, and idles until there is something to show."""
        stream = FeatureStream(self._bundle)
        event: _Event = first
        longest, num_samples = int(self._options.utterance_s * SAMPLE_RATE_HZ), 0
        first_row = self.report.speech_frames
        while isinstance(event, _Sound):
            samples = event.samples[: longest - num_samples]
            self._sound += samples.tobytes()
            num_samples += len(samples)
            yield stream.feed(samples.astype(np.float32) / _FULL_SCALE)
            if num_samples >= longest:
                rest = event.samples[len(samples) :]
                self._held = _Sound(rest, event.arrived_s) if len(rest) else None
                break
            is_silent = self.report.speech_frames == first_row
            event = self._next_event(is_idling=is_silent, gap_s=self._options.gap_s)
        self._is_over = self._is_over or isinstance(event, _Stop)
        self.report.speech_seconds += num_samples / SAMPLE_RATE_HZ
        yield stream.finish()

    def _next_event(self, *, is_idling: bool, gap_s: float = math.inf) -> _Event:
        """The next event; meanwhile idle frames are shown at their time. A longer silence ends the utterance."""
        if self._held is not None:
            event, self._held = self._held, None
            return event
        began = time.monotonic()
        try:
            while True:
                now = time.monotonic()
                due = self._due_s(now) if is_idling else math.inf
                until = min(due, began + gap_s)
                try:
                    # A stop always comes; the bound only keeps the timeout a number.
                    return self._inbox.get(timeout=min(max(until - now, 0.0), _LONGEST_WAIT_S))
                except queue.Empty:
                    if time.monotonic() >= began + gap_s:
                        return _EndUtterance()
                    if is_idling:
                        self._show_idle()
        finally:
            self._waited_s += time.monotonic() - began

    def _due_s(self, now: float) -> float:
        """When the next idle frame is due; time that was lost to slow rendering is not made up for."""
        due = self._started_s + self._num_frames / FRAME_RATE_HZ - _LEAD_S
        late = now - due - _LEAD_S
        if late > 0:
            self._started_s += late
        return due + max(late, 0.0)

    def _show_idle(self) -> None:
        self._write(self._picture.idle(self._line.idle(1)), _SILENCE)
        self.report.idle_frames += 1

    def _speak(self, rows: Tensor, origin: Tensor) -> None:
        begun = self.report.speech_frames - self._faded_from
        weight = (torch.arange(begun + 1, begun + 1 + len(rows)) / (self._options.fade_frames + 1)).clamp(max=1.0)
        self._render(rows, weight, origin)
        self.report.speech_frames += len(rows)

    def _fade_out(self, last: Tensor, origin: Tensor) -> None:
        count = self._options.fade_frames
        begun = self.report.speech_frames - self._faded_from
        top = min(begun / (count + 1), 1.0)  # a very short utterance never came to full weight
        weight = top * torch.arange(count, 0, -1) / (count + 1)
        self._render(last.expand(count, -1), weight, origin)
        self.report.idle_frames += count
        self._faded_from = self.report.speech_frames

    def _render(self, rows: Tensor, weight: Tensor, origin: Tensor) -> None:
        for frame in self._picture.render(self._line.speak(rows, weight, origin)):
            sound = bytes(self._sound[:_FRAME_BYTES])
            del self._sound[:_FRAME_BYTES]
            if self._is_marking:
                self._sink.mark()
                self._is_marking = False
            self._write(frame, sound.ljust(_FRAME_BYTES, b"\0"))

    def _write(self, frame: Frame, sound: bytes) -> None:
        self._sink.write(frame, sound)
        self._num_frames += 1
