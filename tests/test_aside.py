"""While a model thinks, the loop goes on: a stop, a veto and results are seen at once. And whatever becomes of an answer, what it
cost is in the log, so that the cap holds.

In memory with models behind a real HTTP server, and as real processes on a laptop.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from bot import events as e
from bot.__main__ import main
from bot.aside import Aside, AtOnce
from bot.events import Edit
from bot.forge import ForgeError
from bot.git import GitError
from bot.log import MemoryLog, Position
from bot.loop import View, run, step
from bot.minds import Server as Models
from bot.minds import minds
from bot.online import PAUSES, wake
from bot.propose import Brief, Idea, NoIdea
from bot.propose.llm import Researcher
from bot.remote import Busy
from bot.report import status
from bot.spending import FREE, Closed, Meter, Spent
from bot.workspace import find
from bot.world import World
from runners import Job, Running
from runners.local import RunnerError
from runners.scripted import Result
from tests.laptop import PROGRAM, autoresearch, better, environment, machine, project
from tests.model_server import KEY, Reply, Server, chat, model, serving
from tests.test_llm import brief
from tests.test_rehearsal import CODE, MODEL
from tests.test_researcher import SOURCE, begin, campaign, edit, of, quality
from tests.worlds import Knobs, memory_world

ONE = Spent(calls=1, input=1000, output=100, usd=0.002)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def held(reply: Reply) -> tuple[Reply, Event]:
    """It comes once the event is set."""
    gate = Event()
    return replace(reply, held=gate), gate


def thinking(world: World, url: str, n: int, **settings: Any) -> tuple[World, View]:
    """A campaign whose models are asked beside its loop."""
    world, view = begin(world, url, n, **settings)
    meter, c = Meter(), view.state.campaigns["1"]
    mind = minds(c.settings, {"mutate": Knobs()}, Models(base_url=url, key=KEY), sleep=lambda seconds: None, meter=meter)
    return replace(world, proposer=mind.proposer, mender=mind.mender, reviewer=mind.reviewer, asked=Aside(meter)), view


def until(world: World, view: View, holds: Callable[[], object], patience: float = 30.0) -> None:
    """Look again and again, as the loop does."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, [type(event).__name__ for event in world.log.read()[0]]
        if not step(world, view):
            time.sleep(0.005)


# Beside the loop


def test_results_are_taken_while_a_model_thinks(server: Server) -> None:
    """The first candidate is measured and merged while the second is being proposed; that one is then put on the new tip."""
    second, gate = held(edit("B = 1", "B = 0.5"))
    server.will(edit("A = 1", "A = 2"), second)
    world, view = thinking(memory_world(quality, SOURCE), server.url, 2)
    world.runner.script.delays = [3] * 99  # type: ignore[attr-defined]
    until(world, view, lambda: of(world, e.Merged))
    assert len(server.asked) == 2 and len(of(world, e.Proposed)) == 1
    gate.set()
    until(world, view, lambda: view.state.campaigns["1"].ended)
    c = campaign(world)
    assert c.counts == {"merged": 2} and c.candidates[2].parent == 1 and c.spent.calls == 2
    assert world.asked.close() == FREE and not world.owed


def test_a_stop_is_seen_while_a_model_thinks(server: Server) -> None:
    """The measurement in flight is ended and the campaign too, though the server is silent; nothing is proposed afterwards."""
    second, gate = held(edit("B = 1", "B = 0.5"))
    server.will(edit("A = 1", "A = 2"), second)
    world, view = thinking(memory_world(quality, SOURCE), server.url, 2)
    world.runner.script.delays = [10**9] + [0] * 2  # type: ignore[attr-defined]
    until(world, view, lambda: len(server.asked) == 2 and any(x.flight for x in view.state.campaigns["1"].live.values()))
    world.log.append(e.StopRequested(campaign="1", at=world.now(), by="ada"), world.log.read()[1])
    until(world, view, lambda: view.state.campaigns["1"].ended, patience=3.0)
    c = campaign(world)
    assert c.ended and c.ended.why == "stopped" and c.candidates[1].why == "stopped"
    assert world.runner.cancelled == {of(world, e.MeasureStarted)[-1].run}  # type: ignore[attr-defined]
    owed = world.asked.close()
    assert (owed.calls, owed.guessed) == (1, 1) and owed.usd > 0.1, "what the call under way can cost at most"
    gate.set()


