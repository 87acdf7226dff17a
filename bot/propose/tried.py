"""What was proposed before and what came of it, as rows: what the memory of a proposer is made of. Pure.

Not here: whether a new edit repeats one of them (near.py), and which of them a model reads (digest.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bot.events import Edit
from bot.propose.changes import Changes, of, of_edits
from bot.report import WORDS, compare
from bot.report.quoting import one_line
from bot.state import Campaign, Candidate, Stage

RUNNING = "running"
REFUSED = "refused"
KEPT = ("merged", "accepted")
FAILED = ("crash", "oom", "nan", "timeout", "invalid")
REASON = 240  # characters of it


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One idea. `ending` is "running", "refused", "accepted" (provisional), or how the candidate left: merged, worse, crash ...

    `source` is the train.py that the edits were made for, empty where that is not known. A positive `gain`, in bits per byte, is
    an improvement over its parent; None: there is no number.
    """

    n: int
    title: str
    hypothesis: str = ""
    edits: tuple[Edit, ...] = ()
    source: str = field(default="", repr=False)
    tags: tuple[str, ...] = ()
    ending: str = "worse"
    reason: str = ""
    gain: float | None = None
    pairs: int = 0
    campaign: str = ""

    @property
    def kept(self) -> bool:
        return self.ending in KEPT

    @property
    def changes(self) -> Changes:
        """From whole files where these are known and parse, else from the edits alone."""
        return (of(self.source, self.edits) if self.source else None) or of_edits(self.edits)

    def called(self, campaign: str = "") -> str:
        """Its name for a reader of `campaign`."""
        return f"candidate {self.n}" + (f" of campaign {self.campaign}" if self.campaign not in ("", campaign) else "")

    def result(self) -> str:
        """What came of it, in words and a number."""
        said = {RUNNING: "under way", REFUSED: "refused before any run"}.get(self.ending) or WORDS.get(self.ending, self.ending)
        if self.gain is None:
            return said
        return f"{said}, gain {self.gain:+.6f} bpb " + (f"in {self.pairs} pairs" if self.pairs else "in its first run")


def rows(c: Campaign, sources: Callable[[str], str | None]) -> tuple[Tried, ...]:
    """Every experiment of a campaign, oldest first. `sources(commit)` is train.py there, None when that commit is gone; it is
    asked once for each base."""
    known: dict[str, str] = {}
    return tuple(_row(c, x, known, sources) for x in c.candidates.values() if x.edit)


def refused(said: Iterable[tuple[str, str]]) -> tuple[Tried, ...]:
    """Proposals that were refused before any run, from (title, reason)."""
    return tuple(Tried(n=0, title=title, reason=one_line(reason, REASON), ending=REFUSED) for title, reason in said)


def _row(c: Campaign, x: Candidate, known: dict[str, str], sources: Callable[[str], str | None]) -> Tried:
    base = x.on or c.candidates[x.parent].sha
    if base not in known:
        known[base] = sources(base) or ""
    numbers = compare(c, x)
    ending = "accepted" if x.stage is Stage.ACCEPTED else RUNNING if x.live else x.why
    return Tried(
        n=x.n, title=x.title, hypothesis=x.hypothesis, edits=x.edits, source=known[base], tags=x.tags, ending=ending,
        reason=one_line(x.reason or x.fault, REASON), gain=numbers.gain if numbers else None,
        pairs=numbers.pairs if numbers else 0, campaign=c.name,
    )  # fmt: skip
