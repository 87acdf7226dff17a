"""What the double remembers: users, tokens, repositories, and in each its issues, pull requests, checks and rules.

Plain records and look-ups; who may do what is in routes.py, what follows from what in merging.py. Times are epoch seconds, shas
40 hex digits; branches and commits are in the bare repository alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bot import git

ROLES = ("none", "read", "triage", "write", "maintain", "admin")
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


@dataclass
class User:
    """A person, or the bot user of an app."""

    login: str
    id: int
    type: str = "User"


@dataclass
class Identity:
    """What a token stands for. `kind` is pat | github_token | app | jwt; `permissions` are those of an app's installation."""

    token: str
    user: User
    kind: str = "pat"
    app: int = 0
    permissions: dict[str, str] = field(default_factory=dict)

    @property
    def is_app(self) -> bool:
        return self.kind in ("app", "github_token")


@dataclass
class Reaction:
    id: int
    user: User
    content: str
    at: float


@dataclass
class Comment:
    id: int
    number: int  # of the issue or pull request
    user: User
    body: str
    created: float
    updated: float
    app: int = 0  # the app it was made through, 0 for none
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class LineComment:
    """A comment on a changed line of a pull request; `to` is the comment that it answers."""

    id: int
    number: int
    user: User
    body: str
    created: float
    updated: float
    path: str
    line: int
    commit: str
    to: int | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Review:
    id: int
    user: User
    state: str  # APPROVED | CHANGES_REQUESTED | COMMENTED | DISMISSED
    body: str
    commit: str
    at: float


@dataclass
class AutoMerge:
    by: User
    method: str
    title: str
    message: str


@dataclass
class Pull:
    """What a pull request has beside its issue. `polls` counts how often `mergeable` is still null."""

    id: int
    base: str
    base_sha: str
    head: str
    head_sha: str
    draft: bool = False
    merged_at: float | None = None
    merged_by: User | None = None
    merge_sha: str | None = None
    auto: AutoMerge | None = None
    reviews: list[Review] = field(default_factory=list)
    polls: int = 0
    onto: str = ""  # where the base branch was when last looked at


@dataclass
class Issue:
    """An issue, or with `pull` a pull request."""

    id: int
    number: int
    user: User
    title: str
    body: str | None
    created: float
    updated: float
    app: int = 0
    state: str = "open"
    reason: str | None = None
    locked: bool = False
    labels: list[str] = field(default_factory=list)
    closed: float | None = None
    closed_by: User | None = None
    reactions: list[Reaction] = field(default_factory=list)
    pull: Pull | None = None


@dataclass
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass
class CheckRun:
    id: int
    app: int
    name: str
    head: str
    status: str = "queued"
    conclusion: str | None = None
    started: str | None = None
    completed: str | None = None
    external: str = ""
    details: str | None = None
    output: dict[str, Any] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Protection:
    """The rules of one branch. `checks` are the names of required checks, from `app` unless that is 0."""

    checks: list[str] = field(default_factory=list)
    app: int = 0
    reviews: int = 0
    strict: bool = False


@dataclass
class Event:
    """What GitHub would send to a webhook. `triggers` is false for events of a GITHUB_TOKEN, which start no workflow."""

    name: str
    action: str
    payload: dict[str, Any]
    triggers: bool = True


@dataclass
class Repository:
    """One repository; fields without a comment are settings as GitHub names them."""

    id: int
    owner: str
    name: str
    bare: git.Repo
    default_branch: str
    private: bool = False
    archived: bool = False
    has_issues: bool = True
    allow_auto_merge: bool = False
    delete_branch_on_merge: bool = False
    allow_squash_merge: bool = True
    allow_merge_commit: bool = True
    allow_rebase_merge: bool = False  # the double does not rebase, and says so by this setting
    roles: dict[str, str] = field(default_factory=dict)  # login -> role
    protection: dict[str, Protection] = field(default_factory=dict)  # branch -> rules
    issues: dict[int, Issue] = field(default_factory=dict)
    comments: dict[int, Comment] = field(default_factory=dict)
    line_comments: dict[int, LineComment] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)  # lower-case name -> label
    checks: dict[int, CheckRun] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)  # dispatched workflows, oldest first
    dispatches: list[dict[str, Any]] = field(default_factory=list)  # what was asked for, word for word
    runners: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    rulesets: list[dict[str, Any]] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)  # names
    can_approve: bool = False  # "Allow GitHub Actions to create and approve pull requests"
    memo: dict[tuple[str, str, str], Any] = field(default_factory=dict)  # what git said of two commits: it cannot change

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def tip(self, branch: str) -> str | None:
        return self.bare.resolve(f"refs/heads/{branch}")

    def role(self, login: str) -> str:
        """The role of a user; of somebody who is no collaborator, what everybody may."""
        return self.roles.get(login, "none" if self.private else "read")

    def pulls(self) -> Iterator[tuple[Issue, Pull]]:
        return ((issue, issue.pull) for issue in self.issues.values() if issue.pull)

    def checks_of(self, head: str) -> list[CheckRun]:
        """All runs on a commit, newest first."""
        return sorted((run for run in self.checks.values() if run.head == head), key=lambda run: -run.id)


@dataclass
class Hub:
    """All of the double's GitHub. `url` is where it listens; `lazy` is how often a new `mergeable` answers null first."""

    now: Callable[[], float]
    url: str = ""
    lazy: int = 0
    users: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, Identity] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)  # lower-case full name of the past -> id
    events: list[Event] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_001))

    def repository(self, full_name: str) -> Repository | None:
        name = full_name.lower()
        return next((repo for repo in self.repositories.values() if repo.full_name.lower() == name), None)
