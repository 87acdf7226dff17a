"""Mode stack: build on what looks better, keep only what is certified. Pure statistics; lower scores are better.

For: whether one run is enough to build on a candidate, and whether the head of such a stack is truly better than what was kept
last. Not for: running anything, or knowing what is stacked on what; whoever calls does that.

The rule has two parts.
1. A candidate that is measured once and is `ACCEPT` sigma ahead of the head's baseline becomes the head, provisionally. The
   first run of a winner is lucky on average, so only half of what it showed is believed: the new head's baseline is the old
   one's runs, each lowered by that half, and real runs of the head are added to them. Before anything is built on a baseline
   of fewer than `TOP_UP` runs, the head is run until there are as many. Once a head is certified, its real runs show whether
   what was assumed is far off (`outdated`): a gain of 20 sigma is believed to be 10, and what comes next would look good.
2. When enough has come together (`due`), and at the end, the head is measured against the certified state in fresh,
   interleaved pairs. Nothing else counts, so neither luck in part 1 nor a drifted baseline can certify anything. At look k of
   `PAIRS` it is kept if the upper tail of Student's t is at most ALPHA * k / PAIRS; dropped, all of it, if its mean is below
   `DROP` sigma from pair 2 on, or the pairs are used up.

So what is promised holds for states, not for edits: an edit inside a certified state need not be better, and many are not.
The constants are calibrated by simulation (benchmarks/gate.py), not derived; that is why they are no settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from evaluator import gate

ACCEPT = 0.9  # sigma; below the floor of the pairs, as a wrong acceptance costs a run and is not yet a keep
BELIEVED = 0.5  # of what the first run showed; the rest is taken for luck
MOST_EDITS = 10  # accepted, then a certification is due; 4, 10 or only at the end came out alike
MOST_GAIN = 6.0  # sigma of predicted gain, then one is due: it mostly takes one or two pairs
TOP_UP = 8  # runs of the head's baseline, so that it adds little to the error of one run
PAIRS = 8  # looks at one stack: one that is truly 2 sigma better is certified nine times in ten, one that is equal 14 in 1000
ALPHA = 0.01  # of one certification, spent as ALPHA * k / PAIRS; higher than for an edit, as there are fewer of them
DROP = 0.2  # sigma: a stack that shows less after two pairs is not worth the others
OUTDATED = 3.0  # standard errors between what was assumed and what was run, then only what was run counts


def screen(evidence: gate.Evidence, settings: gate.GateSettings) -> tuple[gate.Verdict, float]:
    """DISCARD, AGAIN (run the head once more, then ask again) or ACCEPT, from one run of the candidate, with the gain to predict.

    `evidence.incumbent` is the head's baseline; `evidence.pairs` is not used. The predicted gain (bits per byte) is what is
    taken off each run of that baseline once the candidate is the head; it is 0 unless the call is ACCEPT.
    """
    first = gate.judge(replace(evidence, pairs=()), settings)
    before, runs = first.gain + evidence.screen, len(evidence.incumbent)
    known = gate.sigma(evidence.ss, evidence.df, settings)[1] > 0
    effect, predicted = first.gain / first.sigma, BELIEVED * first.gain
    if effect < ACCEPT:
        call, why = gate.Call.DISCARD, f"{effect:.2g} sigma ahead of the head's baseline, {ACCEPT:g} are needed to build on it"
    elif runs < TOP_UP:
        call, why = gate.Call.AGAIN, f"it looks better; the head has {runs} runs and needs {TOP_UP} for a provisional acceptance"
    elif not known:
        call, why = gate.Call.DISCARD, "how much a run scatters is not known, so nothing can be said"
    else:
        call, why = gate.Call.ACCEPT, f"accepted, provisional until certified; {predicted:.3g} bpb of it are believed"
    noise = f"sigma {first.sigma:.3g}" if known else "sigma not known yet"
    reason = f"gain {_amount(first.gain, before)} in the first run, {noise}: {why}"
    return replace(first, call=call, reason=reason), predicted if call is gate.Call.ACCEPT else 0.0


def due(accepted: int, predicted: float, sigma: float) -> bool:
    """Whether to certify now: `accepted` edits are provisional and promise `predicted` in all (in the unit of `sigma`)."""
    return accepted >= MOST_EDITS or (accepted > 0 and predicted >= MOST_GAIN * sigma)


def outdated(assumed: Sequence[float], real: Sequence[float], sigma: float) -> bool:
    """Whether the real runs of a certified head contradict the assumed part of its baseline, which is then to be dropped."""
    if not assumed or not real:
        return False
    return abs(fmean(assumed) - fmean(real)) > OUTDATED * sigma * math.sqrt(1 / len(assumed) + 1 / len(real))


def certify(pairs: Sequence[tuple[float, float]], ss: float, df: int, settings: gate.GateSettings) -> gate.Verdict:
    """KEEP (all that is provisional), DISCARD (roll back) or AGAIN (one more pair) from fresh (certified state, head) pairs.

    `ss` and `df` pool the noise of every run on this device, these included. Pairs beyond `PAIRS` are ignored. Never keeps where
    nothing is known of the noise. Raises ValueError for numbers that are no scores.
    """
    if not all(abs(x) <= gate.LARGEST for pair in pairs for x in pair):  # false for NaN too
        raise ValueError("a score is not finite: a run without a number must never reach the gate")
    s, freedom = gate.sigma(ss, df, settings)
    pairs = pairs[:PAIRS]
    gain, k = fmean(a - b for a, b in pairs) if pairs else 0.0, len(pairs)
    p, level, interval = None, None, None
    if k and freedom:
        error, level = _error(pairs, s), ALPHA * k / PAIRS
        p, half = gate.tail(gain / error, freedom), gate.quantile((1 - gate.COVERAGE) / 2, freedom) * error
        interval = gain - half, gain + half
    call, why = _decide(p, level, gain / s, k)
    test = "" if p is None else f", sigma {s:.3g}, p {p:.2g} where at most {level:.2g} is needed"
    before = fmean(a for a, _ in pairs) if pairs else 0.0
    reason = f"gain {_amount(gain, before)} of the head over the certified state in {k} pair{'s' * (k != 1)}{test}: {why}"
    return gate.Verdict(call=call, reason=reason, gain=gain, sigma=s, p=p, level=level, pairs=k, interval=interval)


def _decide(p: float | None, level: float | None, effect: float, k: int) -> tuple[gate.Call, str]:
    """`effect` is the mean of the pairs in sigma."""
    if p is not None and level is not None and p <= level:
        return gate.Call.KEEP, "it is better, and certified"
    if k >= 2 and effect < DROP:
        return gate.Call.DISCARD, f"not certified: less than {DROP:g} sigma; back to the certified state"
    if k >= PAIRS:
        return gate.Call.DISCARD, "not certified: not clearly better, and that was the last pair; back to the certified state"
    return gate.Call.AGAIN, f"still provisional; pair {k + 1} of at most {PAIRS} is next"


def _error(pairs: Sequence[tuple[float, float]], s: float) -> float:
    """Standard error of the mean difference. Either side may be noisier than the rest: its spread can only widen it."""
    return math.sqrt(sum(max(s * s, _variance(side, s)) for side in zip(*pairs, strict=True)) / len(pairs))


def _variance(scores: Sequence[float], s: float) -> float:
    """Of one side, shrunk to the pooled one as for a candidate in `gate.judge`."""
    mean = fmean(scores)
    squares = math.fsum((x - mean) * (x - mean) for x in scores)
    return (gate.OWN_PRIOR * s * s + squares) / (gate.OWN_PRIOR + len(scores) - 1)


def _amount(gain: float, before: float) -> str:
    return f"{gain:+.3g} bpb" + (f" ({100 * gain / abs(before):+.2f} %)" if before else "")
