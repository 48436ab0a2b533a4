"""Training of the speech networks: what counts in the loss, how voices are changed, how lips are judged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from training.smoke import ASSETS, TOY_NETWORKS
from training.speech_pool import (
    LABELS_PER_FRAME,
    LEAD_SAMPLES,
    SAMPLES_PER_LABEL,
    LabelledSpeech,
    SpeechPool,
    read_corpus,
)
from training.speech_scores import phone_runs, predict_gaps, score_gaps
from training.speech_training import LOWER_LIP_Y, UPPER_LIP_Y, SpeechOptions, SpeechTraining
from training.viseme import PHONE_NAMES, UNITS
from training.voice_change import _blur, change_voice


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> SpeechTraining:
    return SpeechTraining(SpeechOptions(run=tmp_path_factory.mktemp("run"), device="cpu"), TOY_NETWORKS)


@pytest.fixture(scope="module")
def spoken() -> list[LabelledSpeech]:
    return read_corpus(ASSETS / "smoke_speech.npz", "test")


def test_lips_too_wide_in_a_closure_cost_most(training: SpeechTraining) -> None:
    wanted = torch.zeros(1, 80, 63)
    wider, narrower = wanted.clone(), wanted.clone()
    wider[..., LOWER_LIP_Y], narrower[..., LOWER_LIP_Y] = 0.01, -0.01
    closed, free = torch.ones(1, 80, dtype=torch.bool), torch.zeros(1, 80, dtype=torch.bool)
    loss = [
        float(training._gap_loss(given, wanted, where))
        for given, where in ((wider, closed), (narrower, closed), (wider, free), (narrower, free))
    ]
    assert loss[0] > loss[1] > loss[2] == pytest.approx(loss[3])
    both = wanted.clone()
    both[..., [UPPER_LIP_Y, LOWER_LIP_Y]] = 0.01
    assert float(training._gap_loss(both, wanted, closed)) == pytest.approx(0)


def test_names_of_closures_count_more(training: SpeechTraining) -> None:
    weights = dict(zip(PHONE_NAMES, training.phone_weights.tolist(), strict=True))
    assert weights["P"] == weights["B"] == weights["M"] == 1 + training.options.closure_phones
    assert weights["T"] == 1
    plain = SpeechTraining(replace(training.options, closure_phones=0.0), TOY_NETWORKS)
    assert plain.phone_weights.unique().tolist() == [1]


def test_blurring_keeps_what_stands_still_and_the_mean() -> None:
    torch.manual_seed(0)
    still = torch.randn(64, 12, 1).expand(-1, -1, 90)
    torch.testing.assert_close(_blur(still), still)
    impulse = torch.zeros(64, 12, 90)
    impulse[..., 45] = 1
    blurred = _blur(impulse)
    torch.testing.assert_close(blurred.sum(-1), impulse.sum(-1))
    peaks = blurred[:, 0, 45]
    assert (peaks > 0.99).any()
    assert (peaks < 0.5).any()


def test_changed_voices_keep_length_and_loudness() -> None:
    torch.manual_seed(0)
    samples = torch.randn(8, 16000) * 0.1
    changed = change_voice(samples, share=1.0)
    assert changed.shape == samples.shape
    torch.testing.assert_close(changed.square().mean(1), samples.square().mean(1), rtol=0.02, atol=0)


@pytest.fixture
def numbered_pool() -> SpeechPool:
    """A minute of speech whose samples and face units say where they lie in it, in labels; phones change every 10."""
    count = 6000
    samples = np.arange(count * SAMPLES_PER_LABEL, dtype=np.float32) / SAMPLES_PER_LABEL
    units = np.repeat(np.arange(count, dtype=np.float32)[:, None], len(UNITS), 1)
    return SpeechPool([LabelledSpeech(samples, units, np.arange(count) // 10 % 5)], torch.device("cpu"))


@pytest.mark.parametrize("spliced", [0.0, 1.0])
def test_labels_stay_with_their_speech(numbered_pool: SpeechPool, spliced: float) -> None:
    torch.manual_seed(0)
    segments = numbered_pool.segments(40, spliced_share=spliced)
    middle = LEAD_SAMPLES + SAMPLES_PER_LABEL // 2 + SAMPLES_PER_LABEL * torch.arange(segments.units.shape[1])
    heard, labelled = segments.samples[:, middle], segments.units[..., 0]
    jumps = (labelled.diff(dim=1).abs() > 2).any(1)
    assert jumps.float().mean() == pytest.approx(spliced, abs=0.1)
    whole = (heard > 0) & (labelled > 0)
    away = (heard - labelled).abs()[whole]
    assert away.median() < 1.5
    if not spliced:
        assert away.max() < 1.5
    steady = (labelled.diff(dim=1, prepend=labelled[:, :1]).abs() < 2) & whole
    expected = (labelled.long() // 10 % 5)[steady]
    assert (segments.phones[steady] == expected).float().mean() > 0.9


def test_labels_become_phones_again() -> None:
    labels = np.array([PHONE_NAMES.index(name) for name in ("SIL", "SIL", "P", "AA", "AA", "AA")])
    assert [(p.name, p.start_s, p.end_s) for p in phone_runs(labels)] == [
        ("SIL", 0.0, 0.02),
        ("P", 0.02, 0.03),
        ("AA", 0.03, 0.06),
    ]


def test_labelled_lips_score_full_marks_and_open_ones_keep_no_closure(spoken: list[LabelledSpeech]) -> None:
    unit_gaps = np.zeros(len(UNITS))
    unit_gaps[UNITS.index("jawOpen")] = 0.2
    gaps = []
    for one in spoken:
        num = len(one.units) // LABELS_PER_FRAME
        gaps.append(one.units[: num * LABELS_PER_FRAME].reshape(num, LABELS_PER_FRAME, -1).mean(1) @ unit_gaps)
    scores = score_gaps(gaps, spoken, unit_gaps)
    assert scores.correlation == pytest.approx(1)
    assert scores.gain == pytest.approx(1)
    assert (scores.best_lag, scores.closures) == (0, 1)
    assert scores.num_closures > 0
    assert score_gaps([gap * 0.1 + 0.2 for gap in gaps], spoken, unit_gaps).closures == 0
    late = score_gaps([np.roll(gap, 2) for gap in gaps], spoken, unit_gaps)
    assert late.best_lag == 2


def test_every_utterance_gets_its_own_frames(training: SpeechTraining, spoken: list[LabelledSpeech]) -> None:
    device = torch.device("cpu")
    together = predict_gaps(training.networks.eval(), spoken, device, num_steps=2, guidance_scale=1.4)
    assert [len(gap) for gap in together] == [len(one.units) // LABELS_PER_FRAME for one in spoken]
    assert all(np.isfinite(gap).all() for gap in together)


def test_a_run_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    options = SpeechOptions(run=tmp_path, device="cpu", seconds=10)
    first = SpeechTraining(options, TOY_NETWORKS)
    first.step, first.elapsed_s = 7, 3.0
    first.save()
    again = SpeechTraining(options, TOY_NETWORKS)
    assert again.resume()
    assert (again.step, again.elapsed_s) == (7, 3.0)


def test_new_heads_do_not_teach_a_started_encoder_at_first(tmp_path: Path) -> None:
    options = SpeechOptions(run=tmp_path, device="cpu", batch=2, warmup=2, motion_from=1.1)
    started = SpeechTraining(options, TOY_NETWORKS)
    started.options = replace(options, start=tmp_path)
    pool = SpeechPool(read_corpus(ASSETS / "smoke_speech.npz", "train"), torch.device("cpu"))
    started.train_step(pool)
    encoder = started.networks.encoder
    assert all(weight.grad is None for weight in encoder.parameters())
    assert started.networks.phone_head.weight.grad is not None
    started.step = options.warmup
    started.train_step(pool)
    assert any(weight.grad is not None for weight in encoder.parameters())
