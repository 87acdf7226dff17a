"""The loop, walk by walk: each rule of the machine that a person relies on, in a world in memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from bot import events as e
from bot.act import act
from bot.actions import Action, Merge
from bot.decide import decide
from bot.fold import fold
from bot.forge import Landed, NotMerged, PullState
from bot.loop import View, append, refresh, run, step
from bot.propose import Brief, Idea, NoIdea
from bot.propose.review import Approved, Rejected, review
from bot.proposing import Memory
from bot.spending import Spent
from bot.state import STEPS, Campaign, Stage, Unlisted, check_listed
from bot.world import World
from runners import Job, Outcome, Running
from runners.scripted import Result
from tests.test_machine import check_history, finish
from tests.worlds import SOURCE, TRAIN, memory_world, push, start


def better(source: str) -> float:
    """Every step up of any knob is worth 0.1."""
    return 3.0 - 0.1 * sum(int(line.split()[2]) for line in source.splitlines())


def same(source: str) -> float:
    return 2.0


def ended(world: World) -> Campaign:
    return next(iter(fold(world.log.read()[0]).campaigns.values()))


def of(world: World, kind: type[e.Event]) -> list[Any]:
    return [x for x in world.log.read()[0] if isinstance(x, kind)]


def test_winners_are_merged_one_on_top_of_the_other() -> None:
    """When every edit helps, all N are merged, each measured on the one before, and the sum of all lands."""
    world = memory_world(better)
    run(world, start(world, 4))
    c = ended(world)
    assert c.ended and c.ended.why == "done" and c.counts == {"merged": 4}
    assert better(world.code.read(world.forge.tip(), TRAIN) or "") == pytest.approx(2.6)
    check_history(world, 4, 1)


def test_losers_are_closed_with_a_number_and_a_reason() -> None:
    """When no edit helps nothing is merged, and each pull request says why in words and numbers."""
    world = memory_world(lambda source: 2.0 if source == SOURCE else 2.25)
    run(world, start(world, 3))
    c = ended(world)
    assert c.counts == {"worse": 3} and world.code.read(world.forge.tip(), TRAIN) == SOURCE
    for x in c.candidates.values():
        if x.pull is not None:
            pull = world.forge.pull(x.pull)
            assert pull.state is PullState.CLOSED and "sigma" in pull.comments[-1] and "2.2" in pull.checks[-1].title


@pytest.mark.parametrize("outcome", [Outcome.CRASH, Outcome.OOM, Outcome.NAN, Outcome.TIMEOUT, Outcome.INVALID])
def test_a_failed_run_has_no_number(outcome: Outcome) -> None:
    """A crash, out of memory, NaN, time-out or invalid result settles its candidate without a number (case A3)."""
    world = memory_world(lambda source: 2.0 if source == SOURCE else outcome)
    run(world, start(world, 2))
    c = ended(world)
    assert c.counts == {str(outcome): 2} and c.candidates[0].mean == pytest.approx(2.0, abs=0.01)
    assert all(x.mean is None for x in c.candidates.values() if not x.base)
    assert all(world.forge.pull(x.pull).checks[-1].conclusion != "success" for x in c.candidates.values() if x.pull)


def test_a_base_that_crashes_ends_the_campaign() -> None:
    """Nothing can be compared with a base that does not run: the campaign says so instead of judging anything."""
    world = memory_world(lambda source: Outcome.CRASH)
    run(world, start(world, 3))
    c = ended(world)
    assert c.ended and c.ended.why == "base" and "crash" in c.ended.reason and c.settled == 0


def test_the_tree_guard() -> None:
    """A push that changes what is measured, in the instant before the merge, is never merged over (design: Merging)."""
    world = memory_world(better)
    view = start(world, 2)
    pushed = False

    def deed(world: World, c: Campaign, action: Action) -> e.Event | None:
        nonlocal pushed
        if isinstance(action, Merge) and not pushed:
            pushed = True
            tip = world.forge.tip()
            text = (world.code.read(tip, TRAIN) or "") + "EXTRA = 9  # by a person\n"
            push(world, TRAIN, text)
        return act(world, c, action)

    run(world, view, deed)
    assert pushed and len(of(world, e.BaseSeen)) == 2
    assert "EXTRA" in (world.code.read(world.forge.tip(), TRAIN) or "")
    check_history(world, 2, 1)


def test_a_push_that_touches_nothing_measured_costs_no_run() -> None:
    """A person's push of a note moves the tip, and the winner still lands on it without being measured again."""
    world = memory_world(better)
    view = start(world, 1)
    while not of(world, e.Adopted):
        step(world, view)
    push(world, "notes.md", "hello\n")
    run(world, view)
    assert len(of(world, e.TipMoved)) == 1 and len(of(world, e.BaseSeen)) == 1 and not of(world, e.Rebased)
    assert world.code.read(world.forge.tip(), "notes.md") == "hello\n" and ended(world).counts == {"merged": 1}
    check_history(world, 1, 1)


