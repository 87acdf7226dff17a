"""What is installed on this computer: the runners and proposers there are, torch, the sandbox, the program that prepares data.

The registries are literal. The judge is never imported: its data is prepared by `python -m evaluator.prepare`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from bot.propose import Proposer, crossover, mutate, tpe
from runners import Runner
from runners.local import PROJECT, SUPERVISOR, LocalRunner

INSTALL = "the packages that train are not installed ({}): run `pip install -e '.[train]'` in {}, or `make demo`, which does"
NEEDED = ("torch", "numpy", "rustbpe")


def local(home: Path, cache: Path) -> Runner:
    """Measurements on this machine. The last CPU is the candidates': this process and its git leave it, and only what measures
    gets it back (by taskset; without that program everything shares all CPUs)."""
    allowed, taskset = _given(), shutil.which("taskset")
    if len(allowed) < 2 or taskset is None:
        return LocalRunner(home, cache)
    os.sched_setaffinity(0, allowed - {max(allowed)})
    all_of_them = ",".join(map(str, sorted(allowed)))
    return LocalRunner(home, cache, supervisor=(taskset, "--cpu-list", all_of_them, *SUPERVISOR))


@cache
def _given() -> frozenset[int]:
    """The CPUs that this process was given, before any runner of it left one."""
    return frozenset(os.sched_getaffinity(0))


RUNNERS: Mapping[str, Callable[[Path, Path], Runner]] = {"local": local}
PROPOSERS: Mapping[str, Proposer] = {"mutate": mutate, "crossover": crossover, "optuna": tpe}


def torch() -> str | None:
    """None when all that training needs is installed, else what to do. Nothing is imported: torch takes seconds."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return INSTALL.format(", ".join(lacking), PROJECT) if lacking else None


def prepare(corpus: str, cache: Path, tell: Callable[[str, float], None]) -> str | None:
    """Have the corpus prepared, in `cache`; tell(stage, share done). None, or why it cannot be used and what to do."""
    argv = [sys.executable, "-m", "evaluator.prepare", "--corpus", corpus, "--cache", str(cache)]
    said = ""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=PROJECT
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                stage, _, done = line.strip().removesuffix(" %").rpartition(" ")
                if line.endswith(" %\n") and done.isdecimal():
                    tell(stage, int(done) / 100)
                else:
                    said = line.strip() or said
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return None
    reason = said.removeprefix("prepare: ") or f"it ended with exit status {process.returncode} and said nothing"
    return f"the corpus {corpus} cannot be prepared: {reason}"
