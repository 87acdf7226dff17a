"""Where we stand: a fold of what happened.

Theory of operation. A *campaign* is one request for N experiments. Its *candidates* move through the stages of `STEPS`, the one
table of transitions; a pair that is not listed is refused by name. Nothing else moves a candidate.

The base is candidate 0: born open, measured like any other, adopted instead of merged. When a person pushes something that
changes what is measured, the new tip becomes a further base. The *tip* is the candidate whose code the default branch holds:
the latest base or the latest merged candidate; in mode stack also a candidate that is accepted provisionally on top of these,
while the default branch stays at what has *landed*. All others are measured against their *parent*; one whose parent is not
the tip any more is re-based before it may merge, and what was measured before then does not count.

Runs belong to the candidate that they help to judge (`n`), also when the code that runs is the incumbent's (`subject`). A run
that is lost or void is done again with the same seed; a run of the incumbent that fails is treated like a lost one, since it
says nothing of the candidate.

N counts candidates with a verdict from a measurement: merged, or closed as worse, crash, oom, nan, timeout or invalid. Those
closed as stale, vetoed or stopped are *withdrawn* and counted beside, like refused proposals. Bases, reverts and the
comparisons at the end (base against tip, tip without one edit) are candidates too, since they need runs; N does not count them.

`fold.py` beside this file says what each event changes. Pure: no clock, no disk, no luck.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from bot import events as e
from bot.candidate import STEPS, VERDICTS, WITHDRAWN, Candidate, Kind, Run, Stage, Unlisted, check_listed
from bot.program import Settings
from bot.spending import FREE, Spent

__all__ = [
    "STEPS", "VERDICTS", "WITHDRAWN", "Campaign", "Candidate", "Kind", "Past", "Run", "Stage", "State", "Unlisted",
    "branch_of", "check_listed", "seed_of",
]  # fmt: skip


@dataclass(kw_only=True)
class Past:
    """What ended campaigns leave behind: themselves, oldest first, and what they measured, by device fingerprint: the noise
    (ss, df), and the scores of the code that they left."""

    campaigns: list[Campaign] = field(default_factory=list, repr=False, compare=False)  # each of them holds this one

    noise: dict[str, tuple[float, int]] = field(default_factory=dict)
    scores: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # (fingerprint, guard) -> oldest first


@dataclass(kw_only=True)
class Campaign:
    """One request for N experiments and all that came of it. `ss` and `df` pool the squared residuals of all runs."""

    started: e.CampaignStarted
    settings: Settings
    instructions: str
    past: Past
    candidates: dict[int, Candidate] = field(default_factory=dict)
    live: dict[int, Candidate] = field(default_factory=dict)
    tip: int = -1  # what new candidates build on
    landed: int = -1  # what the default branch holds; behind the tip where something is accepted provisionally
    certifying: int = -1  # the newest comparison of what was accepted
    next_k: int = 0
    runs_done: int = 0
    last_tip_run: int = 0
    ss: float = 0.0
    df: int = 0
    tried: dict[int, set[str]] = field(default_factory=dict)
    duel: int = -1  # the comparison of base and tip
    ablated: set[int] = field(default_factory=set)  # candidates whose edit was taken out of the tip and measured
    reverted: int = -1  # the candidate that takes everything back
    exhausted: int = -1  # the tip on which the proposer has nothing left
    counts: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    refusals: list[tuple[str, str]] = field(default_factory=list)  # (title, reason) of the latest
    repeats: int = 0  # earlier ideas that came again and were refused before any run
    broke: str = ""  # why it may spend no more on proposals
    spent: Spent = FREE  # on models
    proposals: int = 0
    since_merge: int = 0
    crashes_row: int = 0
    refusals_row: int = 0
    seconds: float = 0.0  # of all runs
    fingerprint: str = ""
    said: int = -1
    learned: int = 0  # how many were settled when knowledge.md was last written
    stop: str = ""
    hints: list[e.Hinted] = field(default_factory=list)
    undone: int | None = None  # the pull request that takes it all back
    ending: e.Ending | None = None
    paused: str = ""
    turns: int = 0  # how often it was paused, resumed, steered, or had to wait
    ended: e.CampaignEnded | None = None
    at: float = 0.0

    @property
    def name(self) -> str:
        return self.started.campaign

    def aged(self, x: Candidate) -> list[tuple[int, float]]:
        """The baseline that x is for others: (age in runs of anything, score)."""
        return self.ages(x.baseline)

    def ages(self, runs: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """(age, score) of the last of these runs; older ones weigh less than .95 ** 100."""
        return [(self.runs_done - index, score) for index, score in runs[-100:]]

    @property
    def settled(self) -> int:
        """Candidates with a verdict from a measurement."""
        return sum(self.counts.get(why, 0) for why in ("merged", *VERDICTS))

    @property
    def news(self) -> int:
        """Grows with everything that the status comment should tell."""
        ended = sum(not self.candidates[n].live for n in (self.duel, self.reverted) if n >= 0)
        ablated = len(self.ablated) - sum(x.kind is Kind.ABLATION for x in self.live.values())
        return self.settled + ended + ablated + self.turns

    @property
    def places(self) -> int:
        """How many measurements may be under way. On an issue it is one more than there are devices: GitHub keeps it in the queue
        of the runners, so that none of them waits while a result is judged."""
        return self.settings.parallel + bool(self.started.issue)

    @property
    def withdrawn(self) -> int:
        return sum(self.counts.get(why, 0) for why in WITHDRAWN)

    @property
    def merged(self) -> list[Candidate]:
        return [x for x in self.candidates.values() if x.stage is Stage.MERGED and x.edit]

    @property
    def accepted(self) -> list[Candidate]:
        """Provisional, oldest first: each stands on the one before, the first on what has landed."""
        return [x for x in self.live.values() if x.stage is Stage.ACCEPTED]

    @property
    def dry(self) -> bool:
        """No further proposal is asked for on this tip."""
        return bool(self.broke) or self.exhausted == self.tip or self.refusals_row >= self.settings.stop.refusals

    @property
    def stacking(self) -> bool:
        return self.settings.gate.mode == "stack"

    @property
    def verdict(self) -> e.Compared | None:
        """What the head-to-head comparison of base and tip said; None when it was not made, or not to the end."""
        return self.candidates[self.duel].compared if self.duel >= 0 else None


@dataclass(kw_only=True)
class State:
    """All campaigns, in the order in which they were asked for. `events` counts what was folded."""

    campaigns: dict[str, Campaign] = field(default_factory=dict)
    past: Past = field(default_factory=Past)
    events: int = 0
    heard: set[str] = field(default_factory=set)  # the causes of what is written down
    reported: e.ReportSent | None = None  # the last report

    @property
    def active(self) -> Campaign | None:
        """The campaign whose turn it is: the first that has not ended."""
        return next((c for c in self.campaigns.values() if c.ended is None), None)

    def next_name(self, issue: int) -> str:
        """`12.3` is the third campaign on issue 12; without an issue a plain counter."""
        count = 1 + sum(c.started.issue == issue for c in self.campaigns.values())
        return f"{issue}.{count}" if issue else str(count)


def branch_of(campaign: str, n: int) -> str:
    return f"autoresearch/{campaign}/{n}"


def seed_of(secret: int, purpose: str, k: int) -> int:
    """The k-th seed of a campaign for one purpose, in [0, 2**31): never from a literal in the code under study."""
    return int.from_bytes(hashlib.sha256(f"{secret}:{purpose}:{k}".encode()).digest()[:4]) & 0x7FFFFFFF
