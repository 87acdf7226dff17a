"""The commands that work with GitHub. Each connects, does one thing, and says what it did; workflows call them.

Not here: reading argv or the environment (__main__.py hands in the Platform).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from bot import events as e
from bot.act import act
from bot.actions import Action, Propose, Repair
from bot.fold import fold
from bot.forge.fleet import WORKFLOW, Workflows
from bot.git import GitError
from bot.hear import PROGRAM, Ears, hear, rehearse
from bot.log import LogDamaged
from bot.loop import View, pay, step
from bot.minds import lacking
from bot.platform import Connection, by_git, connect
from bot.remote import Busy
from bot.report.status import upcoming
from bot.runs import GRACE_SECONDS, job_of
from bot.screen import Screen
from bot.settings import Settings
from bot.state import Campaign
from bot.words import plain
from bot.workspace import Machine, Told
from bot.world import World
from runners import BadResult, Job, Lost, Runner, Running, to_json
from runners.actions import ActionsRunner, to_lost
from runners.local import RunnerError, SandboxError, leave

PAUSES = (5.0, 20.0, 60.0)  # seconds, before GitHub is asked once more within one wake-up
QUEUE_SECONDS = 6 * 3600.0  # that a run may wait for a GPU to be free
POLL_SECONDS = 0.2
T = TypeVar("T")
PROPOSER = "mutate"  # until a campaign says whom it wants


def listen(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Do what a webhook says, or with --dry-run only say what that would be."""
    payload = _payload(options.event or (Path(machine.event_file) if machine.event_file else None))
    name = options.name or machine.event or _looks_like(payload)
    if options.dry_run:
        program = Path(PROGRAM)
        text = program.read_text("utf-8", "replace") if program.is_file() else None
        for line in rehearse(name, payload, text, machine.now()):
            screen.raw(line)
        return 0
    patiently(machine.sleep, lambda: _hear(options, machine, screen, name, payload))
    return 0


def patiently(sleep: Callable[[float], None], once: Callable[[], T]) -> T:
    """Do something that may be done again, until GitHub takes it. Raises Busy after PAUSES: the next wake-up goes on."""
    for pause in PAUSES:
        try:
            return once()
        except Busy:
            sleep(pause)
    return once()


def _hear(options: argparse.Namespace, machine: Machine, screen: Screen, name: str, payload: Any) -> None:
    """Hear it once, and ring as soon as something is written down, whatever comes of the reply."""
    with connected(machine) as there:
        ears = Ears(
            threads=there.threads, forge=there.forge, log=there.log, code=there.code, now=machine.now, seed=machine.seed,
        )  # fmt: skip
        before = there.log.read()[1]
        try:
            for line in hear(ears, name, payload):
                screen.line(line)
        finally:
            if options.ring and (name == "pull_request" or there.log.events_since(before)[0]):
                fleet_of(there).dispatch("")
                screen.line("the loop is rung")


