"""What campaigns taught: one line for each settled candidate, and knowledge.md, where they are distilled and people write too.

    lesson(c, x)                  what changed (from the diff), what came of it (from the judge), and what a model had supposed
    distil(lessons, most)         the bot's own text of knowledge.md: one line a topic, winners and clear results first
    merge(base, theirs, ours)     that text into a file that people may have edited in between

`base` is what `distil` gave when the file was last written, not the file: only so are lines of people told from ours. Their words
are never overwritten: a line that they added or changed stays where it stands, a line that they took out stays out, and a topic
that they took over, by changing or deleting its line, is theirs from then on. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from bot.propose.changes import Changes, Value, of, of_edits
from bot.propose.literals import show
from bot.report import WORDS, Comparison, amount, compare, count, percent
from bot.report.quoting import one_line, span
from bot.state import Campaign, Candidate

SAID = 120  # characters of what a model supposed
SHOWN = 6  # results in the line of a topic
HEAD = """# What was learned

Distilled from measurements every ten candidates; every proposal reads it. Write here what you know: lines that you add or change
stay as they are, lines that you delete stay away.
"""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One settled candidate. `topic` is the constant or the function that it changed."""

    campaign: str
    n: int
    topic: str
    what: str
    ending: str
    gain: float | None = None  # bits per byte, positive is better
    said: str = ""  # what a model supposed when it proposed it, one line

    def __str__(self) -> str:
        gain = "" if self.gain is None else f" ({self.gain:+.2g})"
        said = f", supposed: {self.said}" if self.said else ""
        return f"{self.what}: {WORDS.get(self.ending, self.ending)}{gain} [{self.campaign}/{self.n}]{said}"


def lesson(c: Campaign, x: Candidate, source: str = "") -> Lesson:
    """`source` is the train.py that x changes, where it is known. What a proposer without a model supposes says nothing new."""
    seen = changes_of(x, source)
    numbers = compare(c, x)
    return Lesson(
        campaign=c.name, n=x.n, topic=_topic_of(seen, x), what=one_line(seen.words(), 120) or one_line(x.title, 120),
        ending=x.why, gain=numbers.gain if numbers else None, said=one_line(x.hypothesis, SAID) if x.spent.calls else "",
    )  # fmt: skip


def distil(lessons: Iterable[Lesson], most: int = 120) -> str:
    """The whole text, with at most so many topics."""
    topics: dict[str, list[Lesson]] = {}
    for one in lessons:
        topics.setdefault(one.topic, []).append(one)
    ranked = sorted(topics.items(), key=lambda item: (not any(map(_kept, item[1])), -len(item[1]), item[0]))
    return "\n".join([HEAD, *(_line(topic, found) for topic, found in ranked[:most])]) + "\n"


def merge(base: str, theirs: str, ours: str) -> str:
    """`theirs` is the file as it is, "" when there is none. Once we wrote one, a file that is empty or gone was emptied."""
    if theirs == base:
        return ours
    old, now = _lines(base), _lines(theirs)
    gone: list[str] = []
    added: list[tuple[int, list[str]]] = []  # after how many lines of base
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, now, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += old[a1:a2]
            added += [(a1, now[b1:b2])] if b2 > b1 else []
    result = _without(_lines(ours), gone)
    said = {line for line in result if line.strip()}
    for after, lines in reversed(added):
        place = _place(result, old[:after])
        result[place:place] = [line for line in lines if line not in said]
    return "\n".join(result) + "\n"


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _without(lines: Sequence[str], gone: Sequence[str]) -> list[str]:
    """Our lines apart from those that people took out, or whose topic they took over. Empty lines are nobody's."""
    topics = {topic for line in gone if (topic := _topic(line))}
    exact = Counter(line for line in gone if line.strip() and not _topic(line))
    kept = []
    for line in lines:
        if exact[line]:
            exact[line] -= 1
        elif _topic(line) not in topics or not _topic(line):
            kept.append(line)
    return kept


