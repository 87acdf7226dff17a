"""What a training would score that nobody ran: a smooth surface through a landscape, and a runner's answers drawn from it. Pure.

    surface = shipped()
    surface.guess(values).val_bpb                                # the expected number
    ScriptedRunner(partial(surface.play, values_of))             # measurements, with noise from each job's seed

A Gaussian process (Rasmussen and Williams 2006, chapter 2) over the logarithms of the constants. benchmarks/landscape.py finds
its weights, here they are only added up, so that no numerical library is needed.

Limits. It knows the constants of the landscape and nothing else: any other edit of train.py changes nothing here. Far from every
training it falls back to what is usual. It is smoother than the truth, and what fails is guessed from the nearest training that
was run. benchmarks/results/landscape.json says how far it is off.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

from bot.landscape import SHIPPED, BadLandscape, Landscape, Value, read, write
from runners import Job, Measurement, Outcome

FITTED = SHIPPED.with_name("surface.json")
SCHEMA = 1
Point = Mapping[str, Value]


def coordinates(point: Point) -> dict[str, float]:
    """Where a point is, by axis: what doubles or halves moves by one, a switch by one; 0 as "off" is a switch of its own."""
    found: dict[str, float] = {}
    for name, value in sorted(point.items()):
        if name == "WINDOW":
            found[name] = float(short_layers(str(value), int(point.get("DEPTH", 2))))
        elif isinstance(value, str):
            found[f"{name} {value}"] = 1.0
        elif isinstance(value, bool):
            found[name] = float(value)
        elif name.endswith(("MOMENTUM", "BETA1", "BETA2")):
            found[name] = -math.log2(max(1 - value, 1e-6))
        elif name.startswith("WARM") or name.endswith(("DECAY", "FINAL_LR")):
            found[name] = 5.0 * value
        else:
            found[f"{name} off"] = float(not value)
            found[name] = math.log2(value) if value > 0 else 0.0
    return found


def short_layers(pattern: str, depth: int) -> int:
    """How many layers look back half as far; the last one never does."""
    return sum(pattern[i % len(pattern)] == "S" for i in range(depth - 1)) if pattern else 0


@dataclass(frozen=True, kw_only=True)
class Process:
    """mean + sum of weight x similarity to each training; `similarity` is the kernel. Axes by name."""

    mean: float
    scales: Mapping[str, float]  # 1 / how far one must go along an axis until things are different
    main: Mapping[str, float]  # how much an axis does by itself
    joint: float  # how much all of them do together
    weights: Sequence[float]

    def at(self, x: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> float:
        pairs = zip(self.weights, others, strict=True)
        return self.mean + math.fsum(weight * self.similarity(x, other) for weight, other in pairs)

    def similarity(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        together = alone = 0.0
        for axis, scale in self.scales.items():
            square = ((a.get(axis, 0.0) - b.get(axis, 0.0)) * scale) ** 2
            together += square
            alone += self.main[axis] * math.exp(-square / 2)
        return alone + self.joint * math.exp(-together / 2)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a training would bring. `sd` is of one run."""

    outcome: Outcome
    val_bpb: float | None
    sd: float
    scoring_cpu_seconds: float
