"""Trouble with the platform: whatever GitHub answers, and wherever we are killed, a campaign ends with the same pull requests.

Each walk is a whole small campaign on the double. The log is in memory, because what may be lost or doubled here is what
stands on GitHub; a log on GitHub has its own tests (test_log.py, test_github.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot import actions as a
from bot import events as e
from bot.act import act
from bot.actions import Action
from bot.forge import ForgeError
from bot.git import GitError
from bot.loop import Deed, View, run
from bot.remote import Busy
from bot.state import Campaign
from bot.world import World
from tests.lab import TEXT, Lab, open_lab

KINDS = (
    "time-out after", "502", "504 after", "403 secondary", "404", "409", "422", "401", "drop", "drop after",
    "HTML", "HTML after",
)  # fmt: skip
RESTARTS = 300
BRIEF = TEXT.replace("verdict_pairs: 2, ablation: 8", "verdict_pairs: 1, ablation: 0")
SLOW = ("time-out after", "403 secondary")
ONLINE = (a.Open, a.Rebase, a.PostCheck, a.Merge, a.Close, a.Say, a.OpenComparison, a.Compare)


class Killed(BaseException):
    """Nothing of ours may catch it."""


@dataclass
class Twice:
    """Each call, told apart by its method and path, goes wrong the first and the third time, or the first alone."""

    kind: str
    times: tuple[int, ...] = (1, 3)
    surface: str = "rest"
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def due(self, method: str, path: str, surface: str) -> bool:
        if self.surface != surface:
            return False
        self.seen[method, path] += 1
        return self.seen[method, path] in self.times


@dataclass
class Dying:
    """Does each deed that touches GitHub twice: the first time it is killed before that is written down."""

    killed: set[str] = field(default_factory=set)

    def __call__(self, world: World, campaign: Campaign, action: Action) -> e.Event | None:
        event = act(world, campaign, action)
        if event is not None and isinstance(action, ONLINE) and (key := repr(action)) not in self.killed:
            self.killed.add(key)
            raise Killed
        return event


def story(lab: Lab) -> list[tuple[object, ...]]:
    """What stands on GitHub at the end, as people see it: nothing here may depend on what went wrong on the way.

    Without the numbers: of two runs in the queue another one may be first, and each has its own seed.
    """
    home = lab.double.home
    told: list[tuple[object, ...]] = []
    for issue, pull in home.pulls():
        checks = [(run.conclusion, run.output["title"].partition(": ")[2]) for run in home.checks_of(pull.head_sha)]
        comments = [text.split("-->")[0] for text in lab.comments(issue.number)]
        gone = home.tip(pull.head) is None
        told.append((issue.title, issue.state, bool(pull.merge_sha), gone, sorted(issue.labels), checks[:1], comments))
    return told


def campaign(lab: Lab, deed: Deed = act, fault: Twice | None = None) -> int:
    """Ask for three experiments and see them through, in a new process whenever one ends; how many there were."""
    asked = lab.double.comment(1, "alice", "/autoresearch 3")
    lab.double.desk.faults.plan += [fault] if fault else []  # type: ignore[list-item]
    for processes in range(1, RESTARTS):
        try:
            if not lab.events():
                lab.hear(asked)
            c = run(lab.world(), View(), deed)
            assert c is not None and c.ended is not None
            return processes
        except (ForgeError, GitError, Busy, Killed):
            lab.sleep(61.0)
    raise AssertionError(f"not done after {RESTARTS} processes")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    lab = open_lab(tmp_path_factory.mktemp("undisturbed"), remote_log=False, text=BRIEF)
    with lab.double:
        lab.double.open_issue("alice", "Smaller")
        assert campaign(lab) == 1
        told = story(lab)
    assert [(row[1], row[2]) for row in told] == [("closed", False), ("closed", True), ("closed", True)]
    return told


def held(lab: Lab, undisturbed: list[tuple[object, ...]]) -> None:
    assert story(lab) == undisturbed
    marks = [text.split("-->")[0] for text in lab.comments(1) if "<!--" in text]
    assert len(marks) == len(set(marks)), "no comment of ours stands there twice"
    (status,) = [text for text in lab.comments(1) if "autoresearch:1.1" in text]
    assert "3 of 3 experiments done" in status and "95 % interval" in status, "the last words are there too"
    assert lab.double.violations == [] and lab.double.unknown == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_that_goes_wrong_is_healed(kind: str, tmp_path: Path, undisturbed: list[tuple[object, ...]]) -> None:
    """Each call of a walk is answered so in turn; the pull requests are the same, none doubled, none lost."""
    lab = open_lab(tmp_path, answer=0.3, remote_log=False, text=BRIEF)
    lab.double.desk.hold = 1.0
    with lab.double:
        lab.double.open_issue("alice", "Smaller")
        fault = Twice(kind, (1,) if kind in SLOW else (1, 3))
        campaign(lab, fault=fault)
        assert len(fault.seen) > 20
        held(lab, undisturbed)


def test_a_kill_after_any_deed_is_healed(tmp_path: Path, undisturbed: list[tuple[object, ...]]) -> None:
    """Killed between each deed and its event, once at every deed of the walk that touches GitHub."""
    lab = open_lab(tmp_path, remote_log=False, text=BRIEF)
    with lab.double:
        lab.double.open_issue("alice", "Smaller")
        dying = Dying()
        assert campaign(lab, dying) > 15
        held(lab, undisturbed)
