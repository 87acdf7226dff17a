"""Where events are kept: an append-only list with one writer at a time. It does not know what the events mean.

`GitLog` keeps them as JSON lines on a branch of their own, in segments of LINES lines (000/000012.jsonl holds lines 1201 to
1300 counted from 1), so that an append writes one small file however long the log is. One commit per append; the branch
moves by compare-and-swap, so of two writers the second is told (`Moved`) and looks again.
`RemoteLog` is the same on a branch of another machine's repository, where a push is the compare-and-swap.
`MemoryLog` is the same without git, for tests of the machine by the thousand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from bot import git
from bot.events import Event
from bot.lines import GENESIS, VERSION, BadLine, digest, from_line, to_line
from bot.remote import ORIGIN, Remote

BRANCH = "autoresearch/log"
LINES = 100  # in one segment
FOLDER = 100  # segments in one folder
KNOWLEDGE = "knowledge.md"  # beside the segments: what was learned; people write there, too
SEGMENT = re.compile(r"\d{3,}/\d{6,}\.jsonl")


class Moved(Exception):
    """Another writer was first: read what it wrote (`events_since`), decide again."""


class LogDamaged(Exception):
    """The log is not what was written. The message names the segment, the line counted over the whole log, and the way out."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """The end of the log as one reader saw it. `count` lines, the last with hash `last`; `tail` is the segment it is in.
    `healed` says in words what a cut last line was, when one was dropped; the next append overwrites it."""

    commit: str | None = None
    count: int = 0
    last: str = GENESIS
    tail: str = field(default="", repr=False)
    healed: str = ""


class Log(Protocol):
    """An append-only list of events."""

    def read(self) -> tuple[list[Event], Position]:
        """All events, oldest first, and where the log ends. Raises LogDamaged."""

    def events_since(self, position: Position) -> tuple[list[Event], Position]:
        """Only what was appended after `position`. Raises LogDamaged, also when what came before is not there any more."""

    def append(self, event: Event, position: Position) -> Position:
        """One more event, and where the log ends now. Raises Moved when the log does not end at `position`."""

    def beside(self, name: str) -> str:
        """The text of a file beside the log, as of the last look; empty when it is not there."""

    def keep(self, files: Mapping[str, str], why: str, *, when: float) -> None:
        """Write files beside the log, all or none; nothing when they are like that already. Raises Moved when somebody wrote
        since the last look."""


class GitLog:
    """The log on a branch of a repository."""

    def __init__(self, repo: git.Repo, branch: str = BRANCH) -> None:
        self._repo = repo
        self._branch = branch
        self._ref = f"refs/heads/{branch}"

    def read(self) -> tuple[list[Event], Position]:
        return self.events_since(Position())

    def events_since(self, position: Position) -> tuple[list[Event], Position]:
        commit = self._repo.resolve(self._ref)
        if commit == position.commit:
            return [], position
        if commit is None:
            raise self._damaged(f"the branch is gone, and with it {position.count} lines")
        first = max(position.count - 1, 0) // LINES
        texts = self._segments(commit, first)
        if not "".join(texts[:1]).startswith(position.tail):
            raise self._damaged(f"{_path(first)}: what was read before, up to line {position.count}, is not there any more")
        rest = [texts[0].removeprefix(position.tail), *texts[1:]] if texts else []
        return self._parse(rest, first, replace(position, commit=commit, healed=""))

    def append(self, event: Event, position: Position) -> Position:
        line = to_line(event, position.last)
        text = f"{position.tail if position.count % LINES else ''}{line}\n"
        path = _path(position.count // LINES)
        commit = self._repo.commit_file(position.commit, path, text, _subject(event), when=event.at)
        if not self._swap(commit, position.commit):
            raise Moved(f"somebody else wrote to {self._branch}: look again")
        return Position(commit=commit, count=position.count + 1, last=digest(line), tail=text)

    def beside(self, name: str) -> str:
        commit = self._repo.resolve(self._ref)
        return (self._repo.read(commit, name) if commit else None) or ""

    def keep(self, files: Mapping[str, str], why: str, *, when: float) -> None:
        old = commit = self._repo.resolve(self._ref)
        for name, text in files.items():
            if commit is None or self._repo.read(commit, name) != text:
                commit = self._repo.commit_file(commit, name, text, why, when=when)
        if commit != old and (commit is None or not self._swap(commit, old)):
            raise Moved(f"somebody else wrote to {self._branch}: look again")

    def _swap(self, new: str, old: str | None) -> bool:
        return self._repo.update_ref(self._ref, new, old)

    def _segments(self, commit: str, first: int) -> list[str]:
        """The texts of the segments from number `first` on. Bytes that are not UTF-8 come as lone surrogates."""
        names = {name for name in self._repo.paths(commit) if SEGMENT.fullmatch(name)}
        for number in range(len(names)):
            if _path(number) not in names:
                raise self._damaged(f"{_path(number)} is missing, with lines {number * LINES + 1} to {(number + 1) * LINES}")
        found = self._repo.objects([f"{commit}:{_path(number)}" for number in range(first, len(names))])
        return [blob[1].decode("utf-8", "surrogateescape") for blob in found if blob is not None]

    def _parse(self, texts: list[str], first: int, end: Position) -> tuple[list[Event], Position]:
        """The events after `end`: in the rest of segment number `first`, and in the whole segments that follow."""
        events: list[Event] = []
        for number, text in enumerate(texts, first):
            lines = text.removesuffix("\n").split("\n") if text else []
            final = number == first + len(texts) - 1
            room = (number + 1) * LINES - end.count
            if len(lines) > room or (len(lines) < room and not final):
                raise self._damaged(f"{_path(number)} has {LINES - room + len(lines)} lines instead of {LINES}")
            more, end = self._segment(lines, number, end if number == first else replace(end, tail=""))
            if end.healed and not final:
                raise self._damaged(f"{_path(number)}, line {end.count + 1}: it was cut")
            events += more
        return events, end

    def _segment(self, lines: list[str], number: int, end: Position) -> tuple[list[Event], Position]:
        """The events of some lines of one segment; a last line that was cut is left out."""
        events: list[Event] = []
        last = end.last
        for line in lines:
            try:
                events.append(_event(line, last))
            except BadLine as error:
                at = end.count + len(events) + 1
                if len(events) < len(lines) - 1 or not _is_cut(line, last):
                    raise self._damaged(f"{_path(number)}, line {at}: {error}") from None
                end = replace(end, healed=f"line {at}, the last one, was cut and is left out: {line[:60]!r}")
                break
            last = digest(line)
        text = "".join([end.tail, *(f"{line}\n" for line in lines[: len(events)])])
        return events, replace(end, count=end.count + len(events), last=last, tail=text)

    def _damaged(self, what: str) -> LogDamaged:
        way_out = f"find the last good commit with `git log -p {self._branch}` and point the branch at it"
        return LogDamaged(f"the log on branch {self._branch} is damaged: {what}. Nothing was changed; {way_out}")


class RemoteLog(GitLog):
    """The log on a branch of a repository elsewhere; the clone holds a copy, which only ever grows.

    What was pushed over there (a force-push, a branch that was deleted) is told, not taken over: the copy here shows what
    stood. A process with a fresh clone knows nothing older, and cannot tell a branch that was pushed back to a state of its own
    past: the ruleset that `autoresearch init` makes keeps people from that. Raises what GitLog raises, Busy and GitError."""

    def __init__(self, remote: Remote, branch: str = BRANCH) -> None:
        super().__init__(remote.repo, branch)
        self._remote = remote
        self._ours = ""  # what we pushed last: nobody else can have written since, and no fetch is needed to know it

    def events_since(self, position: Position) -> tuple[list[Event], Position]:
        if not (self._ours and self._ours == position.commit):
            self._fetch()
        self._ours = ""
        return super().events_since(position)

    def _fetch(self) -> None:
        self._remote.fetch()
        there = self._repo.resolve(f"{ORIGIN}/{self._branch}")
        here = self._repo.resolve(self._ref)
        if here is not None and (there is None or not self._repo.is_ancestor(here, there)):
            what = "the branch is gone there" if there is None else f"it was pushed over there: {here[:12]} is not part of it"
            raise self._damaged(f"{what}. A copy of what stood is at {here} in {self._repo.path}")
        if there is not None and there != here:
            self._repo.set_ref(self._ref, there)

    def _swap(self, new: str, old: str | None) -> bool:
        """A push is a fast-forward or it is refused: `new` has `old` as its parent."""
        self._ours = ""
        if not self._remote.push(f"{new}:{self._ref}"):
            return False
        self._repo.set_ref(self._ref, new)
        self._ours = new
        return True


class MemoryLog:
    """The log as a list."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._files: dict[str, str] = {}

    def read(self) -> tuple[list[Event], Position]:
        return self.events_since(Position())

    def events_since(self, position: Position) -> tuple[list[Event], Position]:
        return self._events[position.count :], Position(count=len(self._events))

    def append(self, event: Event, position: Position) -> Position:
        if position.count != len(self._events):
            raise Moved("somebody else wrote to the log: look again")
        self._events.append(event)
        return Position(count=len(self._events))

    def beside(self, name: str) -> str:
        return self._files.get(name, "")

    def keep(self, files: Mapping[str, str], why: str, *, when: float) -> None:
        self._files |= files


def _path(number: int) -> str:
    return f"{number // FOLDER:03}/{number:06}.jsonl"


def _subject(event: Event) -> str:
    """The event in words: `1: Merged 4`."""
    n = getattr(event, "n", None)
    return f"{event.campaign}: {type(event).__name__}" + ("" if n is None else f" {n}")


def _event(line: str, prev: str) -> Event:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise BadLine("it is not UTF-8") from None
    return from_line(line, prev)


def _is_cut(line: str, prev: str) -> bool:
    """Whether a line begins as the one that follows `prev` must, and then breaks off: no JSON object has a JSON object as its
    beginning."""
    begins = f'{{"v":{VERSION},"prev":"{prev}",'
    try:
        json.loads(line)
    except ValueError:
        return line.startswith(begins) or begins.startswith(line)
    return False
