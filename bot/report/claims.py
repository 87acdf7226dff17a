"""What a campaign claims and what was measured of it, in the same words in every report.

At the end base and tip are run head to head: that number is the result, and what start and best promised is only the claim.
Here too: what each merged edit is worth, what became of each stack, and how small a gain this noise lets through. Plain text and
numbers; each report sets them in its own way. Not here: measuring or deciding any of it (bot/proof.py, bot/stacking.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from bot.report import WORDS, called, certification, count, mean, percent, stacked, standing, word
from bot.report.quoting import visible
from bot.state import Campaign, Candidate, Kind
from evaluator import gate

STACK = 2.0  # sigma that a whole stack must gain to be certified with 80 % chance: evaluator/stack.py, at PAIRS


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A gain from fresh interleaved pairs, bits per byte, positive is better, with its 95 % interval."""

    gain: float
    low: float
    high: float
    pairs: int
    before: float  # mean of the side that it is a gain over

    def __str__(self) -> str:
        change = f" (val_bpb {percent(-100 * self.gain / self.before)})" if self.before else ""
        return f"{self.gain:+.6f} bpb{change}, 95 % interval {self.low:+.6f} to {self.high:+.6f}, {count(self.pairs, 'pair')}"


def difference(x: Candidate, sign: int = 1) -> Difference | None:
    """Of a comparison that was made to the end; with sign -1 seen from the other side."""
    seen = x.compared
    if seen is None or seen.gain is None or seen.low is None or seen.high is None:
        return None
    low, high = sorted((sign * seen.low, sign * seen.high))
    before = fmean(pair[0 if sign > 0 else 1] for pair in x.pairs)
    return Difference(gain=sign * seen.gain, low=low, high=high, pairs=seen.pairs, before=before)


def proven(c: Campaign) -> Difference | None:
    """The total gain, measured head to head; None when it was not measured."""
    return difference(c.candidates[c.duel]) if c.duel >= 0 else None


def private(c: Campaign) -> str:
    """The same on the private held-out text, which chooses nothing."""
    seen = c.verdict
    if seen is None or seen.vault_gain is None or seen.vault_low is None or seen.vault_high is None:
        return "private split not scored"
    return f"private split {seen.vault_gain:+.6f} bpb, {seen.vault_low:+.6f} to {seen.vault_high:+.6f}"


def claimed(c: Campaign) -> float | None:
    """Start less best by the runs before base and tip were run head to head, hence at different times. Those of the best
    include the runs that it was chosen for, which flatters it."""
    if c.duel < 0:
        return standing(c).gain
    duel = c.candidates[c.duel]
    sides = [_before(c.candidates[n], duel.born) for n in (duel.parent, duel.side)]
    return sides[0] - sides[1] if sides[0] is not None and sides[1] is not None else None


def _before(x: Candidate, born: int) -> float | None:
    runs = [score for index, score in x.own[x.assumed :] if index <= born]
    return fmean(runs) if runs else x.screen


def total(c: Campaign) -> str:
    """The result of the campaign, or why there is none, and what it had claimed. No word of others is in it."""
    seen, claim = proven(c), claimed(c)
    said = f"not measured: {unproven(c)}" if seen is None else f"{seen}; {private(c)}"
    beside = "" if claim is None or not (c.merged or seen) else f". Claimed, from runs at different times: {claim:+.6f} bpb"
    return f"{said}{beside}{'. ' if (then := meaning(c)) else ''}{then}"


def unproven(c: Campaign) -> str:
    """Why base and tip were not run head to head."""
    over = c.ended is not None or c.ending is not None
    if not c.settings.gate.verdict_pairs:
        return "switched off (gate.verdict_pairs: 0)"
    if c.duel >= 0:
        return _unfinished(c.candidates[c.duel], c.settings.gate.verdict_pairs)
    if not c.merged:
        return "nothing was merged" if over else "nothing is merged yet"
    if c.stop or (c.ending and c.ending.why == "stopped"):
        return "the campaign was stopped before it"
    if c.candidates[c.landed].base:
        return "somebody changed the code by hand after the last merge"
    return "the campaign ended before it" if c.ended else "base and tip are run head to head at the end"


def _unfinished(duel: Candidate, pairs: int) -> str:
    if duel.live:
        return f"under way, {len(duel.pairs)} of {pairs} pairs so far"
    return "no pair of runs came to an end" if duel.compared else f"the comparison was given up: {WORDS.get(duel.why, duel.why)}"


