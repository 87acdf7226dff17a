"""The gate: its statistics against scipy, its rules one by one, and its error rate by simulation around the real `judge`."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluator.gate import (
    Call,
    Evidence,
    GateSettings,
    detectable,
    judge,
    needs_baseline,
    needs_refresh,
    quantile,
    residual,
    sigma,
    tail,
)

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = GateSettings()


def evidence(
    *candidate: float,
    incumbent: tuple[float, ...] = (10.0, 10.0, 10.0, 10.0, 10.0),
    against: float = 10.0,
    ss: float = 20.0,
    df: int = 20,
) -> Evidence:
    """A candidate's runs, screen first, each later one paired with an incumbent run of `against`; sigma is 1 unless said."""
    return Evidence(
        screen=candidate[0],
        pairs=tuple((against, c) for c in candidate[1:]),
        incumbent=tuple((5, x) for x in incumbent),
        ss=ss,
        df=df,
    )


def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_simulation", ROOT / "benchmarks" / "gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# Statistics


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 20, 51, 200, 1000, 20_000])
def test_tail_is_students_far_tail(df: int) -> None:
    """The tail agrees with scipy to a relative 1e-8, from the middle to below 1e-12."""
    for p in (0.9, 0.6, 0.4, 0.1, 0.02, 0.004, 1e-4, 1e-8, 1e-12):
        t = float(stats.t.isf(p, df))
        assert tail(t, df) == pytest.approx(float(stats.t.sf(t, df)), rel=1e-8)


def test_tail_survives_the_extremes() -> None:
    """Zero is one half, and no t over- or underflows."""
    assert tail(0.0, 7) == pytest.approx(0.5)
    assert tail(1e-200, 7) == pytest.approx(0.5)
    assert [tail(t, 7) for t in (math.inf, 1e200, -1e200, -math.inf)] == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("df", [1, 2, 5, 30, 1000])
def test_quantile_is_the_inverse(df: int) -> None:
    """The quantile agrees with scipy at every level that the gate can use."""
    for p in (0.45, 0.1, 0.025, 0.004, 0.004 / 7, 1e-9, 1e-12):
        assert quantile(p, df) == pytest.approx(float(stats.t.isf(p, df)), rel=1e-7)


def test_residuals_add_up_to_the_sum_of_squares() -> None:
    """With equal ages the residuals of a group are its squared deviations from its mean."""
    scores = [2.24, 2.251, 2.2387, 2.249, 2.262]
    total = sum(residual(x, [(1, y) for y in scores[:i]]) for i, x in enumerate(scores) if i)
    mean = sum(scores) / len(scores)
    assert total == pytest.approx(sum((x - mean) ** 2 for x in scores), rel=1e-12)


def test_residuals_forgive_a_slow_drift() -> None:
    """On a machine that drifts by a steady step, an old run weighs little: the residual stays far below the plain one."""
    drifting = [0.02 * i for i in range(400)]
    aged = residual(8.0, [(400 - i, x) for i, x in enumerate(drifting)])
    plain = residual(8.0, [(1, x) for x in drifting])
    assert aged < plain / 50


def test_sigma_pools_and_folds_the_prior_in() -> None:
    """The prior counts as `prior_df` more residuals of size `prior_sd`."""
    assert sigma(18.0, 2, SETTINGS) == (3.0, 2)
    assert sigma(18.0, 2, GateSettings(prior_sd=1.0, prior_df=6)) == (math.sqrt(24 / 8), 8)


def test_sigma_is_never_below_the_resolution() -> None:
    """Identical scores, or none, leave the resolution of the score."""
    assert sigma(0.0, 9, SETTINGS) == (1e-6, 9)
    assert sigma(0.0, 0, SETTINGS) == (1e-6, 0)


def test_the_test_is_the_documented_one() -> None:
    """p and interval of a worked example are Student's, with the candidate's spread shrunk to the pooled one."""
    e = Evidence(screen=7.0, pairs=((10.0, 6.0), (11.0, 9.5)), incumbent=((3, 10.5), (1, 10.0), (0, 11.0)), ss=30.0, df=30)
    own = (3 * 1.0 + sum((x - 7.5) ** 2 for x in (7.0, 6.0, 9.5))) / 5
    error = math.sqrt((own + 1.0) / 2)
    verdict = judge(e, SETTINGS)
    assert verdict.gain == pytest.approx(2.75)
    assert verdict.p == pytest.approx(float(stats.t.sf(2.75 / error, 30)), rel=1e-8)
    assert verdict.interval == pytest.approx(stats.t.interval(0.95, 30, 2.75, error), rel=1e-8)
    assert (verdict.sigma, verdict.pairs) == (1.0, 2)


