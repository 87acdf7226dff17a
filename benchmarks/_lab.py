"""A made-up machine: it draws scores in units of sigma, the standard deviation of one run. Not a benchmark itself.

Here are the kinds of noise, the streams of candidates, and what a campaign leaves. _rules.py has what spends the runs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from evaluator.gate import residual

BASE = 100.0  # any level will do, as the rules only look at differences
GAINS = (0.5, 1.0, 2.0, 3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class World:
    """One kind of noise. `drift` is in sigma per run of anything; `shift` moves the first baseline runs (negative: lucky)."""

    draw: Callable[[random.Random], float] = lambda rng: rng.gauss(0, 1)
    candidate_sd: Callable[[random.Random], float] = lambda _: 1.0
    drift: float = 0.0
    shift: float = 0.0


def t3(rng: random.Random) -> float:
    """Student's t with 3 degrees of freedom, scaled to sd 1."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2.0))


WORLDS = {
    "clean": World(),
    "t3 noise": World(draw=t3),
    "candidate sd log-uniform x[1/2, 2]": World(candidate_sd=lambda rng: 2 ** rng.uniform(-1, 1)),
    "every candidate sd x2": World(candidate_sd=lambda _: 2.0),
    "drift of 1 sigma per 50 runs": World(drift=1 / 50),
    "lucky incumbent": World(shift=-1.0),
    "unlucky incumbent": World(shift=1.0),
}


@dataclass(kw_only=True)
class Lab:
    """A machine: it counts runs and draws scores. `level` is the true score of the incumbent."""

    world: World
    rng: random.Random
    runs: int = 0
    level: float = BASE

    def run(self, gain: float = 0.0, sd: float = 1.0) -> float:
        self.runs += 1
        return self.level - gain + self.world.drift * self.runs + sd * self.world.draw(self.rng)


@dataclass(kw_only=True)
class Group:
    """The runs of one version of the code: (index of the run, score), and their pooled residuals.

    The first `assumed` of them were not run but taken over from another version: they are no noise of this one.
    """

    runs: list[tuple[int, float]] = field(default_factory=list)
    ss: float = 0.0
    df: int = 0
    assumed: int = 0

    def add(self, when: int, score: float) -> float:
        if real := self.aged(when)[self.assumed :]:
            self.ss, self.df = self.ss + residual(score, real), self.df + 1
        self.runs.append((when, score))
        return score

    def aged(self, now: int) -> tuple[tuple[int, float], ...]:
        return tuple((now - when, score) for when, score in self.runs)


@dataclass(kw_only=True)
class Result:
    """What a campaign leaves: (true gain, was it kept) of every candidate, and the true gain of every claim of "better"."""

    kept: list[tuple[float, bool]] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)  # of a rule that keeps single edits these are the kept ones
    runs: int = 0
    gain: float = 0.0


def mixed(rng: random.Random, n: int) -> list[float]:
    """10 % true gains (evenly .5 1 2 3 5 sigma), 30 % equal, 60 % worse by 1 to 5 sigma, in any order."""

    def one() -> float:
        u = rng.random()
        return rng.choice(GAINS) if u < 0.1 else 0.0 if u < 0.4 else -rng.uniform(1, 5)

    return [one() for _ in range(n)]


@dataclass(frozen=True, kw_only=True)
class Night:
    """125 candidates: `better` gains, exponential with mean `gain`; `worse` harms; the rest equal; in any order."""

    better: int = 22
    gain: float = 1.2
    worse: int = 69
    harm: Callable[[random.Random], float] = lambda rng: rng.uniform(0.1, 5)

    def gains(self, rng: random.Random) -> list[float]:
        found = [rng.expovariate(1 / self.gain) for _ in range(self.better)]
        found += [-self.harm(rng) for _ in range(self.worse)]
        found += [0.0] * (125 - len(found))
        rng.shuffle(found)
        return found


NIGHTS = {
    "night": Night(),
    "night with mild harms": Night(harm=lambda rng: rng.expovariate(1)),
    "plateau": Night(better=6, gain=0.6, worse=88, harm=lambda rng: rng.expovariate(1)),
}
