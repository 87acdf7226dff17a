"""Webhook payloads to what people said: real payloads (tests/payloads/PROVENANCE.md) as they came, and bent in every way."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.command import Help, Hint, Misuse, Run, Status, Stop, Veto
from bot.hearing import Ignored, IssueClosed, PullClosed, Reviewed, Said, heard

PAYLOADS = Path(__file__).resolve().parent / "payloads"
ME = "our-bot[bot]"
FILES = sorted(path.name.removesuffix(".json") for path in PAYLOADS.glob("*.json"))
BASE = {"repository": "Codertocat/Hello-World", "default_branch": "master", "login": "Codertocat"}
COMMIT = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
COMMENT, INLINE = "issue_comment.created", "pull_request_review_comment.created"
REVIEW, PULL, ISSUE = "pull_request_review.submitted", "pull_request.closed", "issues.closed"
LISTENED = (COMMENT, INLINE, REVIEW, PULL, ISSUE)
GONE = object()


def payload(name: str, changes: dict[str, Any] | None = None) -> Any:
    """A payload with fields by dotted path set to other values, or taken out with GONE."""
    content = copy.deepcopy(json.loads((PAYLOADS / f"{name}.json").read_text("utf-8")))
    for path, value in (changes or {}).items():
        *above, last = path.split(".")
        place = content
        for key in above:
            place = place[key]
        if value is GONE:
            del place[last]
        else:
            place[last] = value
    return content


def hear(name: str, changes: dict[str, Any] | None = None, *, me: str = ME) -> Any:
    return heard(name.partition(".")[0], payload(name, changes), me=me)


def said(body: str, changes: dict[str, Any] | None = None) -> Any:
    return hear(COMMENT, {"comment.body": body} | (changes or {}))


def reason(found: object) -> str:
    assert isinstance(found, Ignored), found
    return found.reason


def bent(name: str) -> dict[str, Any]:
    """What makes a payload of that name be listened to."""
    where = {COMMENT: "comment.body", INLINE: "comment.body", REVIEW: "review.body"}.get(name)
    return {where: "/autoresearch stop"} if where else {}


# What is heard


def test_a_command_on_an_issue() -> None:
    """A comment with a command is heard with who, where, when, and title and text of the issue as they were."""
    assert said("/autoresearch 10\r\n\r\nthanks") == Said(
        **BASE, issue=1, on_pull=False, comment=492700400, inline=False, created_at=1557933621.0, command=Run(10, {}),
        title="Spelling error in the README file", body="It looks like you accidently spelled 'commit' with two 't's.",
        closed=False, locked=False,
    )  # fmt: skip


def test_a_comment_on_a_pull_request_is_told_apart() -> None:
    """Only the key pull_request of the issue marks a pull request (pytorch/test-infra#206): there, veto is a command."""
    on_pull = said("/autoresearch veto", {"issue.pull_request": {"url": "https://api.github.com/repos/a/b/pulls/1"}})
    assert (on_pull.on_pull, on_pull.command) == (True, Veto())
    on_issue = said("/autoresearch veto")
    assert not on_issue.on_pull and isinstance(on_issue.command, Misuse)


def test_a_command_beside_a_line_of_code() -> None:
    """A review comment is heard too, marked as inline: its ids are not those of issue comments."""
    found = hear(INLINE, {"comment.body": "/autoresearch explain"})
    assert (found.issue, found.comment, found.on_pull, found.inline) == (2, 284312630, True, True)


def test_a_review() -> None:
    """A review is heard if it asks for changes or holds a command, with the commit that was looked at."""
    assert reason(hear(REVIEW)) == "the review neither asks for changes nor holds a command"
    wanted = Reviewed(
        **BASE, pull=2, review=237895671, state="changes_requested", commit=COMMIT, created_at=1557933638.0, command=None,
        closed=False, locked=False,
    )  # fmt: skip
    assert hear(REVIEW, {"review.state": "changes_requested"}) == wanted
    assert hear(REVIEW, {"review.state": "CHANGES_REQUESTED", "review.body": "not like this"}) == wanted
    assert hear(REVIEW, {"review.body": "/autoresearch hint no"}).command == Hint("no")
    assert hear(REVIEW, {"review.state": "approved", "review.body": "/autoresearch stop"}).state == "approved"


def test_a_pull_request_is_closed() -> None:
    """A closed pull request is heard with its branch, and whether it was merged."""
    assert hear(PULL) == PullClosed(**BASE, pull=2, merged=False, branch="changes")
    assert hear(PULL, {"pull_request.merged": True}).merged


def test_an_issue_is_closed() -> None:
    """A closed issue is heard with who closed it."""
    assert hear(ISSUE) == IssueClosed(**BASE, issue=1)


def test_empty_texts_are_null() -> None:
    """The text of an issue may be null and is empty then; a comment or a review without text says nothing."""
    assert said("/autoresearch", {"issue.body": None}).body == ""
    assert said("/autoresearch", {"issue.body": None}).command == Help()
    assert reason(hear(COMMENT, {"comment.body": None})) == "there is no command in the comment"
    assert reason(hear(INLINE, {"comment.body": None})) == "there is no command in the comment"


def test_the_default_branch_is_read_each_time() -> None:
    """A renamed default branch or repository is known from the payload (trx-python#146)."""
    found = said("/autoresearch stop", {"repository.default_branch": "trunk", "repository.full_name": "o-rg/new.name_1"})
    assert (found.default_branch, found.repository) == ("trunk", "o-rg/new.name_1")


# What is ignored


@pytest.mark.parametrize("name", [name for name in FILES if name not in LISTENED])
def test_edits_and_deletions_are_not_read(name: str) -> None:
    """A comment that is edited into a command, or deleted, starts nothing (homu#79, rustc-perf#283)."""
    found = reason(hear(name, {"comment.body": "/autoresearch 10"}))
    assert found in ("edits are not read: a new comment is a new command", "issue_comment deleted says nothing to us")


def test_a_writer_who_edits_the_comment_of_a_stranger_runs_nothing() -> None:
    """On an edit the sender is the editor and the author somebody else; neither way does it run."""
    for changes in ({"sender.login": "writer"}, {"comment.user.login": "writer"}):
        edited = hear("issue_comment.edited", {"comment.body": "/autoresearch 10"} | changes)
        assert "edits are not read" in reason(edited)
        assert reason(said("/autoresearch 10", changes)) == "who sent it is not who wrote it"


@pytest.mark.parametrize("name", LISTENED)
def test_bots_and_we_ourselves_are_not_heard(name: str) -> None:
    """Whatever a bot does, or is done under our own login in any case of letters, or through our app, is not for us."""
    assert not isinstance(hear(name, bent(name)), Ignored)
    for changes in ({"sender.type": "Bot"}, {"sender.type": "Organization"}, {"sender.login": "Our-Bot[bot]"}):
        assert reason(hear(name, bent(name) | changes)) == "it comes from a bot or from ourselves"
    assert reason(hear(name, bent(name), me="codertocat")) == "it comes from a bot or from ourselves"


@pytest.mark.parametrize(("name", "where"), [(COMMENT, "comment"), (INLINE, "comment"), (REVIEW, "review")])
def test_the_author_is_looked_at_too(name: str, where: str) -> None:
    """A bot as the author, our own app, an app without a name or a deleted author are not heard; other apps of people are."""
    for changes in (
        {f"{where}.user.type": "Bot"},
        {f"{where}.user.login": ME},
        {f"{where}.performed_via_github_app": {"slug": "our-bot"}},
        {f"{where}.performed_via_github_app": {"slug": "Our-Bot"}},
    ):
        assert reason(hear(name, bent(name) | changes)) == "it comes from a bot or from ourselves"
    assert "slug" in reason(hear(name, bent(name) | {f"{where}.performed_via_github_app": {}}))
    assert f"no usable {where}.user.type" in reason(hear(name, bent(name) | {f"{where}.user": None}))
    assert hear(name, bent(name) | {f"{where}.performed_via_github_app": {"slug": "slack"}}).command == Stop()


def test_our_own_words_are_not_heard_from_anyone() -> None:
    """A comment with our hidden marker is not read, though a person sends it (finos/cla-bot#87)."""
    assert reason(said("<!-- autoresearch:cmd=1 -->\n/autoresearch 10")) == "there is no command in the comment"


@pytest.mark.parametrize("name", LISTENED)
def test_an_archived_repository_is_left_alone(name: str) -> None:
    """Nothing can be written to an archived repository, so nothing is tried; nor where that is not known."""
    assert "archived" in reason(hear(name, bent(name) | {"repository.archived": True}))
    assert "repository.archived" in reason(hear(name, bent(name) | {"repository.archived": None}))


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"state": "closed"}, "closed"), ({"locked": True}, "locked"), ({"state": "closed", "locked": True}, "closed")],
)
def test_no_campaign_starts_on_a_closed_or_locked_thread(changes: dict[str, Any], word: str) -> None:
    """Where no report could be written no campaign starts, while other commands are heard with both facts."""
    on_issue = {f"issue.{key}": value for key, value in changes.items()}
    on_pull = {f"pull_request.{key}": value for key, value in changes.items()}
    assert reason(said("/autoresearch 10", on_issue)) == f"no campaign starts on what is {word}"
    for name, where in ((INLINE, "comment.body"), (REVIEW, "review.body")):
        assert reason(hear(name, {where: "/autoresearch 10"} | on_pull)) == f"no campaign starts on what is {word}"
        assert hear(name, {where: "/autoresearch stop"} | on_pull).closed == ("state" in changes)
    found = said("/autoresearch status", on_issue)
    assert (found.command, found.closed, found.locked) == (Status(), "state" in changes, "locked" in changes)


