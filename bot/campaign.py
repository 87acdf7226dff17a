"""Drive one campaign in a workspace: begin it or go on with it, show what happens, bring home what was merged.

However it ends (done, paused, interrupted, a full disk), what is written down stands, and `autoresearch run` goes on from there.
Not here: what to do next (decide.py), whether it may begin (preflight.py), what is shown afterwards (summary.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bot import events as e
from bot import summary
from bot.aside import Aside, AtOnce
from bot.git import GitError
from bot.log import LogDamaged
from bot.loop import View, append, pay, refresh, run
from bot.minds import minds
from bot.preflight import PROGRAM, check_machine, check_models, plan, program_now
from bot.program import Settings
from bot.report.bills import foreseen
from bot.screen import Screen
from bot.settings import offline
from bot.spending import Meter
from bot.state import Campaign
from bot.words import plain
from bot.workspace import Machine, Relation, Told, Workspace
from bot.world import World
from runners import Running

STOP_SECONDS = 30.0  # how long `stop` waits for the process that drives


class Interrupted(Exception):
    """A person, or the machine going down, ended us; the message says how to go on."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where the one who drives sits."""

    ws: Workspace
    machine: Machine
    screen: Screen
    world: World
    view: View = field(default_factory=View)


def begin(
    ws: Workspace, machine: Machine, screen: Screen, experiments: int, overrides: Mapping[str, object], *, seed: int | None = None
) -> Campaign:
    """Ask for a new campaign and see it through. Raises Told, Interrupted, and what git, forge, log and runner raise."""
    with screen.stages("preparing") as tell:
        wanted = plan(ws, machine, experiments, overrides, tell)
    with machine.interrupts.held(), ws.driving():
        ws.hand_over(wanted.branch)
        seat = _sit(ws, machine, screen, wanted.branch, wanted.program.settings)
        state = refresh(seat.world, seat.view)
        if state.active:
            raise Told("somebody else began a campaign in this very moment: `autoresearch status` shows it")
        machine.interrupts.check()
        started = e.CampaignStarted(
            campaign=state.next_name(0), at=machine.now(), experiments=experiments, issue=0, title="", body="", by=machine.who,
            program=wanted.program.text, settings=dict(wanted.overrides), seed=machine.seed() if seed is None else seed,
            branch=wanted.branch,
        )  # fmt: skip
        _write(seat, started)
        screen.happened(started)
        if cost := foreseen(seat.view.state.campaigns[started.campaign]):
            screen.line(f"models: {plain(cost, 1_000)}")
        _warn_unsandboxed(seat, wanted.program.settings)
        return _drive(seat, wanted.branch)


def resume(ws: Workspace, machine: Machine, screen: Screen) -> Campaign:
    """Go on with the campaign that is under way. Raises as `begin` does."""
    ws.check_free()
    waiting = ws.state().active
    if waiting is None:
        raise Told("no campaign is under way: `autoresearch run N` begins one of N experiments")
    text, settings = "", offline(waiting.settings)
    if not (waiting.stop or waiting.ending):  # else nobody is asked any more
        text, settings = program_now(ws, waiting)
        if PROGRAM in ws.checkout.changes():
            screen.line(f"{PROGRAM} has changes that are not committed: they do not count until they are", "yellow")
        check_models(machine, settings)
    if not waiting.stop:
        with screen.stages("preparing") as tell:
            check_machine(machine, waiting.settings, tell)
    with machine.interrupts.held(), ws.driving():
        branch = waiting.started.branch
        if ws.checkout.current_branch() == branch and ws.relation(branch) is Relation.AHEAD:
            ws.hand_over(branch)
        seat = _sit(ws, machine, screen, branch, settings)
        c = refresh(seat.world, seat.view).active
        if c is None or c.name != waiting.name:
            raise Told(f"campaign {waiting.name} ended in this very moment: `autoresearch status` shows how")
        screen.line(f"going on with campaign {c.name}: {c.settled} of {c.started.experiments} experiments done")
        _write(seat, e.Resumed(campaign=c.name, at=machine.now(), by=machine.who, program=text))
        _warn_unsandboxed(seat, waiting.settings)
        return _drive(seat, branch)


def stop(ws: Workspace, machine: Machine, screen: Screen) -> Campaign:
    """End the campaign that is under way: whoever drives winds it down within seconds; if nobody does, we do."""
    c = ws.state().active
    if c is None:
        raise Told("no campaign is under way, so there is nothing to stop")
    seat = _sit(ws, machine, screen, c.started.branch, offline(c.settings))
    refresh(seat.world, seat.view)
    if not c.stop:
        _write(seat, e.StopRequested(campaign=c.name, at=machine.now(), by=machine.who))
    if ws.driver():
        return _wait_for_driver(seat, c.name)
    with machine.interrupts.held(), ws.driving():
        return _drive(seat, c.started.branch)


