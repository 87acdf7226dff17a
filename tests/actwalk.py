"""Our workflow files run by act, somebody else's runner of GitHub's workflows, against the double: from a comment to merges.

As a program, `python -m tests.actwalk`, it shows what a walk left. The actions of others are stubs (there is no github.com; the
one that checks out does fetch from the double by git), and so is the installer; everything between is what GitHub would run:
conditions, expressions, environments, the order of jobs. act does not keep `permissions` and queues; those are read in
tests/test_workflows.py. Here measurements are scripted; tests/e2e.py walks with real ones.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from runners.processes import descendants
from tests.contract import Checked
from tests.double import Double
from tests.double.shapes import Json
from tests.double.state import Event
from tests.hosted import FOLDER, PROGRAM, ROOT
from tests.lab import Lab, show, twists
from tests.worlds import SOURCE, TRAIN

PROGRAMS = Path(sys.executable).parent
ACT = PROGRAMS / "act"
SECONDS = 120.0  # of one run of act, at most
TEXT = PROGRAM.replace("baseline_runs: 2", "baseline_runs: 1").replace("verdict_pairs: 1", "verdict_pairs: 0")
SCRIPTED = f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.acted "$@"\n'
CHECKOUT = """git init -q .
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader
export GIT_CONFIG_VALUE_0="Authorization: Basic $(printf 'x-access-token:%s' "$TOKEN" | base64 -w0)"
git fetch -q --depth 1 "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY.git" "$REF"
git checkout -q FETCH_HEAD
"""
STUBS = {
    "actions/checkout": (["ref"], CHECKOUT),
    "actions/create-github-app-token": (["client-id", "private-key"], "exit 1"),
    "actions/upload-artifact": (["path"], 'if [ -f "$WHERE" ]; then cp "$WHERE" "$ARTIFACT"; fi'),
    "actions/download-artifact": (["path"], 'mkdir -p "$WHERE" && mv "$ARTIFACT" "$WHERE/result.json"'),
}
INPUTS = {"WHERE": "${{ inputs.path }}", "REF": "${{ inputs.ref }}", "TOKEN": "${{ github.token }}"}
INSTALLER = """import os
with open(os.environ["GITHUB_PATH"], "a") as file:
    file.write(os.environ["PROGRAMS"] + "\\n")
