"""Draw the curves of ``controls.md`` from the real maths: ``python docs/make_control_figures.py [FOLDER]``."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths.blink import blink_closing
from newsstudio_ditto.maths.motion_stitch import stitch_motion
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START, MotionSequence, unpack_motion
from newsstudio_ditto.networks.config import MINI
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.prestitch import stitch_options
from newsstudio_ditto.units import FRAME_RATE_HZ, MOTION_DIM, NUM_KEYPOINTS

HERE = Path(__file__).parent
WIDTH_PX, ROW_PX, LEFT_PX, TOP_PX = 760, 96, 190, 28
INK, CURVE, FAINT = "#57606a", "#0969da", "#d0d7de"
UPPER_LIP, LOWER_LIP = 0, 1


@dataclass(frozen=True)
class Row:
    """One curve of a figure.

    Args:
        label: what was asked for.
        values: (T,), one for each frame.
        top: value at the upper edge; the lower edge is 0.
    """

    label: str
    values: Sequence[float]
    top: float


def draw(title: str, rows: Sequence[Row]) -> str:
    """An SVG of curves over one time axis in seconds."""
    num_frames = len(rows[0].values)
    height = TOP_PX + ROW_PX * len(rows) + 24
    step = (WIDTH_PX - LEFT_PX - 16) / (num_frames - 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH_PX}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="18" font-weight="bold">{title}</text>',
    ]
    for second in range(int((num_frames - 1) / FRAME_RATE_HZ) + 1):
        x = LEFT_PX + second * FRAME_RATE_HZ * step
        parts.append(f'<line x1="{x:.1f}" y1="{TOP_PX}" x2="{x:.1f}" y2="{height - 20}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle">{second} s</text>')
    for index, row in enumerate(rows):
        floor = TOP_PX + ROW_PX * (index + 1) - 12
        scale = (ROW_PX - 24) / row.top
        points = " ".join(f"{LEFT_PX + i * step:.1f},{floor - scale * v:.1f}" for i, v in enumerate(row.values))
        parts.append(f'<line x1="{LEFT_PX}" y1="{floor}" x2="{WIDTH_PX - 16}" y2="{floor}" stroke="{FAINT}"/>')
        parts.append(f'<text x="12" y="{floor - 30}">{row.label}</text>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="{CURVE}" stroke-width="1.8"/>')
    return "\n".join([*parts, "</svg>\n"])


def blink_figure() -> str:
    """Lids over a short and a longer speech."""
    num_frames = 12 * FRAME_RATE_HZ + 1
    rows = [
        ("fixed, 16 a minute", blink_closing(num_frames, 16.0, None)),
        ("random, 16 a minute, seed 0", blink_closing(num_frames, 16.0, random.Random(0))),
        ("random, 30 a minute, seed 1", blink_closing(num_frames, 30.0, random.Random(1))),
        ("a speech of 2 seconds", blink_closing(2 * FRAME_RATE_HZ + 1, 16.0, None)),
    ]
    return draw("blink: how far the lids are closed", [Row(label, list(map(float, v)), 1.0) for label, v in rows])


def still_face() -> MotionSequence:
    """A face at rest whose lips touch."""
    zero = unpack_motion(torch.zeros(1, MOTION_DIM))
    return unpack_motion(torch.zeros(1, MOTION_DIM), zero.expression)


def spoken_motion(num_frames: int) -> Tensor:
    """A mouth that opens to 0.1 and closes three times a second: (T, 265)."""
    motion = torch.zeros(num_frames, MOTION_DIM)
    opening = 0.1 * torch.sin(torch.arange(num_frames) * torch.pi * 3 / FRAME_RATE_HZ) ** 2
    motion[:, EXPRESSION_START + 3 * LOWER_LIP + 1] = opening
    return motion


def mouth_opening(controls: ControlOptions, num_frames: int) -> list[float]:
    """Distance between the inner lips at each frame."""
    face = still_face()
    plan = plan_controls(controls, stitch_options(MINI), MINI, face, num_frames)
    points = stitch_motion(face, spoken_motion(num_frames), plan.options, plan.frames).driving_keypoints
    assert points.shape == (num_frames, NUM_KEYPOINTS, 3)
    return (points[:, LOWER_LIP, 1] - points[:, UPPER_LIP, 1]).tolist()


def mouth_figure() -> str:
    """The same speech under amplitudes and fades."""
    asked = {
        "no controls": ControlOptions(),
        "mouth_amplitude = 0.5": ControlOptions(mouth_amplitude=0.5),
        "[[1, 0], [3, 2]]": ControlOptions(mouth_amplitude=((1.0, 0.0), (3.0, 2.0))),
        "fade_in_s = 1, fade_out_s = 2": ControlOptions(fade_in_s=1.0, fade_out_s=2.0),
        "fade_in_s = 10": ControlOptions(fade_in_s=10.0),
    }
    rows = [Row(label, mouth_opening(controls, 4 * FRAME_RATE_HZ + 1), 0.2) for label, controls in asked.items()]
    return draw("mouth_amplitude and fades: opening of the mouth", rows)


FIGURES = {"controls_blink.svg": blink_figure, "controls_mouth.svg": mouth_figure}


def main(folder: Path = HERE) -> None:
    """Write every figure."""
    for name, figure in FIGURES.items():
        (folder / name).write_text(figure(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
