"""The surface through a landscape, what a runner answers from it, and the comparison of proposers on it. No training is run."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bot.landscape import SHIPPED, BadLandscape, Landscape, read
from bot.propose import Brief, Idea, NoIdea, apply
from bot.propose.mutate import holds
from bot.propose.tpe import values_of
from bot.static import hash_of
from bot.surface import FITTED, Process, Scale, Surface, coordinates, digest_of, load, shipped
from runners import Job, Outcome
from tests.test_landscape import BASE, SOURCE, collected, job, program

PROPOSERS, FIT = program("proposers"), program("_fit")
SIGMA = 0.01


def flat(found: Landscape) -> str:
    """A surface that is everywhere 2 bits per byte and half a second, but for a dip of 0.1 where training 2 was."""
    n = sum(row.outcome is Outcome.OK for row in found.rows)
    axes = dict.fromkeys(coordinates(BASE), 1.0)
    weights, main = [0.0, math.log(0.9), *[0.0] * (n - 2)], dict.fromkeys(axes, 0.0)
    process = {"mean": 0.0, "scales": axes, "main": main, "joint": 1.0, "weights": weights}
    cost = {**process, "mean": -1.0, "weights": [0.0] * n}
    head = {"schema": 1, "landscape": digest_of(found), "sigma": SIGMA, "scale": {"floor": 1.0, "worst": 2.8}}
    return json.dumps({**head, "score": process, "cost": cost})


def surface() -> Surface:
    return load(collected(), flat(collected()))


# The surface


def test_the_scale_of_scores_goes_there_and_back() -> None:
    """A score is found again, what is worse than the worst is the worst, and the good are spread wider than the bad."""
    scale = Scale(floor=1.7, worst=2.8)
    assert scale.back(scale.of(2.1)) == pytest.approx(2.1) and scale.back(scale.of(59.0)) == pytest.approx(2.8)
    assert scale.of(2.0) - scale.of(1.9) > 3 * (scale.of(2.7) - scale.of(2.6))


def test_coordinates_are_octaves_and_switches() -> None:
    """What doubles moves by one, 0 as "off" is a switch, and patterns that look back alike are one place."""
    here = coordinates(BASE)
    assert coordinates({**BASE, "DIM": 256})["DIM"] == here["DIM"] + 1
    assert coordinates({**BASE, "SOFTCAP": 0})["SOFTCAP off"] == 1 and here["SOFTCAP off"] == 0
    assert coordinates({**BASE, "ADAM_BETA2": 0.975})["ADAM_BETA2"] == pytest.approx(here["ADAM_BETA2"] + 1)
    assert coordinates({**BASE, "WINDOW": "SL"}) == here != coordinates({**BASE, "WINDOW": "L"})


def test_a_guess_is_the_mean_and_what_is_near() -> None:
    """At a training its weight counts in full, an octave away less, far away not at all; unknown constants do nothing."""
    found, there = surface(), collected().point(collected().rows[1])
    assert found.guess(there).val_bpb == pytest.approx(1.9)
    (name,) = collected().rows[1].moved
    beside = found.guess({**there, name: float(there[name]) * 2}).val_bpb
    assert beside is not None and 1.9 < beside < 2.0
    assert found.guess({**there, "UNKNOWN": 3}) == found.guess(there)
    assert found.guess({"DIM": 32, "HEAD_DIM": 8, "SEQ_LEN": 16}).val_bpb == pytest.approx(2.0, abs=1e-3)


def test_what_failed_fails_near_it() -> None:
    """A point whose nearest training failed has that training's outcome and no number."""
    guess = surface().guess({**BASE, "DIM": 512, "HEAD_DIM": 128, "SCALAR_LR": 0.6})
    assert (guess.outcome, guess.val_bpb) == (Outcome.TIMEOUT, None)
    assert surface().guess({**BASE, "SCALAR_LR": 0.6}).outcome is Outcome.OK


def asked(source: str = SOURCE, seed: int = 1, cap: float = 0.0) -> Job:
    return replace(job(seed), source=source, scoring_cap_seconds=cap)


