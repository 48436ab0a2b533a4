"""Following one person through a clip."""

import logging
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from newsstudio_ditto.faces.appearance import colour_signature, signature_distance
from newsstudio_ditto.faces.observation import FaceObservation, Floats, Pixels, is_continuous

log = logging.getLogger(__name__)

MAX_STEP = 0.4
MAX_STEP_GROWTH = 1.4
# Distances of colour signatures.
MAX_RETURN_DISTANCE = 0.5
MAX_LONE_RETURN_DISTANCE = 0.8
CLEAR_DIFFERENCE = 0.1


class Finder(Protocol):
    """What a tracker asks of a face finder."""

    def observe(self, frame_rgb: Pixels) -> list[FaceObservation]:
        """Every face of a frame, largest first."""

    def follow(self, frame_rgb: Pixels, previous: FaceObservation) -> FaceObservation | None:
        """The face where it was in the frame before."""


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody seen in the clip.

    Args:
        face: where that person was seen last.
        signature: (32, 32) colours of that face.
    """

    face: FaceObservation
    signature: Floats


class FaceTracker:
    """Follows the same person from the first to the last frame of a clip.

    The first frame with faces decides who it is: the largest, with preference for the middle. After that
    the landmarks of a frame say where to look in the next. When that fails, the whole frame is searched
    again, and a face is taken for the person only if position and size continue, or, after an absence,
    if its colours agree better with the person than with anybody else seen.

    Args:
        finder: finds faces.
    """

    def __init__(self, finder: Finder) -> None:
        """Start with nobody seen."""
        self._finder = finder
        self._person: Person | None = None
        self._others: list[Person] = []
        self._missing_since = 0
        self.num_frames = 0
        self.num_lost = 0
        self.num_faces = 0

    def step(self, frame_rgb: Pixels) -> FaceObservation | None:
        """Take the next frame (H, W, 3) uint8 and return the person's face in it, or ``None``.

        Afterwards ``num_frames`` counts the frames taken, ``num_lost`` those that returned ``None``, and
        ``num_faces`` is the largest number of faces seen in one frame.
        """
        face = self._follow(frame_rgb)
        if face is None:
            face = self._search(frame_rgb)
        self.num_frames += 1
        if face is None:
            self.num_lost += 1
            self._missing_since += 1
        else:
            self._missing_since = 0
        return face

    def _follow(self, frame: Pixels) -> FaceObservation | None:
        if self._person is None or self._missing_since:
            return None
        face = self._finder.follow(frame, self._person.face)
        if face is None or not is_continuous(self._person.face, face, shift=MAX_STEP, ratio=MAX_STEP_GROWTH):
            return None
        self._person = Person(face, self._person.signature)
        return face

    def _search(self, frame: Pixels) -> FaceObservation | None:
        seen = [Person(face, colour_signature(frame, face)) for face in self._finder.observe(frame)]
        if len(seen) > max(self.num_faces, 1):
            log.warning("several faces in the clip; one is followed", extra={"num_faces": len(seen)})
        self.num_faces = max(self.num_faces, len(seen))
        person = self._person
        chosen = _choose_first(seen, frame) if person is None else self._recognise(person, seen)
        # A face that was never seen beside another one may be the person in another light: not a rival.
        if len(seen) > 1 or self._others:
            self._others = [other for other in seen if other is not chosen] or self._others
        if chosen is None:
            return None
        self._person = Person(chosen.face, chosen.signature if person is None else person.signature)
        return chosen.face

    def _recognise(self, person: Person, seen: list[Person]) -> Person | None:
        """Who of ``seen`` is the person followed so far, if anybody."""
        shift, ratio = 1.0 + 0.1 * self._missing_since, 1.6
        candidates = [other for other in seen if not self._is_rival(person, other)]
        here = [other for other in candidates if is_continuous(person.face, other.face, shift=shift, ratio=ratio)]
        if here:
            return min(here, key=lambda other: _moved_px(person, other))
        limit = MAX_RETURN_DISTANCE if self._others else MAX_LONE_RETURN_DISTANCE
        back = [other for other in candidates if signature_distance(person.signature, other.signature) <= limit]
        return min(back, key=lambda other: signature_distance(person.signature, other.signature), default=None)

    def _is_rival(self, person: Person, seen: Person) -> bool:
        """Whether ``seen`` stands where somebody else stood, or has somebody else's colours."""
        own = signature_distance(person.signature, seen.signature)
        for other in self._others:
            theirs = signature_distance(other.signature, seen.signature)
            if theirs < own - CLEAR_DIFFERENCE:
                return True
            same_place = is_continuous(other.face, seen.face, shift=MAX_STEP, ratio=MAX_STEP_GROWTH)
            if same_place and theirs < own + CLEAR_DIFFERENCE and _moved_px(other, seen) < _moved_px(person, seen):
                return True
        return False


def _moved_px(before: Person, after: Person) -> float:
    return float(np.hypot(*np.subtract(before.face.centre, after.face.centre)))


def _choose_first(seen: list[Person], frame: Pixels) -> Person | None:
    """The largest face, where a face at the corner of the frame counts a third of one in the middle."""
    height, width = frame.shape[:2]

    def weight(person: Person) -> float:
        x, y = person.face.centre
        off_centre = np.hypot(2 * x / width - 1, 2 * y / height - 1) / np.sqrt(2)
        return float(person.face.side_px / (1 + 2 * off_centre))

    return max(seen, key=weight, default=None)
