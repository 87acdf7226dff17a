"""The report of a night in Slack: what it says, that it keeps Slack's limits, that it comes once, and that no trouble with Slack
ends a campaign. The real SDK speaks to a small Slack on this machine (slack_server.py); campaigns are real ones in memory.
"""

from __future__ import annotations

import dataclasses
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from bot import events as e
from bot import slack
from bot.fold import fold
from bot.loop import run
from bot.report import claims
from bot.report.slack import BLOCKS, FULL, SECTION, Message, fit, needs, payload, quote, render, section, tonight
from bot.state import Campaign, Stage, State
from bot.world import World
from runners import Outcome
from tests.slack_server import ALL, CHANNEL, NAME, TOKEN, Fault, Slack, faults_of, serving, texts
from tests.test_claims import worse_at_the_end
from tests.test_loop import better, ended, same
from tests.worlds import SOURCE, memory_world, start, until

REPOSITORY = "https://github.com/o/r"
NOW = 1_700_100_000.0
HOSTILE = "<!channel> <@U012345> @here <https://evil.example|click> & *b* `x` #general https://evil.example" + "&" * 400
PICTURE = slack.Picture(name="campaign-1.png", png=b"\x89PNG made up", shows="val_bpb of campaign 1")


def state_of(world: World) -> State:
    return fold(world.log.read()[0])


def finished(n: int = 3, quality: Any = better, **more: Any) -> Campaign:
    world = memory_world(quality)
    run(world, start(world, n, **more))
    return ended(world)


def words(message: Message) -> str:
    """All that a reader of the message itself sees."""
    return "\n".join(text["text"] for block in message.blocks for text in texts(block))


def hostile(c: Campaign) -> Campaign:
    """The same with the worst words in every place that others write."""
    started = dataclasses.replace(c.started, title=HOSTILE, issue=12)
    end = dataclasses.replace(c.ended, reason=HOSTILE, why="crashes") if c.ended else None
    edits = {n: dataclasses.replace(x, title=HOSTILE, reason=HOSTILE, fault=HOSTILE) for n, x in c.candidates.items()}
    return dataclasses.replace(c, started=started, ended=end, paused="" if end else HOSTILE, candidates=edits)


@pytest.fixture
def server() -> Iterator[Slack]:
    with serving() as there:
        yield there


def bot(server: Slack, *, token: str = TOKEN, channel: str = CHANNEL) -> slack.Bot:
    to = slack.by_token(token, channel, api=f"{server.url}/api/")
    assert isinstance(to, slack.Bot)
    to.client.proxy = None  # whatever this machine's environment says
    return to


def hook(server: Slack) -> slack.Hook:
    to = slack.by_webhook(f"{server.url}/hook/T0/B0/secret")
    assert isinstance(to, slack.Hook)
    to.client.proxy = None
    return to


def report(server: Slack, key: str = "o/r 1", thread: tuple[str, ...] = ("one", "two")) -> slack.Report:
    message = Message(text="a report", blocks=(section("a *report*"),), thread=thread)
    return slack.Report(key=key, since=server.now - 1000, message=message, pictures=(PICTURE,))


def never(seconds: float) -> None:
    raise AssertionError(f"nobody asked to wait {seconds} s")


def sent(to: slack.Bot | slack.Hook, what: slack.Report) -> slack.Sent:
    done = slack.send(to, what, sleep=never)
    assert isinstance(done, slack.Sent), done
    return done


def refused(to: slack.Bot | slack.Hook, what: slack.Report) -> slack.NotSent:
    done = slack.send(to, what, sleep=never)
    assert isinstance(done, slack.NotSent), done
    assert TOKEN not in done.reason and "secret" not in done.reason.replace("the secret that holds it", "")
    return done


# What it says


def test_it_holds_what_a_person_asks_in_the_morning() -> None:
    """Start, best, the total gain with its interval, outcomes that add up to N, winners as links, hours, noise, what is next."""
    world = memory_world(lambda source: better(source) if "KNOB_3 = 0" in source else Outcome.CRASH)
    run(world, start(world, 9))
    c = ended(world)
    said, v = words(render([c], now=NOW, repository=REPOSITORY)), claims.proven(c)
    assert v and f"{v.gain:+.6f} bpb" in said and f"95 % interval {v.low:+.6f} to {v.high:+.6f}" in said
    sums = re.search(r"9 of 9 = (\d+) kept(?: \+ (\d+) not better)? \+ (\d+) crashed", said)
    assert sums and sum(int(x or 0) for x in sums.groups()) == 9 and int(sums[3]) > 0
    assert "refused before any run" in said and "*GPU-hours*" in said and f"{c.seconds / 3600:.2f} in" in said
    winners = re.findall(rf"^• <{REPOSITORY}/pull/(\d+)\|#\1> `KNOB_\d = \d to \d`: \+0\.\d+ bpb", said, re.MULTILINE)
    assert winners == [str(x.pull) for x in reversed(c.merged)] != []
    assert "At this noise (sd of one run" in said and "*Next:* nothing, it ended: `9 experiments done`" in said


