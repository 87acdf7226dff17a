"""Where ideas come from: the contract of a proposer. Implementations: mutate.py (seeded, offline)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bot.events import Edit


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A proposal: what to change, and why that might help. It applies cleanly to the source it was made for."""

    title: str
    hypothesis: str
    edits: tuple[Edit, ...]
    tags: tuple[str, ...] = ()
    proposer: str = ""


@dataclass(frozen=True, kw_only=True)
class NoIdea:
    """Nothing (new) to propose. `exhausted`: asking again on this base is pointless."""

    reason: str
    exhausted: bool = False


@dataclass(frozen=True, kw_only=True)
class Brief:
    """What a proposer reads. `tried` holds `static.hash_of` of every train.py already proposed on this base, and of the base."""

    source: str
    instructions: str
    direction: str
    tried: frozenset[str]
    seed: int
    history: tuple[str, ...] = ()


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
