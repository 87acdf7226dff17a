"""What happened, as one line of plain words for a terminal. For people; programs read the events themselves.

Text that others wrote (titles, reasons, names) is shown with control characters and colours made visible, never obeyed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from bot import events as e
from bot.report import WORDS, called
from bot.report.bills import bill
from bot.report.quoting import one_line
from bot.spending import Spent
from bot.state import Campaign

WIDTH = 240  # of a text by others within a line


def plain(text: str, limit: int = WIDTH) -> str:
    """One line that no terminal obeys."""
    return one_line(text, limit)


def say(event: e.Event, c: Campaign | None = None) -> str:
    """The event in words. `c` is the campaign as it was before: it knows what is a base, a revert or a comparison."""
    n = getattr(event, "n", None)
    known = c.candidates.get(n) if c and n is not None else None
    who = called(known) if known else name(n or 0)
    return _WORDS[type(event)](event, who)


def stamp(at: float) -> str:
    """Local time of day, with the date."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _started(x: e.CampaignStarted, who: str) -> str:
    return f"campaign {x.campaign}: {x.experiments} experiments on branch {plain(x.branch)}, asked for by {plain(x.by)}"


def _measured(x: e.Measured, who: str) -> str:
    if x.val_bpb is not None:
        return f"{who}: run {x.run} gives {x.val_bpb:.6f}"
    return f"{who}: run {x.run} ended as {WORDS.get(x.outcome, x.outcome)}: {plain(x.reason)}"


def _lost(x: e.RunLost, who: str) -> str:
    return f"{who}: run {x.run} was {'void' if x.void else 'lost'} and is done again: {plain(x.reason)}"


def _cost(spent: Spent) -> str:
    return f" ({bill(spent)})" if spent.calls else ""


def name(n: int) -> str:
    return f"candidate {n}" if n else "the base"


_WORDS: dict[type[e.Event], Callable[[Any, str], str]] = {
    e.CampaignStarted: _started,
    e.BaseSeen: lambda x, who: f"a base to be measured: commit {x.sha[:7]}",
    e.TipMoved: lambda x, who: f"somebody pushed {x.sha[:7]}: nothing that is measured changed",
    e.Proposed: lambda x, who: f"{who}{', to take back what was merged' if x.revert else ''}: {plain(x.title)}{_cost(x.spent)}",
    e.ProposalRefused: lambda x, who: f"refused before any run: {plain(x.title)}: {plain(x.reason)}{_cost(x.spent)}",
    e.Repaired: lambda x, who: f"{who}: mended after its crash, run again{_cost(x.spent)}",
    e.NotRepaired: lambda x, who: f"{who}: could not be mended: {plain(x.reason)}{_cost(x.spent)}",
    e.Opened: lambda x, who: f"{who}: pull request #{x.pull} is open",
    e.Rebased: lambda x, who: f"{who}: put on the new tip, measured again",
    e.MeasureStarted: lambda x, who: f"{who}: run {x.run} of {name(x.subject)} begins",
    e.Measured: _measured,
    e.RunLost: _lost,
    e.CheckPosted: lambda x, who: f"{who}: check: {plain(x.title)}",
    e.Adopted: lambda x, who: f"{who}: has its baseline",
    e.Accepted: lambda x, who: f"{who}: PROVISIONAL: {plain(x.reason)}",
    e.Merged: lambda x, who: f"{who}: MERGED as {x.sha[:7]}: {plain(x.reason)}",
    e.Closed: lambda x, who: f"{who}: closed ({WORDS.get(x.why, x.why)}): {plain(x.reason)}",
    e.Vetoed: lambda x, who: f"{who}: not wanted by {plain(x.by)}",
    e.Awaiting: lambda x, who: f"{who}: WAITS: {plain(x.reason)}",
    e.Hinted: lambda x, who: f"hint by {plain(x.by)}: {plain(x.text)}",
    e.UndoOpened: lambda x, who: f"pull request #{x.pull} takes the campaign back, asked for by {plain(x.by)}",
    e.StopRequested: lambda x, who: f"stop asked for by {plain(x.by)}",
    e.Paused: lambda x, who: f"paused: {plain(x.reason)}",
    e.Resumed: lambda x, who: f"resumed by {plain(x.by)}",
    e.Billed: lambda x, who: f"paid for an answer of a model that came to nothing{_cost(x.spent)}",
    e.ComparisonOpened: lambda x, who: f"to be measured once more, on fresh seeds: {plain(x.title)}",
    e.Compared: lambda x, who: f"measured once more: {plain(x.reason)}",
    e.Ending: lambda x, who: f"no new experiment begins: {plain(x.reason)}",
    e.Said: lambda x, who: "status comment written",
    e.Learned: lambda x, who: "what was learned is written down in knowledge.md",
    e.ReportSent: lambda x, who: f"report {x.number} sent",
    e.CampaignEnded: lambda x, who: f"campaign {x.campaign} ended: {plain(x.reason)}",
}
