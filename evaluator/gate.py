"""Keep, discard or again: what the scores of a candidate and of the incumbent say. Pure statistics; lower scores are better.

For: the one decision of whether a candidate is truly better. Not for: measuring, reading files, or counting candidates.

The rule ("pairs") has three parts.
1. The first run of a candidate only screens: it goes on if it beats the incumbent's mean by at least `floor` sigma.
2. Each AGAIN asks for one fresh run of the candidate and one of the incumbent, interleaved: a pair. The test uses nothing
   but these pairs, so neither a lucky first run, nor a lucky or drifted baseline, can carry a candidate over the bar.
3. At look k of `max_pairs` it is kept if the upper tail of Student's t is at most alpha * k / max_pairs; dropped if its mean
   falls below the floor or the pairs are used up. Keep is checked first.

The level is constant for each candidate, so fifty campaigns of one candidate are as safe as one of fifty. It is calibrated
by simulation (benchmarks/gate.py), not derived: the looks overlap and the screen selects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean

MODES = ("pairs", "stack")
DECAY = 0.95  # weight of an incumbent run, per run of anything since
LARGEST = 1e100  # squares of anything larger could overflow; no score comes near
OWN_PRIOR = 3  # the candidate's own variance is shrunk to the pooled one, which weighs this many degrees of freedom
COVERAGE = 0.95  # of Verdict.interval


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How sure to be. Raises ValueError that lists every impossible value.

    `floor` is in sigma; `resolution` and `prior_sd` in the score's unit. `prior_sd` is the sd of one run known from elsewhere,
    worth `prior_df` runs' degrees of freedom.
    """

    mode: str = "pairs"
    alpha: float = 0.004
    floor: float = 1.1
    max_pairs: int = 7
    baseline_runs: int = 5
    refresh_runs: int = 20
    resolution: float = 1e-6
    prior_sd: float | None = None
    prior_df: int = 0
    verdict_pairs: int = 3
    ablation: int = 0
    simpler: bool = False
    margin: float = 0.001

    def __post_init__(self) -> None:
        checks = {
            f"mode is {self.mode!r}, not one of {', '.join(MODES)}": self.mode in MODES,
            f"alpha is {self.alpha}, not between 1e-9 and 0.5": 1e-9 <= self.alpha < 0.5,
            f"floor is {self.floor}, not between 0 and 100": 0 <= self.floor <= 100,
            f"max_pairs is {self.max_pairs}, less than 1": self.max_pairs >= 1,
            f"baseline_runs is {self.baseline_runs}, less than 1": self.baseline_runs >= 1,
            f"refresh_runs is {self.refresh_runs}, less than 1": self.refresh_runs >= 1,
            f"verdict_pairs is {self.verdict_pairs}, less than 0": self.verdict_pairs >= 0,
            f"ablation is {self.ablation}, less than 0": self.ablation >= 0,
            f"margin is {self.margin}, not above 0": 0 < self.margin < LARGEST,
            f"resolution is {self.resolution}, not above 0": 0 < self.resolution < LARGEST,
            f"prior_sd is {self.prior_sd}, not above 0": self.prior_sd is None or 0 < self.prior_sd < LARGEST,
            "prior_sd and prior_df go together: set both (prior_df at least 1) or neither": (
                self.prior_df == 0 if self.prior_sd is None else self.prior_df >= 1
            ),
        }
        if wrong := [text for text, fine in checks.items() if not fine]:
            raise ValueError("gate: " + "; ".join(wrong))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything the decision uses, all from one device. Scores are in one unit (bits per byte); lower is better.

    Raises ValueError for an incumbent without runs and for numbers that are no scores.
    """

    screen: float
    """The candidate's first run."""
    pairs: tuple[tuple[float, float], ...]
    """(incumbent, candidate), fresh and interleaved, oldest first. Those beyond `max_pairs` are ignored: no extra look."""
    incumbent: tuple[tuple[int, float], ...]
    """(age in runs of anything, score) of every run of the incumbent, those of `pairs` too. The newest has the smallest age."""
    ss: float
    """Sum of `residual` over every run on this device but this candidate's own: baselines, incumbents (those of `pairs` too),
    earlier candidates. Its own stay out, so that its luck cannot shape the ruler it is measured with."""
    df: int
    """How many residuals are in `ss`: one per run that had an earlier run of the same code."""

    def __post_init__(self) -> None:
        if not self.incumbent:
            raise ValueError("the incumbent has no run: measure the base before any candidate (needs_baseline)")
        scores = (self.screen, *(x for pair in self.pairs for x in pair), *(x for _, x in self.incumbent))
        if not all(abs(x) <= LARGEST for x in scores):  # false for NaN too
            raise ValueError("a score is not finite: a run without a number must never reach the gate")
        if not (math.isfinite(self.ss) and self.ss >= 0 and self.df >= 0):
            raise ValueError(f"ss {self.ss} with df {self.df} is no sum of squares")


