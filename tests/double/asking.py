"""Plain requests to a double as somebody, for tests: what PyGithub would hide, such as the status of a success."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import Any

import requests
from github import Auth, Github

from tests.double import Double

BRANCH, TRAIN = "autoresearch/1/1", "trainer/train.py"
ENABLE = "mutation($input: EnablePullRequestAutoMergeInput!) { enablePullRequestAutoMerge(input: $input) { clientMutationId } }"
DISABLE = (
    "mutation($input: DisablePullRequestAutoMergeInput!) { disablePullRequestAutoMerge(input: $input) { clientMutationId } }"
)


@dataclass
class Place:
    """A double, and requests to it as somebody: `ask("POST /issues", title="x")` is below the repository."""

    double: Double
    http: requests.Session

    def ask(self, line: str, by: str = "app", /, *, raw: str | None = None, **body: Any) -> requests.Response:
        method, _, path = line.partition(" ")
        url = self.double.url + (path.removeprefix("~") if path.startswith("~") else f"/repos/{self.double.repo}{path}")
        sent: dict[str, Any] = {"data": raw} if raw is not None else {"json": body} if body else {}
        headers = {"Authorization": f"Bearer {self.double.token(by)}"} if by else {}
        return self.http.request(method, url, headers=headers, allow_redirects=False, timeout=20, **sent)

    def query(self, text: str, by: str = "app", /, **given: Any) -> requests.Response:
        return self.ask("POST ~/graphql", by, query=text, variables={"input": given})

    def issue(self) -> int:
        return self.double.open_issue("alice", "Faster")

    def pull(self, branch: str = BRANCH, by: str = "app", **more: Any) -> int:
        self.double.push(branch, {TRAIN: f"A = 2  # {branch}\n"})
        number: int = self.ask("POST /pulls", by, title="A to 2", head=branch, base="main", **more).json()["number"]
        return number

    def head(self, number: int) -> str:
        pull = self.double.home.issues[number].pull
        assert pull is not None
        return pull.head_sha

    def run(self, head: str, by: str = "app", **more: Any) -> requests.Response:
        return self.ask("POST /check-runs", by, **{"name": "val_bpb", "head_sha": head, **more})

    def push(self, by: str, refspec: str, path: str = "x") -> str:
        """What git says to a person who pushes a commit with one new file."""
        work = self.double.bare.path.parent / "work"
        url = self.double.git_url_of(by) if by else self.double.git_url
        git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "credential.helper="]
        subprocess.run(["git", "clone", "-q", str(self.double.bare.path), str(work)], check=True)
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("new\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "x"], check=True)
        quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        return subprocess.run([*git, "push", "-q", url, refspec], capture_output=True, text=True, check=False, env=quiet).stderr


def client(double: Double, by: str = "app") -> Github:
    """PyGithub as our bot has it: no retry and no pauses of its own. Use it with `with`, which closes its connection."""
    auth = Auth.Token(double.token(by))
    return Github(base_url=double.url, auth=auth, retry=None, seconds_between_requests=0, seconds_between_writes=0)