def two_winners_at_once() -> tuple[World, View]:
    """Two candidates, both better, measured side by side on the same base until both could be merged."""
    world = memory_world(better)
    take_time(world)
    return world, start(world, 2, width=2)


def take_time(world: World, polls: int = 3) -> None:
    """Runs are not over at once: other things can happen meanwhile."""
    world.runner.script.delays = [polls] * 1000  # type: ignore[attr-defined]


@pytest.mark.parametrize(("issue", "most"), [(0, 2), (7, 3)], ids=["on this machine", "on GitHub's runners"])
def test_one_measurement_waits_in_the_queue_of_the_runners(issue: int, most: int) -> None:
    """As many run as there are devices; on an issue one more is asked for, so that no runner waits for a verdict."""
    world = memory_world(better)
    take_time(world)
    view, seen = start(world, 6, width=2, issue=issue), 0
    while (c := refresh(world, view).active) is not None:
        seen = max(seen, sum(1 for x in c.live.values() if x.flight))
        if not step(world, view):
            world.sleep(0.2)
    assert seen == most and ended(world).counts["merged"] == 6


def test_the_fold_after_each_event() -> None:
    """Of two winners of one batch only one lands on the base that both were measured on."""
    world, view = two_winners_at_once()
    run(world, view)
    assert ended(world).counts == {"merged": 2}
    check_history(world, 2, 2)


def test_a_loop_that_does_not_fold_after_each_event_is_caught() -> None:
    """The check of the history is worth something: a loop that acts on one look twice trips over it or over the forge."""
    world, view = two_winners_at_once()

    def all_at_once(world: World, view: View) -> None:
        c = refresh(world, view).active
        assert c is not None
        for action in decide(c, world.now()):
            event = act(world, c, action)
            if event is not None:
                view.position = world.log.append(event, view.position)

    def whole_campaign() -> None:
        for _ in range(500):
            if refresh(world, view).active is None:
                break
            all_at_once(world, view)
        check_history(world, 2, 2)

    with pytest.raises((Unlisted, AssertionError)):
        whole_campaign()


def test_the_remeasurement() -> None:
    """A candidate that looked better on the old base is re-based and measured again before it may merge."""
    world, view = two_winners_at_once()
    run(world, view)
    rebased = of(world, e.Rebased)
    assert rebased, "the second of the two winners moved to the new tip"
    n, history = rebased[-1].n, world.log.read()[0]
    after = history[history.index(rebased[-1]) :]
    heads = [x.head for x in after if isinstance(x, e.MeasureStarted) and x.n == n and x.subject == n]
    assert len(heads) >= 2 and set(heads) == {rebased[-1].head}
    runs = [x for x in after if isinstance(x, e.MeasureStarted) and x.n == n]
    assert len(ended(world).candidates[n].pairs) == (len(runs) - 1) // 2, "no pair with the old base counts"


