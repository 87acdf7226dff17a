"""Labels of the repository, and on issues and pull requests. Names are found whatever their case.

A label that is put on and does not exist is made, in grey; but with `issues: write` alone (for people: triage), because
`pull_requests: write` does not cover making one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.double import shapes
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, accepted, granted, paged, route, text
from tests.double.state import Issue, Label

HERE = "/repos/{owner}/{repo}/labels"
ON = "/repos/{owner}/{repo}/issues/{issue_number}/labels"
NAME, TEXT = 50, 100  # characters


def _checked(name: str | None, color: str | None, description: str | None) -> None:
    if name is not None and len(name) > NAME:
        raise Refused("long label")
    if color is not None and not re.fullmatch("[0-9a-fA-F]{6}", color):
        raise Refused("bad colour")
    if description is not None and len(description) > TEXT:
        raise Refused("long label text")


def _there(call: Call) -> Label:
    found = call.repo.labels.get(call.args["name"].lower())
    if found is None:
        raise Refused("not found")
    return found


def named(call: Call, wanted: Sequence[Any]) -> list[str]:
    """The names of labels that a body asks for (each a word or {"name": word}), as they are spelt here; missing ones are made."""
    names = [str(it["name"] if isinstance(it, dict) else it) for it in wanted]
    missing = [name for name in names if name.lower() not in call.repo.labels]
    if missing and call.who is not None and call.who.is_app and not granted(call.who, "issues", "write"):
        raise Refused("integration", headers=accepted("issues"))
    for name in missing:
        _checked(name, None, None)
        call.repo.labels.setdefault(name.lower(), Label(next(call.hub.ids), name))
    return list(dict.fromkeys(call.repo.labels[name.lower()].name for name in names))


@route("POST", HERE, needs="issues", role="triage", creates=False)
def create_label(call: Call) -> Answer:
    name, color, description = (text(call, key) for key in ("name", "color", "description"))
    if not name:
        raise Refused("missing", field="name")
    _checked(name, color, description)
    if name.lower() in call.repo.labels:
        raise Refused("label exists")
    made = call.repo.labels[name.lower()] = Label(next(call.hub.ids), name, (color or "ededed").lower(), description)
    return Answer(201, shapes.label(call.hub, call.repo, made))


@route("GET", HERE)
def list_labels(call: Call) -> Answer:
    return paged(call, [shapes.label(call.hub, call.repo, it) for it in call.repo.labels.values()])


@route("GET", HERE + "/{name}")
def get_label(call: Call) -> Answer:
    return Answer(200, shapes.label(call.hub, call.repo, _there(call)))


@route("PATCH", HERE + "/{name}", needs="issues", role="triage")
def patch_label(call: Call) -> Answer:
    label = _there(call)
    name, color, description = (text(call, key) for key in ("new_name", "color", "description"))
    _checked(name, color, description)
    if name and name.lower() != label.name.lower() and name.lower() in call.repo.labels:
        raise Refused("label exists")
    if name:
        for issue in call.repo.issues.values():
            issue.labels = [name if it == label.name else it for it in issue.labels]
        del call.repo.labels[label.name.lower()]
        label.name = name
        call.repo.labels[name.lower()] = label
    label.color = (color or label.color).lower()
    label.description = description if "description" in call.body else label.description
    return Answer(200, shapes.label(call.hub, call.repo, label))


@route("DELETE", HERE + "/{name}", needs="issues", role="triage")
def delete_label(call: Call) -> Answer:
    label = _there(call)
    for issue in call.repo.issues.values():
        issue.labels = [it for it in issue.labels if it != label.name]
    del call.repo.labels[label.name.lower()]
    return Answer(204)


# on an issue


def _shown(call: Call, issue: Issue) -> list[dict[str, Any]]:
    return [shapes.label(call.hub, call.repo, call.repo.labels[name.lower()]) for name in issue.labels]


def _asked(call: Call) -> list[str]:
    wanted = call.body.get("labels")
    if not isinstance(wanted, list):
        raise Refused("missing", field="labels")
    return named(call, wanted)


@route("GET", ON)
def labels_of(call: Call) -> Answer:
    return paged(call, _shown(call, call.issue()))


@route("POST", ON, needs="thread", role="triage")
def add_labels(call: Call) -> Answer:
    issue = call.issue()
    issue.labels = list(dict.fromkeys([*issue.labels, *_asked(call)]))
    return Answer(200, _shown(call, issue))


@route("PUT", ON, needs="thread", role="triage")
def set_labels(call: Call) -> Answer:
    issue = call.issue()
    issue.labels = _asked(call)
    return Answer(200, _shown(call, issue))


@route("DELETE", ON, needs="thread", role="triage")
def remove_labels(call: Call) -> Answer:
    call.issue().labels = []
    return Answer(204)


@route("DELETE", ON + "/{name}", needs="thread", role="triage")
def remove_label(call: Call) -> Answer:
    issue = call.issue()
    left = [name for name in issue.labels if name.lower() != call.args["name"].lower()]
    if left == issue.labels:
        raise Refused("no label")
    issue.labels = left
    return Answer(200, _shown(call, issue))
