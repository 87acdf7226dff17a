"""Our workflow files run by act, somebody else's runner of GitHub's workflows, against the double: from a comment to merges.

As a program, `python -m tests.actwalk`, it shows what a walk left. The actions of others are stubs (there is no github.com), and
so is the installer; everything between is what GitHub would run: conditions, expressions, environments, the order of jobs. act
does not keep `permissions` and queues; those are read in tests/test_workflows.py.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.contract import Checked
from tests.double import Double
from tests.double.state import Event
from tests.hosted import FOLDER, PROGRAM, ROOT
from tests.lab import Lab, show, twists
from tests.worlds import SOURCE, TRAIN

ACT = Path(sys.executable).parent / "act"
SECONDS = 120.0  # of one run of act, at most
TEXT = PROGRAM.replace("baseline_runs: 2", "baseline_runs: 1").replace("verdict_pairs: 1", "verdict_pairs: 0")
STUBS = {
    "actions/checkout": ([], 'cp -r "$TREE"/. .'),
    "actions/create-github-app-token": (["client-id", "private-key"], "exit 1"),
    "actions/upload-artifact": (["path"], 'if [ -f "$WHERE" ]; then cp "$WHERE" "$ARTIFACT"; fi'),
    "actions/download-artifact": (["path"], 'mkdir -p "$WHERE" && mv "$ARTIFACT" "$WHERE/result.json"'),
}
INSTALLER = """import os
with open(os.environ["GITHUB_PATH"], "a") as file:
    file.write(os.environ["PROGRAMS"] + "\\n")
"""


@dataclass
class Act:
    """One repository on the double and what act needs to run its workflows."""

    lab: Lab
    folder: Path

    def prepare(self) -> None:
        tree, programs = self.folder / "tree", self.folder / "programs"
        for folder in (tree / ".github" / "workflows", tree / "runners", programs, self.folder / "home"):
            folder.mkdir(parents=True)
        for path in FOLDER.glob("*.yml"):  # act's schema does not know `queue`
            (tree / ".github" / "workflows" / path.name).write_text(path.read_text("utf-8").replace("      queue: max\n", ""))
        (tree / "runners" / "install.py").write_text(INSTALLER)
        program = programs / "autoresearch"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.acted "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name, (inputs, script) in STUBS.items():
            self._stub(self.folder / "stubs" / name, inputs, script)
        for argv in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
            who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run(["git", *who, *argv], cwd=tree, check=True, env=self._env())

    def _stub(self, folder: Path, inputs: list[str], script: str) -> None:
        folder.mkdir(parents=True)
        step = {"run": script, "shell": "bash", "env": {"WHERE": "${{ inputs.path }}"}}
        named = {name: {"required": False, "description": name} for name in inputs}
        action = {"name": folder.name, "description": "a stub", "inputs": named, "runs": {"using": "composite", "steps": [step]}}
        (folder / "action.yml").write_text(json.dumps(action))

    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LANG": "C.UTF-8"}

    def hear(self, event: Event) -> str:
        return self._act(event.name, "command.yml", event.payload)

    def one(self) -> str | None:
        """The oldest queued run of the loop; None when there is none."""
        waiting = next((run for run in self.lab.double.home.runs if run["status"] == "queued"), None)
        if waiting is None:
            return None
        waiting["status"] = "in_progress"
        title = str(waiting["display_title"])
        run = title.removeprefix("measure ") if title.startswith("measure ") else ""
        said = self._act("workflow_dispatch", "loop.yml", {"inputs": {"run": run}})
        waiting.update(status="completed", conclusion="success")
        return said

    def tick(self) -> str:
        return self._act("schedule", "loop.yml", {"schedule": "17,47 * * * *"})

    def _act(self, event: str, workflow: str, payload: dict[str, object]) -> str:
        """What act said. Raises CalledProcessError when a job failed."""
        double = self.lab.double
        file = self.folder / "event.json"
        file.write_text(json.dumps({"repository": {"default_branch": "main", "full_name": double.repo}} | payload))
        env = {
            "GITHUB_API_URL": double.url, "GITHUB_SERVER_URL": double.url, "GITHUB_REPOSITORY": double.repo,
            "TREE": self.folder / "tree", "PROGRAMS": self.folder / "programs", "ARTIFACT": self.folder / "artifact.json",
            "AUTORESEARCH_CACHE": self.folder / "cache",
        }  # fmt: skip
        argv = [str(ACT), event, "-e", str(file), "-W", f".github/workflows/{workflow}", "--no-cache-server", "--pull=false"]
        argv += [f"-P={label}=-self-hosted" for label in ("self-hosted", "gpu", "ubuntu-24.04")]
        argv += ["-s", f"GITHUB_TOKEN={double.token('app')}", *(f"--env={name}={value}" for name, value in env.items())]
        for uses in set(re.findall(r"uses: (\S+)", (FOLDER / workflow).read_text("utf-8"))):
            argv.append(f"--local-repository={uses}={self.folder / 'stubs' / uses.partition('@')[0]}")
        done = subprocess.run(
            argv, cwd=self.folder / "tree", env=self._env(), capture_output=True, text=True, check=False, timeout=SECONDS
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{event} {workflow} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def opened(folder: Path) -> Act:
    """The double must be entered, then `prepare` be called."""
    files = {"program.md": TEXT, TRAIN: SOURCE, ".github/workflows/loop.yml": (FOLDER / "loop.yml").read_text("utf-8")}
    double = Double(folder / "hub", files=files, watcher=Checked())
    return Act(lab=Lab(double=double, folder=folder, quality=twists), folder=folder)


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
