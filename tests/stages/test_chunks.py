import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from newsstudio_ditto.progress import listening, report_stage
from newsstudio_ditto.stages.chunks import CHUNK_BYTES, chunk_length, counted, fill_gaps, spans


@given(st.integers(0, 300), st.integers(1, 70))
def test_spans_cover_every_frame_once_in_order(num_frames: int, length: int) -> None:
    covered = [index for span in spans(num_frames, length) for index in range(span.start, span.stop)]
    assert covered == list(range(num_frames))
    assert all(0 < span.stop - span.start <= length for span in spans(num_frames, length))


@given(st.integers(1, 2**34))
def test_a_chunk_is_never_empty_and_stays_within_its_bytes(frame_bytes: int) -> None:
    length = chunk_length(frame_bytes)
    assert 1 <= length <= 64
    assert length == 1 or length * frame_bytes <= CHUNK_BYTES


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any), st.integers(0, 2**32 - 1))
def test_gaps_are_filled_between_their_neighbours_and_nothing_else_changes(valid: list[bool], seed: int) -> None:
    flags = np.array(valid)
    values = np.random.default_rng(seed).normal(size=(len(valid), 2, 3)).astype(np.float32)
    values[~flags] = np.nan
    filled = fill_gaps(values, flags)
    known = np.flatnonzero(flags)
    np.testing.assert_array_equal(filled[flags], values[flags])
    assert filled.dtype == np.float32
    for index in np.flatnonzero(~flags):
        before, after = known[known < index], known[known > index]
        ends = [values[frame] for frame in (*before[-1:], *after[:1])]
        assert np.all(filled[index] >= np.minimum.reduce(ends) - 1e-5)
        assert np.all(filled[index] <= np.maximum.reduce(ends) + 1e-5)


def test_a_gap_is_crossed_at_constant_speed() -> None:
    values = np.array([[0.0], [np.nan], [np.nan], [np.nan], [8.0], [np.nan]], np.float32)
    filled = fill_gaps(values, np.array([True, False, False, False, True, False]))
    np.testing.assert_allclose(filled[:, 0], [0, 2, 4, 6, 8, 8])


def test_progress_reaches_the_listener_of_the_block_and_nobody_after_it() -> None:
    seen: list[tuple[str, int, int]] = []
    chunks = [{"x": torch.zeros(2)}, {"x": torch.zeros(1)}]
    with listening(lambda stage, done, total: seen.append((stage, done, total))):
        assert list(counted("masks", chunks, 3)) == chunks
    report_stage("masks", 9, 9)
    assert seen == [("masks", 0, 3), ("masks", 2, 3), ("masks", 3, 3)]
