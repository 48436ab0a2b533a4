"""Spectra as a statistical synthesiser has them: means of many frames in which the same part of a sound is spoken."""

from dataclasses import dataclass

import numpy as np

PARTS = 3  # of a phone: begin, middle, end, as the states of the usual models are
NO_STATE = -1
FEWEST_ALIKE = 8  # below, a frame stays as it is


@dataclass(frozen=True)
class Pool:
    """What a voice was heard to say.

    Args:
        frames: (N, C) spectral coefficients.
        states: (N,) as :func:`frame_states` numbers them.
        utterances: (N,) which one each frame is from.
    """

    frames: np.ndarray
    states: np.ndarray
    utterances: np.ndarray

    @classmethod
    def of(cls, frames: dict[int, np.ndarray], states: dict[int, np.ndarray]) -> "Pool":
        """Frames (T, C) and states (T,) by number of the utterance."""
        numbers = [np.full(len(one), number) for number, one in states.items()]
        return cls(np.concatenate([*frames.values()]), np.concatenate([*states.values()]), np.concatenate(numbers))


def frame_states(phones: np.ndarray, num_frames: int, period_s: float) -> np.ndarray:
    """Part of a phone (T,) at each frame, of rows (kind, start, end) in seconds; :data:`NO_STATE` outside of all."""
    states = np.full(num_frames, NO_STATE)
    for kind, start_s, end_s in phones:
        edges = np.rint(np.linspace(start_s, end_s, PARTS + 1) / period_s).astype(int)
        for part in range(PARTS):
            states[edges[part] : edges[part + 1]] = PARTS * int(kind) + part
    return states


def average_alike(frames: np.ndarray, states: np.ndarray, utterance: int, pool: Pool, share: float) -> np.ndarray:
    """Frames (T, C), each the mean of those most like it that other utterances have in its state.

    Args:
        frames: (T, C) spectral coefficients of an utterance, at most as many as the pool's.
        states: (T,) of its frames.
        utterance: its number; its own frames are no part of a mean.
        pool: of its voice.
        share: of the frames in a state that a mean takes, 0 to 1; at least one.
    """
    averaged = frames.copy()
    others = pool.utterances != utterance
    for state in np.unique(states[states != NO_STATE]):
        known = pool.frames[others & (pool.states == state), : frames.shape[1]]
        if len(known) < FEWEST_ALIKE:
            continue
        mine = states == state
        count = max(round(share * len(known)), 1)
        distance = ((frames[mine][:, None] - known[None]) ** 2).sum(2)
        nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
        averaged[mine] = known[nearest].mean(1)
    return averaged