@pytest.mark.parametrize("name", [INLINE, REVIEW, PULL])
@pytest.mark.parametrize("change", [
    {"pull_request.head.repo": None}, {"pull_request.head.repo": GONE}, {"pull_request.head": None}, {"pull_request": None},
    {"pull_request.head.repo.id": 7}, {"pull_request.head.repo.id": None}, {"pull_request.head.repo.id": "186853002"},
], ids=str)  # fmt: skip
def test_forks_are_not_ours(name: str, change: dict[str, Any]) -> None:
    """A pull request from a fork, a deleted one too (anomalyco/opencode#13820), is never taken for one of our candidates."""
    assert reason(hear(name, bent(name) | change)) == "the pull request is not from a branch of this repository"


def test_two_unknown_repositories_are_not_the_same() -> None:
    """Null is not equal to null: without the id of the repository nothing is taken for a branch of it."""
    both = {"repository.id": None, "pull_request.head.repo.id": None}
    assert reason(hear(PULL, both)) == "the payload has no usable repository.id"
    one = {"repository.id": 1, "pull_request.head.repo.id": True}
    assert reason(hear(PULL, one)) == "the pull request is not from a branch of this repository"


STRANGE = [
    (COMMENT, "comment.id", True), (COMMENT, "comment.id", "7"), (COMMENT, "comment.id", 0), (COMMENT, "comment.id", 10**30),
    (COMMENT, "issue.number", -1), (COMMENT, "issue.number", 1.0), (COMMENT, "comment.created_at", "yesterday"),
    (COMMENT, "comment.created_at", "2019-05-15T15:20:18"), (COMMENT, "comment.created_at", 1557933618),
    (COMMENT, "comment.body", 7), (COMMENT, "comment.body", ["/autoresearch 10"]), (COMMENT, "issue.title", None),
    (COMMENT, "issue.body", "half a \ud800"), (COMMENT, "issue.locked", "no"), (COMMENT, "issue.state", None),
    (COMMENT, "repository.full_name", "../.."), (COMMENT, "repository.full_name", "a/b/c"),
    (COMMENT, "repository.full_name", "a/b\n"),
    (COMMENT, "repository.default_branch", "--upload-pack=x"), (COMMENT, "repository.default_branch", "a..b"),
    (PULL, "pull_request.head.ref", "a b"), (PULL, "pull_request.head.ref", ""), (PULL, "pull_request.merged", None),
    (PULL, "pull_request.merged", 1), (PULL, "sender.login", "a/../b"), (PULL, "sender.login", ""),
    (REVIEW, "review.commit_id", None), (REVIEW, "review.commit_id", "main"), (REVIEW, "review.state", None),
    (REVIEW, "review.submitted_at", None), (ISSUE, "sender.type", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value"), STRANGE, ids=[f"{path}={value!r}" for _, path, value in STRANGE])
def test_a_strange_field_closes_the_door(name: str, path: str, value: object) -> None:
    """A field of another type, out of range or of a strange form is told by its name, and nothing is acted upon."""
    assert reason(hear(name, bent(name) | {path: value})) == f"the payload has no usable {path}"


@pytest.mark.parametrize("content", [None, [], "text", 7, True, {}, {"action": None}, {"action": ["created"]}], ids=repr)
def test_what_is_no_payload_is_ignored(content: object) -> None:
    """What is no JSON object, or has no action, is ignored by value."""
    assert reason(heard("issue_comment", content, me=ME)) in ("the payload is no JSON object", "issue_comment says nothing to us")


def test_other_events_say_nothing() -> None:
    """Events that nobody listens to are named in the reason, made harmless."""
    assert reason(heard("push", {"action": "created"}, me=ME)) == "push created says nothing to us"
    assert reason(heard("issues", {"action": "opened\x1b[1m"}, me=ME)) == "issues 'opened\\x1b[1m' says nothing to us"
    assert reason(heard("pull_request", {"action": "edited"}, me=ME)) == "pull_request edited says nothing to us"


def paths(content: object, prefix: str = "") -> list[str]:
    """Of every field, by its keys with dots between them; what is below a key that has one itself is left out."""
    inside = [(key, value) for key, value in content.items() if "." not in key] if isinstance(content, dict) else []
    return [path for key, value in inside for path in (prefix + key, *paths(value, f"{prefix}{key}."))]


@pytest.mark.parametrize("name", LISTENED)
def test_any_field_may_be_missing(name: str) -> None:
    """A payload that lacks any one field, or has null there, is heard in full or ignored with a reason, never half."""
    whole = hear(name, bent(name))
    for path in paths(payload(name)):
        for value in (GONE, None):
            found = hear(name, bent(name) | {path: value}) if path not in bent(name) else whole
            assert found == whole or (isinstance(found, Ignored) and found.reason) or path.endswith(".body"), path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=4),
    max_leaves=10,
)
EVENTS = st.sampled_from([name.partition(".")[0] for name in FILES]) | st.text()


@given(EVENTS, st.dictionaries(st.text(), JSON) | JSON, st.sampled_from(["created", "submitted", "closed"]))
def test_no_object_makes_it_fail(event: str, content: Any, action: str) -> None:
    """Whatever JSON comes, whether or not it has an action we listen to, it is ignored with a reason that can be printed."""
    found = heard(event, content | {"action": action} if isinstance(content, dict) else content, me=ME)
    assert isinstance(found, Ignored)
    assert found.reason.isprintable()


@given(st.sampled_from(LISTENED), st.data())
def test_no_bent_payload_makes_it_fail(name: str, data: st.DataObject) -> None:
    """A real payload with anything at all in up to three places is heard or ignored, never an exception."""
    content = payload(name, bent(name))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(content)))
        *above, last = path.split(".")
        place = content
        for key in above:
            place = place[key]
        place[last] = data.draw(JSON)
    assert heard(name.partition(".")[0], content, me=ME)
