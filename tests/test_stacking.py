"""Mode stack, walk by walk: what is accepted provisionally is merged only when the whole of it is certified."""

from __future__ import annotations

import dataclasses

import pytest

from bot import events as e
from bot.act import act
from bot.actions import Action
from bot.loop import View, run, step
from bot.propose import Brief, NoIdea
from bot.state import Campaign, Stage
from bot.world import World
from evaluator import gate
from runners import Job, Running
from runners.scripted import Result
from tests.test_loop import better, ended, of, take_time
from tests.test_machine import Killed, check_history, finish
from tests.worlds import SOURCE, TRAIN, memory_world, push, start, until


def slightly(source: str) -> float:
    """Steps too small for a certification to be due at once."""
    return 3.0 - 0.03 * sum(int(line.split()[2]) for line in source.splitlines())


def test_winners_are_stacked_and_certified_together() -> None:
    """Accepted one on top of the other, certified once in pairs against the default branch, and merged in order."""
    world = memory_world(slightly)
    run(world, start(world, 4, mode="stack"))
    c = ended(world)
    assert c.counts == {"merged": 4} and c.ended is not None and c.ended.why == "done"
    assert slightly(world.code.read(world.forge.tip(), TRAIN) or "") == pytest.approx(2.88)
    assert [x.n for x in of(world, e.Merged)] == [x.n for x in of(world, e.Accepted)]
    certified = [x for x in of(world, e.Compared) if x.keep]
    assert certified and len(certified) < 4, "not one by one"
    check_history(world, 4, 1)


@pytest.mark.parametrize(
    ("nothing", "why"),
    [
        (NoIdea(reason="3 of 3 dollars are spent", halt="money"), "money"),
        (NoIdea(reason="all was tried", exhausted=True), "exhausted"),
        (NoIdea(reason="nothing comes to mind"), "refusals"),
    ],
)
def test_a_stack_that_nothing_more_is_proposed_for_is_certified(nothing: NoIdea, why: str) -> None:
    """Out of money, of ideas or of patience: what was accepted is certified and merged, and the campaign ends."""
    world = memory_world(slightly)
    view = start(world, 9, mode="stack", rule="refusals: 3")
    until(world, view, e.Accepted, 2)
    run(dataclasses.replace(world, proposer=Mute(answer=nothing)), view)
    c = ended(world)
    assert c.ended is not None and c.ended.why == why
    assert [x.n for x in of(world, e.Merged)] == [x.n for x in of(world, e.Accepted)] != []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mute:
    """A proposer with nothing to propose."""

    answer: NoIdea
    name: str = "mute"

    def propose(self, _: Brief) -> NoIdea:
        return self.answer


def test_nothing_lands_before_it_is_certified() -> None:
    """While candidates are only provisional the default branch stays as it was."""
    world = memory_world(better)
    view = start(world, 4, mode="stack")
    while not of(world, e.Compared):
        assert not of(world, e.Merged) and world.code.read(world.forge.tip(), TRAIN) == SOURCE
        step(world, view)
    assert of(world, e.Accepted)


def test_a_stack_of_luck_is_rolled_back() -> None:
    """What looked better at its first run and is not in fresh pairs is closed, newest first; then it goes on from before."""
    world = memory_world(lambda source: 2.0)
    plain = world.runner.script  # type: ignore[attr-defined]
    begun: dict[str, int] = {}

    def script(job: Job) -> Result:
        found = plain(job)
        if isinstance(found, Running) or job.source == SOURCE:
            return found  # type: ignore[no-any-return]
        begun.setdefault(job.commit, 0)
        begun[job.commit] += 1
        lucky = {"val_bpb": 1.9} if begun[job.commit] == 1 else {}
        return dataclasses.replace(found, **lucky)  # type: ignore[type-var]

    world.runner.script = script  # type: ignore[attr-defined]
    run(world, start(world, 3, mode="stack"))
    c = ended(world)
    assert c.counts == {"worse": 3} and not of(world, e.Merged)
    assert world.code.read(world.forge.tip(), TRAIN) == SOURCE
    accepted = {x.n for x in of(world, e.Accepted)}
    closed = [x.n for x in of(world, e.Closed) if x.n in accepted and "rolled back" in x.reason]
    assert closed and c.tip == 0
    check_history(world, 3, 1)