def test_a_candidate_that_no_longer_applies_is_stale() -> None:
    """Two edits of the same line: when one lands the other is closed as stale, and is no experiment of the N."""
    world = memory_world(better)

    class SameLine:
        name = "same line"

        def propose(self, brief: Any) -> Any:


            line = next(x for x in brief.source.splitlines() if x.startswith("KNOB_0"))
            value = int(line.split()[2]) + 1 + len(brief.tried)
            edit = e.Edit(old=line, new=f"KNOB_0 = {value}  # made up")
            return Idea(title="knob 0", hypothesis="", edits=(edit,))

    world = dataclasses.replace(world, proposer=SameLine())
    take_time(world)
    run(world, start(world, 2))
    c = ended(world)
    assert c.settled == 2 and c.counts.get("stale", 0) >= 1 and c.withdrawn == c.counts["stale"]
    check_history(world, 2, 1)


def test_a_stop_frees_the_machine_at_the_next_look() -> None:
    """`stop` while a run is in flight cancels that run and closes its candidate as stopped (case A13)."""
    world = memory_world(better)
    world.runner.script.delays = [10**9] * 50  # type: ignore[attr-defined]
    view = start(world, 2)
    while not of(world, e.MeasureStarted):
        step(world, view)
    step(world, view)
    refresh(world, view)
    world.log.append(e.StopRequested(campaign="1", at=world.now(), by="a person"), view.position)
    for _ in range(6):
        step(world, view)
    c = ended(world)
    assert c.ended and c.ended.why == "stopped"
    assert world.runner.cancelled == {of(world, e.MeasureStarted)[-1].run}  # type: ignore[attr-defined]


def test_a_person_who_closes_a_pull_request_vetoes_it() -> None:
    """A closed pull request frees its run, is never merged, and another candidate takes its place in the N (case A13)."""
    world = memory_world(better)
    view = start(world, 2)
    while not (pulls := of(world, e.Opened)):
        step(world, view)
    world.forge.close_as(pulls[0].pull, "ada")  # type: ignore[attr-defined]
    run(world, view)
    c = ended(world)
    assert c.candidates[pulls[0].n].why == "vetoed" and "ada" in c.candidates[pulls[0].n].reason
    assert c.counts["merged"] == 2 and c.counts["vetoed"] == 1


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("target: 2.75", "target"),
        ("hours: 0.001", "hours"),
        ("patience: 2", "patience"),
        ("crashes: 2", "crashes"),
        ("refusals: 3", "refusals"),
    ],
)
def test_stop_rules(rule: str, why: str) -> None:
    """Each stop rule ends the campaign before N, with its own word and a sentence (case A15)."""

    def quality(source: str) -> float | Outcome:
        if why == "target":
            return better(source)
        return 2.0 if source == SOURCE else Outcome.CRASH if why == "crashes" else 2.3

    class Silent:
        name = "silent"

        def propose(self, brief: Any) -> Any:


            return NoIdea(reason="nothing comes to mind")

    world = memory_world(quality)
    if why == "refusals":
        world = dataclasses.replace(world, proposer=Silent())
    if why == "hours":
        take_time(world, 30)
    view = start(world, 50, rule=rule)
    run(world, view)
    c = ended(world)
    assert c.ended and c.ended.why == why and c.ended.reason and c.settled < 50


def test_refusals_end_a_campaign_only_after_what_is_under_way_is_judged() -> None:
    """With a run in flight no more is proposed than the rule allows, and the run is not thrown away."""
    world = memory_world(better)
    take_time(world, 30)
    knobs = world.proposer

    class Once:
        name = "once"

        def propose(self, brief: Brief) -> Idea | NoIdea:
            return NoIdea(reason="nothing comes to mind") if of(world, e.Proposed) else knobs.propose(brief)

    world = dataclasses.replace(world, proposer=Once())
    run(world, start(world, 9, width=2, rule="refusals: 3"))
    c = ended(world)
    assert c.ended and c.ended.why == "refusals" and c.counts == {"merged": 1}
    assert len(of(world, e.ProposalRefused)) == 3