def test_a_played_run_has_the_noise_of_its_seed() -> None:
    """The same job has the same number, other seeds scatter by sigma around the guess."""
    found, plain = surface(), BASE
    scores = [found.play(lambda _: plain, asked(seed=seed)).val_bpb or 0.0 for seed in range(1500)]
    assert scores[:5] == [found.play(lambda _: plain, asked(seed=seed)).val_bpb for seed in range(5)]
    assert statistics.stdev(scores) == pytest.approx(SIGMA, rel=0.06)
    assert statistics.fmean(scores) == pytest.approx(found.guess(plain).val_bpb or 0.0, abs=4 * SIGMA / math.sqrt(1500))


def test_a_played_run_fails_as_the_judge_would_have_it() -> None:
    """Scoring beyond the cap of the campaign is a timeout without a number, and so is what is near a timeout."""
    dear = surface().play(values_of, asked(cap=0.4))
    assert (dear.outcome, dear.val_bpb) == (Outcome.TIMEOUT, None) and "scoring" in dear.reason
    assert surface().play(values_of, asked(cap=0.6)).outcome is Outcome.OK
    wide = SOURCE.replace("DIM = 128", "DIM = 512").replace("HEAD_DIM = 64", "HEAD_DIM = 128")
    failed = surface().play(values_of, asked(wide))
    assert (failed.outcome, failed.val_bpb) == (Outcome.TIMEOUT, None) and failed.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: "{", "cannot be read"),
        (lambda raw: json.dumps({**raw, "score": {"mean": 1}}), "cannot be read"),
        (lambda raw: json.dumps({k: v for k, v in raw.items() if k != "sigma"}), "cannot be read"),
        (lambda raw: json.dumps({**raw, "landscape": "another"}), "is not of this landscape"),
        (lambda raw: json.dumps({**raw, "cost": {**raw["cost"], "weights": [1.0]}}), "is not of this landscape"),
    ],
)
def test_a_surface_of_something_else_is_refused(change: Any, said: str) -> None:
    """A broken surface, and one that was laid through other trainings, say so and what to do."""
    with pytest.raises(BadLandscape, match=said) as refused:
        load(collected(), change(json.loads(flat(collected()))))
    assert "benchmarks/landscape.py" in str(refused.value)


@cache
def fitted() -> tuple[Any, list[float], list[str]]:
    """A process through some sixty made-up trainings, every sixth of collected()."""
    rows = [row for row in collected().rows[::6] if row.val_bpb is not None]
    scores = [row.val_bpb or 0.0 for row in rows]
    keys = [json.dumps(dict(row.moved), sort_keys=True) for row in rows]
    return FIT.fit([coordinates(collected().point(row)) for row in rows], scores, keys, steps=100), scores, keys


def test_the_fit_goes_through_what_was_measured() -> None:
    """At the trainings it is off by no more than noise, as its weights are added up without torch, and less than their spread."""
    fit, scores, _ = fitted()
    process = Process(mean=fit.mean, scales=fit.scales, main=fit.main, joint=fit.joint, weights=fit.weights)
    rows = [row for row in collected().rows[::6] if row.val_bpb is not None]
    points = [coordinates(collected().point(row)) for row in rows]
    errors = [process.at(point, points) - score for point, score in zip(points, scores, strict=True)]
    assert statistics.pstdev(errors) < 1.2 * 0.01 < statistics.pstdev(scores) / 5  # made_up has that noise


def test_a_point_that_was_left_out_is_still_foreseen() -> None:
    """Left out with all its repeats, a training is predicted far better than by the mean."""
    fit, scores, keys = fitted()
    errors = [guess - score for guess, score in zip(fit.left_out, scores, strict=True)]
    assert statistics.pstdev(errors) < statistics.pstdev(scores) / 2
    base = [guess for guess, key in zip(fit.left_out, keys, strict=True) if key == "{}"]
    assert len(base) > 3 and max(base) - min(base) < 1e-9  # no repeat of it helped


