"""Whether a campaign may begin: everything that can be wrong is found before anything is changed, and told in one sentence.

The order is that of blame: first what the person asked for, then the checkout, program.md and train.py, then the machine;
what takes longest (the corpus) comes last. Raises Told; returns what was found, so that it is looked up once.
Not here: doing any of it (workspace.py, campaign.py).
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot import git
from bot.minds import lacking
from bot.program import Problems, Program, Settings, parse
from bot.settings import renewed
from bot.state import Campaign
from bot.workspace import Machine, Relation, Told, Workspace

PROGRAM = "program.md"
LEAST_BYTES = 64 * 2**20  # free; with less a campaign would not get far
SHOWN = 5  # paths, at most

Tell = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A campaign that may begin. `overrides` are the settings of the command, by dotted name."""

    branch: str
    program: Program
    overrides: Mapping[str, object]


def plan(ws: Workspace, machine: Machine, experiments: int, overrides: Mapping[str, object], tell: Tell) -> Plan:
    """Look at everything. Raises Told, GitError."""
    ws.check_free()
    if campaign := ws.state().active:
        raise Told(_active(campaign))
    branch = _branch(ws)
    _check_disk(ws)
    repo, base = _base(ws, branch)
    text = _committed(ws, repo, base, PROGRAM, "examples/cpu/program.md shows one")
    overrides = dict(overrides)
    program = read_program(text, overrides)
    if (folder := _folder(ws, program.settings.corpus)) is not None:
        program = read_program(text, overrides := overrides | {"corpus": folder})
    most = program.settings.stop.experiments
    if experiments > most:
        raise Told(f"program.md allows at most {most} experiments a command: ask for {most}, or raise stop.experiments")
    for path in program.settings.editable:
        _check_parses(path, _committed(ws, repo, base, path, "it is the file that a campaign works on"))
    check_models(machine, program.settings)
    check_machine(machine, program.settings, tell)
    return Plan(branch=branch, program=program, overrides=overrides)


def _active(c: Campaign) -> str:
    done = f"{c.settled} of {c.started.experiments} experiments done"
    return f"campaign {c.name} is under way ({done}): `autoresearch run` goes on with it, `autoresearch stop` ends it"


def _branch(ws: Workspace) -> str:
    """The branch that is checked out, in a state from which a campaign can begin."""
    for name in (PROGRAM, "trainer/train.py"):
        _check_readable(ws.top / name)
    if ws.checkout.head() is None:
        raise Told(f"{ws.top} has no commit yet: commit program.md and trainer/train.py first")
    branch = ws.checkout.current_branch()
    if branch is None:
        raise Told("HEAD is detached, so winners would have no branch to land on: `git checkout main`, or `git switch -c NAME`")
    if changed := ws.checkout.changes():
        paths = ", ".join(changed[:SHOWN]) + (f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else "")
        raise Told(f"there are changes that are not committed ({paths}): commit them, or `git stash`")
    return branch


def _check_readable(path: Path) -> None:
    if path.exists() and not os.access(path, os.R_OK):
        raise Told(f"{path} cannot be read: `chmod u+r {path}`")


def _check_disk(ws: Workspace) -> None:
    for folder in (ws.top, ws.store if ws.store.exists() else ws.store.parent):
        if not os.access(folder, os.W_OK):
            raise Told(f"{folder} cannot be written: change its rights or its owner, or use a clone in another folder")
        free = shutil.disk_usage(folder).free
        if free < LEAST_BYTES:
            need = LEAST_BYTES // 2**20
            raise Told(f"the disk that holds {folder} has {free // 2**20} MB left, and a campaign needs {need} MB: free some")


def _base(ws: Workspace, branch: str) -> tuple[git.Repo, str]:
    """The commit that the campaign will begin from, and a repository that has it."""
    head = ws.checkout.head()
    assert head is not None
    match ws.relation(branch):
        case Relation.DIVERGED:
            raise Told(ws.ways_out(branch))
        case Relation.BEHIND:
            return ws.repo, ws.forge(branch).tip()
        case _:
            return ws.checkout, head


def _committed(ws: Workspace, repo: git.Repo, base: str, path: str, hint: str) -> str:
    """The text of a file at the base: what is committed is what counts."""
    text = repo.read(base, path)
    if text is None and (ws.top / path).is_file():
        raise Told(f"{path} is there but not committed: `git add {path} && git commit -m 'Add {path}'`")
    if text is None:
        raise Told(f"there is no {path} in {ws.top}: {hint}")
    return text


def read_program(text: str, overrides: Mapping[str, object]) -> Program:
    """Its settings with these in their place. Raises Told."""
    program = parse(text, overrides)
    if isinstance(program, Problems):
        said = re.sub(r"--(stop|money)\.|--model\.(?=proposer is)", "--", str(program)).replace("--proposer is", "--model is")
        count = len(program.items)
        raise Told(f"program.md has {'a mistake' if count == 1 else f'{count} mistakes'}, mend and commit it:\n{said}")
    return program


def program_now(ws: Workspace, c: Campaign) -> tuple[str, Settings]:
    """The program.md with which a campaign goes on, and the settings that it has then: only who proposes, and what that may
    cost, is read anew. An empty text where there is none any more. Raises Told."""
    branch = c.started.branch
    ours = ws.checkout.current_branch() == branch and ws.relation(branch) is Relation.AHEAD
    repo, commit = (ws.checkout, ws.checkout.head()) if ours else (ws.repo, ws.forge(branch).tip())
    text = repo.read(commit or "HEAD", PROGRAM)
    if text is None:
        return "", c.settings
    return text, renewed(c.settings, read_program(text, c.started.settings).settings)


def _folder(ws: Workspace, corpus: str) -> str | None:
    """A corpus that is a folder of the checkout, as an absolute path: a measurement runs elsewhere."""
    inside = ws.top / corpus
    return str(inside) if not Path(corpus).is_absolute() and inside.is_dir() else None


def _check_parses(path: str, source: str) -> None:
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise Told(f"{path} does not parse, line {error.lineno}: {error.msg}. Mend and commit it") from None
    except ValueError as error:
        raise Told(f"{path} is no Python text ({error}). Mend and commit it") from None


def check_models(machine: Machine, settings: Settings) -> None:
    """What must be there to ask whom program.md names. Raises Told."""
    if reason := lacking(settings, machine.server):
        raise Told(reason)


def check_machine(machine: Machine, settings: Settings, tell: Tell) -> None:
    """What this computer must have to measure anything under these settings. Raises Told."""
    if settings.parallel > 1 and settings.runner == "local":
        raise Told(
            f"`parallel: {settings.parallel}` in program.md needs as many devices, and runner local measures on one: two at once "
            "would slow each other and spoil both numbers. Set `parallel: 1`"
        )
    if reason := machine.torch():
        raise Told(reason)
    if settings.sandbox == "required" and (reason := machine.sandbox()):
        raise Told(f"{reason}. Or set `sandbox: none` in program.md to run candidates without one")
    if reason := machine.prepare(settings.corpus, machine.cache, tell):
        raise Told(reason)
