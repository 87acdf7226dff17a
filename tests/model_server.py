"""A model's server for tests: it sends the next of the replies that it was given, as they are, and keeps what it was asked.

For what a well-behaved double cannot say: answers that do not fit, refusals, half a stream, a web page, nonsense.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from bot.propose.money import Price
from bot.propose.wire import Model, ModelSettings, connect

KEY = "sk-verysecret-0123456789"
PRICE = Price(input=1.0, cached=0.1, output=10.0)
WHOLE = ModelSettings(model="m", stream=False, prices={"m": PRICE})


@dataclass
class Clock:
    """Time that passes only while one sleeps."""

    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def __call__(self) -> float:
        return sum(self.slept)


def model(url: str, settings: ModelSettings = WHOLE, *, seconds: float = 5.0, luck: float = 0.5) -> tuple[Model, Clock]:
    clock = Clock()
    client = connect(url, KEY, seconds)
    return Model(settings=settings, client=client, clock=clock, sleep=clock.sleep, luck=lambda: luck), clock


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`missing`: so many bytes more are announced than are sent, and then the connection ends. `held`: it comes once that is
    set."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    missing: int = 0
    held: Event | None = None


@dataclass
class Server:
    url: str
    replies: list[Reply] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def will(self, *replies: Reply) -> Server:
        self.replies.extend(replies)
        return self


@contextmanager
def serving() -> Iterator[Server]:
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.paths.append(self.path)
            server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            reply = server.replies.pop(0) if server.replies else error(500, "nothing more to say")
            if reply.held:
                reply.held.wait(60)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body) + reply.missing))
            for name, value in reply.headers:
                self.send_header(name, value)
            with suppress(ConnectionError):  # nobody waits for it any more
                self.end_headers()
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def error(status: int, message: str, *, code: str = "", param: str = "", **headers: str) -> Reply:
    """An error as OpenAI tells it."""
    told = {"error": {"message": message, "type": "error", "code": code or None, "param": param or None}}
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(body=json.dumps(told).encode(), status=status, headers=named)


Tokens = tuple[int, int] | None  # read and written


def chat(text: object, *, finish: str | None = "stop", usage: Tokens = (1000, 100), **message: object) -> Reply:
    """A whole answer of /chat/completions."""
    body: dict[str, Any] = {"object": "chat.completion", "model": "served"}
    body["choices"] = [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text} | message}]
    if usage:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Reply(body=json.dumps(body).encode())


def streamed(*events: object, done: bool = True, missing: int = 0) -> Reply:
    """A stream of events; a text is sent as it is."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events] + (["[DONE]"] if done else [])
    body = "".join(f"data: {line}\n\n" for line in lines).encode()
    return Reply(body=body, kind="text/event-stream", missing=missing)


def pieces(*texts: str, finish: str | None = "stop", usage: Tokens = (1000, 100)) -> list[dict[str, Any]]:
    """The chunks of a chat stream."""
    chunks: list[dict[str, Any]] = [{"model": "served", "choices": [{"index": 0, "delta": {"content": t}}]} for t in texts]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        chunks.append({"choices": [], "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]}})
    return chunks


def response(text: str, *, status: str = "completed", why: str = "", refusal: str = "", **more: object) -> dict[str, Any]:
    """A body of /responses."""
    part = {"type": "refusal", "refusal": refusal} if refusal else {"type": "output_text", "text": text}
    usage = {"input_tokens": 1000, "output_tokens": 100, "input_tokens_details": {"cached_tokens": 400}}
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [part]}]
    details = {"reason": why} if why else None
    return {"model": "served", "status": status, "output": output, "usage": usage, "incomplete_details": details} | more
