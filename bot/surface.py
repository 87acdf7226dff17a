"""What a training would score that nobody ran: a smooth surface through a landscape, and a runner's answers drawn from it.

    surface = shipped()
    surface.guess(values).val_bpb                                # the expected number
    ScriptedRunner(partial(surface.play, values_of))             # measurements, with noise from each job's seed

A Gaussian process (Rasmussen and Williams 2006, chapter 2) over the logarithms of the constants. benchmarks/landscape.py finds
its weights, here they are only added up, so that no numerical library is needed.

Limits. It knows the constants of the landscape and nothing else: any other edit of train.py changes nothing here. It is smoother
than the truth, and worst where many constants differ at once from everything that was run: there it falls back to what is usual.
Noise is the same everywhere (as measured). What fails is guessed from the nearest training, of which few failed: crashes are
rarer here than they may be elsewhere. benchmarks/results/landscape.json says how far it is off.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

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


def apart(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """How far two points are from each other, squared."""
    return math.fsum((a.get(axis, 0.0) - b.get(axis, 0.0)) ** 2 for axis in a.keys() | b.keys())


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Of scores, so that a tenth of a bit among the good counts as much as a whole one among the bad: log(score - floor), and
    what is worse than `worst` is no worse than that."""

    floor: float
    worst: float

    def of(self, score: float) -> float:
        return math.log(min(score, self.worst) - self.floor)

    def back(self, level: float) -> float:
        return min(math.exp(level) + self.floor, self.worst)


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
    """What a training would bring: its number without noise, the standard deviation of one run, and the compute of scoring it."""

    outcome: Outcome
    val_bpb: float | None
    sigma: float
    scoring_cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A landscape that answers for every point. `score` (on its `scale`) and `cost` (log2 of seconds) go through what worked."""

    landscape: Landscape
    digest: str  # of the landscape's text
    scale: Scale
    score: Process
    cost: Process
    sigma: float  # of one run, pooled over all repeats
    known: dict[tuple[tuple[str, Value], ...], Guess] = field(default_factory=dict)

    @property
    def budget_seconds(self) -> float:
        return float(self.landscape.head["budget_seconds"])

    @cached_property
    def _worked(self) -> list[dict[str, float]]:
        return [coordinates(self.landscape.point(row)) for row in self.landscape.rows if row.outcome is Outcome.OK]

    @cached_property
    def _all(self) -> list[tuple[dict[str, float], Outcome]]:
        return [(coordinates(self.landscape.point(row)), row.outcome) for row in self.landscape.rows]

    def guess(self, values: Point) -> Guess:
        """For these constants; those that are not given are the base's, those that the landscape does not know do nothing."""
        point = {name: values.get(name, value) for name, value in self.landscape.base.items()}
        key = tuple(sorted(point.items()))
        if key not in self.known:
            self.known[key] = self._guess(coordinates(point))
        return self.known[key]

    def _guess(self, x: Mapping[str, float]) -> Guess:
        outcome = min(self._all, key=lambda other: apart(x, other[0]))[1]
        cost = 2 ** self.cost.at(x, self._worked)
        score = self.scale.back(self.score.at(x, self._worked)) if outcome is Outcome.OK else None
        return Guess(outcome=outcome, val_bpb=score, sigma=self.sigma, scoring_cpu_seconds=cost)

    def play(self, values_of: Callable[[str], Point], job: Job) -> Measurement:
        """What a judge would write of that job: the guess and the job's own luck. Dear scoring is cut off, as there."""
        guess = self.guess(values_of(job.source))
        dear = 0 < job.scoring_cap_seconds < guess.scoring_cpu_seconds
        outcome = Outcome.TIMEOUT if dear else guess.outcome
        why = "scoring took more compute than is allowed" if dear else "as the nearest training that was run"
        luck = NormalDist(0.0, guess.sigma).inv_cdf(_unit(f"{job.seed} {job.source}"))
        score = round(guess.val_bpb + luck, 6) if guess.val_bpb is not None and not dear else None
        return Measurement(
            run=job.run, commit=job.commit, seed=job.seed, nonce=job.nonce, outcome=outcome, val_bpb=score,
            reason="" if outcome is Outcome.OK else why,
            fingerprint=f"landscape {self.digest[:12]}", device="landscape", training_seconds=job.budget_seconds,
            scoring_cpu_seconds=guess.scoring_cpu_seconds,
        )  # fmt: skip


def _unit(text: str) -> float:
    """Strictly between 0 and 1, by the text alone."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) + 0.5) / 2**48


def load(landscape: Landscape, fitted: str) -> Surface:
    """The surface of a landscape, from the text that benchmarks/landscape.py made of it. Raises BadLandscape."""
    try:
        raw = json.loads(fitted)
        score, cost = (Process(**raw[name]) for name in ("score", "cost"))
        made = Surface(
            landscape=landscape, digest=digest_of(landscape), scale=Scale(**raw["scale"]), score=score, cost=cost,
            sigma=float(raw["sigma"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise BadLandscape(f"the surface cannot be read ({error!r}): make it again with benchmarks/landscape.py") from None
    worked = sum(row.outcome is Outcome.OK for row in landscape.rows)
    if (raw.get("schema"), raw.get("landscape")) != (SCHEMA, made.digest) or {len(score.weights), len(cost.weights)} != {worked}:
        raise BadLandscape("the surface is not of this landscape: make it again with benchmarks/landscape.py")
    return made


def digest_of(landscape: Landscape) -> str:
    """Of its base and rows: where and when they were made does not matter."""
    base, rows = json.dumps(dict(landscape.base), sort_keys=True), write(landscape).partition("\n")[2]
    return hashlib.sha256(f"{base}\n{rows}".encode()).hexdigest()


def shipped() -> Surface:
    """The one in this repository. Raises BadLandscape, OSError."""
    return load(read(SHIPPED.read_text("utf-8")), FITTED.read_text("utf-8"))
