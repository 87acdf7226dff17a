"""Which trainings a landscape is made of: the design, as a pure function of what was measured so far. Not a benchmark itself.

Every twentieth training is the plain base with another seed: noise, and drift over the hours. Between them come, in this order,

    grid     each constant alone, over the values of LEVELS
    edges    what should fail or nearly so: a landscape without cliffs teaches a proposer nothing
    pairs    2 to 6 constants at once, drawn at random: how far effects add up
    spread   a Latin hypercube over all LEVELS (McKay et al. 1979)
    climb    one to three constants away from one of the best so far, by a step or two each: dense where proposers end up. The
             best of those that are at most NEAR constants from the base, as far as 30 candidates come
    repeats  five fresh seeds for points from the best to the poor: whether noise is the same everywhere
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bot.landscape import Row, Value
from bot.propose.mutate import holds

Point = dict[str, Value]  # what differs from the base

SEED = 5  # of the design; trainings are seeded by their place in the file
EVERY = 20
BEST, NEAR, REPEATS = 10, 6, 5
QUANTILES = (0.0, 0.02, 0.1, 0.3, 0.6)

# In the order of their size, where they have one. Two or three moves of the offline proposers in either direction lie inside.
LEVELS: Mapping[str, tuple[Value, ...]] = {
    "DEPTH": (1, 2, 3, 4, 6),
    "DIM": (16, 32, 48, 64, 96, 128, 160, 192, 256),
    "HEAD_DIM": (8, 16, 32, 64, 128),
    "MLP_RATIO": (1, 2, 3, 4, 5, 8),
    "ACTIVATION": ("relu2", "gelu"),
    "WINDOW": ("SSSL", "L"),
    "ROPE_BASE": (2_500, 5_000, 10_000, 20_000, 40_000),
    "SOFTCAP": (0, 10, 15, 20, 30),
    "VALUE_EMBEDDINGS": (False, True),
    "BIGRAM_BUCKETS": (0, 1024, 2048, 4096, 8192, 16384, 65536),
    "X0_LAMBDA_INIT": (0.025, 0.05, 0.1, 0.2, 0.4),
    "SEQ_LEN": (16, 32, 64, 128, 256, 512),
    "BATCH": (2, 4, 8, 16, 32, 64),
    "MATRIX_OPTIMIZER": ("muon", "adamw"),
    "MATRIX_LR": (0.01, 0.02, 0.028, 0.04, 0.056, 0.08, 0.16),
    "EMBEDDING_LR": (0.15, 0.3, 0.42, 0.6, 0.84, 1.2, 2.4),
    "UNEMBEDDING_LR": (0.001, 0.002, 0.0028, 0.004, 0.0056, 0.008, 0.016, 0.032),
    "SCALAR_LR": (0.125, 0.25, 0.5, 1.0, 2.0),
    "WEIGHT_DECAY": (0.0, 0.1, 0.2, 0.4, 0.8),
    "ADAM_BETA1": (0.6, 0.8, 0.9, 0.95),
    "ADAM_BETA2": (0.8, 0.9, 0.95, 0.975, 0.99),
    "MUON_MOMENTUM": (0.8, 0.9, 0.95, 0.975),
    "MUON_MOMENTUM_STEPS": (75, 150, 300, 600),
    "NS_STEPS": (1, 2, 3, 4, 5, 6, 7),
    "WARMUP": (0.0, 0.05, 0.1, 0.2, 0.4),
    "WARMDOWN": (0.0, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0),
    "FINAL_LR": (0.0, 0.05, 0.1, 0.2, 0.4),
}
KINDS = ("ACTIVATION", "WINDOW", "VALUE_EMBEDDINGS", "MATRIX_OPTIMIZER")  # without an order
EDGES: tuple[Point, ...] = (
    {"DIM": 80, "HEAD_DIM": 24},  # three heads do not divide it
    {"DIM": 512, "HEAD_DIM": 128},
    {"DEPTH": 12},
    {"DIM": 512, "DEPTH": 8, "BATCH": 32},
    {"BATCH": 256},
    {"BATCH": 2048},
    {"SEQ_LEN": 2048, "BATCH": 4},
    {"HEAD_DIM": 8, "DIM": 8},
    {"MATRIX_LR": 2.0},
    {"EMBEDDING_LR": 60.0},
    {"UNEMBEDDING_LR": 1.0, "SOFTCAP": 0},
    {"BIGRAM_BUCKETS": 1_048_576},
)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A training that is wanted."""

    why: str
    moved: Point