def meaning(c: Campaign) -> str:
    """What follows from an interval that is not above 0, as a sentence."""
    seen = proven(c)
    if seen is None or seen.low > 0:
        return ""
    if seen.high >= 0:
        return "The interval holds 0: that the tip is better is not shown"
    revert = c.candidates.get(c.reverted)
    if revert is None:
        return "The tip is worse than the base"
    how = {"merged": "took it back", "": "is to take it back"}.get(revert.why, f"was to take it back: {WORDS.get(revert.why)}")
    return f"The tip is worse than the base: candidate {revert.n}, a revert, {how}"


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a merged edit is worth: the tip against the tip without it."""

    candidate: Candidate
    seen: Difference | None
    reason: str  # why there is no number


def worths(c: Campaign) -> list[Worth]:
    """Of every edit that was taken out of the tip. They need not add up to the total."""
    done = [x for x in c.candidates.values() if x.kind is Kind.ABLATION and x.compared]
    return [
        Worth(candidate=c.candidates[x.of], seen=difference(x, -1), reason=x.compared.reason if x.compared else "") for x in done
    ]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Mode stack: what was certified, or rolled back, together."""

    edits: list[Candidate]
    seen: Difference | None
    kept: bool
    reason: str


def stacks(c: Campaign) -> list[Stack]:
    """Oldest first, those whose certification came to an end."""
    done = [(x, x.compared) for x in c.candidates.values() if x.kind is Kind.CERTIFY and x.compared]
    return [Stack(edits=stacked(c, x), seen=difference(x), kept=bool(said.keep), reason=said.reason) for x, said in done]


def stack_of(c: Campaign, x: Candidate) -> Stack | None:
    """The one that x was in, once it was decided."""
    asked = certification(c, x)
    if asked is None or asked.compared is None:
        return None
    edits = stacked(c, asked)
    return Stack(edits=edits, seen=difference(asked), kept=bool(asked.compared.keep), reason=asked.compared.reason)


def listed(edits: list[Candidate]) -> str:
    """Their numbers: candidates 3, 4 and 7."""
    names = [str(x.n) for x in edits]
    if len(names) < 2:
        return f"candidate {''.join(names)}"
    return f"candidates {', '.join(names[:-1])} and {names[-1]}"


def provisional(c: Campaign) -> str:
    """What is built upon and not certified; empty when there is nothing."""
    if not c.accepted:
        return ""
    more = sum(x.predicted for x in c.accepted)
    return f"{len(c.accepted)} provisional ({listed(c.accepted)}), not certified and not merged, expected to bring {more:.3g} bpb"


def smallest(c: Campaign) -> float | None:
    """The gain, bits per byte, that is found with 80 % chance at the noise so far: of one edit; in mode stack of a whole stack.
    None while nothing is known of the noise."""
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    if not df:
        return None
    return sigma * (STACK if c.stacking else _detectable(c.df, c.settings.gate))


@lru_cache
def _detectable(df: int, settings: gate.GateSettings) -> float:
    """In sigma. The gate adds prior_df by itself. It searches, which is slow beside all else in a report."""
    return gate.detectable(1.0, df, settings)


def detectable(c: Campaign) -> str:
    """The same in words."""
    gain = smallest(c)
    if gain is None:
        return "how much a run scatters is not known yet, so neither is how small a gain would be found"
    sigma, _ = gate.sigma(c.ss, c.df, c.settings.gate)
    now = mean(c.candidates[c.landed]) if c.landed >= 0 else None
    share = f" ({100 * gain / now:.2g} %)" if now else ""
    what = "a stack that gains" if c.stacking else "a gain of"
    found = "in all is certified" if c.stacking else "is found"
    return f"at this noise (sd of one run {sigma:.2g}) {what} about {gain:.2g} bpb{share} {found} with 80 % chance"


RUNS_A_CANDIDATE = 1.7  # at most, on average, with every run of the base among them: benchmarks/results/gate.json


def estimate(c: Campaign) -> str:
    """What a campaign will take, before anything is known of it."""
    s = c.settings
    runs = s.gate.baseline_runs + round(RUNS_A_CANDIDATE * c.started.experiments) + 2 * s.gate.verdict_pairs
    hours = runs * s.budget.seconds / 3600 / s.parallel
    side = f", {s.parallel} at a time" if s.parallel > 1 else ""
    return (
        f"about {count(runs, 'run')} of {s.budget.seconds:g} s of training{side}, so {hours:.1f} hours; building, scoring and "
        f"proposing come on top. It ends earlier when a rule of program.md says so"
    )


def doing(c: Campaign, x: Candidate) -> str:
    """What is under way."""
    if x.kind is Kind.DUEL:
        return f"base and tip are run head to head ({len(x.pairs)} of {c.settings.gate.verdict_pairs} pairs so far)"
    if x.kind is Kind.ABLATION:
        return f"the tip is run against itself without candidate {x.of} ({count(x.runs, 'run')} so far)"
    if x.kind is Kind.CERTIFY:
        return f"{listed(stacked(c, x))} against what is merged, to be certified ({count(len(x.pairs), 'pair')} so far)"
    if x.awaiting:
        return f"{called(x)} is better and waits to be merged: {visible(x.awaiting)}"
    return f"{called(x)} is {word(c, x)} ({count(x.runs, 'run')} so far)"
