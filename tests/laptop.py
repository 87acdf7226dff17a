"""A laptop for tests: real checkouts in temporary folders, the real command line, measurements that are scripted.

As a program, `python -m tests.laptop run 3`, it is `autoresearch` with the scripted runner, so that tests can interrupt, stop
and starve a real process. SECONDS=0.5 lets each measurement take that long; FILL=PATH fills that file until the disk is full
when the fourth measurement begins.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot import git, installed
from bot.__main__ import main, this_machine
from bot.fitness import Clock, Facts, Gpu, Torch
from bot.workspace import Machine
from runners import Job, Running
from runners.scripted import Result, ScriptedRunner, measurement

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """---
corpus: austen
budget: {seconds: 1}
gate: {baseline_runs: 1, prior_sd: 0.01, prior_df: 6, verdict_pairs: 1}
stop: {experiments: 9}
sandbox: none
---
Make it better.
"""
SOURCE = "DEPTH = 2  # layers\nDIM = 128  # width\nMLP_RATIO = 4  # of the MLP\nSOFTCAP = 15  # of the logits\nROPE_BASE = 1000\n"

WELL = Facts(
    gpus=(Gpu(name="NVIDIA H100", driver="570.86", total=81559, used=4),), card=True, clock=Clock(kept=True, error=0.004),
    torch=Torch(version="2.13.0+cu128", cuda="12.8", sees=1), pinned="2.13.0", groups=True, busy={0: 0.5, 1: 0.0}, names=(),
    root=False, member=("runner", "video"),
)  # fmt: skip


def better(job: Job) -> Result:
    """Every version of train.py differs in quality, most are worse than the first, the seed matters little."""
    worth = 2.0 + 0.3 * (len(job.source) % 7) / 7 if job.source != SOURCE else 2.1
    return measurement(job, val_bpb=round(worth + (job.seed % 100) * 1e-5, 6))


def machine(folder: Path, script: Callable[[Job], Result] = better, **others: Any) -> Machine:
    """A machine on which everything is there and nothing takes time; `others` replace its fields."""
    tokens = (f"{k:032x}" for k in itertools.count(1))
    fields: dict[str, Any] = {
        "cache": folder / "cache", "who": "a tester", "command": "autoresearch",
        "runners": {"local": lambda home, cache: ScriptedRunner(script)}, "proposers": installed.PROPOSERS, "now": time.time,
        "sleep": lambda seconds: time.sleep(min(seconds, 0.01)), "token": lambda: next(tokens), "seed": lambda: 5,
        "torch": lambda: None, "sandbox": lambda: None, "prepare": lambda corpus, cache, tell: None,
        "look": lambda: WELL,
    }  # fmt: skip
    return Machine(**fields | others)


def commit(folder: Path, message: str = "a change", **files: str) -> str:
    """Write files (`__` stands for a slash, `_py` and `_md` for the endings) and commit everything; the commit."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    repo = git.Repo(folder)
    repo.ask("add", "-A")
    repo.ask("commit", "-q", "-m", message)
    return repo.head() or ""


def project(folder: Path, *, source: str = SOURCE, program: str = PROGRAM) -> Path:
    """A checkout with one commit, on main, of somebody without a git identity."""
    folder.mkdir(parents=True)
    git.Repo(folder).ask("init", "-q", "--template=", "--initial-branch=main")
    commit(folder, "first", trainer__train_py=source, program_md=program)
    return folder


@dataclass
class Slow:
    """Measurements that take a while, and may fill a disk when the fourth begins."""

    seconds: float
    fill: str = ""
    begun: dict[str, float] = field(default_factory=dict)

    def __call__(self, job: Job) -> Result:
        if job.run not in self.begun:
            self.begun[job.run] = time.monotonic()
            if self.fill and job.run.partition("-")[2].startswith("3."):
                with suppress(OSError), Path(self.fill).open("wb", buffering=0) as file:
                    while file.write(bytes(65536)):
                        pass
        if time.monotonic() - self.begun[job.run] < self.seconds:
            return Running(phase="training", left=1.0)
        return better(job)


def autoresearch(*arguments: str) -> list[str]:
    """The command line of this program."""
    return [sys.executable, "-m", "tests.laptop", *arguments]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | more


def copied(folder: Path, into: Path) -> Path:
    shutil.copytree(folder, into, symlinks=True)
    return into


if __name__ == "__main__":
    real = this_machine()
    script = Slow(float(os.environ.get("SECONDS", "0")), os.environ.get("FILL", ""))
    ours = machine(real.cache, script, sleep=time.sleep, cache=real.cache, interrupts=real.interrupts, server=real.server)
    real.interrupts.install()
    sys.exit(main(sys.argv[1:], ours))
