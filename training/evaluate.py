"""Judge a finished video.

``python -m training.evaluate VIDEO --speech WAV --text TEXT_OR_FILE [--anchor CLIP] [--packet FOLDER] [--sheet PNG]``.

The lips are measured on the video with the packaged landmark network and compared with what force-aligned phones ask
for; with the packet that it was rendered from, the seam of the rendered part is measured too.
Prints a table and JSON; exits with 1 when a target is missed. Needs ``pocketsphinx`` (see requirements.txt).
"""

import argparse
import json
import sys
from pathlib import Path

import cv2
import numpy as np

from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.media.speech import read_speech
from newsstudio_ditto.packet.reader import Packet, open_packet
from newsstudio_ditto.units import FRAME_RATE_HZ
from training.align import align_text
from training.lips import closure_share, lagged_correlations, movement, played, silent_frames, target_gap, track_lips
from training.seam import seam_levels
from training.viseme import Phone

MAX_SIDE_PX = 1920
# stillness: lips in silence over the anchor's own at the same moments; a tenth is the landmark network's noise
SHEET_FRAMES, SHEET_PX = 8, 320
CORRELATION_SEEN, CORRELATION_HELD_OUT, CLOSURES, LAG_FRAMES, STILLNESS, SEAM = 0.9, 0.8, 0.9, 1, 1.1, 2.0

Figures = dict[str, dict[str, float | bool | None]]


def read_video(path: Path) -> list[np.ndarray]:
    """All frames of a video, RGB."""
    return list(decode_frames(path, max_side_px=MAX_SIDE_PX, max_frames=None).frames)


def judge(
    frames: list[np.ndarray], phones: list[Phone], anchor: list[np.ndarray] | None, *, held_out_voice: bool
) -> Figures:
    """Figures with their targets, by name."""
    finder = FaceFinder()
    track = track_lips(frames, finder)
    target = target_gap(phones, len(frames))
    lags = lagged_correlations(track.gap, target)
    closed, num_closures = closure_share(track.gap, target, phones)
    silent = silent_frames(phones, len(frames))
    quiet = movement(track, silent)
    loop = movement(played(track_lips(anchor, finder), len(frames)), silent) if anchor else None
    ratio = quiet / loop if quiet is not None and loop else None
    wanted = CORRELATION_HELD_OUT if held_out_voice else CORRELATION_SEEN
    best = max(lags, key=lambda lag: lags[lag])
    return {
        "correlation": {"value": lags[0], "target": wanted, "good": lags[0] >= wanted},
        "best_lag_frames": {"value": best, "target": LAG_FRAMES, "good": abs(best) <= LAG_FRAMES},
        "best_correlation": {"value": lags[best], "target": None, "good": None},
        "closures_kept": {"value": closed, "target": CLOSURES, "good": closed >= CLOSURES},
        "num_closures": {"value": num_closures, "target": None, "good": None},
        "silence_over_anchor": {
            "value": ratio,
            "target": STILLNESS,
            "good": None if ratio is None else ratio <= STILLNESS,
        },
        "silence_movement_percent": {"value": quiet, "target": None, "good": None},
        "gap_p5": {"value": float(np.nanpercentile(track.gap, 5)), "target": None, "good": None},
        "gap_p95": {"value": float(np.nanpercentile(track.gap, 95)), "target": None, "good": None},
        "frames_without_face": {
            "value": int(np.isnan(track.gap).sum()),
            "target": 0,
            "good": bool(np.isfinite(track.gap).all()),
        },
    }


def judge_seam(frames: list[np.ndarray], packet: Packet) -> Figures:
    """Figures of the ring around the rendered part, in levels of 255."""
    steps = seam_levels(frames, packet)
    mean, worst = (float(x) for x in (steps.mean(), np.percentile(steps, 95)))
    return {
        "seam_levels": {"value": mean, "target": SEAM, "good": mean <= SEAM},
        "seam_levels_p95": {"value": worst, "target": None, "good": None},
    }


def contact_sheet(frames: list[np.ndarray], phones: list[Phone]) -> np.ndarray:
    """Eight frames in the middles of evenly chosen phones, each named; BGR."""
    spoken = [phone for phone in phones if phone.name != "SIL" and phone.end_s * FRAME_RATE_HZ < len(frames)]
    chosen = [spoken[i] for i in np.linspace(0, len(spoken) - 1, SHEET_FRAMES).astype(int)]
    tiles = []
    for phone in chosen:
        index = int((phone.start_s + phone.end_s) / 2 * FRAME_RATE_HZ)
        frame = frames[index]
        scale = SHEET_PX / frame.shape[0]
        tile = cv2.resize(frame, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)[..., ::-1].copy()
        cv2.putText(tile, f"{phone.name} {index}", (8, 28), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (255, 255, 255), 2)
        tiles.append(tile)
    half = SHEET_FRAMES // 2
    return np.vstack([np.hstack(tiles[:half]), np.hstack(tiles[half:])])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", type=Path)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--text", required=True, help="the words spoken, or a file of them")
    parser.add_argument("--anchor", type=Path, help="the clip the video was made from")
    parser.add_argument(
        "--held-out-voice", action="store_true", help="apply the target for a voice not seen in training"
    )
    parser.add_argument("--packet", type=Path, help="the packet the video was rendered from")
    parser.add_argument("--sheet", type=Path, help="write a contact sheet")
    options = parser.parse_args()
    text = Path(options.text).read_text() if Path(options.text).is_file() else options.text
    phones = align_text(read_speech(options.speech), text)
    frames = read_video(options.video)
    anchor = read_video(options.anchor) if options.anchor else None
    figures = judge(frames, phones, anchor, held_out_voice=options.held_out_voice)
    if options.packet:
        figures |= judge_seam(frames, open_packet(options.packet))
    if options.sheet:
        cv2.imwrite(str(options.sheet), contact_sheet(frames, phones))
    for name, row in figures.items():
        value = "n/a" if row["value"] is None else f"{row['value']:.3f}"
        mark = {True: "ok", False: "MISSED", None: ""}[row["good"]]
        sys.stderr.write(
            f"{name:26} {value:>9}  target {row['target'] if row['target'] is not None else '-':>5}  {mark}\n"
        )
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    sys.exit(any(row["good"] is False for row in figures.values()))


if __name__ == "__main__":
    main()