def test_a_lost_run_is_done_again_with_the_same_seed() -> None:
    """A run whose process died is repeated: same k, same seed, next attempt, and N still means N (case A19)."""
    world = memory_world(same)
    world.runner.script.losses = ["", "lost", "", "lost", "lost", ""] * 3  # type: ignore[attr-defined]
    run(world, start(world, 3))
    started = of(world, e.MeasureStarted)
    for lost in of(world, e.RunLost):
        first, again = (x for x in started if x.k == next(y.k for y in started if y.run == lost.run) and x.attempt < 3), None
        seeds = {x.seed for x in first}
        assert len(seeds) == 1 and again is None
    assert of(world, e.RunLost) and ended(world).settled == 3


def test_three_void_runs_pause_the_campaign() -> None:
    """A machine that is too busy three times for the same run pauses the campaign with a sentence; resuming goes on."""
    world = memory_world(same)
    world.runner.script.losses = ["", "", "", "void", "void", "void"]  # type: ignore[attr-defined]
    view = start(world, 1)
    c = run(world, view)
    assert c is not None and "too busy" in c.paused
    world.log.append(e.Resumed(campaign="1", at=world.now(), by="a person"), refresh(world, view) and view.position)
    run(world, view)
    assert ended(world).settled == 1


def test_another_device_pauses_the_campaign() -> None:
    """A number from another machine is not compared: the campaign pauses and says which is which."""
    world = memory_world(same)
    plain = world.runner.script  # type: ignore[attr-defined]
    calls = iter(range(10**6))

    def script(job: Job) -> Result:
        found = plain(job)
        if isinstance(found, Running):
            return found
        return dataclasses.replace(found, fingerprint="A" if next(calls) < 2 else "B")  # type: ignore[type-var]

    world.runner.script = script  # type: ignore[attr-defined]
    c = run(world, start(world, 2))
    assert c is not None and "measured on A" in c.paused and "is B" in c.paused


def test_the_gpu_is_never_left_idle_for_paperwork() -> None:
    """While one candidate is measured the next one is proposed and open, so that its run can start at once."""
    world = memory_world(same)
    run(world, start(world, 5))
    history = world.log.read()[0]
    for a, b in itertools.pairwise(history):
        if isinstance(a, e.Measured) and isinstance(b, e.Closed | e.Proposed | e.Opened | e.Said):
            left = [x for x in history[history.index(b) :] if isinstance(x, e.MeasureStarted)]
            assert not left or left[0].n == 0, f"{type(b).__name__} before the next run"


def test_every_unlisted_step_is_refused_by_name() -> None:
    """Each cell of stages and events that STEPS does not list is refused with the names of both."""
    kinds = {kind for row in STEPS.values() for kind in row}
    refused = 0
    for stage in Stage:
        for kind in kinds - set(STEPS[stage]):
            with pytest.raises(Unlisted, match=f"{kind.__name__}.*{stage}"):
                check_listed("1", 4, stage, kind)
            refused += 1
    assert refused == len(Stage) * len(kinds) - sum(len(row) for row in STEPS.values())


def test_a_merge_answer_that_is_no_merge_closes_or_looks_again() -> None:
    """A conflict closes the candidate as stale with the forge's words; nothing is merged."""
    world = memory_world(better)

    class Conflicted:
        def __init__(self, forge: Any) -> None:
            self._forge = forge

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return getattr(self._forge, name)  # type: ignore[no-any-return]

        def merge(self, *args: Any, **kwargs: Any) -> Landed | NotMerged:
            return NotMerged(why="conflict", detail="both changed train.py")

    world = dataclasses.replace(world, forge=Conflicted(world.forge))
    view = start(world, 1)
    for _ in range(200):
        step(world, view)
        if of(world, e.Closed):
            break
    (closed,) = of(world, e.Closed)[:1]
    assert closed.why == "stale" and "both changed train.py" in closed.reason and not of(world, e.Merged)


