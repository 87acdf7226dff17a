"""What was spent on models, and what program.md says of their prices. Pure; what a call may cost is in bot/propose/money.py."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What calls of models cost: tokens as their servers reported them, US dollars by the prices of program.md."""

    calls: int = 0
    input: int = 0  # tokens, the cached ones included
    cached: int = 0
    output: int = 0
    usd: float = 0.0
    guessed: int = 0  # calls whose usage nobody reported: they are counted at the most that they can have cost
    unpriced: int = 0  # calls of a model without a price: their tokens are counted, dollars are not

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


FREE = Spent()


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    cached: float
    output: float


def prices(rows: Iterable[str]) -> dict[str, Price] | str:
    """The table from rows of "MODEL INPUT CACHED OUTPUT", or what is wrong with it, in words."""
    table: dict[str, Price] = {}
    for row in rows:
        model, *numbers = row.split() or [""]
        try:
            each = [float(number) for number in numbers]
        except ValueError:
            each = []
        if len(each) != 3 or not all(math.isfinite(number) and number >= 0 for number in each):
            return f'"{row}" is no price; write MODEL INPUT CACHED OUTPUT, the last three in dollars for a million tokens'
        if model in table:
            return f"{model} has two prices; keep one"
        table[model] = Price(input=each[0], cached=each[1], output=each[2])
    return table
