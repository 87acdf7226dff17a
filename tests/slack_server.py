"""A small Slack on this machine, stricter than lenient doubles: it holds Slack's limits, knows scopes and membership, and fails
on request. Spoken to over HTTP by the real SDK.

What it refuses, and with which word, is from https://docs.slack.dev/reference/methods (chat.postMessage, conversations.history,
conversations.replies, files.getUploadURLExternal, files.completeUploadExternal) and the reference of blocks. `chat.postMessage`
also takes a channel's name, as Slack does; the others take an id.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "xoxb-made-up"
CHANNEL, NAME = "C0REPORTS", "reports"
ALL = frozenset({"chat:write", "files:write", "channels:history"})
SCOPES = {
    "chat.postMessage": "chat:write", "conversations.history": "channels:history", "conversations.replies": "channels:history",
    "files.getUploadURLExternal": "files:write", "files.completeUploadExternal": "files:write",
}  # fmt: skip
Answer = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What the next call of `method` meets. `error` empty: it is done, but the connection ends before the answer."""

    method: str
    error: str = ""
    status: int = 200
    wait: str = ""  # Retry-After


@dataclass
class Slack:
    """One workspace with one channel. `calls` holds every method that was called, in order."""

    url: str = ""
    scopes: frozenset[str] = ALL
    member: bool = True
    archived: bool = False
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    messages: list[Answer] = field(default_factory=list)  # of the channel and of all threads, oldest first
    hooked: list[Answer] = field(default_factory=list)
    uploads: dict[str, Answer] = field(default_factory=dict)
    now: float = 1_800_000_000.0
    page: int = 200  # messages that it hands out at a time, at most

    def channel(self) -> list[Answer]:
        return [m for m in self.messages if m.get("thread_ts", m["ts"]) == m["ts"]]

    def thread(self, ts: str) -> list[Answer]:
        return [m for m in self.messages if m.get("thread_ts") == ts and m["ts"] != ts]

    def put(self, text: str, **more: Any) -> Answer:
        self.now += 1.0
        self.messages.append({"type": "message", "text": text, "ts": f"{self.now:.6f}", **more})
        return self.messages[-1]

    def answer(self, method: str, token: str, ask: Answer) -> Answer:
        """What Slack says; every refusal is a word."""
        if token != TOKEN:
            return _no("not_authed" if not token else "invalid_auth")
        if method not in SCOPES:
            return _no("unknown_method")
        if SCOPES[method] not in self.scopes:
            return {**_no("missing_scope"), "needed": SCOPES[method], "provided": ",".join(sorted(self.scopes))}
        return getattr(self, f"_{re.sub('[.]', '_', method)}")(ask)  # type: ignore[no-any-return]

    def _chat_postMessage(self, ask: Answer) -> Answer:  # noqa: N802  the method's name at Slack
        if ask["channel"] not in (CHANNEL, NAME, f"#{NAME}"):
            return _no("channel_not_found")
        if not self.member or self.archived:
            return _no("is_archived" if self.archived else "not_in_channel")
        if wrong := faults_of(ask):
            return _no(wrong)
        kept = {key: ask[key] for key in ("blocks", "metadata", "thread_ts") if key in ask}
        message = self.put(ask["text"], asked=ask, **kept)
        return {"ok": True, "channel": CHANNEL, "ts": message["ts"], "message": message}

    def _conversations_history(self, ask: Answer) -> Answer:
        if ask["channel"] != CHANNEL or not self.member:
            return _no("channel_not_found" if ask["channel"] != CHANNEL else "not_in_channel")
        return self._page(self.channel()[::-1], ask)

    def _conversations_replies(self, ask: Answer) -> Answer:
        if ask["channel"] != CHANNEL:
            return _no("channel_not_found")
        return self._page([m for m in self.messages if ask["ts"] in (m["ts"], m.get("thread_ts"))], ask)

    def _page(self, found: list[Answer], ask: Answer) -> Answer:
        newer = [m for m in found if float(m["ts"]) > float(ask.get("oldest", 0))]
        begin, size = int(ask.get("cursor") or 0), min(int(ask["limit"]), self.page)
        hidden = () if ask.get("include_all_metadata") in ("1", "true", "True", True) else ("metadata",)
        shown = [{key: m[key] for key in m if key not in hidden} for m in newer[begin : begin + size]]
        more = str(begin + size) if begin + size < len(newer) else ""
        return {"ok": True, "messages": shown, "response_metadata": {"next_cursor": more}}

    def _files_getUploadURLExternal(self, ask: Answer) -> Answer:  # noqa: N802
        name = f"F{len(self.uploads)}"
        self.uploads[name] = {"id": name, "name": ask["filename"], "length": int(ask["length"]), "alt": ask.get("alt_txt", "")}
        return {"ok": True, "file_id": name, "upload_url": f"{self.url}/upload/{name}"}

    def _files_completeUploadExternal(self, ask: Answer) -> Answer:  # noqa: N802
        if ask.get("channel_id") != CHANNEL:
            return _no("channel_not_found")
        asked = json.loads(ask["files"]) if isinstance(ask["files"], str) else ask["files"]
        files = [self.uploads[one["id"]] for one in asked]
        if any(len(one.get("body", b"")) != one["length"] for one in files):
            return _no("file_not_uploaded")
        shown = [{"id": one["id"], "name": one["name"], "title": two["title"]} for one, two in zip(files, asked, strict=True)]
        self.put("", files=shown, thread_ts=ask.get("thread_ts"))
        return {"ok": True, "files": shown}

    def hook(self, ask: Answer) -> tuple[int, str]:
        if wrong := faults_of(ask):
            return 400, wrong
        self.hooked.append(ask)
        return 200, "ok"


