"""What the result of one run changes: baselines, pairs, and how noisy a run is. A part of the fold.

A run of the incumbent that fails says nothing of the candidate: it is done again, like a lost one. A candidate's own run that
fails settles it, in confirmation as in screening: a crash is the worst value.
"""

from __future__ import annotations

from bot import events as e
from bot.state import Campaign, Candidate, Run
from evaluator import gate


def take(c: Campaign, x: Candidate, run: Run, event: e.Measured) -> None:
    """Put the result of a run where it belongs."""
    c.fingerprint = c.fingerprint or str(event.result.get("fingerprint", ""))
    if event.val_bpb is None:
        _failed(x, run, event)
        return
    x.losses = x.voids = 0
    c.runs_done += 1
    _score(c, x if run.subject == x.n else c.candidates[run.subject], event.val_bpb)
    if run.subject == x.n:
        x.result = event.result
    vault = event.result.get("vault_bpb")
    _place(x, run.subject, event.val_bpb, vault if isinstance(vault, float) else None)


def _failed(x: Candidate, run: Run, event: e.Measured) -> None:
    if run.subject == x.n:
        x.outcome, x.fault, x.result = event.outcome, event.reason, event.result
    else:
        x.redo, x.losses = run, x.losses + 1


def _score(c: Campaign, subject: Candidate, score: float) -> None:
    """One more run of that code; every run after the first of a group adds a degree of freedom to the pooled noise."""
    if subject.own:
        square = gate.residual(score, c.aged(subject))
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
