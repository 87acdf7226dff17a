"""The history of a campaign as a model reads it, within a budget of tokens: `digest(rows, probe, budget, count)`.

Parts: what was kept, what is under way, what was tried and not kept, what could not run, and what was refused as a repeat. Each
has a share of the budget (SHARES), and what one leaves goes to the next. In each the most relevant rows are shown in full (what
it changed, its number, its hypothesis) and the next ones as a ledger: one line for rows that differ in numbers alone, as many
values of one constant do. Winners go to the ledger first, so that all of them are there if all fit.

Rows are ranked by BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework") against the probe: the direction
that people gave, the focus, and whatever names of constants and functions are being thought about. A row's text is its title,
hypothesis, tags, and what its edits change by the syntax tree; that part counts twice. Words are taken as stems and, at a lower
weight, as their first four letters, so that `init` finds `initialise`; identifiers as their parts; the usual abbreviations of
the field in full; numbers by value, so that 2**19
finds 524288 and a tenth finds 0.1; and bigger / smaller as a direction, also where it only shows in
"0.1 to 0.2". Of equals the newest is first, which is all the order that an empty probe leaves. Rows that say the same are one.

Whatever stands here was written by models and people: one line each, cut, and the caller fences the whole as data.
Pure: `count` is the caller's too (counting.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bot.propose.terms import START, terms
from bot.propose.tried import FAILED, REFUSED, RUNNING, Tried
from bot.report.quoting import one_line

Count = Callable[[str], int]

STUB, FULL = 80, 400  # characters of a row
# (part, its share of what is left by then, how much of that full lines may take from the ledger)
SHARES = (("kept", 0.4, 0.0), ("running", 0.1, 0.3), ("crashed", 0.15, 0.3), ("refused", 0.05, 0.0), ("failed", 1.0, 0.3))
TITLES = {
    "kept": "Kept, so the present code has them:",
    "running": "Under way, not judged yet:",
    "failed": "Tried and not kept:",
    "crashed": "Could not run to the end:",
    "refused": "Refused before any run, as repeats or faults:",
}
ORDER = ("kept", "running", "failed", "crashed", "refused")
K1, B = 1.2, 0.75  # of BM25, the usual ones
PREFIX = 0.3  # weight of a word's first letters
NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?(?:\*\*\d+)?")
CHANGED = 2  # times that what an edit changes counts


def digest(rows: Sequence[Tried], probe: str, budget: int, count: Count, campaign: str = "") -> str:
    """All winners and the most relevant of the rest, in at most `budget` tokens as `count` counts them; empty for no rows."""
    parts: dict[str, list[Tried]] = {name: [] for name in ORDER}
    for row in ranked(_merged(rows), probe):
        parts[_part(row)].append(row)
    left, filled = budget, {}
    for name, share, detail in SHARES:
        filled[name] = _fill(TITLES[name], parts[name], int(left * share), detail, count, campaign)
        left -= count(filled[name])
    return _within([line for name in ORDER for line in filled[name].splitlines()], budget, count)


def recency(rows: Sequence[Tried], budget: int, count: Count, campaign: str = "") -> str:
    """The rival: the newest rows in full, as many as fit."""
    lines: list[str] = []
    for row in reversed(rows):
        line = full(row, campaign)
        if count("\n".join([*lines, line])) > budget:
            break
        lines.append(line)
    return "\n".join(lines)


def ranked(rows: Sequence[Tried], probe: str) -> list[Tried]:
    """The most relevant first."""
    bags = [_bag(row) for row in rows]
    asked = _weights(terms(probe))
    holders = Counter(term for bag in bags for term in bag if term in asked)
    mean = sum(sum(bag.values()) for bag in bags) / max(1, len(bags))

    def score(bag: Counter[str]) -> float:
        long = K1 * (1 - B + B * sum(bag.values()) / mean) if mean else K1
        return sum(
            weight * math.log(1 + (len(bags) - holders[term] + 0.5) / (holders[term] + 0.5)) * bag[term] * (K1 + 1)
            / (bag[term] + long)
            for term, weight in asked.items() if term in bag
        )  # fmt: skip

    scores = [score(bag) for bag in bags]
    return [rows[i] for i in sorted(range(len(rows)), key=lambda i: (-scores[i], -i))]


def full(row: Tried, campaign: str = "") -> str:
    """One line with all that matters of a row."""
    changed = row.changes.words() if row.edits else ""
    said = ". ".join(part for part in (changed, row.title, row.hypothesis) if part)
    because = f" ({row.reason})" if row.reason and row.gain is None else ""
    return one_line(f"- {_name(row, campaign)} {row.result()}{because}: {said}", FULL)


def stub(row: Tried, campaign: str = "") -> str:
    """The shortest line that keeps somebody from trying it again."""
    return f"- {_stub(row)} {_mark(row, campaign)}"


def _stub(row: Tried) -> str:
    return one_line((row.changes.words() if row.edits else "") or row.title or row.hypothesis, STUB)


def _mark(row: Tried, campaign: str) -> str:
    gain = "" if row.gain is None else f" {row.gain:+.2g}"
    return f"{_name(row, campaign)}{gain}"


def _bag(row: Tried) -> Counter[str]:
    """The terms of a row, with the beginnings of words."""
    bag = terms(f"{row.title} {row.hypothesis} {' '.join(row.tags)}")
    changed = terms(row.changes.words(400)) if row.edits else Counter()
    for term, n in changed.items():
        bag[term] += CHANGED * n
    for term, n in list(bag.items()):
        if term[0] != "=" and len(term) >= START:
            bag[f"{term[:START]}-"] += n
    return bag


def _weights(asked: Iterable[str]) -> dict[str, float]:
    weights = dict.fromkeys(asked, 1.0)
    return weights | {f"{term[:START]}-": PREFIX for term in weights if term[0] != "=" and len(term) >= START}


@dataclass(frozen=True)
class Key:
    """What makes two rows one."""

    part: str
    said: str


def _merged(rows: Sequence[Tried]) -> list[Tried]:
    """The newest of each group of rows that say the same."""
    newest = {Key(_part(row), row.changes.words(1000) if row.edits else f"{row.title} {row.hypothesis}"): row for row in rows}
    inside = {id(row) for row in newest.values()}
    return [row for row in rows if id(row) in inside]


def _part(row: Tried) -> str:
    if row.kept:
        return "kept"
    return {RUNNING: "running", REFUSED: "refused"}.get(row.ending) or ("crashed" if row.ending in FAILED else "failed")


def _name(row: Tried, campaign: str) -> str:
    if not row.n:
        return ""
    return f"[{row.n}]" if row.campaign in ("", campaign) else f"[{row.campaign}/{row.n}]"


def _fill(title: str, rows: Sequence[Tried], budget: int, detail: float, count: Count, campaign: str) -> str:
    """The first rows in full, the next in the ledger, as many as the budget holds."""
    room = budget - count(title) - 12  # for the line that says how many are not here
    ledger, used = _ledger(rows, room, count, campaign)
    spare = max(room - used if len(ledger) == len(rows) else 0, int(room * detail))
    lines: list[str] = []
    for row in rows:
        line = full(row, campaign)
        cost = count(line) + 1
        if cost > spare:
            break
        lines, spare, room = [*lines, line], spare - cost, room - cost
    ledger, _ = _ledger(rows[len(lines) :], room, count, campaign)
    missing = len(rows) - len(lines) - len(ledger)
    lines += dict.fromkeys(ledger.values())
    return "\n".join([title, *lines, *([f"(and {missing} more)"] if missing else [])]) if lines else ""


def _ledger(rows: Sequence[Tried], budget: int, count: Count, campaign: str) -> tuple[dict[int, str], int]:
    """The line that each row is in, by its place in `rows`, as far as the budget goes; and what that costs."""
    lines: dict[str, str] = {}
    values: dict[str, list[str]] = {}  # the numbers of the first row of a line: others need not repeat what they share
    keys: list[str] = []
    used = 0
    for row in rows:
        said = _stub(row)
        key = NUMBER.sub("0", said)
        more = stub(row, campaign)
        numbers = NUMBER.findall(said)
        if key in lines:
            shared = next((i for i, pair in enumerate(zip(numbers, values[key], strict=True)) if pair[0] != pair[1]), 0)
            more = f"; {' -> '.join(numbers[shared:]) or 'again'} {_mark(row, campaign)}"
        cost = count(more) + 1
        if used + cost > budget:
            break
        lines[key] = lines.get(key, "") + more
        values.setdefault(key, numbers)
        keys.append(key)
        used += cost
    return {i: lines[key] for i, key in enumerate(keys)}, used


def _within(lines: list[str], budget: int, count: Count) -> str:
    """Never over the budget, however `count` adds up."""
    while lines and count("\n".join(lines)) > budget:
        lines.pop()
    return "\n".join(lines)
