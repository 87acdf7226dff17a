"""The conversation on GitHub: comments that carry a hidden tag, reactions, labels, and who may steer.

For the forge and for whoever hears people. Not here: pull requests, checks, merges (github.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bot.forge import ForgeError, Gone
from bot.forge.labels import COLOURS, DESCRIPTIONS, OTHER
from bot.forge.limits import fit_body
from bot.forge.rest import Refused, Rest, told
from bot.remote import Busy

AGAIN_SECONDS = 3.0
MARK = "<!-- autoresearch:{} -->\n"


@dataclass(kw_only=True)
class Threads:
    """The issues and pull requests of one repository."""

    rest: Rest
    me: str | None = None  # the login of the token; None: it has none that it can ask for (an App, GITHUB_TOKEN)
    _comments: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)  # (issue, tag) -> (id, text)
    _labels: set[str] = field(default_factory=set)

    def is_me(self, user: dict[str, Any] | None) -> bool:
        """Whether we wrote it: the token's own login, or a bot when the token has none."""
        if not user:
            return False
        return user["login"] == self.me if self.me else user.get("type") == "Bot"

    def say(self, issue: int, tag: str, text: str) -> None:
        """Make the one comment of ours that carries the hidden tag on that issue read `text`. Raises Gone."""
        try:
            self._say(issue, tag, text)
        except ForgeError as error:
            if self._is_gone(issue):
                raise Gone(f"#{issue} was deleted, moved or locked: {error}") from None
            raise

    def _is_gone(self, issue: int) -> bool:
        """Whether a refusal is for good: asked of the thread itself, twice, since GitHub also says 404 in passing."""
        for pause in (AGAIN_SECONDS, 0.0):
            try:
                about = self.rest.get(f"{self.rest.repo}/issues/{issue}")
            except Refused as refusal:
                if refusal.status not in (404, 410):
                    return False
                self.rest.sleep(pause)
                continue
            return bool(about.get("locked")) or not str(about.get("repository_url", self.rest.repo)).endswith(self.rest.repo)
        return True

    def _say(self, issue: int, tag: str, text: str) -> None:
        marked = fit_body(MARK.format(tag) + text)
        if (issue, tag) not in self._comments:
            self._find_comment(issue, tag)
        there = self._comments.get((issue, tag))
        if there and there[1] == marked:
            return
        self._write_comment(issue, tag, marked, there[0] if there else None)

    def _write_comment(self, issue: int, tag: str, text: str, at: int | None) -> None:
        repo = self.rest.repo
        verb, path = ("PATCH", f"{repo}/issues/comments/{at}") if at else ("POST", f"{repo}/issues/{issue}/comments")
        try:
            made = self.rest.write(verb, path, {"body": text})
            self._comments[issue, tag] = int(made["id"]), text
        except Busy:
            self._comments.pop((issue, tag), None)  # it may stand there now: look again
            raise
        except Refused as refusal:
            self._comments.pop((issue, tag), None)
            if refusal.status == 404 and at and not self._find_comment(issue, tag):  # somebody deleted it
                return self._write_comment(issue, tag, text, None)
            raise told(self.rest.name, f"comment on #{issue}", refusal) from None

    def _find_comment(self, issue: int, tag: str) -> bool:
        mark = MARK.format(tag).strip()
        try:
            for comment in self.rest.pages(f"{self.rest.repo}/issues/{issue}/comments"):
                if str(comment["body"]).startswith(mark) and self.is_me(comment["user"]):
                    self._comments[issue, tag] = int(comment["id"]), str(comment["body"]).replace("\r\n", "\n")
        except Refused as refusal:
            raise told(self.rest.name, f"read the comments of #{issue}", refusal) from None
        return (issue, tag) in self._comments

    def may_write(self, login: str) -> bool:
        """Whether that person has write permission or more, by the permission interface, now. A person it does not know has not.

        https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user: `permission` is
        admin, write, read or none; `maintain` reads as write there, `triage` as read."""
        try:
            answer = self.rest.get(f"{self.rest.repo}/collaborators/{login}/permission")
        except Refused as refusal:
            if refusal.status == 404:
                return False
            raise told(self.rest.name, f"ask for the permission of {login}", refusal) from None
        return answer.get("permission") in ("admin", "write")

    def known(self, labels: tuple[str, ...]) -> list[str]:
        """These labels, each of them there with its colour: one that is missing would come grey, or fail the request."""
        if not self._labels and labels:
            self._labels = {label["name"] for label in self.rest.pages(f"{self.rest.repo}/labels")}
        for name in labels:
            if name not in self._labels:
                self._make_label(name)
        return list(dict.fromkeys(labels))

    def _make_label(self, name: str) -> None:
        body = {"name": name, "color": COLOURS.get(name, OTHER), "description": DESCRIPTIONS.get(name, "")}
        try:
            self.rest.write("POST", f"{self.rest.repo}/labels", body)
        except Refused as refusal:
            if refusal.status != 422:  # there already: somebody else made it in this moment
                raise told(self.rest.name, f"make the label {name!r}", refusal) from None
        self._labels.add(name)

    def react(self, comment: int, content: str, *, on: str = "issues") -> bool:
        """Add a reaction to a comment (`on` is issues, or pulls for a comment on changed lines). False when it is there already,
        or could not be added: nothing depends on it."""
        try:
            self.rest.write("POST", f"{self.rest.repo}/{on}/comments/{comment}/reactions", {"content": content})
        except (Refused, Busy):
            return False
        return True
