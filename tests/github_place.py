"""The forge contract on the GitHub double: the real GitHubForge, and what a person or a look around needs beside it.

`Seen` shows what stands on the double (checks, comments), which the forge itself does not read back. `Clone` is our bare clone,
where what a person does to the default branch or to a branch of ours happens on GitHub, not here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.forge import Check, ForgeError, Pull
from bot.forge.github import GitHubForge
from bot.forge.rest import Pace
from bot.platform import Platform, connect
from tests.contract import Checked
from tests.double import Double

TEXTS = ("title", "summary", "text")  # of a check


def mark_off(body: str) -> tuple[str, str]:
    """(hidden tag, text) of one of our comments."""
    mark, _, text = body.partition(" -->\n")
    return mark.removeprefix("<!-- autoresearch:"), text


def started(folder: Path, **others: Any) -> Double:
    """A double that is to be entered, and whose every request is checked against GitHub's own description."""
    return Double(folder / "hub", watcher=Checked(), now=lambda: 1_790_000_000.0, **others)


def forge_of(double: Double, folder: Path, who: str = "app") -> GitHubForge:
    """As a process that has just started."""
    platform = Platform(
        name=double.repo, token=double.token(who), api=double.url, server=double.url, pace=Pace(requests=0, writes=0)
    )  # fmt: skip
    return connect(platform, folder, now=lambda: 1_790_000_000.0, sleep=lambda seconds: None).forge


class Clone:
    """A git.Repo; refs of branches are those of GitHub."""

    def __init__(self, double: Double, forge: GitHubForge) -> None:
        self._double, self._forge = double, forge

    def __getattr__(self, name: str) -> Any:
        self._forge.remote.fetch()
        return getattr(self._forge.remote.repo, name)

    def set_ref(self, ref: str, sha: str) -> None:
        self._forge.remote.repo.push(self._double.bare.path, f"+{sha}:refs/heads/parked")
        self._double.force_push(ref.removeprefix("refs/heads/"), sha)
        self._double.bare.delete_ref("refs/heads/parked")

    def delete_ref(self, ref: str) -> None:
        self._double.delete_branch(ref.removeprefix("refs/heads/"))

    def resolve(self, ref: str) -> str | None:
        return self._double.bare.resolve(ref)

    def log(self, ref: str, *, limit: int, since: str | None = None) -> list[tuple[str, str]]:
        return self._double.bare.log(ref, limit=limit, since=since)


class Seen:
    """The forge, with the pages of the pull requests beside it."""

    def __init__(self, double: Double, forge: GitHubForge) -> None:
        self._double, self._forge = double, forge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def tip(self) -> str:
        self._forge.remote.fetch()
        return self._forge.tip()

    def pull(self, number: int) -> Pull:
        pull = self._forge.pull(number)
        return replace(pull, comments=tuple(text for _, text in self._comments(number)), checks=tuple(self.checks(pull.head)))

    def pulls(self) -> list[Pull]:
        return [self.pull(issue.number) for issue, _ in self._double.home.pulls()]

    def _comments(self, number: int) -> list[tuple[str, str]]:
        return [mark_off(comment.body) for comment in self._double.home.comments.values() if comment.number == number]

    def checks(self, head: str) -> list[Check]:
        return [
            Check(head=run.head, conclusion=run.conclusion or "", **{key: run.output[key] for key in TEXTS})
            for run in reversed(self._double.home.checks_of(head))
        ]

    def said(self, issue: int) -> dict[str, str]:
        return dict(self._comments(issue))

    def say(self, issue: int, tag: str, text: str) -> None:
        while max(self._double.home.issues, default=0) < issue:
            self._double.open_issue("alice", "an issue")
        self._forge.say(issue, tag, text)

    def close_as(self, number: int, by: str) -> bool:
        issue = self._double.home.issues.get(number)
        if issue is None:
            raise ForgeError(f"there is no pull request {number}")
        if issue.pull and issue.pull.merge_sha:
            return False
        if issue.state == "open":
            self._double.close(number, by)
        return True