def test_a_gain_that_was_not_measured_is_not_claimed() -> None:
    """Without the head-to-head comparison the message says so and why, and a notification says no number either."""
    c = finished(2, same)
    message = render([c], now=NOW)
    assert "*Total gain, measured head to head on fresh seeds:* not measured: nothing was merged" in words(message)
    assert "total gain not measured" in message.text and "Nothing is kept." in words(message)


def test_money_is_told_only_when_it_is_known() -> None:
    """Dollars are shown for the campaign that has them, and left out, not zero, for one that has none."""
    c = finished(1)
    assert "$" not in words(render([c], now=NOW))
    assert "*Spent on models*\n$1.50" in words(render([c], now=NOW, spent={c.name: 1.5, "other": 9.0}))


def test_what_needs_a_person_is_said_and_else_nothing() -> None:
    """A pause, a bad end and a loss that was not taken back ask for a person, in the notification too; a good end does not."""
    good = dataclasses.replace(finished(1), candidates={n: sandboxed(x) for n, x in finished(1).candidates.items()})
    assert needs(good) == [] and "Needs a person" not in words(render([good], now=NOW))
    broken = finished(3, lambda source: 2.0 if source == SOURCE else Outcome.CRASH, rule="crashes: 2, refusals: 9")
    said = render([broken], now=NOW)
    assert "too many candidates in a row failed" in words(said) and "NEEDS A PERSON" in said.text
    paused = dataclasses.replace(good, ended=None, paused="the disk is full")
    assert "it is paused: `the disk is full`" in words(render([paused], now=NOW))


def sandboxed(x: Any) -> Any:
    return dataclasses.replace(x, result={**x.result, "sandboxed": True})


def test_a_tip_that_is_worse_asks_for_a_person_unless_it_is_taken_back() -> None:
    """The campaign's own revert is enough; when that did not land, somebody is told to do it."""
    world = worse_at_the_end()
    run(world, start(world, 2))
    c = ended(world)
    revert = c.candidates[c.reverted]
    assert revert.why == "merged" and not any("revert" in line for line in needs(c))
    failed = {**c.candidates, c.reverted: dataclasses.replace(revert, why="stale")}
    assert any("revert the merges by hand" in line for line in needs(dataclasses.replace(c, candidates=failed)))


def test_a_quiet_night_is_one_line() -> None:
    """When nothing happened the message is one line that says so, without a thread."""
    message = render([], now=NOW, repository=REPOSITORY)
    assert len(message.blocks) == 1 and "\n" not in message.text and "nothing happened" in message.text and not message.thread


def test_the_night_is_what_happened_since_the_last_report() -> None:
    """A campaign that ended before the last report is not told again; one that waits for a person is, until it goes on."""
    world = memory_world(better)
    run(world, start(world, 1))
    world.sleep(1_000)
    state = state_of(world)
    assert [c.name for c in tonight(state, 0.0)] == ["1"] and tonight(state, world.now()) == []
    view = start(world, 2)
    assert [c.name for c in tonight(state_of(world), world.now() - 1)] == ["2"]
    until(world, view, e.Adopted, 2)
    world.log.append(e.Paused(campaign="2", at=world.now(), reason="no disk"), world.log.read()[1])
    world.sleep(1_000)
    assert [c.name for c in tonight(state_of(world), world.now())] == ["2"]


def test_every_moment_of_a_campaign_can_be_told() -> None:
    """After each event the message has a form that Slack takes."""
    world = memory_world(better)
    run(world, start(world, 2, mode="stack"))
    state = State()
    for event in world.log.read()[0]:
        state = fold([event], state)
        message = render(list(state.campaigns.values()), now=NOW, repository=REPOSITORY)
        assert faults_of(payload(message)) == "" and all(faults_of({"text": piece}) == "" for piece in message.thread)


# Limits, and the words of others


