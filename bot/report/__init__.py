"""What people read. Every module is render(state) -> text: none acts, and nothing that they write is read back as state.

    markdown.py   commit messages, pull requests, checks, comments
    page.py       one static page per campaign
    tsv.py        the five-column results.tsv of the original

Here stand the numbers that all of them show, so that they cannot differ. Not here: whether a candidate is kept (evaluator.gate).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from bot.state import VERDICTS, Campaign, Candidate
from evaluator import gate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A candidate against the code that it changes. Bits per byte; a positive gain is an improvement.

    With pairs, `before` and `after` are the means inside the pairs alone, and `interval` is the gate's 95 % for the gain, with
    the noise as it is known when this is computed. Without, there is one screening run, and no interval.
    """

    before: float
    after: float
    gain: float
    interval: tuple[float, float] | None
    pairs: int
    sigma: float

    @property
    def percent(self) -> float:
        """Change of the number in percent: negative is an improvement."""
        return -100 * self.gain / self.before


def compare(c: Campaign, x: Candidate) -> Comparison | None:
    """None for a base, and for a candidate without a number on its present base. A failed run takes away the numbers before it.
    The gain is the same long after it was settled as then."""
    if x.base or x.screen is None or x.outcome != "ok":
        return None
    parent = c.candidates[x.parent]
    at = x.own[0][0]  # later runs of the incumbent were not known when this one screened
    earlier = parent.own[: bisect_left(parent.own, (at,))] or parent.own
    verdict = gate.judge(
        gate.Evidence(
            screen=x.screen,
            pairs=tuple(x.pairs),
            incumbent=tuple((c.runs_done - index, score) for index, score in earlier[-100:]),
            ss=max(0.0, c.ss - x.ss),
            df=c.df - x.df,
        ),
        c.settings.gate,
    )
    before = fmean(a for a, _ in x.pairs) if x.pairs else x.screen + verdict.gain
    return Comparison(
        before=before, after=before - verdict.gain, gain=verdict.gain, interval=verdict.interval, pairs=verdict.pairs,
        sigma=verdict.sigma,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a campaign began and where the default branch is now; None while that has no baseline."""

    start: float | None
    best: float | None
    candidate: Candidate | None  # whose number `best` is

    @property
    def gain(self) -> float | None:
        return None if self.start is None or self.best is None else self.start - self.best


def standing(c: Campaign) -> Standing:
    """Means over all runs of the first base, and of the code that the default branch holds."""
    first, tip = c.candidates.get(0), c.candidates.get(c.tip)
    start = first.mean if first and first.why == "adopted" else None
    best = tip.mean if tip and tip.why in ("adopted", "merged") else None
    return Standing(start=start, best=best, candidate=None if best is None else tip)


def tally(c: Campaign) -> dict[str, int]:
    """How many candidates ended in which way, zeros included. The values add up to `c.settled`, the experiments done; what was
    withdrawn (`c.withdrawn`) or refused (`c.refused`) is beside."""
    return {why: c.counts.get(why, 0) for why in ("merged", *VERDICTS)}


def in_order(c: Campaign) -> list[Candidate]:
    """All code that is settled, bases too, in the order of settling. A comparison brings no code of its own."""
    return sorted((x for x in c.candidates.values() if not x.live and not x.comparison), key=lambda x: (x.settled_at, x.n))


def unsandboxed(x: Candidate) -> bool:
    """Whether the last run of this code was measured without a sandbox. False when there was no run."""
    return bool(x.result) and not x.result.get("sandboxed")


def amount(result: Mapping[str, object], name: str) -> float | None:
    """A duration or a size of the judge's record, in its unit; None when it says nothing."""
    value = result.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else None


WORDS = {
    "merged": "kept",
    "adopted": "baseline",
    "worse": "not better",
    "crash": "crashed",
    "oom": "out of memory",
    "nan": "diverged",
    "timeout": "out of time",
    "invalid": "invalid",
    "stale": "stale",
    "vetoed": "not wanted",
    "stopped": "stopped",
}
