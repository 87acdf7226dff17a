"""The one comment of a campaign: where it began, where it is, what came of every experiment, what comes next.

Headed by the total gain as it was measured head to head, or why it was not. Text by others is shown as a quotation (quoting.py).
Not here: posting it; what is said of one candidate (markdown.py).
"""

from __future__ import annotations

from collections.abc import Callable

from bot.decide import stop_reason
from bot.report import called, claims, compare, count, in_order, measured, outcomes, percent, standing, word
from bot.report.bills import beside, foreseen, of_campaign
from bot.report.quoting import cell, span
from bot.state import Campaign, Candidate, Kind


def render(c: Campaign) -> str:
    """The one comment of a campaign: where it began, where it is, what came of every experiment, what comes next."""
    waiting = claims.provisional(c)
    parts = [
        f"**Campaign {c.name}: {c.settled} of {c.started.experiments} experiments done.**",
        f"**Total gain, measured head to head on fresh seeds:** {claims.total(c)}.",
        "" if c.settled or c.ended else f"**Estimate:** {claims.estimate(c)}.",
        _standing(c),
        f"{c.settled} done = {outcomes(c) or 'none yet'}. Beside: {waiting + ', ' if waiting else ''}{beside(c)}.",
        f"**Models:** {cost}." if (cost := of_campaign(c) or ("" if c.ended else foreseen(c))) else "",
        _sentence(claims.detectable(c)),
        _last_results(c),
        _worths(c),
        _stacks(c),
        f"**Next:** {'; '.join(upcoming(c, span))}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _standing(c: Campaign) -> str:
    s = standing(c)
    if s.start is None:
        return "The base is not measured yet."
    if s.best is None or s.candidate is None:
        return f"Start: {s.start:.6f}. The base was changed by hand and is being measured."
    gain = s.start - s.best
    rows = [
        "| val_bpb | mean | of |",
        "|---|---|---|",
        f"| start | {s.start:.6f} | {_whose(c.candidates[0])} |",
        f"| best so far | {s.best:.6f} | {_whose(s.candidate)} |",
        f"| between them | {gain:+.6f} ({percent(100 * gain / s.start)}) | from runs at different times, not head to head |",
    ]
    return "\n".join(rows)


def _whose(x: Candidate) -> str:
    return f"{called(x)}, {count(max(1, len(measured(x))), 'run')}"


def _worths(c: Campaign) -> str:
    """What each edit is worth that was taken out of the tip."""
    rows = ["| # | what | worth at the end | 95 % interval | pairs |", "|---|---|---|---|---|"]
    for worth in claims.worths(c):
        x, seen = worth.candidate, worth.seen
        numbers = f"{cell(worth.reason)} | |"
        if seen:
            numbers = f"{seen.gain:+.6f} | {seen.low:+.6f} to {seen.high:+.6f} | {seen.pairs}"
        rows.append(f"| {x.n} | {cell(x.title)} | {numbers} |")
    return "Each edit taken out of the tip, on fresh seeds:\n\n" + "\n".join(rows) if len(rows) > 2 else ""


def _stacks(c: Campaign) -> str:
    """Mode stack: what the last certifications said."""
    told = [
        f"- {claims.listed(x.edits)}: {'certified and merged' if x.kept else '**rolled back**'}: {span(x.reason)}"
        for x in claims.stacks(c)[-5:]
    ]
    return "\n".join(["Stacks, measured as a whole against what was merged before:\n", *told]) if told else ""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _last_results(c: Campaign) -> str:
    last = [x for x in in_order(c) if not x.base][-10:]
    if not last:
        return ""
    rows = ["| # | pull | what | val_bpb | gain | how it ended |", "|---|---|---|---|---|---|"]
    for x in reversed(last):
        numbers = compare(c, x)
        score, gain = (f"{numbers.after:.6f}", percent(-numbers.percent)) if numbers else ("", "")
        pull = "" if x.pull is None else f"#{x.pull}"
        what = f"revert: {x.title}" if x.kind is Kind.REVERT else x.title
        rows.append(f"| {x.n} | {pull} | {cell(what)} | {score} | {gain} | {word(c, x)} |")
    return "\n".join(rows)


def upcoming(c: Campaign, quote: Callable[[str], str]) -> list[str]:
    """What will happen without anybody's doing, as of the last event. `quote` sets the words of others."""
    if c.ended:
        return [f"nothing, it ended: {quote(c.ended.reason)}"]
    live = [claims.doing(c, x) for x in c.live.values() if x not in c.accepted]
    if c.ending:
        return [f"it ends: {quote(c.ending.reason)}", *live]
    if c.tip >= 0 and (ending := stop_reason(c, c.at)):
        return [f"it ends: {quote(ending[1])}"]
    if c.paused:
        then = "; `/autoresearch resume` then goes on" if c.started.issue else ""
        return [f"it is paused and waits for a person: {quote(c.paused)}{then}"]
    left = max(0, c.started.experiments - c.settled - len(c.accepted))
    return [*live, f"{count(left, 'experiment')} to go"]