def test_append_tells_when_somebody_was_first() -> None:
    """Of two loops that decided on the same log only one writes; the other looks again and loses nothing."""
    world = memory_world(same)
    view, other = start(world, 1), View()
    refresh(world, view)
    refresh(world, other)
    event = e.BaseSeen(campaign="1", at=world.now(), n=0, sha="a", guard="b", source="c")
    assert append(world, view, event) is True
    assert append(world, other, event) is False
    assert len(of(world, e.BaseSeen)) == 1
    finish(world, view)


def test_half_a_character_from_a_proposer_does_no_harm() -> None:
    """A lone surrogate in a title, which UTF-8 cannot hold, is replaced; the candidate goes its way."""
    world = memory_world(same)
    plain = world.proposer

    class Broken:
        name = "broken"

        def propose(self, brief: Any) -> Any:
            return dataclasses.replace(plain.propose(brief), title="half \ud83d of it", hypothesis="\udc00", tags=("\ud800",))  # type: ignore[type-var]

    world = dataclasses.replace(world, proposer=Broken())
    run(world, start(world, 1))
    assert ended(world).candidates[1].title == "half ? of it"


def test_what_cannot_be_checked_is_refused() -> None:
    """Code that breaks a check is a refusal with what it cost, and the campaign goes on with the next idea."""
    world, paid = memory_world(better), Spent(calls=1, usd=0.25)
    knobs = world.proposer

    class Paid:
        name = "paid"

        def propose(self, brief: Brief) -> Any:
            return dataclasses.replace(knobs.propose(brief), spent=paid)

    class Stumbling:
        name = "stumbling"
        looks = 0

        def review(self, *texts: Any, **facts: Any) -> Approved | Rejected:
            self.looks += 1
            return review(*texts, **facts) if self.looks > 1 else [][self.looks]

    world = dataclasses.replace(world, proposer=Paid(), reviewer=Stumbling())
    run(world, start(world, 1))
    (refused,) = of(world, e.ProposalRefused)
    assert refused.reason == "the bot could not check it: IndexError: list index out of range" and refused.spent == paid
    assert ended(world).counts == {"merged": 1}


def test_a_repeat_that_cannot_be_looked_for_is_told() -> None:
    """Asked by a proposer whether an edit is a repeat, an answer comes in any case."""
    memory = Memory(SOURCE, (None,), "1")  # type: ignore[arg-type]
    found = memory((e.Edit(old="KNOB_0 = 0", new="KNOB_0 = 1"),))
    assert found is not None and found.startswith("the bot could not check it: AttributeError")


@pytest.mark.parametrize(("wanted", "merged"), [("", 0), (", simpler: true, margin: 0.02", 2)])
def test_shorter_code_that_is_not_worse_is_kept_if_asked(wanted: str, merged: int) -> None:
    """With gate.simpler an edit that takes code away and measures the same is merged, with its own reason; without, it is not."""

    class Shortens:
        name = "shortens"

        def propose(self, brief: Any) -> Any:
            line = next(x for x in brief.source.splitlines() if x.startswith("EXTRA"))
            return Idea(title="less", hypothesis="", edits=(e.Edit(old=line + "\n", new=""),))

    world = memory_world(same, SOURCE + "".join(f"EXTRA_{k} = 1  # of no use\n" for k in range(4)))
    world = dataclasses.replace(world, proposer=Shortens())
    run(world, start(world, 2, gate=wanted, rule="refusals: 3"))
    c = ended(world)
    assert c.counts.get("merged", 0) == merged
    if merged:
        left = world.code.read(world.forge.tip(), TRAIN) or ""
        assert "EXTRA_0" not in left and "EXTRA_3" in left
        assert all("simpler" in x.reason for x in of(world, e.Merged))
