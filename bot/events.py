"""What happened: one frozen dataclass per kind of event, and its JSON line.

Everything that the bot knows is a list of these. They are in the past tense, validate themselves on creation, and are never
changed; a new need is a new field with a default or a new class. Each line carries the schema version and the hash of the
line before, so that an edit of history shows.

    {"v": 1, "prev": "9f3c...", "type": "Merged", "campaign": "1", "at": 1767225600.0, "n": 4, ...}

Pure: no clock, no disk.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

VERSION = 1
GENESIS = "0" * 16


class BadLine(ValueError):
    """A line of the log that is damaged, edited, or from a newer version. Says what is wrong with it, without the number."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Replace `old`, which occurs exactly once in train.py, by `new`."""

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in `campaign` at epoch second `at`."""

    campaign: str
    at: float

    kinds: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls) -> None:
        Event.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        if not self.campaign or not math.isfinite(self.at):
            raise ValueError(f"{type(self).__name__} without a campaign or a time")


@dataclass(frozen=True, kw_only=True)
class CampaignStarted(Event):
    """Somebody asked for `experiments` experiments. Text from people and the program are snapshotted here."""

    experiments: int
    issue: int
    title: str
    body: str
    by: str
    program: str  # the whole program.md
    settings: dict[str, Any]  # what the command overrode, by dotted name
    seed: int  # all seeds of the campaign derive from it; private to the bot
    branch: str


@dataclass(frozen=True, kw_only=True)
class BaseSeen(Event):
    """The default branch is at a tree that was never measured; it becomes a candidate that is adopted, not merged."""

    n: int
    sha: str
    guard: str  # hash over everything that a measurement depends on
    source: str  # sha256 of its train.py


@dataclass(frozen=True, kw_only=True)
class TipMoved(Event):
    """Somebody pushed to the default branch, and nothing that a measurement depends on changed."""

    sha: str


@dataclass(frozen=True, kw_only=True)
class Proposed(Event):
    n: int
    parent: int  # the candidate whose code it changes
    title: str
    hypothesis: str
    edits: tuple[Edit, ...]
    tags: tuple[str, ...]
    proposer: str
    source: str  # sha256 of the edited train.py


@dataclass(frozen=True, kw_only=True)
class ProposalRefused(Event):
    """Refused before any GPU time (a repeat, a static fault, no idea): counted beside, not as a candidate."""

    title: str
    reason: str
    exhausted: bool = False  # the proposer has nothing left on this base


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """The branch is pushed and the pull request stands."""

    n: int
    base: str
    head: str
    guard: str
    pull: int


@dataclass(frozen=True, kw_only=True)
class Rebased(Event):
    """The edit was applied to a newer tip: a new commit on the same branch. What was measured before does not count."""

    n: int
    parent: int
    base: str
    head: str
    guard: str
    source: str


@dataclass(frozen=True, kw_only=True)
class MeasureStarted(Event):
    """A run began: the code of `subject`, in order to judge `n`. `k` counts the runs of the campaign; a lost or void run is
    done again with the same k and seed and the next attempt."""

    n: int
    subject: int
    k: int
    attempt: int
    run: str
    seed: int
    nonce: str
    head: str
    deadline: float


@dataclass(frozen=True, kw_only=True)
class Measured(Event):
    """A run ended with a result. `result` is the judge's whole record, checked at the door."""

    n: int
    run: str
    outcome: str
    val_bpb: float | None
    reason: str
    result: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.outcome == "ok") != (self.val_bpb is not None):
            raise ValueError(f"outcome {self.outcome} with val_bpb {self.val_bpb}")
        if self.val_bpb is not None and not (math.isfinite(self.val_bpb) and self.val_bpb > 0):
            raise ValueError(f"val_bpb {self.val_bpb}")


@dataclass(frozen=True, kw_only=True)
class RunLost(Event):
    """A run ended without a number and through no fault of the candidate: lost (its process died) or void (the judge saw from
    outside that the machine was too busy). It is done again with the same seed."""

    n: int
    run: str
    reason: str
    void: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckPosted(Event):
    n: int
    head: str
    conclusion: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Adopted(Event):
    """A base has its baseline runs: candidates are compared with it from now on."""

    n: int


@dataclass(frozen=True, kw_only=True)
class Merged(Event):
    n: int
    sha: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Closed(Event):
    """`why` is worse | crash | oom | nan | timeout | invalid | stale | vetoed | stopped; `reason` is in words and numbers."""

    n: int
    why: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Vetoed(Event):
    """A person does not want this candidate (closed its pull request, or said so)."""

    n: int
    by: str


@dataclass(frozen=True, kw_only=True)
class StopRequested(Event):
    by: str


@dataclass(frozen=True, kw_only=True)
class Paused(Event):
    reason: str


@dataclass(frozen=True, kw_only=True)
class Resumed(Event):
    by: str


@dataclass(frozen=True, kw_only=True)
class Said(Event):
    """The status comment of the campaign reads as of `about` (how many candidates were settled)."""

    about: int


@dataclass(frozen=True, kw_only=True)
class CampaignEnded(Event):
    """`why` is done | target | hours | patience | crashes | refusals | exhausted | stopped | base."""

    why: str
    reason: str


def to_line(event: Event, prev: str) -> str:
    """One JSON line, without the line end. `prev` is `digest` of the line before, or GENESIS."""
    record = {"v": VERSION, "prev": prev, "type": type(event).__name__} | asdict(event)
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def digest(line: str) -> str:
    """The hash of a line that the next line carries (64 bits of SHA-256: against accidents and edits, not forgers)."""
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def from_line(line: str, prev: str) -> Event:
    """The event of a line. Raises BadLine."""
    try:
        record = json.loads(line)
    except ValueError:
        raise BadLine("it is not JSON") from None
    if not isinstance(record, dict):
        raise BadLine("it is not a JSON object")
    if record.pop("v", None) != VERSION:
        raise BadLine(f"its schema version is not {VERSION}: it was written by another version of this program")
    if record.pop("prev", None) != prev:
        raise BadLine("it does not follow the line before: a line was changed, added or taken out by hand")
    kind = Event.kinds.get(str(record.pop("type", "")))
    if kind is None:
        raise BadLine("its type is unknown: it was written by a newer version of this program")
    return _build(kind, record)


@cache
def _names(kind: str) -> frozenset[str]:
    return frozenset(f.name for f in fields(Event.kinds[kind]))


def _build(kind: type[Event], record: dict[str, Any]) -> Event:
    if unknown := sorted(record.keys() - _names(kind.__name__)):
        raise BadLine(f"{kind.__name__} has no field {', '.join(unknown)}")
    try:
        if "edits" in record:
            record["edits"] = tuple(Edit(**edit) for edit in record["edits"])
        if "tags" in record:
            record["tags"] = tuple(record["tags"])
        return kind(**record)
    except (TypeError, ValueError) as error:
        raise BadLine(f"{kind.__name__}: {error}") from None


def chain(events: Iterable[Event], prev: str = GENESIS) -> list[str]:
    """The lines of several events in a row, each carrying the hash of the one before."""
    lines = []
    for event in events:
        line = to_line(event, prev)
        lines.append(line)
        prev = digest(line)
    return lines
