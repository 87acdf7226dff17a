"""Where campaigns live on this machine: a person's checkout, and a store beside it that holds everything of ours.

    <git common dir>/autoresearch/
        forge.git    a bare repository: the default branch, candidates, the log       runs/    measurements
        forge.json   pull requests, checks, comments of the local forge               pages/   one static page per campaign
        lock         held by the one process that drives

The checkout and forge.git are two clones of one project: what is committed here is pushed there before a campaign, what was
merged there comes back here by a fast-forward afterwards. Nothing is forced; where both have grown a person decides.
Not here: what a campaign does (loop.py), or whether it may begin (preflight.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from bot import git
from bot.fitness import Facts
from bot.fold import fold
from bot.forge.local import LocalForge
from bot.interrupts import Interrupts
from bot.log import GitLog
from bot.minds import Server, minds
from bot.platform import Platform
from bot.propose import Proposer
from bot.state import Campaign, State, Unlisted
from bot.world import World
from runners import Runner

LOCAL_REFS = "refs/autoresearch"  # where the checkout keeps what it fetched: no branch of a person is touched
NO_SPACE, NO_RIGHT = (errno.ENOSPC, errno.EDQUOT), (errno.EROFS, errno.EACCES, errno.EPERM)


class Told(Exception):
    """Something that a person must know or do first. The message is what we say; the exit status is 1."""


def _nowhere() -> Platform:
    raise Told("this machine knows no repository on GitHub")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """This computer and this call, as far as a command needs them; a test replaces fields. `command` is how to call us."""

    cache: Path
    who: str
    command: str
    runners: Mapping[str, Callable[[Path, Path], Runner]]  # name in program.md -> (home of runs, cache) -> runner
    proposers: Mapping[str, Proposer]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    token: Callable[[], str]
    seed: Callable[[], int]
    torch: Callable[[], str | None]  # None: it is there; else what to do
    sandbox: Callable[[], str | None]  # likewise
    prepare: Callable[[str, Path, Callable[[str, float], None]], str | None]  # corpus, cache, tell(stage, done) -> likewise
    look: Callable[[], Facts]  # at the machine itself
    platform: Callable[[], Platform] = _nowhere
    name: str = ""  # as a runner of GitHub Actions; not the name of the host, which would show on a public issue
    event: str = ""  # the name of the webhook that started us
    event_file: str = ""  # and its payload
    server: Server = field(default_factory=Server)  # of models
    slack_token: str = field(default="", repr=False)
    slack_webhook: str = field(default="", repr=False)
    slack_api: str = "https://slack.com/api/"
    interrupts: Interrupts = field(default_factory=Interrupts)

    def minded(self, world: World, c: Campaign) -> World:
        """A world with the proposers that a campaign wants."""
        mind = minds(c.settings, self.proposers, self.server, sleep=self.sleep)
        return replace(world, proposer=mind.proposer, reviewer=mind.reviewer, mender=mind.mender)


class Relation(StrEnum):
    """How the branch in the checkout stands to the one in the forge."""

    NEW = "the forge has none"
    SAME = "same"
    AHEAD = "the checkout is ahead"
    BEHIND = "the forge is ahead"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Workspace:
    """A checkout and its store, which need not be there yet."""

    checkout: git.Repo
    store: Path

    @property
    def top(self) -> Path:
        return self.checkout.path

    @property
    def forge_path(self) -> Path:
        return self.store / "forge.git"

    @property
    def exists(self) -> bool:
        return (self.forge_path / "objects" / "pack").exists()  # what `git init` makes last: another process may be at it

    @property
    def repo(self) -> git.Repo:
        """The bare repository of the forge."""
        return git.Repo(self.forge_path)

    def forge(self, branch: str) -> LocalForge:
        return LocalForge(self.repo, self.store / "forge.json", branch)

    def log(self) -> GitLog:
        return GitLog(self.repo)

    def state(self) -> State:
        """Where we stand; nothing when no campaign was ever begun here. Raises LogDamaged, Told."""
        if not self.exists:
            return State()
        try:
            return fold(self.log().read()[0])
        except Unlisted as error:
            raise Told(f"the log does not fit this version of the program: {error}. Use the version that wrote it") from None

    # one process at a time

    @contextlib.contextmanager
    def driving(self) -> Iterator[None]:
        """Be the one process that drives. Raises Told when another one does."""
        self.store.mkdir(parents=True, exist_ok=True)
        with (self.store / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Told(self._busy()) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def driver(self) -> str | None:
        """The number of the process that drives; None when none does."""
        try:
            with (self.store / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return (self.store / "lock").read_text() or "that has just begun"
        return None

    def check_free(self) -> None:
        """Raises Told when another process drives."""
        if self.driver():
            raise Told(self._busy())

    def _busy(self) -> str:
        return (
            f"another `autoresearch run` (process {self.driver()}) is at work in this checkout: look at it with "
            "`autoresearch status`, or end its campaign with `autoresearch stop`"
        )

    # two clones of one project

    def relation(self, branch: str) -> Relation:
        """Compare the checked-out commit with the branch of that name in the forge."""
        here, there = self.checkout.head(), self.repo.resolve(f"refs/heads/{branch}") if self.exists else None
        assert here is not None, "nobody asks before the first commit"
        if there is None:
            return Relation.NEW
        if here == there:
            return Relation.SAME
        if self.checkout.resolve(there) and self.checkout.is_ancestor(there, here):
            return Relation.AHEAD
        behind = self.repo.resolve(here) and self.repo.is_ancestor(here, there)
        return Relation.BEHIND if behind else Relation.DIVERGED

    def ways_out(self, branch: str) -> str:
        """What to do when both have grown."""
        return (
            f"your branch {branch} and the merged winners in {self.forge_path} have both grown. To have both: `git pull "
            f"--rebase {self.forge_path} {branch}`; to let go of the winners: `git push --force {self.forge_path} {branch}`"
        )

    def hand_over(self, branch: str) -> None:
        """Make the forge's branch and the checkout's the same, whichever is behind. Raises Told when both have grown."""
        git.init_bare(self.forge_path, branch)
        match self.relation(branch):
            case Relation.NEW | Relation.AHEAD:
                # a shallow clone may be pushed from, but only to a repository that agrees to be shallow
                self.repo.ask("config", "receive.shallowUpdate", "true")
                if not self.checkout.push(self.forge_path, f"HEAD:refs/heads/{branch}"):
                    raise Told(self.ways_out(branch))
            case Relation.BEHIND:
                if command := self.bring_home(branch):
                    raise Told(f"winners of an earlier campaign are not in your checkout yet: first do `{command}`")
            case Relation.DIVERGED:
                raise Told(self.ways_out(branch))
            case Relation.SAME:
                pass

    def bring_home(self, branch: str) -> str | None:
        """Fetch all that the forge has, and fast-forward the checkout when it is clean and on that branch. What is left to do
        by hand, as a command; None when nothing is."""
        kept = f"{LOCAL_REFS}/branch/{branch}"
        self.checkout.fetch(
            self.forge_path, f"+refs/heads/{branch}:{kept}", f"+refs/pull/*:{LOCAL_REFS}/pull/*",
            f"+refs/heads/autoresearch/*:{LOCAL_REFS}/heads/*", "^refs/heads/autoresearch/log",
        )  # fmt: skip
        tip = self.checkout.resolve(kept)
        head = self.checkout.head()
        if tip is None or (head and self.checkout.is_ancestor(tip, head)):
            return None
        if self.checkout.current_branch() != branch:
            return f"git checkout {branch} && git merge --ff-only {kept}"
        if head and not self.checkout.is_ancestor(head, tip):
            return f"git pull --rebase {self.forge_path} {branch}"
        if self.checkout.is_dirty():
            return f"git stash && git merge --ff-only {kept} && git stash pop"
        return None if self.checkout.fast_forward(tip) else f"git merge --ff-only {kept}"


def find(path: Path) -> Workspace:
    """The workspace of the checkout that `path` lies in. Raises GitError when it lies in none."""
    checkout = git.Repo(git.top_level(path))
    common = checkout.ask("rev-parse", "--path-format=absolute", "--git-common-dir").text
    return Workspace(checkout, Path(common) / "autoresearch")


def blame(error: OSError) -> str | None:
    """A sentence about a disk that is full or may not be written; None when it is neither."""
    where = error.filename or "the disk"
    if error.errno in NO_SPACE:
        return f"no space is left on the disk ({where}): free some, then do it again; nothing that was written down is lost"
    if error.errno in NO_RIGHT:
        return f"{where} cannot be written or read ({error.strerror}): change its rights, or use another folder"
    return None
