"""An event as one JSON line, and back.

    {"v": 1, "prev": "9f3c...", "type": "Merged", "campaign": "1", "at": 1767225600.0, "n": 4, ...}

Each line carries the schema version and the hash of the line before, so that an edit of history shows. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from functools import cache
from typing import Any

from bot.events import Edit, Event
from bot.spending import Spent

VERSION = 1
GENESIS = "0" * 16


class BadLine(ValueError):
    """A line of the log that is damaged, edited, or from a newer version. Says what is wrong with it, without the number."""


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
        if "spent" in record:
            record["spent"] = Spent(**record["spent"])
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
