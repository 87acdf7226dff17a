"""The report of a night for Slack: one message for all campaigns that something happened to, with the details for its thread.

Slack's limits are held here: 50 blocks, 3,000 characters a section, 150 a header, 40,000 a message. What does not fit is left
out in whole lines, and the message says how many. Words of others stand in code spans with Slack's three special characters
escaped, and our texts are `verbatim`, so that no title can mention anybody or become a link:
https://docs.slack.dev/messaging/formatting-message-text and https://docs.slack.dev/reference/block-kit/blocks.
Not here: posting it (bot/slack.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from bot.report import amount, called, claims, compare, count, in_order, measured, outcomes, percent, standing, unsandboxed, word
from bot.report.bills import beside
from bot.report.quoting import LINE, quiet
from bot.report.status import upcoming
from bot.state import Campaign, Candidate, State

BLOCKS, SECTION, HEADER, MESSAGE = 50, 3_000, 150, 40_000  # Slack's; all but the first in characters
FULL = 6  # campaigns that have blocks of their own, at most 8 each: with the header and the line of the others these are BLOCKS
ROOM = 1_200  # characters of a list in the message; three lists and the rest of FULL campaigns stay below MESSAGE
TITLE = 80  # characters of a title by others, before they are escaped
DETAILS = 50  # last experiments of a campaign in the thread

Block = dict[str, Any]

# What a person has to do after a campaign that ended like this.
ENDED_BADLY = {
    "base": "the code on the default branch cannot be measured: mend it before the next campaign",
    "crashes": "too many candidates in a row failed: read the logs in their checks, then see to program.md or the machine",
    "refusals": "too many proposals in a row were refused unrun: see to program.md or the proposer",
}


@dataclass(frozen=True, kw_only=True)
class Message:
    """`text` is what a notification shows, `thread` what follows as replies; both are mrkdwn, as the blocks are."""

    text: str
    blocks: tuple[Block, ...]
    thread: tuple[str, ...] = ()


def tonight(state: State, since: float) -> list[Campaign]:
    """Whom a report is about: those that anything happened to after `since`, and those that wait for a person."""
    return [c for c in state.campaigns.values() if c.at > since or (c.paused and not c.ended)]


def render(
    campaigns: Sequence[Campaign], *, now: float, repository: str = "", spent: Mapping[str, float] = MappingProxyType({})
) -> Message:
    """The message. `repository` is its address on the web, for links; empty where there is none. `spent` holds the dollars that
    models cost by the name of the campaign, as far as they are known."""
    day = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
    if not campaigns:
        nothing = f"autoresearch, {day}: nothing happened since the last report."
        return Message(text=nothing, blocks=(section(nothing),))
    kept, done = sum(len(c.merged) for c in campaigns), sum(c.settled for c in campaigns)
    head = f"autoresearch, {day}: {count(len(campaigns), 'campaign')}, {kept} kept of {count(done, 'experiment')}"
    others, shown = campaigns[:-FULL], campaigns[-FULL:]
    blocks: list[Block] = [{"type": "header", "text": {"type": "plain_text", "text": head[:HEADER], "emoji": False}}]
    for c in shown:
        blocks += _campaign(c, repository, spent.get(c.name))
    if others:
        blocks.append(section(fit([f"*{len(others)} more:*", *map(_brief, others)], ROOM)))
    text = fit([head, *map(_brief, campaigns)], ROOM)
    return Message(text=text, blocks=tuple(blocks), thread=tuple(piece for c in shown for piece in _details(c, repository)))


def section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def payload(message: Message) -> dict[str, Any]:
    """What Slack is handed, but for the thread; https://app.slack.com/block-kit-builder shows it."""
    return {"text": message.text, "blocks": list(message.blocks)}


def quote(text: str, limit: int = LINE) -> str:
    """One line by others as a code span that it cannot end; nothing for nothing. At most some 5 times `limit` long."""
    clean = quiet(text, limit).replace("`", "'")
    return f"`{escape(clean)}`" if clean else ""


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fit(lines: Iterable[str], limit: int) -> str:
    """As many whole lines as `limit` characters hold, since half an escape or half a link would come alive; then how many more.
    Every line must be shorter than `limit` by some 30 characters."""
    wanted, kept, length = list(lines), 0, 0
    for line in wanted:
        length += len(line) + 1
        if length > limit - len("… and 1000000 more"):
            break
        kept += 1
    more = [f"… and {len(wanted) - kept} more"] if kept < len(wanted) else []
    return "\n".join([*wanted[:kept], *more])


def _campaign(c: Campaign, repository: str, spent: float | None) -> list[Block]:
    """At most 8 blocks."""
    facts = [_mrkdwn(f"*{name}*\n{escape(value)}") for name, value in _facts(c, spent)]
    noise = escape(claims.detectable(c))
    winners = [_winner(c, x, repository) for x in reversed(c.merged)]
    blocks = [
        section(_head(c, repository)),
        section(f"*Total gain, measured head to head on fresh seeds:* {escape(claims.total(c))}."),
        {"type": "section", "fields": facts},
        section(fit(["*Kept, newest first*", *winners], ROOM) if winners else "Nothing is kept."),
        {"type": "context", "elements": [_mrkdwn(f"{noise[0].upper()}{noise[1:]}.")]},
        section(fit(_listed("Next", upcoming(c, quote)), ROOM)),
    ]
    if wanted := needs(c):
        blocks.append(section(fit(_listed("Needs a person", wanted), ROOM)))
    return [*blocks, {"type": "divider"}]


