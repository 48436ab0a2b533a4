"""Train audio encoder and motion diffusion: ``python -m training.train_speech --run FOLDER --corpus FILE.npz``.

The encoder learns to name phones and mouth shapes from noisy windows; the diffusion learns lip, chin and jaw motion
relative to rest from the encoder's rows, and its loss reaches the encoder too. Cut off, the same command goes on from
the last checkpoint. The weights that do best on voices never heard, of the ``dev`` part, are kept in ``RUN/best``.
"""

import logging
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from training.command_line import read_options
from training.speech_pool import (
    LabelledSpeech,
    SpeechPool,
    read_corpus,
)
from training.speech_scores import score_voice
from training.speech_set import DEV_VOICES, HELD_OUT_VOICE
from training.speech_training import SpeechOptions, SpeechTraining

log = logging.getLogger(__name__)

LOG_EVERY_S, SAVE_EVERY_S, SCORE_EVERY_S = 15.0, 60.0, 90.0
UNHEARD = {f"dev_{voice}" for voice in DEV_VOICES}


def run_training(
    training: SpeechTraining, pool: SpeechPool, tests: dict[str, list[LabelledSpeech]], *, max_steps: int | None = None
) -> None:
    """Train until the schedule is over, logging, scoring and saving on the way."""
    began = logged = saved = scored = time.monotonic()
    before_s, first_step = training.elapsed_s, training.step
    sums: dict[str, list[Tensor]] = {}
    while training.elapsed_s < training.options.seconds and (
        max_steps is None or training.step - first_step < max_steps
    ):
        for name, value in training.train_step(pool).items():
            sums.setdefault(name, []).append(value.detach())
        now = time.monotonic()
        training.elapsed_s = before_s + now - began
        if now - logged > LOG_EVERY_S:
            means = {name: round(float(torch.stack(values).mean()), 4) for name, values in sums.items()}
            rate = (training.step - first_step) / (now - began)
            log.info("speech step %d at %.0f s, %.2f steps/s, %s", training.step, training.elapsed_s, rate, means)
            training.history.append({"step": training.step, "elapsed_s": training.elapsed_s, **means})
            logged, sums = now, {}
        if now - scored > SCORE_EVERY_S:
            _score_and_keep(training, tests)
            scored = time.monotonic()
        if now - saved > SAVE_EVERY_S:
            training.save()
            saved = time.monotonic()
    _score_and_keep(training, tests)
    training.save()
    (training.options.run / "speech_done").touch()


def _score_and_keep(training: SpeechTraining, tests: dict[str, list[LabelledSpeech]]) -> None:
    """Score every voice; export the weights if voices never heard never did better."""
    unheard: list[float] = []
    for name, spoken in tests.items():
        scored = score_voice(training, spoken)
        scores = {key: round(value, 4) for key, value in asdict(scored).items()}
        log.info("speech scores of %s at step %d: %s", name, training.step, scores)
        training.history.append({"step": training.step, **{f"{name}_{key}": value for key, value in scores.items()}})
        if name in UNHEARD:
            unheard.append((scored.correlation + scored.closures) / 2)
    if unheard and fmean(unheard) > training.best:
        training.best = fmean(unheard)
        log.info("the best so far on voices never heard: %.4f", training.best)
        training.export(training.options.run / "best")


def read_tests(corpus: Path) -> dict[str, list[LabelledSpeech]]:
    """Utterances to score by, by split and voice: voices to choose settings by, and those that come last."""
    names = [("dev", "hibari"), *(("dev", voice) for voice in DEV_VOICES), ("test", "hibari"), ("test", HELD_OUT_VOICE)]
    spoken = {f"{split}_{voice}": read_corpus(corpus, split, voice) for split, voice in names}
    return {name: utterances for name, utterances in spoken.items() if utterances}


def main() -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    options = read_options(SpeechOptions, __doc__)
    options.run.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    training = SpeechTraining(options)
    if training.resume():
        log.info("resumed at step %d, %.0f s", training.step, training.elapsed_s)
    pool = SpeechPool(read_corpus(options.corpus, "train"), training.device)
    tests = read_tests(options.corpus)
    while options.wait_for is not None and not options.wait_for.exists():
        time.sleep(0.5)
    if options.until:
        training.set_length(training.elapsed_s + options.until - time.time())
    run_training(training, pool, tests)


if __name__ == "__main__":
    main()
