"""What was spent on models. Pure; prices and the cap are in bot/propose/money.py."""

from __future__ import annotations

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
