"""Mode stack: its rules one by one, its test against scipy, and its error rate by simulation around the real functions."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluator import stack
from evaluator.gate import Call, Evidence, GateSettings
from tests.test_gate import simulation

SETTINGS = GateSettings(mode="stack")
SIXTEENTHS = st.integers(0, 12 * 16).map(lambda n: n / 16)  # sums are exact, so that no tie is undone by rounding


def evidence(score: float, *, runs: int = stack.TOP_UP, ss: float = 20.0, df: int = 20) -> Evidence:
    """A candidate's one run against a head of 10.0; sigma is 1 unless said."""
    return Evidence(screen=score, pairs=(), incumbent=((5, 10.0),) * runs, ss=ss, df=df)


def pairs(*heads: float, before: float = 10.0) -> list[tuple[float, float]]:
    return [(before, head) for head in heads]


# Acceptance


@pytest.mark.parametrize(("score", "call"), [(9.0999, Call.ACCEPT), (9.1001, Call.DISCARD), (-9, Call.ACCEPT)])
def test_nine_tenths_of_a_sigma_are_accepted(score: float, call: Call) -> None:
    """On either side of .9 sigma the call differs, and no first run, however good, is a keep."""
    assert stack.screen(evidence(score), SETTINGS)[0].call is call


def test_half_of_what_was_shown_is_believed() -> None:
    """The predicted gain is half the estimate in bits per byte, and nothing where nothing is accepted."""
    assert stack.screen(evidence(8.0), SETTINGS)[1] == pytest.approx(1.0)
    assert stack.screen(evidence(9.5), SETTINGS)[1] == 0.0
    assert stack.screen(evidence(8.0, runs=7), SETTINGS)[1] == 0.0


def test_the_head_is_topped_up_before_anything_is_built_on_it() -> None:
    """With fewer than eight runs what looks acceptable has to wait for one more; what does not is discarded at once."""
    calls = [stack.screen(evidence(8.0, runs=n), SETTINGS)[0].call for n in (1, 7, 8, 20)]
    assert calls == [Call.AGAIN, Call.AGAIN, Call.ACCEPT, Call.ACCEPT]
    assert stack.screen(evidence(9.5, runs=1), SETTINGS)[0].call is Call.DISCARD


def test_pairs_are_no_part_of_the_acceptance() -> None:
    """Whatever pairs the evidence carries, the answer is that of the one run."""
    carried = replace(evidence(8.0), pairs=((0.0, 100.0),) * 3)
    assert stack.screen(carried, SETTINGS) == stack.screen(evidence(8.0), SETTINGS)


def test_nothing_is_built_where_nothing_is_known_of_the_noise() -> None:
    """Without a degree of freedom the head is run again, and with enough runs and still none the candidate is discarded."""
    calls = [stack.screen(evidence(1.0, runs=n, ss=0.0, df=0), SETTINGS)[0].call for n in (1, 7, 8)]
    assert calls == [Call.AGAIN, Call.AGAIN, Call.DISCARD]


def test_the_reason_of_an_acceptance_says_provisional() -> None:
    """People read the gain, sigma, what is believed, and that it is provisional."""
    accepted = stack.screen(evidence(8.0), SETTINGS)[0].reason
    for words in ("gain +2 bpb (+20.00 %) in the first run", "sigma 1", "provisional", "1 bpb of it"):
        assert words in accepted
    assert "provisional" in stack.screen(evidence(8.0, runs=3), SETTINGS)[0].reason
    assert "0.5 sigma ahead" in stack.screen(evidence(9.5), SETTINGS)[0].reason
    assert "sigma not known yet" in stack.screen(evidence(8.0, runs=3, ss=0.0, df=0), SETTINGS)[0].reason


# Certification


@pytest.mark.parametrize(
    ("accepted", "predicted", "expected"), [(0, 99.0, False), (1, 11.9, False), (1, 12.0, True), (9, 0.0, False), (10, 0.0, True)]
)
def test_certification_is_due_on_the_dot(accepted: int, predicted: float, expected: bool) -> None:
    """With ten edits or six sigma of predicted gain, never with nothing accepted."""
    assert stack.due(accepted, predicted, sigma=2.0) is expected


