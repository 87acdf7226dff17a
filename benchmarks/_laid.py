"""What a landscape says: how noisy it is, the surface through it, and how far that is off. Not a benchmark itself."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from _points import NEAR, PARTS

from bot.landscape import Landscape, Row
from bot.surface import SCHEMA, Scale, coordinates, digest_of

Record = dict[str, Any]


def laid(found: Landscape) -> tuple[Record, Record]:
    """(surface.json as an object, how far it is off). Each point is left out in turn, with all its repeats."""
    from _fit import Fit, fit

    def kept(each: Fit) -> Record:
        return {name: getattr(each, name) for name in ("mean", "scales", "main", "joint", "weights")}

    worked = [row for row in found.rows if row.val_bpb is not None]
    points, groups = [coordinates(found.point(row)) for row in worked], [key(row) for row in worked]
    scores, scale = [row.val_bpb or 0.0 for row in worked], scale_of(found)
    score = fit(points, [scale.of(value) for value in scores], groups)
    costs = [math.log2(row.scoring_cpu_seconds) for row in worked]
    cost = fit(points, costs, groups)
    made = {"schema": SCHEMA, "landscape": digest_of(found), "sigma": pooled(found)[0], "scale": asdict(scale)}
    guesses = [scale.back(level) for level in score.left_out]
    off = [(row, guess, min(value, scale.worst)) for row, guess, value in zip(worked, guesses, scores, strict=True)]
    return made | {"score": kept(score), "cost": kept(cost)}, {
        "all": missed(off),
        "near": missed([x for x in off if len(x[0].moved) <= NEAR]),
        **{why: missed([x for x in off if x[0].why == why]) for why in PARTS},
        "cost_factor": 2 ** rms([guess - seen for guess, seen in zip(cost.left_out, costs, strict=True)]),
    }


Off = tuple[Row, float, float]  # training, prediction when it was left out, score


def missed(off: Sequence[Off]) -> Record:
    """Errors in bits per byte, the standard deviation of the scores beside them, and the agreement of the two orders."""
    errors = [guess - score for _, guess, score in off]
    guesses, scores = [guess for _, guess, _ in off], [score for _, _, score in off]
    return {
        "n": len(off), "rms": rms(errors), "median": statistics.median(map(abs, errors)), "spread": statistics.pstdev(scores),
        "rank_correlation": statistics.correlation(ranks(guesses), ranks(scores)),
    }  # fmt: skip


def ranks(values: Sequence[float]) -> list[int]:
    order = sorted(values)
    return [order.index(value) for value in values]


def scale_of(found: Landscape) -> Scale:
    """Half the way from base to best below the best, and one and a half times that way above the base."""
    base = statistics.fmean(repeats(found)["{}"])
    best = min(row.val_bpb for row in found.rows if row.val_bpb is not None)
    return Scale(floor=round(best - (base - best) / 2, 3), worst=round(base + 1.5 * (base - best), 3))


def rms(errors: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(error * error for error in errors))


def key(row: Row) -> str:
    """Equal for repeats of one point."""
    return json.dumps(dict(row.moved), sort_keys=True)


def told(scores: Sequence[float]) -> Record:
    return {"mean": statistics.fmean(scores), "sigma": statistics.stdev(scores), "n": len(scores)}


def repeats(found: Landscape) -> dict[str, list[float]]:
    """The scores of each point that was trained more than once."""
    scores: dict[str, list[float]] = {}
    for row in found.rows:
        if row.val_bpb is not None:
            scores.setdefault(key(row), []).append(row.val_bpb)
    return {point: mine for point, mine in scores.items() if len(mine) > 1}


def pooled(found: Landscape) -> tuple[float, int]:
    """Standard deviation of one run over all repeats, and its degrees of freedom."""
    groups = repeats(found).values()
    df = sum(len(mine) - 1 for mine in groups)
    return math.sqrt(sum(statistics.variance(mine) * (len(mine) - 1) for mine in groups) / df), df


def figures(found: Landscape, off: Record) -> Record:
    """How noisy, how good, how much of it fails."""
    sigma, df = pooled(found)
    base = repeats(found)["{}"]
    half, outcomes = len(base) // 2, Counter(str(row.outcome) for row in found.rows)
    best = min(repeats(found).values(), key=statistics.fmean)
    return {
        "budget_seconds": found.head["budget_seconds"], "device": found.head["device"],
        "outcomes": dict(outcomes), "points": len({key(row) for row in found.rows}),
        "sigma": sigma, "sigma_df": df, "base": statistics.fmean(base), "base_sigma": statistics.stdev(base), "base_n": len(base),
        "base_drift": statistics.fmean(base[half:]) - statistics.fmean(base[:half]),
        "failed": sum(outcomes.values()) - outcomes["ok"],
        "repeated": {point: told(scores) for point, scores in repeats(found).items()},
        "best_repeated_percent": 100 * (1 - statistics.fmean(best) / statistics.fmean(base)), "surface": off,
    }  # fmt: skip


def short(figure: Any) -> Any:
    """To five digits, at any depth."""
    if isinstance(figure, dict):
        return {key: short(value) for key, value in figure.items()}
    if isinstance(figure, list):
        return [short(value) for value in figure]
    return float(f"{figure:.5g}") if isinstance(figure, float) else figure
