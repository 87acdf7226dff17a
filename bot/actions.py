"""What can be done: one frozen dataclass per kind of action, in the imperative where events are in the past tense.

decide.py returns them, act.py does them.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.state import Run
from evaluator import gate


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something to be done: imperative, where events are past tense."""


@dataclass(frozen=True, kw_only=True)
class Look(Action):
    """See whether the default branch or a pull request was changed by somebody else."""


@dataclass(frozen=True, kw_only=True)
class Poll(Action):
    n: int
    run: Run


@dataclass(frozen=True, kw_only=True)
class Propose(Action):
    n: int
    parent: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Repair(Action):
    """Have a candidate mended that crashed."""

    n: int


@dataclass(frozen=True, kw_only=True)
class Open(Action):
    n: int


@dataclass(frozen=True, kw_only=True)
class Rebase(Action):
    n: int
    parent: int


@dataclass(frozen=True, kw_only=True)
class StartRun(Action):
    n: int
    subject: int
    k: int
    attempt: int
    seed: int
    vault: bool = False


@dataclass(frozen=True, kw_only=True)
class PostCheck(Action):
    n: int
    verdict: gate.Verdict | None  # None: its own run failed


@dataclass(frozen=True, kw_only=True)
class OpenComparison(Action):
    """See events.ComparisonOpened."""

    n: int
    what: str
    left: int
    right: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Compare(Action):
    n: int


@dataclass(frozen=True, kw_only=True)
class ProposeRevert(Action):
    n: int
    parent: int


@dataclass(frozen=True, kw_only=True)
class Adopt(Action):
    n: int


@dataclass(frozen=True, kw_only=True)
class Accept(Action):
    n: int
    predicted: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Merge(Action):
    n: int
    verdict: gate.Verdict


@dataclass(frozen=True, kw_only=True)
class Close(Action):
    n: int
    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Say(Action):
    about: int


@dataclass(frozen=True, kw_only=True)
class Learn(Action):
    """Write down what the first `about` experiments taught."""

    about: int


@dataclass(frozen=True, kw_only=True)
class Pause(Action):
    reason: str


@dataclass(frozen=True, kw_only=True)
class BeginEnd(Action):
    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class End(Action):
    why: str
    reason: str
