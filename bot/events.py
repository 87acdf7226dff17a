"""What happened: one frozen dataclass per kind of event. Their JSON lines are in lines.py.

Everything that the bot knows is a list of these. They are in the past tense, validate themselves on creation, and are never
changed; a new need is a new field with a default or a new class. Those about the text of a candidate are in proposals.py, and
are reached through here like all others.

Pure: no clock, no disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bot.event import Edit, Event
from bot.proposals import NotRepaired, ProposalRefused, Proposed, Rebased, Repaired
from bot.spending import FREE, Spent

__all__ = ["Edit", "Event", "NotRepaired", "ProposalRefused", "Proposed", "Rebased", "Repaired"]  # beside the kinds below


@dataclass(frozen=True, kw_only=True)
class CampaignStarted(Event):
    """Somebody asked for `experiments` experiments. Text from people and the program are snapshotted here.

    `cause` of this and other events that a person caused names the comment, review or click that it came from, so that one
    that is delivered twice does nothing twice; empty at a terminal."""

    experiments: int
    issue: int
    title: str
    body: str
    by: str
    program: str  # the whole program.md
    settings: dict[str, Any]  # what the command overrode, by dotted name
    seed: int  # all seeds of the campaign derive from it; private to the bot
    branch: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class BaseSeen(Event):
    """The default branch is at a tree that was never measured; it becomes a candidate that is adopted, not merged."""

    n: int
    sha: str
    guard: str  # hash over everything that a measurement depends on
    source: str  # names its train.py, see static.hash_of


@dataclass(frozen=True, kw_only=True)
class TipMoved(Event):
    """Somebody pushed to the default branch, and nothing that a measurement depends on changed."""

    sha: str


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """The branch is pushed and the pull request stands."""

    n: int
    base: str
    head: str
    guard: str
    pull: int


@dataclass(frozen=True, kw_only=True)
class MeasureStarted(Event):
    """A run began: the code of `subject`, in order to judge `n`. `k` counts the runs of the campaign; a lost or void run is
    done again with the same k and seed and the next attempt."""

    n: int
    subject: int
    k: int
    attempt: int
    run: str
    seed: int
    nonce: str
    head: str
    deadline: float
    vault: bool = False  # the private split is scored too


@dataclass(frozen=True, kw_only=True)
class Measured(Event):
    """A run ended with a result. `result` is the judge's whole record, checked at the door."""

    n: int
    run: str
    outcome: str
    val_bpb: float | None
    reason: str
    result: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.outcome == "ok") != (self.val_bpb is not None):
            raise ValueError(f"outcome {self.outcome} with val_bpb {self.val_bpb}")
        if self.val_bpb is not None and not (math.isfinite(self.val_bpb) and self.val_bpb > 0):
            raise ValueError(f"val_bpb {self.val_bpb}")


@dataclass(frozen=True, kw_only=True)
class RunLost(Event):
    """A run ended without a number and through no fault of the candidate: lost (its process died) or void (the judge saw from
    outside that the machine was too busy). It is done again with the same seed."""

    n: int
    run: str
    reason: str
    void: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckPosted(Event):
    n: int
    head: str
    conclusion: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Adopted(Event):
    """A base has its baseline runs: candidates are compared with it from now on."""

    n: int


@dataclass(frozen=True, kw_only=True)
class Accepted(Event):
    """Mode stack: likely better, so what comes next builds on it, but not proven: provisional until it is certified."""

    n: int
    predicted: float  # bits per byte that it is expected to bring, less than what it showed
    reason: str


@dataclass(frozen=True, kw_only=True)
class Merged(Event):
    n: int
    sha: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Closed(Event):
    """`why` is worse | crash | oom | nan | timeout | invalid | stale | vetoed | stopped; `reason` is in words and numbers."""

    n: int
    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ComparisonOpened(Event):
    """What was accepted or merged is measured once more, on fresh seeds: the code of `left` against that of `right`.

    `what` is "duel" (the base against the tip), "ablation" (the tip without the edit of candidate `of`, against the tip) or, in
    mode stack and while the campaign goes on, "certify" (the default branch against what was accepted on top of it)."""

    n: int
    what: str
    left: int
    right: int
    of: int
    title: str
    head: str  # of the code that exists for this comparison only; else empty


@dataclass(frozen=True, kw_only=True)
class Compared(Event):
    """The mean gain of `right` over `left` in fresh pairs, bits per byte, positive is better, with its 95 % interval; on the
    private split too where it was scored. None: nothing could be compared, see `reason`."""

    n: int
    pairs: int
    gain: float | None
    low: float | None
    high: float | None
    vault_gain: float | None
    vault_low: float | None
    vault_high: float | None
    reason: str
    keep: bool | None = None  # of "certify": whether what was accepted may be merged


@dataclass(frozen=True, kw_only=True)
class Vetoed(Event):
    """A person does not want this candidate (closed its pull request, or said so)."""

    n: int
    by: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class Awaiting(Event):
    """The platform does not let us merge the candidate yet: it does so itself once its rules are met, or a person must."""

    n: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class StopRequested(Event):
    by: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class Hinted(Event):
    """A person who may steer says something that every later proposal reads."""

    by: str
    text: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class Paused(Event):
    reason: str
    cause: str = ""
    spent: Spent = FREE  # on an answer that did not come, if that is the reason


@dataclass(frozen=True, kw_only=True)
class Resumed(Event):
    """`program` is program.md as it was then: what it says of who proposes, of models and of money holds from now on, since that
    is what a pause may wait for. Empty: all stays as it was."""

    by: str
    cause: str = ""
    program: str = ""


@dataclass(frozen=True, kw_only=True)
class Billed(Event):
    """Models were paid, and no other event tells of it: somebody else wrote first, or nobody waited for the answer any more. It
    may follow the campaign's end."""

    spent: Spent


@dataclass(frozen=True, kw_only=True)
class Said(Event):
    """The status comment of the campaign reads as of `about` (how many candidates were settled)."""

    about: int


@dataclass(frozen=True, kw_only=True)
class Learned(Event):
    """knowledge.md holds what the first `about` experiments taught."""

    about: int


@dataclass(frozen=True, kw_only=True)
class Ending(Event):
    """A stop rule holds: no new experiment begins. What is in flight is closed, what was merged is measured once more."""

    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CampaignEnded(Event):
    """`why` is done | target | hours | patience | crashes | refusals | money | exhausted | stopped | base."""

    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class UndoOpened(Event):
    """A pull request that takes back what the campaign merged stands, for people to merge. It may follow the campaign's end."""

    pull: int
    by: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportSent(Event):
    """The `number`-th report is in the chat, with everything up to epoch second `until`. It is about all campaigns at once:
    `campaign` is the newest of them. Ids of channel and message are empty where a webhook tells none."""

    number: int
    until: float
    channel: str
    ts: str
