"""A forge on this machine: branches in a bare repository, everything else in one file beside it (bot/forge/book.py).

Where both change, the order is such that a kill in between is seen and finished by doing the verb again: a merge moves the
branch first, and the merge commit names its pull request in two trailers, by which it is found; a closing is written first.
Refs of people are never written, but for the default branch by a merge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bot import git
from bot.forge import Check, ForgeError, Landed, NotMerged, Pull, PullState
from bot.forge.book import Book, Page, Record
from bot.forge.limits import fit_body, fit_check, fit_title

OURS = "autoresearch/"


class LocalForge:
    """One bare repository, its default branch and its book."""

    def __init__(self, repo: git.Repo, file: Path, branch: str, *, before: Callable[[str], object] = str) -> None:
        self._repo = repo
        self._book = Book(file, before)
        self._branch = branch

    def tip(self) -> str:
        found = self._repo.resolve(_ref(self._branch))
        if found is None:
            raise ForgeError(f"{self._repo.path} has no branch {self._branch}: push it there first")
        return found

    def push(self, branch: str, commit: str) -> None:
        if not branch.startswith(OURS):
            raise ForgeError(f"refused to push {branch}: only branches under {OURS} are ours to write")
        if self._repo.resolve(commit) is None:
            raise ForgeError(f"refused to push {branch}: {self._repo.path} has no commit {commit}")
        self._repo.set_ref(_ref(branch), commit)

    def open_pull(self, *, branch: str, title: str, body: str, labels: tuple[str, ...]) -> int:
        with self._book.editing() as page:
            if (there := _number_of(page, branch)) is not None:
                return there
            head, tip = self._repo.resolve(_ref(branch)), self.tip()
            if head is None:
                raise ForgeError(f"no pull request without a branch: push {branch} first")
            if self._repo.is_ancestor(head, tip):
                raise ForgeError(f"no pull request without a change: {branch} has no commit that {self._branch} has not")
            number = max(page.pulls, default=0) + 1
            page.pulls[number] = Record(branch=branch, base=tip, head=head, title="", body="")
            _describe(page.pulls[number], title, body, labels)
        return number

    def pull_of(self, branch: str) -> int | None:
        return _number_of(self._book.read(), branch)

    def pull(self, number: int) -> Pull:
        page = self._book.read()
        return self._as_pull(page, number, self._heads())

    def pulls(self) -> list[Pull]:
        """All of them, by number."""
        page, heads = self._book.read(), self._heads()
        return [self._as_pull(page, number, heads) for number in sorted(page.pulls)]

    def edit_pull(self, number: int, *, title: str, body: str, labels: tuple[str, ...]) -> None:
        with self._book.editing() as page:
            _describe(_record(page, number), title, body, labels)

    def post_check(self, check: Check) -> None:
        if self._repo.resolve(check.head) is None:
            raise ForgeError(f"no check on a commit that is not there: {check.head}")
        posted = fit_check(check)
        with self._book.editing() as page:
            there = page.checks.setdefault(check.head, [])
            if there[-1:] != [posted]:
                there.append(posted)

    def checks(self, head: str) -> list[Check]:
        """All checks ever posted on a commit, newest last."""
        return self._book.read().checks.get(head, [])

    def merge(self, number: int, *, head: str, onto: str, guard: str, message: str) -> Landed | NotMerged:
        with self._book.editing() as page:
            record = _record(page, number)
            landed = self._landed(number, record)
            if landed is None:
                done = self._squash(number, record, head=head, onto=onto, guard=guard, message=message)
                if isinstance(done, NotMerged):
                    return done
                landed = (done.sha, head)
            sha, merged_head = landed
            record.state, record.merged, record.head = PullState.MERGED, sha, merged_head
        if merged_head != head:
            return NotMerged(why="head", detail=f"pull request {number} was merged at {merged_head}, not at {head}")
        return Landed(sha=sha)

    def withdraw(self, number: int) -> None:
        """Nothing ever waits here."""

    def close_pull(self, number: int, *, comment: str, labels: tuple[str, ...]) -> None:
        with self._book.editing() as page:
            record = _record(page, number)
            if landed := self._landed(number, record):
                record.state, (record.merged, record.head) = PullState.MERGED, landed
            if record.state is not PullState.MERGED:
                record.state = PullState.CLOSED
                record.head = self._repo.resolve(_ref(record.branch)) or record.head
            record.labels += [label for label in labels if label not in record.labels]
            said = fit_body(comment)
            record.comments += [said] if said and said not in record.comments else []
        self._retire(number, record)

    def delete_branch(self, branch: str) -> None:
        if not branch.startswith(OURS):
            raise ForgeError(f"refused to delete {branch}: only branches under {OURS} are ours")
        self._repo.delete_ref(_ref(branch))

    def close_as(self, number: int, by: str) -> bool:
        """A person closes it; the branch stays. False when it is merged already."""
        with self._book.editing() as page:
            record = _record(page, number)
            if self._landed(number, record):
                return False
            if record.state is PullState.OPEN:
                record.state, record.closed_by = PullState.CLOSED, by
                record.head = self._repo.resolve(_ref(record.branch)) or record.head
        return True

    def say(self, issue: int, tag: str, text: str) -> None:
        with self._book.editing() as page:
            page.said.setdefault(issue, {})[tag] = fit_body(text)

    def said(self, issue: int) -> dict[str, str]:
        """The comments on an issue by their hidden tag."""
        return self._book.read().said.get(issue, {})

    def _heads(self) -> dict[str, str]:
        return self._repo.refs(_ref(OURS.rstrip("/")))

    def _as_pull(self, page: Page, number: int, heads: dict[str, str]) -> Pull:
        record = _record(page, number)
        state, merged, closed_by = record.state, record.merged, record.closed_by
        head = heads.get(_ref(record.branch), record.head) if state is PullState.OPEN else record.head
        if state is PullState.OPEN and (landed := self._landed(number, record)):
            state, (merged, head) = PullState.MERGED, landed
        elif state is PullState.OPEN and _ref(record.branch) not in heads:
            state, closed_by = PullState.CLOSED, "whoever deleted its branch"
        return Pull(
            number=number,
            branch=record.branch,
            head=head,
            title=record.title,
            body=record.body,
            state=state,
            labels=tuple(record.labels),
            comments=tuple(record.comments),
            merged=merged,
            closed_by=closed_by,
            checks=tuple(page.checks.get(head, ())),
        )

    def _landed(self, number: int, record: Record) -> tuple[str, str] | None:
        """The merge commit of a pull request and the head it was merged at: from the book, else from the branch, where a kill
        left it. Only commits since the pull request was opened can be it."""
        if record.merged is not None:
            return record.merged, record.head
        if record.state is not PullState.OPEN:
            return None
        for sha, message in self._repo.log(_ref(self._branch), limit=10_000, since=record.base):
            pull, _, rest = message.rpartition("\n\n")[2].partition("\n")
            if pull == f"Pull: {number}" and rest.startswith("Head: "):
                return sha, rest.removeprefix("Head: ")
        return None

    def _squash(self, number: int, record: Record, *, head: str, onto: str, guard: str, message: str) -> Landed | NotMerged:
        """The merge itself. The clock of the commit is that of its head, so that doing it again makes the same commit."""
        if record.state is PullState.CLOSED:
            return NotMerged(why="closed", detail=f"pull request {number} was closed by {record.closed_by or 'the bot'}")
        at, tip = self._repo.resolve(_ref(record.branch)), self.tip()
        if at is None:
            return NotMerged(why="closed", detail=f"somebody deleted {record.branch}")
        if at != head:
            return NotMerged(why="head", detail=f"{record.branch} is at {at}, what was judged is {head}")
        if tip != onto:
            return NotMerged(why="moved", detail=f"{self._branch} is at {tip}, not at {onto}")
        tree = self._repo.merge_tree(onto, head)
        if tree is None:
            return NotMerged(why="conflict", detail=f"{record.branch} does not merge into {self._branch} at {onto}")
        if self._repo.guard_of(tree) != guard:
            return NotMerged(why="guard", detail="what would land is not what was measured")
        text = f"{message.rstrip()}\n\nPull: {number}\nHead: {head}"
        sha = self._repo.commit_tree(tree, [onto], text, when=self._repo.time_of(head))
        if not self._repo.update_ref(_ref(self._branch), sha, onto):
            return NotMerged(why="moved", detail=f"{self._branch} was pushed to in this very moment")
        return Landed(sha=sha)

    def _retire(self, number: int, record: Record) -> None:
        """Delete the branch; its commits stay at refs/pull/N/head, as on GitHub, so that a later gc keeps the diff."""
        if self._repo.resolve(record.head):
            self._repo.set_ref(f"refs/pull/{number}/head", record.head)
        self._repo.delete_ref(_ref(record.branch))


def _ref(branch: str) -> str:
    return f"refs/heads/{branch}"


def _number_of(page: Page, branch: str) -> int | None:
    return next((number for number, record in page.pulls.items() if record.branch == branch), None)


def _record(page: Page, number: int) -> Record:
    if number not in page.pulls:
        raise ForgeError(f"there is no pull request {number}")
    return page.pulls[number]


def _describe(record: Record, title: str, body: str, labels: tuple[str, ...]) -> None:
    record.title, record.body, record.labels = fit_title(title), fit_body(body), list(dict.fromkeys(labels))