@pytest.mark.skipif(not FITTED.exists(), reason="not made yet")
def test_the_shipped_surface_is_of_the_shipped_landscape() -> None:
    """It loads beside the landscape, knows the base to within its noise, and a failure as one."""
    found = shipped()
    base = [row.val_bpb for row in found.landscape.rows if not row.moved and row.val_bpb is not None]
    guess = found.guess(BASE)
    assert guess.val_bpb == pytest.approx(statistics.fmean(base), abs=found.sigma)
    failed = next(row for row in read(SHIPPED.read_text("utf-8")).rows if row.outcome is not Outcome.OK)
    assert found.guess(found.landscape.point(failed)).outcome is failed.outcome


# The comparison


def brief(tried: frozenset[str] = frozenset()) -> Brief:
    return Brief(source=SOURCE, instructions="", direction="", tried=tried, seed=1)


@pytest.mark.parametrize(("control", "most"), [("random", 2), ("blind", 1)])
def test_a_control_draws_what_is_new_and_sound(control: str, most: int) -> None:
    """Ten draws of a control are all different, keep what must hold, and change as many constants as they may."""
    seen: set[str] = set()
    widths: set[int] = set()
    for _ in range(10):
        idea = PROPOSERS.CONTROLS[control].propose(brief(frozenset(seen)))
        assert isinstance(idea, Idea)
        edited = apply(SOURCE, idea.edits)
        assert edited is not None and hash_of(edited) not in seen
        now: Mapping[str, Any] = values_of(edited)
        moved = {name for name in BASE if now[name] != BASE[name]}
        assert holds(now, moved)
        widths.add(len(moved))
        seen.add(hash_of(edited))
    assert widths == set(range(1, most + 1))


def test_a_control_gives_up_when_all_is_refused() -> None:
    """It does not draw for ever."""
    few = replace(PROPOSERS.CONTROLS["random"], draw=lambda luck, source: PROPOSERS.one_move(luck, "DIM = 128\n"))
    answer = few.propose(replace(brief(), refuses=lambda edits: "no"))
    assert answer == NoIdea(reason="none of 1000 draws was new", exhausted=True)


def test_a_campaign_on_the_surface_is_told_by_its_true_values() -> None:
    """The real loop with a real proposer: every merge is in the path with its true improvement; again, it is the same."""
    exam = PROPOSERS.Exam(surface=shipped() if FITTED.exists() else surface(), source=SOURCE)
    told = exam.one("mutate", 2, 3)
    assert told["candidates"] == 3 and told["runs"] >= 6 and len(told["path"]) == told["merges"]
    assert told["improvement"] == (told["path"][-1][2] if told["path"] else 0.0)
    assert exam.one("mutate", 2, 3) == told
    kept = json.loads(json.dumps(PROPOSERS.figures(exam, [told], [])))
    assert kept["campaigns"][0]["seed"] == 2 and kept["landscape"] == exam.surface.digest
    assert ("mutate", 2) not in list(PROPOSERS.wanted(kept["campaigns"], 2))


def record(name: str, seed: int, runs: int, *path: tuple[int, int, float]) -> dict[str, Any]:
    gain = path[-1][2] if path else 0.0
    counts = {"runs": runs, "merges": len(path), "worse_merges": 0, "failed": 0}
    return {"proposer": name, "seed": seed, "improvement": gain, "path": list(path)} | counts


def test_improvements_are_compared_at_equal_runs_too() -> None:
    """What came after the runs of the shortest campaign does not count there."""
    done = [record("mutate", 1, 50, (3, 20, 1.0), (9, 45, 2.0)), record("random", 1, 40, (5, 30, 0.5))]
    found = PROPOSERS.summary(done)
    assert found["equal_runs"] == 40
    assert found["proposers"]["mutate"]["at_equal_runs"]["median"] == 1.0
    assert found["proposers"]["mutate"]["improvement_percent"]["median"] == 2.0
    assert found["proposers"]["random"]["at_equal_runs"]["median"] == 0.5


def test_what_is_done_is_not_asked_again() -> None:
    """Only the missing campaigns are wanted, all proposers of one seed before the next seed."""
    names = list(PROPOSERS.CONTENDERS)
    missing = list(PROPOSERS.wanted([record(names[0], 1, 9), record(names[1], 2, 9)], 2))
    assert missing == [(name, 1) for name in names[1:]] + [(name, 2) for name in names if name != names[1]]
