"""What models cost, in words: of one call, one candidate, one campaign, one to come; and what a gain has cost. Plain text for
all reports."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bot.propose import money
from bot.propose.money import Estimate
from bot.report import count, standing
from bot.spending import Spent, prices
from bot.state import Campaign

GAIN = 0.001  # bits per byte, the unit of the price of a gain
MOST = 12  # digits of dollars


def bill(spent: Spent) -> str:
    """Calls, tokens and dollars; empty when no model was asked."""
    if not spent.calls:
        return ""
    cached = f" ({spent.cached:,} of them cached)" if spent.cached else ""
    parts = [count(spent.calls, "call"), f"{spent.input:,} tokens read{cached}", f"{spent.output:,} written", dollars(spent)]
    if spent.guessed:
        parts.append(f"{spent.guessed} of the calls without a word on what they took: counted at the most that they can have")
    return ", ".join(parts)


def dollars(spent: Spent) -> str:
    """What it cost, as far as there are prices."""
    if spent.unpriced == spent.calls:
        return "no price known"
    lacking = f" and {count(spent.unpriced, 'call')} without a price" if spent.unpriced else ""
    each = f", {usd(spent.usd / spent.calls)} a call" if spent.calls > 1 else ""
    return f"{usd(spent.usd)}{each}{lacking}"


def usd(amount: float) -> str:
    """An amount; small ones with enough digits to mean something."""
    if amount >= 1 or not amount:
        return f"${amount:.2f}"
    return f"${amount:.{min(MOST, max(4, 1 - math.floor(math.log10(amount))))}f}"


def of_campaign(c: Campaign) -> str:
    """All that it has spent, what is left of the cap, and what each gain has cost; empty when no model was asked."""
    if not c.spent.calls:
        return ""
    cap = c.settings.money.usd
    left = "" if cap is None else f"; {usd(max(0.0, cap - c.spent.usd))} of {usd(cap)} left"
    return f"{bill(c.spent)}{left}{_for_gains(c)}"


def foreseen(c: Campaign) -> str:
    """What all its experiments will probably cost, in one line, and at most: for before it begins. Empty when no model is
    asked."""
    parts = dict(_guesses(c))
    if not parts:
        return ""
    tokens, why = sum(guess.tokens for guess in parts.values()), "; ".join(f"{name}: {x.why}" for name, x in parts.items())
    asked = count(c.started.experiments, "experiment")
    unpriced = ", ".join(name for name, guess in parts.items() if guess.usd is None)
    if unpriced:
        about = f"about {tokens:,} tokens for {asked}, in dollars not known: money.prices has no price of {unpriced}"
    else:
        about = f"about {usd(sum(guess.usd or 0.0 for guess in parts.values()))} for {asked}"
    cap = c.settings.money.usd
    most = "without a cap, which money.usd would set" if cap is None else f"at most {usd(cap)}, the cap of money.usd"
    return f"{about}, {most} (estimated: {why})"


def _guesses(c: Campaign) -> Iterator[tuple[str, Estimate]]:
    """Of each model that is asked."""
    s, n, table = c.settings, c.started.experiments, prices(c.settings.money.prices)
    assert not isinstance(table, str), "program.py has looked at them"
    if s.model.proposer and "llm" in s.proposers:
        share = s.mix.llm / sum(getattr(s.mix, name) for name in s.proposers) if s.proposer == "mix" else 1.0
        prompt = money.PROMPT + money.about((c.instructions, c.started.title, c.started.body))
        yield s.model.proposer, money.estimate(n * share, prompt, table.get(s.model.proposer))
    if s.model.reviewer:
        yield f"{s.model.reviewer} as reviewer", money.reviews(n, table.get(s.model.reviewer))


def _for_gains(c: Campaign) -> str:
    """Cost per accepted gain: of each kept candidate, and of each thousandth of a bit."""
    kept, gain = len(c.merged), standing(c).gain
    if not kept or c.spent.unpriced == c.spent.calls:
        return "; nothing kept yet" if not kept else ""
    share = f", {usd(c.spent.usd * GAIN / gain)} for each {GAIN:g} bpb of gain" if gain and gain > 0 else ""
    return f"; {usd(c.spent.usd / kept)} for each kept candidate{share}"


def beside(c: Campaign) -> str:
    """What is counted beside the experiments."""
    again = f", {count(c.repeats, 'repeat')} of earlier ideas told to the proposer" if c.repeats else ""
    return f"{c.withdrawn} withdrawn without a verdict, {c.refused} refused before any run{again}"
