"""The bot on GitHub (our double of it): what people type is heard once, who may not is told, and a campaign is what people see.

All HTTP is checked against GitHub's own description; git is real, over HTTP. Trouble with the platform is in test_faults.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from bot import events as e
from bot.__main__ import main
from bot.fold import fold
from bot.forge import ForgeError
from bot.git import GitError
from bot.log import BRANCH, LogDamaged, Moved
from bot.loop import View, refresh, step
from bot.platform import Platform, connect
from bot.remote import Busy
from tests.lab import SETUP, STATUS, Lab, open_lab, requests_of
from tests.laptop import machine

EYES, ROCKET, CONFUSED = "eyes", "rocket", "confused"


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The log is on GitHub where the test is about it, else beside it in memory, which spares two thirds of the time."""
    made = open_lab(tmp_path, remote_log=request.node.get_closest_marker("log") is not None)
    with made.double:
        made.double.open_issue("alice", "Smaller", "Look at the width.")
        yield made
        assert made.double.violations == [] and made.double.unknown == []


def reactions(lab: Lab) -> list[str]:
    """Those on the newest comment of a person."""
    people = [comment for comment in lab.double.home.comments.values() if comment.user.type == "User"]
    return [reaction.content for reaction in people[-1].reactions]


def replies(lab: Lab, number: int = 1) -> list[str]:
    return [text for text in lab.comments(number) if text.startswith("<!-- autoresearch:cmd=")]


def test_a_command_is_seen_accepted_and_told_in_one_comment(lab: Lab) -> None:
    """Eyes, then a rocket, one status comment with an estimate, and the issue as it was in the log."""
    lab.say(1, "/autoresearch 5 --target 1.9\r\n\r\nThank you!")
    assert reactions(lab) == [EYES, ROCKET]
    ((name, c),) = lab.state().campaigns.items()
    assert (name, c.started.experiments, c.settings.stop.target, c.started.by) == ("1.1", 5, 1.9, "alice")
    assert (c.started.title, c.started.body, c.started.branch) == ("Smaller", "Look at the width.", "main")
    (status,) = [text for text in lab.comments(1) if text.startswith("<!-- autoresearch:1.1")]
    assert "**Estimate:**" in status and not replies(lab)


@pytest.mark.parametrize("who", ["carol", "dave", "eve"])
def test_who_may_not_write_is_told_and_nothing_happens(lab: Lab, who: str) -> None:
    """Triage, read and a stranger: one reply says why and who can; nothing is in the log."""
    lab.say(1, "/autoresearch 5", by=who)
    assert reactions(lab) == [EYES, CONFUSED] and lab.state().campaigns == {}
    (reply,) = replies(lab)
    assert who in reply and "write permission" in reply


@pytest.mark.parametrize("who", ["alice", "bob", "octo"])
def test_write_maintain_and_admin_may(lab: Lab, who: str) -> None:
    """The permission interface calls maintain `write`."""
    lab.say(1, "/autoresearch 5", by=who)
    assert list(lab.state().campaigns) == ["1.1"]


@pytest.mark.parametrize("kind", ["502", "401", "drop", "HTML"])
def test_a_permission_that_cannot_be_asked_is_none(lab: Lab, kind: str) -> None:
    """Fail closed: nothing is written down, and whoever runs the job sees why."""
    there = lab.connection()
    lab.double.fail(with_=kind, times=9, path="/collaborators/")
    with pytest.raises((Busy, ForgeError)):
        lab.hear(lab.double.comment(1, "alice", "/autoresearch 5"), there)
    lab.double.mend()
    assert lab.state().campaigns == {}


def test_what_is_heard_twice_is_done_once(lab: Lab) -> None:
    """A redelivered event, a job run again: one campaign, one comment, and the same reactions."""
    event = lab.double.comment(1, "alice", "/autoresearch 5")
    for _ in range(3):
        lab.hear(event)
    assert list(lab.state().campaigns) == ["1.1"] and reactions(lab) == [EYES, ROCKET]
    assert len(lab.comments(1)) == 2