class Call(StrEnum):
    KEEP = "keep"
    DISCARD = "discard"
    AGAIN = "again"
    ACCEPT = "accept"  # mode stack: build on it, provisionally


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The call, in words and in numbers (bits per byte unless said)."""

    call: Call
    reason: str
    gain: float
    """Incumbent less candidate, positive is better: from the pairs as soon as there is one, before from the first run."""
    sigma: float
    """Sd of one run; the score's resolution where nothing is known of the noise yet."""
    p: float | None
    """Upper tail probability of the pairs, None before there is a pair or where there is no degree of freedom."""
    level: float | None
    """What p must not exceed at this look."""
    pairs: int
    interval: tuple[float, float] | None
    """95 % for the gain, from the pairs alone. Not corrected for having stopped early."""


def judge(evidence: Evidence, settings: GateSettings) -> Verdict:
    """Keep, discard, or one more pair. Never keeps on a first run, nor where nothing is known of the noise."""
    pairs = evidence.pairs[: settings.max_pairs]
    own = (evidence.screen, *(candidate for _, candidate in pairs))
    s, df = sigma(evidence.ss, evidence.df, settings)
    before, _ = _mean(evidence.incumbent)
    gain = fmean(a - b for a, b in pairs) if pairs else before - evidence.screen
    p, interval = _test(gain, own, s, df)
    level = None if p is None else settings.alpha * len(pairs) / settings.max_pairs
    call, why = _decide(p, level, (before - fmean(own)) / s, len(pairs), settings)
    words = _words(gain, before, s if df else None, p, level, len(pairs))
    reason = f"{words}: {why}"
    return Verdict(call=call, reason=reason, gain=gain, sigma=s, p=p, level=level, pairs=len(pairs), interval=interval)


def _test(gain: float, own: Sequence[float], s: float, df: int) -> tuple[float | None, tuple[float, float] | None]:
    """p and interval of the mean `gain` of the pairs; None where there is no pair or no degree of freedom."""
    k = len(own) - 1
    if k == 0 or df == 0:
        return None, None
    # A candidate may be noisier than the rest: its own spread can only widen the error, never narrow it.
    variance = max(s * s, (OWN_PRIOR * s * s + _squares(own)) / (OWN_PRIOR + k))
    error = math.sqrt((variance + s * s) / k)
    half = quantile((1 - COVERAGE) / 2, df) * error
    return tail(gain / error, df), (gain - half, gain + half)


def _decide(p: float | None, level: float | None, effect: float, k: int, settings: GateSettings) -> tuple[Call, str]:
    """`effect` is the incumbent's mean less that of all the candidate's runs, in sigma."""
    if p is not None and level is not None and p <= level:
        return Call.KEEP, "it is better"
    if effect < settings.floor:
        return Call.DISCARD, f"{effect:.2g} sigma ahead of the incumbent's mean, {settings.floor:g} are needed to go on"
    if k >= settings.max_pairs:
        return Call.DISCARD, "not clearly better, and that was the last pair"
    return Call.AGAIN, f"it looks better; pair {k + 1} of at most {settings.max_pairs} is next"


def _words(gain: float, before: float, s: float | None, p: float | None, level: float | None, k: int) -> str:
    percent = f" ({100 * gain / abs(before):+.2f} %)" if before else ""
    runs = "the first run" if k == 0 else f"{k} pair{'s' if k > 1 else ''}"
    noise = "sigma not known yet" if s is None else f"sigma {s:.3g}"
    test = "" if p is None else f", p {p:.2g} where at most {level:.2g} is needed"
    return f"gain {gain:+.3g} bpb{percent} in {runs}, {noise}{test}"


def compare(
    pairs: Sequence[tuple[float, float]], ss: float, df: int, settings: GateSettings
) -> tuple[float, float, float] | None:
    """(gain, low, high) of fresh (before, after) pairs: the mean of before less after, with its 95 % interval.

    `ss` and `df` pool the noise of every run on this device, these included. None without a pair or a degree of freedom.
    """
    s, freedom = sigma(ss, df, settings)
    if not pairs or not freedom:
        return None
    gain = fmean(before - after for before, after in pairs)
    half = quantile((1 - COVERAGE) / 2, freedom) * s * math.sqrt(2 / len(pairs))
    return gain, gain - half, gain + half


