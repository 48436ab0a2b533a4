"""Packets under attack. ``DITTO_PACKET_MUTATIONS=1000`` tries as many seeds as are asked for.

Whatever is done to a packet: a typed error that names file and remedy, a right read, or a finding of ``verify``; and no
crash, hang, code, open file, or unusual memory. See ``python -m tests.packet.attack`` for counts.
"""

import os
from collections import Counter

import pytest

from tests.packet.attack.case import FAULT, FOUND, READ, REFUSED
from tests.packet.attack.run import attack
from tests.packet.attack.worker import MUTATIONS, Verdict

NUM_MUTATIONS = int(os.environ.get("DITTO_PACKET_MUTATIONS", "150"))


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return attack(0, NUM_MUTATIONS)


def test_nothing_breaks_the_reader(verdicts: list[Verdict]) -> None:
    assert len(verdicts) == NUM_MUTATIONS
    assert [verdict for verdict in verdicts if verdict.outcome == FAULT] == []


def test_every_kind_of_damage_was_tried_and_every_outcome_occurred(verdicts: list[Verdict]) -> None:
    """So that the test above cannot pass because nothing happens."""
    assert {verdict.kind for verdict in verdicts} == {mutation.name for mutation in MUTATIONS}
    counts = Counter(verdict.outcome for verdict in verdicts)
    assert counts[REFUSED] > 0.6 * NUM_MUTATIONS
    assert counts[READ] >= 5
    assert counts[FOUND] >= 3


def test_kinds_have_names_of_their_own() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
