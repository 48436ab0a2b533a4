"""Judge a bundle by what it says: ``python -m training.judge OUT_FOLDER [--bundle FOLDER] [--only NAME]``.

Prepares the packaged clip, has the demo's speech and those of ``assets/judged_speeches.json`` spoken and rendered, and
judges each video as ``training.evaluate`` does. Nothing of these texts is trained on. Prints a table; the figures of
each speech stay beside its video, and what is there already is not made again.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from newsstudio_ditto.api import build_packet, render_video
from newsstudio_ditto.media.speech import read_speech
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.units import SAMPLE_RATE_HZ
from training.align import align_text
from training.evaluate import Figures, judge, judge_seam, read_video
from training.export import BUNDLED
from training.speech_set import HELD_OUT_VOICE, open_voice

SPEECHES = Path(__file__).parent / "assets" / "judged_speeches.json"
DEMO = BUNDLED.parent / "demo"
AVATAR = "judged"
COLUMNS = ("correlation", "best_lag_frames", "closures_kept", "num_closures", "silence_over_anchor", "seam_levels")


@dataclass(frozen=True)
class JudgedSpeech:
    """A text, and the voice of ``training.speech_set`` that speaks it; the demo's is recorded already."""

    name: str
    voice: str
    text: str

    @property
    def file_name(self) -> str:
        """Of what is kept about it, without its suffix."""
        return self.name.replace(" ", "_")

    def record(self, folder: Path) -> Path:
        """The speech as a sound file."""
        if self.name == "demo":
            return DEMO / "speech.wav"
        path = folder / f"{self.file_name}.wav"
        if not path.exists():
            soundfile.write(path, open_voice(self.voice)(self.text).samples, SAMPLE_RATE_HZ)
        return path


def read_speeches() -> list[JudgedSpeech]:
    """The demo's own speech first."""
    demo = JudgedSpeech("demo", "hibari@1.0", (DEMO / "speech.txt").read_text(encoding="utf-8").strip())
    return [demo, *(JudgedSpeech(**row) for row in json.loads(SPEECHES.read_text(encoding="utf-8")))]


def judge_speech(speech: JudgedSpeech, bundle: Path, folder: Path, clip: list[np.ndarray]) -> Figures:
    """Render one speech with an avatar that is prepared, and judge the video."""
    kept = folder / f"{speech.file_name}.json"
    if kept.exists():
        figures: Figures = json.loads(kept.read_text(encoding="utf-8"))
        return figures
    sound = speech.record(folder)
    phones = align_text(read_speech(sound), speech.text)
    packet = build_packet(StorageLayout(folder / "storage"), DEMO / "anchor.mp4", AVATAR, model=str(bundle)).packet
    video = kept.with_suffix(".mp4")
    render_video(packet.folder, sound, video, model=str(bundle))
    frames = read_video(video)
    figures = judge(frames, phones, clip, held_out_voice=HELD_OUT_VOICE in speech.voice) | judge_seam(frames, packet)
    kept.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bundle", type=Path, default=BUNDLED)
    parser.add_argument("--only", action="append", help="name of a speech; repeatable")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    clip = read_video(DEMO / "anchor.mp4")
    sys.stdout.write(" | ".join(("speech", *COLUMNS, "missed")) + "\n")
    for speech in read_speeches():
        if options.only and speech.name not in options.only:
            continue
        figures = judge_speech(speech, options.bundle.resolve(), options.folder, clip)
        values = ("n/a" if figures[name]["value"] is None else f"{figures[name]['value']:.4g}" for name in COLUMNS)
        missed = ", ".join(name for name, row in figures.items() if row["good"] is False)
        sys.stdout.write(" | ".join((speech.name, *values, missed)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