def residual(score: float, earlier: Sequence[tuple[int, float]]) -> float:
    """The squared recursive residual e^2 n / (n + 1) of a run against the earlier runs of the same code: one degree of freedom.

    `earlier` is (age, score), at least one; e is the distance to their mean (weighted by age, n the effective number), so that
    a slow drift of the machine does not pass for noise. With equal ages the sum over a group is its sum of squared deviations.
    Source: Brown, Durbin and Evans 1975, equation 2, for a mean.
    """
    mean, n = _mean(earlier)
    e = score - mean
    return e * e * n / (n + 1)


def _mean(runs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Exponentially weighted mean and the effective number of runs, (sum w)^2 / sum w^2."""
    newest = min(age for age, _ in runs)  # else the weights of a long-unmeasured incumbent would all be 0
    weights = [DECAY ** (age - newest) for age, _ in runs]
    total = math.fsum(weights)
    mean = math.fsum(w * x for w, (_, x) in zip(weights, runs, strict=True)) / total
    return mean, total * total / math.fsum(w * w for w in weights)


def _squares(scores: Sequence[float]) -> float:
    mean = fmean(scores)
    return math.fsum((x - mean) * (x - mean) for x in scores)


def sigma(ss: float, df: int, settings: GateSettings) -> tuple[float, int]:
    """Pooled sd of one run and its degrees of freedom, the prior folded in, never below the score's resolution.

    With no degree of freedom at all it is (resolution, 0): nothing is known, and no test may use it.
    """
    if settings.prior_sd is not None:
        ss += settings.prior_df * settings.prior_sd * settings.prior_sd
        df += settings.prior_df
    return max(settings.resolution, math.sqrt(ss / df) if df else 0.0), df


def needs_baseline(n_runs: int, settings: GateSettings) -> bool:
    """Whether a base that nobody judged (candidate 0, or what a person pushed) needs one more run before candidates may come.

    Not for a kept candidate: its own runs are the baseline; later pairs and refreshes add to them.
    """
    return n_runs < settings.baseline_runs


def needs_refresh(runs_since_incumbent: int, settings: GateSettings) -> bool:
    """Whether the incumbent is to be run once before the next screen, because so many runs of anything have passed."""
    return runs_since_incumbent >= settings.refresh_runs


def detectable(sigma: float, df: int, settings: GateSettings, power: float = 0.8) -> float:
    """The smallest gain, in the unit of `sigma`, that is kept with about this power. Raises ValueError for no such power.

    An approximation: the chance to pass the screen, times that to be above the floor after the first pair, times that to pass
    the test with all pairs, as if independent; Student's t at the degrees of freedom that the last look will have.
    """
    if not 0 < power < 1:
        raise ValueError(f"power is {power}, not between 0 and 1")
    low, high = 0.0, 1.0
    while _power(high, df, settings) < power:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(middle, df, settings) >= power else (middle, high)
    return high * sigma


def _power(gain: float, df: int, settings: GateSettings) -> float:
    """Of a gain in sigma; see `detectable`."""
    above = gain - settings.floor
    screen = _phi(above / math.sqrt(1 + 1 / settings.baseline_runs))
    first = _phi(above / math.sqrt(1 / 2 + 1 / (settings.baseline_runs + 1)))
    bar = quantile(settings.alpha, df + settings.prior_df + 2 * settings.max_pairs)
    return screen * first * _phi(gain / math.sqrt(2 / settings.max_pairs) - bar)


def _phi(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def quantile(p: float, df: int) -> float:
    """The t whose upper `tail` is p, for 1e-12 < p < 0.5.

    Newton's method from the normal quantile: the tail is convex and that start is to the left, so it only climbs.
    """
    t = -NormalDist().inv_cdf(p)
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    for _ in range(200):
        step = (tail(t, df) - p) / math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def tail(t: float, df: int) -> float:
    """Upper tail probability P(T > t) of Student's t for df >= 1, to a relative 1e-8 however small it is.

    I_x(df/2, 1/2) / 2 with x = df / (df + t^2): Abramowitz and Stegun 26.7.1 and 26.5.2. Their finite series (26.7.3, 26.7.4)
    is one minus something near one, and so loses the far tail that the gate lives in.
    """
    if t < 0:
        return 1 - tail(-t, df)
    x, rest = df / (df + t * t), 1 / (1 + df / (t * t)) if t * t else 0.0
    # The continued fraction converges fast on one side of the mean only; the other side is its mirror image.
    if x < (df / 2 + 1) / (df / 2 + 2.5):
        return _beta(x, rest, df / 2, 0.5) / 2
    return (1 - _beta(rest, x, 0.5, df / 2)) / 2


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """Regularised incomplete beta I_x(a, b) by its continued fraction (A&S 26.5.8, Lentz's algorithm); rest = 1 - x."""
    if x == 0:
        return 0.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest) - math.log(a)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * value
