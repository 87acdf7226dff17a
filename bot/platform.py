"""One repository on GitHub with everything that the bot holds of it: the token, a bare clone, its threads, forge and log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bot import git
from bot.forge.github import GitHubForge
from bot.forge.rest import Pace, Refused, Rest
from bot.forge.threads import Threads
from bot.log import RemoteLog
from bot.remote import Remote


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Where and as whom. `name` is owner/name; `api` and `server` are of GitHub, of an Enterprise server or of a test double."""

    name: str
    token: str = field(repr=False)
    api: str = "https://api.github.com"
    server: str = "https://github.com"
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """What a Platform is worked with. `code` is our bare clone."""

    threads: Threads
    forge: GitHubForge
    log: RemoteLog
    code: git.Repo


def connect(
    platform: Platform, folder: Path, *, now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
) -> Connection:
    """Ask who we are and what the repository is called now. Raises Busy, ForgeError, GitError, LogDamaged."""
    rest = Rest(api=platform.api, token=platform.token, name=platform.name, now=now, sleep=sleep, pace=platform.pace)
    code = git.init_bare(folder / f"{platform.name}.git", "main")
    about = rest.get(rest.repo)
    rest.name = str(about["full_name"])  # it may have been renamed: GitHub led us there
    threads = Threads(rest=rest, me=_login(rest))
    remote = Remote(repo=code, url=f"{platform.server}/{rest.name}.git", token=platform.token)
    forge = GitHubForge(threads=threads, remote=remote, branch=str(about["default_branch"]))
    return Connection(threads=threads, forge=forge, log=RemoteLog(remote), code=code)


def _login(rest: Rest) -> str | None:
    """The person whose token it is; None for an App and for GITHUB_TOKEN, which may not ask."""
    try:
        return str(rest.get("/user")["login"])
    except Refused:
        return None
