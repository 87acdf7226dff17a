"""The bot as people install it: comments, the workflows' own steps in their order and with their rights, GPU machines, nights.

Everything goes through the command line, GitHub's interface and git over HTTP, on the double; only training is scripted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot import events as e
from bot.forge import CHECK
from bot.widths import REQUESTS, WRITES
from tests.hosted import Actions, opened
from tests.laptop import WELL
from tests.slack_server import TOKEN, Slack, serving
from tests.worlds import TRAIN


def kinds(actions: Actions) -> Counter[str]:
    return Counter(type(event).__name__ for event in actions.lab.connection().log.read()[0])


def statuses(actions: Actions) -> set[int]:
    return {status for _, status in actions.ran}


@pytest.fixture
def actions(tmp_path: Path) -> Iterator[Actions]:
    """An issue is open; nothing was said yet."""
    here = opened(tmp_path)
    with here.lab.double:
        here.lab.double.open_issue("alice", "Smaller", "Look at the width.")
        yield here
        assert here.lab.double.violations == [] and here.lab.double.unknown == []


@pytest.fixture
def slack() -> Iterator[Slack]:
    with serving() as there:
        yield there


def test_a_comment_becomes_merged_and_closed_pull_requests(actions: Actions) -> None:
    """From `/autoresearch 3` on each job asks for the next: all is settled, with checks and a status comment; no right lacks."""
    actions.say(1, "/autoresearch 3")
    assert actions.lab.double.home.dispatches[0]["inputs"] == {"run": ""}
    actions.drain()
    home, c = actions.lab.double.home, actions.lab.state().campaigns["1.1"]
    assert c.ended is not None and c.settled == 3 == len(c.merged) + sum(c.counts.get(why, 0) for why in ("worse", "crash"))
    assert len(c.merged) >= 1 and {issue.state for issue, _ in home.pulls()} == {"closed"}
    assert all(home.checks_of(pull.head_sha)[0].conclusion in ("success", "failure", "neutral") for _, pull in home.pulls())
    assert [text for text in actions.lab.comments(1) if "autoresearch:1.1" in text]
    assert statuses(actions) == {0}
    measured = [run["inputs"]["run"] for run in home.dispatches if run["inputs"]["run"]]
    assert len(measured) == len(set(measured)) == kinds(actions)["MeasureStarted"]
    sent = [it for it in actions.lab.double.requests if it.surface != "git" and it.status != 304]
    assert len(sent) / len(measured) <= REQUESTS  # what `doctor --github` computes with
    assert sum(it.method != "GET" for it in sent) / len(measured) <= WRITES


def test_the_gpu_machine_needs_no_token(actions: Actions) -> None:
    """What measures knows no GitHub; what reads the job for it may only read."""
    actions.say(1, "/autoresearch 1")
    for _ in range(2):
        actions.one()
    commands = [command.split()[0] for command, _ in actions.ran]
    assert commands[:5] == ["hear", "settle", "doctor", "job", "measure"] and statuses(actions) == {0}


def test_a_machine_that_is_unfit_ends_in_a_pause_that_says_why(actions: Actions) -> None:
    """Its driver is gone: five jobs fail before they read a run, then the campaign pauses with the machine's own words, nothing
    rings any more, and once it is mended `resume` goes on with the same run to the end."""
    actions.machines["look"] = lambda: replace(WELL, gpus="nvidia-smi does not answer: no devices were found")
    actions.say(1, "/autoresearch 1")
    actions.drain()
    asked = [run["inputs"]["run"] for run in actions.lab.double.home.dispatches if run["inputs"]["run"]]
    c = actions.lab.state().campaigns["1.1"]
    assert len(asked) == len(set(asked)) == kinds(actions)["RunLost"] == 5
    assert "job" not in {command.split()[0] for command, _ in actions.ran}
    assert "lost 5 times in a row" in c.paused and "no devices were found" in c.paused and "install the driver" in c.paused
    assert any("no devices were found" in text for text in actions.lab.comments(1))
    actions.tick()
    assert actions.drain() == 0
    del actions.machines["look"]
    actions.say(1, "/autoresearch resume")
    actions.drain()
    c = actions.lab.state().campaigns["1.1"]
    assert c.ended is not None and c.settled == 1 and kinds(actions)["RunLost"] == 5


def test_a_machine_that_dies_costs_one_run(actions: Actions) -> None:
    """The first measurement is lost with its machine: `settle` sees that nothing came, and the same seed is run again."""
    died: list[str] = []
    actions.dies = lambda command: command.startswith("measure ") and not died and not died.append(command)  # type: ignore[func-returns-value]
    actions.say(1, "/autoresearch 1")
    actions.drain()
    happened = actions.lab.connection().log.read()[0]
    lost = next(event for event in happened if isinstance(event, e.RunLost))
    runs = [event for event in happened if isinstance(event, e.MeasureStarted) and event.k == 0]
    assert died and "left no result" in lost.reason
    assert [run.attempt for run in runs] == [1, 2] and len({run.seed for run in runs}) == 1
    assert actions.lab.state().campaigns["1.1"].ended is not None


def test_the_schedule_revives_a_chain_that_broke(actions: Actions) -> None:
    """The machine that settles dies with a result in hand: nothing rings any more, until the watchdog looks."""
    alive = [True, True, False]  # the ring, the first run, the second run
    actions.dies = lambda command: command.startswith("settle ") and bool(alive) and not alive.pop(0)
    actions.say(1, "/autoresearch 1")
    actions.drain()
    assert not alive and kinds(actions)["Measured"] == 1 and actions.lab.state().campaigns["1.1"].ended is None
    actions.tick()
    actions.drain()
    assert actions.lab.state().campaigns["1.1"].ended is not None and kinds(actions)["RunLost"] == 1


def test_commands_in_a_row_and_again(actions: Actions) -> None:
    """Three commands within a minute and a webhook that comes twice: two campaigns and a hint, nothing doubled, nothing lost."""
    asked = actions.lab.double.comment(1, "alice", "/autoresearch 1")
    for event in (asked, actions.lab.double.comment(1, "bob", "/autoresearch 2"), asked):
        actions.deliver(event)
    actions.say(1, "/autoresearch hint try the width")
    assert (kinds(actions)["CampaignStarted"], kinds(actions)["Hinted"]) == (2, 1)
    assert len(actions.lab.double.home.dispatches) == 3  # one ring each; the second delivery wrote nothing


def test_a_stop_frees_the_machine(actions: Actions) -> None:
    """`stop` while a run waits for its machine: its workflow run is cancelled, the candidates are closed, the campaign ends."""
    actions.say(1, "/autoresearch 3")
    actions.one()
    waiting = actions.lab.double.home.runs[-1]
    actions.say(1, "/autoresearch stop")
    actions.tick()
    assert (waiting["display_title"], waiting["conclusion"]) == ("measure 1.1-0.1", "cancelled")
    c = actions.lab.state().campaigns["1.1"]
    assert c.ended is not None and c.ended.why == "stopped" and not c.live


def test_a_stop_during_a_measurement_frees_the_machine(actions: Actions) -> None:
    """`stop` while a machine trains: what settles meanwhile cancels its workflow run; the result that it hands over all the same
    changes nothing, and no job fails."""
    actions.say(1, "/autoresearch 3")
    actions.one()
    training, seen = actions.lab.double.home.runs[-1], list[Counter[str]]()

    def stopped(command: str) -> bool:
        if command.startswith("measure "):
            actions.say(1, "/autoresearch stop")
            actions.tick()
            seen.append(kinds(actions))
        return False

    actions.dies = stopped
    actions.drain()
    assert (training["display_title"], training["conclusion"]) == ("measure 1.1-0.1", "cancelled")
    (settled,) = [command for command, _ in actions.ran if command.startswith("settle --run 1.1-0.1 ")]
    assert Path(settled.split()[-1]).exists() and statuses(actions) == {0}
    assert seen == [kinds(actions)] and seen[0]["CampaignEnded"] == 1 and seen[0]["Measured"] == 0


@pytest.mark.parametrize("how", ["close", "veto"])
def test_a_person_takes_a_candidate_out(actions: Actions, how: str) -> None:
    """A person closes a candidate's pull request, or vetoes it there, while others go on: it is not merged, the rest is."""
    actions.say(1, "/autoresearch 2")
    while not (pulls := list(actions.lab.double.home.pulls())):
        assert actions.one()
    number = pulls[0][0].number
    if how == "close":
        actions.deliver(actions.lab.double.close(number, "alice"))
    else:
        actions.say(number, "/autoresearch veto")
    actions.drain()
    c = actions.lab.state().campaigns["1.1"]
    assert c.ended is not None and c.settled == 2 and c.counts["vetoed"] == 1
    assert actions.lab.double.home.issues[number].state == "closed" and not pulls[0][1].merge_sha