@pytest.mark.parametrize("many", [1, FULL, FULL + 1, 80])
def test_the_largest_night_keeps_the_limits(many: int) -> None:
    """With any number of campaigns, hundreds of winners and the worst titles, no limit of Slack is passed."""
    c = hostile(finished(4))
    winners = {n: dataclasses.replace(c.candidates[c.merged[0].n], n=n, pull=n) for n in range(100, 400)}
    live = {n: dataclasses.replace(x, stage=Stage.MEASURING) for n, x in winners.items()}
    big = dataclasses.replace(c, candidates={**c.candidates, **winners}, live=live, ended=None, paused="", ending=e.Ending(
        campaign="1", at=NOW, why="crashes", reason=HOSTILE))  # fmt: skip
    night = [dataclasses.replace(big, started=dataclasses.replace(big.started, campaign=f"12.{k}")) for k in range(many)]
    message = render(night, now=NOW, repository=f"https://github.com/{'o' * 39}/{'r' * 100}")
    assert faults_of(payload(message)) == "" and len(message.blocks) <= BLOCKS
    assert len(words(message)) <= 40_000 and all(len(piece) <= SECTION for piece in message.thread)
    assert re.search(r"… and \d+ more", words(message)), "what was left out is counted"
    assert (many <= FULL) == (f"{many - FULL} more:" not in words(message))


def test_no_title_can_mention_or_link() -> None:
    """Whatever others write, the only links are ours to the repository, and nothing is parsed beyond what we marked."""
    c = hostile(finished(3))
    message = render([c, dataclasses.replace(c, ended=None, paused=HOSTILE)], now=NOW, repository=REPOSITORY)
    for text in (message.text, *message.thread, *(x["text"] for block in message.blocks for x in texts(block))):
        assert all(target.startswith(f"{REPOSITORY}/") for target in re.findall(r"<([^>]*)>", text))
        assert re.sub(rf"<{REPOSITORY}/\w+/\d+\|[^<>&]*>", "", text).count("<") == 0
        assert "@here" not in text and "@U0" not in text and "://evil" not in text
        assert not re.search(r"&(?!amp;|lt;|gt;)", text)
    marked = [x for block in message.blocks for x in texts(block) if x["type"] == "mrkdwn"]
    assert marked and all(x["verbatim"] for x in marked)


def test_a_quotation_cannot_end_itself() -> None:
    """Backticks and line ends in a title do not end its code span; nothing gives nothing."""
    assert quote("a ` b\n```c") == "`a ' b '''c`" and quote(" \n") == ""
    assert quote("<&>") == "`&lt;&amp;&gt;`"


def test_what_does_not_fit_is_left_out_in_whole_lines() -> None:
    """No line is cut, as half an escape would come alive, and what is left out is counted."""
    lines = [f"&amp; {k:03}" for k in range(100)]
    text = fit(lines, 200)
    *kept, more = text.split("\n")
    assert len(text) <= 200 and kept == lines[: len(kept)] and more == f"… and {100 - len(kept)} more"
    assert fit(lines[:3], 200) == "\n".join(lines[:3])


# Sending


def test_it_sends_message_picture_and_thread(server: Slack) -> None:
    """One message in the channel; the plot, byte for byte, and the details in its thread, in order."""
    what = report(server)
    done = sent(bot(server), what)
    [message] = server.channel()
    assert done == slack.Sent(channel=CHANNEL, ts=message["ts"]) and message["text"] == "a report"
    assert [m["text"] for m in server.thread(done.ts)] == ["", "one", "two"]
    [upload] = server.uploads.values()
    assert (upload["name"], upload["body"], upload["alt"]) == (PICTURE.name, PICTURE.png, PICTURE.shows)
    assert message["asked"]["unfurl_links"] is False and message["asked"]["parse"] == "none"


def test_a_real_report_is_taken(server: Slack) -> None:
    """What render makes of a campaign passes the strict door, with a channel by its name too."""
    what = dataclasses.replace(report(server), message=render([hostile(finished(3))], now=NOW, repository=REPOSITORY))
    assert sent(bot(server), what).lacking == ()
    by_name = sent(bot(server, channel=f"#{NAME}"), dataclasses.replace(what, key="other"))
    assert by_name.channel == CHANNEL and "give its id (C...)" in by_name.lacking[0]


def test_the_same_report_comes_once(server: Slack) -> None:
    """After a crash between sending and writing down, the report is found by its key and nothing is posted again."""
    first = sent(bot(server), report(server))
    server.put("somebody talks")
    before = len(server.messages)
    assert sent(bot(server), report(server)) == first and len(server.messages) == before
    sent(bot(server), report(server, "o/r 2"))
    assert len(server.channel()) == 3, "another report is another message"


