"""GitHub as other people have rebuilt it, started for tests: `emulate` (npm), which is also a Slack, and `myworld` (PyPI).

Ours (tests/double) shares our mistakes of reading; these do not. Each has gaps of its own, so a test asks each only what it does
like GitHub: `emulate` keeps issues, comments, labels, checks and pull requests, but merges what conflicts; `myworld` knows real
conflicts, required checks and faults, but takes no check runs. Neither speaks git over HTTP.

A client reaches both through `Front`, which has every call looked at (`Checked`) and makes addresses in answers point back to it:
PyGithub refuses any other host.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slack_sdk.web import WebClient

from tests.contract import Checked

NPM = Path(__file__).resolve().parent / "npm"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "npm"
START_SECONDS, INSTALL_SECONDS = 30.0, 90.0
NODE = 20  # the least major version that emulate 0.11.2 starts on
OWN = ("connection", "content-encoding", "content-length", "date", "server", "transfer-encoding")  # headers of one hop
NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-timeout=20000")
OWNER = "ann"


class Missing(Exception):
    """A double cannot be had on this machine; the message says why and what would help."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A fresh repository. `url` is for the client and is looked at; `ask` goes behind it, for what other people do. `control`
    is the double's own interface, where it has one."""

    url: str
    token: str
    name: str
    checked: Checked
    ask: Callable[..., Any]
    control: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A workspace of Slack with one channel. `api` and `token` are the bot's, with the scopes that our docs ask for."""

    api: str
    token: str
    channel: str
    person: WebClient

    def messages(self) -> list[dict[str, Any]]:
        """What stands in the channel, the newest first, each with its thread under `thread`."""
        found = self.person.conversations_history(channel=self.channel)["messages"]
        threads = [self.person.conversations_replies(channel=self.channel, ts=message["ts"])["messages"] for message in found]
        return [message | {"thread": thread[1:]} for message, thread in zip(found, threads, strict=True)]


class Front(ThreadingHTTPServer):
    """What stands before a double at `behind`, which calls itself `alias`."""

    daemon_threads = True

    def __init__(self, behind: str, alias: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.alias, self.checked = behind, alias, Checked()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    """Looks at a call, hands it on, and hands the answer back."""

    protocol_version = "HTTP/1.1"
    server: Front

    def hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        self.server.checked.see(self.command, path, query, dict(self.headers), body)
        status, headers, data = _forward(self.server.behind, self.command, self.path, dict(self.headers), body)
        data = data.replace(self.server.alias.encode(), self.server.url.encode())
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in OWN:
                self.send_header(name, value.replace(self.server.alias, self.server.url))
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if status not in (204, 304) else b"")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = hand_on  # noqa: N815 - these names are http.server's

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _forward(
    behind: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    to = urlsplit(behind)
    assert to.hostname is not None, "every double has an address"
    connection = http.client.HTTPConnection(to.hostname, to.port, timeout=START_SECONDS)
    with contextlib.closing(connection):
        kept = {k: v for k, v in headers.items() if k.lower() not in (*OWN, "host", "accept-encoding")}
        connection.request(method, to.path + path, body or None, kept)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()


@contextlib.contextmanager
def emulate(cache: Path = CACHE) -> Iterator[Callable[[], Place]]:
    """vercel-labs' emulator. Gives a function that makes a place. Raises Missing."""
    token = "made-up-token-of-ann"  # without a seed any token would be the first user's
    seed = {"tokens": {token: {"login": OWNER, "scopes": ["repo"]}}, "github": {"users": [{"login": OWNER, "name": "Ann"}]}}
    with _emulating("github", seed, cache) as port, _front(f"http://127.0.0.1:{port}", f"http://localhost:{port}") as front:
        names = (f"repo-{n}" for n in itertools.count(1))

        def place() -> Place:
            ask = _asker(front.behind, token)
            name = ask("POST", "/user/repos", {"name": next(names), "auto_init": True})["full_name"]
            return _place(front, token, name, ask, ask)

        yield place


@contextlib.contextmanager
def slack(cache: Path = CACHE) -> Iterator[Chat]:
    """The same emulator as a Slack. It keeps scopes and threads, but none of Slack's limits. Raises Missing."""
    bot, person = "xoxb-made-up-token-of-the-bot", "xoxp-made-up-token-of-ann"
    scopes = {bot: ["chat:write", "files:write", "channels:history"], person: ["channels:read", "channels:history"]}
    tokens = {token: {"login": OWNER, "scopes": of} for token, of in scopes.items()}
    channels = {"strict_scopes": True, "channels": [{"name": "reports", "topic": ""}]}
    with _emulating("slack", {"tokens": tokens, "slack": channels}, cache) as port:
        api = f"http://127.0.0.1:{port}/api/"
        client = WebClient(person, base_url=api)
        (channel,) = [it["id"] for it in client.conversations_list()["channels"] if it["name"] == "reports"]
        yield Chat(api=api, token=bot, channel=channel, person=client)


@contextlib.contextmanager
def _emulating(service: str, seed: Mapping[str, Any], cache: Path) -> Iterator[int]:
    """The port of an emulator that runs. Raises Missing."""
    program, port = _installed(cache) / "node_modules" / "emulate" / "dist" / "index.js", _free_port()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "seed.yaml").write_text(json.dumps(seed))  # JSON is YAML
        command = ("node", str(program), "start", "--service", service, "--port", str(port), "--seed", "seed.yaml")
        with _running(command, port, folder):
            yield port