def test_pushes_to_main_between_measurement_and_merge(actions: Actions) -> None:
    """A person changes the README before every look, and branches must be up to date: what was measured is the same, so it is
    put on top of that with its check, and merged without another run."""
    actions.lab.double.protect(checks=(CHECK,), app=1, strict=True)
    pushed: list[str] = []

    def before_settling(command: str) -> bool:
        if command.startswith("settle "):
            pushed.append(actions.lab.double.push("main", {"README.md": f"Change {len(pushed)}.\n"}))
        return False

    actions.dies = before_settling
    actions.say(1, "/autoresearch 2")
    actions.drain()
    assert len(actions.lab.state().campaigns["1.1"].merged) >= 1
    assert actions.lab.double.bare.read("main", "README.md") == f"Change {len(pushed) - 1}.\n"


def test_a_push_to_train_py_between_measurement_and_merge(actions: Actions) -> None:
    """GitHub falters at the merge, and a person changes train.py before it is asked again: the winner does not land on what it
    was not measured with. The new code becomes a base with a baseline of its own, and only then something is merged."""
    source = actions.lab.double.bare.read("main", TRAIN) or ""
    fault, merged = actions.lab.double.fail(with_="502", method="PUT", path="/merge"), list[int]()

    def sleep(seconds: float) -> None:
        if fault.seen and not merged:
            merged.append(kinds(actions)["Merged"])
            actions.lab.double.push("main", {TRAIN: f"{source}KNOB_6 = 0  # by a person\n"})
        actions.lab.sleep(seconds)

    actions.machines["sleep"] = sleep
    actions.say(1, "/autoresearch 2")
    actions.drain()
    happened, c = actions.lab.connection().log.read()[0], actions.lab.state().campaigns["1.1"]
    assert merged == [0] and kinds(actions)["BaseSeen"] == 2 and c.ended is not None and c.settled == 2
    second = max(k for k, event in enumerate(happened) if isinstance(event, e.Adopted))
    assert all(k > second for k, event in enumerate(happened) if isinstance(event, e.Merged)) and c.merged
    assert "KNOB_6 = 0  # by a person\n" in (actions.lab.double.bare.read("main", TRAIN) or "")


