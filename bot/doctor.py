"""What this computer has and lacks, each with what to do about it. Looks only; changes nothing but a cache of prepared data.

A row is `ok`, `warn` (it works, but worse) or `missing` (nothing can be measured without it).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bot import git
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
BUSY = 0.25  # share of a core that others use; from there on numbers suffer
LOOK_SECONDS = 0.5
GPU_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that was looked at. `fix` is empty when there is nothing to do."""

    name: str
    state: str
    found: str
    fix: str = ""


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
        _cores(),
        _corpus(machine, settings),
        *_models(machine, settings),
        *_noise(path),
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


def _disk(machine: Machine, path: Path) -> Iterator[Row]:
    for name, folder in (("disk, here", path), ("disk, cache", machine.cache)):
        there = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(there).free
        found = f"{free / 2**30:.1f} GB free at {there}"
        if not os.access(there, os.W_OK):
            yield Row(name=name, state="missing", found=f"{there} cannot be written", fix="change its rights, or use another")
        elif free < LITTLE_BYTES:
            yield Row(name=name, state="missing" if free < LEAST_BYTES else "warn", found=found, fix="free some space there")
        else:
            yield Row(name=name, state="ok", found=found)


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


def _cores() -> Row:
    """The last allowed core trains the candidates: what else runs there is in every number."""
    allowed = sorted(os.sched_getaffinity(0))
    busy = _busy(allowed)
    shares = ", ".join(f"{core}: {100 * busy[core]:.0f} %" for core in allowed[-8:])
    found = f"{len(allowed)}, busy now: {shares}"
    if len(allowed) == 1:
        return Row(name="cores", state="warn", found=found, fix="the bot and its measurements share it: use two or more")
    if busy[allowed[-1]] > BUSY:
        fix = f"candidates train on core {allowed[-1]}: end what runs there (`top`), or expect noisy numbers"
        return Row(name="cores", state="warn", found=found, fix=fix)
    return Row(name="cores", state="ok", found=found)


def _busy(cores: list[int]) -> dict[int, float]:
    """Share of LOOK_SECONDS in which each core did something."""
    before = _ticks()
    time.sleep(LOOK_SECONDS)
    after = _ticks()
    shares = {}
    for core in cores:
        idle, total = (b - a for a, b in zip(before.get(core, (0, 0)), after.get(core, (0, 1)), strict=True))
        shares[core] = 1 - idle / total if total > 0 else 0.0
    return shares


def _ticks() -> dict[int, tuple[int, int]]:
    """Core -> (idle, all) clock ticks so far: the lines cpu0, cpu1 ... of proc(5) stat; idle and iowait are fields 4 and 5."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdecimal():
            ticks = [int(number) for number in numbers[:8]]
            found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
    return found


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
