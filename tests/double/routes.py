"""How a request finds what answers it, and what every answer has in common: rights, pages, bodies.

`@route` enters a function in ROUTES under GitHub's own path template, with the permission that an app's token needs and the role
that a person needs. `{number}`s are digits; `{ref}`, `{path}`, `{basehead}` and `{branch}` may hold slashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode

from tests.double.refusals import Refused
from tests.double.state import ROLES, Hub, Identity, Issue, Pull, Repository, User

WIDE = ("ref", "path", "basehead", "branch")
DIGITS = ("issue_number", "pull_number", "comment_id", "check_run_id", "review_id", "run_id", "repository_id")


@dataclass(frozen=True)
class Answer:
    """What goes back: JSON, or `raw` bytes as they are; neither with 204."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Call:
    """One request that has found its route, and who sent it. `body` is {} when there is none."""

    hub: Hub
    who: Identity | None
    method: str
    path: str
    args: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    needs: str = ""

    @property
    def repo(self) -> Repository:
        found = self.hub.repository(f"{self.args['owner']}/{self.args['repo']}")
        assert found is not None, "authorise() looked"
        return found

    @property
    def user(self) -> User:
        """Who writes; authorise() has let nobody else through."""
        assert self.who is not None, "authorise() looked"
        return self.who.user

    @property
    def app(self) -> int:
        return self.who.app if self.who else 0

    def issue(self, name: str = "issue_number") -> Issue:
        """The issue or pull request of the path."""
        number = int(self.args[name])
        if number not in self.repo.issues:
            raise Refused("not found")
        return self.repo.issues[number]

    def pull(self) -> tuple[Issue, Pull]:
        issue = self.issue("pull_number")
        if issue.pull is None:
            raise Refused("not found")
        return issue, issue.pull

    def may(self, role: str) -> bool:
        """Whether the user has at least that role; an app's token stands for its permissions, which authorise() checked."""
        return self.who is not None and (self.who.is_app or _rank(self.repo.role(self.who.user.login)) >= _rank(role))

    def require(self, role: str) -> None:
        if not self.may(role):
            raise Refused("person", headers=accepted(self.needs))


Handler = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """One endpoint. `needs` is an app's permission ("thread": issues, or on a pull request pull_requests); `role` a person's."""

    method: str
    template: str
    pattern: re.Pattern[str]
    handler: Handler
    needs: str
    role: str
    creates: bool  # counts as content creation for the secondary limits
    always: bool  # the permission is asked for on public repositories and for reading too


ROUTES: list[Route] = []


def route(
    method: str, template: str, *, needs: str = "", role: str = "read", creates: bool = False, always: bool = False
) -> Callable[[Handler], Handler]:
    def enter(handler: Handler) -> Handler:
        ROUTES.append(Route(method, template, _pattern(template), handler, needs, role, creates, always))
        return handler

    return enter


def _pattern(template: str) -> re.Pattern[str]:
    def hole(match: re.Match[str]) -> str:
        name = match[1]
        return f"(?P<{name}>{'.+' if name in WIDE else '[0-9]+' if name in DIGITS else '[^/]+'})"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", hole, re.escape(template)) + "/?$")


@cache
def _ordered() -> list[Route]:
    return sorted(ROUTES, key=lambda it: (-it.template.count("/"), any(f"{{{name}}}" in it.template for name in WIDE)))


def find(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a request and what fills its holes; a wide hole does not swallow the end of a longer template."""
    for candidate in _ordered():
        if candidate.method == method and (match := candidate.pattern.match(path)):
            return candidate, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


# rights


def _rank(role: str) -> int:
    return ROLES.index(role)


def accepted(needs: str, level: str = "write") -> dict[str, str]:
    return {"X-Accepted-GitHub-Permissions": f"{needs}={level}"} if needs else {}


def visible(repo: Repository, who: Identity | None) -> bool:
    if not repo.private:
        return True
    return who is not None and (who.is_app or repo.role(who.user.login) != "none")


def granted(who: Identity, needs: str, level: str) -> bool:
    """Whether an app's token has a permission; write includes read."""
    return who.permissions.get(needs, "") in (("write",) if level == "write" else ("read", "write"))


def _thread(call: Call) -> str:
    """Which permission a conversation needs: that of what it hangs on."""
    number = call.args.get("issue_number") or call.args.get("pull_number")
    if number is None and int(call.args["comment_id"]) in call.repo.comments:
        number = str(call.repo.comments[int(call.args["comment_id"])].number)
    there = call.repo.issues.get(int(number)) if number else None
    return "pull_requests" if there and there.pull else "issues"


def authorise(call: Call, it: Route) -> None:
    """Let the call through, or refuse it as GitHub would: first whether it can be seen, then whether it may be done."""
    writes = call.method not in ("GET", "HEAD")
    repo = call.hub.repository(f"{call.args['owner']}/{call.args['repo']}") if "owner" in call.args else None
    if "owner" in call.args and (repo is None or not visible(repo, call.who)):
        raise Refused("not found")
    if writes and call.who is None:
        raise Refused("anonymous")
    if repo is None:
        return
    if writes and repo.archived:
        raise Refused("archived")
    call.needs = _thread(call) if it.needs == "thread" else it.needs
    if not (writes or it.always or repo.private):
        return
    level = "write" if writes else "read"
    if call.who is None:
        raise Refused("not found")
    if call.who.is_app and call.needs and not granted(call.who, call.needs, level):
        raise Refused("integration", headers=accepted(call.needs, level))
    call.require(it.role)


# bodies and pages


def text(call: Call, name: str) -> str | None:
    """A text field of the body; None when it is absent or null."""
    value = call.body.get(name)
    return None if value is None else str(value)


def paged(call: Call, items: Sequence[Any], *, wrap: str = "") -> Answer:
    """One page of a list with its Link header; `wrap` names the field that holds it beside total_count."""
    size = min(max(int(call.query.get("per_page", "30") or 30), 1), 100)
    page = max(int(call.query.get("page", "1") or 1), 1)
    last = max((len(items) + size - 1) // size, 1)
    part = list(items[(page - 1) * size : page * size])
    back = {"prev": page - 1, "first": 1} if page > 1 else {}
    ahead = back | ({"next": page + 1, "last": last} if page < last else {})

    def url(number: int) -> str:
        return f"{call.hub.url}{call.path}?{urlencode({**call.query, 'page': number})}"

    link = ", ".join(f'<{url(number)}>; rel="{rel}"' for rel, number in ahead.items())
    body = {"total_count": len(items), wrap: part} if wrap else part
    return Answer(200, body, {"Link": link} if link else {})
