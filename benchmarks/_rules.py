"""Whole campaigns under one rule or another, on a made-up machine (_lab.py). Not a benchmark itself.

The gate's two modes are driven as the bot drives them. Beside them what people do by hand: keep-if-lower, and a t test with
three seeds. A gain is relative to what the candidate builds on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from _lab import BASE, Group, Lab, Result, World

from evaluator import stack
from evaluator.gate import Call, Evidence, GateSettings, judge, needs_baseline, needs_refresh, sigma, tail

Rule = Callable[[Sequence[float], World, random.Random], Result]
SEEDS = 3  # of the t test


def gate(settings: GateSettings) -> Rule:
    return lambda gains, world, rng: with_gate(gains, world, settings, rng)


def stacked(settings: GateSettings) -> Rule:
    return lambda gains, world, rng: Stack(lab=Lab(world=world, rng=rng), settings=settings).campaign(gains)


def with_gate(gains: Sequence[float], world: World, settings: GateSettings, rng: random.Random) -> Result:
    """The campaign of mode pairs: baseline, screen, pairs, refresh; a kept candidate's own runs become the baseline."""
    lab, result = Lab(world=world, rng=rng), Result()
    tip, ss, df = Group(), 0.0, 0  # ss and df of every group but the tip's and the candidate's
    while needs_baseline(len(tip.runs), settings):
        tip.add(lab.runs + 1, lab.run() + world.shift)
    for gain in gains:
        if needs_refresh(lab.runs - tip.runs[-1][0], settings):
            tip.add(lab.runs + 1, lab.run())
        kept, own = confirm(gain, lab, tip, settings, (ss, df))
        loser = tip if kept else own
        ss, df = ss + loser.ss, df + loser.df
        _judged(result, lab, gain, kept)
        tip = own if kept else tip
    return _ended(result, lab)


def confirm(gain: float, lab: Lab, tip: Group, settings: GateSettings, rest: tuple[float, int]) -> tuple[bool, Group]:
    sd, own = lab.world.candidate_sd(lab.rng), Group()
    screen = own.add(lab.runs + 1, lab.run(gain, sd))
    pairs: list[tuple[float, float]] = []
    while True:
        evidence = Evidence(
            screen=screen,
            pairs=tuple(pairs),
            incumbent=tip.aged(lab.runs),
            ss=rest[0] + tip.ss,
            df=rest[1] + tip.df,
        )
        call = judge(evidence, settings).call
        if call is not Call.AGAIN:
            return call is Call.KEEP, own
        candidate = own.add(lab.runs + 1, lab.run(gain, sd))
        pairs.append((tip.add(lab.runs + 1, lab.run()), candidate))


def keep_if_lower(gains: Sequence[float], world: World, rng: random.Random) -> Result:
    """One run each; it is kept if it is below the incumbent's one run."""
    lab, result = Lab(world=world, rng=rng), Result()
    best = lab.run() + world.shift
    for gain in gains:
        score = lab.run(gain, world.candidate_sd(rng))
        kept = score < best
        best = min(score, best)
        _judged(result, lab, gain, kept)
    return _ended(result, lab)


def three_seeds(gains: Sequence[float], world: World, rng: random.Random) -> Result:
    """Three runs each, if the first is below the incumbent's mean; kept if one-sided p < .05; its runs are the next baseline."""
    lab, result = Lab(world=world, rng=rng), Result()
    best = [lab.run() + world.shift for _ in range(SEEDS)]
    for gain in gains:
        sd = world.candidate_sd(rng)
        own = [lab.run(gain, sd)]
        if own[0] < fmean(best):
            own += [lab.run(gain, sd) for _ in range(SEEDS - 1)]
        kept = len(own) == SEEDS and _t_test(best, own) < 0.05
        best = own if kept else best
        _judged(result, lab, gain, kept)
    return _ended(result, lab)


def _t_test(before: Sequence[float], after: Sequence[float]) -> float:
    """Upper tail for `after` being lower, with the two groups' pooled variance; both of SEEDS runs."""
    squares = sum((x - fmean(group)) ** 2 for group in (before, after) for x in group)
    df = 2 * (SEEDS - 1)
    return tail((fmean(before) - fmean(after)) / (squares / df * 2 / SEEDS) ** 0.5, df)


