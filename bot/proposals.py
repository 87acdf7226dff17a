"""What happened to the text of a candidate: it was proposed, refused, put on another base, or mended. A part of events.py.

Pure: no clock, no disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.event import Edit, Event
from bot.spending import FREE, Spent


@dataclass(frozen=True, kw_only=True)
class Proposed(Event):
    n: int
    parent: int  # the candidate whose code it changes
    title: str
    hypothesis: str
    edits: tuple[Edit, ...]
    tags: tuple[str, ...]
    proposer: str
    source: str  # names the edited train.py, see static.hash_of
    shorter: int = 0  # how many nodes of the syntax tree it takes away; negative: adds
    revert: bool = False  # takes the campaign's merges back, since they turned out to be worse: not one of the N
    expected_effect: str = ""
    spent: Spent = FREE  # on this proposal and its review, answers that could not be used among them
    repeats: int = 0  # earlier ideas that it was at first, and that were refused while it was made
    review: str = ""  # who looked at it before it was run, and what they had to say
    repairs: int = 0  # how often its proposer may mend it, should it crash


@dataclass(frozen=True, kw_only=True)
class ProposalRefused(Event):
    """Refused before any GPU time (a repeat, a static fault, by the reviewer, no idea): counted beside, not as a candidate."""

    title: str
    reason: str
    exhausted: bool = False  # the proposer has nothing left on this base
    broke: bool = False  # the campaign has spent what it may: there will be no further proposal
    parent: int = -1  # the candidate that it was to change, and
    source: str = ""  # the train.py that it would have made, see static.hash_of; empty where there was none
    spent: Spent = FREE
    repeats: int = 0


@dataclass(frozen=True, kw_only=True)
class Repaired(Event):
    """A candidate that crashed is the same idea in other words now: a new commit on its branch, to be run like the first one."""

    n: int
    edits: tuple[Edit, ...]
    base: str
    head: str
    guard: str
    source: str
    shorter: int = 0
    spent: Spent = FREE


@dataclass(frozen=True, kw_only=True)
class NotRepaired(Event):
    """Nobody could mend it: what its run said stands."""

    n: int
    reason: str
    spent: Spent = FREE


@dataclass(frozen=True, kw_only=True)
class Rebased(Event):
    """The edit was applied to a newer tip: a new commit on the same branch. What was measured before does not count."""

    n: int
    parent: int
    base: str
    head: str
    guard: str
    source: str