def following(rows: Sequence[Row], n: int, base: Mapping[str, Value]) -> Ask | None:
    """What to train after these rows, of `n` in all; None when they are complete. The same rows give the same answer."""
    if len(rows) >= n:
        return None
    if len(rows) % EVERY == 0:
        return Ask(why="base", moved={})
    done = Counter(row.why for row in rows)
    why = next((why for why, want in sizes(n, base).items() if done[why] < want), "climb")
    return Ask(why=why, moved=PARTS[why](done[why], rows, base, n))


def sizes(n: int, base: Mapping[str, Value]) -> dict[str, int]:
    """How many of each part, the base left out. Small designs stop early."""
    fixed = {"grid": len(grid(tuple(base.items()))), "edges": len(EDGES), "pairs": n // 7, "spread": n // 15}
    repeats = REPEATS * len(QUANTILES)
    climb = n - (n + EVERY - 1) // EVERY - sum(fixed.values()) - repeats
    return fixed | {"climb": max(0, climb), "repeats": repeats}


@cache
def grid(base: tuple[tuple[str, Value], ...]) -> tuple[Point, ...]:
    """Each level of each constant alone, shuffled, so that drift is not mistaken for the effect of a constant."""
    plain = dict(base)
    points: list[Point] = [{name: v} for name, levels in LEVELS.items() for v in levels if differs(v, plain[name])]
    random.Random(SEED).shuffle(points)
    return tuple(mended(point, plain) for point in points)


def differs(a: Value, b: Value) -> bool:
    return a != b or isinstance(a, bool) is not isinstance(b, bool)


def mended(moved: Point, base: Mapping[str, Value]) -> Point:
    """The nearest point that keeps what the offline proposers keep: heads divide the width, the schedule fits the budget."""
    point = dict(base) | moved
    if not holds(point, {"DIM"}):
        heads = [int(h) for h in LEVELS["HEAD_DIM"] if int(point["DIM"]) % int(h) == 0]
        point["HEAD_DIM"] = max([h for h in heads if h <= int(point["HEAD_DIM"])] or heads)
    if not holds(point, {"WARMUP"}):
        point["WARMUP"] = round(1 - float(point["WARMDOWN"]), 6)
    return {name: value for name, value in point.items() if differs(value, base[name])}


def _grid(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    return grid(tuple(base.items()))[k]


def _edges(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    return EDGES[k]


def _pairs(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    luck = random.Random(f"{SEED} pairs {k}")
    names = luck.sample(list(LEVELS), luck.choice((2, 2, 3, 4, 6)))
    return mended({name: luck.choice([v for v in LEVELS[name] if differs(v, base[name])]) for name in names}, base)


def _spread(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    """The k-th of a Latin hypercube: over all of them each constant visits its levels evenly."""
    of = max(1, sizes(n, base)["spread"])
    moved: Point = {}
    for name, levels in LEVELS.items():
        order = list(range(of))
        random.Random(f"{SEED} spread {name}").shuffle(order)
        moved[name] = levels[order[k] * len(levels) // of]
    return mended(moved, base)


def _climb(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    """New: no row has it. Its parent is one of the best, which single noisy runs name well enough."""
    luck = random.Random(f"{SEED} climb {len(rows)}")
    near = [row for row in scored(rows) if len(row.moved) <= NEAR]
    best = [row.moved for row in sorted(near, key=lambda row: row.val_bpb or 0.0)[:BEST]] or [{}]
    seen = [dict(row.moved) for row in rows]
    while True:
        point = dict(base) | dict(luck.choice(best))
        for name in luck.sample(list(LEVELS), luck.choice((1, 1, 2, 3))):
            point[name] = stepped(name, point[name], luck)
        moved = mended({name: value for name, value in point.items() if differs(value, base[name])}, base)
        if moved not in seen:
            return moved


def stepped(name: str, value: Value, luck: random.Random) -> Value:
    """Another level, at most two steps away."""
    levels = LEVELS[name]
    at = min(range(len(levels)), key=lambda i: abs(float(levels[i]) - float(value))) if name not in KINDS else levels.index(value)
    reach = range(len(levels)) if name in KINDS else range(max(0, at - 2), min(len(levels), at + 3))
    return levels[luck.choice([i for i in reach if i != at])]


def scored(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.val_bpb is not None]


def _repeats(k: int, rows: Sequence[Row], base: Mapping[str, Value], n: int) -> Point:
    first = sorted((row for row in scored(rows) if row.why not in ("base", "repeats")), key=lambda row: row.val_bpb or 0.0)
    return dict(first[int(QUANTILES[k // REPEATS] * (len(first) - 1))].moved) if first else {}


Part = Callable[[int, Sequence[Row], Mapping[str, Value], int], Point]
PARTS: Mapping[str, Part] = {
    "grid": _grid, "edges": _edges, "pairs": _pairs, "spread": _spread, "climb": _climb, "repeats": _repeats,
}  # fmt: skip
