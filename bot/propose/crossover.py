"""Two candidates that were better, on different bases, put together on the present source. Offline and seeded, like mutate.py.

The parents are `Brief.winners`. One of them may be part of the present source already, where it was merged; not both, and never
the same place twice. Their edits were made for other sources, so an edit that does not apply as it stands is tried as the lines
that it really changes. Pairs are drawn by their gains, and each child is proposed once on a base. Whether two gains add up is
what the measurement is for.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator

from bot.events import Edit
from bot.propose import Brief, Idea, NoIdea, Winner, apply
from bot.static import fault, hash_of

name = "crossover"

NEWEST = 40  # winners that are looked at, so that a long campaign does not try thousands of pairs
TITLE = 90  # characters of each parent's title


def propose(brief: Brief) -> Idea | NoIdea:
    """A child of two winners that was not tried on this source, or NoIdea (exhausted) when there is none."""
    parents = [winner for winner in brief.winners[-NEWEST:] if winner.gain > 0 and winner.edits]
    base = hash_of(brief.source)
    pairs = sorted(itertools.combinations(parents, 2), key=lambda pair: _wait(brief, base, *pair))
    for first, second in pairs:
        child = _child(brief, first, second)
        if child is not None:
            return child
    return NoIdea(reason=f"no two of {len(parents)} winners make a new train.py on this base", exhausted=True)


def _wait(brief: Brief, base: str, first: Winner, second: Winner) -> float:
    """Exponential waiting times, weighted by the sum of the gains: Efraimidis and Spirakis 2006."""
    text = f"{brief.seed}\0{base}\0{first.title}\0{second.title}"
    luck = (int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") + 0.5) / 2**64
    return -math.log(luck) / (first.gain + second.gain)


def _child(brief: Brief, first: Winner, second: Winner) -> Idea | None:
    """Both on the source, unless they are there already, touch the same place, or what comes out is not new and sound."""
    there = [_is_there(brief.source, winner.edits) for winner in (first, second)]
    if all(there):
        return None
    edits: tuple[Edit, ...] = ()
    edited = brief.source
    for winner, done in zip((first, second), there, strict=True):
        fitted = () if done else _fit(edited, winner.edits)
        after = None if fitted is None else apply(edited, fitted)
        if fitted is None or after is None or not (done or _is_there(after, winner.edits)):
            return None
        edits, edited = edits + fitted, after
    if not all(_is_there(edited, winner.edits) for winner in (first, second)):
        return None  # the second undid the first
    if fault(brief.source, edited, brief.tried) or hash_of(edited) in brief.tried or brief.refuses(edits):
        return None
    return _idea(first, second, there, edits)


def _idea(first: Winner, second: Winner, there: list[bool], edits: tuple[Edit, ...]) -> Idea:
    kept = "The first is part of the present code." if there[0] else "The second is part of the present code." if there[1] else ""
    gains = f"{first.gain:.6f} and {second.gain:.6f} bits per byte"
    words = f"No model proposed this: it joins two candidates that were better, by {gains}, on other bases. {kept}"
    return Idea(
        title=f"{first.title[:TITLE]} + {second.title[:TITLE]}",
        hypothesis=f"{words} If they help for different reasons, their gains add up.".replace("  ", " "),
        edits=edits,
        tags=(name,),
        proposer=name,
    )


def _is_there(source: str, edits: tuple[Edit, ...]) -> bool:
    """Whether the source has what each edit brings, and no longer what it takes away."""
    return all(_has(source, _changed(edit)[1]) and (edit.old in edit.new or edit.old not in source) for edit in edits)


def _has(source: str, text: str) -> bool:
    """As whole words, so that `X = 1` is not found in `X = 12`."""
    before, after = (r"(?<![\w.])" if text[:1].isalnum() else ""), (r"(?![\w.])" if text[-1:].isalnum() else "")
    return re.search(before + re.escape(text) + after, source) is not None


def _fit(source: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...] | None:
    """The edits so that they apply one after the other: each as it stands, or as the lines that it changes."""
    fitted = []
    for edit in edits:
        found = next((x for x in _forms(edit) if source.count(x.old) == 1), None)
        if found is None:
            return None
        source = source.replace(found.old, found.new)
        fitted.append(found)
    return tuple(fitted)


def _forms(edit: Edit) -> Iterator[Edit]:
    yield edit
    old, new = _changed(edit)
    if old.strip():  # pure additions have no place of their own: they need the lines around them
        yield Edit(old=old, new=new)


def _changed(edit: Edit) -> tuple[str, str]:
    """Old and new text without the lines that they begin and end with alike."""
    old, new = edit.old.split("\n"), edit.new.split("\n")
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return "\n".join(old), "\n".join(new)
