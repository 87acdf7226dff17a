"""Where ideas come from: the contract of a proposer. Implementations: llm.py asks a model; mutate.py, tpe.py and crossover.py
are seeded and offline; mix.py is several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.events import Edit
from bot.spending import FREE, Spent


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A proposal: what to change, and why that might help. It applies cleanly to the source it was made for."""

    title: str
    hypothesis: str
    edits: tuple[Edit, ...]
    tags: tuple[str, ...] = ()
    proposer: str = ""
    expected_effect: str = ""  # what one should see if the hypothesis is right, and by how much
    spent: Spent = FREE
    repeats: int = 0  # how often it was something at first that Brief.refuses


@dataclass(frozen=True, kw_only=True)
class NoIdea:
    """Nothing (new) to propose. `exhausted`: asking again on this base is pointless. `halt`: asking again is pointless until a
    person did something ("pause"), or the campaign has spent what it may ("money")."""

    reason: str
    exhausted: bool = False
    halt: str = ""
    spent: Spent = FREE
    repeats: int = 0  # as in Idea


@dataclass(frozen=True, kw_only=True)
class Winner:
    """A candidate that was better than its base by `gain` bits per byte (positive), with the edits that made it from there."""

    title: str
    edits: tuple[Edit, ...]
    gain: float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The constants of one train.py that ran, by name, and its bits per byte; None when its run failed."""

    values: Mapping[str, bool | int | float | str]
    val_bpb: float | None


def nothing(edits: tuple[Edit, ...]) -> str | None:
    """No reason to refuse an edit."""
    return None


@dataclass(frozen=True, kw_only=True)
class Brief:
    """What a proposer reads. `tried` holds `static.hash_of` of every train.py already proposed on this base, and of the base."""

    source: str
    instructions: str
    direction: str  # the issue that a campaign is for
    tried: frozenset[str]
    seed: int
    hints: tuple[str, ...] = ()  # of people since then, the newest first
    history: tuple[str, ...] = ()
    digest: str = ""  # the same for a reader of texts, the most relevant first: it stands in for `history`
    material: tuple[tuple[str, str], ...] = ()  # (title, text) of what else is read: measured facts, notes, knowledge
    usd_left: float | None = None  # US dollars that may still be spent; None: there is no cap
    winners: tuple[Winner, ...] = ()
    trials: tuple[Trial, ...] = ()
    refuses: Callable[[tuple[Edit, ...]], str | None] = nothing  # why edits of `source` would be refused, beyond what is static


def apply(source: str, edits: tuple[Edit, ...]) -> str | None:
    """The source with all edits made, one after the other; None when an old text does not occur exactly once."""
    for edit in edits:
        if source.count(edit.old) != 1:
            return None
        source = source.replace(edit.old, edit.new)
    return source


class Proposer(Protocol):
    name: str

    def propose(self, brief: Brief) -> Idea | NoIdea:
        """One idea; a pure function of the brief for an offline proposer."""


class Mender(Protocol):
    name: str

    def repair(self, brief: Brief, source: str, edits: tuple[Edit, ...], traceback: str) -> Idea | NoIdea:
        """The idea of these edits once more, for the same source, without the crash that the traceback shows."""
