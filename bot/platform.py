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
from bot.log import Log, RemoteLog
from bot.remote import Remote

# https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github#githubs-token-formats
INSTALLATION = "ghs_"


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
    log: Log
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
    remote = _remote(platform, code, rest.name)
    forge = GitHubForge(threads=threads, remote=remote, branch=str(about["default_branch"]))
    return Connection(threads=threads, forge=forge, log=RemoteLog(remote), code=code)


def by_git(platform: Platform, folder: Path) -> tuple[RemoteLog, git.Repo]:
    """The log and the clone that it is in, for who only reads: nothing is asked of the interface, whose requests are counted."""
    code = git.init_bare(folder / f"{platform.name}.git", "main")
    return RemoteLog(_remote(platform, code, platform.name)), code


def _remote(platform: Platform, code: git.Repo, name: str) -> Remote:
    return Remote(repo=code, url=f"{platform.server}/{name}.git", token=platform.token)


def _login(rest: Rest) -> str | None:
    """The person whose token it is; None for an App and for GITHUB_TOKEN, which may not ask."""
    if rest.token.startswith(INSTALLATION):
        return None
    try:
        return str(rest.get("/user")["login"])
    except Refused:
        return None
