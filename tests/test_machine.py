"""The machine under any luck: crashes around every deed, delays, losses, voids, second loops, pushes, vetoes, stops.

`Schedules` draws what happens; after every event the invariants are checked, and at the end the whole history is held
against an oracle that knows nothing of the state: the log's events, the repository's trees and the runs that were begun.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot import actions as a
from bot import decide as d
from bot import events as e
from bot.act import act
from bot.actions import Action
from bot.fold import fold
from bot.loop import View, append, refresh, step
from bot.state import VERDICTS, Campaign, Stage
from bot.world import World
from runners import Outcome
from runners.scripted import unit
from tests.worlds import SOURCE, TRAIN, Knobs, Luck, memory_world, push, start

ENOUGH = 4000  # looks after which a campaign of at most 6 must have ended


class Killed(Exception):
    """kill -9, for a loop in memory."""


def die_before(world: World, c: Campaign, action: Action) -> e.Event | None:
    """Killed before the first deed that changes anything."""
    if isinstance(action, a.Look | a.Poll):
        return act(world, c, action)
    raise Killed


def die_after(world: World, c: Campaign, action: Action) -> e.Event | None:
    """Killed between a deed and its event."""
    if act(world, c, action) is not None:
        raise Killed
    return None


def luck_of(world: World) -> Luck:
    return world.runner.script  # type: ignore[attr-defined,no-any-return]


def quality_of(salt: int, crashes: int) -> object:
    """Each source has its own true score, some a failure."""

    def quality(source: str) -> float | Outcome:
        u = unit(f"{salt}{source}")
        if source != SOURCE and u * 100 < crashes:
            return (Outcome.CRASH, Outcome.NAN, Outcome.OOM, Outcome.TIMEOUT, Outcome.INVALID)[int(u * 1e6) % 5]
        return 2.0 + 0.2 * unit(f"{source}{salt}")

    return quality


class Schedules(RuleBasedStateMachine):
    """Anything that can happen to one campaign."""

    @initialize(
        salt=st.integers(0, 10**6), crashes=st.integers(0, 40), n=st.integers(1, 6), width=st.integers(1, 4),
        delays=st.lists(st.integers(0, 5), max_size=40),
        losses=st.lists(st.sampled_from(["", "", "", "lost", "void"]), max_size=40),
        mode=st.sampled_from(["pairs", "stack"]), mends=st.booleans(),
    )  # fmt: skip
    def begin(
        self, salt: int, crashes: int, n: int, width: int, delays: list[int], losses: list[str], mode: str, mends: bool
    ) -> None:
        self.world = memory_world(quality_of(salt, crashes))  # type: ignore[arg-type]
        self.world = dataclasses.replace(self.world, mender=Knobs() if mends else None)
        luck_of(self.world).delays, luck_of(self.world).losses = delays, losses
        self.n, self.width, self.stopped, self.pushes = n, width, False, 0
        self.view = start(self.world, n, width=width, mode=mode)
        self.watch = View()  # a third pair of eyes that never acts

    def campaign(self) -> Campaign:
        return next(iter(refresh(self.world, self.watch).campaigns.values()))

    def kill(self, deed: object) -> None:
        """A loop dies; the next one knows nothing but the log."""
        try:
            step(self.world, self.view, deed)  # type: ignore[arg-type]
        except Killed:
            self.view = View()
            self.world = dataclasses.replace(self.world, progress={})

    @rule(times=st.integers(1, 25))
    def look(self, times: int) -> None:
        for _ in range(times):
            step(self.world, self.view)

    @rule()
    def killed_before(self) -> None:
        self.kill(die_before)

    @rule()
    def killed_after(self) -> None:
        self.kill(die_after)

    @rule()
    def a_second_loop_looks_at_the_same_moment(self) -> None:
        other = View()
        refresh(self.world, other)
        step(self.world, self.view)
        for action in [x for c in [other.state.active] if c for x in d.decide(c, self.world.now())]:
            assert other.state.active is not None
            event = act(self.world, other.state.active, action)
            if event is not None:
                append(self.world, other, event)
                break

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.world.sleep(seconds)

    @precondition(lambda self: self.pushes < 2)
    @rule(touch=st.booleans())
    def a_person_pushes(self, touch: bool) -> None:
        self.pushes += 1
        tip = self.world.forge.tip()
        path, text = ("notes.md", f"note {self.pushes}\n")
        if touch:
            path, text = TRAIN, (self.world.code.read(tip, TRAIN) or "") + f"EXTRA_{self.pushes} = 1\n"
        push(self.world, path, text)

    @rule(pick=st.integers(0, 10))
    def a_person_closes_a_pull_request(self, pick: int) -> None:
        pulls = [x.pull for x in self.campaign().live.values() if x.pull is not None]
        if pulls:
            self.world.forge.close_as(pulls[pick % len(pulls)], "a person")  # type: ignore[attr-defined]

    @precondition(lambda self: not self.stopped)
    @rule(really=st.integers(0, 3))
    def a_person_stops_it(self, really: int) -> None:
        if really == 0:
            self.stopped = True
            view = View()
            if (c := refresh(self.world, view).active) is not None:
                self.world.log.append(e.StopRequested(campaign=c.name, at=self.world.now(), by="a person"), view.position)

    @rule()
    def a_person_resumes_it(self) -> None:
        view = View()
        c = refresh(self.world, view).active
        if c is not None and c.paused:
            self.world.log.append(e.Resumed(campaign=c.name, at=self.world.now(), by="a person"), view.position)

    @invariant()
    def width_and_budget_hold(self) -> None:
        """Never more runs in flight than allowed, nor more candidates than may still be judged."""
        if not hasattr(self, "world"):
            return
        c = self.campaign()
        assert sum(1 for x in c.live.values() if x.flight) <= self.width
        assert c.settled + sum(1 for x in c.live.values() if x.edit) <= self.n

    def teardown(self) -> None:
        if hasattr(self, "world"):
            finish(self.world, self.view)
            check_history(self.world, self.n, self.width)


def finish(world: World, view: View) -> None:
    """Go on, resuming where it pauses, until the campaign has ended."""
    for _ in range(ENOUGH):
        c = refresh(world, view).active
        if c is None:
            return
        if not step(world, view):
            if c.paused and not any(x.flight for x in c.live.values()):
                world.log.append(e.Resumed(campaign=c.name, at=world.now(), by="a person"), view.position)
            world.sleep(0.2)
    raise AssertionError(f"not ended after {ENOUGH} looks: {c.name}, {[(x.n, x.stage) for x in c.live.values()]}")


def check_history(world: World, n: int, width: int) -> None:
    """What must be true of any finished campaign."""
    happened = world.log.read()[0]
    c = next(iter(fold(happened).campaigns.values()))
    assert c.ended is not None and not c.live
    closed = Counter(x.why for x in c.candidates.values() if x.edit)
    judged = closed["merged"] + sum(closed[why] for why in VERDICTS)
    assert judged == c.settled <= n
    if c.ended.why == "done":
        assert judged == n
    check_pulls(world, c)
    for event in happened:
        if isinstance(event, e.Merged):
            check_merge(world, happened, event)


def check_pulls(world: World, c: Campaign) -> None:
    """One pull request for each candidate that was opened, in the state that the log says."""
    opened = {x.pull: x for x in c.candidates.values() if x.pull is not None}
    pulls = world.forge.pulls()  # type: ignore[attr-defined]
    assert set(opened) <= {p.number for p in pulls} and len({p.branch for p in pulls}) == len(pulls), "none lost, none twice"
    assert not [ref for ref in world.code.refs("refs/heads/autoresearch") if not ref.endswith("/log")], "no branch left"  # type: ignore[attr-defined]
    for pull in pulls:
        merged = pull.number in opened and opened[pull.number].stage is Stage.MERGED
        assert pull.state == ("merged" if merged else "closed"), f"pull request {pull.number} of {opened.get(pull.number)}"
        assert pull.checks and pull.checks[-1].head == pull.head, "a check on the last head"
        assert (pull.checks[-1].conclusion == "success") == merged


def check_merge(world: World, happened: list[e.Event], merged: e.Merged) -> None:
    """What landed is what was measured, on the tip that it landed on."""
    before = happened[: happened.index(merged)]
    heads = [x for x in before if isinstance(x, e.Opened | e.Rebased | e.Repaired) and x.n == merged.n]
    tips = [x for x in before if isinstance(x, e.BaseSeen | e.Merged | e.TipMoved)]
    head, tip = heads[-1], tips[-1]
    assert world.code.guard_of(merged.sha) == world.code.guard_of(head.head), "the merged tree is the measured tree"
    assert world.code.guard_of(head.base) == world.code.guard_of(tip.sha), "measured, or accepted, on what it lands on"
    assert world.code.read(merged.sha, "notes.md") == world.code.read(tip.sha, "notes.md"), "nothing of a person is lost"
    since = before[before.index(head) :]
    if any(isinstance(x, e.Accepted) and x.n == merged.n for x in since):
        check_certified(world, before, merged)
    else:
        check_pairs(world, since, merged, head.head, tip.sha)


def check_pairs(world: World, since: list[e.Event], merged: e.Merged, head: str, tip: str) -> None:
    """A merge by pairs rests on a screening run and at least one pair, all since the last head."""
    begun = {x.run: x for x in since if isinstance(x, e.MeasureStarted) and x.n == merged.n}
    scored = [begun[x.run] for x in since if isinstance(x, e.Measured) and x.run in begun and x.val_bpb is not None]
    own = [x for x in scored if x.head == head]
    others = [x for x in scored if x.head != head]
    assert len(own) >= 2 and len(others) >= 1, "a screening run and at least one pair, all since the last head"
    assert all(world.code.guard_of(x.head) == world.code.guard_of(tip) for x in others), "pairs with the tip"


def check_certified(world: World, before: list[e.Event], merged: e.Merged) -> None:
    """A merge from the stack rests on a certification of the whole stack, which holds this candidate's code."""
    asked = next(x for x in reversed(before) if isinstance(x, e.ComparisonOpened) and x.what == "certify")
    said = next(x for x in reversed(before) if isinstance(x, e.Compared) and x.n == asked.n)
    accepted = [x.n for x in before if isinstance(x, e.Accepted)]
    assert said.keep is True and said.pairs >= 1 and accepted.index(merged.n) <= accepted.index(asked.right)
    top = [x for x in before if isinstance(x, e.Opened | e.Rebased | e.Repaired) and x.n == asked.right][-1]
    begun = [x for x in before if isinstance(x, e.MeasureStarted) and x.n == asked.n]
    assert {x.head for x in begun if x.subject == asked.right} == {top.head}, "what was certified is the head of the stack"


TestSchedules = pytest.mark.timeout(300)(Schedules.TestCase)
TestSchedules.settings = settings(
    max_examples=500, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
