"""The report in the chat: whom it is about, to whom it goes, once; and that it was sent, written down.

A report says what happened since the last one that the log knows, so a night that was missed is in the next one. Nothing that
Slack does ends anything: it is told on the issue of the newest campaign, and the next report says the same and more.
Not here: the words (report/slack.py), the posting (slack.py), and when it is due (nightly.py).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot import events as e
from bot.fold import fold
from bot.hear import PROGRAM
from bot.log import Log, Moved
from bot.online import connected
from bot.platform import Connection, Platform
from bot.program import Problems, parse
from bot.report.quoting import span
from bot.screen import Screen
from bot.state import Campaign, State
from bot.workspace import Machine, Told, Workspace, find

if TYPE_CHECKING:
    from bot.slack import Bot, Hook, NotSent, Picture, Report, Sent

TAG = "report"  # of the comment that tells a failure
NOBODY = "set SLACK_BOT_TOKEN, and slack.channel in program.md to the id of a channel; or SLACK_WEBHOOK_URL alone"


@dataclass(frozen=True, kw_only=True)
class Office:
    """Where a report comes from: one log, the name that tells its reports from those of others, its address on the web, the
    channel of its program.md; and where a failure is told (issue, text)."""

    log: Log
    name: str
    address: str
    channel: str | None
    tell: Callable[[int, str], None]


def on_github(there: Connection, platform: Platform) -> Office:
    name = there.threads.rest.name
    return Office(
        log=there.log, name=name, address=f"{platform.server}/{name}",
        channel=_channel(there.code.read(there.forge.tip(), PROGRAM)), tell=lambda issue, text: there.forge.say(issue, TAG, text),
    )  # fmt: skip


def here(ws: Workspace) -> Office:
    """Of a checkout, where a failure is told by the exit status alone."""
    if not ws.exists:
        raise Told("there is nothing to report: no campaign was ever begun in this checkout")
    file = ws.top / PROGRAM
    channel = _channel(file.read_text("utf-8", "replace") if file.is_file() else None)
    return Office(log=ws.log(), name=str(ws.top), address="", channel=channel, tell=lambda issue, text: None)


def _channel(text: str | None) -> str | None:
    program = parse(text or "")
    return None if isinstance(program, Problems) else program.settings.slack.channel


@contextmanager
def office(machine: Machine) -> Iterator[Office]:
    """Of the repository on GitHub that this machine knows, else of the checkout that we stand in."""
    try:
        platform = machine.platform()
    except Told:
        yield here(find(Path.cwd()))
        return
    with connected(machine) as there:
        yield on_github(there, platform)


def news(state: State) -> list[Campaign]:
    """The campaigns that the next report is about."""
    from bot.report.slack import tonight

    return tonight(state, state.reported.until if state.reported else 0.0)


def compose(state: State, about: Office, now: float) -> tuple[Report, tuple[str, ...]]:
    """The next report, and what it lacks. `state` has at least one campaign."""
    from bot.report.slack import FULL, render
    from bot.slack import Report

    campaigns, last = news(state), state.reported
    spent = {c.name: c.spent.usd for c in campaigns if c.spent.calls and not c.spent.unpriced}
    pictures, lacking = _pictures(campaigns[-FULL:])
    first = min(c.started.at for c in state.campaigns.values())
    report = Report(
        key=f"{about.name} {last.number + 1 if last else 1}", since=last.at if last else first,
        message=render(campaigns, now=now, repository=about.address, spent=spent), pictures=pictures,
    )  # fmt: skip
    return report, lacking


def _pictures(campaigns: list[Campaign]) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    from bot import slack
    from bot.report import plot

    try:
        drawn = [slack.Picture(name=f"campaign-{c.name}.png", png=plot.render(c), shows=plot.described(c)) for c in campaigns]
    except plot.NoPicture as reason:
        return (), (str(reason),)
    return tuple(drawn), ()


def receiver(machine: Machine, channel: str | None) -> Bot | Hook | NotSent | None:
    """Who gets it; None: nobody is set up."""
    from bot import slack

    if machine.slack_token and channel:
        return slack.by_token(machine.slack_token, channel, api=machine.slack_api)
    return slack.by_webhook(machine.slack_webhook) if machine.slack_webhook else None


def deliver(about: Office, machine: Machine) -> Sent | NotSent | None:
    """Send what is new, write that down, and tell on the issue what went wrong. None: nobody is set up, or nothing is new."""
    from bot import slack

    state = fold(about.log.read()[0])
    to = receiver(machine, about.channel)
    if to is None or not (campaigns := news(state)):
        return None
    report, lacking = compose(state, about, machine.now())
    done = to if isinstance(to, slack.NotSent) else slack.send(to, report, sleep=machine.sleep)
    if isinstance(done, slack.Sent):
        until = min(max(c.at for c in state.campaigns.values()), _sent_at(done))
        _record(about.log, state, until, done, machine.now())
        lacking += done.lacking
    wrong = [done.reason] if isinstance(done, slack.NotSent) else lacking
    issue = campaigns[-1].started.issue
    if wrong and issue:
        about.tell(issue, _trouble(wrong, sent=isinstance(done, slack.Sent), now=machine.now()))
    return done


def _sent_at(done: Sent) -> float:
    """When Slack got it: longer ago than now, if a crash kept it from being written down. A webhook does not tell."""
    try:
        return float(done.ts)
    except ValueError:
        return math.inf


def _trouble(wrong: list[str] | tuple[str, ...], *, sent: bool, now: float) -> str:
    day = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
    head = f"**The report of {day} {'is in Slack, but not whole' if sent else 'could not be sent to Slack'}:**"
    tail = "" if sent else "\n\nThe campaign goes on. The next report will have what this one was to say."
    return "\n".join([head, "", *(f"- {span(reason)}" for reason in wrong)]) + tail


def _record(log: Log, before: State, until: float, sent: Sent, now: float) -> None:
    number = before.reported.number + 1 if before.reported else 1
    newest = next(reversed(before.campaigns))
    event = e.ReportSent(campaign=newest, at=now, number=number, until=until, channel=sent.channel, ts=sent.ts)
    while True:
        try:
            log.append(event, log.read()[1])
            return
        except Moved:
            continue


def report(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Send it now, or with --dry-run show what would be sent, as Slack would be handed it."""
    from bot import slack
    from bot.report.slack import payload

    with office(machine) as about:
        state = fold(about.log.read()[0])
        if not news(state):
            screen.line("nothing happened since the last report, and nothing waits for a person")
            return 0
        if options.dry_run:
            shown, lacking = compose(state, about, machine.now())
            pictures = {"pictures": [x.name for x in shown.pictures], "lacking": list(lacking)}
            screen.raw(json.dumps(payload(shown.message) | {"thread": list(shown.message.thread)} | pictures, indent=1))
            return 0
        done = deliver(about, machine)
    if done is None:
        raise Told(f"nobody is set up to get it: {NOBODY}")
    if isinstance(done, slack.NotSent):
        raise Told(f"the report was not sent: {done.reason}")
    screen.line("the report is in Slack")
    for line in done.lacking:
        screen.line(line, "yellow")
    return 0