# Rules


def test_a_first_run_only_screens() -> None:
    """However good the first run, it is never kept: it goes on to pairs."""
    verdict = judge(evidence(-1000.0), SETTINGS)
    assert (verdict.call, verdict.p, verdict.level, verdict.interval, verdict.pairs) == (Call.AGAIN, None, None, None, 0)


@pytest.mark.parametrize(
    ("score", "call"), [(8.75, Call.AGAIN), (8.7501, Call.DISCARD), (10.0, Call.DISCARD), (12.0, Call.DISCARD)]
)
def test_the_floor_is_inclusive(score: float, call: Call) -> None:
    """Exactly at the floor goes on; a hair below it, a tie, or worse, does not."""
    assert judge(evidence(score), replace(SETTINGS, floor=1.25)).call is call


def test_keep_is_checked_before_the_floor() -> None:
    """Pairs that prove the gain win although a lucky baseline puts the candidate below the floor."""
    verdict = judge(evidence(5.0, 5.0, 5.0, 5.0, incumbent=(5.0,) * 5), SETTINGS)
    assert verdict.call is Call.KEEP


def test_the_mean_of_all_runs_must_stay_above_the_floor() -> None:
    """A lucky screen is dropped as soon as its pair brings the mean below the floor."""
    assert judge(evidence(8.0), SETTINGS).call is Call.AGAIN
    assert judge(evidence(8.0, 10.0), SETTINGS).call is Call.DISCARD


@pytest.mark.parametrize("k", range(1, 8))
def test_the_level_grows_with_the_looks(k: int) -> None:
    """At look k of 7 the level is alpha k / 7."""
    assert judge(evidence(8.5, *[8.5] * k), SETTINGS).level == pytest.approx(0.004 * k / 7)


def test_the_last_pair_ends_it() -> None:
    """What is promising and not proved after the last pair is discarded; one pair earlier it goes on."""
    runs = [8.7] * 8
    assert judge(evidence(*runs[:-1]), SETTINGS).call is Call.AGAIN
    assert judge(evidence(*runs), SETTINGS).call is Call.DISCARD


def test_pairs_beyond_the_last_buy_no_look() -> None:
    """Surplus pairs, however good, change nothing."""
    runs = [8.7] * 8
    assert judge(evidence(*runs, -50.0, -50.0), SETTINGS) == judge(evidence(*runs), SETTINGS)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30))
def test_the_baseline_does_not_touch_the_test(baseline: list[float]) -> None:
    """Whatever the incumbent's stored runs say, p and interval are those of the fresh pairs."""
    verdict = judge(evidence(8.0, 7.0, 8.5, incumbent=tuple(baseline)), SETTINGS)
    reference = judge(evidence(8.0, 7.0, 8.5), SETTINGS)
    assert (verdict.p, verdict.interval, verdict.gain) == (reference.p, reference.interval, reference.gain)


@given(st.floats(-100, 100))
def test_a_lucky_screen_cannot_help(screen: float) -> None:
    """No first run makes p smaller than a first run in line with the pairs: its distance can only widen the error."""
    p, reference = judge(evidence(screen, 7.0, 8.0), SETTINGS).p, judge(evidence(7.5, 7.0, 8.0), SETTINGS).p
    assert p is not None
    assert reference is not None
    assert p >= reference


def test_a_noisy_candidate_needs_more() -> None:
    """Of two candidates with the same mean gain, the one whose runs scatter has the larger p."""
    quiet, noisy = (judge(evidence(7.0, *runs), SETTINGS).p for runs in ((7.0, 7.0, 7.0), (1.0, 7.0, 13.0)))
    assert quiet is not None
    assert noisy is not None
    assert noisy > 10 * quiet


