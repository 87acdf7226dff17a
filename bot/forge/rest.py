"""One way to ask GitHub's REST and GraphQL interface: what may be repeated is repeated, what may not is told.

PyGithub signs, paces and sends. Its own retries are off: they send a POST again after a 504 that was obeyed, so that a comment
stands there twice, and they sleep until a rate limit is reset, up to an hour, in the middle of a job. Here a GET is repeated a
few times; a write never is: `Busy` says that it may have been done or not, and the caller looks before it writes again.

Limits (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api): after a refusal for a limit nothing
is sent before `retry-after`, or the reset of an exhausted primary limit, or a minute that doubles each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import github
import requests
from github.Requester import Requester

from bot.forge import ForgeError
from bot.remote import Busy

AGAIN_SECONDS = (1.0, 4.0)  # before the second and the third try of a GET
LEAST_WAIT, MOST_WAIT = 60.0, 900.0  # after a limit whose end nobody told
UNSURE_SECONDS = 10.0
PER_PAGE = 100
PAGES = 50


class Refused(ForgeError):
    """GitHub says no to what was asked, and means it: `status` 404, 405, 409, 410, 422, 403 and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"GitHub says {status}: {words}")
        self.status = status
        self.words = words


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds between any two requests and between two writes (serial, at least one second between writes), and to wait for an
    answer."""

    requests: float = 0.1
    writes: float = 1.0
    answer: float = 20.0


@dataclass(kw_only=True)
class Rest:
    """One repository (`owner/name`) through one token. `sleep` and `now` are the world's."""

    api: str
    token: str = field(repr=False)
    name: str
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    pace: Pace = field(default_factory=Pace)
    _busy_until: float = 0.0
    _wait: float = LEAST_WAIT
    _requester: Requester = field(init=False, repr=False)
    _seen: dict[str, tuple[str, Any]] = field(default_factory=dict, repr=False)  # path -> (etag, what it was)

    def __post_init__(self) -> None:
        self._requester = Requester(
            auth=github.Auth.Token(self.token), base_url=self.api, timeout=self.pace.answer,  # type: ignore[arg-type]
            user_agent="autoresearch", per_page=PER_PAGE, verify=True, retry=None, pool_size=None,
            seconds_between_requests=self.pace.requests, seconds_between_writes=self.pace.writes,
        )  # fmt: skip

    @property
    def repo(self) -> str:
        return f"/repos/{self.name}"

    def get(self, path: str, **parameters: Any) -> Any:
        """What is there now. An answer that did not change since the last time costs nothing of the limit (304).

        Raises Refused, Busy, ForgeError."""
        key = f"{path}?{sorted(parameters.items())}"
        etag, known = self._seen.get(key, ("", None))
        headers, data = self._patiently("GET", path, parameters, None, {"If-None-Match": etag} if etag else {})
        if data is None and etag:
            return known
        if "etag" in headers:
            self._seen[key] = (headers["etag"], data)
        return data

    def pages(self, path: str, **parameters: Any) -> list[Any]:
        """All entries of a list, page by page."""
        found: list[Any] = []
        for page in range(1, PAGES + 1):
            more = self.get(path, per_page=PER_PAGE, page=page, **parameters)
            entries = more if isinstance(more, list) else next((x for x in more.values() if isinstance(x, list)), [])
            found += entries
            if len(entries) < PER_PAGE:
                break
        return found

    def write(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST, PATCH, PUT or DELETE, sent once. Raises Refused, ForgeError, and Busy: then it may have been done or not."""
        return self._once(verb, path, {}, body or {}, {})[1]

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """The `data` of an answer. Raises Refused (400) with the first error's words, Busy, ForgeError."""
        return self._send(lambda: self._requester.graphql_query(query, variables))[1]["data"]  # type: ignore[no-any-return]

    def _patiently(self, *asked: Any) -> tuple[dict[str, Any], Any]:
        for pause in AGAIN_SECONDS:
            try:
                return self._once(*asked)
            except Busy as busy:
                if self._busy_until > self.now() or busy.seconds > UNSURE_SECONDS:
                    raise
                self.sleep(pause)
        return self._once(*asked)

    def _once(self, verb: str, path: str, parameters: Any, body: Any, headers: dict[str, str]) -> tuple[dict[str, Any], Any]:
        return self._send(lambda: self._requester.requestJsonAndCheck(verb, path, parameters, dict(headers), body))

    def _send(self, ask: Callable[[], tuple[dict[str, Any], Any]]) -> tuple[dict[str, Any], Any]:
        if (left := self._busy_until - self.now()) > 0:
            raise Busy("GitHub asked us to wait", left)
        try:
            headers, data = ask()
        except github.GithubException as error:
            raise self._explain(error) from None
        except (requests.RequestException, OSError, ValueError, AssertionError, RuntimeError) as error:
            raise Busy(f"{self.api} gave no answer that can be read ({type(error).__name__})", UNSURE_SECONDS) from None
        if isinstance(data, dict) and set(data) <= {"data", "url"} and isinstance(data.get("data"), str):
            raise Busy(f"{self.api} answered with something that is no JSON", UNSURE_SECONDS)
        if isinstance(data, dict) and data.get("message") == "Moved Permanently":
            raise ForgeError(f"{self.name} was renamed or moved: start again, under its new name")
        self._wait = LEAST_WAIT
        return headers, data

    def _explain(self, error: github.GithubException) -> Exception:
        headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
        words = _words(error.data) or f"status {error.status}"
        if error.status in (403, 429) and (seconds := self._limit(headers, words, error.status)):
            self._busy_until = self.now() + seconds
            return Busy(f"GitHub's rate limit: {words}", seconds)
        if error.status >= 500 or error.status == 408:
            return Busy(f"GitHub answered {error.status}", UNSURE_SECONDS)
        if error.status == 401:
            return ForgeError("GitHub does not know the token (401): give a valid one in GITHUB_TOKEN")
        if "archived" in words:
            return ForgeError(f"{self.name} is archived, nothing can be written: unarchive it, or leave it at that")
        return Refused(error.status, words)

    def _limit(self, headers: dict[str, str], words: str, status: int) -> float:
        """Seconds to wait, when the refusal was for a limit; else 0."""
        if headers.get("retry-after", "").isdecimal():
            return float(headers["retry-after"]) or 1.0
        if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdecimal():
            return max(1.0, float(headers["x-ratelimit-reset"]) - self.now())
        if status == 429 or "rate limit" in words.lower():
            wait, self._wait = self._wait, min(2 * self._wait, MOST_WAIT)
            return wait
        return 0.0


def _words(data: Any) -> str:
    """What an error body says: its message, and the messages of its errors."""
    if not isinstance(data, dict):
        return ""
    errors = data.get("errors") if isinstance(data.get("errors"), list) else []
    told = [e.get("message") or e.get("code") or "" if isinstance(e, dict) else str(e) for e in errors]  # type: ignore[union-attr]
    return "; ".join(str(text) for text in [data.get("message"), *told] if text and not str(text).startswith("<"))[:500]


def told(name: str, what: str, refusal: Refused) -> ForgeError:
    """A refusal that no look can heal, with what to do."""
    ways = {
        403: "give the token the permission that this needs, or unlock the thread; `autoresearch doctor` lists them",
        404: f"look whether {name} and this thread are still there, and whether the token may see them",
        410: "it was deleted, or issues are switched off in this repository",
    }
    way = ways.get(refusal.status, "this is not expected: please report it")
    return ForgeError(f"GitHub would not {what} ({refusal}): {way}")