@contextlib.contextmanager
def myworld() -> Iterator[Callable[[Mapping[str, Any]], Place]]:
    """A host of made-up worlds. Gives a function that makes a place in a new one, whose repository is as told: files, branches,
    protected, pulls. `control` takes faults (PUT /faults)."""
    port = _free_port()
    host = f"http://127.0.0.1:{port}"
    start = "from myworld.cli import main; main()"
    command = (sys.executable, "-c", start, "serve", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_running(command, port, stack.enter_context(tempfile.TemporaryDirectory())))
        front = stack.enter_context(_front(f"{host}/gw/api.github.com", "https://api.github.com"))
        names = (f"world-{n}" for n in itertools.count(1))

        def place(repository: Mapping[str, Any]) -> Place:
            name, world = f"{OWNER}/lab", next(names)
            seed = {"viewer": OWNER, "users": [{"login": OWNER}, {"login": "bob"}], "repos": [{"name": name, **repository}]}
            spec = {"name": world, "task": "none", "servers": {"github": {"seed": seed}}}
            made = _asker(host, "")("POST", "/envs", {"spec": spec, "id": world})
            token = made["credentials"]["agent"]["github_token"]
            control = _asker(f"{host}/instances/{world}-github", "")
            return _place(front, token, name, _asker(front.behind, token), control)

        yield place


def _place(front: Front, token: str, name: str, ask: Callable[..., Any], control: Callable[..., Any]) -> Place:
    front.checked = Checked()
    return Place(url=front.url, token=token, name=name, checked=front.checked, ask=ask, control=control)


def _asker(base: str, token: str) -> Callable[..., Any]:
    """Calls on `base`: (method, path, body) -> what it answers. Raises HTTPError."""

    def ask(method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"token {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(base + path, data, headers, method=method), timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    return ask


@contextlib.contextmanager
def _front(behind: str, alias: str) -> Iterator[Front]:
    with Front(behind, alias) as front:
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield front
        finally:
            front.shutdown()
            thread.join()


@contextlib.contextmanager
def _running(command: tuple[str, ...], port: int, folder: str) -> Iterator[None]:
    """A program that listens on the port, until the end. It has no environment of ours but PATH."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder}
    with (Path(folder) / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _await(process, port, Path(folder) / "output")
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"{process.args!r} does not listen on {port}: {output.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _installed(cache: Path) -> Path:
    """The folder with node_modules as npm/package-lock.json says; made the first time, in seconds. Raises Missing."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Missing(f"emulate needs node {NODE} or newer and npm; they are not on the PATH")
    version = _run("node", "--version").stdout.strip()
    if int(re.match(r"v(\d+)", version)[1]) < NODE:  # type: ignore[index]
        raise Missing(f"emulate needs node {NODE} or newer; this one is {version}")
    folder = cache / hashlib.sha256((NPM / "package-lock.json").read_bytes()).hexdigest()[:16]
    if not folder.exists():
        _install(folder)
    return folder


def _install(folder: Path) -> None:
    """Into a folder beside it, which then takes its name: two at the same time do no harm. Raises Missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        made = shutil.copytree(NPM, Path(beside) / "made")
        done = _run("npm", "ci", *NPM_OPTIONS, "--prefix", str(made))
        if done.returncode:
            words = " ".join(done.stderr.split())[:300]
            raise Missing(f"npm could not install emulate ({words}): is the registry reachable?")
        with contextlib.suppress(OSError):  # another one was first
            made.rename(folder)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(command[:2])} took more than {INSTALL_SECONDS:.0f} s") from None