def test_a_veto_is_seen_while_a_model_thinks(server: Server) -> None:
    """A pull request that a person closes frees its machine before the answer is there."""
    second, gate = held(edit("B = 1", "B = 0.5"))
    server.will(edit("A = 1", "A = 2"), second, edit("A = 1", "A = 3"))
    world, view = thinking(memory_world(quality, SOURCE), server.url, 2)
    world.runner.script.delays = [0] * 99 + [10**9] + [0] * 2  # type: ignore[attr-defined]
    until(world, view, lambda: len(server.asked) == 2)
    world.forge.close_as(of(world, e.Opened)[0].pull, "ada")  # type: ignore[attr-defined]
    until(world, view, lambda: of(world, e.Closed), patience=3.0)
    assert of(world, e.Closed)[0].why == "vetoed" and len(of(world, e.Proposed)) == 1
    assert world.runner.cancelled == {"1-2.1"}  # type: ignore[attr-defined]
    gate.set()
    until(world, view, lambda: view.state.campaigns["1"].ended)
    assert campaign(world).counts == {"vetoed": 1, "merged": 2}


def test_a_mend_is_waited_for_by_nobody(server: Server) -> None:
    """A crash is mended beside the loop too; both questions have their own answers."""
    mend, gate = held(edit("A = 1 // 0", "A = 2"))
    server.will(edit("A = 1", "A = 1 // 0"), mend)
    world, view = thinking(memory_world(quality, SOURCE), server.url, 1)
    until(world, view, lambda: len(server.asked) == 2)
    assert not step(world, view)
    gate.set()
    until(world, view, lambda: view.state.campaigns["1"].ended)
    c = campaign(world)
    assert (c.counts, c.candidates[1].mended, c.spent.calls) == ({"merged": 1}, 1, 2) and world.asked.close() == FREE


def test_questions_are_asked_one_after_the_other() -> None:
    """A second one waits for the first, an answer waits to be taken, and each is given once."""
    asked, gate, begun = Aside(Meter()), Event(), list[str]()

    def ask(key: str, answer: str) -> str | None:
        def begin(owed: Spent) -> Callable[[], str]:
            begun.append(key)
            return lambda: answer if gate.wait(30) else ""

        return asked(key, begin)

    assert ask("a", "1") is None and ask("b", "2") is None and begun == ["a"]
    gate.set()
    got: dict[str, str] = {}
    for _ in range(2000):
        got |= {key: found for key in ("b", "a") if key not in got and (found := ask(key, key.upper()))}
        if len(got) == 2:
            break
        time.sleep(0.005)
    assert got == {"a": "1", "b": "B"} and begun == ["a", "b"]
    assert AtOnce()("a", lambda owed: lambda: 7) == 7 and AtOnce().close() == FREE


@pytest.mark.parametrize("asked", [Aside(Meter()), AtOnce()], ids=["aside", "at once"])
def test_an_answer_that_was_kept_is_given_without_asking(asked: Aside | AtOnce) -> None:
    """Once, and only to the question that it belongs to."""
    asked.keep("a", 7)
    begun: list[Spent] = []
    for key in ("a", "b"):
        assert asked(key, lambda owed: lambda: begun.append(owed)) == (7 if key == "a" else None)
    assert begun in ([], [FREE])


def test_what_a_question_raises_is_raised_where_it_is_taken() -> None:
    """A bug beside the loop is not lost in a thread."""
    asked = Aside(Meter())

    def begin(owed: Spent) -> Callable[[], str]:
        nothing: dict[str, str] = {}
        return lambda: nothing["no such thing"]

    def wait() -> None:
        for _ in range(2000):
            assert asked("a", begin) is None
            time.sleep(0.005)

    with pytest.raises(KeyError, match="no such thing"):
        wait()


def test_nobody_is_asked_after_the_end(server: Server) -> None:
    """A model that is to mend its answer is not asked again once nobody waits, so what is owed at the end is all there is."""
    first, gate = held(chat("Hm."))
    server.will(first, chat("never asked for"))
    meter = Meter()
    client, _ = model(server.url)
    client.meter, asked, raised = meter, Aside(meter), Event()

    def begin(owed: Spent) -> Callable[[], object]:
        def ask() -> object:
            try:
                return Researcher(model=client).propose(brief())
            except Closed:
                raised.set()
                raise

        return ask

    assert asked("a", begin) is None
    while not server.asked:
        time.sleep(0.005)
    owed = asked.close()
    gate.set()
    assert raised.wait(30) and len(server.asked) == 1
    assert owed.guessed == 1 and owed.usd > meter.most.usd, "it was counted at the most that it can have cost"


