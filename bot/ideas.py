"""What a proposal changes: candidates that come, that are refused unrun, and that get another text. A part of the fold.

Pure: no clock, no disk, no luck.
"""

from __future__ import annotations

from bot import events as e
from bot.state import STEPS, Campaign, Candidate, Kind, Stage, Unlisted

LATEST = 50  # refusals whose words are remembered


def add(c: Campaign, candidate: Candidate) -> None:
    """One more candidate. Raises Unlisted unless its number is the next one."""
    if candidate.n != len(c.candidates):
        raise Unlisted(f"candidate {candidate.n} of campaign {c.name} after candidate {len(c.candidates) - 1}")
    candidate.born = c.runs_done
    c.candidates[candidate.n] = c.live[candidate.n] = candidate


def move(c: Campaign, n: int, event: e.Event) -> Candidate:
    """The candidate, in the stage that it is in after the event."""
    x = c.candidates[n]
    x.stage = STEPS[x.stage][type(event)]
    return x


def proposed(c: Campaign, event: e.Proposed) -> None:
    kind = Kind.REVERT if event.revert else Kind.EDIT
    add(
        c,
        Candidate(
            n=event.n, kind=kind, parent=event.parent, side=event.n, stage=Stage.PROPOSED, title=event.title, at=event.at,
            hypothesis=event.hypothesis, edits=event.edits, tags=event.tags, proposer=event.proposer, source=event.source,
            shorter=event.shorter, expected_effect=event.expected_effect, review=event.review, spent=event.spent,
            repairs=event.repairs,
        ),
    )  # fmt: skip
    _remember(c, event.parent, event.source)
    c.proposals += 1
    c.repeats += event.repeats
    c.refusals_row = 0
    c.reverted = event.n if event.revert else c.reverted


def refused(c: Campaign, event: e.ProposalRefused) -> None:
    c.refused += 1
    c.proposals += 1
    c.refusals_row += 1
    c.repeats += event.repeats
    c.refusals = [*c.refusals, (event.title, event.reason)][-LATEST:]
    if event.source:
        _remember(c, event.parent, event.source)
    if event.exhausted:
        c.exhausted = c.tip
    if event.broke:
        c.broke = event.reason


def rebased(c: Campaign, event: e.Rebased) -> None:
    x = move(c, event.n, event)
    x.parent, x.on = event.parent, event.base
    _renew(c, x, event)


def repaired(c: Campaign, event: e.Repaired) -> None:
    x = move(c, event.n, event)
    x.edits, x.shorter, x.spent = event.edits, event.shorter, x.spent + event.spent
    x.outcome, x.fault = "ok", ""
    x.repairs, x.mended = x.repairs - 1, x.mended + 1
    _renew(c, x, event)


def not_repaired(c: Campaign, event: e.NotRepaired) -> None:
    x = move(c, event.n, event)
    x.spent, x.repairs = x.spent + event.spent, 0


def _renew(c: Campaign, x: Candidate, event: e.Rebased | e.Repaired) -> None:
    """It has another commit: what was measured of the one before does not count."""
    x.head, x.guard, x.source = event.head, event.guard, event.source
    x.screen, x.half, x.redo, x.checked, x.awaiting = None, None, None, "", ""
    x.own, x.pairs, x.total, x.ss, x.df = [], [], 0.0, 0.0, 0
    _remember(c, x.parent, event.source)


def _remember(c: Campaign, parent: int, source: str) -> None:
    """It is not to be proposed again on that base."""
    c.tried.setdefault(parent, set()).add(source)
