"""From a parsed request to an answer: who asks, whether the budget allows it, which route; then ETag and the common headers.

Knows nothing of sockets: server.py brings requests here, one at a time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from tests.double import actions, checks, commits, githttp, graphql, issues, labels, places, pulls, reviews, rulesets
from tests.double.limits import Limits
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, authorise, find
from tests.double.state import Hub, Identity, Repository

MODULES = (actions, checks, commits, issues, labels, places, pulls, reviews, rulesets)  # importing them fills the table of routes
_PLACE = re.compile(r"/repos/([^/]+/[^/]+)(/.*)?$")
_NUMBERED = re.compile(r"/repositories/(\d+)(/.*)?$")


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire; header names are Written-Like-This."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def surface(self) -> str:
        return "git" if ".git/" in self.path else "graphql" if self.path == "/graphql" else "rest"


@dataclass
class Heard:
    """What is known of a request once it is answered, for counting."""

    template: str = ""
    who: Identity | None = None
    creates: bool = False
    unknown: bool = False


@dataclass
class Api:
    hub: Hub
    limits: Limits
    heard: Heard = field(default_factory=Heard)

    def answer(self, request: Request) -> Answer:
        """The answer; what is known about the request beside is then in `heard`."""
        self.heard = Heard(template=request.path)
        if request.surface == "git":
            return self._git(request)
        resource = "graphql" if request.surface == "graphql" else "core"
        try:
            self.heard.who = self._identify(request)
            return self._headed(self._rest(request, resource), request, resource)
        except Refused as refused:
            return self._headed(_refusal(refused), request, resource)

    def _git(self, request: Request) -> Answer:
        self.heard.template = "/{owner}/{repo}.git/" + request.path.partition(".git/")[2]
        try:
            self.heard.who = githttp.identify(self.hub, request.headers.get("Authorization", ""))
            return githttp.serve(self.hub, request.method, request.path, request.query, request.headers, request.body)
        except Refused as refused:
            text = {"Content-Type": "text/plain; charset=utf-8"}
            return Answer(refused.refusal.status, None, text | refused.headers, f"{refused.words}\n".encode())

    def _identify(self, request: Request) -> Identity | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        token = header.partition(" ")[2]
        if token not in self.hub.tokens:
            raise Refused("bad credentials")
        return self.hub.tokens[token]

    def _rest(self, request: Request, resource: str) -> Answer:
        who = self.heard.who
        if request.path == "/rate_limit" and request.method == "GET":  # free
            shown = self.limits.overview(who)
            return Answer(200, {"resources": shown, "rate": shown["core"]})
        path = self._resolved(request)
        found = find(request.method, path) if resource == "core" else None
        self.heard.creates = found is not None and found[0].creates
        writes = request.method not in ("GET", "HEAD") if resource == "core" else b"mutation" in request.body
        self.limits.spend(who, resource, writes=writes, creates=self.heard.creates)
        body = _parsed(request)
        call = Call(self.hub, who, request.method, path, {}, dict(parse_qsl(request.query)), body, request.headers)
        if resource == "graphql":
            if who is None:
                raise Refused("anonymous")
            return Answer(200, graphql.answer(call))
        if found is None:
            self.heard.unknown = True
            raise Refused("no route")
        self.heard.template = found[0].template
        call.args = found[1]
        authorise(call, found[0])
        return found[0].handler(call)

    def _resolved(self, request: Request) -> str:
        """The path under the present name; a repository that was renamed is answered by a redirect to its number."""
        if match := _NUMBERED.match(request.path):
            numbered = self.hub.repositories.get(int(match[1]))
            return f"/repos/{numbered.full_name}{match[2] or ''}" if numbered else request.path
        match = _PLACE.match(request.path)
        if match and self.hub.repository(match[1]) is None and (moved := self._moved(match[1])):
            query = f"?{request.query}" if request.query else ""
            url = f"{self.hub.url}/repositories/{moved.id}{match[2] or ''}{query}"
            key = "moved" if request.method in ("GET", "HEAD") else "moved for now"
            raise Refused(key, headers={"Location": url})
        return request.path

    def _moved(self, name: str) -> Repository | None:
        return self.hub.repositories.get(self.hub.moved.get(name.lower(), 0))

    def _headed(self, answer: Answer, request: Request, resource: str) -> Answer:
        """Add what every answer has; a body that the client has already becomes a 304, which is free."""
        headers = {"X-GitHub-Media-Type": "github.v3; format=json", "X-GitHub-Request-Id": f"D0B1:{next(self.hub.ids):X}"}
        if request.method == "GET" and answer.status == 200 and answer.raw is None:
            tag = f'W/"{hashlib.sha256(json.dumps(answer.body).encode()).hexdigest()}"'
            headers["ETag"] = tag
            if request.headers.get("If-None-Match") == tag and request.path != "/rate_limit":
                self.limits.give_back(self.heard.who, resource)
                answer = Answer(304, None, answer.headers)
        headers |= self.limits.headers(self.heard.who, resource)
        return replace(answer, headers=headers | dict(answer.headers))


def _parsed(request: Request) -> Mapping[str, Any]:
    """The JSON object of the body. Labels may come as a bare list."""
    if not request.body.strip():
        return {}
    try:
        body = json.loads(request.body)
    except ValueError:
        raise Refused("not json") from None
    if isinstance(body, list) and request.path.endswith("/labels"):
        return {"labels": body}
    if body is not None and not isinstance(body, dict):
        raise Refused("not an object")
    return body or {}


def _refusal(refused: Refused) -> Answer:
    body = refused.body()
    if "Location" in refused.headers:
        body["url"] = refused.headers["Location"]
    return Answer(refused.refusal.status, body, refused.headers)