"""


@dataclass
class Act:
    """One repository on the double and what act needs to run its workflows. `program` is what `autoresearch` is on its machines;
    the mappings are what the owner of the repository has set; `tell` hears of each run and its seconds."""

    lab: Lab
    folder: Path
    program: str = SCRIPTED
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str, float], None] = lambda run, seconds: None

    def prepare(self) -> None:
        """The machines: a checkout that act reads workflows from, programs, actions."""
        tree, programs = self.folder / "tree", self.folder / "programs"
        for folder in (programs, self.folder / "home", self.folder / "tmp"):
            folder.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", self.lab.double.git_url, str(tree)], check=True, env=self._env())
        for path in (tree / ".github" / "workflows").glob("*.yml"):  # act's schema does not know `queue`
            path.write_text(path.read_text("utf-8").replace("      queue: max\n", ""))
        program = programs / "autoresearch"
        program.write_text(self.program)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name, (inputs, script) in STUBS.items():
            self._stub(self.folder / "stubs" / name, inputs, script)

    def _stub(self, folder: Path, inputs: list[str], script: str) -> None:
        folder.mkdir(parents=True)
        step = {"run": script, "shell": "bash", "env": INPUTS}
        named = {name: {"required": False, "description": name} for name in inputs}
        action = {"name": folder.name, "description": "a stub", "inputs": named, "runs": {"using": "composite", "steps": [step]}}
        (folder / "action.yml").write_text(json.dumps(action))

    def _env(self) -> dict[str, str]:
        own = {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        return own | {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    def hear(self, event: Event) -> str:
        return self._act(event.name, "command.yml", event.payload, event.name)

    def one(self) -> str | None:
        """The oldest queued run of the loop; None when there is none."""
        if (waiting := self._queued()) is None:
            return None
        waiting["status"] = "in_progress"
        said = self._act("workflow_dispatch", "loop.yml", _inputs(waiting), str(waiting["display_title"]))
        waiting.update(status="completed", conclusion="success")
        return said

    def next(self) -> str | None:
        """The title of that run."""
        waiting = self._queued()
        return str(waiting["display_title"]) if waiting else None

    def _queued(self) -> Json | None:
        return next((run for run in self.lab.double.home.runs if run["status"] == "queued"), None)

    def power_cut(self, due: Callable[[], bool]) -> str:
        """Begin the oldest queued run and take away its machine, with all that goes on there, once `due`. Nobody is told: GitHub
        sees a run that fails after a while, and none of its other jobs runs. What it was."""
        waiting = self._queued()
        assert waiting is not None, "no run of the loop is queued"
        waiting["status"], began = "in_progress", time.monotonic()
        with (self.folder / "cut.log").open("w") as log:
            argv = self._argv("workflow_dispatch", "loop.yml", _inputs(waiting))
            act = subprocess.Popen(argv, cwd=self.folder / "tree", env=self._env(), stdout=log, stderr=log)
        try:
            while not due():
                assert act.poll() is None, f"it ended before its machine did:\n{(self.folder / 'cut.log').read_text()}"
                assert time.monotonic() - began < SECONDS, "its machine was never due to be taken away"
                time.sleep(0.05)
        finally:
            _kill(act)
        waiting.update(status="completed", conclusion="failure")
        self.tell(f"loop.yml: {waiting['display_title']}: its machine dies", time.monotonic() - began)
        return str(waiting["display_title"])

    def tick(self) -> str:
        """The schedule of the loop, which is its watchdog."""
        return self._act("schedule", "loop.yml", {"schedule": "17,47 * * * *"}, "the watchdog's schedule")

    def night(self) -> str:
        return self._act("schedule", "nightly.yml", {"schedule": "17 1,3,5 * * *"}, "the night's schedule")

    def _act(self, event: str, workflow: str, payload: Mapping[str, object], what: str) -> str:
        """What act said. Raises AssertionError when a job failed."""
        began = time.monotonic()
        done = subprocess.run(
            self._argv(event, workflow, payload), cwd=self.folder / "tree", env=self._env(), capture_output=True, text=True,
            check=False, timeout=SECONDS,
        )  # fmt: skip
        if done.returncode:
            bugs = "\n".join(path.read_text() for path in (self.folder / "cache").glob("*-bug-*.log"))
            raise AssertionError(f"{event} {workflow} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n{bugs}")
        self.tell(f"{workflow}: {what}", time.monotonic() - began)
        return done.stdout

    def _argv(self, event: str, workflow: str, payload: Mapping[str, object]) -> list[str]:
        double, file = self.lab.double, self.folder / "event.json"
        file.write_text(json.dumps({"repository": {"default_branch": "main", "full_name": double.repo}} | dict(payload)))
        env = {
            "GITHUB_API_URL": double.url, "GITHUB_SERVER_URL": double.url, "GITHUB_REPOSITORY": double.repo,
            "PROGRAMS": str(self.folder / "programs"), "ARTIFACT": str(self.folder / "artifact.json"),
            "AUTORESEARCH_CACHE": str(self.folder / "cache"),
        }  # fmt: skip
        argv = [str(ACT), event, "-e", str(file), "-W", f".github/workflows/{workflow}", "--no-cache-server", "--pull=false"]
        argv += [f"-P={label}=-self-hosted" for label in ("self-hosted", "gpu", "ubuntu-24.04")]
        for option, given in (("env", {**env, **self.env}), ("var", self.variables), ("secret", self.secrets)):
            argv += [f"--{option}={name}={value}" for name, value in given.items()]
        argv.append(f"--secret=GITHUB_TOKEN={double.token('app')}")
        for uses in set(re.findall(r"uses: (\S+)", (FOLDER / workflow).read_text("utf-8"))):
            argv.append(f"--local-repository={uses}={self.folder / 'stubs' / uses.partition('@')[0]}")
        return argv


def _inputs(run: Json) -> Json:
    """What the dispatch of that run said, which only its title keeps."""
    title = str(run["display_title"])
    return {"inputs": {"run": title.removeprefix("measure ") if title.startswith("measure ") else ""}}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """That process and all below it, whatever sessions they are in; none of them can do anything about it."""
    below = list(descendants(process.pid))
    process.kill()
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def opened(folder: Path, text: str = TEXT, source: str = SOURCE, **others: object) -> Act:
    """The double must be entered, then `prepare` be called."""
    files = {"program.md": text, TRAIN: source, "runners/install.py": INSTALLER}
    files |= {f".github/workflows/{path.name}": path.read_text("utf-8") for path in FOLDER.glob("*.yml")}
    double = Double(folder / "hub", files=files, watcher=Checked())
    return Act(lab=Lab(double=double, folder=folder, quality=twists), folder=folder, **others)  # type: ignore[arg-type]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        there = opened(Path(folder))
        with there.lab.double:
            there.prepare()
            issue = there.lab.double.open_issue("alice", "Smaller", "Look at the width.")
            there.hear(there.lab.double.comment(issue, "alice", "/autoresearch 2"))
            runs = 0
            while there.one() is not None:
                runs += 1
            print(f"act ran command.yml once and loop.yml {runs} times")
            show(there.lab)
    return 0


if __name__ == "__main__":
    sys.exit(main())
