"""Whether an edit is what was tried already, in all but its letters: refused before any run, with what came of it then.

    near(source, (Edit(old="LR = 0.2", new="LR = 0.101"),), past)  ->  Repeat: candidate 7 did that, LR 0.2 -> 0.1 ...

static.hash_of knows the very same code on the very same base. Beyond that an edit repeats an earlier one when

* each literal that it changes was changed there too, and nothing else was: in the same direction and by nearly the same step
  (within NEAR of the larger step, on a scale that suits the number: see `step`); text and switches: to the same value;
* statements that it takes out and puts in are SIMILAR to those there: as word triples and as names that come and go. Names that
  it makes up itself do not count, numbers in new code must be within NUMBERS of each other;
* it takes a kept edit back to where it came from: that comparison was made, from the other side.

An honest retry is none of these: once the *surroundings* differ from what they were then, it is free again. They are the old
value, every function that it stands in or that names the constant, and the values of all constants that these functions name. So
a new learning rate makes the weight decay of the same optimizer free, and leaves the number of layers alone.

After a crash (also invalid, diverged) only the very same change is a repeat: that code failed, the idea was not judged; when two
that are nearly the same have crashed, a third is one, too. What was closed as stale or stopped was never judged at all. What a
person did not want stays refused, whatever surrounds it. An edit that repairs a candidate is compared with the others only:
leave that one out of `past`. Pure.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from bot.events import Edit
from bot.propose import apply
from bot.propose.changes import Changes, Value, between, of, units
from bot.propose.literals import LARGEST, Literal
from bot.propose.tried import FAILED, REFUSED, RUNNING, Tried

NEAR = 0.15  # of the larger step: 0.2 -> 0.1 and 0.2 -> 0.11 are one idea, 0.2 -> 0.12 is another
LEAST = 0.01  # steps that differ by less are equal: values about 1 % apart
SIMILAR = 0.8  # shared part of names, and of word triples
NUMBERS = 0.1  # relative, of a number inside new code
UNJUDGED = ("stale", "stopped", REFUSED)
SAME_ONLY = tuple(why for why in FAILED if why in ("crash", "invalid", "nan"))
WORD = re.compile(r"\d[\w.]*(?:[eE][+-]\d+)?|\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """`how` is same | near | similar | undo. `words` tell whoever proposed it what came of it before."""

    of: Tried
    how: str
    words: str


def near(source: str, edits: tuple[Edit, ...], past: Sequence[Tried], campaign: str = "") -> Repeat | None:
    """What `edits` on `source` repeat, the newest first; None when it is new, or when it does not apply or parse, which is for
    static.fault to say. Rows of `past` whose source is not known are passed over."""
    new = of(source, edits)
    if new is None or not (new.values or new.removed or new.added):
        return None
    try:
        around = surroundings(source, new)
    except ValueError:  # something else in the file is nested too deeply
        return None
    crashed = None
    for x in (x for x in reversed(past) if x.ending not in UNJUDGED and x.source):
        unjudged = x.ending in SAME_ONLY
        if found := _repeats(source, new, around, x, campaign, exact=unjudged):
            return found
        if unjudged and (found := _repeats(source, new, around, x, campaign, exact=False)):
            if crashed:
                return replace(crashed, words=f"{crashed.words}. {found.of.called(campaign)} was of that kind, too: no third try")
            crashed = found
    return None


def _repeats(source: str, new: Changes, around: Hashable, x: Tried, campaign: str, *, exact: bool) -> Repeat | None:
    old = of(x.source, x.edits)
    if old is None:  # it was no program, and says nothing of this one
        return None
    how = _alike(source, new, x.source, old, exact=exact)
    if how and (x.ending == "vetoed" or around == surroundings(x.source, old)):
        return Repeat(of=x, how=how, words=_words(new, old, x, how, campaign))
    after = apply(x.source, x.edits) if x.kept else None
    back = between(after, x.source) if after else None
    if after and back and _alike(source, new, after, back, exact=False) and around == surroundings(after, back):
        return Repeat(of=x, how="undo", words=_words(new, old, x, "undo", campaign))
    return None


def _alike(source: str, new: Changes, base: str, old: Changes, *, exact: bool) -> str:
    """How much one is the other: "same", "near", "similar", or "" when it is not."""
    places = {(value.scope, value.place): value for value in old.values}
    if len(places) != len(new.values) or {(value.scope, value.place) for value in new.values} != set(places):
        return ""
    pairs = [(value, places[value.scope, value.place]) for value in new.values]
    same_values = all(_equal(a.new, b.new) for a, b in pairs)
    same_code = (new.removed, new.added) == (old.removed, old.added)
    if same_values and same_code:
        return "same"
    if exact or not all(_nearly(a, b) for a, b in pairs):
        return ""
    if same_code:
        return "near"
    return "similar" if _similar(source, new, base, old) else ""


def _equal(a: Literal, b: Literal) -> bool:
    numbers = isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool) and not isinstance(b, bool)
    return a == b if numbers else (type(a), repr(a)) == (type(b), repr(b))


def _nearly(a: Value, b: Value) -> bool:
    """The same direction and nearly the same step. Other values than numbers must be equal; so must 0, which often means off."""
    if _equal(a.new, b.new):
        return True
    numbers = [x for x in (a.old, a.new, b.old, b.new) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) != 4 or not all(abs(x) < LARGEST for x in numbers) or 0 in (a.new, b.new):
        return False
    one, two = step(numbers[0], numbers[1], numbers), step(numbers[2], numbers[3], numbers)
    return one * two > 0 and abs(one - two) <= max(NEAR * max(abs(one), abs(two)), LEAST)


def step(old: float, new: float, among: Iterable[float]) -> float:
    """How far a number moved: in log odds where all are between 0 and 1 (0.95 to 0.99 is five times less left), in logarithms
    where all are positive (a factor), else plain, in parts of the largest."""
    known = [abs(x) for x in among]
    if all(0 < x < 1 for x in among):
        return math.log(new / (1 - new)) - math.log(old / (1 - old))
    if all(x > 0 for x in among):
        return math.log(new) - math.log(old)
    return (new - old) / (max(known) or 1.0)


def _similar(source: str, new: Changes, base: str, old: Changes) -> bool:
    for a, b in ((new.removed, old.removed), (new.added, old.added)):
        if {scope for scope, _ in a} & set(_scopes(source)) != {scope for scope, _ in b} & set(_scopes(base)):
            return False
    if _share(_names(source, new), _names(base, old)) < SIMILAR:
        return False
    for one, two in (((source, new.removed), (base, old.removed)), ((source, new.added), (base, old.added))):
        (words, numbers), (others, their_numbers) = _words_of(*one), _words_of(*two)
        if _share(_triples(words), _triples(others)) < SIMILAR or not _close(numbers, their_numbers):
            return False
    return True


def _share(a: Counter[Hashable], b: Counter[Hashable]) -> float:
    """Jaccard's index of two multisets; 1 for two empty ones."""
    return (a & b).total() / (a | b).total() if a or b else 1.0


