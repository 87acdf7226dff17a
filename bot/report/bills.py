"""What models cost, in words: of one call, one candidate, one campaign; and what a gain has cost. Plain text for all reports."""

from __future__ import annotations

from bot.report import count, standing
from bot.spending import Spent
from bot.state import Campaign

GAIN = 0.001  # bits per byte, the unit of the price of a gain


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
    return f"${amount:.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def of_campaign(c: Campaign) -> str:
    """All that it has spent, what is left of the cap, and what each gain has cost; empty when no model was asked."""
    if not c.spent.calls:
        return ""
    cap = c.settings.money.usd
    left = "" if cap is None else f"; {usd(max(0.0, cap - c.spent.usd))} of {usd(cap)} left"
    return f"{bill(c.spent)}{left}{_for_gains(c)}"


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