@pytest.mark.log
def test_two_commands_at_once_are_both_kept(lab: Lab) -> None:
    """Two jobs that read the same log: one writes first, the other looks again; no event is lost."""
    first, second = lab.connection(), lab.connection()
    lab.hear(lab.double.comment(1, "alice", "/autoresearch 5"), first)
    lab.hear(lab.double.comment(1, "bob", "/autoresearch 2"), second)
    assert [(c.name, c.started.experiments) for c in lab.state().campaigns.values()] == [("1.1", 5), ("1.2", 2)]


@pytest.mark.parametrize(
    "text", ["ask for /autoresearch 5", "> /autoresearch 5\n\nno", "```\n/autoresearch 5\n```", "/autoresearchers 5", "/deploy"]
)
def test_what_is_not_for_us_gets_silence(lab: Lab, text: str) -> None:
    """No reaction, no reply, nothing in the log, not even a question to GitHub."""
    there = lab.connection()
    before = len(lab.double.requests)
    lab.hear(lab.double.comment(1, "alice", text), there)
    assert reactions(lab) == [] and len(lab.comments(1)) == 1 and len(lab.double.requests) == before


def test_our_own_comments_and_edits_trigger_nothing(lab: Lab) -> None:
    """The bot's own comments come back as events, and a person may edit: neither is a command."""
    lab.say(1, "/autoresearch help")
    (ours,) = [event for event in lab.double.events if "[bot]" in event.payload["sender"]["login"]]
    assert "nothing to do" in lab.hear(ours)[0]
    comment = lab.double.comment(1, "alice", "later").payload["comment"]["id"]
    assert "nothing to do" in lab.hear(lab.double.edit_comment(comment, "alice", "/autoresearch 5"))[0]
    assert lab.state().campaigns == {}


def test_a_person_whose_own_token_the_bot_uses_may_command_it(lab: Lab) -> None:
    """With a personal token the bot writes in that person's name: their commands count, its own comments do not."""
    mine = replace(lab, who="alice")
    mine.say(1, "/autoresearch help")
    (reply,) = replies(lab)
    assert "what it does" in reply
    event = [event for event in lab.double.events if event.name == "issue_comment"][-1]
    assert event.payload["sender"]["login"] == "alice" and "nothing to do" in mine.hear(event)[0]
    mine.say(1, "/autoresearch 2")
    assert list(lab.state().campaigns) == ["1.1"]


@pytest.mark.log
def test_a_whole_campaign_as_people_see_it(lab: Lab) -> None:
    """Two merges, losers and a crash: pull requests, checks, labels, closing words and the head-to-head number, within the
    platform's budget: at most 14 requests and 4 content-creating ones a candidate, the status comment's shared out among them."""
    lab.say(1, "/autoresearch 9")
    c = lab.drive()
    home = lab.double.home
    pulls = {issue.title.partition(":")[0]: (issue, pull) for issue, pull in home.pulls()}
    assert len(pulls) == 9 == c.settled
    for x in c.candidates.values():
        if x.pull is None:
            continue
        issue, pull = pulls[f"Candidate {x.n}"]
        (check,) = [run for run in home.checks_of(pull.head_sha) if run.name == "autoresearch/val_bpb"]
        assert check.status == "completed" and ("val_bpb" in check.output["summary"] or x.why == "crash")
        assert check.conclusion == ("success" if x.why == "merged" else "failure")
        assert (bool(pull.merge_sha), issue.state) == (x.why == "merged", "closed")
        assert f"autoresearch: {x.why}" in issue.labels and home.tip(pull.head) is None
        assert check.annotations and all(note["path"] == "trainer/train.py" for note in check.annotations)
        closing = [text for text in lab.comments(issue.number) if "autoresearch:closing" in text]
        assert len(closing) == (0 if x.why == "merged" else 1)
    assert {label.color for label in home.labels.values() if label.name.startswith("autoresearch")} - {"ededed"}
    assert c.counts["merged"] >= 2 and c.counts["crash"] >= 1 and c.counts["worse"] >= 5
    status = next(text for text in lab.comments(1) if text.startswith("<!-- autoresearch:1.1"))
    assert "9 of 9 experiments done" in status and "2 pairs" in status
    _hold_the_budget(lab, c.settled)