def _triples(words: list[str]) -> Counter[Hashable]:
    padded = ["", *words, ""]
    return Counter(zip(padded, padded[1:], padded[2:], strict=False))


def _close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(
        x == y or (x * y > 0 and abs(x - y) <= NUMBERS * max(abs(x), abs(y))) for x, y in zip(a, b, strict=True)
    )


def _names(source: str, changes: Changes) -> Counter[Hashable]:
    """Names that come and that go, apart from those that the edit makes up."""
    made_up = _made_up(source, changes)
    found: Counter[Hashable] = Counter()
    for sign, part in (("-", changes.removed), ("+", changes.added)):
        found.update((sign, word) for _, text in part for word in re.findall(r"[^\W\d]\w*", text) if word not in made_up)
    return Counter({key: n - found[_other(key)] for key, n in found.items() if n > found[_other(key)]})


def _other(key: Hashable) -> Hashable:
    """The opposite of a name that comes or goes."""
    assert isinstance(key, tuple)
    return ("+" if key[0] == "-" else "-", key[1])


def _words_of(source: str, part: tuple[tuple[str, str], ...]) -> tuple[list[str], list[float]]:
    """Words of statements with made-up names and numbers blanked, and these numbers."""
    made_up = _made_up(source, Changes(added=part))
    words, numbers = [], []
    for word in (word for _, text in part for word in WORD.findall(text)):
        if word[0].isdigit():
            numbers.append(_float(word))
        words.append("0" if word[0].isdigit() else "_" if word in made_up else word)
    return words, numbers


