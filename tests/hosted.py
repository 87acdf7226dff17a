"""GitHub Actions for tests: the very steps of our workflow files, run in this process against the double.

An event or a dispatch starts the workflow that listens to it; the steps that call `autoresearch` are called with the environment
and the rights that the file gives them, others are left out. A machine without GITHUB_TOKEN in its step knows no GitHub. What
measures is scripted. Not GitHub: `if:` of jobs and steps is known here in words (see `Actions`), not evaluated.
"""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import yaml

from bot.__main__ import main
from bot.forge.fleet import WORKFLOW
from bot.forge.rest import Pace
from bot.platform import Platform
from bot.workspace import Machine, Told
from tests.contract import Checked
from tests.double import Double
from tests.double.state import Event, Identity
from tests.lab import Lab, twists
from tests.laptop import machine
from tests.worlds import SOURCE, TRAIN, Knobs, Luck

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
PROGRAM = """---
corpus: austen
budget: {seconds: 10}
gate: {baseline_runs: 2, prior_sd: 0.01, prior_df: 6, verdict_pairs: 1}
stop: {experiments: 20}
sandbox: none
schedule: {experiments: 1, issue: 1}
slack: {channel: C0REPORTS}
---
Make it better.
"""
Ran = tuple[str, int]  # a command line, and its exit status


def _nowhere() -> Platform:
    raise Told("no token in this step")


@dataclass
class Actions:
    """Runs workflows. `dies` says of a command whether its machine is lost before it begins; `machines` are fields of Machine.

    A job with `needs` runs whatever became of the other, as ours says; a job with `inputs.run != ''` only for a run."""

    lab: Lab
    luck: Luck
    dies: Callable[[str], bool] = lambda command: False
    machines: dict[str, Any] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    _runs: itertools.count[int] = field(default_factory=itertools.count)

    def deliver(self, event: Event) -> None:
        """What a webhook starts, unless a bot brought it about."""
        listens = yaml.safe_load((FOLDER / "command.yml").read_text("utf-8"))[True]
        wanted = event.name in listens and event.action in listens[event.name]["types"]
        if wanted and event.triggers and event.payload["sender"]["type"] != "Bot":
            self._workflow("command.yml", {}, event)

    def say(self, issue: int, text: str, by: str = "alice") -> None:
        self.deliver(self.lab.double.comment(issue, by, text))

    def one(self) -> bool:
        """Take the oldest dispatched run of the loop; False when none is queued."""
        runs = self.lab.double.home.runs
        waiting = next((run for run in runs if run["status"] == "queued"), None)
        if waiting is None:
            return False
        waiting["status"] = "in_progress"
        title = str(waiting["display_title"])
        self._workflow(WORKFLOW, {"run": title.removeprefix("measure ") if title.startswith("measure ") else ""})
        if waiting["status"] == "in_progress":
            waiting.update(status="completed", conclusion="success")
        return True

    def drain(self, limit: int = 200) -> int:
        """All that is queued, and what that asks for; how many runs it were."""
        for k in range(limit):
            if not self.one():
                return k
        raise AssertionError(f"the loop still rings after {limit} runs")

    def tick(self) -> None:
        """The schedule of the loop."""
        self._workflow(WORKFLOW, {"run": ""})

    def night(self) -> None:
        self._workflow("nightly.yml", {})

    def _workflow(self, name: str, inputs: Mapping[str, str], event: Event | None = None) -> None:
        workflow = yaml.safe_load((FOLDER / name).read_text("utf-8"))
        folder = self.lab.folder / f"workflow-{next(self._runs)}"  # its own: another one may run meanwhile
        artifact, temp = folder / "artifact.json", folder / "temp"
        for job in workflow["jobs"].values():
            if "inputs.run != ''" in str(job["if"]) and not inputs.get("run"):
                continue
            shutil.rmtree(temp, ignore_errors=True)
            (temp / "result").mkdir(parents=True)
            if "needs" in job and artifact.exists():
                shutil.copy(artifact, temp / "result" / "result.json")
            self._job(job, temp, inputs, event)
            if (temp / "result.json").exists():
                shutil.copy(temp / "result.json", artifact)

    def _job(self, job: dict[str, Any], temp: Path, inputs: Mapping[str, str], event: Event | None) -> None:
        """Its steps until one fails."""
        for step in job["steps"]:
            script = str(step.get("run", ""))
            if not script.startswith("autoresearch "):
                continue
            env = {name: self._value(str(text), inputs) for name, text in (step.get("env") or {}).items()}
            argv = shlex.split(Template(script).substitute(env, RUNNER_TEMP=temp))[1:]
            if self.dies(" ".join(argv)):
                return
            status = main(argv, self._machine(env, job["permissions"], temp, event))
            self.ran.append((" ".join(argv), status))
            if status:
                return

    def _value(self, text: str, inputs: Mapping[str, str]) -> str:
        known = {"${{ inputs.run }}": inputs.get("run", "")}
        return known.get(text, text)

    def _machine(self, env: Mapping[str, str], permissions: Mapping[str, str], temp: Path, event: Event | None) -> Machine:
        fields: dict[str, Any] = {"event": event.name if event else ""}
        if event:
            (temp / "event.json").write_text(json.dumps(event.payload))
            fields["event_file"] = str(temp / "event.json")
        if "GITHUB_TOKEN" in env:
            fields["platform"] = lambda: self._platform(permissions)
        for name in ("SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL"):
            if name not in env:
                fields |= {"slack_token": ""} if name == "SLACK_BOT_TOKEN" else {"slack_webhook": ""}
        return self.machine(**self.machines | fields)

    def machine(self, **fields: Any) -> Machine:
        given = {"now": lambda: self.lab.now, "sleep": self.lab.sleep, "proposers": {"mutate": Knobs()}, "platform": _nowhere}
        return machine(self.lab.folder, self.luck, **given | fields)

    def _platform(self, permissions: Mapping[str, str]) -> Platform:
        """A token of the app that may do what the job's `permissions` say, and no more."""
        double = self.lab.double
        name = f"ghs_{'-'.join(sorted(permissions))}"
        granted = {key.replace("-", "_"): level for key, level in permissions.items()} | {"metadata": "read"}
        double.hub.tokens[name] = Identity(name, double.identity("app").user, "app", 1, granted)
        return Platform(
            name=double.repo, token=name, api=double.url, server=double.url, pace=Pace(requests=0, writes=0, answer=20.0)
        )  # fmt: skip


def opened(folder: Path, quality: Callable[[str], Any] = twists, program: str = PROGRAM, **machines: Any) -> Actions:
    """Actions on a lab whose repository holds our workflows. The double must be entered."""
    files = {"program.md": program, TRAIN: SOURCE, "README.md": "A laboratory.\n"}
    files |= {f".github/workflows/{path.name}": path.read_text("utf-8") for path in FOLDER.glob("*.yml")}
    lab = Lab(double=Double(folder / "hub", files=files, watcher=Checked()), folder=folder, quality=quality)
    return Actions(lab=lab, luck=Luck(quality), machines=machines)