def big(old: str, new: str) -> Reply:
    """An answer that cost 0.161 dollars."""
    said: dict[str, Any] = json.loads(edit(old, new).body)
    return chat(said["choices"][0]["message"]["content"], usage=(1000, 16_000))


def test_the_cap_counts_answers_that_nobody_takes(server: Server) -> None:
    """A mend whose candidate was closed meanwhile is in no log yet, and the next question may not spend that money again."""
    mend, gate = held(big("A = 1 // 0", "A = 2"))
    server.will(big("A = 1", "A = 1 // 0"), mend, *[big("A = 1", "A = 3")] * 9)
    world, view = thinking(memory_world(quality, SOURCE), server.url, 1, money__usd=0.45)
    until(world, view, lambda: len(server.asked) == 2)
    world.forge.close_as(of(world, e.Opened)[0].pull, "ada")  # type: ignore[attr-defined]
    until(world, view, lambda: of(world, e.Closed), patience=3.0)
    gate.set()
    until(world, view, lambda: view.state.campaigns["1"].ended)
    c, owed = campaign(world), world.asked.close()
    assert c.ended and c.ended.why == "money" and len(server.asked) == 2
    assert (c.spent + owed).calls == 2 and c.spent.usd + owed.usd <= 0.45


def test_what_is_owed_is_told_once() -> None:
    """A call that was counted at its most and then cost less does not come back as less than nothing, which no log would take."""
    meter = Meter()
    asked, most = Aside(meter), Spent(calls=1, usd=1.0, guessed=1)
    meter.begin(most)
    assert asked.close() == most
    meter.end(FREE)
    assert asked.close() == FREE
    assert FREE - Spent(usd=1e-18) == FREE, "what sums of floats leave"
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="nothing costs that"):
            Spent(usd=wrong)


# What is owed


class Overtaken:
    """Somebody else writes while a proposer is asked."""

    name = "overtaken"

    def __init__(self, world: World, happened: Callable[..., e.Event], times: int = 1, **more: Any) -> None:
        self.world, self.inner, self.left = world, world.proposer, times
        self.happened: Callable[[], e.Event] = lambda: happened(campaign="1", at=world.now(), **more)

    def propose(self, brief: Brief) -> Idea | NoIdea:
        found = self.inner.propose(brief)
        if self.left:
            self.left -= 1
            self.world.log.append(self.happened(), self.world.log.read()[1])
        return found