def test_the_test_is_the_documented_one() -> None:
    """p and interval of a worked example are Student's; a side that scatters more than the rest widens the error."""
    measured = [(10.0, 6.0), (11.0, 9.5), (9.0, 8.5)]
    squares = sum((x - 8.0) ** 2 for x in (6.0, 9.5, 8.5))
    noisy, quiet = (3 + squares) / 5, 1.0  # the certified state's own is (3 + 2) / 5, no more than the pooled one
    error = math.sqrt((noisy + quiet) / 3)
    verdict = stack.certify(measured, 30.0, 30, SETTINGS)
    assert (verdict.gain, verdict.sigma, verdict.pairs) == (pytest.approx(2.0), 1.0, 3)
    assert verdict.p == pytest.approx(float(stats.t.sf(2.0 / error, 30)), rel=1e-8)
    assert verdict.interval == pytest.approx(stats.t.interval(0.95, 30, 2.0, error), rel=1e-8)
    assert verdict.level == pytest.approx(0.01 * 3 / 8)


@pytest.mark.parametrize("k", range(1, 9))
def test_the_level_grows_with_the_looks(k: int) -> None:
    """At look k of 8 the level is .01 k / 8, and a mean that meets it is kept, one that misses it is not."""
    bar = float(stats.t.isf(0.01 * k / 8, 20)) * math.sqrt(2 / k)
    above, below = (stack.certify(pairs(*[10 - gain] * k), 20.0, 20, SETTINGS) for gain in (bar * 1.001, bar * 0.999))
    assert above.level == pytest.approx(0.01 * k / 8)
    assert above.call is Call.KEEP
    assert below.call is (Call.AGAIN if k < 8 else Call.DISCARD)


def test_a_stack_that_shows_nothing_goes_back_after_two_pairs() -> None:
    """One bad pair is borne; from the second on less than .2 sigma on average ends it."""
    assert stack.certify([], 20.0, 20, SETTINGS).call is Call.AGAIN
    assert stack.certify(pairs(15.0), 20.0, 20, SETTINGS).call is Call.AGAIN
    assert stack.certify(pairs(9.75, 9.875), 20.0, 20, SETTINGS).call is Call.DISCARD
    assert stack.certify(pairs(9.75, 9.75), 20.0, 20, SETTINGS).call is Call.AGAIN


def test_pairs_beyond_the_last_buy_no_look() -> None:
    """Surplus pairs, however good, change nothing."""
    runs = [9.5] * 8
    assert stack.certify(pairs(*runs, -50.0, -50.0), 20.0, 20, SETTINGS) == stack.certify(pairs(*runs), 20.0, 20, SETTINGS)


def test_nothing_known_of_the_noise_is_never_certified() -> None:
    """Without a degree of freedom even the best pairs go on to the last and end in a rollback."""
    verdicts = [stack.certify(pairs(*[1.0] * k), 0.0, 0, SETTINGS) for k in range(1, 9)]
    assert [v.call for v in verdicts] == [Call.AGAIN] * 7 + [Call.DISCARD]
    assert {(v.p, v.level, v.interval) for v in verdicts} == {(None, None, None)}


def test_noise_on_either_side_makes_it_harder() -> None:
    """Of stacks with the same mean gain, the one whose head, or whose ground, scatters has the larger p."""
    calm = stack.certify([(10.0, 8.0)] * 3, 20.0, 20, SETTINGS).p
    head = stack.certify([(10.0, 2.0), (10.0, 8.0), (10.0, 14.0)], 20.0, 20, SETTINGS).p
    ground = stack.certify([(4.0, 8.0), (10.0, 8.0), (16.0, 8.0)], 20.0, 20, SETTINGS).p
    assert calm is not None and head is not None and ground is not None
    assert head == pytest.approx(ground)
    assert head > 10 * calm