def test_a_stranger_is_told_no_and_rings_nothing(actions: Actions) -> None:
    """Somebody without write permission gets one reply, and no machine starts."""
    actions.say(1, "/autoresearch 3", by="eve")
    assert actions.lab.double.home.dispatches == [] and kinds(actions) == Counter()
    assert "no write permission" in actions.lab.comments(1)[-1]


# nights


def test_a_night_begins_a_campaign_and_reports_once(actions: Actions, slack: Slack) -> None:
    """The scheduled campaign begins, once however often the night is looked at; the next night tells what came of it, once."""
    actions.machines |= {"slack_token": TOKEN, "slack_api": f"{slack.url}/api/"}
    for _ in range(2):
        actions.night()
    happened = actions.lab.connection().log.read()[0]
    assert [event.by for event in happened if isinstance(event, e.CampaignStarted)] == ["the schedule in program.md"]
    assert happened[0].title == "Smaller" and slack.channel() == []  # type: ignore[attr-defined]
    actions.drain()
    actions.lab.now += 86_400
    for _ in range(3):
        actions.night()
    (message,) = slack.channel()
    assert "campaign 1.1" in message["text"].lower() and slack.thread(message["ts"])
    assert kinds(actions)["ReportSent"] == 1 and kinds(actions)["CampaignStarted"] == 2 and statuses(actions) == {0}


def test_a_night_yields_to_what_is_under_way(actions: Actions) -> None:
    """While a campaign goes on no scheduled one begins; the night after it ended one does."""
    actions.say(1, "/autoresearch 1")
    actions.night()
    assert kinds(actions)["CampaignStarted"] == 1
    actions.drain()
    actions.lab.now += 86_400
    actions.night()
    assert list(actions.lab.state().campaigns) == ["1.1", "1.2"]


def test_trouble_with_slack_is_told_on_the_issue_and_made_up_for(actions: Actions, slack: Slack) -> None:
    """A revoked token: the night goes on, the issue says it in one comment, and once mended the next report has everything."""
    actions.machines |= {"slack_token": "xoxb-revoked", "slack_api": f"{slack.url}/api/"}
    actions.say(1, "/autoresearch 1")
    actions.drain()
    actions.night()
    actions.lab.now += 86_400
    actions.night()
    told = [text for text in actions.lab.comments(1) if "could not be sent to Slack" in text]
    assert len(told) == 1 and "revoked" not in told[0] and kinds(actions)["ReportSent"] == 0 and statuses(actions) == {0}
    actions.machines["slack_token"] = TOKEN
    actions.lab.now += 86_400
    actions.night()
    (message,) = slack.channel()
    assert "campaign 1.1" in message["text"].lower()
