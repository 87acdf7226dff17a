"""How long and with how much compute scoring may go on, and what a campaign tells the judge of the incumbent."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from bot import events as e
from bot.loop import run
from bot.program import Program, parse
from bot.runs import GRACE_SECONDS, SCORING_FACTOR, SCORING_FLOOR, allowed
from runners import Job, Outcome, Running
from runners.scripted import Result, ScriptedRunner, measurement
from tests.cheats.toy import tried
from tests.worlds import SOURCE, memory_world, push, start, until


@pytest.mark.parametrize("took", [0.0, 1.5])
def test_scoring_a_candidate_may_take_twice_the_compute_of_the_incumbent(took: float) -> None:
    """The cap is set from the incumbent's own record, for candidates only; without a record there is none."""
    caps: dict[str, set[float]] = {"incumbent": set(), "candidate": set()}

    def script(job: Job) -> Result:
        caps["incumbent" if job.source == SOURCE else "candidate"].add(job.scoring_cap_seconds)
        score = (2.0 if job.source == SOURCE else 2.25) + (job.seed % 1000 - 500) * 1e-5
        return replace(measurement(job, val_bpb=score), scoring_cpu_seconds=took)

    world = replace(memory_world(lambda source: 2.0), runner=ScriptedRunner(script))
    run(world, start(world, 2))
    assert caps["incumbent"] == {0.0}
    assert caps["candidate"] == {SCORING_FACTOR * took + SCORING_FLOOR if took else 0.0}


def test_scoring_ends_when_the_program_says(tmp_path: Path) -> None:
    """budget.scoring_seconds holds for loading and answering together, and the reason names it."""
    slow = "def model(windows):\n    time.sleep(0.5)\n    return [[T[t] for t in w] for w in windows]"
    began = time.monotonic()
    got = tried(slow, tmp_path, scoring=0.8)
    assert (got.outcome, got.val_bpb) == (Outcome.TIMEOUT, None), got
    assert "budget.scoring_seconds" in got.reason
    assert time.monotonic() - began < 20
    assert tried(slow, tmp_path, scoring=30.0).outcome is Outcome.OK


def test_the_judge_ends_each_part_before_the_run_is_lost() -> None:
    """The deadline is the sum of the three budgets and room for the judge's own."""
    program = parse("---\nbudget:\n  seconds: 3\n  startup_seconds: 5\n  scoring_seconds: 7\n---\n")
    assert isinstance(program, Program)
    assert allowed(program.settings.budget) == 15 + GRACE_SECONDS


def test_the_judge_is_told_of_the_incumbent_and_of_none_for_a_base() -> None:
    """Candidates carry the incumbent's name and mean; the incumbent itself, and a base that a person pushed, carry none."""
    jobs: list[Job] = []

    def script(job: Job) -> Result:
        jobs.append(job)
        level = 2.0 if "by hand" in job.source or job.source == SOURCE else 2.25
        return measurement(job, val_bpb=level + job.seed % 100 * 1e-5)

    world = replace(memory_world(lambda source: 2.0), runner=ScriptedRunner(script))
    view = start(world, 3)
    until(world, view, e.Adopted)
    base = [job for job in jobs if job.source == SOURCE]
    until(world, view, e.Measured, count=len(base) + 1)
    candidate = jobs[-1]
    assert {(job.incumbent, job.incumbent_bpb) for job in base} == {("", 0.0)}
    assert candidate.source != SOURCE and candidate.incumbent == base[0].code != candidate.code != ""
    assert candidate.incumbent_bpb == pytest.approx(fmean({job.run: 2.0 + job.seed % 100 * 1e-5 for job in base}.values()))
    push(world, "trainer/train.py", SOURCE + "# by hand\n")
    until(world, view, e.Adopted, count=2)
    pushed = [job for job in jobs if job.source == SOURCE + "# by hand\n"]
    assert {(job.incumbent, job.incumbent_bpb) for job in pushed} == {("", 0.0)}


def test_what_merges_meanwhile_changes_no_run_that_is_under_way() -> None:
    """A run is compared with what its candidate stands on, from its first poll to its last, whatever the tip is by then."""
    told: dict[str, set[str]] = {}
    polls: dict[str, int] = {}

    def script(job: Job) -> Result:
        told.setdefault(job.run, set()).add(job.incumbent)
        polls[job.run] = polls.get(job.run, 0) + 1
        if polls[job.run] < 2 + 7 * (job.seed % 2):  # some take long
            return Running(phase="training")
        better = sum(int(line.split()[2]) for line in job.source.splitlines())
        return measurement(job, val_bpb=9.0 - 0.1 * better + job.seed % 100 * 1e-5)

    world = replace(memory_world(lambda source: 2.0), runner=ScriptedRunner(script))
    run(world, start(world, 8, width=3))
    merged = [event for event in world.log.read()[0] if isinstance(event, e.Merged)]
    assert merged and {len(names) for names in told.values()} == {1}, told
