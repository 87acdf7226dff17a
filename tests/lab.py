"""A laboratory on the GitHub double: people write comments, the webhook is heard, the loop is driven; measurements are scripted.

As a program, `python -m tests.lab`, it is the walk that `make forge-walk` shows: one whole campaign through command, PyGithub,
git over HTTP and the double, and what it asked of the platform.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, cast
from urllib.parse import unquote

from bot import events as e
from bot import git
from bot.fold import fold
from bot.forge.rest import Pace
from bot.hear import Ears, hear
from bot.log import Log, MemoryLog, Position
from bot.loop import View, run, step
from bot.platform import Connection, Platform, connect
from bot.remote import Remote
from bot.state import Campaign, State, branch_of
from bot.world import World
from runners import Outcome
from runners.scripted import ScriptedRunner
from tests.contract import Checked
from tests.double import Double
from tests.double.server import Record
from tests.double.state import Event
from tests.worlds import PROGRAM, RULE, SOURCE, TRAIN, Knobs, Luck

TEXT = PROGRAM.format(width=1, rule=RULE + ", experiments: 20", mode="pairs", gate="")
FILES = {"program.md": TEXT, TRAIN: SOURCE, "README.md": "A laboratory.\n"}
Quality = Callable[[str], float | Outcome]


class Nearby:
    """The log in memory; reading it fetches what is on GitHub, as reading the one there does, if any branch moved there."""

    def __init__(self, log: MemoryLog, remote: Remote, there: git.Repo) -> None:
        self._log, self._remote, self._there = log, remote, there
        self._refs: dict[str, str] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self) -> tuple[list[e.Event], Position]:
        return self.events_since(Position())

    def events_since(self, position: Position) -> tuple[list[e.Event], Position]:
        if (refs := self._there.refs("refs/heads")) != self._refs:
            self._remote.fetch()
            self._refs = refs
        return self._log.events_since(position)


@dataclass(kw_only=True)
class Lab:
    """`quality` gives the true score of a source or an outcome. Waiting costs no time; the clock moves by it."""

    double: Double
    folder: Path
    quality: Quality
    who: str = "app"
    now: float = 1_790_000_000.0
    answer: float = 20.0  # seconds that we wait for an answer
    remote_log: bool = True  # False: the log is in memory, and all processes share it
    slept: list[float] = field(default_factory=list)
    _log: MemoryLog = field(default_factory=MemoryLog)
    _tokens: itertools.count[int] = field(default_factory=itertools.count)
    _folders: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.double.now = lambda: self.now

    def platform(self, who: str = "") -> Platform:
        """The repository as that person or app sees it."""
        return Platform(
            name=self.double.repo, token=self.double.token(who or self.who), api=self.double.url, server=self.double.url,
            pace=Pace(requests=0, writes=0, answer=self.answer),
        )  # fmt: skip

    def connection(self) -> Connection:
        """A new process on a new machine: nothing is remembered."""
        there = connect(self.platform(), self.folder / f"machine-{next(self._folders)}", now=lambda: self.now, sleep=self.sleep)
        nearby = Nearby(self._log, there.forge.remote, self.double.bare)
        return there if self.remote_log else replace(there, log=cast(Log, nearby))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def world(self, there: Connection | None = None) -> World:
        there = there or self.connection()
        return World(
            log=there.log, code=there.code, forge=there.forge, runner=ScriptedRunner(Luck(self.quality)), proposer=Knobs(),
            now=lambda: self.now, sleep=self.sleep, token=lambda: f"nonce-{next(self._tokens)}", poll_seconds=20.0,
        )  # fmt: skip

    def hear(self, event: Event, there: Connection | None = None) -> list[str]:
        """Deliver a webhook to a fresh job."""
        there = there or self.connection()
        ears = Ears(
            threads=there.threads, forge=there.forge, log=there.log, code=there.code, now=lambda: self.now, seed=lambda: 7
        )  # fmt: skip
        return hear(ears, event.name, event.payload)

    def say(self, issue: int, text: str, by: str = "alice") -> list[str]:
        return self.hear(self.double.comment(issue, by, text))

    def drive(self, world: World | None = None) -> Campaign:
        """See the campaign whose turn it is through, or to a pause."""
        c = run(world or self.world(), View())
        assert c is not None, "nobody asked for a campaign"
        return c

    def until(self, kind: type[e.Event], world: World | None = None) -> World:
        """Drive until such an event is in the log."""
        world = world or self.world()
        view = View()
        while not any(isinstance(event, kind) for event in world.log.read()[0]):
            if not step(world, view):
                self.sleep(10.0)
        return world

    def events(self) -> list[e.Event]:
        return self.connection().log.read()[0] if self.remote_log else self._log.read()[0]

    def state(self) -> State:
        return fold(self.events())

    def comments(self, number: int) -> list[str]:
        return [comment.body for comment in self.double.home.comments.values() if comment.number == number]


def twists(source: str) -> float | Outcome:
    """Two candidates in nine are better, one crashes, whatever the order: the quality of a source is a fixed draw."""
    levels = [int(line.split()[2]) for line in source.splitlines()]
    if levels[3] > 0:
        return Outcome.CRASH
    return 2.0 - 0.08 * min(levels[0], 1) - 0.08 * min(levels[1], 1) + 0.05 * (levels[2] + levels[4] + levels[5]) + 0.03 * (
        max(levels[0] - 1, 0) + max(levels[1] - 1, 0)
    )


def open_lab(folder: Path, quality: Quality = twists, text: str = TEXT, **others: object) -> Lab:
    """A lab on a double that must be entered; all its HTTP is checked against GitHub's own description."""
    double = Double(folder / "hub", files=FILES | {"program.md": text}, watcher=Checked())
    return Lab(double=double, folder=folder, quality=quality, **others)  # type: ignore[arg-type]