def test_what_an_overtaken_answer_cost_is_written_down(server: Server) -> None:
    """Its event is not in the log, its money is, before anything else is done; and reports have it."""
    server.will(edit("A = 1", "A = 2"), edit("A = 1", "A = 3"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(replace(world, proposer=Overtaken(world, e.Hinted, by="ada", text="higher")), view)
    (billed,) = of(world, e.Billed)
    history = world.log.read()[0]
    assert billed.spent == ONE and isinstance(history[history.index(billed) - 1], e.Hinted)
    c = campaign(world)
    assert (c.counts, c.spent, len(server.asked)) == ({"merged": 1}, ONE + ONE, 2) and "2 calls" in status.render(c)


def test_a_stop_that_overtakes_an_answer_does_not_make_it_free(server: Server) -> None:
    """The campaign ends with what was paid."""
    server.will(edit("A = 1", "A = 2"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(replace(world, proposer=Overtaken(world, e.StopRequested, by="ada")), view)
    c = campaign(world)
    assert c.ended and c.ended.why == "stopped" and c.spent == ONE and not of(world, e.Proposed)


def test_the_cap_counts_what_was_overtaken(server: Server) -> None:
    """However often somebody else is first, no call is made that could break the cap."""
    server.will(*[edit("A = 1", "A = 2")] * 99)
    world, view = begin(memory_world(quality, SOURCE), server.url, 1, money__usd=0.19)
    run(replace(world, proposer=Overtaken(world, e.Hinted, 99, by="ada", text="x")), view)
    c = campaign(world)
    assert c.ended and c.ended.why == "money" and len(of(world, e.Billed)) == len(server.asked) > 1
    assert c.spent.calls == len(server.asked) and c.spent.usd <= 0.19


class Shaky(MemoryLog):
    """A log whose platform fails once at each event of a kind, `after` it was written or before."""

    def __init__(self, kind: type[e.Event], *, after: bool) -> None:
        super().__init__()
        self.kind, self.after, self.failed = kind, after, 0

    def append(self, event: e.Event, position: Position) -> Position:
        if isinstance(event, self.kind) and not self.failed:
            self.failed += 1
            if self.after:
                super().append(event, position)
            raise Busy("GitHub is away")
        return super().append(event, position)


class Away:
    """A forge to which no mended code can be pushed: the first `times`, or ever."""

    def __init__(self, world: World, error: Exception, times: int = 10**9) -> None:
        self.world, self.error, self.left = world, error, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.forge, name)

    def push(self, branch: str, commit: str) -> None:
        crashed = any(isinstance(event, e.Measured) and event.n == 1 for event in self.world.log.read()[0])
        if self.left and crashed:
            self.left -= 1
            raise self.error
        self.world.forge.push(branch, commit)


@pytest.mark.parametrize("after", [True, False])
def test_a_log_that_cannot_be_reached_costs_nothing_twice(server: Server, *, after: bool) -> None:
    """What was written although it did not look so is in the books once; what was not is made up for."""
    server.will(edit("A = 1", "A = 2"), edit("A = 1", "A = 2"))
    world = replace(memory_world(quality, SOURCE), log=Shaky(e.Proposed, after=after))
    world, view = begin(world, server.url, 1)
    run(world, view)
    c = campaign(world)
    assert c.counts == {"merged": 1} and len(of(world, e.Billed)) == (0 if after else 1)
    assert c.spent.calls == len(server.asked) == (1 if after else 2)


def test_a_mend_that_cannot_be_pushed_is_paid(server: Server) -> None:
    """The platform was away when the mended code was to be pushed: the answer is in the books at once, it is pushed later, and
    nobody is asked again."""
    server.will(edit("A = 1", "A = 1 // 0"), edit("A = 1 // 0", "A = 2"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(replace(world, forge=Away(world, Busy("GitHub is away"), times=3)), view)
    c = campaign(world)
    assert c.counts == {"merged": 1} and len(of(world, e.Billed)) == 1 and c.spent.calls == len(server.asked) == 2


def test_a_wake_up_that_cannot_push_a_mend_pays_once(server: Server) -> None:
    """It pauses between its tries, gives up, and what it paid is in the log for the next one."""
    server.will(edit("A = 1", "A = 1 // 0"), *[edit("A = 1 // 0", "A = 2")] * 9)
    world, _ = begin(memory_world(quality, SOURCE), server.url, 1)
    slept: list[float] = []
    away = replace(world, forge=Away(world, Busy("GitHub is away")), sleep=slept.append)
    with pytest.raises(Busy):
        wake(away)
    assert tuple(slept) == PAUSES and len(server.asked) == campaign(world).spent.calls == 2


@pytest.mark.parametrize("error", [GitError("a rule forbids the push"), ForgeError("a rule forbids the push")])
def test_a_mend_that_may_not_be_pushed_pauses(server: Server, error: Exception) -> None:
    """No wake-up after that pays for another, and what this one cost is in the books."""
    server.will(edit("A = 1", "A = 1 // 0"), *[edit("A = 1 // 0", "A = 2")] * 9)
    world, _ = begin(memory_world(quality, SOURCE), server.url, 1)
    for _ in range(3):
        wake(replace(world, forge=Away(world, error), owed=[], asked=AtOnce()))
    (paused,) = of(world, e.Paused)
    assert paused.reason == "a rule forbids the push" and len(server.asked) == campaign(world).spent.calls == 2


def test_an_error_of_ours_does_not_lose_what_was_paid(server: Server) -> None:
    """Whatever goes wrong after an answer, its price is written down before that is told."""
    server.will(edit("A = 1", "A = 1 // 0"), edit("A = 1 // 0", "A = 2"))
    world, _ = begin(memory_world(quality, SOURCE), server.url, 1)
    with pytest.raises(RuntimeError, match="a bug"):
        wake(replace(world, forge=Away(world, RuntimeError("a bug"))))
    assert of(world, e.Billed)[0].spent == ONE and len(server.asked) == campaign(world).spent.calls == 2


def test_nobody_is_asked_while_github_is_away(server: Server) -> None:
    """What could hardly be written down is not paid for: the next wake-up asks."""
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    until(replace(world, proposer=Knobs()), view, lambda: of(world, e.Adopted))

    class Hidden:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.forge, name)

        def tip(self) -> str:
            raise Busy("GitHub is away")

    with pytest.raises(Busy):
        wake(replace(world, forge=Hidden()))
    assert not server.asked


def test_only_refused_proposals_count_as_repeats(server: Server) -> None:
    """An offline proposer passes over what was tried without proposing it; a model's answer that is a repeat is counted."""

    class Looks:
        name = "looks"

        def propose(self, brief: Brief) -> Idea | NoIdea:
            known = [Edit(old="B = 1", new=f"B = {value}") for value in (2, 2.1)]
            assert not of(world, e.Closed) or all(brief.refuses((one,)) for one in known)
            new = known[0] if not of(world, e.Closed) else Edit(old="A = 1", new="A = 2")
            return Idea(title="t", hypothesis="h", edits=(new,))

    world, view = begin(memory_world(quality, SOURCE), server.url, 2, proposer="mutate", model__proposer=None)
    run(replace(world, proposer=Looks()), view)
    assert campaign(world).repeats == 0 and campaign(world).settled == 2


# A laptop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path / "project", source=CODE, program=PROGRAM.replace("---\nMake it better.", MODEL))


def start(folder: Path, server: Server, *asked: str, **more: str) -> subprocess.Popen[str]:
    pipe, where = subprocess.PIPE, {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
    return subprocess.Popen(
        autoresearch(*asked), cwd=folder, env=environment(**where, **more), stdout=pipe, stderr=pipe, text=True
    )  # fmt: skip


def asked(process: subprocess.Popen[str], server: Server, times: int) -> None:
    """Wait until so many calls are under way or over."""
    until = time.monotonic() + 60
    while len(server.asked) < times:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)


def books(folder: Path) -> Mapping[str, Any]:
    c = find(folder).state().campaigns["1"]
    return {"calls": c.spent.calls, "guessed": c.spent.guessed, "ended": c.ended.why if c.ended else ""}


def test_ctrl_c_ends_a_run_whose_model_thinks(folder: Path, server: Server) -> None:
    """Long before the answer, with what the call can cost at most in the books; `run` goes on from there."""
    first, gate = held(edit("DIM = 128  # width", "DIM = 64  # width"))
    server.will(first)
    process = start(folder, server, "run", "1")
    asked(process, server, 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "goes on from here" in err and "Traceback" not in err
    assert books(folder) == {"calls": 1, "guessed": 1, "ended": ""}
    gate.set()
    server.will(edit("DIM = 128  # width", "DIM = 64  # width"))
    again = start(folder, server, "run")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert books(folder) == {"calls": 2, "guessed": 1, "ended": "done"} and "2 calls" in out


def test_a_runner_that_breaks_does_not_lose_what_a_model_costs(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is told, and the call under way is in the books at the most that it can cost."""
    second, gate = held(edit("DIM = 128  # width", "DIM = 64  # width"))
    server.will(edit("DEPTH = 2  # layers", "DEPTH = 1  # layers"), second)

    def script(job: Job) -> Result:
        if len(server.asked) == 2:
            raise RunnerError("the disk of the runner is gone")
        return better(job) if job.run.startswith("1-0") else Running(phase="training", left=1.0)

    monkeypatch.chdir(folder)
    assert main(["run", "2"], machine(folder.parent, script, server=Models(base_url=server.url, key=KEY))) == 1
    assert books(folder) == {"calls": 2, "guessed": 1, "ended": ""}
    gate.set()


def test_stop_ends_a_run_whose_model_thinks(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another terminal, while a measurement is in flight too: both processes are done long before the answer."""
    second, gate = held(edit("DIM = 128  # width", "DIM = 64  # width"))
    server.will(edit("DEPTH = 2  # layers", "DEPTH = 1  # layers"), second)
    process = start(folder, server, "run", "2", SECONDS="1")
    asked(process, server, 2)
    monkeypatch.chdir(folder)
    assert main(["stop"], machine(folder.parent)) == 0
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert books(folder) == {"calls": 2, "guessed": 1, "ended": "stopped"}
    gate.set()
