"""What every event has, and the edit that several of them carry. The kinds are in events.py.

Pure: no clock, no disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar


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
