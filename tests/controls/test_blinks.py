"""When lids close, how far, and that nothing else moves."""

import itertools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newsstudio_ditto.controls import BlinkOptions
from newsstudio_ditto.maths.blink import BLINK_SHAPE, blink_closing, blink_rows, blink_starts
from newsstudio_ditto.maths.motion_stitch import StitchedMotion
from newsstudio_ditto.networks.config import BundleConfig
from tests.controls.plans import MINI, NO_RIG, OFFICIAL, STILL, clip, coordinates, stitched

SPAN = len(BLINK_SHAPE)
OFF = BlinkOptions("off")


@settings(max_examples=80, deadline=None)
@given(
    num_frames=st.integers(0, 3000),
    per_minute=st.floats(1, 40),
    seed=st.none() | st.integers(0, 99),
)
def test_blinks_are_whole_apart_and_at_least_one(num_frames: int, per_minute: float, seed: int | None) -> None:
    starts = blink_starts(num_frames, per_minute, None if seed is None else random.Random(seed))
    assert bool(starts) == (num_frames >= SPAN)
    assert all(0 <= start <= num_frames - SPAN for start in starts)
    assert all(late - early > SPAN for early, late in itertools.pairwise(starts))


@pytest.mark.parametrize("per_minute", [6.0, 16.0, 40.0])
def test_the_rate_is_kept(per_minute: float) -> None:
    minutes = 10
    for rng in (None, random.Random(5)):
        assert len(blink_starts(1500 * minutes, per_minute, rng)) == pytest.approx(per_minute * minutes, rel=0.06)


def test_even_blinks_are_even_and_random_ones_are_not() -> None:
    even = torch.tensor(blink_starts(3000, 20.0, None)).diff()
    uneven = torch.tensor(blink_starts(3000, 20.0, random.Random(1))).diff()
    assert even.unique().tolist() == [75]
    assert len(uneven.unique()) > 5
    assert (uneven.min(), uneven.max()) >= (56, 56)
    assert uneven.max() <= 94


def test_a_blink_opens_and_shuts_once() -> None:
    closing = blink_closing(20, 1.0, None)
    assert closing[4 : 4 + SPAN].tolist() == pytest.approx(list(BLINK_SHAPE))
    assert closing.max() == 1
    assert closing[0] == closing[-1] == 0


def blinked(config: BundleConfig, num_frames: int = 60, **blink: float) -> StitchedMotion:
    return stitched(num_frames, config=config, blink=BlinkOptions("fixed", **blink))  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [OFFICIAL, MINI], ids=["official", "mini"])
def test_a_blink_moves_only_eye_points(config: BundleConfig) -> None:
    """Also in a speech of 2.4 seconds."""
    offsets = blinked(config).expression - stitched(60, config=config, blink=OFF).expression
    eyes = coordinates(*config.eye_points)
    assert offsets[:, ~eyes].abs().max() == 0
    assert (offsets[:, eyes].abs().amax(dim=1) > 0).sum() == SPAN - 2
    harder = blinked(config, closing=1.5).expression - stitched(60, config=config, blink=OFF).expression
    torch.testing.assert_close(harder, 1.5 * offsets, atol=1e-6, rtol=1e-4)


def test_shut_lids_of_a_mesh_meet() -> None:
    """The lower lid stays; the upper one crosses the gap by the 115 % of the training heads."""
    motion = blinked(MINI)
    shut = int((motion.expression - STILL.expression)[:, coordinates(9)].abs().sum(dim=1).argmax())
    still = motion.source_keypoints[0]
    moved = motion.driving_keypoints[shut]
    for upper, lower in ((9, 10), (11, 12)):
        gap = still[lower, :2] - still[upper, :2]
        torch.testing.assert_close(moved[upper, :2] - still[upper, :2], 1.15 * gap, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(moved[lower], still[lower], atol=1e-5, rtol=1e-4)


def test_equal_seeds_blink_alike_and_others_do_not() -> None:
    def motion(seed: int) -> torch.Tensor:
        return stitched(200, blink=BlinkOptions("random", per_minute=30, seed=seed)).expression

    assert torch.equal(motion(1), motion(1))
    assert not torch.equal(motion(1), motion(2))


def test_a_clip_keeps_its_own_eyes_under_the_blinks() -> None:
    source = clip(5)
    eyes = coordinates(*OFFICIAL.eye_points)
    kept = stitched(60, source=source).expression
    over = stitched(60, source=source, blink=BlinkOptions("fixed")).expression
    assert torch.equal(stitched(60, source=source, blink=OFF).expression, kept)
    moved = (over - kept).abs().amax(dim=1)
    assert (moved > 0).sum() == SPAN - 2
    assert (over - kept)[:, ~eyes].abs().max() == 0


@pytest.mark.parametrize("config", [OFFICIAL, MINI, NO_RIG], ids=["official", "mini", "no rig"])
def test_without_blinks_of_its_own_a_model_leaves_the_eyes_to_its_motion(config: BundleConfig) -> None:
    plain, generated = (stitched(config=config, blink=BlinkOptions(mode)) for mode in ("model", "generated"))
    assert torch.equal(plain.driving_keypoints, generated.driving_keypoints)


def test_long_blinks_follow_each_other_without_a_gap() -> None:
    assert blink_starts(400, 40.0, None, 60) == [18, 78, 138, 198, 258, 318]


@pytest.mark.parametrize("seed", [None, 4])
def test_rows_of_a_blink_run_once_from_each_start(seed: int | None) -> None:
    def rng() -> random.Random | None:
        return None if seed is None else random.Random(seed)

    rows = blink_rows(400, 30.0, rng(), 15)
    starts = blink_starts(400, 30.0, rng(), 15)
    assert len(starts) >= 6
    expected = torch.zeros(400, dtype=torch.int64)
    for start in starts:
        expected[start : start + 15] = torch.arange(15)
    assert rows.tolist() == expected.tolist()


def test_blinks_off_still_a_still_and_need_no_rig() -> None:
    eyes = coordinates(*OFFICIAL.eye_points)
    still = stitched(blink=OFF, gaze_follows_head=False).expression
    assert torch.equal(still[:, eyes], STILL.expression[:, eyes].expand(12, -1))
    assert not torch.equal(stitched(gaze_follows_head=False).expression[:, eyes], still[:, eyes])
    stitched(config=NO_RIG, blink=OFF)