def test_nothing_known_of_the_noise_is_never_a_keep() -> None:
    """Without a degree of freedom: again while it looks better, discard when worse or when the pairs are used up."""
    for k in range(7):
        verdict = judge(evidence(1.0, *[1.0] * k, ss=0.0, df=0), SETTINGS)
        assert (verdict.call, verdict.p) == (Call.AGAIN, None)
    assert judge(evidence(1.0, *[1.0] * 7, ss=0.0, df=0), SETTINGS).call is Call.DISCARD
    assert judge(evidence(10.0, ss=0.0, df=0), SETTINGS).call is Call.DISCARD


def test_identical_scores_are_no_gain() -> None:
    """A score without noise: a tie is discarded, a gain of many resolutions is kept."""
    assert judge(evidence(10.0, ss=0.0), SETTINGS).call is Call.DISCARD
    assert judge(evidence(9.9, ss=0.0), SETTINGS).call is Call.AGAIN
    assert judge(evidence(9.9, 9.9, ss=0.0), SETTINGS).call is Call.KEEP


def test_an_incumbent_long_unmeasured_still_has_a_mean() -> None:
    """Ages at which every weight would be zero do no harm, and only their differences count."""
    runs = ((1_000_000, 10.0), (1_000_020, 12.0))
    old = Evidence(screen=8.0, pairs=(), incumbent=runs, ss=1.0, df=1)
    young = replace(old, incumbent=tuple((age - 1_000_000, score) for age, score in runs))
    assert judge(old, SETTINGS) == judge(young, SETTINGS)


def test_huge_scores_do_not_overflow() -> None:
    """Scores up to 1e100 get a verdict with finite numbers."""
    verdict = judge(evidence(-1e100, -1e100, incumbent=(1e100,) * 5, against=1e100, ss=1e199), SETTINGS)
    assert verdict.call is Call.KEEP
    assert math.isfinite(verdict.gain)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_no_number_is_refused(bad: float) -> None:
    """NaN, infinity and the absurd never become a verdict, wherever they stand."""
    for wrong in ({"screen": bad}, {"pairs": ((10.0, bad),)}, {"incumbent": ((0, bad),)}, {"ss": -abs(bad)}):
        with pytest.raises(ValueError, match=r"finite|sum of squares"):
            replace(evidence(9.0), **wrong)


def test_an_incumbent_without_runs_is_refused() -> None:
    """There is nothing to compare with, and the message says what to do."""
    with pytest.raises(ValueError, match="measure the base"):
        evidence(9.0, incumbent=())


GRID = st.integers(0, 12 * 64).map(lambda n: n / 64)  # sums are exact, so that no tie is undone by rounding


@given(st.lists(GRID, min_size=1, max_size=9), st.lists(GRID, min_size=1, max_size=9), st.floats(0, 50), GRID)
def test_better_scores_never_hurt(candidate: list[float], incumbent: list[float], ss: float, more: float) -> None:
    """Lowering all scores of a candidate by the same amount never turns keep into again or discard, nor again into discard."""
    rank = {Call.DISCARD: 0, Call.AGAIN: 1, Call.KEEP: 2}
    before = judge(evidence(*candidate, incumbent=tuple(incumbent), ss=ss), SETTINGS).call
    after = judge(evidence(*(x - more for x in candidate), incumbent=tuple(incumbent), ss=ss), SETTINGS).call
    assert rank[after] >= rank[before]


def test_the_unit_does_not_matter() -> None:
    """The same scores in another unit get the same call and the same p."""
    runs = (8.0, 7.0, 8.5)
    for scale in (2.0**-10, 2.0**10):
        scaled = evidence(*(x * scale for x in runs), incumbent=(10 * scale,) * 5, against=10 * scale, ss=20 * scale**2)
        assert judge(scaled, SETTINGS).p == judge(evidence(*runs), SETTINGS).p


def test_the_reason_has_the_numbers() -> None:
    """People read gain, percent, sigma, p, level and pairs, and what comes next."""
    keep = judge(evidence(5.0, 5.0, 5.0), SETTINGS)
    for words in (
        "gain +5 bpb (+50.00 %) in 2 pairs",
        "sigma 1",
        f"p {keep.p:.2g} where at most 0.0011 is needed",
        "it is better",
    ):
        assert words in keep.reason
    assert "pair 1 of at most 7 is next" in judge(evidence(5.0), SETTINGS).reason
    assert "sigma not known yet" in judge(evidence(5.0, df=0, ss=0.0), SETTINGS).reason