def _hold_the_budget(lab: Lab, candidates: int) -> None:
    counts = requests_of(lab)
    shared, setup = counts.pop(STATUS), counts.pop(SETUP)
    assert setup[0] < 40, "what each process asks once stays small"
    rows = [(asked + shared[0] / candidates, created + shared[1] / candidates) for asked, created in counts.values()]
    assert len(rows) == candidates
    assert max(asked for asked, _ in rows) < 15 and max(created for _, created in rows) < 5
    assert median(asked for asked, _ in rows) <= 14 and median(created for _, created in rows) < 4.5


def test_a_stop_and_a_veto_reach_a_running_campaign(lab: Lab) -> None:
    """A review that asks for changes closes the candidate; `stop` ends the campaign; both from other jobs, through the log."""
    lab.say(1, "/autoresearch 9")
    world = lab.until(e.Opened)
    pull = next(iter(lab.double.home.pulls()))[0].number
    lab.hear(lab.double.review(pull, "bob", "CHANGES_REQUESTED", "not this"))
    lab.hear(lab.double.review(pull, "dave", "CHANGES_REQUESTED", "nor I"))
    lab.until(e.Closed, world)
    c = lab.state().campaigns["1.1"]
    assert (c.candidates[1].why, "bob" in c.candidates[1].reason) == ("vetoed", True)
    lab.say(1, "/autoresearch stop", by="bob")
    assert lab.drive().ended.why == "stopped"  # type: ignore[union-attr]
    assert all(issue.state == "closed" for issue, _ in lab.double.home.pulls())


def test_changes_that_were_asked_for_unheard_still_stop_the_merge(lab: Lab) -> None:
    """The webhook is lost: the review is read once more before the merge itself. One by a reader stops nothing."""
    lab.say(1, "/autoresearch 3")
    world = lab.until(e.CheckPosted)
    view = View()
    while not any(isinstance(x, e.CheckPosted) and x.conclusion == "success" for x in world.log.read()[0]):
        step(world, view)
    x = next(x for x in refresh(world, view).campaigns["1.1"].live.values() if x.checked)
    assert x.pull
    lab.double.review(x.pull, "dave", "CHANGES_REQUESTED", "hm")
    lab.double.review(x.pull, "alice", "CHANGES_REQUESTED", "no")
    lab.until(e.Vetoed, world)
    lab.drive(world)
    assert lab.state().campaigns["1.1"].candidates[x.n].why == "vetoed"
    assert lab.double.home.issues[x.pull].pull.merge_sha is None  # type: ignore[union-attr]


def test_explain_status_and_hint_on_the_platform(lab: Lab) -> None:
    """One reply for each command, edited when it is asked again; a hint gets a rocket and no words."""
    lab.say(1, "/autoresearch 2")
    lab.until(e.Opened)
    lab.say(2, "/autoresearch explain")
    assert "is not judged yet" in replies(lab, 2)[0]
    lab.say(1, "/autoresearch status")
    assert "0 of 2 experiments done" in replies(lab)[0]
    lab.say(1, "/autoresearch hint try less width")
    assert reactions(lab) == [EYES, ROCKET] and len(replies(lab)) == 1
    assert lab.state().campaigns["1.1"].hints[0].text == "try less width"


