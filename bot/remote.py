"""A repository on another machine: fetch from it and push to it over HTTPS, from a bare clone of our own (git.Repo).

The token reaches git through the environment of that one process: never on a command line, never in a config file. What the
other side says is sorted into three: the ref has moved there (a value), it cannot be asked now (`Busy`: look again), and what
a person must mend (GitError, with what to do).
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

from bot import git

ORIGIN = "refs/remotes/origin"  # where the clone keeps what it fetched
LATER_SECONDS = 15.0

_MOVED = r"non-fast-forward|fetch first|stale info|cannot lock ref|failed to update ref|reference already exists"
_LATER = (
    r"Could not resolve host|Failed to connect|Couldn't connect|Connection (refused|reset|timed out)|timed out|too slow|"
    r"early EOF|RPC failed|returned error: (5\d\d|429)|hung up unexpectedly|unexpected disconnect|Empty reply|"
    r"Internal Server Error|Recv failure"
)
_BLAME = (
    (r"archived|read-only", "{url} is archived, nothing can be pushed: unarchive it, or end the campaign"),
    (r"GH0(06|13)|protected branch|rule violations",
     "a rule of {url} forbids the push ({why}): let the bot write branches under autoresearch/"),
    (r"refusing to allow .*workflow", "the token may not push changes of workflow files to {url}: a person must push those"),
    (r"Authentication failed|error: 401|could not read (Username|Password)|Invalid username",
     "{url} does not know the token: give a valid one in GITHUB_TOKEN"),
    (r"error: 403|Permission .*denied|Write access", "the token may not write to {url}: it needs `contents: write`"),
    (r"[Rr]epository .*not found|error: 404", "{url} is not there, or the token may not see it: check the name and the token"),
)  # fmt: skip


class Busy(Exception):
    """The platform cannot be asked now, or did not answer: what was asked may have happened or not. Look again in `seconds`."""

    def __init__(self, why: str, seconds: float = LATER_SECONDS) -> None:
        super().__init__(why)
        self.seconds = seconds


@dataclass(frozen=True, kw_only=True)
class Remote:
    """One bare clone and the repository that it is a clone of. `url` without credentials."""

    repo: git.Repo
    url: str
    token: str = field(repr=False)

    def fetch(self, refspec: str = f"+refs/heads/*:{ORIGIN}/*") -> None:
        """Bring all branches and their objects to ORIGIN; those that are gone there go here too. Raises Busy, GitError."""
        quiet = ("--quiet", "--no-tags", "--prune", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
        code, err = self._ask("fetch", *quiet, "--", self.url, refspec)
        if code:
            raise self._explain("fetch", err)

    def push(self, *refspecs: str) -> bool:
        """Bring refs and their objects there; `+from:to` forces, `:to` deletes. False when a ref there holds what we do not
        have, or moved in this very moment. Raises Busy, GitError."""
        code, err = self._ask("push", "--quiet", "--no-verify", "--", self.url, *refspecs)
        if code and not re.search(_MOVED, err):
            raise self._explain("push", err)
        return code == 0

    def delete(self, branch: str) -> None:
        """Take a branch away there; one that is gone is fine."""
        code, err = self._ask("push", "--quiet", "--no-verify", "--", self.url, f":refs/heads/{branch}")
        if code and not re.search(r"remote ref does not exist|unable to delete", err):
            raise self._explain("push", err)

    def _ask(self, *args: str) -> tuple[int, str]:
        secret = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        settings = {"http.extraHeader": f"Authorization: Basic {secret}", "http.lowSpeedLimit": "1", "http.lowSpeedTime": "60"}
        env = {"GIT_CONFIG_COUNT": str(len(settings))}
        for k, (name, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{k}": name, f"GIT_CONFIG_VALUE_{k}": value}
        done = self.repo.ask(*args, ok=range(256), env=env)
        return done.code, done.err.replace(secret, "***").replace(self.token, "***") if self.token else done.err

    def _explain(self, verb: str, err: str) -> Exception:
        lines = [line for line in err.splitlines() if line.strip()] or ["it gave no reason"]
        why = next((line for line in lines if re.match(r"fatal:|error:|remote:", line)), lines[-1])
        for pattern, sentence in _BLAME:
            if re.search(pattern, err):
                return git.GitError(sentence.format(url=self.url, why=why))
        if re.search(_LATER, err):
            return Busy(f"{self.url} did not answer ({why})")
        return git.GitError(f"git {verb} with {self.url} failed: {why}")