ONCE = ("/user", "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/labels", "/repos/{owner}/{repo}/labels/{name}")
HEARING = ("reactions", "permission")
STATUS, SETUP = 0, -1  # beside the numbers of pull requests


def requests_of(lab: Lab) -> dict[int, tuple[int, int]]:
    """Pull request -> (requests, content-creating ones) that were about it, 304s and git left out; STATUS: those of the status
    comment and the end, which all share; SETUP: those that each process or command makes once."""
    candidates = [x for c in lab.state().campaigns.values() for x in c.candidates.values() if x.pull]
    names = {word: x.pull or 0 for x in candidates for word in (x.head, f"{branch_of(c_of(lab, x.pull or 0), x.n)}\"")}
    counted: dict[int, list[int]] = {STATUS: [0, 0], SETUP: [0, 0]}
    for record in lab.double.requests:
        if record.surface == "git" or record.status == 304:
            continue
        row = counted.setdefault(_pull_of(record, names), [0, 0])
        row[0] += 1
        row[1] += record.creates
    return {pull: (row[0], row[1]) for pull, row in counted.items()}


def c_of(lab: Lab, pull: int) -> str:
    """The name of the campaign whose pull request it is."""
    return next(c.name for c in lab.state().campaigns.values() if any(x.pull == pull for x in c.candidates.values()))


def _pull_of(record: Record, names: dict[str, int]) -> int:
    words = f'{record.path} {unquote(record.query)}" {record.body.decode("utf-8", "replace")}'
    for name, pull in names.items():
        if name in words.replace("&", '"'):
            return pull
    parts = record.path.split("/")
    for folder in ("pulls", "issues"):
        if folder in parts[:-1] and (number := parts[parts.index(folder) + 1]).isdecimal() and int(number) in names.values():
            return int(number)
    once = record.template in ONCE or any(word in record.path for word in HEARING)
    return SETUP if once else STATUS


def show(lab: Lab) -> None:
    """What a walk left behind, as people would see it, and what it asked of the platform."""
    home, counts = lab.double.home, requests_of(lab)
    for issue, pull in home.pulls():
        state = "merged" if pull.merge_sha else issue.state
        asked, created = counts.get(issue.number, (0, 0))
        print(f"\n#{issue.number} {issue.title}  [{state}]  {', '.join(issue.labels)}")
        for posted in home.checks_of(pull.head_sha):
            print(f"    check {posted.name}: {posted.conclusion}: {posted.output['title']}")
        for comment in (c for c in home.comments.values() if c.number == issue.number):
            print(f"    comment: {' '.join(comment.body.split())[:150]}")
        print(f"    {asked} requests, {created} of them content-creating")
    candidates = [row for number, row in counts.items() if number > 0]
    for k, what in enumerate(("requests", "content-creating requests")):
        numbers = [row[k] + counts[STATUS][k] / len(candidates) for row in candidates]
        told = f"median {median(numbers):.1f}, worst {max(numbers):.1f}"
        print(f"\n{what} a candidate, its share of the status comment included: {told}; once and for all: {counts[SETUP][k]}")
    git = sum(record.surface == "git" for record in lab.double.requests)
    print(f"git: {git} requests, which no limit of the interface counts")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        lab = open_lab(Path(folder))
        with lab.double:
            issue = lab.double.open_issue("alice", "Smaller", "Look at the width.")
            for line in lab.say(issue, "/autoresearch 9"):
                print(line)
            c = lab.drive()
            show(lab)
            print("\nThe status comment:\n")
            print(next(text for text in lab.comments(issue) if f"autoresearch:{c.name}" in text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