def test_undo_is_one_pull_request_that_people_merge(lab: Lab) -> None:
    """It takes the campaign's edits out, newest first, and leaves what others changed; asked twice it is the same one."""
    before = lab.double.bare.read("main", "trainer/train.py")
    lab.say(1, "/autoresearch 4")
    assert lab.drive().merged
    lab.double.push("main", {"README.md": "by a person\n"})
    for _ in range(2):
        lab.say(1, "/autoresearch undo", by="bob")
    undo = [(issue, pull) for issue, pull in lab.double.home.pulls() if "Take back" in issue.title]
    assert len(undo) == 1 and all(f"#{undo[0][0].number}" in reply for reply in replies(lab))
    head = lab.double.home.tip(undo[0][1].head)
    assert head and lab.double.bare.read(head, "trainer/train.py") == before
    assert lab.double.bare.read(head, "README.md") == "by a person\n"
    assert lab.state().campaigns["1.1"].undone == undo[0][0].number


# other people's rules and doings


@pytest.mark.parametrize("auto", [True, False])
def test_a_protected_branch_makes_the_campaign_wait_and_say_so(lab: Lab, auto: bool) -> None:
    """A required review: auto-merge is armed for the judged head, or a person is asked; once it lands the campaign goes on."""
    lab.double.home.allow_auto_merge = auto
    lab.double.protect(checks=("autoresearch/val_bpb",), reviews=1)
    lab.say(1, "/autoresearch 3")
    world = lab.until(e.Awaiting)
    lab.until(e.Said, world)
    view = View()
    for _ in range(20):
        if not step(world, view):
            lab.sleep(10)
    c = refresh(world, view).campaigns["1.1"]
    (x,) = [x for x in c.live.values() if x.awaiting]
    assert x.pull and ("auto-merge is on" in x.awaiting) is auto
    status = next(text for text in lab.comments(1) if text.startswith("<!-- autoresearch:1.1"))
    assert "waits to be merged" in status
    assert not any(y.flight for y in c.live.values()), "the next base is not known before it landed"
    lab.double.review(x.pull, "alice", "APPROVED")
    if not auto:
        lab.double.merge(x.pull, "alice")
    lab.double.protect(checks=("autoresearch/val_bpb",))
    lab.drive(world)
    c = lab.state().campaigns["1.1"]
    assert c.candidates[x.n].why == "merged" and c.settled == 3


def test_a_required_check_of_ours_is_enough(lab: Lab) -> None:
    """With nothing but `autoresearch/val_bpb` required, winners are merged with nobody watching."""
    lab.double.protect(checks=("autoresearch/val_bpb",))
    lab.say(1, "/autoresearch 3")
    assert lab.drive().counts["merged"] >= 1


def test_what_people_push_meanwhile_is_kept(lab: Lab) -> None:
    """A harmless push: merged on top of it. A push to the trainer: it is the new base and is measured itself."""
    lab.say(1, "/autoresearch 4")
    world = lab.until(e.Adopted)
    lab.double.push("main", {"README.md": "by a person\n"})
    lab.until(e.TipMoved, world)
    source = lab.double.bare.read("main", "trainer/train.py")
    assert source
    lab.double.push("main", {"trainer/train.py": source + "KNOB_9 = 0  # by hand\n"})
    c = lab.drive(world)
    assert c.settled == 4 and sum(x.base for x in c.candidates.values()) == 2
    assert lab.double.bare.read("main", "README.md") == "by a person\n"
    assert "KNOB_9" in (lab.double.bare.read("main", "trainer/train.py") or "")


def test_a_deleted_branch_and_a_closed_pull_request_are_vetoes(lab: Lab) -> None:
    """Whether the webhook is heard or not."""
    lab.say(1, "/autoresearch 3")
    world = lab.until(e.Opened)
    lab.double.delete_branch("autoresearch/1.1/1", by="bob")
    lab.until(e.Closed, world)
    first = lab.state().campaigns["1.1"].candidates[1]
    assert first.why == "vetoed"
    lab.drive(world)
    assert lab.state().campaigns["1.1"].settled == 3