def ring(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Ask for one wake-up of the loop; one too many costs a look."""
    with connected(machine) as there:
        fleet_of(there).dispatch("")
    screen.line(f"the loop is rung: {WORKFLOW} runs in a moment")
    return 0


def fleet_of(there: Connection) -> Workflows:
    return Workflows(rest=there.threads.rest, branch=there.forge.branch)


def settle(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """One wake-up: bring in what a job has measured, then do all that can be done now; whatever takes time is asked for."""
    results = {options.run: options.result or Path("no result")} if options.run else {}
    with connected(machine) as there:
        world = _world(machine, there, ActionsRunner(fleet=fleet_of(there), results=results), screen)
        c = wake(world, lambda settings: lacking(settings, machine.server))
    screen.line("no campaign is under way" if c is None else f"campaign {c.name}: {'; '.join(upcoming(c, plain))}")
    return 0


def wake(world: World, lacks: Callable[[Settings], str | None] = lambda settings: None) -> Campaign | None:
    """Do all that can be done now; the campaign whose turn it is then. What a campaign `lacks` to ask whom it wants pauses it
    before anything is measured. Raises Busy when GitHub could not be asked."""
    view, held, lacks = View(), list[Busy](), cache(lacks)
    world = replace(world, later=held.append)

    def deed(world: World, c: Campaign, action: Action) -> e.Event | None:
        waits = c.paused or c.stop or c.ending or c.broke
        if reason := None if waits else lacks(c.settings):
            return e.Paused(campaign=c.name, at=world.now(), reason=reason)
        if held and isinstance(action, Propose | Repair):
            return None  # what a model is paid for could hardly be written down
        return act(world, c, action)

    def once() -> Campaign | None:
        held.clear()
        while step(world, view, deed):
            held.clear()
        if held:
            raise held[-1]
        return view.state.active

    try:
        return patiently(world.sleep, once)
    except Exception:
        with suppress(Busy, GitError, LogDamaged):  # what went wrong first is told
            while pay(world, view):
                pass
        raise


def _world(machine: Machine, there: Connection, runner: Runner, screen: Screen) -> World:
    return World(
        log=there.log, code=there.code, forge=there.forge, runner=runner, now=machine.now, sleep=machine.sleep,
        proposer=machine.proposers[PROPOSER], minded=machine.minded, token=machine.token, queue_seconds=QUEUE_SECONDS,
        tell=lambda c, news: screen.happened(news, c) if isinstance(news, e.Event) else None,
    )  # fmt: skip


def job(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Write down what a run is to measure, for a machine that holds no token. Nothing is written when nobody waits for it."""
    with scratch() as folder:
        log, code = by_git(machine.platform(), folder)
        c = fold(log.read()[0]).active
        x = next((x for x in c.live.values() if x.flight and x.flight.run == options.run), None) if c else None
        if c is None or x is None or x.flight is None:
            screen.line(f"nobody waits for run {options.run}: it was stopped, or done by another job")
            return 0
        source = code.read(x.flight.head, c.settings.editable[0])
        asked = job_of(c, x.flight, source or "")
    leave(options.out, json.dumps(asdict(asked)))
    screen.line(f"run {options.run}: {c.settings.budget.seconds:g} s of training, seed {asked.seed}")
    return 0


def measure_job(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Measure what `job` wrote down, on this machine, and leave the result; or in its place why there is none."""
    if not options.job or not options.out:
        raise Told("--job and --out belong together: what `autoresearch job` wrote, and where the result goes")
    if not options.job.exists():
        screen.line("nobody waits for a result")
        return 0
    raw = json.loads(options.job.read_text("utf-8"))
    budget = raw["budget_seconds"] + raw["startup_seconds"] + raw["scoring_seconds"] + GRACE_SECONDS
    asked = Job(**raw | {"deadline": machine.now() + budget})
    home = Path(tempfile.mkdtemp(prefix="autoresearch-runs-"))
    runner = machine.runners["local"](home, machine.cache)
    try:
        with machine.interrupts.held():
            text = _measured(machine, runner, asked)
    except KeyboardInterrupt:
        runner.cancel(asked.run)
        raise
    finally:
        runner.close()
        shutil.rmtree(home, ignore_errors=True)
    leave(options.out, text)
    screen.line(f"run {asked.run}: {json.loads(text).get('outcome', 'no result')}")
    return 0


def _measured(machine: Machine, runner: Runner, asked: Job) -> str:
    try:
        if lacking := machine.prepare(asked.corpus, machine.cache, lambda stage, done: None):
            return to_lost(lacking)
        runner.start(asked)
        while isinstance(seen := runner.poll(asked), Running):
            machine.sleep(POLL_SECONDS)
            machine.interrupts.check()
    except (RunnerError, SandboxError, BadResult) as error:
        return to_lost(str(error))
    return to_lost(seen.reason) if isinstance(seen, Lost) else to_json(seen)


@contextmanager
def connected(machine: Machine) -> Iterator[Connection]:
    """The repository, with a clone of it that is thrown away afterwards: each wake-up looks at what is there now."""
    with scratch() as folder:
        yield connect(machine.platform(), folder, now=machine.now, sleep=machine.sleep)


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="autoresearch-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _payload(file: Path | None) -> Any:
    if file is None:
        raise Told("which payload? Give --event FILE, a JSON file as GitHub delivers it")
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise Told(f"{file} is not there") from None
    except (ValueError, RecursionError) as error:
        raise Told(f"{file} is not the JSON of a webhook: {error}") from None


def _looks_like(payload: Any) -> str:
    """The event that a payload without a name is of: GitHub tells it in a header, which a file has not."""
    keys = set(payload) if isinstance(payload, dict) else set()
    if "comment" in keys:
        return "pull_request_review_comment" if "pull_request" in keys else "issue_comment"
    if "review" in keys:
        return "pull_request_review"
    return "pull_request" if "pull_request" in keys else "issues"
