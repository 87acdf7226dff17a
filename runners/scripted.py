"""Measurements without training: the number is a function of the code and of the seed.

For tests and benchmarks of everything around a measurement, by the thousand. Each upper-case constant of train.py contributes
by the hash of its line, so that every edit has its own fixed effect; a seed adds noise. Not a model of any real training.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from statistics import NormalDist

from runners import Job, Lost, Measurement, Outcome, Running

NOISE = 0.01  # sd of one run, bits per byte
CRASHES = 12  # one version in so many does not run

Result = Measurement | Running | Lost


def measurement(job: Job, *, val_bpb: float | None = None, outcome: Outcome = Outcome.OK, reason: str = "") -> Measurement:
    """What a judge would write of that job."""
    return Measurement(
        run=job.run, commit=job.commit, seed=job.seed, nonce=job.nonce, outcome=outcome, reason=reason, val_bpb=val_bpb,
        fingerprint="scripted", device="scripted", training_seconds=job.budget_seconds, total_seconds=job.budget_seconds,
    )  # fmt: skip


def quality(source: str) -> float:
    """The true val_bpb of a version of train.py: 2.2 plus the effects of its constants, each within +-0.1."""
    lines = re.findall(r"^[A-Z][A-Z0-9_]* = .*$", source, flags=re.MULTILINE)
    return 2.2 + sum(0.2 * (unit(line) - 0.5) for line in lines) / math.sqrt(max(1, len(lines)))


def landscape(job: Job) -> Measurement:
    """The scripted world: some versions crash, all others score their quality plus noise."""
    if unit(job.source) * CRASHES < 1:
        return measurement(job, outcome=Outcome.CRASH, reason="scripted: this version does not run")
    noise = NormalDist(0.0, NOISE).inv_cdf(min(max(unit(f"{job.seed}"), 1e-9), 1 - 1e-9))
    return measurement(job, val_bpb=round(max(quality(job.source) + noise, 0.1), 6))


def unit(text: str) -> float:
    """A number in [0, 1) that only depends on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


class ScriptedRunner:
    """`script` says what a poll of a begun run finds; it may answer Running or Lost."""

    def __init__(self, script: Callable[[Job], Result] = landscape) -> None:
        self.script = script
        self.begun: dict[str, Job] = {}
        self.cancelled: set[str] = set()

    def start(self, job: Job) -> None:
        """A run of that name that has begun already is left as it is."""
        self.begun.setdefault(job.run, job)

    def poll(self, job: Job) -> Result:
        """Lost when it was cancelled or never begun."""
        if job.run in self.cancelled or job.run not in self.begun:
            return Lost(reason="it was cancelled" if job.run in self.cancelled else "it never began")
        return self.script(job)

    def cancel(self, run: str) -> None:
        self.cancelled.add(run)

    def warm(self) -> None:
        """Nothing takes time here."""

    def close(self) -> None:
        """Nothing is held."""