def test_a_veto_takes_down_what_stands_on_it() -> None:
    """A person who closes the pull request of a provisional candidate gets rid of it and of what was built on it."""
    world = memory_world(slightly)
    take_time(world)
    view = start(world, 4, mode="stack")
    until(world, view, e.Accepted, 2)
    first = of(world, e.Accepted)[0].n
    pull = next(x.pull for x in of(world, e.Opened) if x.n == first)
    world.forge.close_as(pull, "ada")  # type: ignore[attr-defined]
    finish(world, view)
    c = ended(world)
    assert c.candidates[first].why == "vetoed" and c.settled == 4
    check_history(world, 4, 1)


def test_a_push_under_the_stack_gives_it_up() -> None:
    """When a person changes what the stack stands on, the stack is closed as stale and the campaign goes on on the new base."""
    world = memory_world(slightly)
    take_time(world)
    view = start(world, 4, mode="stack")
    until(world, view, e.Accepted)
    push(world, TRAIN, SOURCE + "EXTRA = 0  # by a person\n")
    finish(world, view)
    c = ended(world)
    assert c.counts.get("stale", 0) >= 1 and c.settled == 4
    assert "EXTRA" in (world.code.read(world.forge.tip(), TRAIN) or "")
    check_history(world, 4, 1)


def test_a_stop_closes_what_is_only_provisional() -> None:
    """A person's stop leaves nothing half done: what was accepted and not certified is closed as stopped, nothing is merged."""
    world = memory_world(slightly)
    take_time(world)
    view = start(world, 6, mode="stack")
    until(world, view, e.Accepted)
    world.log.append(e.StopRequested(campaign="1", at=world.now(), by="a person"), world.log.read()[1])
    finish(world, view)
    c = ended(world)
    assert c.ended is not None and c.ended.why == "stopped" and not of(world, e.Merged)
    assert all(x.stage is not Stage.ACCEPTED for x in c.candidates.values())


def test_what_was_only_assumed_is_no_noise() -> None:
    """The part of a gain that was not believed does not pass for noise: sigma stays what single runs show (here 0.003)."""
    world = memory_world(better)
    run(world, start(world, 6, mode="stack"))
    c = ended(world)
    assert gate.sigma(c.ss, c.df, c.settings.gate)[0] < 0.012 and c.counts == {"merged": 6}


def test_a_certified_head_is_judged_by_its_own_runs() -> None:
    """When fresh runs of a certified head contradict the cautious prediction, the next candidate is compared with these runs."""
    world = memory_world(better)
    run(world, start(world, 2, mode="stack"))
    c = ended(world)
    merged = c.merged[-1]
    assert merged.doubted and merged.baseline == merged.own[merged.assumed :]
    assert merged.mean == pytest.approx(2.8, abs=0.02)


def test_a_merge_from_the_stack_that_was_killed_before_it_was_written_down() -> None:
    """Healed at the next look, it carries the same reason as if nothing had happened: the certification, not the first run."""
    world = memory_world(slightly)
    view = start(world, 3, mode="stack")

    def dies_once(world: World, c: Campaign, action: Action) -> e.Event | None:
        event = act(world, c, action)
        if isinstance(event, e.Merged) and not of(world, e.Merged):
            raise Killed
        return event

    with pytest.raises(Killed):
        run(world, view, dies_once)
    run(world, View())
    first, *others = of(world, e.Merged)
    assert "certified" in first.reason and all(x.reason == first.reason for x in others)
