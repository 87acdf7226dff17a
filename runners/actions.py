"""Measurements on the machines of GitHub Actions: each is one run of a workflow on a runner with a GPU.

A wake-up starts nothing twice and waits for nothing: `start` asks for a workflow run unless there is one of that name, `poll`
knows only what was brought in (`results`) and what GitHub says of the workflow run. What it takes of GitHub is handed in, so
that this folder imports nothing of ours. A result comes through the same door as any other: `from_json`, and before it `door`.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runners import BadResult, Job, Lost, Measurement, Running, from_json

LARGEST = 2_000_000  # bytes of a result: a log tail of 50,000 characters and a hundred numbers stay far below
WORDS = 500  # characters of a reason
ENDED = "completed"


class Fleet(Protocol):
    """What GitHub can be asked about workflow runs that measure."""

    def dispatch(self, run: str) -> None:
        """Ask for a workflow run that measures `run`."""

    def known(self) -> Mapping[str, str]:
        """Run -> queued | in_progress | completed, of the newest workflow runs, whatever became of them."""

    def cancel(self, run: str) -> None:
        """End the workflow run of that name; one that is not there is fine."""


def door(path: Path) -> str | None:
    """The text of a result that came from another machine; None when there is none. Raises BadResult unless it is a regular
    file of a sensible size, and UTF-8."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(about.st_mode):
        raise BadResult("the result is not a regular file")
    if about.st_size > LARGEST:
        raise BadResult(f"the result has {about.st_size} bytes, at most {LARGEST} are taken")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise BadResult("the result is not UTF-8") from None


def to_lost(reason: str) -> str:
    """What a machine leaves in place of a result when it could not measure."""
    return json.dumps({"lost": reason[:WORDS]})


def lost(text: str) -> Lost | None:
    """What `to_lost` wrote; None for anything else."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    if not (isinstance(said, dict) and set(said) == {"lost"} and isinstance(said["lost"], str)):
        return None
    return Lost(reason=f"the GPU machine could not measure: {said['lost'][:WORDS]}")


def _unread(text: str) -> Lost | None:
    """Text that is empty or was cut off is the machine's fault, a full disk for one; JSON of the wrong kind is not."""
    try:
        json.loads(text)
    except ValueError as error:
        return Lost(reason=f"the result on the GPU machine is not JSON ({error}): is a disk full there?")
    return None


@dataclass
class ActionsRunner:
    """A `runners.Runner`. `results` holds the paths of what the jobs before this wake-up left, by run: also for a job that left
    nothing, whose path then does not exist."""

    fleet: Fleet
    results: Mapping[str, Path] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _known: Mapping[str, str] | None = None

    def start(self, job: Job) -> None:
        if job.run in self._asked or job.run in self.results or job.run in self._look():
            return
        self._asked.add(job.run)
        try:
            self.fleet.dispatch(job.run)
        except BaseException:
            self._asked.discard(job.run)
            self._known = None  # it may have been obeyed: look before it is asked for again
            raise

    def poll(self, job: Job) -> Measurement | Running | Lost:
        if job.run in self.results:
            text = door(self.results[job.run])
            if text is None:
                return Lost(reason="the job on the GPU machine left no result: its log says why")
            return lost(text) or _unread(text) or from_json(text, job)
        if self._look().get(job.run) == ENDED:
            return Lost(reason="its workflow run has ended, and nobody brought its result")
        return Running(phase="waiting" if self._look().get(job.run) == "queued" else "training")

    def _look(self) -> Mapping[str, str]:
        if self._known is None:
            self._known = self.fleet.known()
        return self._known

    def cancel(self, run: str) -> None:
        self.fleet.cancel(run)

    def warm(self) -> None:
        """Nothing: the machine is elsewhere."""

    def close(self) -> None:
        """Nothing: runs that are under way go on."""