def _head(c: Campaign, repository: str) -> str:
    issue = f" on {_link(repository, 'issues', c.started.issue, 'issue ')}" if c.started.issue else ""
    title = quote(c.started.title, TITLE)
    now = "ended" if c.ended else "paused" if c.paused else "ending" if c.ending else "under way"
    return f"*Campaign {escape(c.name)}*{issue}, {now}{f': {title}' if title else ''}"


def _facts(c: Campaign, spent: float | None) -> list[tuple[str, str]]:
    s = standing(c)
    best = "not measured yet" if s.best is None or s.candidate is None else f"{s.best:.6f}, {_whose(s.candidate)}"
    waiting = claims.provisional(c)
    rows = [
        ("Start", "not measured yet" if s.start is None else f"{s.start:.6f}, {_whose(c.candidates[0])}"),
        ("Best, from runs at different times", best),
        ("Done", f"{c.settled} of {c.started.experiments} = {outcomes(c) or 'none yet'}"),
        ("Beside", f"{waiting}, {beside(c)}" if waiting else beside(c)),
        (f"{_device(c)}-hours", f"{c.seconds / 3600:.2f} in {count(sum(x.runs for x in c.candidates.values()), 'run')}"),
    ]
    return rows if spent is None else [*rows, ("Spent on models", f"${spent:.2f}")]


def _device(c: Campaign) -> str:
    names = [str(x.result.get("device", "")) for x in c.candidates.values()]
    return "CPU" if c.settings.device == "cpu" or any(name.startswith("cpu") for name in names) else "GPU"


def _whose(x: Candidate) -> str:
    return f"{called(x)}, {count(max(1, len(measured(x))), 'run')}"


def _winner(c: Campaign, x: Candidate, repository: str) -> str:
    """One line: where it is, what it is, what it brought."""
    numbers = compare(c, x)
    gain = f": {numbers.gain:+.6f} bpb (val_bpb {percent(numbers.percent)})" if numbers else ""
    alone = ", in its first run alone" if x.predicted and numbers else ""
    return f"• {_pull(x, repository)} {quote(x.title, TITLE)}{gain}{alone}"


def needs(c: Campaign) -> list[str]:
    """What only a person can do, as mrkdwn; usually nothing."""
    found = []
    if c.paused and not c.ended:
        found.append(f"it is paused: {quote(c.paused)}. Once that is mended, somebody has to resume it")
    if c.ended and c.ended.why in ENDED_BADLY:
        found.append(f"{ENDED_BADLY[c.ended.why]}: {quote(c.ended.reason)}")
    seen, revert = claims.proven(c), c.candidates.get(c.reverted)
    if seen and seen.high < 0 and (c.ended if revert is None else revert.why not in ("", "merged")):
        found.append("the tip is worse than the base and was not taken back: revert the merges by hand")
    if any(unsandboxed(x) for x in c.candidates.values()):
        found.append("code was measured UNSANDBOXED: read what was merged before you rely on it, or set up the sandbox")
    return found


def _brief(c: Campaign) -> str:
    """One line of our own words, for a notification too."""
    seen = claims.proven(c)
    gain = f"total gain {seen.gain:+.6f} bpb ({seen.low:+.6f} to {seen.high:+.6f})" if seen else "total gain not measured"
    person = ", NEEDS A PERSON" if needs(c) else ""
    return f"• campaign {escape(c.name)}: {len(c.merged)} kept of {c.settled}, {gain}{person}"


def _details(c: Campaign, repository: str) -> list[str]:
    """The last experiments one by one, what each edit is worth, what became of each stack: in pieces of at most SECTION."""
    last = [x for x in in_order(c) if not x.base]
    lines = [f"*Campaign {escape(c.name)}, experiment by experiment, newest first*"]
    lines += [_row(c, x, repository) for x in reversed(last[-DETAILS:])]
    lines += [f"… and {len(last) - DETAILS} before these"] if len(last) > DETAILS else []
    for worth in claims.worths(c):
        number = f"{worth.seen}" if worth.seen else quote(worth.reason)
        lines.append(f"• worth of candidate {worth.candidate.n} at the end: {number}")
    for stack in claims.stacks(c)[-5:]:
        ended = "certified and merged" if stack.kept else "*rolled back*"
        lines.append(f"• {claims.listed(stack.edits)} together, {ended}: {quote(stack.reason)}")
    return _pieces(lines) if len(lines) > 1 else []


def _row(c: Campaign, x: Candidate, repository: str) -> str:
    numbers = compare(c, x)
    score = f" {numbers.after:.6f} ({percent(numbers.percent)})" if numbers else ""
    seconds = amount(x.result, "total_seconds")
    took = f", {seconds:.0f} s" if seconds else ""
    fault = f": {quote(x.fault, TITLE)}" if x.outcome != "ok" and x.fault else ""
    return f"• {_pull(x, repository)} {quote(x.title, TITLE)}: *{word(c, x)}*{score}{took}{fault}"


def _pieces(lines: list[str]) -> list[str]:
    """Joined to as few texts of at most SECTION characters as possible. Every line is shorter than that."""
    pieces = [lines[0]]
    for line in lines[1:]:
        if len(pieces[-1]) + 1 + len(line) > SECTION:
            pieces.append(line)
        else:
            pieces[-1] += f"\n{line}"
    return pieces


def _listed(name: str, items: list[str]) -> list[str]:
    return [f"*{name}:* {items[0]}"] if len(items) == 1 else [f"*{name}*", *(f"• {item}" for item in items)]


def _pull(x: Candidate, repository: str) -> str:
    return f"candidate {x.n}" if x.pull is None else _link(repository, "pull", x.pull, "")


def _link(repository: str, what: str, number: int, before: str) -> str:
    return f"<{escape(repository)}/{what}/{number}|{before}#{number}>" if repository else f"{before}#{number}"


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}
