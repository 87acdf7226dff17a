"""A forge and a repository that are a few dictionaries: tests of the machine by the thousand, without git and without a disk.

`MemoryRepo` has those verbs of `git.Repo` that a campaign needs, with the same answers but for the hashes, and coarser in two
things: two changes of one file always conflict, and a diff is one hunk. The contract tests run against this and the real ones.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bot.forge import Check, ForgeError, Landed, NotMerged, Pull, PullState
from bot.forge.limits import fit_body, fit_check, fit_title
from bot.git import GUARDED, GitError


@dataclass(frozen=True)
class _Commit:
    tree: str
    parents: tuple[str, ...]
    message: str
    when: int


class MemoryRepo:
    """Commits, trees (path -> text) and refs."""

    def __init__(self) -> None:
        self._commits: dict[str, _Commit] = {}
        self._trees: dict[str, dict[str, str]] = {}
        self._guards: dict[str, str] = {}
        self._refs: dict[str, str] = {}

    def resolve(self, ref: str) -> str | None:
        found = self._refs.get(ref) or self._refs.get(f"refs/heads/{ref}") or ref
        return found if found in self._commits else None

    def refs(self, prefix: str) -> dict[str, str]:
        return {ref: sha for ref, sha in sorted(self._refs.items()) if f"{ref}/".startswith(f"{prefix}/")}

    def paths(self, commit: str) -> list[str]:
        return sorted(self._files(commit))

    def read(self, commit: str, path: str) -> str | None:
        return self._files(commit).get(path)

    def tree_of(self, commit: str) -> str:
        return self._commit(commit).tree

    def time_of(self, commit: str) -> int:
        return self._commit(commit).when

    def guard_of(self, treeish: str) -> str:
        tree = self._commits[treeish].tree if treeish in self._commits else treeish
        if tree not in self._guards:
            files = self._files(tree)
            self._guards[tree] = _hash(*(f"{path}\0{files[path]}" for path in sorted(files) if path.split("/")[0] in GUARDED))
        return self._guards[tree]

    def diff(self, a: str, b: str) -> str:
        old, new = self._files(a), self._files(b)
        return "".join(_patch(path, old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys()))

    def log(self, ref: str, *, limit: int, since: str | None = None) -> list[tuple[str, str]]:
        hidden = set(self._ancestors(since)) if since else set()
        seen = [sha for sha in self._ancestors(self.resolve(ref) or ref) if sha not in hidden]
        return [(sha, self._commits[sha].message) for sha in seen[:limit]]

    def is_ancestor(self, old: str, new: str) -> bool:
        self._commit(old)
        return old in self._ancestors(new)

    def commit_file(self, base: str | None, path: str, text: str, message: str, *, when: float) -> str:
        files = (self._files(base) if base else {}) | {path: text}
        return self.commit_tree(self._tree(files), [base] if base else [], message, when=when)

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, *, when: float) -> str:
        sha = _hash(tree, *parents, message, str(int(when)))
        self._commits[sha] = _Commit(tree, tuple(parents), message.strip("\n"), int(when))
        return sha

    def merge_tree(self, ours: str, theirs: str) -> str | None:
        known = set(self._ancestors(ours))
        base = next((sha for sha in self._ancestors(theirs) if sha in known), None)
        before, mine, yours = self._files(base) if base else {}, self._files(ours), self._files(theirs)
        merged: dict[str, str] = {}
        for path in before.keys() | mine.keys() | yours.keys():
            old, a, b = before.get(path), mine.get(path), yours.get(path)
            if old not in (a, b) and a != b:
                return None
            if (text := b if a == old else a) is not None:
                merged[path] = text
        return self._tree(merged)

    def update_ref(self, ref: str, new: str, old: str | None) -> bool:
        if self._refs.get(ref) != old:
            return False
        self.set_ref(ref, new)
        return True

    def set_ref(self, ref: str, new: str) -> None:
        self._commit(new)
        self._refs[ref] = new

    def delete_ref(self, ref: str) -> None:
        self._refs.pop(ref, None)

    def _commit(self, sha: str) -> _Commit:
        if sha not in self._commits:
            raise GitError(f"there is no commit {sha}")
        return self._commits[sha]

    def _files(self, treeish: str) -> dict[str, str]:
        return self._trees[treeish] if treeish in self._trees else self._trees[self._commit(treeish).tree]

    def _tree(self, files: dict[str, str]) -> str:
        tree = _hash("tree", *(f"{path}\0{files[path]}" for path in sorted(files)))
        self._trees[tree] = files
        return tree

    def _ancestors(self, sha: str) -> Iterator[str]:
        """The commit and all that it stands on, nearest first."""
        waiting, seen = [sha], {sha}
        while waiting:
            sha = waiting.pop(0)
            yield sha
            new = [parent for parent in self._commit(sha).parents if parent not in seen]
            seen.update(new)
            waiting += new


class MemoryForge:
    """The verbs of `bot.forge.Forge` on a MemoryRepo. Nothing here can be killed half-way."""

    def __init__(self, repo: MemoryRepo, branch: str) -> None:
        self._repo = repo
        self._branch = branch
        self._pulls: dict[int, Pull] = {}
        self._checks: dict[str, list[Check]] = {}
        self._said: dict[int, dict[str, str]] = {}

    def tip(self) -> str:
        found = self._repo.resolve(_ref(self._branch))
        if found is None:
            raise ForgeError(f"there is no branch {self._branch}")
        return found

    def push(self, branch: str, commit: str) -> None:
        if not branch.startswith("autoresearch/") or self._repo.resolve(commit) is None:
            raise ForgeError(f"refused to push {commit} to {branch}")
        self._repo.set_ref(_ref(branch), commit)

    def open_pull(self, *, branch: str, title: str, body: str, labels: tuple[str, ...]) -> int:
        if (there := self.pull_of(branch)) is not None:
            return there
        head = self._repo.resolve(_ref(branch))
        if head is None or self._repo.is_ancestor(head, self.tip()):
            raise ForgeError(f"no pull request without a change: {branch}")
        number = len(self._pulls) + 1
        self._pulls[number] = Pull(number=number, branch=branch, head=head, title="", body="", state=PullState.OPEN)
        self.edit_pull(number, title=title, body=body, labels=labels)
        return number

    def pull_of(self, branch: str) -> int | None:
        return next((pull.number for pull in self._pulls.values() if pull.branch == branch), None)

    def pull(self, number: int) -> Pull:
        pull = self._pull(number)
        head = self._repo.resolve(_ref(pull.branch))
        if pull.state is PullState.OPEN and head is None:
            pull = replace(pull, state=PullState.CLOSED, closed_by="whoever deleted its branch")
        elif pull.state is PullState.OPEN and head is not None:
            pull = replace(pull, head=head)
        return replace(pull, checks=tuple(self.checks(pull.head)))

    def pulls(self) -> list[Pull]:
        return [self.pull(number) for number in self._pulls]

    def edit_pull(self, number: int, *, title: str, body: str, labels: tuple[str, ...]) -> None:
        kept = tuple(dict.fromkeys(labels))
        self._pulls[number] = replace(self._pull(number), title=fit_title(title), body=fit_body(body), labels=kept)

    def post_check(self, check: Check) -> None:
        if self._repo.resolve(check.head) is None:
            raise ForgeError(f"no check on a commit that is not there: {check.head}")
        there = self._checks.setdefault(check.head, [])
        if there[-1:] != [fit_check(check)]:
            there.append(fit_check(check))

    def checks(self, head: str) -> list[Check]:
        return list(self._checks.get(head, ()))

    def merge(self, number: int, *, head: str, onto: str, guard: str, message: str) -> Landed | NotMerged:
        pull = self.pull(number)
        if pull.merged is not None:
            return Landed(sha=pull.merged) if pull.head == head else NotMerged(why="head", detail=f"was merged at {pull.head}")
        if pull.state is PullState.CLOSED:
            return NotMerged(why="closed", detail=f"closed by {pull.closed_by or 'the bot'}")
        if pull.head != head:
            return NotMerged(why="head", detail=f"{pull.branch} is at {pull.head}")
        if self.tip() != onto:
            return NotMerged(why="moved", detail=f"{self._branch} is at {self.tip()}")
        tree = self._repo.merge_tree(onto, head)
        if tree is None:
            return NotMerged(why="conflict", detail=f"{pull.branch} does not merge into {self._branch}")
        if self._repo.guard_of(tree) != guard:
            return NotMerged(why="guard", detail="what would land is not what was measured")
        text = f"{message.rstrip()}\n\nPull: {number}\nHead: {head}"
        sha = self._repo.commit_tree(tree, [onto], text, when=self._repo.time_of(head))
        self._repo.set_ref(_ref(self._branch), sha)
        self._pulls[number] = replace(pull, state=PullState.MERGED, merged=sha)
        return Landed(sha=sha)

    def withdraw(self, number: int) -> None:
        """Nothing ever waits here."""

    def close_pull(self, number: int, *, comment: str, labels: tuple[str, ...]) -> None:
        pull = self.pull(number)
        state = PullState.MERGED if pull.merged else PullState.CLOSED
        said = fit_body(comment)
        comments = pull.comments if not said or said in pull.comments else (*pull.comments, said)
        added = tuple(dict.fromkeys((*pull.labels, *labels)))
        by = self._pull(number).closed_by
        self._pulls[number] = replace(pull, state=state, closed_by=by, comments=comments, labels=added)
        self._repo.set_ref(f"refs/pull/{number}/head", pull.head)
        self._repo.delete_ref(_ref(pull.branch))

    def delete_branch(self, branch: str) -> None:
        if not branch.startswith("autoresearch/"):
            raise ForgeError(f"refused to delete {branch}")
        self._repo.delete_ref(_ref(branch))

    def close_as(self, number: int, by: str) -> bool:
        pull = self.pull(number)
        if self._pull(number).state is PullState.OPEN:
            self._pulls[number] = replace(pull, state=PullState.CLOSED, closed_by=by)
        return pull.merged is None

    def say(self, issue: int, tag: str, text: str) -> None:
        self._said.setdefault(issue, {})[tag] = fit_body(text)

    def said(self, issue: int) -> dict[str, str]:
        return dict(self._said.get(issue, {}))

    def _pull(self, number: int) -> Pull:
        if number not in self._pulls:
            raise ForgeError(f"there is no pull request {number}")
        return self._pulls[number]


def _ref(branch: str) -> str:
    return f"refs/heads/{branch}"


def _hash(*words: str) -> str:
    return hashlib.sha1("\0\0".join(words).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _patch(path: str, old: str | None, new: str | None) -> str:
    """One hunk from the first to the last line that differs, without context."""
    if old == new:
        return ""
    a, b = (old or "").splitlines(), (new or "").splitlines()
    same = _alike(a, b)
    end = _alike(a[same:][::-1], b[same:][::-1])
    gone, come = a[same : len(a) - end], b[same : len(b) - end]
    head = f"--- a/{path}\n+++ b/{path}\n@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@\n"
    return head + "".join([*(f"-{line}\n" for line in gone), *(f"+{line}\n" for line in come)])


def _alike(a: list[str], b: list[str]) -> int:
    """How many lines are equal at the start."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
