"""What was spent on models, and what program.md says of their prices. Pure; what a call may cost is in bot/propose/money.py.

A call is paid whether or not its answer comes to anything, so a Meter counts calls, and the log is held against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

DEAREST = 1e6  # dollars for a million tokens: more than that is a slip


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What calls of models cost: tokens as their servers reported them, US dollars by the prices of program.md. Raises ValueError
    where one of its numbers is below zero, or none."""

    calls: int = 0
    input: int = 0  # tokens, the cached ones included
    cached: int = 0
    output: int = 0
    usd: float = 0.0
    guessed: int = 0  # calls whose usage nobody reported: they are counted at the most that they can have cost
    unpriced: int = 0  # calls of a model without a price: their tokens are counted, dollars are not

    def __post_init__(self) -> None:
        for f in fields(self):
            if not 0 <= getattr(self, f.name) < math.inf:
                raise ValueError(f"{f.name} is {getattr(self, f.name)}: nothing costs that")

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __sub__(self, other: Spent) -> Spent:
        """Never below zero: sums of dollars do not give their parts back to the last bit."""
        return Spent(**{f.name: max(f.default, getattr(self, f.name) - getattr(other, f.name)) for f in fields(self)})


FREE = Spent()


class Closed(Exception):
    """Nobody waits for the answer any more, so the call is not made."""


@dataclass(kw_only=True)
class Meter:
    """All calls of one process, one after the other: what they have cost, and at most the one that is under way. Whoever reads it
    may be in another thread than whoever calls."""

    sums: tuple[Spent, Spent] = (FREE, FREE)  # what is paid, and what is at risk: one value, so that both are of one moment
    closed: bool = False

    def begin(self, worst: Spent) -> None:
        """A call is made. Raises Closed."""
        self.sums = (self.sums[0], worst)
        if self.closed:
            self.sums = (self.sums[0], FREE)
            raise Closed

    def end(self, cost: Spent) -> None:
        """It is over."""
        self.sums = (self.sums[0] + cost, FREE)

    @property
    def most(self) -> Spent:
        """What it is all going to cost at most."""
        return self.sums[0] + self.sums[1]


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
        if len(each) != 3 or not all(0 <= number <= DEAREST for number in each):
            form = "MODEL INPUT CACHED OUTPUT, the last three in dollars for a million tokens, at most a million"
            return f'"{row}" is no price; write {form}'
        if model in table:
            return f"{model} has two prices; keep one"
        table[model] = Price(input=each[0], cached=each[1], output=each[2])
    return table
