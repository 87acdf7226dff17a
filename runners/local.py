"""Measurements on this machine: each is a process of its own (`python -m evaluator.measure`) with a folder of its own.

    HOME/<run>/  job.json   what was asked       pid          locked while the process is at it; its number inside
                 log        what it printed      progress.json, result.json, error.json   see evaluator/measure.py

A measurement goes on when the bot dies, and is found again by its folder. One process is kept warm for the next job; it has
no job yet, so it ends when the bot does. THE sandbox, in which the untrusted part of a measurement runs, is sandbox.py.

Not here: what the process does, and who decides that it is wanted. Two measurements at once share the candidate's CPU and
disturb each other: give each its own set of CPUs (taskset), or run one at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from runners import Job, Lost, Measurement, Running, from_json
from runners.sandbox import Box, Confinement, Limits, Program, SandboxError, available

__all__ = [
    "Box", "Confinement", "Limits", "LocalRunner", "Program", "RunnerError", "SandboxError", "SandboxMissing", "available",
    "leave",
]  # fmt: skip

PROJECT = Path(__file__).resolve().parent.parent
SUPERVISOR = (sys.executable, "-m", "evaluator.measure")
# All that a supervisor inherits: it holds no token. The last two tell it where CUDA is.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
START_SECONDS = 30.0  # from the job being written to a process that is at it
CANCELLED = "cancelled"  # in place of the number of the process: this run shall not begin (again)
STOP_SECONDS = 0.5  # to put its own house in order before it is killed


class RunnerError(Exception):
    """The machine cannot measure, whatever is measured; says what to do."""


class SandboxMissing(RunnerError):
    """A sandbox is required and cannot be had here; says what to do."""


class LocalRunner:
    """A `runners.Runner`. `home` is the folder of runs, `cache` that of prepared data."""

    def __init__(self, home: Path, cache: Path, *, supervisor: tuple[str, ...] = SUPERVISOR) -> None:
        self._home, self._cache = home.resolve(), cache.resolve()
        self._argv = (*supervisor, "--home", str(self._home), "--cache", str(self._cache))
        self._warm: subprocess.Popen[bytes] | None = None
        self._ours: list[subprocess.Popen[bytes]] = []  # to be waited for, lest they stay as zombies

    def start(self, job: Job) -> None:
        """Begin the run, with the warm process if there is one. Raises SandboxMissing, RunnerError."""
        self._reap()
        folder = self._folder(job.run)
        if (folder / "pid").exists():
            return
        if job.sandbox == "required" and (reason := available()):
            raise SandboxMissing(f"{reason}. Or set `sandbox: none` to run candidates without one")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            leave(folder / "job.json", json.dumps(asdict(job)))
            self._hand_over((json.dumps(asdict(job)) + "\n").encode(), folder / "log")
        except OSError as error:
            raise RunnerError(f"cannot start a measurement in {folder}: {error.strerror or error}") from None

    def poll(self, job: Job) -> Measurement | Running | Lost:
        """Where the run stands. Raises BadResult, RunnerError, SandboxMissing."""
        self._reap()
        folder = self._folder(job.run)
        alive = _is_locked(folder / "pid")  # before the result is looked for: it is written first, then the lock goes
        with contextlib.suppress(FileNotFoundError):
            return from_json((folder / "result.json").read_text(), job)
        _raise_once(folder / "error.json")
        if time.time() > job.deadline:
            self.cancel(job.run)
            return Lost(reason="it was not done at its deadline and was killed")
        state = _progress(folder) if alive else _not_alive(folder)
        if isinstance(state, Lost):
            self.cancel(job.run)  # nor may it begin late
        return state

    def cancel(self, run: str) -> None:
        """Kill it with all its children; they are gone, and their CPU or GPU is free, when this returns."""
        path = self._folder(run) / "pid"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as file:
            until = time.monotonic() + 10 * STOP_SECONDS
            while not _locked(file, fcntl.LOCK_EX):
                if time.monotonic() > until:
                    raise RunnerError(f"cannot end the process of {path}: kill it by hand")
                _kill_holder(path)
            if not (path.parent / "result.json").exists():
                file.truncate(0)
                file.write(CANCELLED)
        self._reap()

    def warm(self) -> None:
        """Have a process import torch ahead, on the CPUs that no candidate trains on."""
        self._reap()
        if self._warm is None:
            with contextlib.suppress(OSError):  # a disk that is full now shows when a job comes
                self._home.mkdir(parents=True, exist_ok=True)
                self._warm = self._launch(self._home / "warm.log", "wb")

    def close(self) -> None:
        """End the warm process."""
        if self._warm:
            self._stdin_of(self._warm).close()
            try:
                self._warm.wait(10 * STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._warm.kill()
                self._warm.wait()
            self._warm = None

    def _folder(self, run: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}", run):
            raise ValueError(f"{run!r} cannot be the name of a run: letters, digits, '.', '_' and '-' only")
        return self._home / run

    def _hand_over(self, line: bytes, log: Path) -> None:
        """Give the job to the warm process, or to a new one when that is not there any more."""
        if self._warm:
            process, self._warm = self._warm, None
            self._ours.append(process)
            with contextlib.suppress(BrokenPipeError):
                with self._stdin_of(process) as stdin:
                    stdin.write(line)
                return
        process = self._launch(log, "ab")
        self._ours.append(process)
        with contextlib.suppress(BrokenPipeError), self._stdin_of(process) as stdin:  # it is dead: poll finds why in its log
            stdin.write(line)

    def _launch(self, log: Path, mode: str) -> subprocess.Popen[bytes]:
        """A supervisor in a session of its own, so that it outlives us; it needs nothing of ours but the job."""
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
        with log.open(mode) as output:
            return subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, cwd=PROJECT,
                start_new_session=True,
            )  # fmt: skip

    def _stdin_of(self, process: subprocess.Popen[bytes]) -> Any:
        assert process.stdin is not None
        return process.stdin

    def _reap(self) -> None:
        self._ours = [process for process in self._ours if process.poll() is None]
        if self._warm and self._warm.poll() is not None:
            self._stdin_of(self._warm).close()
            self._warm = None


def _is_locked(path: Path) -> bool:
    """Whether the process that the file names is alive: only it holds the lock, and the kernel drops that with it."""
    try:
        with path.open("rb") as file:
            return not _locked(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _locked(file: IO[Any], kind: int) -> bool:
    """Take the lock if nobody has it; whether that worked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kill_holder(path: Path) -> None:
    """End the process that holds the lock of this file; by pidfd, lest a later process of that number is hit."""
    with contextlib.suppress(OSError, ValueError):
        pidfd = os.pidfd_open(int(path.read_text()))
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if _is_locked(path):
                    signal.pidfd_send_signal(pidfd, number)
                    select.select([pidfd], [], [], STOP_SECONDS)
        finally:
            os.close(pidfd)
    time.sleep(0.01)  # it has the lock, but its number is not in the file yet


