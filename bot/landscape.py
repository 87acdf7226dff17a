"""A landscape: real trainings of one train.py, one row each, read from a file; campaigns are played on it without training.

A file is JSON lines: a head (HEAD says what is in it), then one row a training. A row holds what differs from the base among the
upper-case constants of train.py, the seed, and what the judge saw. bot/data/landscape.jsonl is the one that is shipped;
benchmarks/landscape.py makes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runners import Outcome

SHIPPED = Path(__file__).resolve().parent / "data" / "landscape.jsonl"
SCHEMA = 1
# What a head says beside `schema`: where it comes from, and what all rows share. Numbers compare only if `device` is equal.
HEAD: Mapping[str, type] = {
    "command": str, "commit": str, "machine": str, "date": str, "device": str, "corpus": str, "train": str,
    "budget_seconds": float, "base": dict,
}  # fmt: skip

Value = bool | int | float | str


class BadLandscape(ValueError):
    """The file is not a landscape; says in which line, and what is wrong there."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One training. `moved` is what differs from the base; `why` the part of the design it belongs to. Seconds, MiB, tokens."""

    why: str
    seed: int
    moved: Mapping[str, Value]
    outcome: Outcome
    val_bpb: float | None = None  # there if, and only if, the outcome is ok
    reason: str = ""
    steps: int = 0
    tokens_per_second: float = 0.0
    params: int = 0
    peak_memory_mb: float = 0.0
    training_seconds: float = 0.0
    cpu_seconds: float = 0.0
    scoring_cpu_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """All that a file says."""

    head: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def base(self) -> Mapping[str, Value]:
        found: Mapping[str, Value] = self.head["base"]
        return found

    def point(self, row: Row) -> dict[str, Value]:
        """All constants of that training."""
        return dict(self.base) | dict(row.moved)


def read(text: str) -> Landscape:
    """The landscape of a whole file. Raises BadLandscape."""
    first, *rest = text.split("\n") if text else [""]
    if rest and rest[-1] == "":
        rest.pop()
    elif rest or first:
        raise BadLandscape(f"line {len(rest) + 1} has no end: the file was cut off there; take that line out")
    head = _head(_object(first, 1))
    return Landscape(head=head, rows=tuple(_row(_object(line, n), n, head["base"]) for n, line in enumerate(rest, 2)))


def write(found: Landscape) -> str:
    """The text of its file; read(write(x)) is x."""
    lines = [json.dumps({"schema": SCHEMA, **found.head}, allow_nan=False)]
    return "".join(f"{line}\n" for line in lines + [_line(row) for row in found.rows])


def _line(row: Row) -> str:
    there = {key: value for key, value in asdict(row).items() if value not in (None, "")}
    return json.dumps(there, allow_nan=False, separators=(",", ":"))


def _object(line: str, n: int) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_constant=_no_constant)
    except ValueError as error:
        raise BadLandscape(f"line {n} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadLandscape(f"line {n} is not a JSON object")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _head(raw: dict[str, Any]) -> dict[str, Any]:
    if raw.pop("schema", None) != SCHEMA:
        raise BadLandscape(f"line 1 is not the head of a landscape of schema {SCHEMA}")
    for name, kind in HEAD.items():
        if not _is(raw.get(name), kind):
            raise BadLandscape(f"line 1: {name} is {raw.get(name)!r}, not {kind.__name__}")
    if unknown := sorted(set(raw) - set(HEAD)):
        raise BadLandscape(f"line 1 has unknown fields: {', '.join(unknown)}")
    _check_values(raw["base"], 1, "base")
    return raw


KINDS: Mapping[str, type] = {
    "why": str, "seed": int, "moved": dict, "outcome": str, "val_bpb": float, "reason": str, "steps": int, "params": int,
    "tokens_per_second": float, "peak_memory_mb": float, "training_seconds": float, "cpu_seconds": float,
    "scoring_cpu_seconds": float,
}  # fmt: skip
NEEDED = ("why", "seed", "moved", "outcome")


def _row(raw: dict[str, Any], n: int, base: Mapping[str, Value]) -> Row:
    if unknown := sorted(set(raw) - set(KINDS)):
        raise BadLandscape(f"line {n} has unknown fields: {', '.join(unknown)}")
    if lacking := [name for name in NEEDED if name not in raw]:
        raise BadLandscape(f"line {n} lacks {', '.join(lacking)}")
    for name, value in raw.items():
        if not _is(value, KINDS[name]):
            raise BadLandscape(f"line {n}: {name} is {value!r}, not {KINDS[name].__name__}")
    _check_values(raw["moved"], n, "moved")
    if strange := sorted(set(raw["moved"]) - set(base)):
        raise BadLandscape(f"line {n}: the base has no {', '.join(strange)}")
    return _sound(raw, n)


def _sound(raw: dict[str, Any], n: int) -> Row:
    """A void run is none, and a number goes with ok alone."""
    if raw["outcome"] not in set(Outcome) - {Outcome.VOID}:
        raise BadLandscape(f"line {n}: outcome {raw['outcome']!r} is none of a finished training")
    row = Row(**raw | {"outcome": Outcome(raw["outcome"])})
    if (row.outcome is Outcome.OK) != (row.val_bpb is not None):
        raise BadLandscape(f"line {n}: outcome {row.outcome} with val_bpb {row.val_bpb}")
    if row.val_bpb is not None and not 0 < row.val_bpb < 100:
        raise BadLandscape(f"line {n}: val_bpb {row.val_bpb} is no possible number of bits per byte")
    return row


def _check_values(values: dict[str, Any], n: int, name: str) -> None:
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str):
            raise BadLandscape(f"line {n}: {name} {key} is {value!r}, not a number, a switch or a text")


def _is(value: object, kind: type) -> bool:
    """JSON has one kind of number; a switch is none."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return False
    return isinstance(value, (int, float) if kind is float else kind)