def _wait_for_driver(seat: Seat, name: str) -> Campaign:
    until = seat.machine.now() + STOP_SECONDS
    while (c := refresh(seat.world, seat.view).campaigns[name]).ended is None:
        if seat.machine.now() > until:
            raise Told(f"process {seat.ws.driver()} was asked to stop and has not ended yet: see `autoresearch status`")
        seat.world.sleep(seat.world.poll_seconds)
    return c


def _sit(ws: Workspace, machine: Machine, screen: Screen, branch: str, settings: Settings) -> Seat:
    """A world whose every look and every wait lets an interrupt in, and tells the screen. Models are asked beside the loop, so
    that a stop is seen within seconds."""
    progress: dict[str, Running] = {}

    def tell(c: Campaign, news: Running | e.Event | None) -> None:
        if isinstance(news, e.Event):
            screen.happened(news, c)
        screen.running(c, progress)
        machine.interrupts.check()

    def sleep(seconds: float) -> None:
        machine.sleep(seconds)
        machine.interrupts.check()

    meter = Meter()
    mind = minds(settings, machine.proposers, machine.server, sleep=machine.sleep, meter=meter)
    runner = machine.runners[settings.runner](ws.store / "runs", machine.cache)
    world = World(
        log=ws.log(), code=ws.repo, forge=ws.forge(branch), runner=runner,
        proposer=mind.proposer, reviewer=mind.reviewer, mender=mind.mender, now=machine.now, sleep=sleep, token=machine.token,
        tell=tell, progress=progress, asked=Aside(meter) if settings.models else AtOnce(),
    )  # fmt: skip
    return Seat(ws=ws, machine=machine, screen=screen, world=world)


def _write(seat: Seat, event: e.Event) -> None:
    """Write down what a person asked for, whoever else writes at the same time."""
    while not append(seat.world, seat.view, event):
        refresh(seat.world, seat.view)
    refresh(seat.world, seat.view)


def _warn_unsandboxed(seat: Seat, settings: Settings) -> None:
    reason = "program.md says so" if settings.sandbox == "none" else seat.machine.sandbox()
    if reason:
        seat.screen.line(f"UNSANDBOXED: candidates run with your rights, because {plain(reason)}", "bold red")


def _drive(seat: Seat, branch: str) -> Campaign:
    """Run the loop to the end, a pause or an interrupt; then bring home what was merged. Interrupts are held."""
    try:
        with seat.screen.live():
            run(seat.world, seat.view)
    except (KeyboardInterrupt, BrokenPipeError):
        _end_runs(seat)
        _pay(seat)
        summary.bring_home(seat.ws, seat.screen, branch)
        raise Interrupted(_interrupted(seat.view.state.active, seat.machine.command)) from None
    except Exception:
        with suppress(GitError, LogDamaged, OSError):  # what went wrong first is told
            _pay(seat)
        raise
    finally:
        seat.world.runner.close()
    _pay(seat)
    c = summary.latest(seat.view.state)
    assert c is not None, "it was begun"
    summary.write_page(seat.ws, c)
    summary.bring_home(seat.ws, seat.screen, branch)
    seat.ws.repo.tidy()
    return c


def _end_runs(seat: Seat) -> None:
    """End the measurements in flight: they are done again, with the same seeds, when the campaign goes on."""
    c = refresh(seat.world, seat.view).active
    for x in c.live.values() if c else ():
        if x.flight:
            seat.world.runner.cancel(x.flight.run)


def _pay(seat: Seat) -> None:
    """Write down what models cost whose answer nobody waits for any more: at most, where a call is still under way."""
    spent, c = seat.world.asked.close(), refresh(seat.world, seat.view).active or summary.latest(seat.view.state)
    if spent.calls and c:
        seat.world.owed.append(e.Billed(campaign=c.name, at=seat.machine.now(), spent=spent))
    while pay(seat.world, seat.view):
        pass
    refresh(seat.world, seat.view)


def _interrupted(c: Campaign | None, command: str) -> str:
    if c is None:
        return "interrupted, after the campaign had ended: nothing is left to do"
    return (
        f"interrupted with {c.settled} of {c.started.experiments} experiments done. Nothing is lost: "
        f"`{command} run` goes on from here, `{command} stop` ends it"
    )
