"""What the result of one run changes: baselines, pairs, and how noisy a run is. A part of the fold.

Noise and baselines outlive a campaign: the next one on the same device begins with the noise that is known, and where the code
of its base was measured before, one fresh run that agrees takes the place of a whole baseline.

A run of the incumbent that fails says nothing of the candidate: it is done again, like a lost one. A candidate's own run that
fails settles it, in confirmation as in screening: a crash is the worst value.
"""

from __future__ import annotations

import math
from statistics import fmean

from bot import events as e
from bot.state import Campaign, Candidate, Kind, Run
from evaluator import gate, stack

REMEMBERED = 30  # degrees of freedom, and runs, that one campaign hands to the next: newer noise soon outweighs them
AGREES = 3.0  # standard deviations within which a fresh run of known code confirms its earlier ones


def take(c: Campaign, x: Candidate, run: Run, event: e.Measured) -> None:
    """Put the result of a run where it belongs."""
    if not c.fingerprint:
        c.fingerprint = str(event.result.get("fingerprint", ""))
        c.ss, c.df = c.past.noise.get(c.fingerprint, (0.0, 0))
    if event.val_bpb is None:
        _failed(x, run, event)
        return
    x.losses = x.voids = 0
    c.runs_done += 1
    if x.base and not x.own:
        _recall(c, x, event.val_bpb)
    _score(c, x if run.subject == x.n else c.candidates[run.subject], event.val_bpb)
    if run.subject == x.n:
        x.result = event.result
    vault = event.result.get("vault_bpb")
    if not (c.stacking and x.edit and x.screen is not None):  # there a run of the head only tops it up
        _place(x, run.subject, event.val_bpb, vault if isinstance(vault, float) else None)


def assume(c: Campaign, x: Candidate) -> None:
    """The baseline of what was accepted: its parent's runs, lowered by what it is expected to bring, which is less than what it
    showed. So the luck that got it accepted does not stand in the way of the next one."""
    parent = c.candidates[x.parent]
    x.own = [(index, score - x.predicted) for index, score in parent.baseline[-REMEMBERED:]]
    x.total, x.assumed = 0.0, len(x.own)
    c.last_tip_run = c.runs_done


def _recall(c: Campaign, x: Candidate, score: float) -> None:
    """Earlier runs of this very code count as its baseline, unless the first fresh one says that the machine has changed."""
    known = c.past.scores.get((c.fingerprint, x.guard), [])
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    if known and df and abs(score - fmean(known)) <= AGREES * sigma * math.sqrt(1 + 1 / len(known)):
        x.own = [(c.runs_done - len(known) + place, old) for place, old in enumerate(known)]
        x.total = sum(known)


def keep(c: Campaign) -> None:
    """Remember, for the next campaign, what this one learned of the device and of the code that it leaves."""
    if c.df:
        share = min(1.0, REMEMBERED / c.df)
        c.past.noise[c.fingerprint] = (c.ss * share, min(c.df, REMEMBERED))
    if (tip := c.candidates.get(c.tip)) and len(tip.own) > tip.assumed:
        c.past.scores[c.fingerprint, tip.guard] = [score for _, score in tip.own[tip.assumed :][-REMEMBERED:]]


def believe(c: Campaign, head: Candidate) -> None:
    """Once certified, a head whose own runs contradict what was assumed of it has these runs alone for a baseline."""
    assumed, real = ([score for _, score in part] for part in (head.own[: head.assumed], head.own[head.assumed :]))
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    head.doubted = bool(df) and stack.outdated(assumed, real, sigma)


def _failed(x: Candidate, run: Run, event: e.Measured) -> None:
    if run.subject == x.n:
        x.outcome, x.fault, x.result = event.outcome, event.reason, event.result
    else:
        x.redo, x.losses, x.loss = run, x.losses + 1, event.reason


def _score(c: Campaign, subject: Candidate, score: float) -> None:
    """One more run of that code; every run after the first of a group adds a degree of freedom to the pooled noise."""
    if earlier := c.ages(subject.own[subject.assumed :]):
        square = gate.residual(score, earlier)
        subject.ss, subject.df = subject.ss + square, subject.df + 1
        c.ss, c.df = c.ss + square, c.df + 1
    subject.own.append((c.runs_done, score))
    subject.total += score
    if subject.n == c.tip:
        c.last_tip_run = c.runs_done


def _place(x: Candidate, subject: int, score: float, vault: float | None) -> None:
    """A base only collects; an edit is screened first, and until then a run of the incumbent only refreshes its mean."""
    if x.base or (not x.comparison and x.screen is None):
        if subject == x.n and not x.base:
            x.screen = score
        return
    if x.half is None:
        x.half = (subject, score, vault)
        return
    first, other, other_vault = x.half
    x.half = None
    x.pairs.append((other, score) if first != x.side else (score, other))
    if vault is not None and other_vault is not None:
        x.vault.append((other_vault, vault) if first != x.side else (vault, other_vault))


def evidence(c: Campaign, x: Candidate) -> gate.Evidence:
    """What the gate may use to judge x against its parent. A revert is judged by what came since the comparison that called for
    it: the earlier runs of the tip are those that may have been lucky."""
    assert x.screen is not None
    since = c.candidates[c.duel].born if x.kind is Kind.REVERT else -1
    return gate.Evidence(
        screen=x.screen,
        pairs=tuple(x.pairs),
        incumbent=tuple((age, score) for age, score in c.aged(c.candidates[x.parent]) if c.runs_done - age > since),
        ss=max(0.0, c.ss - x.ss),
        df=c.df - x.df,
    )