def _float(word: str) -> float:
    try:
        return float(ast.literal_eval(word))
    except (SyntaxError, ValueError, TypeError, OverflowError):
        return 0.0


def _made_up(source: str, changes: Changes) -> set[str]:
    """Names that the added statements bind and that the source does not have: another proposer calls them otherwise."""
    text = "\n".join(text for _, text in changes.added)
    bound = re.findall(r"(?<![\w.])([^\W\d]\w*)\s*(?::[^=\n]+)?=(?!=)|\b(?:def|class|for|as)\s+([^\W\d]\w*)", text)
    return {a or b for a, b in bound} - _identifiers(source)


@lru_cache(maxsize=64)
def _identifiers(source: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d]\w*", source))


@dataclass(frozen=True)
class Scope:
    """A function, a class, or a statement at the top level that is no constant: its text, and the names in it."""

    text: str
    names: frozenset[str]


@lru_cache(maxsize=64)
def _scopes(source: str) -> dict[str, Scope]:
    """By name; constants at the top level are not among them."""
    texts: dict[str, list[str]] = {}
    for i, unit in enumerate(units(source)):
        name = unit.scope or ("" if _constant(unit.blank) else f"line {i}")
        texts.setdefault(name, []).append(f"{unit.depth} {unit.text}")
    texts.pop("", None)
    joined = {name: "\n".join(lines) for name, lines in texts.items()}
    # By what they say, not where they stand: a new line above does not change what is around.
    return {name if not name.startswith("line ") else text: Scope(text, _identifiers(text)) for name, text in joined.items()}


@lru_cache(maxsize=64)
def _constants(source: str) -> dict[str, str]:
    """Text of every constant at the top level."""
    top = (unit for unit in units(source) if not unit.scope and _constant(unit.blank))
    return {re.split(r"[: ]", unit.text)[0]: unit.text for unit in top}


def _constant(blank: str) -> bool:
    return bool(re.fullmatch(r"[^\W\d]\w*(: [^=]+)? = [_(), \[\]]+", blank))


def surroundings(source: str, changes: Changes) -> Hashable:
    """All that what is changed depends on, in `source`: equal on two bases where a retry would tell nothing new."""
    scopes, constants = _scopes(source), _constants(source)
    names = {value.place.partition("[")[0] for value in changes.values if not value.scope}
    names |= {re.split(r"[: ]", text)[0] for scope, text in (*changes.removed, *changes.added) if not scope}
    touched = {name for name, scope in scopes.items() if name in changes.scopes or scope.names & names}
    mentioned = names.union(*(scopes[name].names for name in touched))
    return frozenset((name, scopes[name].text) for name in touched) | {
        ("", constants[name]) for name in mentioned if name in constants
    }


def _words(new: Changes, old: Changes, x: Tried, how: str, campaign: str) -> str:
    who = x.called(campaign)
    here, there = new.words(), old.words()
    what = {
        "same": f"{who} made the same change ({there})",
        "near": f"{who} made nearly the same change ({there}; here {here})",
        "similar": f"{who} made nearly the same change to the same code ({there})",
        "undo": f"it takes back what {who} did ({there})",
    }[how]
    if x.ending == RUNNING:
        return f"a repeat: {what}, and that is being measured now"
    why = f": {x.reason}" if x.reason else ""
    return f"a repeat: {what}, and nothing that it depends on has changed since. It ended as: {x.result()}{why}"
