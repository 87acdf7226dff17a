"""A webhook payload becomes what was said or done by a person, or Ignored with a reason.

This is the door for payloads: each field is checked here, once, and what is missing or strange closes it (a payload whose
sender, repository or fork cannot be told is not acted upon). Whether a person may do what they ask for is not known here: the
author_association of a payload is wrong for private members (databricks/databricks-sql-python#869), so the caller asks the
permission API.

Fields as in docs.github.com/en/webhooks/webhook-events-and-payloads. Pure; no payload makes it raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from bot.command import Command, Run, read
from bot.frontmatter import show

T = TypeVar("T")

_LOGIN = re.compile(r"[A-Za-z0-9_-]{1,100}")  # those with [bot] are of bots
_REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH = re.compile(r"(?!-)(?!.*\.\.)[^\x00-\x20\x7f~^:?*\[\\]{1,255}")  # man git-check-ref-format
_BROKEN = re.compile(r"[\ud800-\udfff]")  # what JSON can say and UTF-8 cannot
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What all have in common: who did it and where. Times in this module are seconds since 1970."""

    repository: str
    default_branch: str
    login: str


@dataclass(frozen=True, kw_only=True)
class Said(Heard):
    """A command in a comment. `inline`: in a review comment, whose ids are another series than those of issue comments.

    `title` and `body` are those of the issue or pull request, as they were then. A `locked` one may take no reply. Whether
    a pull request comes from a fork is not in the payload of an issue comment: ask before acting on its code.
    """

    issue: int
    on_pull: bool
    comment: int
    inline: bool
    created_at: float
    command: Command
    title: str
    body: str
    closed: bool
    locked: bool


@dataclass(frozen=True, kw_only=True)
class Reviewed(Heard):
    """A review that asks for changes (`state` is changes_requested), or holds a command, or both. `commit`: what was reviewed."""

    pull: int
    review: int
    state: str
    commit: str
    created_at: float
    command: Command | None
    closed: bool
    locked: bool


@dataclass(frozen=True, kw_only=True)
class PullClosed(Heard):
    """A pull request of this repository, not of a fork."""

    pull: int
    merged: bool
    branch: str


@dataclass(frozen=True, kw_only=True)
class IssueClosed(Heard):
    issue: int


@dataclass(frozen=True)
class Ignored:
    reason: str


class _Shut(Exception):
    """Why this payload is not listened to."""


class _Payload:
    """The door: fields by dotted path, of the type that is asked for, or Shut."""

    def __init__(self, content: object) -> None:
        self._content = content

    def find(self, path: str) -> object:
        """None for what is missing."""
        value = self._content
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def get(self, path: str, kind: type[T]) -> T:
        value = self.find(path)
        if type(value) is not kind or (isinstance(value, str) and _BROKEN.search(value)):  # isinstance would take true for 1
            raise _Shut(f"the payload has no usable {path}")
        return value

    def number(self, path: str) -> int:
        if not 1 <= (value := self.get(path, int)) < 2**63:
            raise _Shut(f"the payload has no usable {path}")
        return value

    def name(self, path: str, pattern: re.Pattern[str]) -> str:
        if not pattern.fullmatch(value := self.get(path, str)):
            raise _Shut(f"the payload has no usable {path}")
        return value

    def text(self, path: str) -> str:
        """GitHub sends null for an empty body."""
        return "" if self.find(path) is None else self.get(path, str)

    def time(self, path: str) -> float:
        try:
            return (datetime.fromisoformat(self.get(path, str)) - _EPOCH).total_seconds()
        except (ValueError, TypeError):  # TypeError: it has no time zone
            raise _Shut(f"the payload has no usable {path}") from None


def heard(event: str, payload: object, *, me: str) -> Said | Reviewed | PullClosed | IssueClosed | Ignored:
    """What a payload of this event (the X-GitHub-Event header) says. `me` is the login we write with, such as "x[bot]"."""
    if not isinstance(payload, Mapping):
        return Ignored("the payload is no JSON object")
    action = payload.get("action")
    listen = _LISTEN.get((event, action)) if isinstance(action, str) else None
    if listen is None:
        return Ignored(_unheard(event, action))
    try:
        return listen(_Payload(payload), me)
    except _Shut as shut:
        return Ignored(str(shut))


def _unheard(event: str, action: object) -> str:
    if action == "edited" and (event, "created") in _LISTEN:
        return "edits are not read: a new comment is a new command"
    return f"{show(event)} {show(action)} says nothing to us" if isinstance(action, str) else f"{show(event)} says nothing to us"


def _said(payload: _Payload, me: str) -> Said:
    return _comment(payload, me, "issue", on_pull=payload.find("issue.pull_request") is not None, inline=False)


