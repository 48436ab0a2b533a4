"""The speech corpus: what goes into which part, and how phones of other voices are read."""

import re
from pathlib import Path

import numpy as np
import pytest

from training.festival_voice import read_segments
from training.kokoro_voice import ENGLISH, mixture, read_style
from training.sentences import write_sentences
from training.speech_set import (
    DEV,
    DEV_VOICES,
    HELD_OUT_VOICE,
    NEWS,
    TEST,
    TRAIN,
    corpus_sentences,
    list_jobs,
    merge,
    phone_table,
)
from training.viseme import Phone
from training.word_sentences import WORDS, word_list, write_word_sentences


def test_more_sentences_begin_with_the_fewer() -> None:
    many = write_sentences(700)
    assert len(set(many)) == 700
    assert write_sentences(320) == many[:320]


def test_no_part_shares_a_sentence_with_another() -> None:
    sentences = corpus_sentences()
    parts = [{sentences[i] for i in part} for part in (TRAIN, DEV, TEST)]
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_what_is_kept_for_judging_is_never_trained_on() -> None:
    jobs = list(list_jobs())
    trained = {key for key, job in jobs if job.split == "train"}
    assert not trained & {*DEV_VOICES.values(), f"flite@{HELD_OUT_VOICE}"}
    assert not any("rms" in key for key in trained)
    assert {job.sentence for _, job in jobs if job.split == "train"} <= set(TRAIN)
    assert {job.sentence for _, job in jobs if job.split == "test"} == set(TEST)
    assert {job.voice for _, job in jobs if job.split == "dev"} == {"hibari", *DEV_VOICES}


def test_words_kept_for_judging_are_in_no_other_sentence() -> None:
    heard, judged = (write_word_sentences(num, judged=judged) for num, judged in ((2000, False), (600, True)))
    words = [set(re.findall(r"[a-z']+", " ".join(part).lower())) for part in (heard + write_sentences(700), judged)]
    kept = {word.lower() for kind in WORDS for word in word_list(kind, judged=True)}
    assert len(kept) > 250
    assert kept <= words[1]
    assert not kept & words[0]
    assert len(words[0]) > 2500


def test_every_voice_reads_sentences_of_every_sort() -> None:
    read: dict[str, set[bool]] = {}
    for key, job in list_jobs():
        if job.split == "train":
            read.setdefault(key, set()).add(job.sentence >= NEWS)
    assert all(sorts == {False, True} for sorts in read.values())


def test_mixtures_are_seeded_and_keep_the_size_of_a_style() -> None:
    for number in range(30):
        shares = mixture(number)
        assert sum(shares.values()) == pytest.approx(1)
        assert set(shares) < set(ENGLISH)
        assert mixture(number) == shares
    assert mixture(0) != mixture(1)


def test_a_style_is_read_by_name_or_mixed(tmp_path: Path) -> None:
    shares = mixture(4)
    for value, name in enumerate(shares):
        np.full((2, 256), value, "<f4").tofile(tmp_path / f"{name}.bin")
    first, *_ = shares
    np.testing.assert_array_equal(read_style(first, tmp_path), np.zeros((2, 256)))
    wanted = sum(value * share for value, share in enumerate(shares.values()))
    np.testing.assert_allclose(read_style("4", tmp_path), np.full((2, 256), wanted), rtol=1e-6)


def test_labels_of_festival_become_phones() -> None:
    phones = read_segments("#\n0.2200 100 pau\n0.3000 100 p\n0.4500 100 ax\n")
    assert phones == [Phone("SIL", 0.0, 0.22), Phone("P", 0.22, 0.3), Phone("AH", 0.3, 0.45)]


def test_merging_counts_utterances_on(tmp_path: Path) -> None:
    for name, count in (("one", 2), ("two", 1)):
        tables = [phone_table(i, [Phone("P", 0.0, i + 1.0)]) for i in range(count)]
        np.savez(
            tmp_path / f"{name}.npz",
            phones=np.concatenate(tables),
            voices=np.array([name] * count),
            splits=np.array(["train"] * count),
            sentences=np.array(["Up."] * count),
            **{f"ogg/{i}": np.full(3, i, np.uint8) for i in range(count)},
        )
    merged = merge([tmp_path / "one.npz", tmp_path / "two.npz"])
    assert merged["phones"][:, 0].tolist() == [0, 1, 2]
    assert merged["voices"].tolist() == ["one", "one", "two"]
    assert [int(merged[f"ogg/{i}"][0]) for i in range(3)] == [0, 1, 0]