def _no(error: str) -> Answer:
    return {"ok": False, "error": error}


def faults_of(ask: Answer) -> str:
    """Slack's word for a message that is over a limit or has no form; empty when it is fine."""
    blocks = ask.get("blocks") or []
    if not ask.get("text") and not blocks:
        return "no_text"
    if len(ask.get("text", "")) > 40_000:
        return "msg_too_long"
    if len(blocks) > 50 or not all(map(_fine, blocks)):
        return "invalid_blocks"
    mark = ask.get("metadata")
    return "" if mark is None or {"event_type", "event_payload"} == set(mark) else "invalid_metadata_format"


def texts(block: Answer) -> Iterator[Answer]:
    """The text objects of a block."""
    yield from (block["text"],) if "text" in block else ()
    yield from block.get("fields", ())
    yield from block.get("elements", ())


def _fine(block: Answer) -> bool:
    limits = {"header": 150, "section": 2_000 if "fields" in block else 3_000, "context": 3_000, "divider": 0}
    if block["type"] not in limits or len(block.get("fields", ())) > 10 or len(block.get("elements", ())) > 10:
        return False
    kinds = {"plain_text"} if block["type"] == "header" else {"plain_text", "mrkdwn"}
    return all(1 <= len(text["text"]) <= limits[block["type"]] and text["type"] in kinds for text in texts(block))


class _Door(BaseHTTPRequestHandler):
    slack: Slack

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        method = path.removeprefix("/api/") if path.startswith("/api/") else path.split("/")[1]
        self.slack.calls.append(method)
        fault = next((x for x in self.slack.faults if x.method == method), None)
        if fault:
            self.slack.faults.remove(fault)
        if fault and fault.error:
            said = fault.error if method == "hook" or fault.status >= 500 else json.dumps(_no(fault.error))
            self._say(fault.status, said, {"Retry-After": fault.wait} if fault.wait else {})
            return
        status, said = self._do(method, path, body)
        if fault:
            self.close_connection = True
            return
        self._say(status, said, {})

    def _do(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if method == "upload":
            self.slack.uploads[path.rpartition("/")[2]]["body"] = body
            return 200, f"OK - {len(body)}"
        sent = self.headers.get("Content-Type", "")
        ask = json.loads(body) if "json" in sent else {key: one for key, (one, *_) in parse_qs(body.decode()).items()}
        if method == "hook":
            return self.slack.hook(ask)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return 200, json.dumps(self.slack.answer(method, token, ask))

    def _say(self, status: int, text: str, headers: dict[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        kind = "application/json" if text.startswith("{") else "text/plain"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing: what was called is in `calls`."""


@contextmanager
def serving() -> Iterator[Slack]:
    """A workspace on a free port of this machine, until the end of the block."""
    slack = Slack()
    door = type("Door", (_Door,), {"slack": slack})
    with ThreadingHTTPServer(("127.0.0.1", 0), door) as server:
        slack.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield slack
        finally:
            server.shutdown()
            thread.join()
