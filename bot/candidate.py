"""One candidate: its stages, the one table of what may follow what, and all that is known of it.

`state.py` says what the stages and kinds mean, `fold.py` what each event changes. Pure: no clock, no disk, no luck.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from bot import events as e
from bot.spending import FREE, Spent


class Stage(StrEnum):
    PROPOSED = "proposed"
    OPEN = "open"
    MEASURING = "measuring"
    MEASURED = "measured"
    ACCEPTED = "accepted"
    ADOPTED = "adopted"
    MERGED = "merged"
    CLOSED = "closed"


class Kind(StrEnum):
    """What a candidate is for. N counts edits alone."""

    EDIT = "edit"
    BASE = "base"
    REVERT = "revert"
    DUEL = "duel"
    ABLATION = "ablation"
    CERTIFY = "certify"


STEPS: dict[Stage, dict[type[e.Event], Stage]] = {
    Stage.PROPOSED: {e.Opened: Stage.OPEN, e.Closed: Stage.CLOSED},
    Stage.OPEN: {
        e.MeasureStarted: Stage.MEASURING,
        e.Rebased: Stage.OPEN,
        e.Compared: Stage.CLOSED,
        e.Closed: Stage.CLOSED,
    },
    Stage.MEASURING: {
        e.Measured: Stage.MEASURED,
        e.RunLost: Stage.MEASURING,
        e.MeasureStarted: Stage.MEASURING,
        e.Closed: Stage.CLOSED,
    },
    Stage.MEASURED: {
        e.MeasureStarted: Stage.MEASURING,
        e.Repaired: Stage.OPEN,
        e.NotRepaired: Stage.MEASURED,
        e.CheckPosted: Stage.MEASURED,
        e.Awaiting: Stage.MEASURED,
        e.Rebased: Stage.OPEN,
        e.Adopted: Stage.ADOPTED,
        e.Accepted: Stage.ACCEPTED,
        e.Merged: Stage.MERGED,
        e.Compared: Stage.CLOSED,
        e.Closed: Stage.CLOSED,
    },
    Stage.ACCEPTED: {e.Awaiting: Stage.ACCEPTED, e.Merged: Stage.MERGED, e.Closed: Stage.CLOSED},
    Stage.ADOPTED: {},
    Stage.MERGED: {},
    Stage.CLOSED: {},
}
WITHDRAWN = ("stale", "vetoed", "stopped")
VERDICTS = ("worse", "crash", "oom", "nan", "timeout", "invalid")


class Unlisted(Exception):
    """An event that cannot follow: the log was edited by hand, or this program has a bug."""


@dataclass(kw_only=True)
class Run:
    """A run in flight, or one to be done again (then with the next attempt)."""

    k: int
    attempt: int
    run: str
    subject: int
    seed: int
    nonce: str
    head: str
    started: float
    deadline: float
    vault: bool = False


@dataclass(kw_only=True)
class Candidate:
    """One version of train.py. `own` holds (index among all runs of the campaign, val_bpb) of every run of its present head,
    `pairs` the (incumbent, candidate) scores since its screening run, `half` the first score of a pair that is not complete."""

    n: int
    kind: Kind
    parent: int
    side: int  # whose score is the second of a pair: its own, or in a duel the tip's
    stage: Stage
    title: str
    at: float
    hypothesis: str = ""
    edits: tuple[e.Edit, ...] = ()
    tags: tuple[str, ...] = ()
    proposer: str = ""
    source: str = ""
    shorter: int = 0
    expected_effect: str = ""
    review: str = ""  # who looked at it before it was run, and what they said
    spent: Spent = FREE  # on models, to propose, review and repair it
    repairs: int = 0  # how often it may still be mended, should it crash
    mended: int = 0  # how often it was
    on: str = ""  # the commit it is based on
    head: str = ""
    guard: str = ""
    pull: int | None = None
    sha: str = ""  # where it is on the default branch, once it is there
    flight: Run | None = None
    redo: Run | None = None
    losses: int = 0  # in a row, and why the last one
    loss: str = ""
    voids: int = 0
    screen: float | None = None
    own: list[tuple[int, float]] = field(default_factory=list)
    total: float = 0.0  # sum of the scores in own that were run
    ss: float = 0.0  # squared residuals of own, and their degrees of freedom
    df: int = 0
    pairs: list[tuple[float, float]] = field(default_factory=list)
    half: tuple[int, float, float | None] | None = None  # (subject, score, score on the private split)
    vault: list[tuple[float, float]] = field(default_factory=list)  # as pairs, on the private split
    predicted: float = 0.0  # mode stack: what it is expected to bring
    assumed: int = 0  # how many of `own` were not run but taken over from its parent, lowered by what is predicted
    doubted: bool = False  # its real runs contradict what was assumed: they alone are its baseline
    born: int = 0  # how many runs there were before it
    of: int = -1  # of an ablation: the candidate whose edit is taken out
    compared: e.Compared | None = None
    outcome: str = "ok"  # of its own last run; anything but ok settles it
    fault: str = ""
    checked: str = ""  # the head that has its final check
    vetoed: str = ""
    awaiting: str = ""  # why the platform does not let us merge it yet
    why: str = ""
    reason: str = ""
    runs: int = 0
    result: dict[str, object] = field(default_factory=dict)  # the judge's record of its last own run
    settled_at: float = 0.0

    @property
    def base(self) -> bool:
        return self.kind is Kind.BASE

    @property
    def edit(self) -> bool:
        """Whether it is one of the experiments that N counts."""
        return self.kind is Kind.EDIT

    @property
    def comparison(self) -> bool:
        return self.kind in (Kind.DUEL, Kind.ABLATION, Kind.CERTIFY)

    @property
    def live(self) -> bool:
        return bool(STEPS[self.stage])

    @property
    def baseline(self) -> list[tuple[int, float]]:
        """The runs, and what is assumed, that others are compared with."""
        return self.own[self.assumed :] if self.doubted else self.own

    @property
    def mean(self) -> float | None:
        """Mean val_bpb of the runs of its present head."""
        runs = len(self.own) - self.assumed
        return self.total / runs if runs else None


def check_listed(campaign: str, n: int, stage: Stage | None, kind: type[e.Event]) -> None:
    """Raises Unlisted, naming both, unless STEPS lists that event for that stage (None: there is no such candidate)."""
    if stage is None or kind not in STEPS[stage]:
        raise Unlisted(f"{kind.__name__} in campaign {campaign}: candidate {n} is {stage or 'not there'}")
