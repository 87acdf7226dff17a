"""What happens each night on GitHub: the report, then the campaign that program.md schedules, unless one is under way.

Level-triggered like everything here: it may run late, twice or several times a night. The log knows which night's campaign has
begun and when the last report was sent. A campaign of a night that was missed is not made up for: the next night's does.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bot import events as e
from bot import reporting
from bot.fold import fold
from bot.forge import ForgeError
from bot.forge.rest import Refused, told
from bot.hear import PROGRAM
from bot.log import Moved
from bot.online import connected, fleet_of
from bot.platform import Connection
from bot.program import Problems, Program, parse
from bot.remote import Busy
from bot.screen import Screen
from bot.state import State
from bot.words import plain
from bot.workspace import Machine, Told

BY = "the schedule in program.md"


def nightly(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    platform = machine.platform()
    with connected(machine) as there:
        try:
            screen.line(_report(reporting.on_github(there, platform), machine))
        except (ForgeError, Busy) as error:
            screen.line(f"report: {plain(str(error))}")  # the campaign is not to wait for it
        program = parse(there.code.read(there.forge.tip(), PROGRAM) or "")
        if isinstance(program, Problems):
            raise Told(f"program.md on {there.forge.branch} has mistakes, so nothing is scheduled: {program}")
        screen.line(_begin(there, program, machine))
    return 0


def _report(about: reporting.Office, machine: Machine) -> str:
    from bot.slack import NotSent

    state, now = fold(about.log.read()[0]), machine.now()
    if state.reported and day_of(state.reported.at) == day_of(now):
        return "report: that of today is sent already"
    if all(c.started.cause == cause_of(now) for c in reporting.news(state)):
        return "report: nothing is new"  # what began a moment ago is for tomorrow
    done = reporting.deliver(about, machine)
    if done is None:
        return f"report: nobody gets it: {reporting.NOBODY}"
    return f"report: not sent: {plain(done.reason)}" if isinstance(done, NotSent) else "report: it is in Slack"


def _begin(there: Connection, program: Program, machine: Machine) -> str:
    """Write down that tonight's campaign begins, and ring; what was done, in words."""
    s = program.settings
    if not s.schedule.experiments:
        return "schedule: no campaign (schedule.experiments in program.md is 0)"
    issue = _issue(there, s.schedule.issue)
    while True:
        happened, position = there.log.read()
        state = fold(happened)
        if reason := yields(state, issue, machine.now()):
            return f"schedule: no campaign: {reason}"
        event = started(state, program, issue, now=machine.now(), seed=machine.seed(), branch=there.forge.branch)
        try:
            there.log.append(event, position)
        except Moved:
            continue
        fleet_of(there).dispatch("")
        return f"schedule: campaign {event.campaign} begins, {event.experiments} experiments for #{event.issue}"


def _issue(there: Connection, number: int) -> Mapping[str, Any]:
    try:
        return there.threads.rest.get(f"{there.threads.rest.repo}/issues/{number}")  # type: ignore[no-any-return]
    except Refused as refusal:
        raise told(there.threads.rest.name, f"read issue {number}, which schedule.issue in program.md names", refusal) from None


def yields(state: State, issue: Mapping[str, Any], now: float) -> str:
    """Why no campaign begins tonight; empty when one does."""
    if cause_of(now) in state.heard:
        return "that of tonight has begun already"
    if (c := state.active) is not None:
        return f"campaign {c.name} is {'paused' if c.paused else 'still under way'}"
    if issue.get("state") != "open" or issue.get("pull_request"):
        return f"#{issue['number']} is not an open issue"
    return ""


def started(state: State, program: Program, issue: Mapping[str, Any], *, now: float, seed: int, branch: str) -> e.CampaignStarted:
    """As a person's comment on that issue would start it."""
    s, number = program.settings, int(issue["number"])
    return e.CampaignStarted(
        campaign=state.next_name(number), at=now, experiments=min(s.schedule.experiments, s.stop.experiments), issue=number,
        title=_storable(issue.get("title")), body=_storable(issue.get("body")), by=BY, program=program.text, settings={},
        seed=seed, branch=branch, cause=cause_of(now),
    )  # fmt: skip


def cause_of(now: float) -> str:
    return f"schedule-{day_of(now)}"


def day_of(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def _storable(text: object) -> str:
    """As the log can hold it: half a surrogate pair, which JSON can say, is no UTF-8."""
    return str(text or "").encode("utf-8", "replace").decode()
