"""The forge on GitHub: branches and merges are real ones there, texts and checks go through its interface (rest.py).

Every verb looks before it writes what must not stand there twice (a pull request, a comment, a check), so that doing it again
after a crash, a time-out or a 504 that was obeyed changes nothing. Nothing here is read back as state: the log alone is.
What a proposer may have written into a branch is never run here; git moves objects only.

Merging. What would land is computed here first and must equal what was measured. Then GitHub merges the judged head, and
the tree that it made is compared once more. A merge is never sent twice: after an answer that is unclear the pull request is
read again on the next look.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bot.forge import CHECK, Check, ForgeError, Gone, Landed, NotMerged, Pull, PullState
from bot.forge.limits import fit_body, fit_check, fit_title
from bot.forge.rest import Refused, Rest, told
from bot.forge.threads import Threads
from bot.remote import ORIGIN, Busy, Remote

OURS = "autoresearch/"
SOON_SECONDS = 5.0  # in which GitHub mostly has caught up with itself
AUTO_MERGE = """mutation($id: ID!, $head: GitObjectID!, $title: String!, $body: String!) {
  enablePullRequestAutoMerge(input: {pullRequestId: $id, expectedHeadOid: $head, mergeMethod: SQUASH,
    commitHeadline: $title, commitBody: $body}) { pullRequest { number } } }"""

NO_AUTO_MERGE = "mutation($id: ID!) { disablePullRequestAutoMerge(input: {pullRequestId: $id}) { pullRequest { number } } }"


@dataclass(kw_only=True)
class GitHubForge:
    """One repository on GitHub; `remote` is our bare clone of it. `branch` is the default branch, as GitHub names it now."""

    threads: Threads
    remote: Remote
    branch: str
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def rest(self) -> Rest:
        return self.threads.rest

    def tip(self) -> str:
        """As of the last fetch, which reading the log brings about too."""
        return self.remote.repo.resolve(f"{ORIGIN}/{self.branch}") or self._fetch_tip()

    def _fetch_tip(self) -> str:
        """The default branch now; one that is gone was perhaps renamed: then GitHub is asked for its name."""
        self.remote.fetch()
        if (found := self.remote.repo.resolve(f"{ORIGIN}/{self.branch}")) is None:
            self.branch = str(self.rest.get(self.rest.repo)["default_branch"])
            found = self.remote.repo.resolve(f"{ORIGIN}/{self.branch}")
        if found is None:
            raise ForgeError(f"{self.rest.name} has no branch {self.branch}: push it there first")
        return found

    def push(self, branch: str, commit: str) -> None:
        _check_ours(branch)
        if self.remote.repo.resolve(commit) is None:
            raise ForgeError(f"refused to push {branch}: {self.remote.repo.path} has no commit {commit}")
        if not self.remote.push(f"+{commit}:refs/heads/{branch}"):
            raise Busy(f"{branch} moved in this very moment")

    def delete_branch(self, branch: str) -> None:
        _check_ours(branch)
        self.remote.delete(branch)

    # pull requests

    def open_pull(self, *, branch: str, title: str, body: str, labels: tuple[str, ...]) -> int:
        if (there := self.pull_of(branch)) is not None:
            return there
        text = {"title": fit_title(title), "body": fit_body(body), "head": branch, "base": self.branch}
        try:
            made = self.rest.write("POST", f"{self.rest.repo}/pulls", text)
        except Refused as refusal:
            if refusal.status == 422 and "already exists" in refusal.words and (there := self.pull_of(branch)):
                return there
            raise told(self.rest.name, f"open a pull request for {branch}", refusal) from None
        self._numbers[branch] = int(made["number"])
        self._issue(int(made["number"]), labels=self.threads.known(labels))
        return self._numbers[branch]

    def pull_of(self, branch: str) -> int | None:
        if branch not in self._numbers:
            owner = self.rest.name.partition("/")[0]
            found = self.rest.get(f"{self.rest.repo}/pulls", head=f"{owner}:{branch}", state="all", per_page=10)
            ours = [pull["number"] for pull in found if pull["head"]["ref"] == branch and self._is_here(pull["head"])]
            if not ours:
                return None
            self._numbers[branch] = min(ours)
        return self._numbers[branch]

    def _is_here(self, head: dict[str, Any]) -> bool:
        """Of this repository and not of a fork; one that is gone (null) is somebody else's."""
        repo = head.get("repo")
        return repo is not None and str(repo["full_name"]).lower() == self.rest.name.lower()

    def pull(self, number: int) -> Pull:
        raw = self._raw(number)
        merged, closed = bool(raw.get("merged")), raw["state"] == "closed"
        state = PullState.MERGED if merged else PullState.CLOSED if closed else PullState.OPEN
        self._bring(number, raw["head"]["sha"], raw["merge_commit_sha"] if merged else None)
        return Pull(
            number=number, branch=raw["head"]["ref"], head=raw["head"]["sha"], title=raw["title"], body=raw["body"] or "",
            state=state, labels=tuple(label["name"] for label in raw["labels"]),
            merged=raw["merge_commit_sha"] if merged else None,
            closed_by=self._closed_by(number) if state is PullState.CLOSED else None,
        )  # fmt: skip

    def _bring(self, number: int, head: str, merged: str | None) -> None:
        """Have its commits here. GitHub keeps the head of every pull request, also when the branch is gone."""
        if self.remote.repo.resolve(head) is None:
            self.remote.fetch(f"+refs/pull/{number}/head:refs/pull/{number}/head")
        if merged and self.remote.repo.resolve(merged) is None:
            self.remote.fetch()

    def _raw(self, number: int) -> dict[str, Any]:
        try:
            return self.rest.get(f"{self.rest.repo}/pulls/{number}")  # type: ignore[no-any-return]
        except Refused as refusal:
            raise told(self.rest.name, f"read pull request {number}", refusal) from None

    def _closed_by(self, number: int) -> str | None:
        """The person who closed it; None when it was us."""
        user = self.rest.get(f"{self.rest.repo}/issues/{number}").get("closed_by")
        return None if user and self.threads.is_me(user) else str(user["login"]) if user else "a person"

    def edit_pull(self, number: int, *, title: str, body: str, labels: tuple[str, ...]) -> None:
        self._issue(number, title=fit_title(title), body=fit_body(body), labels=self.threads.known(labels))

    def close_pull(self, number: int, *, comment: str, labels: tuple[str, ...]) -> None:
        raw = self._raw(number)
        names = [label["name"] for label in raw["labels"]]
        more = [label for label in self.threads.known(labels) if label not in names]
        if comment:
            with suppress(Gone):
                self.threads.say(number, "closing", comment)
        if raw["state"] == "open":
            self._issue(number, state="closed", labels=names + more)
        elif more:
            self._issue(number, labels=names + more)
        self.delete_branch(raw["head"]["ref"])

    def _issue(self, number: int, **fields: Any) -> None:
        """Change a pull request or issue: GitHub takes title, body, state and labels in one request."""
        try:
            self.rest.write("PATCH", f"{self.rest.repo}/issues/{number}", fields)
        except Refused as refusal:
            raise told(self.rest.name, f"change #{number}", refusal) from None

    # checks and comments

    def say(self, issue: int, tag: str, text: str) -> None:
        self.threads.say(issue, tag, text)

    def post_check(self, check: Check) -> None:
        posted = fit_check(check)
        output = {"title": posted.title, "summary": posted.summary, "text": posted.text, "annotations": _annotations(posted)}
        body = {"name": CHECK, "head_sha": posted.head, "status": "completed", "conclusion": posted.conclusion, "output": output}
        body["external_id"] = hashlib.sha256(repr(posted).encode("utf-8", "replace")).hexdigest()
        try:
            at = f"{self.rest.repo}/commits/{posted.head}/check-runs"
            there = self.rest.get(at, check_name=CHECK, filter="latest")["check_runs"]
            if any(run.get("external_id") == body["external_id"] for run in there):
                return
            self.rest.write("POST", f"{self.rest.repo}/check-runs", body)
        except Refused as refusal:
            raise told(self.rest.name, f"post the check {CHECK} (it takes a GitHub App or GITHUB_TOKEN)", refusal) from None

    # the merge

    def merge(self, number: int, *, head: str, onto: str, guard: str, message: str) -> Landed | NotMerged:
        raw = self._raw(number)
        if raw.get("merged"):
            return self._landed(number, raw, head, guard)
        if (stops := self._stops(raw, head, onto, guard)) is not None:
            return stops
        title, _, body = message.partition("\n")
        asked = {"sha": head, "merge_method": "squash", "commit_title": title, "commit_message": body.strip()}
        if raw.get("mergeable_state") == "blocked" and not raw.get("auto_merge"):
            self.rest.sleep(SOON_SECONDS)  # our own check may have come a moment ago
            raw = self._raw(number)
        if raw.get("mergeable_state") == "blocked":
            return self._wait(raw, asked, "the rules of the branch are not met yet")
        try:
            done = self.rest.write("PUT", f"{self.rest.repo}/pulls/{number}/merge", asked)
        except Refused as refusal:
            return self._not_merged(raw, asked, refusal)
        return self._landed(number, {"merge_commit_sha": done["sha"], "head": {"sha": head}}, head, guard)

    def _stops(self, raw: dict[str, Any], head: str, onto: str, guard: str) -> NotMerged | None:
        """What stands in the way of merging, as far as can be seen from here."""
        number, branch = raw["number"], raw["head"]["ref"]
        if raw["state"] == "closed":
            return NotMerged(why="closed", detail=f"pull request {number} was closed")
        tip = self._fetch_tip()
        if raw["head"]["sha"] != head:
            if self.remote.repo.resolve(f"{ORIGIN}/{branch}") == head:
                raise Busy(f"GitHub has not taken in the push to {branch} yet", SOON_SECONDS)
            return NotMerged(why="head", detail=f"{branch} is at {raw['head']['sha']}, what was judged is {head}")
        if tip != onto:
            return NotMerged(why="moved", detail=f"{self.branch} is at {tip}, not at {onto}")
        if who := self._against(number):
            return NotMerged(why="vetoed", detail=f"{who}, who asked for changes")
        tree = self.remote.repo.merge_tree(onto, head)
        if tree is None:
            return NotMerged(why="conflict", detail=f"{branch} does not merge into {self.branch} at {onto}")
        if self.remote.repo.guard_of(tree) != guard:
            return NotMerged(why="guard", detail="what would land is not what was measured")
        return None

    def _against(self, number: int) -> str | None:
        """Who asked for changes last and may write here; None when nobody did."""
        newest: dict[str, str] = {}
        for review in self.rest.pages(f"{self.rest.repo}/pulls/{number}/reviews"):
            if review["user"] and review["state"] in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                newest[review["user"]["login"]] = review["state"]
        return next((who for who, state in newest.items() if state == "CHANGES_REQUESTED" and self.threads.may_write(who)), None)

    def _not_merged(self, raw: dict[str, Any], asked: dict[str, Any], refusal: Refused) -> NotMerged:
        words = refusal.words.lower()
        if refusal.status == 405 and "not mergeable" in words and raw.get("mergeable") is False:
            return NotMerged(why="conflict", detail=refusal.words)
        if refusal.status == 409 or (refusal.status == 405 and re.search("was modified|not mergeable", words)):
            raise Busy(f"GitHub would not merge in this very moment, or has not computed yet ({refusal.words})", SOON_SECONDS)
        if refusal.status in (403, 405, 422):
            return self._wait(raw, asked, refusal.words)
        raise told(self.rest.name, f"merge pull request {raw['number']}", refusal)

    def _wait(self, raw: dict[str, Any], asked: dict[str, Any], words: str) -> NotMerged:
        """GitHub will not let us merge yet: ask it to do so itself once its rules are met, for this very head alone."""
        number, how = raw["number"], "GitHub merges it as soon as they are (auto-merge is on)"
        if not raw.get("auto_merge"):
            try:
                self.rest.graphql(
                    AUTO_MERGE, id=raw["node_id"], head=asked["sha"], title=asked["commit_title"], body=asked["commit_message"]
                )
            except Refused as refusal:
                if "clean status" in refusal.words:
                    raise Busy("its rules are met by now", SOON_SECONDS) from None
                how = f"a person must merge it (auto-merge: {refusal.words})"
        return NotMerged(why="waits", detail=f"pull request #{number} waits: {words}; {how}")

    def withdraw(self, number: int) -> None:
        raw = self._raw(number)
        if raw.get("auto_merge"):
            try:
                self.rest.graphql(NO_AUTO_MERGE, id=raw["node_id"])
            except Refused as refusal:
                raise told(self.rest.name, f"switch auto-merge off for pull request {number}", refusal) from None

    def _landed(self, number: int, raw: dict[str, Any], head: str, guard: str) -> Landed | NotMerged:
        """It is merged: was it what was judged?"""
        sha, at = str(raw["merge_commit_sha"]), str(raw["head"]["sha"])
        self._fetch_tip()
        if at != head:
            return NotMerged(why="head", detail=f"pull request {number} was merged at {at}, not at {head}")
        if self.remote.repo.guard_of(sha) != guard:
            return NotMerged(why="closed", detail=f"what landed as {sha[:7]} is not what was measured")
        return Landed(sha=sha)


def _check_ours(branch: str) -> None:
    if not branch.startswith(OURS):
        raise ForgeError(f"refused to touch {branch}: only branches under {OURS} are ours")


def _annotations(check: Check) -> list[dict[str, Any]]:
    """At most 50 go with one request (https://docs.github.com/en/rest/checks/runs)."""
    return [
        {"path": path, "start_line": first, "end_line": last, "annotation_level": "notice", "message": check.title}
        for path, first, last in check.lines[:50]
    ]
