"""A laboratory on the GitHub double: people write comments, the webhook is heard, the loop is driven; measurements are scripted.

As a program, `python -m tests.lab`, it is the walk that `make forge-walk` shows: one whole campaign through command, PyGithub,
git over HTTP and the double, and what it asked of the platform.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bot import events as e
from bot.fold import fold
from bot.forge.rest import Pace
from bot.hear import Ears, hear
from bot.loop import View, run, step
from bot.platform import Connection, Platform, connect
from bot.state import Campaign, State
from bot.world import World
from runners import Outcome
from runners.scripted import ScriptedRunner
from tests.contract import Checked
from tests.double import Double
from tests.double.state import Event
from tests.worlds import PROGRAM, RULE, SOURCE, TRAIN, Knobs, Luck

TEXT = PROGRAM.format(width=1, rule=RULE + ", experiments: 20", mode="pairs", gate="")
FILES = {"program.md": TEXT, TRAIN: SOURCE, "README.md": "A laboratory.\n"}
Quality = Callable[[str], float | Outcome]


@dataclass(kw_only=True)
class Lab:
    """`quality` gives the true score of a source or an outcome. Waiting costs no time; the clock moves by it."""

    double: Double
    folder: Path
    quality: Quality
    who: str = "app"
    now: float = 1_790_000_000.0
    answer: float = 20.0  # seconds that we wait for an answer
    slept: list[float] = field(default_factory=list)
    _tokens: itertools.count[int] = field(default_factory=itertools.count)
    _folders: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.double.now = lambda: self.now

    def connection(self) -> Connection:
        """A new process on a new machine: nothing is remembered."""
        platform = Platform(
            name=self.double.repo, token=self.double.token(self.who), api=self.double.url, server=self.double.url,
            pace=Pace(requests=0, writes=0, answer=self.answer),
        )  # fmt: skip
        return connect(platform, self.folder / f"machine-{next(self._folders)}", now=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def world(self, there: Connection | None = None) -> World:
        there = there or self.connection()
        return World(
            log=there.log, code=there.code, forge=there.forge, runner=ScriptedRunner(Luck(self.quality)), proposer=Knobs(),
            now=lambda: self.now, sleep=self.sleep, token=lambda: f"nonce-{next(self._tokens)}", poll_seconds=10.0,
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

    def state(self) -> State:
        return fold(self.connection().log.read()[0])

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


def open_lab(folder: Path, quality: Quality = twists, **others: object) -> Lab:
    """A lab on a double that must be entered; all its HTTP is checked against GitHub's own description."""
    return Lab(double=Double(folder / "hub", files=FILES, watcher=Checked()), folder=folder, quality=quality, **others)  # type: ignore[arg-type]


def requests_of(lab: Lab) -> dict[int, tuple[int, int]]:
    """Pull request -> (requests, content-creating ones) that were about it, 304s and git left out; 0: the campaign's own."""
    counted: dict[int, list[int]] = {}
    heads = {x.head: x.pull or 0 for c in lab.state().campaigns.values() for x in c.candidates.values()}
    for record in lab.double.requests:
        if record.surface == "git" or record.status == 304:
            continue
        row = counted.setdefault(_pull_of(record.path, record.query, record.body, heads), [0, 0])
        row[0] += 1
        row[1] += record.creates
    return {pull: (row[0], row[1]) for pull, row in counted.items()}


def _pull_of(path: str, query: str, body: bytes, heads: dict[str, int]) -> int:
    words = f"{path} {query} {body.decode('utf-8', 'replace')}"
    for head, pull in heads.items():
        if pull and head and head in words:
            return pull
    parts = path.split("/")
    for folder in ("pulls", "issues"):
        if folder in parts[:-1] and parts[parts.index(folder) + 1].isdecimal():
            number = int(parts[parts.index(folder) + 1])
            return number if number in heads.values() else 0
    return 0


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
    candidates = [row for number, row in counts.items() if number]
    for k, what in enumerate(("requests", "content-creating requests")):
        numbers = [row[k] for row in candidates]
        print(f"\n{what} a candidate: median {median(numbers):g}, worst {max(numbers)}; of the campaign itself {counts[0][k]}")
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
