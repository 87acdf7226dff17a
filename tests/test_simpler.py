"""The test for simpler candidates: not worse by the margin, at its own level; and how often it errs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from scipy import stats

from evaluator import gate, simpler
from evaluator.gate import Call, Evidence, GateSettings
from tests.test_gate import evidence

SETTINGS = GateSettings()
MARGIN = 2.0  # sigma


def candidate(loss: float, seed: int, sd: float = 1.0) -> tuple[Call, int]:
    """The call on a simpler candidate that is truly worse by `loss` sigma, and how many pairs it took."""
    rng = random.Random(seed)
    ss, baseline = sum(rng.gauss(0, 1) ** 2 for _ in range(20)), tuple((1, rng.gauss(0, 1)) for _ in range(5))
    seen = Evidence(screen=rng.gauss(loss, sd), pairs=(), incumbent=baseline, ss=ss, df=20)
    while (verdict := simpler.simpler(seen, SETTINGS, MARGIN)).call is Call.AGAIN:
        pair = (rng.gauss(0, 1), rng.gauss(loss, sd))
        seen = replace(seen, pairs=(*seen.pairs, pair), incumbent=(*seen.incumbent, (1, pair[0])))
    return verdict.call, verdict.pairs


def kept(loss: float, sd: float = 1.0, n: int = 400) -> float:
    return sum(candidate(loss, seed, sd)[0] is Call.KEEP for seed in range(n)) / n


def test_the_test_is_the_documented_one() -> None:
    """p is Student's of being worse by the margin; gain and interval are the plain ones."""
    seen = Evidence(screen=10.5, pairs=((10.0, 10.5), (11.0, 10.5)), incumbent=((3, 10.0), (1, 10.5)), ss=30.0, df=30)
    verdict = simpler.simpler(seen, SETTINGS, MARGIN)
    assert verdict.gain == pytest.approx(0.0)
    assert verdict.p == pytest.approx(float(stats.t.sf(2.0 / math.sqrt(2 / 2), 30)), rel=1e-8)
    assert verdict.interval == pytest.approx(stats.t.interval(0.95, 30, 0.0, 1.0), rel=1e-8)
    assert verdict.level == pytest.approx(0.025 * 2 / 7)


@pytest.mark.parametrize(("score", "call"), [(11.49, Call.AGAIN), (11.51, Call.DISCARD), (30, Call.DISCARD), (-9, Call.AGAIN)])
def test_a_first_run_only_screens(score: float, call: Call) -> None:
    """Half a sigma inside the margin goes on, anything worse is discarded, and no first run is a keep."""
    assert simpler.simpler(evidence(score), SETTINGS, MARGIN).call is call


def test_what_is_equal_is_kept_here_and_not_by_the_gate() -> None:
    """Pairs without any difference, which the gate discards, show that a simpler candidate is within the margin."""
    seen = evidence(*[10.0] * 8)
    assert gate.judge(seen, SETTINGS).call is Call.DISCARD
    assert simpler.simpler(seen, SETTINGS, MARGIN).call is Call.KEEP


def test_the_level_is_its_own() -> None:
    """The gate's alpha and floor change nothing; the number of pairs is shared."""
    seen = evidence(10.0, 10.0, 10.0)
    other = replace(SETTINGS, alpha=0.2, floor=5.0)
    assert simpler.simpler(seen, other, MARGIN) == simpler.simpler(seen, SETTINGS, MARGIN)
    assert simpler.simpler(evidence(*[11.0] * 4), replace(SETTINGS, max_pairs=3), MARGIN).call is Call.DISCARD


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan, math.inf])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    """Zero, less, and what is no number."""
    with pytest.raises(ValueError, match="margin"):
        simpler.simpler(evidence(10.0), SETTINGS, margin)


def test_nothing_known_of_the_noise_is_never_a_keep() -> None:
    """Without a degree of freedom it goes on to the last pair, and is discarded."""
    calls = [simpler.simpler(evidence(*[10.0] * k, ss=0.0, df=0), SETTINGS, MARGIN).call for k in range(1, 9)]
    assert calls == [Call.AGAIN] * 7 + [Call.DISCARD]


def test_the_reason_says_what_is_bearable() -> None:
    """People read gain, margin, sigma, p, level, and what follows."""
    verdict = simpler.simpler(evidence(*[10.0] * 8), SETTINGS, MARGIN)
    for words in ("gain +0 bpb in 7 pairs", "a loss of 2 is bearable", "sigma 1", "at most 0.025 is needed", "it is simpler"):
        assert words in verdict.reason
    assert "pair 1 of at most 7 is next" in simpler.simpler(evidence(10.0), SETTINGS, MARGIN).reason
    assert "sigma not known yet" in simpler.simpler(evidence(10.0, ss=0.0, df=0), SETTINGS, MARGIN).reason


def test_what_is_worse_by_the_margin_is_hardly_ever_kept() -> None:
    """Truly worse by the margin: within its level; twice as noisy too: within three times the level."""
    assert kept(MARGIN, n=800) <= 0.025
    assert kept(MARGIN, sd=2.0) <= 0.075
    assert kept(2 * MARGIN, n=100) == 0.0


def test_what_is_equal_is_mostly_kept() -> None:
    """With a margin of two sigma: four equal ones in five are kept, and of those that lose half of it a quarter."""
    assert kept(0.0, n=200) > 0.75
    assert 0.15 < kept(MARGIN / 2, n=200) < 0.5
