"""Reports from the command line, and what begins at night: shown, sent, not sent twice, not begun. The walks have the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import events as e
from bot.__main__ import main
from bot.fold import fold
from bot.nightly import BY, cause_of, started, yields
from bot.program import Program, parse
from bot.state import State
from tests.hosted import PROGRAM, Actions, opened
from tests.laptop import machine, project
from tests.slack_server import CHANNEL, TOKEN, Slack, serving
from tests.test_answer import begun

NOW = 1_790_000_000.0
ISSUE: dict[str, Any] = {"number": 1, "title": "Smaller", "body": None, "state": "open"}


@pytest.fixture
def slack() -> Iterator[Slack]:
    with serving() as there:
        yield there


@pytest.fixture
def actions(tmp_path: Path) -> Iterator[Actions]:
    """A campaign was asked for, and the loop has looked once."""
    here = opened(tmp_path)
    with here.lab.double:
        here.lab.double.open_issue("alice", "Smaller")
        here.say(1, "/autoresearch 2")
        here.one()
        yield here


def ask(actions: Actions, *argv: str, **fields: str) -> int:
    return main(argv, actions.machine(platform=actions.lab.platform, **fields))


def test_a_report_can_be_looked_at_first(actions: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """With --dry-run the message comes out as Slack would be handed it, links and all; nothing is sent or written down."""
    before = len(actions.lab.events())
    capsys.readouterr()
    assert ask(actions, "report", "slack", "--dry-run") == 0
    shown = json.loads(capsys.readouterr().out)
    assert "campaign 1.1" in shown["text"] and shown["pictures"] == ["campaign-1.1.png"]
    assert f"{actions.lab.double.url}/octo/lab/issues/1" in json.dumps(shown["blocks"])
    assert len(actions.lab.events()) == before


def test_a_report_is_sent_when_it_is_asked_for(actions: Actions, slack: Slack, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in the channel with its plot, it is written down, and a second one has nothing to say."""
    there = {"slack_token": TOKEN, "slack_api": f"{slack.url}/api/"}
    assert ask(actions, "report", "slack", **there) == 0
    assert ask(actions, "report", "slack", **there) == 0
    assert "nothing happened since the last report" in capsys.readouterr().out
    (message,) = slack.channel()
    sent = [event for event in actions.lab.events() if isinstance(event, e.ReportSent)]
    assert [(event.number, event.channel, event.ts) for event in sent] == [(1, CHANNEL, message["ts"])]
    assert sent[0].until == actions.lab.state().campaigns["1.1"].at


def test_a_webhook_will_do(actions: Actions, slack: Slack) -> None:
    """Without a bot the message goes through the webhook, and that is written down without ids."""
    assert ask(actions, "report", "slack", slack_webhook=f"{slack.url}/hook/T0/B0/secret") == 0
    assert len(slack.hooked) == 1
    reported = actions.lab.state().reported
    assert reported is not None and (reported.channel, reported.ts) == ("", "")


def test_a_report_that_could_not_be_sent_is_a_failure_for_who_asked(
    actions: Actions, slack: Slack, capsys: pytest.CaptureFixture[str]
) -> None:
    """With nobody to get it, and with a token that Slack does not take, the exit status is 1 and the reason is said."""
    assert ask(actions, "report", "slack") == 1
    assert "set SLACK_BOT_TOKEN" in capsys.readouterr().err
    assert ask(actions, "report", "slack", slack_token="xoxb-no", slack_api=f"{slack.url}/api/") == 1
    assert "the report was not sent" in capsys.readouterr().err and actions.lab.state().reported is None


def test_a_checkout_reports_too(
    tmp_path: Path, slack: Slack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one machine without GitHub the checkout's own log is reported; before the first campaign there is nothing to report."""
    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(["report", "slack"], machine(tmp_path)) == 1
    assert "no campaign was ever begun" in capsys.readouterr().err
    assert main(["run", "1"], machine(tmp_path)) == 0
    assert main(["report", "slack"], machine(tmp_path, slack_webhook=f"{slack.url}/hook/T0/B0/secret")) == 0
    assert "campaign 1" in slack.hooked[0]["text"]


# what begins at night


def test_a_report_is_no_news_of_a_campaign() -> None:
    """The event of a report moves no campaign, else each would be in every report; it may also follow a campaign's end."""
    world, _ = begun()
    state = fold(world.log.read()[0])
    at = state.campaigns["12.1"].at
    fold([e.ReportSent(campaign="12.1", at=at + 9, number=1, until=at, channel="", ts="")], state)
    assert state.campaigns["12.1"].at == at and state.reported is not None


def scheduled(text: str = PROGRAM) -> Program:
    program = parse(text)
    assert isinstance(program, Program)
    return program


def test_the_scheduled_campaign_is_as_one_that_a_person_asked_for() -> None:
    """It has the issue's words, the program as it is, the schedule's number within the cap, and a cause that names the night."""
    text = PROGRAM.replace("schedule: {experiments: 1", "schedule: {experiments: 99")
    event = started(State(), scheduled(text), ISSUE | {"title": "half \ud800"}, now=NOW, seed=5, branch="main")
    assert (event.campaign, event.experiments, event.title, event.body) == ("1.1", 20, "half ?", "")
    assert (event.by, event.cause, event.program, event.seed) == (BY, "schedule-2026-09-21", text, 5)
    assert not yields(State(), ISSUE, NOW)
    assert "begun already" in yields(fold([event]), ISSUE, NOW)


@pytest.mark.parametrize("issue", [{"state": "closed"}, {"pull_request": {"url": "x"}}])
def test_no_campaign_begins_on_what_is_not_an_open_issue(issue: dict[str, Any]) -> None:
    """A closed issue ends the schedule, and a pull request has none."""
    assert "not an open issue" in yields(State(), ISSUE | issue, NOW)


def test_a_night_is_a_day_in_utc() -> None:
    """Two looks in one night have one cause, the next night has another."""
    assert cause_of(NOW) == cause_of(NOW + 3600) != cause_of(NOW + 86_400)


def test_a_program_with_mistakes_schedules_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The night says what is wrong with program.md, with exit status 1: a red run is seen."""
    here = opened(tmp_path, program="---\nschedule: {experiments: 3}\n---\n")
    with here.lab.double:
        here.night()
    assert here.ran == [("nightly", 1)] and "schedule.experiments has no schedule.issue" in capsys.readouterr().err
