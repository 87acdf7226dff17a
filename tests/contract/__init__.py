"""What GitHub says of its own interface, as oracles for tests: is this call, this answer, this GraphQL text one it knows?

    check_call("POST", "/repos/o/r/check-runs", body=b"{}")  ->  ["checks/create: 'name' is a required property", ...]

Each oracle returns its complaints as sentences, none when all is well; a prepared request goes through `check`, and a server that
wants all of its traffic looked at hands it to a `Checked`. The texts are GitHub's, made smaller (prune.py, PROVENANCE.md). We
are stricter than they are in one thing: a name that they do not list is a complaint, where GitHub would drop it in silence.
Not here: what GitHub does (a double's business), and smart HTTP of git.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import graphql
import requests
from graphql.execution.values import get_variable_values
from jsonschema.exceptions import ValidationError, best_match  # type: ignore[import-untyped]
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.contract.description import Operation, for_answers, for_requests, one_segment_each, operation, schema

__all__ = ["Checked", "Operation", "check", "check_answer", "check_call", "check_query", "operation"]

JSON = {"Content-Type": "application/json"}
# May come from any operation, listed or not: https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api
ANYWHERE = {301, 304, 307, 401, 403, 404, 429}
GRAPHQL_BODY = ("query", "variables", "operationName")
WIDEST = 160  # characters of one complaint: some quote the whole body


@dataclass
class Checked:
    """Everything that a server was asked and said, looked at: hand each call to `see` and each answer to `answer`."""

    calls: int = 0
    violations: list[str] = field(default_factory=list)

    def see(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> None:
        self.calls += 1
        self.violations += check_call(method, path, query, headers, body)

    def answer(self, method: str, path: str, status: int, body: bytes) -> None:
        self.violations += check_answer(method, path, status, body)


def check(request: requests.PreparedRequest | urllib.request.Request) -> list[str]:
    """A call that is ready to be sent, to whatever host."""
    url, body = urlsplit(request.full_url if isinstance(request, urllib.request.Request) else str(request.url)), b""
    raw = request.data if isinstance(request, urllib.request.Request) else request.body
    if raw:
        assert isinstance(raw, str | bytes), "a body that is read while it is sent cannot be looked at before"
        body = raw.encode() if isinstance(raw, str) else raw
    method = request.get_method() if isinstance(request, urllib.request.Request) else str(request.method)
    return check_call(method, url.path, url.query, {k: str(v) for k, v in request.headers.items()}, body)


def check_call(method: str, path: str, query: str = "", headers: Mapping[str, str] = JSON, body: bytes = b"") -> list[str]:
    """A call as a server sees it; `path` and `query` as they stand in the request line. `/graphql` goes to `check_query`."""
    if path == "/graphql":
        return _check_graphql(method, body)
    known = operation(method, path)
    if known is None:
        return [f"{method} {path}: not an operation of GitHub's, or not one that prune.py keeps"]
    asked = parse_qs(query, keep_blank_values=True)
    complaints = [f"no query parameter {name}" for name in asked if name not in known.names]
    complaints += [] if known.takes_body or body in (b"", b"{}", b"null") else ["takes no body"]
    seen = _Seen(method, path, ImmutableMultiDict([(k, v) for k, vs in asked.items() for v in vs]), Headers(dict(headers)), body)
    complaints += [said for error in for_requests().iter_request_errors(seen) for said in _said(error)]
    return [f"{known.id}: {complaint}" for complaint in complaints]


def check_answer(method: str, path: str, status: int, body: bytes) -> list[str]:
    """What a double answers: a status that GitHub lists for this operation, and in the body only fields it knows, of its types.

    A double need not send every field. 5xx says nothing; an unknown path is the call's fault and said there."""
    known = operation(method, path)
    if known is None or status >= 500 or path == "/graphql":
        return []
    if str(status) not in known.statuses:
        return [] if status in ANYWHERE else [f"{known.id}: GitHub lists no answer {status} here"]
    seen, answer = _Seen(method, path, ImmutableMultiDict(), Headers(JSON), b""), _Answer(status, body)
    errors = for_answers().iter_response_errors(seen, answer) if body else ()
    return [f"{known.id}: answer {status}: {said}" for error in errors for said in _said(error)]


def check_query(text: str, variables: Mapping[str, Any]) -> list[str]:
    """A GraphQL document and its variables."""
    try:
        document = graphql.parse(text)
    except graphql.GraphQLSyntaxError as error:
        return [f"graphql: {error.message}"]
    complaints = [error.message for error in graphql.validate(schema(), document)]
    for node in document.definitions if not complaints else ():
        if isinstance(node, graphql.OperationDefinitionNode):
            values = get_variable_values(schema(), node.variable_definitions, dict(variables))
            complaints += [error.message for error in values] if isinstance(values, list) else []
            names = {definition.variable.name.value for definition in node.variable_definitions}
            complaints += [f"variable ${name} is not declared" for name in variables if name not in names]
    return [f"graphql: {_short(complaint)}" for complaint in complaints]


def _check_graphql(method: str, body: bytes) -> list[str]:
    try:
        asked = json.loads(body)
    except ValueError:
        return ["graphql: the body is not JSON"]
    text, variables = (asked.get("query"), asked.get("variables") or {}) if isinstance(asked, dict) else (None, {})
    if not isinstance(text, str) or not isinstance(variables, dict):
        return ["graphql: the body is not an object with a query, and variables by name"]
    complaints = [] if method == "POST" else [f"graphql: {method}, not POST"]
    complaints += [f"graphql: no field {name} in the body" for name in asked if name not in GRAPHQL_BODY]
    return complaints + check_query(text, variables)


class _Seen:
    """A call in the form that openapi-core asks for. The path is written with one segment for each placeholder."""

    host_url = ""

    def __init__(self, method: str, path: str, query: ImmutableMultiDict[str, str], headers: Headers, body: bytes) -> None:
        self.method, self.body = method.lower(), body or None
        self.content_type = headers.get("Content-Type", "").lower()
        self.parameters = RequestParameters(query=query, header=headers)
        self.path = one_segment_each(path)


class _Answer:
    """An answer in the form that openapi-core asks for."""

    content_type = JSON["Content-Type"]
    headers = JSON

    def __init__(self, status: int, body: bytes) -> None:
        self.status_code, self.data = status, body


def _said(error: Exception) -> list[str]:
    """What openapi-core found, in the words of the schema's own errors where there are some."""
    causes = getattr(error.__cause__, "schema_errors", ()) if isinstance(error, OpenAPIError) else ()
    return [_short(_located(best_match([cause]))) for cause in causes] or [_short(str(error.__cause__ or error))]


def _located(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    return f"{where}: {error.message}" if where else str(error.message)


def _short(text: str) -> str:
    """The beginning and the end: the value stands before what is wrong with it."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST // 2]} ... {text[-WIDEST // 2 :]}"
