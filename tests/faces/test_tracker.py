import logging
from collections.abc import Iterator

import numpy as np
import pytest

from newsstudio_ditto.faces import FaceFinder, FaceObservation
from newsstudio_ditto.faces.appearance import colour_signature, signature_distance
from newsstudio_ditto.faces.tracker import FaceTracker
from tests.faces import scenes


def centres(track: list[FaceObservation | None]) -> np.ndarray:
    assert all(face is not None for face in track)
    return np.array([face.centre for face in track if face is not None])


def test_every_frame_of_the_anchor_is_tracked(finder: FaceFinder) -> None:
    frames = scenes.anchor_frames()
    tracker = finder.tracker()
    track = [tracker.step(frame) for frame in frames]
    assert (tracker.num_frames, tracker.num_lost, tracker.num_faces) == (len(frames), 0, 1)
    single = [finder.observe(frame)[0] for frame in frames[::8]]
    for face, alone in zip(track[::8], single, strict=True):
        assert face is not None
        assert np.abs(face.landmarks - alone.landmarks)[:, :2].mean() < 0.5


def leaving_scene() -> Iterator[scenes.Pixels]:
    """The head slides out on the right, is gone in frames 12 to 19, and returns on the left."""
    for index in range(30):
        scene = scenes.canvas()
        if index < 12:
            scenes.place(scene, scenes.face_patch(), centre=(320 + 32 * index, 240))
        elif index >= 20:
            scenes.place(scene, scenes.face_patch(), centre=(160 + 5 * (index - 20), 240))
        yield scene


def test_a_face_that_leaves_is_missing_and_found_again(finder: FaceFinder) -> None:
    track = list(finder.track(leaving_scene()))
    assert all(face is not None for face in track[:8])
    assert track[12:20] == [None] * 8
    for index in range(22, 30):
        face = track[index]
        assert face is not None
        assert abs(face.centre[0] - (160 + 5 * (index - 20))) < 15


def crossing_scene(count: int) -> Iterator[scenes.Pixels]:
    """One face grows while the other shrinks; they are equally large half-way."""
    for index in range(count):
        share = index / (count - 1)
        scene = scenes.canvas()
        scenes.place(scene, scenes.face_patch(), centre=(170, 240), scale=1.3 - 0.7 * share)
        scenes.place(scene, scenes.twin_patch(), centre=(470, 240), scale=0.6 + 0.7 * share)
        yield scene


def test_the_person_stays_the_same_when_sizes_cross(finder: FaceFinder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        tracker = finder.tracker()
        track = [tracker.step(scene) for scene in crossing_scene(20)]
    path = centres(track)
    assert (path[:, 0] < 320).all()
    assert np.hypot(*np.diff(path, axis=0).T).max() < 20
    assert tracker.num_faces == 2
    counts = [record.num_faces for record in caplog.records if hasattr(record, "num_faces")]
    assert counts == [2]
    again = centres(list(finder.track(crossing_scene(20))))
    np.testing.assert_array_equal(path, again)


def test_somebody_else_is_not_taken_for_the_person(finder: FaceFinder) -> None:
    both, other, none = scenes.canvas(), scenes.canvas(), scenes.canvas()
    for scene in (both, other):
        scenes.place(scene, scenes.twin_patch(), centre=(480, 240), scale=0.8)
    scenes.place(both, scenes.face_patch(), centre=(200, 240), scale=1.1)
    track = list(finder.track([both, both, other, other, none, other, both]))
    assert [face is not None for face in track] == [True, True, False, False, False, False, True]
    assert all(face.centre[0] < 300 for face in track if face is not None)


def test_the_central_face_wins_over_a_slightly_larger_one_at_the_edge(finder: FaceFinder) -> None:
    scene = scenes.canvas()
    scenes.place(scene, scenes.twin_patch(), centre=(90, 120), scale=1.0)
    scenes.place(scene, scenes.face_patch(), centre=(330, 240), scale=0.9)
    (face,) = finder.track([scene])
    assert face is not None
    assert abs(face.centre[0] - 330) < 20


def test_a_clip_may_begin_without_a_face(finder: FaceFinder) -> None:
    frame = scenes.anchor_frames()[0]
    track = list(finder.track([np.zeros_like(frame), frame]))
    assert track[0] is None
    assert track[1] is not None


def test_a_clip_without_faces_is_counted(finder: FaceFinder) -> None:
    tracker = finder.tracker()
    assert [tracker.step(scenes.canvas()) for _ in range(3)] == [None] * 3
    assert (tracker.num_frames, tracker.num_lost, tracker.num_faces) == (3, 3, 0)


def make_face(x: float, side: float = 100.0) -> FaceObservation:
    points = np.random.default_rng(0).uniform(0, 1, (478, 3)).astype(np.float32)
    points[0, :2], points[1, :2] = (0, 0), (1, 1)
    return FaceObservation(points * np.float32(side) + np.float32((x, 100, 0)), 1.0)


class ScriptedFinder:
    """Follows to a given face; sees given faces when asked to search."""

    def __init__(self, followed: list[FaceObservation | None], seen: list[list[FaceObservation]]) -> None:
        self.followed, self.seen = followed, seen

    def observe(self, frame_rgb: scenes.Pixels) -> list[FaceObservation]:
        return self.seen.pop(0)

    def follow(self, frame_rgb: scenes.Pixels, previous: FaceObservation) -> FaceObservation | None:
        return self.followed.pop(0)


def test_a_jump_while_following_leads_to_a_search() -> None:
    start, jump, near = make_face(100), make_face(400), make_face(110)
    tracker = FaceTracker(ScriptedFinder([jump], [[start], [near]]))
    scene = scenes.canvas()
    assert tracker.step(scene) is start
    assert tracker.step(scene) is near


def test_a_lone_return_anywhere_is_accepted() -> None:
    start, back = make_face(50), make_face(450)
    tracker = FaceTracker(ScriptedFinder([None], [[start], [], [back]]))
    scene = scenes.canvas()
    assert [tracker.step(scene) for _ in range(3)] == [start, None, back]


def test_signatures_tell_persons_apart(finder: FaceFinder) -> None:
    frames = scenes.anchor_frames()
    own = [colour_signature(frame, finder.observe(frame)[0]) for frame in (frames[0], frames[20])]
    twin = scenes.twin_patch()
    other = colour_signature(twin, finder.observe(twin)[0])
    assert own[0].sum() == pytest.approx(1, abs=1e-5)
    assert signature_distance(own[0], own[0]) == pytest.approx(0, abs=1e-3)
    assert signature_distance(own[0], own[1]) < 0.1
    assert signature_distance(own[0], other) > 0.6


def test_a_face_outside_the_frame_has_an_empty_signature() -> None:
    signature = colour_signature(scenes.canvas(), make_face(5000))
    assert signature.sum() == 0
    assert signature_distance(signature, signature) == 1
