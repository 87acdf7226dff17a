"""What a proposer is told: where the campaign stands, as a Brief. Reads code and log, changes nothing.

Texts for a model have budgets in tokens, as counting.py counts them: rather too many, for prose and code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bot.git import GitError
from bot.propose import Brief, Trial, Winner, apply
from bot.propose.counting import tokens
from bot.propose.digest import digest
from bot.propose.facts import facts
from bot.propose.notes import notes
from bot.propose.tpe import values_of
from bot.propose.tried import FAILED, RUNNING, Tried, refused, rows
from bot.report import mean
from bot.state import Campaign, Candidate
from bot.world import Code, editable

DIGEST, NOTES = 6_000, 4_000  # tokens of the history and of people's notes
LEARNED = 12_000  # characters of knowledge.md, from its beginning: winners and clear results stand first
EARLIER = 20  # campaigns that are remembered
RECENT = 50  # candidates in the rows that an offline proposer looks at


def brief(code: Code, c: Campaign, parent: int, seed: int, *, past: tuple[Tried, ...], learned: str = "") -> Brief:
    """All that a proposer may know. `learned` is the text of knowledge.md. Raises GitError when train.py is not there."""
    x = c.candidates[parent]
    direction, hints = direction_of(c), hints_of(c)
    return Brief(
        source=reader(code, x.sha)(editable(c)) or "",
        instructions=c.instructions,
        direction=direction,
        hints=hints,
        tried=frozenset(c.tried.get(parent, ())),
        seed=seed,
        history=tuple(f"{y.title}: {y.why} {y.reason}" for y in list(c.candidates.values())[-RECENT:] if y.edit),
        digest=digest((*past, *refused(c.refusals)), "\n\n".join((direction, *hints)), DIGEST, tokens, c.name),
        material=tuple(_material(code, c, x, learned)),
        usd_left=left(c),
        winners=tuple(Winner(title=row.title, edits=row.edits, gain=row.gain) for row in past if row.gain and _won(row)),
        trials=tuple(_trials(code, c, past)) if "optuna" in c.settings.proposers else (),
    )


def left(c: Campaign) -> float | None:
    """US dollars that may still be spent; None: there is no cap."""
    return None if c.settings.money.usd is None else c.settings.money.usd - c.spent.usd


def past(code: Code, c: Campaign) -> tuple[Tried, ...]:
    """What was tried, oldest first: in this campaign, and in earlier ones whose numbers mean the same."""
    alike = [old for old in c.past.campaigns if _alike(old, c)][-EARLIER:]
    return tuple(row for each in (*alike, c) for row in rows(each, lambda commit: reader(code, commit)(editable(c))))


def direction_of(c: Campaign) -> str:
    """The issue as it was when the campaign began."""
    return "\n\n".join(part for part in (c.started.title, c.started.body) if part.strip())


def hints_of(c: Campaign) -> tuple[str, ...]:
    """What people said since, the newest first."""
    return tuple(f"Hint by {hint.by}: {hint.text}" for hint in reversed(c.hints))


def reader(code: Code, commit: str) -> Callable[[str], str | None]:
    """Files at a commit; None for one that is not there or is no text, and for all of them where the commit is gone."""

    def read(path: str) -> str | None:
        try:
            return code.read(commit, path)
        except GitError:
            return None

    return read


def _alike(old: Campaign, c: Campaign) -> bool:
    """Measured with the same budget on the same text and device: what was worse there is worse here."""
    a, b = old.settings, c.settings
    same = (a.metric, a.corpus, a.budget.seconds, a.editable) == (b.metric, b.corpus, b.budget.seconds, b.editable)
    return same and (not c.fingerprint or old.fingerprint == c.fingerprint)


def _material(code: Code, c: Campaign, x: Candidate, learned: str) -> Iterator[tuple[str, str]]:
    """(title, text) of what a model reads beside the history, as far as there is any."""
    found = (
        ("Measured facts of train.py as it is now", facts(x, c.settings.metric)),
        ("Notes of people", notes(lambda: code.paths(x.sha), reader(code, x.sha), NOTES, tokens)),
        ("What was learned so far", learned[:LEARNED]),
    )
    yield from ((title, text) for title, text in found if text.strip())


def _won(row: Tried) -> bool:
    return row.gain is not None and row.gain > 0 and row.ending not in (RUNNING, "vetoed", "stopped")


def _trials(code: Code, c: Campaign, past: tuple[Tried, ...]) -> Iterator[Trial]:
    """The constants of all that ran in this campaign, with their numbers."""
    for x in c.candidates.values():
        if x.base and x.own:
            yield Trial(values=values_of(reader(code, x.sha)(editable(c)) or ""), val_bpb=mean(x))
    for row in past:
        score = mean(c.candidates[row.n]) if row.campaign == c.name else None
        edited = apply(row.source, row.edits) if row.source else None
        if edited and row.campaign == c.name and (score is not None or row.ending in FAILED):
            yield Trial(values=values_of(edited), val_bpb=None if row.ending in FAILED else score)
