"""Measurements as workflow runs: what a job's file means, runs that no machine takes up, and how they are found again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from bot import events as e
from bot.forge.fleet import LISTED, TITLE, Workflows
from bot.loop import refresh
from bot.online import QUEUE_SECONDS, wake
from bot.world import World
from runners import BadResult, Job, Lost, to_json
from runners.actions import ActionsRunner
from runners.scripted import measurement
from tests.worlds import memory_world, start

JOB = Job(run="1.1-0.1", commit="c", source="", seed=1, nonce="n", budget_seconds=5, startup_seconds=9, deadline=9e9)
RESULT = to_json(measurement(JOB, val_bpb=2.0))


@dataclass
class Listed:
    """Workflow runs as GitHub lists them; each begins in the same way."""

    begins: str
    runs: dict[str, str] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def dispatch(self, run: str) -> None:
        self.runs[run] = self.begins

    def known(self) -> Mapping[str, str]:
        return dict(self.runs)

    def cancel(self, run: str) -> None:
        self.cancelled.append(run)


def polled(tmp_path: Path, text: str) -> object:
    path = tmp_path / "result.json"
    path.write_text(text)
    return ActionsRunner(fleet=Listed("queued"), results={JOB.run: path}).poll(JOB)


@pytest.mark.parametrize("text", ["", "\n", RESULT[:-1], RESULT[:40]])
def test_a_result_that_was_cut_off_is_no_verdict(tmp_path: Path, text: str) -> None:
    """A file that a full disk left empty or short says nothing of the candidate: the run is lost, with a reason."""
    seen = polled(tmp_path, text)
    assert isinstance(seen, Lost) and "is not JSON" in seen.reason and "disk" in seen.reason


WRONG = json.dumps(json.loads(RESULT) | {"val_bpb": -1})


@pytest.mark.parametrize("text", ["{}", "[1]", RESULT.replace('"n"', '"another"'), WRONG])
def test_a_result_that_is_wrong_is_still_refused(tmp_path: Path, text: str) -> None:
    """Whole JSON that is not this run's result is one that somebody made."""
    with pytest.raises(BadResult):
        polled(tmp_path, text)
    assert polled(tmp_path, RESULT) == measurement(JOB, val_bpb=2.0)


def woken(world: World, fleet: Listed) -> Counter[str]:
    """What has happened after one more wake-up."""
    wake(replace(world, runner=ActionsRunner(fleet=fleet)))
    return Counter(type(event).__name__ for event in world.log.read()[0])


def test_a_run_that_nobody_takes_pauses_at_once() -> None:
    """Six hours in the queue: the campaign pauses after that one run, says why, takes the run back, and `resume` asks anew."""
    world, fleet = replace(memory_world(lambda source: 2.0), queue_seconds=QUEUE_SECONDS), Listed("queued")
    view = start(world, 1, issue=1)
    woken(world, fleet)
    world.sleep(QUEUE_SECONDS - 60)
    assert woken(world, fleet)["Paused"] == 0
    world.sleep(3600)
    assert woken(world, fleet)["Paused"] == 1
    refresh(world, view)
    c = view.state.active
    assert c is not None and "no machine with the label gpu took it for 6 hours" in c.paused and "doctor --github" in c.paused
    asked = len(fleet.runs)
    assert woken(world, fleet)["RunLost"] == asked and fleet.cancelled == list(fleet.runs)
    world.log.append(e.Resumed(campaign=c.name, at=world.now(), by="a person"), world.log.read()[1])
    assert woken(world, fleet)["RunLost"] == asked and len(fleet.runs) > asked


def test_a_run_that_hangs_is_lost_without_a_pause() -> None:
    """A machine took it and said nothing more: that is done again, as ever."""
    world, fleet = replace(memory_world(lambda source: 2.0), queue_seconds=QUEUE_SECONDS), Listed("in_progress")
    start(world, 1)
    woken(world, fleet)
    world.sleep(QUEUE_SECONDS + 3600)
    happened = woken(world, fleet)
    assert (happened["Paused"], happened["RunLost"]) == (0, 1)


class Pages:
    """The list of workflow runs, newest first, as `Rest` reads it; counts what was asked."""

    repo, name, asked = "/repos/o/r", "o/r", 0

    def __init__(self, states: list[str]) -> None:
        runs = [{"display_title": f"{TITLE}{k}", "status": state, "id": k} for k, state in enumerate(states)]
        self.pages = [runs[at : at + LISTED] for at in range(0, len(runs), LISTED)]

    def get(self, path: str, *, page: int = 1, **parameters: Any) -> Any:
        self.asked += 1
        return {"workflow_runs": self.pages[page - 1] if page <= len(self.pages) else []}


def test_many_runs_under_way_are_all_found() -> None:
    """More than a page of them: none is taken for one that was never asked for. A list of old ones costs one request."""
    for states, found, asked in ((["queued"] * 130 + ["completed"] * 900, 200, 2), (["completed"] * 900, 100, 1)):
        pages = Pages(states)
        known = Workflows(rest=cast(Any, pages), branch="main").known()
        assert (len(known), pages.asked) == (found, asked)
        assert list(known.values()).count("queued") == states.count("queued")
