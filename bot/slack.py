"""Post a report to Slack once: with a bot's token (message, thread, pictures), or through a webhook (the message alone).

Nothing here raises for what Slack, the network or a setting does: it becomes `NotSent`, and the campaign goes on.

A report has a key, which stands in the metadata of what we post. Before it is sent, the channel is searched for that key, so
that a crash between sending a report and writing that down does not send it twice; what its thread lacks is then added. That
takes the channel's id, not its name, and the scope to read it. Where these cannot be had the report is sent all the same, and
`Sent.lacking` says so. A webhook can do none of this: after such a crash it sends twice.

Scopes: chat:write; files:write for pictures; channels:history (groups:history for a private channel) to look.
Not here: what is said (report/slack.py), when a report is due, and writing down that it was sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slack_sdk.web import WebClient
from slack_sdk.webhook import WebhookClient

from bot.report.slack import Message, payload, section
from bot.slackline import ADVICE, BAD_TOKEN, Line, NotSent

__all__ = ["Bot", "Hook", "NotSent", "Picture", "Report", "Sent", "by_token", "by_webhook", "send"]

API = "https://slack.com/api/"
EVENT = "autoresearch_report"  # metadata.event_type: https://docs.slack.dev/messaging/message-metadata
ANSWER_SECONDS = 20  # for one answer
PAGES, PAGE = 10, 200  # of the channel's history, newest first
QUIET = {"unfurl_links": False, "unfurl_media": False}
PLAIN = {**QUIET, "link_names": False, "parse": "none"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A file for the thread: its name, which no other of the report has, its bytes, and what it shows in words."""

    name: str
    png: bytes
    shows: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is to be in the channel once. It was not sent before `since`, epoch seconds: nothing older is looked at."""

    key: str
    since: float
    message: Message
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The message is in the channel (ids of channel and message; through a webhook both are empty). `lacking` tells what is not
    as it should be: a picture, a part of the thread, or that nobody could look whether it was there before."""

    channel: str
    ts: str
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bot:
    """An app in a workspace, and the channel that it posts in."""

    client: WebClient
    channel: str


@dataclass(frozen=True, kw_only=True)
class Hook:
    """An incoming webhook. Its address is a secret."""

    client: WebhookClient


def by_token(token: str, channel: str, *, api: str = API) -> Bot | NotSent:
    """A token that cannot be one is told, and not shown."""
    if not _printable(token):
        return NotSent(reason=BAD_TOKEN)
    if not channel.strip():
        return NotSent(reason="no Slack channel is named: give its id (C...), from the bottom of its details in Slack")
    client = WebClient(token, base_url=api, timeout=ANSWER_SECONDS, logger=_silent(), retry_handlers=[])
    return Bot(client=client, channel=channel.strip())


def by_webhook(address: str) -> Hook | NotSent:
    """An address that cannot be one is told, and not shown."""
    if not _printable(address) or not address.startswith(("https://", "http://127.0.0.1:")):
        return NotSent(reason="the Slack webhook is no address (https://hooks.slack.com/...): see to the secret that holds it")
    return Hook(client=WebhookClient(address, timeout=ANSWER_SECONDS, logger=_silent(), retry_handlers=[]))


def send(to: Bot | Hook, report: Report, *, sleep: Callable[[float], None] = time.sleep) -> Sent | NotSent:
    """Have the report in the channel, once. `sleep` takes seconds."""
    line = Line(sleep)
    if isinstance(to, Bot):
        return _as_bot(to, report, line)
    return line.post(to.client.send, **QUIET, **payload(report.message)) or Sent(channel="", ts="")


def _as_bot(to: Bot, report: Report, line: Line) -> Sent | NotSent:
    found = _find(to, report, line)
    if isinstance(found, NotSent) and found.code not in ADVICE:
        return found  # it passes: better late than twice
    posted = found if isinstance(found, Sent) else _post(to, report, line)
    if isinstance(posted, NotSent) and posted.perhaps and found is None:
        again = _find(to, report, line)
        posted = again if isinstance(again, Sent) else posted
    if isinstance(posted, NotSent):
        return posted
    lacking = [] if posted is found else _new(found)
    there = _replies(to, posted, line) if posted is found else set()
    if isinstance(there, NotSent):
        lacking.append(f"could not look whether all of its thread is there: {there.reason}")
    else:
        lacking += _follow(to, posted, report, there, line)
    return Sent(channel=posted.channel, ts=posted.ts, lacking=tuple(lacking))


