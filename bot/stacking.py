"""Mode stack: near-winners are accepted provisionally, one on top of the other, and only certified states are merged.

A candidate that looks better is accepted after one run; what comes next builds on it. When enough has come together, or the
experiments are used up, the head of the stack is measured against what the default branch holds, in fresh pairs. Certified: all
of it is merged, in order. Not: all of it is closed, and the campaign goes back. Reports call the one provisional, the other
merged.

Pure: what to do about the stack, in order of preference.
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.actions import Accept, Action, Close, Merge, OpenComparison
from bot.scores import evidence
from bot.state import Campaign, Candidate, Kind
from evaluator import gate, stack


def acceptance(c: Campaign, x: Candidate) -> Iterator[Action]:
    """A candidate on the head of the stack that may be built upon."""
    verdict, predicted = stack.screen(evidence(c, x), c.settings.gate)
    if verdict.call is gate.Call.ACCEPT and x.parent == c.tip and not held(c):
        yield Accept(n=x.n, predicted=predicted, reason=verdict.reason)


def held(c: Campaign) -> bool:
    """Whether the stack must stay as it is: it is being certified, merged or taken down."""
    return _open(c) is not None or (bool(c.accepted) and _answer(c) is not None)


def _open(c: Campaign) -> Candidate | None:
    return c.live.get(c.certifying)


def _answer(c: Campaign) -> bool | None:
    """What the certification of the present stack said; None when it was not asked or not to the end."""
    asked = c.candidates.get(c.certifying)
    if asked is None or asked.compared is None or not c.accepted or c.accepted[-1].n > asked.side:
        return None
    return asked.compared.keep


def verdict_of(c: Campaign, x: Candidate) -> gate.Verdict:
    """What the pairs of a certification say so far."""
    return stack.certify(x.pairs, c.ss, c.df, c.settings.gate)


def moves(c: Campaign) -> Iterator[Action]:
    """Merge what is certified, take down what is not or what lost its ground, ask for the next certification."""
    accepted = c.accepted
    if not accepted:
        yield from _end_question(c, "nothing is left to certify")
        return
    if c.candidates[accepted[0].parent].n != c.landed:
        yield from _down(c, "stale", "somebody changed what the stack stands on")
    elif unwanted := next((x for x in accepted if x.vetoed), None):
        yield from _down(c, "vetoed", f"candidate {unwanted.n}, a part of this stack, is not wanted by {unwanted.vetoed}")
    elif (answer := _answer(c)) is not None:
        asked = c.candidates[c.certifying]
        if answer:
            yield Merge(n=accepted[0].n, verdict=verdict_of(c, asked))
        else:
            yield from _down(c, "worse", f"rolled back: {asked.reason}")
    elif _open(c) is None and _due(c):
        yield OpenComparison(n=len(c.candidates), what=Kind.CERTIFY, left=c.landed, right=c.tip, of=-1)


def _due(c: Campaign) -> bool:
    accepted = c.accepted
    sigma, _ = gate.sigma(c.ss, c.df, c.settings.gate)
    others = [x for x in c.live.values() if x.edit and x not in accepted]
    spent = c.settled + len(accepted) >= c.started.experiments or c.dry
    if spent or c.ending:
        return not others
    return stack.due(len(accepted), sum(x.predicted for x in accepted), sigma)


def _end_question(c: Campaign, reason: str) -> Iterator[Action]:
    if (asked := _open(c)) is not None:
        yield Close(n=asked.n, why="stale", reason=reason)


def _down(c: Campaign, why: str, reason: str) -> Iterator[Action]:
    """Newest first, so that what is left always stands on something."""
    yield from _end_question(c, reason)
    yield Close(n=c.accepted[-1].n, why=why, reason=reason)
