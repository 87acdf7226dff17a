"""Where a measurement runs: the contract between those who want a number and the machine that makes it.

A `Runner` takes a `Job` (what to measure) and yields, some time later, a `Measurement` (what the judge saw). A measurement
is started and polled, never waited for. The modules of this folder are the implementations:

    local.py     this machine; also THE sandbox
    scripted.py  no training at all: a number that is a function of the code and the seed (tests, benchmarks)

This folder imports nothing else of the project.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Protocol

METRIC = "val_bpb"
UNIT = "bits per byte"
DIRECTION = "lower"
SCHEMA = 1


class Outcome(StrEnum):
    """How one run (one seed) ended. Only a run can be void; a candidate has a stage instead."""

    OK = "ok"
    CRASH = "crash"
    OOM = "oom"
    NAN = "nan"
    TIMEOUT = "timeout"
    INVALID = "invalid"
    VOID = "void"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run that is wanted: one version of train.py, one seed.

    `run` names it once and for all (safe as a file name); `nonce` is a secret that the result must carry back.
    Times are in seconds; `deadline` is the epoch second after which the run is dead, whatever it says.
    `code` and `incumbent` name what is measured and what it is compared with: equal names, equal code, whatever the commit.
    """

    run: str
    commit: str
    source: str
    seed: int
    nonce: str
    budget_seconds: float
    startup_seconds: float
    deadline: float
    scoring_seconds: float = 300.0  # wall clock, for loading, answering and being audited together
    corpus: str = "austen"  # "austen", "climbmix" or a folder of text or parquet
    device: str = "auto"  # "cpu", "cuda" or "auto"
    sandbox: str = "required"  # "required", "if-available" (the demo) or "none"
    vault: bool = False  # also score the private split
    scoring_cap_seconds: float = 0.0  # the most `scoring_cpu_seconds` may be; 0: only `scoring_seconds` holds
    code: str = ""  # "": nothing of it is remembered
    incumbent: str = ""  # "": there is none, as for the base
    incumbent_bpb: float = 0.0  # its mean so far; 0: there is none, and no jump is impossible


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What the judge saw of one run. `val_bpb` is there if, and only if, the outcome is ok."""

    run: str
    commit: str
    seed: int
    nonce: str
    outcome: Outcome
    reason: str = ""  # words for people when the outcome is not ok
    val_bpb: float | None = None
    vault_bpb: float | None = None
    fingerprint: str = ""  # device, driver, torch, corpus, budget: numbers compare only when it is equal
    device: str = ""
    sandboxed: bool = False
    audit: str = ""  # what was compared, in words
    training_seconds: float = 0.0  # supervisor's wall clock
    cpu_seconds: float = 0.0
    startup_seconds: float = 0.0
    scoring_seconds: float = 0.0
    scoring_cpu_seconds: float = 0.0  # of the scored process, model building included, seen from outside; with a GPU wall clock
    total_seconds: float = 0.0
    overhead_seconds: float = 0.0  # total less training and scoring
    steps: int = 0
    tokens: int = 0
    tokens_per_second: float = 0.0  # of those that it says it trained on
    params: int = 0
    depth: int = 0
    mfu_percent: float | None = None
    peak_memory_mb: float = 0.0
    peak_vram_mb: float = 0.0
    log_tail: str = ""
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Running:
    """Still at it. `phase` is preparing | waiting | building | training | scoring; `left` is seconds, if known."""

    phase: str
    left: float | None = None


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The run ended without a result (its process died, the machine restarted); do it again with the same seed."""

    reason: str


class BadResult(Exception):
    """A result that is not the one asked for, or not one at all. Fail closed: it is never a number."""


class Runner(Protocol):
    """Start and poll. Each verb is an ensure: doing it again is free."""

    def start(self, job: Job) -> None:
        """Begin the run; nothing happens when a run of that name has begun or ended already."""

    def poll(self, job: Job) -> Measurement | Running | Lost:
        """Where it stands. Raises BadResult when there is a result and it is not this job's."""

    def cancel(self, run: str) -> None:
        """Kill it with all its children; nothing happens when it is not there."""

    def warm(self) -> None:
        """Use idle time to get the next run ready; may do nothing."""

    def close(self) -> None:
        """Give back what `warm` holds. Runs that are under way go on."""


def to_json(measurement: Measurement) -> str:
    """The one JSON document that a judge writes."""
    head = {"schema": SCHEMA, "metric": METRIC, "unit": UNIT, "direction": DIRECTION}
    return json.dumps(head | asdict(measurement), allow_nan=False, sort_keys=True)


def from_json(text: str, job: Job) -> Measurement:
    """Check every field of a result once, here at the door. Raises BadResult with what is wrong."""
    try:
        raw = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise BadResult(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise BadResult("not a JSON object")
    wanted = {"schema": SCHEMA, "metric": METRIC, "unit": UNIT, "direction": DIRECTION}
    for key, value in wanted.items():
        if raw.pop(key, None) != value:
            raise BadResult(f"{key} is not {value!r}")
    measurement = _typed(raw)
    for key in ("run", "commit", "seed", "nonce"):
        if getattr(measurement, key) != getattr(job, key):
            raise BadResult(f"{key} is not the one asked for")
    _check_number(measurement)
    return measurement


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "Outcome": (str,),
    "dict[str, str]": (dict,),
}


def _typed(raw: dict[str, Any]) -> Measurement:
    known = {f.name: str(f.type) for f in fields(Measurement)}
    if unknown := sorted(set(raw) - set(known)):
        raise BadResult(f"unknown fields: {', '.join(unknown)}")
    for name, value in raw.items():
        kinds = _KINDS[known[name]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise BadResult(f"{name} is {type(value).__name__}, not {known[name]}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadResult(f"{name} is not finite")
    try:
        return Measurement(**raw | {"outcome": Outcome(raw.get("outcome", ""))})
    except (TypeError, ValueError) as error:
        raise BadResult(str(error)) from None


def _check_number(m: Measurement) -> None:
    """A crash has no number at all; a number is finite and positive (cases A3, A4, A14)."""
    if (m.outcome is Outcome.OK) != (m.val_bpb is not None):
        raise BadResult(f"outcome {m.outcome} with val_bpb {m.val_bpb}")
    for name in ("val_bpb", "vault_bpb"):
        value = getattr(m, name)
        if value is not None and not (math.isfinite(value) and 0.0 < value < 100.0):
            raise BadResult(f"{name} {value!r} is not a possible number of bits per byte")