def _judged(result: Result, lab: Lab, gain: float, kept: bool) -> None:
    result.kept.append((gain, kept))
    if kept:
        result.claims.append(gain)
        lab.level -= gain


def _ended(result: Result, lab: Lab) -> Result:
    result.runs, result.gain = lab.runs, BASE - lab.level
    return result


@dataclass(frozen=True, kw_only=True)
class State:
    """What stands at some point of a stack: its true gain over the base, how noisy its runs are, its baseline."""

    gain: float = 0.0
    sd: float = 1.0
    group: Group = field(default_factory=Group)


@dataclass(kw_only=True)
class Stack:
    """The campaign of mode stack: the head is provisional, `certified` is what is kept."""

    lab: Lab
    settings: GateSettings
    head: State = field(default_factory=State)
    certified: State = field(default_factory=State)
    ss: float = 0.0
    df: int = 0
    edits: list[int] = field(default_factory=list)  # which candidates are provisional
    predicted: float = 0.0
    last: int = 0  # run of the head
    certifications: int = 0

    def campaign(self, gains: Sequence[float]) -> Result:
        result = Result()
        self.certified = self.head
        while needs_baseline(len(self.head.group.runs), self.settings):
            self.run(self.head, self.lab.world.shift)
        for gain in gains:
            if needs_refresh(self.lab.runs - self.last, self.settings):
                self.run(self.head)
            result.kept.append((gain, False))
            self.screen(gain, len(result.kept) - 1)
            if stack.due(len(self.edits), self.predicted, sigma(self.ss, self.df, self.settings)[0]):
                self.certify(result)
        if self.edits:
            self.certify(result)
        result.runs, result.gain = self.lab.runs, self.certified.gain
        return result

    def run(self, state: State, shift: float = 0.0) -> float:
        ss, df = state.group.ss, state.group.df
        score = state.group.add(self.lab.runs + 1, self.lab.run(state.gain, state.sd) + shift)
        self.ss, self.df = self.ss + state.group.ss - ss, self.df + state.group.df - df
        if state is self.head:
            self.last = self.lab.runs
        return score

    def screen(self, gain: float, n: int) -> None:
        sd, head = self.lab.world.candidate_sd(self.lab.rng), self.head
        score = self.lab.run(head.gain + gain, sd)
        while True:
            seen = Evidence(screen=score, pairs=(), incumbent=head.group.aged(self.lab.runs), ss=self.ss, df=self.df)
            verdict, predicted = stack.screen(seen, self.settings)
            if verdict.call is not Call.AGAIN:
                break
            self.run(head)
        if verdict.call is Call.ACCEPT:
            lowered = [(when, x - predicted) for when, x in head.group.runs]
            self.head = State(gain=head.gain + gain, sd=sd, group=Group(runs=lowered, assumed=len(lowered)))
            self.edits.append(n)
            self.predicted, self.last = self.predicted + predicted, self.lab.runs

    def certify(self, result: Result) -> None:
        self.certifications += 1
        pairs: list[tuple[float, float]] = []
        while (call := stack.certify(pairs, self.ss, self.df, self.settings).call) is Call.AGAIN:
            pairs.append((self.run(self.certified), self.run(self.head)))
        if call is Call.KEEP:
            result.claims.append(self.head.gain - self.certified.gain)
            for n in self.edits:
                result.kept[n] = (result.kept[n][0], True)
            self.certified = self.head
            self.settle(self.head.group)
        else:
            self.head = self.certified
            for _ in range(SEEDS):
                self.run(self.head)
        self.edits, self.predicted = [], 0.0

    def settle(self, group: Group) -> None:
        """Once certified: assumed runs that the real ones contradict go."""
        assumed, real = group.runs[: group.assumed], group.runs[group.assumed :]
        noise = sigma(self.ss, self.df, self.settings)[0]
        if stack.outdated([score for _, score in assumed], [score for _, score in real], noise):
            group.runs, group.assumed = real, 0
