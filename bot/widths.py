"""At how many GPUs each of GitHub's limits binds, for the token in use and the budget of program.md. Pure.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api: a primary limit by the hour that depends on the
token; secondary ones of 500 content-creating requests an hour and 80 a minute, and 900 points a minute (a read is 1, a write 5).
"""

from __future__ import annotations

from dataclasses import dataclass

# Of one run: a wake-up in a new process that knows nothing. tests/test_actions_walk.py counts them over a walk and holds these.
# A write also counts as a request; git over HTTP is counted nowhere.
REQUESTS, WRITES = 13, 5
CREATIONS = 4  # of one candidate, which takes one run at least: tests/test_github.py
CREATED_HOUR, CREATED_MINUTE, POINTS_MINUTE = 500, 80, 900
HOUR, MINUTE = 3600.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Width:
    """One limit: so many runs an hour keep it, so many GPUs make those."""

    limit: str
    runs: float
    gpus: float


def widths(primary: int, seconds: float) -> list[Width]:
    """The tightest first. `primary` is the token's requests an hour; a run takes a GPU at least `seconds`."""
    points = REQUESTS + 4 * WRITES
    rates = {
        f"{primary:,} requests an hour, of this token": primary / REQUESTS,
        f"{CREATED_HOUR} content-creating requests an hour": CREATED_HOUR / CREATIONS,
        f"{CREATED_MINUTE} content-creating requests a minute": CREATED_MINUTE / CREATIONS * HOUR / MINUTE,
        f"{POINTS_MINUTE} points a minute": POINTS_MINUTE / points * HOUR / MINUTE,
    }
    found = [Width(limit=limit, runs=rate, gpus=rate * seconds / HOUR) for limit, rate in rates.items()]
    return sorted(found, key=lambda width: width.gpus)


def kind(login: str | None, primary: int) -> str:
    """What token that is, by what it may ask and how often."""
    if login is not None and not login.endswith("[bot]"):
        return f"a token of {login}: 5,000 an hour, shared with all that {login} does"
    if primary == 1000:
        return "GITHUB_TOKEN: 1,000 an hour for the repository"
    return "a GitHub App: 5,000 to 12,500 an hour for the installation"
