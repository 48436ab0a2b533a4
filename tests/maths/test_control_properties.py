"""Properties of conditions, curves and per-frame controls; and that every module of the folder has properties."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import newsstudio_ditto.maths
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.maths.clips import pad_rows
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows, emotion_rows
from newsstudio_ditto.maths.controls import FrameControls, fade_weights
from newsstudio_ditto.maths.curves import sample_curve
from newsstudio_ditto.maths.keypoints import decode_head_pose
from newsstudio_ditto.maths.loop import mirror_index
from newsstudio_ditto.maths.motion_stitch import MotionStitchOptions, stitch_motion
from newsstudio_ditto.maths.motion_vector import MOTION_KEYS, POSE_KEYS, MotionKey, clip_motion
from newsstudio_ditto.maths.pose_control import blend, control_pose
from tests.maths.motions import named_motion

few = settings(deadline=None, max_examples=40, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def conditionings(draw: st.DrawFn) -> Conditioning:
    seed = draw(SEEDS)
    emotion = emotion_rows(draw(st.lists(st.lists(st.integers(0, 7), min_size=1), min_size=1, max_size=4)))
    eyes = draw(st.integers(1, 5))
    whole = Conditioning(emotion, normal(seed, eyes, 2), normal(seed + 1, eyes, 6), normal(seed + 2, 63))
    kept = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    parts = (whole.emotion, whole.eye_open, whole.eye_ball, whole.identity)
    return Conditioning(*(part if keep else None for part, keep in zip(parts, kept, strict=True)))


def width(known: Conditioning) -> int:
    present = {"emotion": 8, "eye_open": 2, "eye_ball": 6, "identity": 63}
    return sum(columns for name, columns in present.items() if getattr(known, name) is not None)


@few
@given(conditionings(), st.integers(1, 30), st.integers(0, 29), SEEDS)
def test_condition_rows_do_not_depend_on_where_a_chunk_begins(
    known: Conditioning, num_frames: int, cut: int, seed: int
) -> None:
    audio = normal(seed, num_frames, 3)
    rows = condition_rows(audio, known)
    assert rows.shape == (num_frames, 3 + width(known))
    assert torch.equal(rows[:, :3], audio)
    assert torch.equal(condition_rows(audio[cut:], known, cut), rows[cut:])
    early = condition_rows(audio, known, -num_frames)
    assert torch.equal(early[:, 3:], rows[:1, 3:].expand(num_frames, -1))


@few
@given(conditionings(), st.integers(1, 30))
def test_frozen_eyes_are_those_of_the_first_frame(known: Conditioning, num_frames: int) -> None:
    frozen = condition_rows(torch.zeros(num_frames, 1), known.freeze_eyes())
    eyes = slice(1 + (0 if known.emotion is None else 8), frozen.shape[1] - (0 if known.identity is None else 63))
    assert torch.equal(frozen[:, eyes], frozen[:1, eyes].expand(num_frames, -1))
    assert torch.equal(frozen[:1], condition_rows(torch.zeros(1, 1), known))


@few
@given(st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_a_mix_of_emotions_is_a_distribution_over_those_named(emotions: list[int]) -> None:
    (row,) = emotion_rows(emotions)
    assert row.sum() == pytest.approx(1, abs=1e-5)
    named = sorted(set(emotions))
    others = [index for index in range(8) if index not in named]
    assert torch.allclose(row[named], row[named[0]].expand(len(named)))
    assert not others or row[others].max() < 0.01 * row[named].min()
    assert torch.equal(row, emotion_rows(list(reversed(emotions)))[0])


@st.composite
def curves(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    frames = draw(st.lists(st.integers(0, 100), min_size=1, max_size=6, unique=True).map(sorted))
    return tuple((frame / 25, draw(st.floats(-5, 5, width=32))) for frame in frames)


@few
@given(curves(), st.integers(1, 150))
def test_a_curve_passes_through_its_points_and_not_beyond_them(
    points: tuple[tuple[float, float], ...], num_frames: int
) -> None:
    values = sample_curve(points, num_frames)
    assert values.shape == (num_frames,)
    heights = [value for _, value in points]
    assert min(heights) - 1e-5 <= values.min() <= values.max() <= max(heights) + 1e-5
    for seconds, value in points:
        if round(seconds * 25) < num_frames:
            assert float(values[round(seconds * 25)]) == pytest.approx(value, abs=1e-4)
    assert float(values[0]) == pytest.approx(heights[0], abs=1e-4) or points[0][0] == 0


@given(st.floats(-1e3, 1e3), st.integers(0, 50))
def test_a_number_is_a_flat_curve(value: float, num_frames: int) -> None:
    assert torch.equal(sample_curve(value, num_frames), torch.full((num_frames,), value))


@few
@given(SEEDS, st.integers(1, 12))
def test_a_blend_ends_at_both_sides(seed: int, num_frames: int) -> None:
    driven, target = normal(seed, 2, num_frames, 5)
    assert torch.equal(blend(driven, target, torch.ones(num_frames)), driven)
    assert torch.equal(blend(driven, target, torch.zeros(num_frames)), target)
    middle = blend(driven, target, torch.full((num_frames,), 0.5))
    torch.testing.assert_close(middle, (driven + target) / 2)


def angle(
    logits: Tensor, base: Tensor, controls: FrameControls, fade_to: str = "first", gain_on: str = "degrees"
) -> Tensor:
    return control_pose(
        "yaw",
        logits,
        base,
        decode_head_pose(base[0]),
        controls,
        gain_on=gain_on,  # type: ignore[arg-type]
        fade_to=fade_to,  # type: ignore[arg-type]
    )


@few
@given(SEEDS, st.integers(1, 9), st.floats(-20, 20), st.floats(0, 3))
def test_an_offset_adds_and_a_gain_multiplies_degrees(seed: int, count: int, offset: float, gain: float) -> None:
    logits, base = 3 * normal(seed, 2, count, 66)
    plain = decode_head_pose(logits)
    assert torch.equal(angle(logits, base, FrameControls()), plain)
    moved = angle(logits, base, FrameControls(pose_delta_deg={"yaw": torch.full((count,), offset)}))
    torch.testing.assert_close(moved, plain + offset, atol=1e-3, rtol=1e-5)
    grown = angle(logits, base, FrameControls(pose_gain={"yaw": torch.full((count,), gain)}))
    torch.testing.assert_close(grown, plain * gain, atol=1e-3, rtol=1e-5)


@few
@given(SEEDS, st.integers(1, 9))
def test_a_head_gain_of_nothing_leaves_the_head_where_it_was(seed: int, count: int) -> None:
    logits, base = 3 * normal(seed, 2, count, 66)
    still = angle(logits, base, FrameControls(head_gain=torch.zeros(count)))
    torch.testing.assert_close(still, decode_head_pose(base[:1]).expand(count), atol=1e-4, rtol=0)
    assert torch.equal(angle(logits, base, FrameControls(head_gain=torch.ones(count))), decode_head_pose(logits))


@few
@given(SEEDS, st.integers(1, 9), st.sampled_from(["first", "source"]), st.sampled_from(["degrees", "logits"]))
def test_a_fade_runs_from_the_driven_pose_to_its_target(seed: int, count: int, fade_to: str, gain_on: str) -> None:
    logits, base = 3 * normal(seed, 2, count, 66)
    plain = decode_head_pose(logits)
    whole = angle(logits, base, FrameControls(fade={"yaw": torch.ones(count)}), fade_to, gain_on)
    torch.testing.assert_close(whole, plain, atol=1e-3, rtol=0)
    gone = angle(logits, base, FrameControls(fade={"yaw": torch.zeros(count)}), fade_to, gain_on)
    target = plain[:1].expand(count) if fade_to == "first" else decode_head_pose(base)
    torch.testing.assert_close(gone, target, atol=1e-3, rtol=0)


@few
@given(st.integers(1, 200), st.integers(0, 250), st.integers(0, 250))
def test_fades_rise_then_fall_and_never_jump(num_frames: int, fade_in: int, fade_out: int) -> None:
    weights = fade_weights(num_frames, fade_in=fade_in, fade_out=fade_out)
    steps = weights.diff()
    peak = int(weights.argmax())
    assert (steps[:peak] >= 0).all()
    assert (steps[peak:] <= 0).all() or weights.max() == 1
    shortest = min((length for length in (fade_in, fade_out) if length), default=1)
    assert len(steps) == 0 or steps.abs().max() <= 1 / shortest + 1e-6
    if fade_in + fade_out < num_frames:
        assert weights.max() == 1
    mirrored = fade_weights(num_frames, fade_in=fade_out, fade_out=fade_in)
    torch.testing.assert_close(mirrored.flip(0), weights)


@few
@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.sampled_from(["fade", "pose_delta_deg", "pose_gain", "voice", "head_gain"]),
)
def test_controls_of_another_length_are_refused(num_frames: int, other: int, name: str) -> None:
    array = torch.ones(num_frames)
    value = {"yaw": array} if name in ("fade", "pose_delta_deg", "pose_gain") else array
    controls = FrameControls(**{name: value})  # type: ignore[arg-type]
    controls.check_length(num_frames)
    if other != num_frames:
        with pytest.raises(UsageError, match="one value for each"):
            controls.check_length(other)


@few
@given(SEEDS, st.integers(1, 6), st.sampled_from(MOTION_KEYS))
def test_a_fade_of_nothing_but_ones_changes_nothing(seed: int, num_frames: int, key: MotionKey) -> None:
    source, driving = named_motion("property/source"), 0.1 * normal(seed, num_frames, 265)
    options = MotionStitchOptions()
    plain = stitch_motion(source, driving, options)
    faded = stitch_motion(source, driving, options, FrameControls(fade={key: torch.ones(num_frames)}))
    torch.testing.assert_close(faded.driving_keypoints, plain.driving_keypoints, atol=1e-5, rtol=1e-5)
    assert key in POSE_KEYS or torch.equal(faded.head_pose_deg, plain.head_pose_deg)


@few
@given(SEEDS, st.integers(1, 9))
def test_clipped_motion_is_inside_and_inside_motion_is_not_clipped(seed: int, num_frames: int) -> None:
    vectors = normal(seed, num_frames, 265)
    low, high = -normal(seed + 1, 265).abs(), normal(seed + 2, 265).abs()
    clipped = clip_motion(vectors, low, high)
    assert bool(((low <= clipped) & (clipped <= high)).all())
    inside = (low <= vectors) & (vectors <= high)
    assert torch.equal(clipped[inside], vectors[inside])
    assert torch.equal(clip_motion(clipped, low, high), clipped)


@few
@given(SEEDS, st.integers(1, 20), st.integers(0, 30))
def test_padding_repeats_the_last_row(seed: int, rows: int, more: int) -> None:
    known = normal(seed, rows, 4)
    padded = pad_rows(known, rows + more)
    assert torch.equal(padded[:rows], known)
    assert torch.equal(padded[rows:], known[-1:].expand(more, -1))


@few
@given(st.integers(1, 50), st.lists(st.integers(0, 10_000), min_size=1, max_size=30))
def test_mirrored_indices_of_a_list_are_those_of_its_members(count: int, frames: list[int]) -> None:
    many = mirror_index(np.array(frames, dtype=np.int64), count)
    assert many.tolist() == [mirror_index(frame, count) for frame in frames]
    assert many.dtype == np.int64
    one_period = [mirror_index(frame, count) for frame in range(2 * count)]
    assert one_period == [*range(count), *reversed(range(count))]


def test_every_module_has_properties() -> None:
    """A module that is added without one fails here."""
    folder = Path(newsstudio_ditto.maths.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    tested = set()
    for path in Path(__file__).parent.glob("test_*properties.py"):
        names = _names_in_properties(ast.parse(path.read_text(encoding="utf-8")))
        tested |= names
    assert modules - tested == set()


def _names_in_properties(tree: ast.Module) -> set[str]:
    """Modules of which a function with ``@given`` uses a name."""
    origin = {
        alias.asname or alias.name: node.module.rpartition(".")[2]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("newsstudio_ditto.maths.")
        for alias in node.names
        if node.module
    }
    given_functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("given" in ast.dump(decorator) for decorator in node.decorator_list)
    ]
    used = {node.id for function in given_functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    return {module for name, module in origin.items() if name in used}