@given(st.lists(st.tuples(SIXTEENTHS, SIXTEENTHS), min_size=1, max_size=10), st.floats(0, 50), SIXTEENTHS)
def test_better_scores_never_hurt(measured: list[tuple[float, float]], ss: float, more: float) -> None:
    """Lowering all scores of the head by the same amount never makes the call worse."""
    rank = {Call.DISCARD: 0, Call.AGAIN: 1, Call.KEEP: 2}
    lower = [(before, head - more) for before, head in measured]
    before, after = (stack.certify(scores, ss, 20, SETTINGS).call for scores in (measured, lower))
    assert rank[after] >= rank[before]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_no_number_is_refused(bad: float) -> None:
    """NaN, infinity and the absurd never become a verdict, on neither side."""
    for wrong in ((10.0, bad), (bad, 10.0)):
        with pytest.raises(ValueError, match="not finite"):
            stack.certify([wrong], 20.0, 20, SETTINGS)


def test_the_reason_of_a_certification_says_how_it_went() -> None:
    """People read certified, not certified or still provisional, with the numbers."""
    kept = stack.certify(pairs(5.0, 5.0), 20.0, 20, SETTINGS)
    for words in ("gain +5 bpb (+50.00 %)", "in 2 pairs", "sigma 1", f"p {kept.p:.2g} where at most 0.0025", "certified"):
        assert words in kept.reason
    assert "not certified" in stack.certify(pairs(10.0, 10.0), 20.0, 20, SETTINGS).reason
    again = stack.certify(pairs(9.0), 20.0, 20, SETTINGS).reason
    assert "1 pair," in again and "still provisional; pair 2 of at most 8 is next" in again


def test_a_baseline_that_was_assumed_yields_to_one_that_was_run() -> None:
    """Real runs three standard errors away overrule what was assumed; nearer ones, or none, do not."""
    bar = 3.0 * math.sqrt(1 / 8 + 1 / 2)
    assert stack.outdated([5.0] * 8, [5.0 - bar * 1.01] * 2, 1.0)
    assert stack.outdated([5.0] * 8, [5.0 + bar * 1.01] * 2, 1.0)
    assert not stack.outdated([5.0] * 8, [5.0 - bar * 0.99] * 2, 1.0)
    assert not stack.outdated([5.0] * 8, [], 1.0)
    assert not stack.outdated([], [5.0], 1.0)


# Simulation


def test_equal_candidates_are_hardly_ever_certified() -> None:
    """Of 300 campaigns of 50 equal candidates at most 5 % certify a state, though nearly all accept some edit."""
    sim = simulation()
    campaigns = [sim.Stack(lab=sim.Lab(world=sim.WORLDS["clean"], rng=random.Random(i)), settings=SETTINGS) for i in range(300)]
    certified = sum(bool(campaign.campaign([0.0] * 50).claims) for campaign in campaigns)
    assert certified <= 15
    assert sum(campaign.certifications > 0 for campaign in campaigns) > 270


def test_a_night_gains_more_in_fewer_runs_than_pairs() -> None:
    """On 40 nights of 125 candidates the certified gain is larger than that of mode pairs, for fewer runs."""
    sim = simulation()
    night = sim.NIGHTS["night"]
    of_stack, of_pairs = (sim.nights(rule, night, 40, seed=3) for rule in (sim.stacked(SETTINGS), sim.gate(GateSettings())))
    assert of_stack["true_gain"] > of_pairs["true_gain"] + 1
    assert of_stack["runs"] < 0.85 * of_pairs["runs"]
    assert of_stack["false_share"] <= 0.05


def test_one_huge_gain_does_not_make_what_follows_look_good() -> None:
    """After a gain of 20 sigma equal candidates are no longer accepted on a baseline that believes in half of it."""
    sim = simulation()
    lab = sim.Lab(world=sim.WORLDS["clean"], rng=random.Random(1))
    campaign = sim.Stack(lab=lab, settings=SETTINGS)
    result = campaign.campaign([20.0])
    assert result.claims == [20.0]
    assert campaign.certified.group.assumed == 0
    assert max(abs(score - (sim.BASE - 20)) for _, score in campaign.certified.group.runs) < 5
