"""Is a simpler candidate at most a little worse? A test of non-inferiority, with pairs. Pure statistics; lower scores are better.

For: keeping a candidate that takes something out (its syntax tree shrinks) although it is not better. Not for: deciding what is
simpler, or how much worse is bearable; both are handed in, the second as `margin`.

It is the rule of evaluator/gate.py with the candidate's scores lowered by the margin, so that "not worse by the margin" must be
shown instead of "better"; and with a level of its own, spent in the same way. A candidate may be looked at by both rules: each
spends its own level. An error costs little more than the margin, but errors add up, and what is truly worse by less than the
margin is kept by right: many simplifications in a row can lose what only the comparison of base and tip at the end shows.
"""

from __future__ import annotations

from dataclasses import replace

from evaluator import gate

ALPHA = 0.025  # of keeping what is worse by the margin: half the usual two-sided .05, as for one-sided trials (ICH E9, 5.5)
FLOOR = 0.5  # sigma above the margin, to go on; it halves the runs spent on what is worse by the margin


def simpler(evidence: gate.Evidence, settings: gate.GateSettings, margin: float) -> gate.Verdict:
    """KEEP (worse by less than `margin`), DISCARD or AGAIN (one more pair). `margin` is in the score's unit, above 0.

    Gain and interval in the verdict are the plain ones, p and level those of "worse by the margin or more". The pairs and their
    number are those of `gate.judge`. Raises ValueError for a margin that is none.
    """
    if not 0 < margin <= gate.LARGEST:  # false for NaN too
        raise ValueError(f"gate: the margin of a simpler candidate is {margin}, not above 0")
    lowered = replace(
        evidence,
        screen=evidence.screen - margin,
        pairs=tuple((incumbent, candidate - margin) for incumbent, candidate in evidence.pairs),
    )
    verdict = gate.judge(lowered, replace(settings, alpha=ALPHA, floor=FLOOR))
    gain = verdict.gain - margin
    interval = verdict.interval and (verdict.interval[0] - margin, verdict.interval[1] - margin)
    known = gate.sigma(evidence.ss, evidence.df, settings)[1] > 0
    reason = _reason(verdict, gain, margin, known, settings.max_pairs)
    return replace(verdict, gain=gain, interval=interval, reason=reason)


def _reason(verdict: gate.Verdict, gain: float, margin: float, known: bool, most: int) -> str:
    k = verdict.pairs
    runs = "the first run" if k == 0 else f"{k} pair{'s' if k > 1 else ''}"
    noise = f"sigma {verdict.sigma:.3g}" if known else "sigma not known yet"
    test = "" if verdict.p is None else f", p {verdict.p:.2g} where at most {verdict.level:.2g} is needed"
    why = {
        gate.Call.KEEP: "it is simpler, and not worse by the margin",
        gate.Call.DISCARD: "simpler, but not shown to be within the margin",
        gate.Call.AGAIN: f"simpler, and it may be within the margin; pair {k + 1} of at most {most} is next",
    }[verdict.call]
    return f"gain {gain:+.3g} bpb in {runs}, a loss of {margin:.3g} is bearable, {noise}{test}: {why}"