def test_baseline_and_refresh_are_due_on_the_dot() -> None:
    """Five baseline runs, and one incumbent run after twenty without."""
    assert [needs_baseline(n, SETTINGS) for n in (0, 4, 5, 6)] == [True, True, False, False]
    assert [needs_refresh(n, SETTINGS) for n in (0, 19, 20, 21)] == [False, False, True, True]


def test_impossible_settings_are_all_named_at_once() -> None:
    """Every mistake is in one message."""
    with pytest.raises(ValueError, match=r"mode.*alpha.*floor.*max_pairs.*baseline_runs.*refresh_runs.*resolution.*prior_df"):
        GateSettings(
            mode="luck", alpha=0.7, floor=math.nan, max_pairs=0, baseline_runs=0, refresh_runs=0, resolution=0.0, prior_df=3
        )


# Simulation


def test_equal_candidates_are_hardly_ever_kept() -> None:
    """Of 300 campaigns of 50 equal candidates at most 5 % keep anything; keep-if-lower almost always does."""
    sim = simulation()
    clean = sim.WORLDS["clean"]
    assert sim.any_kept(sim.gate(SETTINGS), clean, 300, seed=5)["any_kept"] <= 0.05
    assert sim.any_kept(sim.keep_if_lower, clean, 50, seed=5)["any_kept"] > 0.9


def test_detectable_is_kept_that_often() -> None:
    """A gain of the size called detectable is kept with its power, to 8 points, by the whole procedure."""
    sim = simulation()
    for power in (0.5, 0.8):
        gain = detectable(1.0, 4, SETTINGS, power)
        streams = [sim.with_gate([gain], sim.WORLDS["clean"], SETTINGS, random.Random(i)) for i in range(800)]
        assert sum(r.kept[0][1] for r in streams) / 800 == pytest.approx(power, abs=0.08)


def test_detectable_is_in_the_unit_of_sigma() -> None:
    """It scales with sigma, falls with more pairs and refuses an impossible power."""
    assert detectable(0.011, 30, SETTINGS) == pytest.approx(0.011 * detectable(1.0, 30, SETTINGS))
    assert detectable(1.0, 30, replace(SETTINGS, max_pairs=3)) > detectable(1.0, 30, SETTINGS)
    with pytest.raises(ValueError, match="power"):
        detectable(1.0, 30, SETTINGS, power=1.0)


def test_the_published_figures_hold_the_promise() -> None:
    """benchmarks/results/gate.json says how it was made, and no kind of noise breaks the promise (to two standard errors)."""
    published = json.loads((ROOT / "benchmarks" / "results" / "gate.json").read_text())
    assert all(published[key] for key in ("command", "commit", "machine", "n", "date"))
    rows = published["equal_candidates"]
    assert set(rows) == set(simulation().WORLDS)
    assert broken(rows) == []
    assert rows["clean"]["gate"]["any_kept"] < 0.04


def test_a_broken_promise_would_be_named() -> None:
    """The check above can fail, for either mode: 5 %, and 7 % of stacks of candidates that are all twice as noisy."""

    def row(share: float) -> dict[str, float]:
        return {"any_kept": share, "error": 0.001}

    clean, noisy = "clean", "every candidate sd x2"
    kept = {clean: {"gate": row(0.052), "stack": row(0.052), "keep_if_lower": row(0.98)}, noisy: {"stack": row(0.072)}}
    assert broken(kept) == []
    lost = {clean: {"gate": row(0.053), "stack": row(0.053)}, noisy: {"gate": row(0.053), "stack": row(0.073)}}
    assert broken(lost) == [f"{mode}, {name}" for name in (clean, noisy) for mode in ("gate", "stack")]


def broken(rows: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Of the published rows, those of our own two modes that keep anything too often; a mode that has no row is not judged."""
    found = []
    for name, row in rows.items():
        for mode, most in (("gate", 0.05), ("stack", 0.07 if name == "every candidate sd x2" else 0.05)):
            if mode in row and row[mode]["any_kept"] - 2 * row[mode]["error"] > most + 1e-9:
                found.append(f"{mode}, {name}")
    return found
