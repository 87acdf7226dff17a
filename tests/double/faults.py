"""Trouble on purpose: which request is answered by what instead of by its route.

A kind that ends in `after` does what was asked and then hides it; all others answer without doing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.double.refusals import Refused

HTML = b"<!DOCTYPE html>\n<html><head><title>Unicorn! &middot; GitHub</title></head><body>We had issues.</body></html>\n"
REFUSING = {
    "401": "bad credentials",
    "403 secondary": "secondary limit",
    "429 secondary": "secondary limit 429",
    "404": "not found",
    "405 base modified": "base modified",
    "409": "head modified",
    "422": "invalid",
}
STATUS = {"500": 500, "502": 502, "503": 503, "504": 504, "502 after": 502, "504 after": 504, "HTML": 200, "HTML after": 200}
DROPS = ("drop", "drop after", "time-out", "time-out after")
KINDS = (*REFUSING, *STATUS, *DROPS)


def refusal(kind: str) -> Refused:
    """What a refusing kind answers with."""
    limited = kind.endswith("secondary")
    return Refused(REFUSING[kind], headers={"Retry-After": "60"} if limited else {})


@dataclass
class Fault:
    """From the `nth` request on that fits (counted from when this was planned), `times` requests. "" fits everything; `path` fits
    as a part, `surface` is rest | graphql | git."""

    kind: str
    nth: int = 1
    times: int = 1
    method: str = ""
    path: str = ""
    surface: str = ""
    seen: int = 0

    def due(self, method: str, path: str, surface: str) -> bool:
        if self.method not in ("", method) or self.path not in path or self.surface not in ("", surface):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


@dataclass
class Faults:
    plan: list[Fault] = field(default_factory=list)
    hit: list[str] = field(default_factory=list)  # "kind METHOD path" of each fault that came about

    def add(self, fault: Fault) -> None:
        if fault.kind not in KINDS:
            raise ValueError(f"no fault is called {fault.kind!r}: one of {', '.join(KINDS)}")
        self.plan.append(fault)

    def due(self, method: str, path: str, surface: str) -> str:
        """The kind of the first planned fault that this request meets; "" for none. Every fault counts every request."""
        met = [fault.kind for fault in self.plan if fault.due(method, path, surface)]
        self.hit += [f"{kind} {method} {path}" for kind in met[:1]]
        return met[0] if met else ""
