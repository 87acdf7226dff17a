"""What the loop needs from a forge: branches, pull requests, checks, comments, guarded merges.

Each verb is an *ensure*: doing it again after a crash changes nothing and returns the same. Implementations:

    github.py  GitHub
    local.py   a bare repository and one JSON file beside it (laptop, tests on real git)
    memory.py  the same without git or disk, for tests of the machine by the thousand

A refusal that a person or another push caused is a value (`NotMerged`); a broken promise of the forge is `ForgeError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

CHECK = "autoresearch/val_bpb"


class ForgeError(Exception):
    """The forge did not do what it promises; the message says what and what to do."""


class Gone(ForgeError):
    """A thread that cannot be written to any more: deleted, moved away or locked. Nothing else depends on it."""


class PullState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check on one commit. `conclusion` is success | failure | neutral | cancelled | timed_out | action_required.
    `lines` are the changed ones: (path, first, last), counted from 1 in the new file."""

    head: str
    conclusion: str
    title: str
    summary: str
    text: str = ""
    lines: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pull:
    """A pull request as it stands. `merged` is the commit on the default branch, when merged."""

    number: int
    branch: str
    head: str
    title: str
    body: str
    state: PullState
    labels: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    merged: str | None = None
    closed_by: str | None = None  # who closed it; None when nobody or the bot did
    checks: tuple[Check, ...] = ()  # of its head, newest last


@dataclass(frozen=True, kw_only=True)
class Landed:
    """The merge commit on the default branch."""

    sha: str


@dataclass(frozen=True, kw_only=True)
class NotMerged:
    """Why it was not merged: moved (the default branch is not `onto` any more), guard (the merged tree would not be
    the measured one), conflict, head (the branch is not at the judged commit), closed (somebody closed the pull request),
    vetoed (`detail` is who), waits (the platform's rules are not met: it merges by itself later, or a person must)."""

    why: str
    detail: str


class Forge(Protocol):
    """One repository."""

    def tip(self) -> str:
        """The commit that the default branch points at."""

    def push(self, branch: str, commit: str) -> None:
        """Make `branch` point at `commit`, whatever it pointed at before (only for branches under autoresearch/)."""

    def open_pull(self, *, branch: str, title: str, body: str, labels: tuple[str, ...]) -> int:
        """The number of the pull request of that branch: the one that exists in any state, else a new one."""

    def pull_of(self, branch: str) -> int | None:
        """The number of the pull request of that branch, in any state; None when there is none."""

    def pull(self, number: int) -> Pull:
        """Raises ForgeError when there is none."""

    def edit_pull(self, number: int, *, title: str, body: str, labels: tuple[str, ...]) -> None:
        """Make title, body and labels these."""

    def post_check(self, check: Check) -> None:
        """Make the newest check `CHECK` of that commit this one."""

    def merge(self, number: int, *, head: str, onto: str, guard: str, message: str) -> Landed | NotMerged:
        """Squash the pull request onto the default branch as one commit.

        Only when its branch is at `head`, the default branch at `onto`, and `git.Repo.guard_of(merged tree)` equals
        `guard`. A pull request that this call merged before (a crash in between) answers with the same Landed."""

    def withdraw(self, number: int) -> None:
        """Take back what was asked of the platform when a merge answered `waits`: it must not merge this by itself any more."""

    def close_pull(self, number: int, *, comment: str, labels: tuple[str, ...]) -> None:
        """Closed, with these labels added and this comment once (an empty one is none); its branch deleted (one that is gone
        is fine). A merged one stays merged."""

    def delete_branch(self, branch: str) -> None:
        """Take away a branch under autoresearch/ that has no pull request; one that is gone is fine."""

    def say(self, issue: int, tag: str, text: str) -> None:
        """Make the one comment that carries the hidden tag on that issue read `text`."""
