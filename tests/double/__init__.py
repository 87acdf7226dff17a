"""A GitHub of our own for tests: REST, GraphQL and git over HTTP on a bare repository, strict where public doubles are lax.

    with Double(tmp_path) as github:
        client = Github(base_url=github.url, auth=Auth.Token(github.token("app")), retry=None)
        event = github.comment(github.open_issue("alice", "Faster"), "alice", "/autoresearch 5")

It is not GitHub: what it refuses is in refusals.py with the page that says so, what it does not know is a 404 and in `unknown`.
Modules: state (records), shapes and addresses (their JSON), routes (rights, pages); issues, labels, pulls, reviews, merging,
checks, commits, actions, places (endpoints); graphql, githttp; limits, faults; people and asking (for tests); api (one request),
server (sockets).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bot import git
from tests.double import githttp, issues, people
from tests.double.api import Api
from tests.double.faults import Fault
from tests.double.limits import Limits
from tests.double.server import Desk, Record, Server, Watcher
from tests.double.state import Event, Hub, Identity, Protection, Repository, User

FILES = {"README.md": "A laboratory.\n", "trainer/train.py": "DEPTH = 4\n"}
PEOPLE = {"alice": "write", "bob": "maintain", "carol": "triage", "dave": "read"}
WRITE = dict.fromkeys(("actions", "checks", "contents", "issues", "pull_requests"), "write") | {"metadata": "read"}
BOTS = {"app": ("autoresearch[bot]", 1), "github_token": ("github-actions[bot]", 15368), "jwt": ("autoresearch[bot]", 1)}


class Double:
    """One running double with one repository. `now` may be replaced at any time; `watcher` looks at all that is said.

    `files` are the first commit of the default branch; with `source`, that repository's branch of the same name is it instead.
    """

    def __init__(
        self,
        path: Path,
        *,
        repo: str = "octo/lab",
        branch: str = "main",
        files: Mapping[str, str] = FILES,
        source: Path | None = None,
        now: Callable[[], float] = time.time,
        watcher: Watcher | None = None,
    ) -> None:
        self.now = now
        self.hub = Hub(now=self._clock)
        self.limits = Limits(now=self._clock)
        self.desk = Desk(Api(self.hub, self.limits), watcher=watcher)
        owner, _, name = repo.partition("/")
        bare = _prepared(path / f"{name}.git", branch, files, source, int(now()))
        self.home = Repository(next(self.hub.ids), owner, name, bare, branch, roles={owner: "admin"} | PEOPLE)
        self.hub.repositories[self.home.id] = self.home
        for login in (owner, *PEOPLE, "eve"):
            self._register(User(login, next(self.hub.ids)))
        for kind, (login, app) in BOTS.items():
            bot = self.hub.users.setdefault(login, User(login, next(self.hub.ids), "Bot"))
            token = f"{kind}-token"
            self.hub.tokens[token] = Identity(token, bot, kind, app, dict(WRITE))

    def _clock(self) -> float:
        return self.now()

    def __enter__(self) -> Double:
        self._server = Server(self.desk)
        self.hub.url = self._server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        assert not self.desk.crashes, "the double broke: " + "\n".join(self.desk.crashes)

    def _register(self, user: User) -> User:
        self.hub.users[user.login] = user
        token = f"{user.login}-token"
        self.hub.tokens[token] = Identity(token, user)
        return user

    # where, and as whom

    @property
    def url(self) -> str:
        """What a client takes as its base_url."""
        return self.hub.url

    @property
    def repo(self) -> str:
        """owner/name"""
        return self.home.full_name

    @property
    def git_url(self) -> str:
        return f"{self.url}/{self.repo}.git"

    @property
    def bare(self) -> git.Repo:
        return self.home.bare

    def git_url_of(self, name: str) -> str:
        """The address for clone and push with that token in it."""
        return self.git_url.replace("://", f"://x-access-token:{self.token(name)}@")

    def token(self, name: str) -> str:
        """The token of a person by login, or of `app`, `github_token` or `jwt`."""
        token = f"{name}-token"
        if token not in self.hub.tokens:
            raise ValueError(f"nobody is called {name}: add them by user(), or take one of {', '.join(self.hub.users)}")
        return token

    def identity(self, name: str) -> Identity:
        """What that token stands for; its `permissions` may be changed."""
        return self.hub.tokens[self.token(name)]

    def user(self, login: str, role: str = "none", *, kind: str = "User") -> User:
        """Add a person, or give one another role."""
        if role == "none":
            self.home.roles.pop(login, None)
        else:
            self.home.roles[login] = role
        return self.hub.users.get(login) or self._register(User(login, next(self.hub.ids), kind))

    # what was asked, and what goes wrong

    @property
    def requests(self) -> list[Record]:
        return self.desk.records

    @property
    def unknown(self) -> list[str]:
        """Requests that no route answers."""
        return self.desk.unknown

    @property
    def violations(self) -> list[str]:
        """What the watcher found."""
        return self.desk.watcher.violations if self.desk.watcher else []

    @property
    def events(self) -> list[Event]:
        """What webhooks would have been sent, oldest first."""
        return self.hub.events

    def fail(self, *, with_: str, nth: int = 1, times: int = 1, method: str = "", path: str = "", surface: str = "") -> Fault:
        """Answer the nth fitting request from now on by a fault (faults.KINDS), and the `times` - 1 after it."""
        fault = Fault(with_, nth, times, method, path, surface)
        self.desk.faults.add(fault)
        return fault

    def mend(self) -> None:
        """Take away all planned faults."""
        self.desk.faults.plan.clear()

    def protect(
        self, branch: str = "", *, checks: tuple[str, ...] = (), app: int = 0, reviews: int = 0, strict: bool = False
    ) -> None:
        """Protect a branch, the default one unless it is named; with `app` the checks count only from that app."""
        self.home.protection[branch or self.home.default_branch] = Protection(list(checks), app, reviews, strict)

    # what people do

    def _who(self, login: str) -> User:
        return self.hub.users.get(login) or self.user(login)

    def open_issue(self, by: str, title: str, body: str | None = None) -> int:
        with self.desk.lock:
            return issues.open_issue(self.hub, self.home, self._who(by), title, body).number

    def comment(self, number: int, by: str, body: str) -> Event:
        with self.desk.lock:
            return people.comment(self.hub, self.home, number, self._who(by), body)

    def edit_comment(self, comment: int, by: str, body: str) -> Event:
        with self.desk.lock:
            return people.edit_comment(self.hub, self.home, comment, self._who(by), body)

    def review(self, number: int, by: str, state: str, body: str = "") -> Event:
        """`state` is APPROVED, CHANGES_REQUESTED or COMMENTED."""
        with self.desk.lock:
            return people.review(self.hub, self.home, number, self._who(by), state, body)

    def comment_on_line(self, number: int, by: str, body: str, *, path: str, line: int = 1) -> Event:
        with self.desk.lock:
            return people.comment_on_line(self.hub, self.home, number, self._who(by), body, path, line)

    def close(self, number: int, by: str) -> Event:
        with self.desk.lock:
            return people.set_open(self.hub, self.home, number, self._who(by), "closed")

    def reopen(self, number: int, by: str) -> Event:
        with self.desk.lock:
            return people.set_open(self.hub, self.home, number, self._who(by), "open")

    def lock(self, number: int) -> None:
        self.home.issues[number].locked = True

    def merge(self, number: int, by: str) -> str:
        with self.desk.lock:
            return people.merge(self.hub, self.home, number, self._who(by))

    def push(self, branch: str, files: Mapping[str, str], *, by: str = "alice", message: str = "by hand") -> str:
        """A commit for each file; the new tip."""
        with self.desk.lock:
            return people.push(self.hub, self.home, branch, self._who(by), files, message)

    def force_push(self, branch: str, sha: str, *, by: str = "alice") -> str:
        with self.desk.lock:
            return people.move(self.hub, self.home, branch, self._who(by), sha)

    def delete_branch(self, branch: str, *, by: str = "alice") -> None:
        with self.desk.lock:
            people.delete_branch(self.hub, self.home, branch, self._who(by))

    def rename(self, full_name: str) -> None:
        """Rename or move the repository; an owner that is new is registered."""
        self._who(full_name.partition("/")[0])
        people.rename(self.hub, self.home, full_name)

    def rename_branch(self, old: str, new: str) -> None:
        with self.desk.lock:
            people.rename_branch(self.hub, self.home, old, new)

    def archive(self) -> None:
        self.home.archived = True

    def payload_of(self, event: Event) -> dict[str, Any]:
        """What GitHub would send to a webhook, and put in the file that GITHUB_EVENT_PATH names."""
        return event.payload


def _prepared(path: Path, branch: str, files: Mapping[str, str], source: Path | None, when: int) -> git.Repo:
    """A bare repository with one commit or another repository's branch, ready to be served."""
    repo = git.init_bare(path, branch)
    githttp.prepare(repo)
    if source is not None:
        repo.fetch(source, f"+refs/heads/{branch}:refs/heads/{branch}")
        return repo
    parts = [f"commit refs/heads/{branch}\ncommitter {git.NAME} <{git.EMAIL}> {when} +0000\ndata 5\nfirst\n".encode()]
    for name, text in files.items():
        data = text.encode()
        parts.append(f"M 100644 inline {name}\ndata {len(data)}\n".encode() + data + b"\n")
    repo.ask("fast-import", "--quiet", stdin=b"".join(parts))
    return repo
