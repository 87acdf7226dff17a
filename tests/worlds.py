"""Worlds for tests: everything outside the core in memory, with a clock that only moves when told, and luck from a seed.

`Luck` is what a run finds when it is polled; `campaign` writes down a start. Not a mock: the loop, the log's compare-and-swap,
the forge's guards and the proposer are the real ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from bot import events as e
from bot.forge.memory import MemoryForge, MemoryRepo
from bot.log import MemoryLog
from bot.loop import View, refresh, step
from bot.propose import Brief, Idea, NoIdea
from bot.static import hash_of
from bot.world import World
from runners import Job, Lost, Outcome, Running
from runners.scripted import Result, ScriptedRunner, measurement

TRAIN = "trainer/train.py"
SOURCE = "".join(f"KNOB_{k} = 0  # made up\n" for k in range(6))
RULE = "crashes: 100, refusals: 1000"
PROGRAM = """---
corpus: austen
budget: {{seconds: 10}}
gate: {{mode: {mode}, baseline_runs: 2, prior_sd: 0.01, prior_df: 6, verdict_pairs: 2, ablation: 8{gate}}}
parallel: {width}
sandbox: none
stop: {{{rule}}}
---
Make it better.
"""


@dataclass
class Clock:
    """Seconds since the epoch; moves by sleeping."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Knobs:
    """Proposes to raise one knob by one; ideas never run out and differ from what was tried on this base. Its repair raises the
    same knob by more."""

    name = "knobs"

    def propose(self, brief: Brief) -> Idea | NoIdea:
        for k in itertools.count():
            knob = (brief.seed + k) % 6
            old = next(line for line in brief.source.splitlines() if line.startswith(f"KNOB_{knob} "))
            new = f"KNOB_{knob} = {int(old.split()[2]) + 1 + k // 6}  # made up"
            if hash_of(brief.source.replace(old, new)) not in brief.tried:
                edit = e.Edit(old=old, new=new)
                return Idea(title=f"{old.split('#')[0]} to {new.split()[2]}", hypothesis="it may help", edits=(edit,))
        raise AssertionError("unreachable")

    def repair(self, brief: Brief, source: str, edits: tuple[e.Edit, ...], traceback: str) -> Idea | NoIdea:
        old, value = edits[0].old, int(edits[0].new.split()[2])
        for more in range(1, 9):
            edit = e.Edit(old=old, new=old.replace(f"= {old.split()[2]} ", f"= {value + more} "))
            if hash_of(source.replace(old, edit.new)) not in brief.tried and not brief.refuses((edit,)):
                return Idea(title="more", hypothesis="it may run", edits=(edit,))
        return NoIdea(reason="whatever it is raised to, that was tried")


@dataclass
class Luck:
    """`quality` gives the true score of a source or an outcome; `delays` and `losses` are used up, one for each run begun."""

    quality: Callable[[str], float | Outcome]
    delays: list[int] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    polls: dict[str, int] = field(default_factory=dict)
    fates: dict[str, str] = field(default_factory=dict)

    def __call__(self, job: Job) -> Result:
        if job.run not in self.polls:
            self.polls[job.run] = self.delays.pop() if self.delays else 0
            self.fates[job.run] = self.losses.pop() if self.losses else ""
        if self.polls[job.run] > 0:
            self.polls[job.run] -= 1
            return Running(phase="training")
        if self.fates[job.run] == "lost":
            return Lost(reason="its process died")
        if self.fates[job.run] == "void":
            return measurement(job, outcome=Outcome.VOID, reason="busy")
        return self._score(job)

    def _score(self, job: Job) -> Result:
        score = self.quality(job.source)
        if isinstance(score, Outcome):
            return measurement(job, outcome=score, reason="made up")
        return measurement(job, val_bpb=round(score + (job.seed % 1000 - 500) * 1e-5, 6))


def memory_world(quality: Callable[[str], float | Outcome], source: str = SOURCE) -> World:
    """A world in memory whose default branch holds that train.py."""
    clock = Clock()
    repo = MemoryRepo()
    repo.set_ref("refs/heads/main", repo.commit_file(None, TRAIN, source, "first", when=clock()))
    tokens = itertools.count()
    return World(
        log=MemoryLog(), code=repo, forge=MemoryForge(repo, "main"), runner=ScriptedRunner(Luck(quality)), proposer=Knobs(),
        now=clock, sleep=clock.sleep, token=lambda: f"nonce-{next(tokens)}",
    )  # fmt: skip


def start(
    world: World, n: int, *, width: int = 1, seed: int = 7, rule: str = RULE, mode: str = "pairs", gate: str = "", issue: int = 0
) -> View:
    """Ask for n experiments; the view of whoever asked."""
    view = View()
    name = refresh(world, view).next_name(issue)
    event = e.CampaignStarted(
        campaign=name, at=world.now(), experiments=n, issue=issue, title="", body="", by="a person",
        program=PROGRAM.format(width=width, rule=rule, mode=mode, gate=gate), settings={}, seed=seed, branch="main",
    )  # fmt: skip
    world.log.append(event, view.position)
    return view


def push(world: World, path: str, text: str) -> None:
    """A person pushes one file to the default branch."""
    commit = world.code.commit_file(world.forge.tip(), path, text, "by hand", when=world.now())
    world.code.set_ref("refs/heads/main", commit)  # type: ignore[attr-defined]


def until(world: World, view: View, kind: type[e.Event], count: int = 1) -> None:
    """Look, and let time pass, until so many events of that kind are in the log."""
    while sum(isinstance(x, kind) for x in world.log.read()[0]) < count:
        if not step(world, view):
            world.sleep(0.2)