def _progress(folder: Path) -> Running:
    try:
        progress = json.loads((folder / "progress.json").read_text())
    except (OSError, ValueError):
        return Running(phase="preparing")
    ends = progress["ends"]
    return Running(phase=progress["phase"], left=None if ends is None else max(0.0, ends - time.time()))


def _not_alive(folder: Path) -> Running | Lost:
    """No process is at it, and there is no result."""
    if (folder / "pid").exists():
        if (folder / "pid").read_text() == CANCELLED:
            return Lost(reason="it was cancelled")
        return Lost(reason=f"its process is gone and left no result: {_tail(folder / 'log')}")
    try:
        age = time.time() - (folder / "job.json").stat().st_mtime
    except FileNotFoundError:
        return Lost(reason="it was never started here")
    if age < START_SECONDS:
        return Running(phase="waiting")
    return Lost(reason=f"its process never began: {_tail(folder / 'log')}")


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        if text := log.read_text(errors="replace").strip():
            return text[-500:]
    return "it printed nothing (killed, or the machine restarted)"


def _raise_once(path: Path) -> None:
    """Raise what the supervisor says of why it could not measure; asked again, the run is simply lost, and may be redone."""
    try:
        error = json.loads(path.read_text())
    except FileNotFoundError:
        return
    path.rename(path.with_name("error-told.json"))
    raise (SandboxMissing if error["kind"] == "sandbox" else RunnerError)(error["message"])


def leave(path: Path, text: str) -> None:
    """The whole file or what was there before, also when the disk is full or the power fails. Raises OSError."""
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