def test_labels_that_were_deleted_come_back_with_their_colour(lab: Lab) -> None:
    """A person tidies up: the next process makes them again."""
    lab.say(1, "/autoresearch 2")
    lab.until(e.Opened)
    lab.double.home.labels.clear()
    for issue in lab.double.home.issues.values():
        issue.labels.clear()
    lab.drive()
    assert lab.double.home.labels["autoresearch"].color == "5319e7"


@pytest.mark.log
def test_a_renamed_repository_is_followed(lab: Lab, tmp_path: Path) -> None:
    """The old name leads to the new one, for commands and for the loop."""
    old = lab.platform()
    lab.double.rename("octo/laboratory")
    there = connect(old, tmp_path / "old", now=lambda: lab.now, sleep=lab.sleep)
    assert (old.name, there.threads.rest.name) == ("octo/lab", "octo/laboratory")
    lab.hear(lab.double.comment(1, "alice", "/autoresearch 1"), there)
    assert there.log.read()[0], "it was written down where the repository is now"
    assert lab.drive(lab.world(there)).settled == 1
    (led,) = lab.double.violations  # the address that GitHub itself leads to is in no description of its
    assert "/repositories/" in led
    lab.double.violations.clear()


def test_a_renamed_default_branch_is_followed(lab: Lab) -> None:
    """In the middle of a campaign: what comes next lands on the new name."""
    lab.say(1, "/autoresearch 3")
    world = lab.until(e.Adopted)
    lab.double.rename_branch("main", "trunk")
    c = lab.drive(world)
    assert c.settled == 3 and lab.double.home.tip("main") is None
    assert lab.double.home.tip("trunk") == c.candidates[c.landed].sha


def test_an_archived_repository_is_told_and_left_alone(lab: Lab) -> None:
    """Nothing can be written there: one sentence, no traceback, and a command gets silence."""
    lab.say(1, "/autoresearch 2")
    lab.until(e.Opened)
    lab.double.archive()
    with pytest.raises((ForgeError, GitError), match="archived"):
        lab.drive()


def test_a_locked_or_closed_issue(lab: Lab) -> None:
    """Closing the issue stops its campaign; on a locked one a stop still counts, without a reply."""
    lab.say(1, "/autoresearch 9")
    lab.until(e.Opened)
    lab.hear(lab.double.close(1, "alice"))
    assert lab.drive().ended.reason.startswith("stopped by alice")  # type: ignore[union-attr]
    second = lab.double.open_issue("alice", "Once more")
    lab.say(second, "/autoresearch 9")
    lab.double.lock(second)
    there = len(lab.comments(second))
    lab.hear(lab.double.comment(second, "alice", "/autoresearch stop"))
    assert lab.drive().ended.why == "stopped" and len(lab.comments(second)) == there + 1  # type: ignore[union-attr]
    assert "nothing to do" in lab.hear(lab.double.comment(1, "alice", "/autoresearch 5"))[0]


def test_an_issue_that_is_gone_and_a_locked_pull_request_hold_nothing_up(lab: Lab) -> None:
    """Nobody can be told any more: candidates are closed and the campaign ends all the same."""
    lab.say(1, "/autoresearch 3")
    world = lab.until(e.Opened)
    for issue, _ in lab.double.home.pulls():
        lab.double.lock(issue.number)
    del lab.double.home.issues[1]
    c = lab.drive(world)
    assert c.settled == 3 and c.ended is not None
    assert all(issue.state == "closed" for issue, _ in lab.double.home.pulls())


