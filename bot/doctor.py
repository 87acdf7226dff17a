"""What this computer has and lacks, each with what to do about it. Looks only; changes nothing but a cache of prepared data.

What the rows mean is in fitness.py.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bot import git
from bot.box import busy
from bot.fitness import Row, cores, findings, taken
from bot.log import LogDamaged
from bot.minds import lacking
from bot.preflight import LEAST_BYTES, PROGRAM
from bot.program import Problems, Settings, parse
from bot.report.claims import detectable
from bot.summary import latest
from bot.workspace import Machine, find
from runners.sandbox import kind

OLDEST_PYTHON = (3, 11)
LITTLE_BYTES = 2**30
GPU_SECONDS = 20.0
LOOKS, PAUSE_SECONDS = 16, 20.0  # in a job, at a GPU that others use: until five minutes are over


def examine(machine: Machine, path: Path) -> list[Row]:
    """Everything, for the checkout that `path` lies in, or for none."""
    settings = _settings(path)
    return [
        _python(),
        _git(path),
        _torch(machine),
        _sandbox(machine, settings),
        *_disk(machine, path),
        _gpu(),
        cores(busy()),
        _corpus(machine, settings),
        *_models(machine, settings),
        *_noise(path),
    ]


def runner(machine: Machine, path: Path, looks: int = 1) -> list[Row]:
    """What a machine must have that only measures, as `path`, a checkout on it, asks for. Prepares nothing. Others on its GPU may
    be gone in a moment: it is looked at so often, PAUSE_SECONDS apart, before they count."""
    settings = _settings(path)
    device = settings.device if settings else "auto"
    found = findings(machine.look(), device)
    while taken(found) and (looks := looks - 1) > 0:
        machine.sleep(PAUSE_SECONDS)
        found = findings(machine.look(), device)
    return [
        _python(),
        _git(path),
        _torch(machine),
        _sandbox(machine, settings),
        _space("disk, here", path),
        _kept(machine.cache),
        *found,
    ]


def _settings(path: Path) -> Settings | None:
    """Of the checkout's program.md; None when there is none, or none that can be read."""
    try:
        text = (find(path).top / PROGRAM).read_text("utf-8")
    except (git.GitError, OSError, UnicodeDecodeError):
        return None
    program = parse(text)
    return None if isinstance(program, Problems) else program.settings


def _models(machine: Machine, settings: Settings | None) -> Iterator[Row]:
    """Whether whom program.md asks for proposals and reviews can be asked. Nobody is: that would cost money."""
    asked = settings and (*(name for name in settings.proposers if name == "optuna"), *settings.models)
    if settings and asked:
        reason = lacking(settings, machine.server)
        found = ", ".join(asked) + (" cannot be asked" if reason else f" at {machine.server.base_url or 'the server of OpenAI'}")
        yield Row(name="proposer", state="missing" if reason else "ok", found=found, fix=reason or "")


def _noise(path: Path) -> Iterator[Row]:
    """How small a gain the campaigns of this checkout could find, as far as they know the noise."""
    try:
        c = latest(find(path).state())
    except (git.GitError, LogDamaged):
        return
    if c is not None:
        yield Row(name="noise", state="ok", found=detectable(c))


def _python() -> Row:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= OLDEST_PYTHON:
        return Row(name="Python", state="ok", found=found)
    return Row(name="Python", state="missing", found=found, fix="install Python 3.11 or newer, and make the environment with it")


def _git(path: Path) -> Row:
    try:
        version = git.Repo(path).ask("version").text.removeprefix("git version ")
    except git.GitError as error:
        return Row(name="git", state="missing", found="none that is new enough", fix=str(error))
    try:
        return Row(name="git", state="ok", found=f"{version}, checkout {find(path).top}")
    except git.GitError:
        return Row(name="git", state="ok", found=f"{version}; this folder is in no checkout, so only the demo runs here")


def _torch(machine: Machine) -> Row:
    reason = machine.torch()
    if reason:
        return Row(name="torch", state="missing", found="cannot be used", fix=reason)
    return Row(name="torch", state="ok", found="installed")


def _sandbox(machine: Machine, settings: Settings | None) -> Row:
    reason = machine.sandbox()
    if reason is None:
        return Row(name="sandbox", state="ok", found=f"{kind()} works")
    needed = settings is None or settings.sandbox == "required"
    return Row(name="sandbox", state="missing" if needed else "warn", found="cannot be had: runs are unsandboxed", fix=reason)


def _disk(machine: Machine, path: Path) -> list[Row]:
    return [_space("disk, here", path), _space("disk, cache", machine.cache)]


def _space(name: str, folder: Path) -> Row:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    found = f"{free / 2**30:.1f} GB free at {there}"
    if not os.access(there, os.W_OK):
        return Row(name=name, state="missing", found=f"{there} cannot be written", fix="change its rights, or use another")
    if free < LITTLE_BYTES:
        return Row(name=name, state="missing" if free < LEAST_BYTES else "warn", found=found, fix="free some space there")
    return Row(name=name, state="ok", found=found)


def _kept(cache: Path) -> Row:
    """A cache that is only read is the safest one, if what is needed lies in it."""
    if cache.is_dir() and any(cache.iterdir()) and not os.access(cache, os.W_OK):
        return Row(name="disk, cache", state="ok", found=f"{cache} is only read: what was prepared there is used as it is")
    return _space("disk, cache", cache)


def _gpu() -> Row:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Row(name="GPU", state="ok", found="none (no nvidia-smi): candidates train on the CPU")
    query = [program, "--query-gpu=name,memory.used,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=GPU_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Row(name="GPU", state="warn", found="nvidia-smi hangs", fix="look at the driver: `dmesg`, or restart the machine")
    if done.returncode:
        return Row(name="GPU", state="warn", found="nvidia-smi fails", fix=f"look at the driver: {done.stderr.strip()[:200]}")
    return Row(name="GPU", state="ok", found="; ".join(done.stdout.strip().splitlines()))


def _corpus(machine: Machine, settings: Settings | None) -> Row:
    name = settings.corpus if settings else "austen"
    if name.startswith("climbmix") and not (machine.cache / "climbmix").exists():
        command = f"python -m evaluator.prepare --corpus {name} --cache {machine.cache}"
        fix = f"it is downloaded when it is first needed, which can take long; to do it ahead: {command}"
        return Row(name="corpus", state="warn", found=f"{name} is not there yet", fix=fix)
    if machine.torch():
        return Row(name="corpus", state="warn", found=f"{name} was not looked at", fix="first the packages that train, above")
    if reason := machine.prepare(name, machine.cache, lambda stage, done: None):
        return Row(name="corpus", state="missing", found=f"{name} cannot be used", fix=reason)
    return Row(name="corpus", state="ok", found=f"{name}, prepared in {machine.cache}")
