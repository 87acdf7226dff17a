"""How much compute scoring may take: what a campaign asks of the judge, from what the incumbent took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.loop import run
from bot.runs import SCORING_FACTOR, SCORING_FLOOR
from runners import Job
from runners.scripted import Result, ScriptedRunner, measurement
from tests.worlds import SOURCE, memory_world, start


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