def _said_inline(payload: _Payload, me: str) -> Said:
    _own_branch(payload)
    return _comment(payload, me, "pull_request", on_pull=True, inline=True)


def _comment(payload: _Payload, me: str, thread: str, *, on_pull: bool, inline: bool) -> Said:
    login = _person(payload, me, "comment.")
    command = read(payload.text("comment.body"), on_pull=on_pull)
    if command is None:
        raise _Shut("there is no command in the comment")
    closed, locked = _open_enough(payload, thread, command)
    return Said(
        repository=_repository(payload), default_branch=payload.name("repository.default_branch", _BRANCH), login=login,
        issue=payload.number(f"{thread}.number"), on_pull=on_pull, comment=payload.number("comment.id"), inline=inline,
        created_at=payload.time("comment.created_at"), command=command, title=payload.get(f"{thread}.title", str),
        body=payload.text(f"{thread}.body"), closed=closed, locked=locked,
    )  # fmt: skip


def _reviewed(payload: _Payload, me: str) -> Reviewed:
    _own_branch(payload)
    login = _person(payload, me, "review.")
    state = payload.get("review.state", str).lower()
    command = read(payload.text("review.body"), on_pull=True)
    if command is None and state != "changes_requested":
        raise _Shut("the review neither asks for changes nor holds a command")
    closed, locked = _open_enough(payload, "pull_request", command)
    return Reviewed(
        repository=_repository(payload), default_branch=payload.name("repository.default_branch", _BRANCH), login=login,
        pull=payload.number("pull_request.number"), review=payload.number("review.id"), state=state,
        commit=payload.name("review.commit_id", _COMMIT), created_at=payload.time("review.submitted_at"), command=command,
        closed=closed, locked=locked,
    )  # fmt: skip


def _pull_closed(payload: _Payload, me: str) -> PullClosed:
    _own_branch(payload)
    return PullClosed(
        repository=_repository(payload), default_branch=payload.name("repository.default_branch", _BRANCH),
        login=_person(payload, me), pull=payload.number("pull_request.number"),
        merged=payload.get("pull_request.merged", bool), branch=payload.name("pull_request.head.ref", _BRANCH),
    )  # fmt: skip


def _issue_closed(payload: _Payload, me: str) -> IssueClosed:
    return IssueClosed(
        repository=_repository(payload), default_branch=payload.name("repository.default_branch", _BRANCH),
        login=_person(payload, me), issue=payload.number("issue.number"),
    )  # fmt: skip


_LISTEN: Mapping[tuple[str, str], Callable[[_Payload, str], Said | Reviewed | PullClosed | IssueClosed]] = {
    ("issue_comment", "created"): _said,
    ("pull_request_review_comment", "created"): _said_inline,
    ("pull_request_review", "submitted"): _reviewed,
    ("pull_request", "closed"): _pull_closed,
    ("issues", "closed"): _issue_closed,
}


def _repository(payload: _Payload) -> str:
    if payload.get("repository.archived", bool):
        raise _Shut("the repository is archived: nothing can be written there")
    return payload.name("repository.full_name", _REPOSITORY)


def _person(payload: _Payload, me: str, author: str = "") -> str:
    """The login of whoever did it; never a bot or us. `author`: where the author stands, who must be the same person."""
    for whose in ("sender", *([f"{author}user"] if author else [])):
        if payload.get(f"{whose}.type", str) != "User" or payload.get(f"{whose}.login", str).lower() == me.lower():
            raise _Shut("it comes from a bot or from ourselves")
    app = f"{author}performed_via_github_app"
    if author and payload.find(app) is not None and f"{payload.get(f'{app}.slug', str)}[bot]".lower() == me.lower():
        raise _Shut("it comes from a bot or from ourselves")
    login = payload.name("sender.login", _LOGIN)
    if author and payload.get(f"{author}user.login", str) != login:
        raise _Shut("who sent it is not who wrote it")
    return login


def _open_enough(payload: _Payload, thread: str, command: Command | None) -> tuple[bool, bool]:
    """Whether the thread is closed, and whether it is locked. A campaign starts in neither: it could not report there."""
    closed, locked = payload.get(f"{thread}.state", str) != "open", payload.get(f"{thread}.locked", bool)
    if isinstance(command, Run) and (closed or locked):
        raise _Shut(f"no campaign starts on what is {'closed' if closed else 'locked'}")
    return closed, locked


def _own_branch(payload: _Payload) -> None:
    """Our candidates are branches of this repository; head.repo is null once a fork is deleted (anomalyco/opencode#13820)."""
    head, ours = payload.find("pull_request.head.repo.id"), payload.number("repository.id")
    if type(head) is not int or head != ours:
        raise _Shut("the pull request is not from a branch of this repository")