def test_another_robot_that_closes_a_winner_does_not_hang_the_campaign(lab: Lab) -> None:
    """Its pull request is gone, whoever did it: the candidate is withdrawn, and the next one comes."""
    lab.double.user("tidy[bot]", "write", kind="Bot")
    lab.say(1, "/autoresearch 2")
    world, view = lab.world(), View()
    while not any(isinstance(x, e.CheckPosted) and x.conclusion == "success" for x in world.log.read()[0]):
        if not step(world, view):
            lab.sleep(20)
    x = next(x for x in refresh(world, view).campaigns["1.1"].live.values() if x.checked)
    assert x.pull
    lab.double.close(x.pull, "tidy[bot]")
    c = lab.drive(world)
    assert c.settled == 2 and c.candidates[x.n].why in ("stale", "vetoed")


def test_a_program_that_is_edited_meanwhile_is_for_the_next_campaign(lab: Lab) -> None:
    """The campaign goes on with the settings that it began with."""
    lab.say(1, "/autoresearch 2")
    lab.until(e.Adopted)
    lab.double.push("main", {"program.md": "---\nnonsense: 1\n---\n"})
    assert lab.drive().settled == 2
    lab.say(1, "/autoresearch 2")
    assert "nonsense" in replies(lab)[-1] and len(lab.state().campaigns) == 1


# the log


@pytest.mark.log
def test_two_writers_on_the_log_branch(lab: Lab) -> None:
    """The second is told, looks again and writes: nothing is lost, and the history is one line."""
    lab.say(1, "/autoresearch 2")
    one, two = lab.connection().log, lab.connection().log
    at = one.read()[1]
    assert two.read()[1] == at
    one.append(e.Hinted(campaign="1.1", at=1.0, by="a", text="one"), at)
    with pytest.raises(Moved):
        two.append(e.Hinted(campaign="1.1", at=1.0, by="b", text="two"), at)
    new, at = two.events_since(at)
    assert [x.text for x in new] == ["one"]  # type: ignore[attr-defined]
    two.append(e.Hinted(campaign="1.1", at=1.0, by="b", text="two"), at)
    assert [hint.text for hint in fold(one.read()[0]).campaigns["1.1"].hints] == ["one", "two"]


@pytest.mark.log
def test_a_push_over_the_log_is_told_and_a_copy_is_kept(lab: Lab) -> None:
    """A force-push and an edit by hand are detected; the message says where what stood can be found."""
    lab.say(1, "/autoresearch 2")
    first = lab.double.home.tip(BRANCH)
    log = lab.connection().log
    log.append(e.Hinted(campaign="1.1", at=1.0, by="a", text="one"), log.read()[1])
    stood = lab.double.home.tip(BRANCH)
    log.read()
    assert first and stood
    lab.double.force_push(BRANCH, first)
    with pytest.raises(LogDamaged, match=f"pushed over there.*{stood}"):
        log.read()
    lab.double.force_push(BRANCH, stood)
    text = lab.double.bare.read(stood, "000/000000.jsonl")
    assert text
    lab.double.push(BRANCH, {"000/000000.jsonl": text.replace('"experiments":2', '"experiments":9')})
    with pytest.raises(LogDamaged, match="changed"):
        lab.connection().log.read()


# the command line


@pytest.mark.log
def test_hear_on_the_command_line(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a token it is done; with --dry-run it is only told, and GitHub is not asked."""
    event = lab.double.comment(1, "alice", "/autoresearch 3 --hours 2")
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event.payload))
    platform = Platform(name=lab.double.repo, token=lab.double.token("app"), api=lab.double.url, server=lab.double.url)
    here = machine(tmp_path, platform=lambda: platform, event="issue_comment", now=lambda: lab.now)
    before = len(lab.double.requests)
    assert main(["hear", "--event", str(file), "--dry-run"], here) == 0
    out = capsys.readouterr().out
    assert "would" in out and "3 experiments" in out and len(lab.double.requests) == before
    assert main(["hear", "--event", str(file)], here) == 0
    assert list(lab.state().campaigns) == ["1.1"]
    assert main(["hear", "--event", str(tmp_path / "none.json")], here) == 1
    assert "is not there" in capsys.readouterr().err
