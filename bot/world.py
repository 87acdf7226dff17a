"""Everything outside the core, in one value: a test replaces its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bot import events as e
from bot.aside import Asked, AtOnce
from bot.forge import Forge, ForgeError
from bot.log import Log
from bot.propose import Mender, Proposer, review
from bot.propose.review import Reviewer
from bot.remote import Busy
from bot.state import Campaign
from runners import Runner, Running


class Code(Protocol):
    """The part of a git repository that the deeds need; `git.Repo` and `forge.memory.MemoryRepo` have it."""

    def read(self, commit: str, path: str) -> str | None: ...
    def guard_of(self, commit: str) -> str: ...
    def commit_file(self, base: str, path: str, text: str, message: str, *, when: float) -> str: ...
    def diff(self, a: str, b: str) -> str: ...
    def paths(self, commit: str) -> list[str]: ...


@dataclass(frozen=True, kw_only=True)
class World:
    """Log, code, forge, runner, proposer, reviewer, clock and luck. `mender` repairs what it proposed; None: nobody does."""

    log: Log
    code: Code
    forge: Forge
    runner: Runner
    proposer: Proposer
    now: Callable[[], float]
    sleep: Callable[[float], None]
    token: Callable[[], str]  # a fresh secret
    reviewer: Reviewer = review
    mender: Mender | None = None
    minded: Callable[[World, Campaign], World] = lambda world, campaign: world  # with the proposers that a campaign wants
    tell: Callable[[Campaign, Running | e.Event | None], None] = lambda campaign, news: None
    later: Callable[[Busy], None] = lambda busy: None  # the platform could not be asked: told to whoever watches
    poll_seconds: float = 0.2  # how soon a stop, a veto or a result is seen, where looking costs nothing
    queue_seconds: float = 0.0  # how long a run may wait for a machine before it begins
    progress: dict[str, Running] = field(default_factory=dict)  # newest word of each run in flight, for people only
    asked: Asked = field(default_factory=AtOnce)  # how questions are put that take long
    owed: list[e.Event] = field(default_factory=list)  # models were paid for these, and they are not in the log


def editable(c: Campaign) -> str:
    return c.settings.editable[0]


def source_at(world: World, c: Campaign, commit: str) -> str:
    source = world.code.read(commit, editable(c))
    if source is None:
        raise ForgeError(f"{editable(c)} is not there at {commit[:7]}: put it back, or change `editable` in program.md")
    return source