def _new(found: NotSent | Sent | None) -> list[str]:
    """What is to be said of a message that was posted without looking."""
    blind = "could not look whether the report was sent before, so a crash could have sent it twice"
    return [f"{blind}: {found.reason}"] if isinstance(found, NotSent) else []


def _find(to: Bot, report: Report, line: Line) -> Sent | NotSent | None:
    """The message of that report in the channel; None when it is not there, NotSent when one cannot look."""
    cursor = ""
    for _ in range(PAGES):
        page = line.call(
            to.client.conversations_history, channel=to.channel, oldest=f"{report.since:.6f}", limit=PAGE, cursor=cursor,
            include_all_metadata=True,
        )  # fmt: skip
        if isinstance(page, NotSent):
            return page
        for message in page.get("messages") or ():
            if _part(message, report.key) == 0:
                return Sent(channel=to.channel, ts=str(message["ts"]))
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            break
    return None


def _post(to: Bot, report: Report, line: Line) -> Sent | NotSent:
    message = {**payload(report.message), "metadata": _mark(report.key, 0)}
    answer = line.call(to.client.chat_postMessage, channel=to.channel, **PLAIN, **message)
    return answer if isinstance(answer, NotSent) else Sent(channel=str(answer["channel"]), ts=str(answer["ts"]))


def _replies(to: Bot, posted: Sent, line: Line) -> set[int | str] | NotSent:
    """What the thread has: the numbers of its parts and the names of its files."""
    place = {"channel": posted.channel, "ts": posted.ts}
    page = line.call(to.client.conversations_replies, **place, limit=PAGE, include_all_metadata=True)
    if isinstance(page, NotSent):
        return page
    messages = page.get("messages") or ()
    files = {str(file.get("name")) for message in messages for file in message.get("files") or ()}
    return files | {part for message in messages if (part := _part(message)) is not None}


def _follow(to: Bot, posted: Sent, report: Report, there: set[int | str], line: Line) -> Iterator[str]:
    """Fill the thread with what is not there; yields why something is not. What ails one piece ails the next."""
    place = {"channel": posted.channel, "thread_ts": posted.ts}
    for picture in (x for x in report.pictures if x.name not in there):
        file = {"filename": picture.name, "title": picture.shows, "alt_txt": picture.shows, "content": picture.png}
        answer = line.call(to.client.files_upload_v2, **place, **file)
        if isinstance(answer, NotSent):
            yield f"the plot is not in the thread: {answer.reason}"
            break
    for k, text in ((k, text) for k, text in enumerate(report.message.thread, 1) if k not in there):
        piece = {"text": text, "blocks": [section(text)], "metadata": _mark(report.key, k)}
        answer = line.call(to.client.chat_postMessage, **place, **PLAIN, **piece)
        if isinstance(answer, NotSent):
            yield f"the thread is not complete: {answer.reason}"
            break


def _mark(key: str, part: int) -> dict[str, object]:
    return {"event_type": EVENT, "event_payload": {"key": key, "part": part}}


def _part(message: Mapping[str, Any], key: str = "") -> int | None:
    """Which part of that report (or, without a key, of any) a message is: 0 is the first, the rest are in its thread."""
    mark = message.get("metadata") or {}
    content = mark.get("event_payload") or {}
    part = content.get("part")
    ours = mark.get("event_type") == EVENT and key in ("", content.get("key"))
    return part if ours and isinstance(part, int) else None


def _printable(secret: str) -> bool:
    return bool(secret) and secret.isascii() and secret.isprintable() and " " not in secret


def _silent() -> logging.Logger:
    """The SDK would write to standard error, with addresses and texts in it."""
    logger = logging.getLogger("autoresearch.slack")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
