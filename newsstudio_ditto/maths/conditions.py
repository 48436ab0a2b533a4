"""Rows that condition the motion diffusion: audio, emotion, eyes, identity."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.units import EMOTIONS as EMOTIONS

_CHOSEN_LOGIT = 8.0


@dataclass(frozen=True)
class Conditioning:
    """What conditions the motion besides the audio; a part that is ``None`` takes no columns.

    Args:
        emotion: (m, 8) probabilities, repeated over time.
        eye_open: (n, 2), one row per source frame.
        eye_ball: (n, 6), one row per source frame.
        identity: (63,) canonical keypoints of the first source frame, unsmoothed.
    """

    emotion: Tensor | None = None
    eye_open: Tensor | None = None
    eye_ball: Tensor | None = None
    identity: Tensor | None = None

    def freeze_eyes(self) -> "Conditioning":
        """The same with the eyes of the first source frame for every frame."""
        eye_open = None if self.eye_open is None else self.eye_open[:1]
        eye_ball = None if self.eye_ball is None else self.eye_ball[:1]
        return Conditioning(self.emotion, eye_open, eye_ball, self.identity)


def emotion_rows(emotion: int | Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    """Emotion probabilities.

    Args:
        emotion: one index into ``EMOTIONS``, several that are mixed, or one such mix per frame.

    Returns:
        (m, 8) float32; m is 1 unless mixes per frame are given.

    Raises:
        UsageError: an index outside 0..7, or an empty list.
    """
    if isinstance(emotion, int):
        return _mix([emotion])[None]
    indices = [index for index in emotion if isinstance(index, int)]
    mixes = [mix for mix in emotion if not isinstance(mix, int)]
    if indices and mixes:
        raise UsageError("emotion holds both indices and mixes", "give either indices, or one list for each frame")
    return torch.stack([_mix(mix) for mix in mixes]) if mixes else _mix(indices)[None]


def condition_rows(audio: Tensor, conditioning: Conditioning, first_index: int = 0) -> Tensor:
    """Put the condition of each frame into one row.

    Args:
        audio: (T, A) speech features.
        conditioning: the other parts.
        first_index: output frame of row 0; frames before 0 are conditioned like frame 0.

    Returns:
        (T, A + 8 + 2 + 6 + 63) float32 on the device of ``audio``: audio, emotion, eye openness, eye balls, identity.
    """
    frames = np.maximum(np.arange(first_index, first_index + len(audio), dtype=np.int64), 0)
    parts = [audio]
    if conditioning.emotion is not None:
        parts.append(_pick(conditioning.emotion, frames % len(conditioning.emotion), audio))
    for eyes in (conditioning.eye_open, conditioning.eye_ball):
        if eyes is not None:
            parts.append(_pick(eyes, mirror_index(frames, len(eyes)), audio))
    if conditioning.identity is not None:
        parts.append(_pick(conditioning.identity[None], np.zeros_like(frames), audio))
    return torch.cat(parts, dim=1)


def _mix(indices: Sequence[int]) -> Tensor:
    if not indices or not all(0 <= index < len(EMOTIONS) for index in indices):
        raise UsageError(f"emotion {list(indices)} is not a mix", f"give indices 0 to 7: {', '.join(EMOTIONS)}")
    logits = torch.zeros(len(EMOTIONS))
    logits[list(indices)] = _CHOSEN_LOGIT
    return torch.softmax(logits, dim=0)


def _pick(table: Tensor, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]], like: Tensor) -> Tensor:
    return table.to(like)[torch.from_numpy(rows).to(like.device)]