def test_it_is_found_behind_much_talk(server: Slack) -> None:
    """The search turns the pages of a busy channel; and what is older than `since` is not it."""
    server.page = 10
    first = sent(bot(server), report(server))
    for k in range(35):
        server.put(f"talk {k}")
    assert sent(bot(server), report(server)).ts == first.ts
    later = dataclasses.replace(report(server), since=server.now)
    assert sent(bot(server), later).ts != first.ts


def test_a_thread_that_was_cut_short_is_completed(server: Slack) -> None:
    """A crash after the message, or in the middle of its thread, is healed: only what is missing is added."""
    server.faults = [Fault(method="files.completeUploadExternal", error="internal_error")]
    first = sent(bot(server), report(server, thread=("one",)))
    assert "the plot is not in the thread" in first.lacking[0]
    again = sent(bot(server), report(server, thread=("one", "two")))
    assert again == slack.Sent(channel=CHANNEL, ts=first.ts)
    assert sorted(m["text"] or m["files"][0]["name"] for m in server.thread(first.ts)) == ["campaign-1.png", "one", "two"]


def test_an_answer_that_is_lost_does_not_post_twice(server: Slack) -> None:
    """When the connection ends after Slack took the message, it is found in the channel instead of being sent again."""
    server.faults = [Fault(method="chat.postMessage")]
    done = sent(bot(server), report(server))
    assert len(server.channel()) == 1 and done.ts == server.channel()[0]["ts"] and len(server.thread(done.ts)) == 3


def test_a_message_that_may_have_arrived_is_called_so(server: Slack) -> None:
    """Where nobody can look, a lost answer is told as perhaps sent, and it is not sent again by itself."""
    server.scopes = ALL - {"channels:history"}
    server.faults = [Fault(method="chat.postMessage")]
    assert refused(bot(server), report(server)).perhaps and server.calls.count("chat.postMessage") == 1


def test_without_the_scope_to_look_it_is_sent_and_said(server: Slack) -> None:
    """The report comes, and it is told that a crash could send it twice, and which scope would help."""
    server.scopes = ALL - {"channels:history"}
    done = sent(bot(server), report(server))
    assert len(server.thread(done.ts)) == 3
    assert "could have sent it twice" in done.lacking[0] and "channels:history" in done.lacking[0]


def test_a_picture_that_is_refused_does_not_take_the_rest_along(server: Slack) -> None:
    """Without files:write the message and the details are there, and the missing scope is named."""
    server.scopes = ALL - {"files:write"}
    done = sent(bot(server), report(server))
    assert [m["text"] for m in server.thread(done.ts)] == ["one", "two"] and "files:write" in done.lacking[0]


@pytest.mark.parametrize("method", ["conversations.history", "chat.postMessage", "files.getUploadURLExternal"])
def test_it_waits_as_long_as_slack_says(server: Slack, method: str) -> None:
    """A 429 with Retry-After is waited for, that long and no longer, and then all is there once."""
    server.faults = [Fault(method=method, error="ratelimited", status=429, wait=wait) for wait in ("7", "", "3")]
    waits: list[float] = []
    done = slack.send(bot(server), report(server), sleep=waits.append)
    assert isinstance(done, slack.Sent) and not done.lacking and waits == [7.0, 30.0, 3.0]
    assert len(server.channel()) == 1 and len(server.thread(done.ts)) == 3


def test_its_patience_has_an_end(server: Slack) -> None:
    """Longer waits than two minutes in all are not waited for: the report is told as not sent, and nothing is posted."""
    server.faults = [Fault(method="chat.postMessage", error="ratelimited", status=429, wait="50") for _ in range(9)]
    waits: list[float] = []
    done = slack.send(bot(server), report(server), sleep=waits.append)
    assert isinstance(done, slack.NotSent) and done.code == "ratelimited" and "try again later" in done.reason
    assert waits == [50.0, 50.0] and server.channel() == []


