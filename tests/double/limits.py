"""GitHub's budgets, by its own numbers: requests an hour for each token (always on), and the secondary limits (switched on).

The secondary limits cannot be read by a client on GitHub, and not here. Source: docs.github.com, "Rate limits for the REST API".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.double.refusals import Refused
from tests.double.state import Identity

HOUR, MINUTE = 3600.0, 60.0  # seconds


@dataclass
class _Window:
    reset: float
    used: int = 0


@dataclass
class Limits:
    """`hourly` by the kind of token. With `secondary`, a writer may create `creations` things a minute and `creations_hourly` an
    hour, and spend `points` a minute: 1 for a read, 5 for a write. `status` is 403 or 429: GitHub answers with either."""

    now: Callable[[], float]
    hourly: dict[str, int] = field(
        default_factory=lambda: {"pat": 5000, "github_token": 1000, "app": 5000, "jwt": 5000, "anonymous": 60}
    )
    secondary: bool = False
    status: int = 403
    creations: int = 80
    creations_hourly: int = 500
    points: int = 900
    retry_after: int = 60  # seconds
    _windows: dict[tuple[str, str], _Window] = field(default_factory=dict)
    _created: dict[str, deque[float]] = field(default_factory=dict)
    _spent: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def spend(self, who: Identity | None, resource: str, *, writes: bool, creates: bool) -> None:
        """Take one request from the budgets, or refuse it. A refused one costs nothing."""
        window = self._window(who, resource)
        if window.used >= self._limit(who):
            whom = "0.0.0.0" if who is None else f"{'installation' if who.is_app else 'user'} ID {who.user.id}"
            raise Refused("primary limit", headers=self.headers(who, resource), whom=whom)
        if self.secondary:
            self._spend_secondary(who.user.login if who else "", 5 if writes else 1, creates)
        window.used += 1

    def give_back(self, who: Identity | None, resource: str) -> None:
        """A 304 is free."""
        self._window(who, resource).used -= 1

    def headers(self, who: Identity | None, resource: str) -> dict[str, str]:
        window, limit = self._window(who, resource), self._limit(who)
        values = {"Limit": limit, "Remaining": max(limit - window.used, 0), "Reset": int(window.reset), "Used": window.used}
        return {f"X-RateLimit-{name}": str(value) for name, value in values.items()} | {"X-RateLimit-Resource": resource}

    def overview(self, who: Identity | None) -> dict[str, dict[str, int]]:
        """What /rate_limit shows of each resource."""
        names = ("limit", "remaining", "reset", "used")
        heads = {resource: self.headers(who, resource) for resource in ("core", "graphql", "search")}
        return {resource: {name: int(head[f"X-RateLimit-{name.title()}"]) for name in names} for resource, head in heads.items()}

    def exhaust(self, who: Identity | None, resource: str = "core") -> None:
        """All requests of this hour are used."""
        self._window(who, resource).used = self._limit(who)

    def _limit(self, who: Identity | None) -> int:
        return self.hourly[who.kind if who else "anonymous"]

    def _window(self, who: Identity | None, resource: str) -> _Window:
        key = (who.token if who else "", resource)
        if key not in self._windows or self._windows[key].reset <= self.now():
            self._windows[key] = _Window(reset=self.now() + HOUR)
        return self._windows[key]

    def _spend_secondary(self, login: str, points: int, creates: bool) -> None:
        now = self.now()
        created, spent = self._created.setdefault(login, deque()), self._spent.setdefault(login, deque())
        while created and created[0] <= now - HOUR:
            created.popleft()
        while spent and spent[0][0] <= now - MINUTE:
            spent.popleft()
        lately = sum(at > now - MINUTE for at in created)
        full = lately >= self.creations or len(created) >= self.creations_hourly
        if (creates and full) or sum(cost for _, cost in spent) + points > self.points:
            self.refuse()
        spent.append((now, points))
        created.extend([now] if creates else [])

    def refuse(self) -> None:
        """Answer as a secondary limit does."""
        key = "secondary limit 429" if self.status == 429 else "secondary limit"
        raise Refused(key, headers={"Retry-After": str(self.retry_after)})
