"""What people read. Every module is render(state) -> text: none acts, and nothing that they write is read back as state.

    claims.py     what the campaign claims and what was measured of it, in sentences and rows
    status.py     the one comment of a campaign
    markdown.py   commit messages, pull requests, checks, closing comments
    page.py       one static page per campaign
    chart.py      its drawing
    tsv.py        the five-column results.tsv of the original

Here stand the numbers and words that all of them show, so that they cannot differ. Not here: whether a candidate is kept
(evaluator.gate).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from bot.state import VERDICTS, Campaign, Candidate, Kind
from evaluator import gate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A candidate against the code that it changes. Bits per byte; a positive gain is an improvement.

    With pairs, `before` and `after` are the means inside the pairs alone, and `interval` is the gate's 95 % for the gain, with
    the noise as it is known when this is computed. Without, there is one screening run, and no interval. In mode stack a
    candidate never has pairs of its own: what it was certified with is in `certification`.
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
    verdict = gate.judge(
        gate.Evidence(
            screen=x.screen,
            pairs=tuple(x.pairs),
            incumbent=tuple((c.runs_done - index, score) for index, score in _known(c, x)[-100:]),
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


def _known(c: Campaign, x: Candidate) -> list[tuple[int, float]]:
    """The runs of its parent that x was screened against: later ones were not known then."""
    if x.assumed:  # then its own list begins with its parent's, as they were when it was accepted
        return [(index, score + x.predicted) for index, score in x.own[: x.assumed]]
    runs = c.candidates[x.parent].baseline
    until = bisect_left(runs, (x.own[0][0],))
    if c.stacking and x.edit:
        until += x.runs - 1  # the head was run more often for its sake, before it was decided
    if x.kind is Kind.REVERT:  # it is held against what came since the comparison that called for it
        return runs[bisect_right(runs, (c.candidates[c.duel].born, math.inf)) : until] or runs
    return runs[:until] or runs


def measured(x: Candidate) -> list[float]:
    """Every run of its present head, oldest first. What an accepted candidate took over from its parent was not run."""
    return [score for _, score in x.own[x.assumed :]]


def mean(x: Candidate) -> float | None:
    """Over these runs; of what was accepted and not run again, its first run."""
    runs = measured(x)
    return fmean(runs) if runs else x.screen


def certification(c: Campaign, x: Candidate) -> Candidate | None:
    """Mode stack: the comparison that told whether the stack with x in it may be merged; None while there is none."""
    if not x.predicted:
        return None
    later = (c.candidates[n] for n in range(x.n + 1, len(c.candidates)))
    return next((z for z in later if z.kind is Kind.CERTIFY and z.compared and x in stacked(c, z)), None)


def stacked(c: Campaign, asked: Candidate) -> list[Candidate]:
    """What a certification is about: the candidates that stood on what had landed, oldest first."""
    found, n = [], asked.side
    while n != asked.parent and c.candidates[n].edit:
        found.append(c.candidates[n])
        n = c.candidates[n].parent
    return found[::-1]


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
    first, landed = c.candidates.get(0), c.candidates.get(c.landed)
    start = mean(first) if first and first.why == "adopted" else None
    best = mean(landed) if landed and landed.why in ("adopted", "merged") else None
    return Standing(start=start, best=best, candidate=None if best is None else landed)


def tally(c: Campaign) -> dict[str, int]:
    """How many candidates ended in which way, zeros included. The values add up to `c.settled`, the experiments done; what was
    withdrawn (`c.withdrawn`), refused (`c.refused`) or is only provisional (`c.accepted`) is beside."""
    return {why: c.counts.get(why, 0) for why in ("merged", *VERDICTS)}


def outcomes(c: Campaign) -> str:
    """The same as a sum in words: "2 kept + 1 crashed"; empty when nothing is done. Mode stack tells apart what was certified
    from what a person merged, and what was rolled back from what never looked better."""
    counts = tally(c)
    rows = {WORDS[why]: counts[why] for why in VERDICTS}
    if c.stacking:
        ended = [word(c, x) for x in c.candidates.values() if x.predicted]
        certified, back = ended.count("certified"), ended.count("rolled back")
        rows = {"rolled back": back, **rows, WORDS["worse"]: counts["worse"] - back}
        rows = {"certified": certified, WORDS["merged"]: counts["merged"] - certified, **rows}
    else:
        rows = {WORDS["merged"]: counts["merged"], **rows}
    return " + ".join(f"{count} {name}" for name, count in rows.items() if count)


def in_order(c: Campaign) -> list[Candidate]:
    """All code that is settled, bases too, in the order of settling. A comparison brings no code of its own."""
    return sorted((x for x in c.candidates.values() if not x.live and not x.comparison), key=lambda x: (x.settled_at, x.n))


def word(c: Campaign, x: Candidate) -> str:
    """Where it is, or how it ended."""
    if x.live:
        return WORDS.get(x.stage, str(x.stage))
    asked = certification(c, x)
    if asked and asked.compared and x.why in ("merged", "worse"):
        return "certified" if x.why == "merged" else "rolled back"
    return WORDS.get(x.why, x.why)


def called(x: Candidate) -> str:
    """What it is."""
    names = {
        Kind.EDIT: f"candidate {x.n}",
        Kind.BASE: f"base {x.n}" if x.n else "the base",
        Kind.REVERT: f"candidate {x.n}, a revert",
        Kind.DUEL: "base against tip",
        Kind.ABLATION: f"the tip without candidate {x.of}",
        Kind.CERTIFY: "certification",
    }
    return names[x.kind]


def unsandboxed(x: Candidate) -> bool:
    """Whether the last run of this code was measured without a sandbox. False when there was no run."""
    return bool(x.result) and not x.result.get("sandboxed")


def amount(result: Mapping[str, object], name: str) -> float | None:
    """A duration or a size of the judge's record, in its unit; None when it says nothing."""
    value = result.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def percent(value: float) -> str:
    return f"{value:+.1f} %" if abs(value) >= 1 else f"{value:+.2f} %"


WORDS = {
    "accepted": "provisional",
    "merged": "kept",
    "adopted": "baseline",
    "compared": "compared",
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
