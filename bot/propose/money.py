"""What models cost: the prices that program.md states, what a call cost, what it can cost at most, and whether it may be made.

    prices(["gpt-5-mini 0.25 0.025 2"])  ->  {"gpt-5-mini": Price(input=0.25, cached=0.025, output=2.0)}

Nothing here knows a price: they change, and a server of one's own has none. The cap holds because a call is made only if the
worst that it can cost still fits. The worst is counted in bytes: a byte-level tokenizer makes at most one token of a byte
(Sennrich et al. 2016, as used since GPT-2). What it really cost is three to five times less, and is booked afterwards. An exact
count would take the model's own vocabulary, which most servers do not tell. (Texts are fitted into budgets by counting.py.)

Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.spending import FREE, Price, Spent, prices

__all__ = ["Price", "prices"]  # beside what stands here

MILLION = 1_000_000
WRAPPING = 64  # tokens that a server may put around one message of a conversation
USUAL = 4.0  # bytes of English or code in one token: for an estimate, never for the cap
REPAIRED = 1.5  # calls for one proposal, until a campaign has a number of its own
ANSWER = 3_000  # tokens of one answer, its thinking included, until a campaign has a number of its own
PROMPT = 12_000  # tokens of a prompt beside program.md and the issue: our rules, a train.py of 5,000, and a history that fills up
REVIEW, VERDICT = 2_000, 1_000  # tokens of a question to a reviewer, and of its answer


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call as a server counted them; `cached` are those of `input` that it had read before."""

    input: int
    cached: int
    output: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What some experiments will probably cost, and from what that was concluded."""

    tokens: int
    usd: float | None  # None: there is no price
    why: str


def ceiling(texts: Iterable[str]) -> int:
    """Tokens that these messages have at most."""
    return sum(len(text.encode("utf-8", "replace")) + WRAPPING for text in texts)


def about(texts: Iterable[str]) -> int:
    """Tokens that they probably have."""
    return round(sum(len(text.encode("utf-8", "replace")) / USUAL for text in texts))


def cost(usage: Usage, price: Price) -> float:
    """US dollars."""
    fresh = usage.input - usage.cached
    return (fresh * price.input + usage.cached * price.cached + usage.output * price.output) / MILLION


def booked(usage: Usage | None, worst: Usage, price: Price | None) -> Spent:
    """The entry for one call; `worst` stands in where its usage is not known."""
    used = usage or worst
    return Spent(
        calls=1,
        input=used.input,
        cached=used.cached,
        output=used.output,
        usd=cost(used, price) if price else 0.0,
        guessed=int(usage is None),
        unpriced=int(price is None),
    )


def may_spend(left: float | None, worst: Usage, price: Price | None) -> bool:
    """Whether a call fits into what is left of the cap even at its worst. Without a price nothing fits into a cap."""
    return left is None or (price is not None and cost(worst, price) <= left)


def estimate(experiments: float, prompt: int, price: Price | None, so_far: Spent = FREE, done: int = 0) -> Estimate:
    """For so many experiments: by what the `done` ones of this campaign cost, else by the tokens of the prompt and by rules of
    thumb."""
    if done:
        tokens, each = (so_far.input + so_far.output) / done, so_far.usd / done
        usd = experiments * each if price and not so_far.unpriced else None
        return Estimate(tokens=round(experiments * tokens), usd=usd, why=f"as the {done} before on average")
    one = Usage(input=prompt, cached=0, output=ANSWER)
    calls = experiments * REPAIRED
    why = f"{REPAIRED:g} calls for each, a prompt of about {one.input:,} tokens and an answer of {ANSWER:,}, nothing cached"
    return Estimate(tokens=round(calls * (one.input + one.output)), usd=calls * cost(one, price) if price else None, why=why)


def reviews(experiments: float, price: Price | None) -> Estimate:
    """Of a model that reviews each of so many experiments once."""
    one = Usage(input=REVIEW, cached=0, output=VERDICT)
    why = f"a review of about {REVIEW + VERDICT:,} tokens for each"
    return Estimate(
        tokens=round(experiments * (REVIEW + VERDICT)), usd=experiments * cost(one, price) if price else None, why=why
    )  # fmt: skip
