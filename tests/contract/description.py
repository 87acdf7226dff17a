"""GitHub's own description of REST and GraphQL as tests use it: which operation a call is, and what may be in it.

Not here: looking at a call (`__init__`), and what of GitHub's text is kept (prune.py).
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

import graphql
from openapi_core import Config, OpenAPI

from tests.contract.prune import OPENAPI, SCHEMA

# GitHub takes more than its schema lists, and says so in the description of the field: "You can also pass an `array` of labels
# directly" (https://docs.github.com/rest/issues/labels). PyGithub does.
NAMES = {"type": "array", "items": {"type": "string"}}
ALSO = {"issues/add-labels": NAMES, "issues/set-labels": NAMES}


@dataclass(frozen=True)
class Operation:
    """One entry of GitHub's description. `template` is its path, `names` the query parameters that it knows."""

    id: str
    url: str
    template: str
    names: frozenset[str]
    takes_body: bool
    statuses: frozenset[str]


def operation(method: str, path: str) -> Operation | None:
    """Which operation of GitHub's a call is: its name and page for whoever wants to cite it. None when there is none."""
    found = _found(path)
    return _operations()[found[0]].get(method.lower()) if found else None


@cache
def for_requests() -> OpenAPI:
    """For what is asked: a name that is not listed is an error."""
    whole = _closed(_whole(), _whole())
    for known in (known for item in whole["paths"].values() for known in item.values() if known["operationId"] in ALSO):
        content = known["requestBody"]["content"]["application/json"]
        content["schema"] = {"anyOf": [content["schema"], ALSO[known["operationId"]]]}
    return _api(whole)


@cache
def for_answers() -> OpenAPI:
    """For what is answered: the same, but nothing is required."""
    return _api(_loose(_closed(_whole(), _whole())))


@cache
def schema() -> graphql.GraphQLSchema:
    return graphql.build_schema(lzma.decompress(SCHEMA.read_bytes()).decode(), assume_valid=True)


def one_segment_each(path: str) -> str:
    """The same path with one segment for each placeholder, as openapi-core wants it: slashes of a branch or a file are quoted."""
    found = _found(path)
    assert found is not None, "only a path that is known is looked at further"
    template, values = found
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(unquote(value), safe=""))
    return template


def _found(path: str) -> tuple[str, dict[str, str]] | None:
    """The template that a path is of, and what stands in its places."""
    for template, pattern in _patterns():
        if match := pattern.fullmatch(path):
            return template, match.groupdict()
    return None


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Every template, those with more words of their own first: `/commits/{ref}/status` before `/commits/{ref}`."""
    whole = _whole()
    wide = {p["name"] for p in _parameters(whole) if p.get("x-multi-segment") and p["in"] == "path"}

    def pattern(template: str) -> re.Pattern[str]:
        places = re.sub(r"\\{(\w+)\\}", lambda m: f"(?P<{m[1]}>{'.+' if m[1] in wide else '[^/]+'})", re.escape(template))
        return re.compile(places)

    words = sorted(whole["paths"], key=lambda path: -sum(not part.startswith("{") for part in path.split("/")))
    return [(template, pattern(template)) for template in words]


def _parameters(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from whole["components"]["parameters"].values()
    for item in whole["paths"].values():
        for known in item.values():
            yield from (p for p in known["parameters"] if "$ref" not in p)


@cache
def _operations() -> dict[str, dict[str, Operation]]:
    """By template and verb."""
    whole = _whole()

    def one(template: str, known: dict[str, Any]) -> Operation:
        parameters = [_resolved(whole, p) for p in known["parameters"]]
        return Operation(
            id=known["operationId"],
            url=known["externalDocs"]["url"],
            template=template,
            names=frozenset(p["name"] for p in parameters if p["in"] == "query"),
            takes_body="requestBody" in known,
            statuses=frozenset(known["responses"]),
        )

    return {path: {verb: one(path, known) for verb, known in item.items()} for path, item in whole["paths"].items()}


@cache
def _whole() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(lzma.decompress(OPENAPI.read_bytes()))
    return whole


def _api(description: dict[str, Any]) -> OpenAPI:
    # prune.py had it validated; once more would take seconds.
    return OpenAPI.from_dict(description, config=Config(spec_validator_cls=None))


def _closed(node: Any, whole: dict[str, Any]) -> Any:
    """An object has the properties that are listed and no others, unless it says that others are welcome."""
    if isinstance(node, list):
        return [_closed(x, whole) for x in node]
    if not isinstance(node, dict):
        return node
    if len(node.get("allOf", ())) > 1:
        parts = [_resolved(whole, part) for part in node["allOf"]]
        lists = {"properties": {k: v for part in parts for k, v in part.get("properties", {}).items()}}
        node = {"type": "object", **lists, "required": [name for part in parts for name in part.get("required", ())]}
    closed = {k: _closed(v, whole) for k, v in node.items()}
    return {"additionalProperties": False, **closed} if "properties" in node else closed


def _loose(node: Any) -> Any:
    """Nothing is required; without that, one of several may be several of them. What is `nullable` may be null, whatever stands
    beside it: GitHub forgets null in the enums there."""
    if isinstance(node, list):
        return [_loose(x) for x in node]
    if not isinstance(node, dict):
        return node
    kept = {k: _loose(v) for k, v in node.items() if k != "discriminator" and (k != "required" or v is True)}
    loose = {"anyOf" if k == "oneOf" else k: v for k, v in kept.items()}
    if loose.pop("nullable", False) is True:
        return {"anyOf": [{"enum": [None], "nullable": True}, loose]}
    return loose


def _resolved(whole: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        _, _, kind, name = node["$ref"].split("/")
        node = whole["components"][kind][name]
    return node