def _place(result: Sequence[str], before: Sequence[str]) -> int:
    """Behind the nearest line of base before it that is still there, as it was or by its topic; else at the end of the head."""
    for line in reversed(before):
        same = [i for i, there in enumerate(result) if line.strip() and there == line]
        topic = _topic(line)
        found = same or [i for i, there in enumerate(result) if topic and _topic(there) == topic]
        if found:
            return found[0] + 1
    return 0


def _topic(line: str) -> str:
    """Of one of our lines; empty for any other."""
    match = re.fullmatch(r"- (.+?) \(\d+ tried, \d+ kept\): .*", line)
    return match[1] if match else ""


def _line(topic: str, found: list[Lesson]) -> str:
    kept = sum(map(_kept, found))
    ranked = sorted(found, key=lambda one: (not _kept(one), one.gain is None, -abs(one.gain or 0.0), one.campaign, one.n))
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"- {topic} ({len(found)} tried, {kept} kept): {'; '.join(map(str, ranked[:SHOWN]))}{more}"


def _kept(one: Lesson) -> bool:
    return one.ending == "merged"


def changes_of(x: Candidate, source: str = "") -> Changes:
    return (of(source, x.edits) if source else None) or of_edits(x.edits)


def _topic_of(seen: Changes, x: Candidate) -> str:
    if seen.values:
        first = seen.values[0]
        return one_line(f"{first.scope + ': ' if first.scope else ''}{first.place.partition('[')[0]}", 60)
    return one_line(", ".join(sorted(filter(None, seen.scopes))) or (x.tags[0] if x.tags else "other code"), 60)


def explain(c: Campaign, x: Candidate, source: str = "") -> str:
    """A winner for people who do not read code, as Markdown for its pull request: what it does from the diff, what came of it
    from the judge, and what it was hoped to do as the words of its proposer."""
    numbers = compare(c, x)
    said = [_what(changes_of(x, source)), _measured(numbers, c.settings.metric) if numbers else ""]
    said += _beside(c.candidates[x.parent], x)
    if x.hypothesis:
        said.append(f"That it is better was measured; why is what its proposer supposed: {span(x.hypothesis, 400)}")
    return " ".join(part for part in said if part)


def _measured(numbers: Comparison, metric: str) -> str:
    way = f"in {count(numbers.pairs, 'fresh pair')} of runs" if numbers.pairs else "in its first run"
    sure = ""
    if numbers.interval:
        sure = f", with 95 % confidence between {numbers.interval[0]:+.6f} and {numbers.interval[1]:+.6f}"
    return (
        f"Measured {way}, {metric} went from {numbers.before:.6f} to {numbers.after:.6f} ({percent(numbers.percent)}): "
        f"a gain of {numbers.gain:+.6f}{sure}."
    )


def _what(seen: Changes) -> str:
    parts = [_value(value) for value in seen.values[:6]]
    if len(seen.values) > 6:
        parts.append(f"changes {len(seen.values) - 6} more numbers")
    if seen.removed or seen.added:
        where = ", ".join(span(scope, 60) for scope in sorted({scope for scope, _ in (*seen.removed, *seen.added)}) if scope)
        out, into = count(len(seen.removed), "statement"), count(len(seen.added), "statement")
        parts.append(f"takes out {out} and puts in {into}" + (f" in {where}" if where else ""))
    return f"It {'; it '.join(parts)}." if parts else ""


def _value(value: Value) -> str:
    where = f" in {span(value.scope, 60)}" if value.scope else ""
    return f"sets {span(value.place, 80)}{where} from {span(show(value.old))} to {span(show(value.new))}"


BESIDE = (
    ("steps", "more steps in the same time", "fewer steps in the same time"),
    ("params", "more parameters", "fewer parameters"),
    ("peak_memory_mb", "more memory at its peak", "less memory at its peak"),
    ("peak_vram_mb", "more GPU memory at its peak", "less GPU memory at its peak"),
)


def _beside(parent: Candidate, x: Candidate) -> Iterable[str]:
    """What else changed by 2 % or more: it often tells where a gain comes from."""
    for name, more, less in BESIDE:
        before, after = amount(parent.result, name), amount(x.result, name)
        if before and after and abs(after / before - 1) >= 0.02:
            yield f"It has {abs(100 * (after / before - 1)):.0f} % {more if after > before else less}."
