"""Sockets: HTTP/1.1 with keep-alive on 127.0.0.1, a thread a connection, one request answered at a time; faults; the record."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.double import faults
from tests.double.api import Api, Heard, Request
from tests.double.refusals import Refused
from tests.double.routes import Answer


class Watcher(Protocol):
    """Looks at everything but git's own traffic, and at what was really answered: not at a fault. See tests/contract."""

    violations: list[str]

    def see(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> None: ...

    def answer(self, method: str, path: str, status: int, body: bytes) -> None: ...


@dataclass(frozen=True)
class Record:
    """One request that was answered, or deliberately was not (status 0)."""

    method: str
    template: str  # GitHub's path template; the path itself where there is no route
    path: str
    query: str
    surface: str  # rest | graphql | git
    status: int
    creates: bool  # content-creating
    writes: bool
    kind: str  # of the token; "" for none
    login: str
    seconds: float
    fault: str
    body: bytes


@dataclass
class Desk:
    """What the connections share. `hold` is how many seconds a time-out keeps the line."""

    api: Api
    faults: faults.Faults = field(default_factory=faults.Faults)
    records: list[Record] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    watcher: Watcher | None = None
    hold: float = 30.0
    lock: threading.RLock = field(default_factory=threading.RLock)
    closing: threading.Event = field(default_factory=threading.Event)

    def handle(self, request: Request) -> Answer | None:
        """The answer; None to hang up without one."""
        started = time.monotonic()
        with self.lock:
            fault = self.faults.due(request.method, request.path, request.surface)
            self.api.heard = Heard(template=request.path)
            answer = None if fault and not fault.endswith("after") else self._answered(request)
            heard = self.api.heard
            if fault:
                answer = _spoilt(fault, request)
            self._record(request, heard, answer, fault, time.monotonic() - started)
        if fault.startswith("time-out"):
            self.closing.wait(self.hold)
        return answer

    def _answered(self, request: Request) -> Answer:
        try:
            answer = self.api.answer(request)
        except Exception:  # noqa: BLE001 - whatever it is, it is the double's fault: told to the client, and again at the end
            self.crashes.append(f"{request.method} {request.path}\n{traceback.format_exc()}")
            return Answer(500, {"message": "the double broke, see Desk.crashes"})
        if self.watcher and request.surface != "git":
            self.watcher.see(request.method, request.path, request.query, request.headers, request.body)
            body = b"" if answer.body is None or answer.raw is not None else json.dumps(answer.body).encode()
            self.watcher.answer(request.method, request.path, answer.status, body)
        return answer

    def _record(self, request: Request, heard: Heard, answer: Answer | None, fault: str, seconds: float) -> None:
        writes = request.method not in ("GET", "HEAD")
        if request.surface == "graphql":
            writes = b"mutation" in request.body
        elif request.surface == "git":
            writes = request.path.endswith("git-receive-pack")
        self.unknown += [f"{request.method} {request.path}"] if heard.unknown else []
        who = heard.who
        self.records.append(Record(
            request.method, heard.template, request.path, request.query, request.surface, answer.status if answer else 0,
            heard.creates, writes, who.kind if who else "", who.user.login if who else "", seconds, fault, request.body,
        ))  # fmt: skip


def _spoilt(fault: str, request: Request) -> Answer | None:
    """What a fault puts in the place of the answer."""
    if fault in faults.DROPS:
        return None
    html = {"Content-Type": "text/html; charset=utf-8"}
    if fault in faults.STATUS:
        return Answer(faults.STATUS[fault], None, html, faults.HTML)
    refused: Refused = faults.refusal(fault)
    if request.surface == "git":
        return Answer(refused.refusal.status, None, refused.headers, f"{refused.words}\n".encode())
    return Answer(refused.refusal.status, refused.body(), refused.headers)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet: no wait for the other side's delayed acknowledgement
    server: Server

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        headers = {name.title(): value for name, value in self.headers.items()}
        answer = self.server.desk.handle(Request(self.command, path, query, headers, self._body()))
        if answer is None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(answer)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - the names are http.server's

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while line := self.rfile.readline():
            size = int(line.partition(b";")[0], 16)
            parts.append(self.rfile.read(size))
            self.rfile.readline()
            if not size:
                return b"".join(parts)
        raise ConnectionAbortedError("the client hung up in the middle of a body")

    def _send(self, answer: Answer) -> None:
        empty = answer.status in (204, 304)
        data = b"" if empty else answer.raw if answer.raw is not None else json.dumps(answer.body).encode()
        headers: dict[str, Any] = {"Content-Type": "application/json; charset=utf-8"} if answer.raw is None and not empty else {}
        headers |= dict(answer.headers) | ({} if empty else {"Content-Length": len(data)})
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        with contextlib.suppress(ConnectionError):  # the client went away: its right
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing: `Desk.records` has it all."""


class Server(ThreadingHTTPServer):
    """Listens from when it is made; `close` ends every connection and waits for every thread."""

    daemon_threads = False
    request_queue_size = 64

    def __init__(self, desk: Desk) -> None:
        self.desk, self._open = desk, set[socket.socket]()
        super().__init__(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="github-double")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def server_bind(self) -> None:
        """Without the look-up of the host's own name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error; anything else is one of ours, and is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        self.desk.closing.set()
        self.shutdown()
        self._thread.join()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
