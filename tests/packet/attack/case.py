"""What a mutation gets to work on, and how mutations are named and judged."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import PART_NAMES, PARTS

REFUSED = "refused"
READ = "read"
FOUND = "found by verify"
FORGED = "read as forged"
FAULT = "FAULT"


@dataclass(frozen=True)
class Case:
    """One copy of a good packet, to be spoiled.

    Args:
        folder: the copy.
        part: the file to spoil, where a mutation spoils one.
        draw: seeded.
        others: further good packets by what tells them from the original.
        original: the packet that ``folder`` is a copy of.
    """

    folder: Path
    part: str
    draw: random.Random
    others: dict[str, Packet]
    original: Packet

    @property
    def path(self) -> Path:
        """The file to spoil."""
        return self.file(self.part)

    def file(self, part: str) -> Path:
        """File of a part in the copy."""
        return self.folder / PARTS[part].file_name

    @property
    def tensor_name(self) -> str:
        """Some tensor of the file to spoil."""
        return self.draw.choice([tensor.name for tensor in PARTS[self.part]])


Change = Callable[[Case], object]


@dataclass(frozen=True)
class Mutation:
    """A kind of damage.

    Args:
        name: kind, for people.
        change: spoils the copy.
        outcomes: what may come of it.
        parts: files that it can be done to.
        unprivileged: file modes matter, so root has to step down first.
        while_open: the damage is done after the packet was opened.
    """

    name: str
    change: Change
    outcomes: frozenset[str] = frozenset({REFUSED})
    parts: tuple[str, ...] = PART_NAMES
    unprivileged: bool = False
    while_open: bool = False


@dataclass
class Registry:
    """Mutations in the order of their registration."""

    mutations: list[Mutation] = field(default_factory=list)

    def add(
        self,
        name: str,
        *outcomes: str,
        parts: tuple[str, ...] = PART_NAMES,
        unprivileged: bool = False,
        while_open: bool = False,
    ) -> Callable[[Change], Change]:
        """Decorator: a kind of damage with the outcomes that it may have; REFUSED if none is named."""

        def register(change: Change) -> Change:
            allowed = frozenset(outcomes or {REFUSED})
            self.mutations.append(Mutation(name, change, allowed, parts, unprivileged, while_open))
            return change

        return register