@pytest.mark.parametrize(
    ("change", "token", "channel", "told"),
    [
        ({}, "xoxb-revoked", CHANNEL, "put a valid one"),
        ({}, TOKEN, "C0NOWHERE", "Slack shows the app no such channel"),
        ({"member": False}, TOKEN, CHANNEL, "/invite"),
        ({"archived": True}, TOKEN, CHANNEL, "archived"),
        ({"scopes": frozenset()}, TOKEN, CHANNEL, "it needs chat:write"),
        ({"faults": [Fault(method="chat.postMessage", error="token_revoked")]}, TOKEN, CHANNEL, "not valid any more"),
        ({"faults": [Fault(method="chat.postMessage", error="msg_too_long")]}, TOKEN, CHANNEL, "a bug of ours"),
        ({"faults": [Fault(method="chat.postMessage", error="new_word")]}, TOKEN, CHANNEL, "Slack answered new_word"),
        ({"faults": [Fault(method="conversations.history", error="fatal_error")]}, TOKEN, CHANNEL, "Slack's own trouble"),
        ({"faults": [Fault(method="chat.postMessage", error="<html>", status=503)]}, TOKEN, CHANNEL, "Slack's own trouble"),
    ],
)  # fmt: skip
def test_what_slack_refuses_is_a_value_with_advice(
    server: Slack, change: dict[str, Any], token: str, channel: str, told: str
) -> None:
    """Each refusal comes back as words that say what to do, without the token; nothing is raised and nothing is posted."""
    vars(server).update(change)
    assert told in refused(bot(server, token=token, channel=channel), report(server)).reason
    assert server.messages == []


def test_a_slack_that_does_not_answer_is_a_value(server: Slack) -> None:
    """No server, and one that takes the call and says nothing, both end as NotSent, within the time for one answer."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server.url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        silent = bot(server)
        silent.client.timeout = 1
        done = refused(silent, report(server))
        assert "cannot be reached" in done.reason and done.perhaps
    gone = refused(bot(server), report(server))
    assert "Connection refused" in gone.reason and not gone.perhaps


@pytest.mark.parametrize("token", ["", "xoxb-a\nb", "xoxb a", "xoxb-ü"])
def test_a_token_that_cannot_be_one_is_told_and_not_shown(token: str) -> None:
    """An empty or broken secret is told before anything is sent, without its text."""
    found = slack.by_token(token, CHANNEL)
    assert isinstance(found, slack.NotSent) and "bot token" in found.reason and (not token or token not in found.reason)
    assert isinstance(slack.by_token(TOKEN, " "), slack.NotSent)


def test_a_webhook_takes_the_message_alone(server: Slack) -> None:
    """Through a webhook the message comes, with its blocks; no picture, no thread."""
    assert sent(hook(server), report(server)) == slack.Sent(channel="", ts="")
    assert [m["text"] for m in server.hooked] == ["a report"] and server.hooked[0]["blocks"] and server.calls == ["hook"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault(method="hook", error="no_service", status=404), "make a new one"),
        (Fault(method="hook", error="channel_is_archived", status=410), "archived"),
        (Fault(method="hook", error="action_prohibited", status=403), "ask its admin"),
        (Fault(method="hook", error="rollup_error", status=500), "Slack's own trouble"),
        (Fault(method="hook", error="rate_limited", status=429, wait="900"), "Slack asks to wait longer"),
        (Fault(method="hook"), "cannot be reached"),
    ],
)  # fmt: skip
def test_a_webhook_that_fails_is_a_value(server: Slack, fault: Fault, told: str) -> None:
    """Each refusal comes back as words that say what to do, without the address, which is a secret."""
    server.faults = [fault]
    assert told in refused(hook(server), report(server)).reason


def test_a_webhook_waits_too(server: Slack) -> None:
    """A 429 is waited for as long as Slack says, then the message is there once."""
    server.faults = [Fault(method="hook", error="rate_limited", status=429, wait="5")]
    waits: list[float] = []
    assert slack.send(hook(server), report(server), sleep=waits.append) == slack.Sent(channel="", ts="")
    assert waits == [5.0] and len(server.hooked) == 1


@pytest.mark.parametrize("address", ["", "hooks.slack.com/x", "file:///etc/passwd", "http://elsewhere/x", "https://a b"])
def test_a_webhook_that_is_no_address_is_told(address: str) -> None:
    """Only https is taken, and the address is not shown."""
    found = slack.by_webhook(address)
    assert isinstance(found, slack.NotSent) and (not address or address not in found.reason)


def test_nothing_is_logged(server: Slack, caplog: pytest.LogCaptureFixture) -> None:
    """The SDK's own log, with texts and addresses in it, stays silent also for one who asks to see everything."""
    caplog.set_level(0)
    server.faults = [Fault(method="chat.postMessage"), Fault(method="hook")]
    slack.send(bot(server), report(server), sleep=never)
    slack.send(hook(server), report(server), sleep=never)
    assert caplog.records == []
