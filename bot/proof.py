"""When a campaign is over: is what it merged really better, and which of its edits carry it?

The base and the tip are run head to head on fresh seeds, on the public and on the private split: that number, with its
interval, heads every report. A tip that is worse than the base opens a revert, a candidate like any other. Where there is
budget, each merged edit is taken out of the tip alone and that is measured too (ablation).

Pure: what to open next, and what the pairs say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bot import events as e
from bot import stacking
from bot.actions import Action, OpenComparison, ProposeRevert
from bot.state import Campaign, Candidate, Kind
from evaluator import gate


def proof(c: Campaign) -> Iterator[Action]:
    """The next comparison to open; nothing while one is under way, and when all is done."""
    tip, wanted = c.candidates[c.tip], c.settings.gate.verdict_pairs
    if c.live or not wanted or tip.kind is not Kind.EDIT:
        return
    if c.duel < 0:
        yield OpenComparison(n=len(c.candidates), what=Kind.DUEL, left=base_of(c).n, right=tip.n, of=-1)
    elif c.reverted < 0 and c.verdict and c.verdict.high is not None and c.verdict.high < 0:
        yield ProposeRevert(n=len(c.candidates), parent=tip.n)
    elif (left := _next_ablation(c)) is not None:
        yield OpenComparison(n=len(c.candidates), what=Kind.ABLATION, left=tip.n, right=len(c.candidates), of=left)


def base_of(c: Campaign) -> Candidate:
    """What the campaign's merges stand on: the last base that was adopted."""
    return max((x for x in c.candidates.values() if x.base and x.why == "adopted"), key=lambda x: x.n)


def _next_ablation(c: Campaign) -> int | None:
    """A single merged edit needs none: taking it out is the base, which the duel has measured."""
    since = [x.n for x in c.merged if x.n > base_of(c).n]
    afford = c.settings.gate.ablation // (2 * c.settings.gate.verdict_pairs)
    if len(since) < 2 or len(c.ablated) >= afford:
        return None
    return next((n for n in since if n not in c.ablated), None)


def finished(c: Campaign, x: Candidate) -> bool:
    """Whether a comparison needs no further run."""
    if x.kind is Kind.CERTIFY:
        return stacking.verdict_of(c, x).call is not gate.Call.AGAIN
    impossible = x.kind is Kind.ABLATION and not x.head
    return impossible or x.outcome != "ok" or len(x.pairs) >= c.settings.gate.verdict_pairs


def turn(x: Candidate) -> int:
    """Whose run is next. Pairs are interleaved ABBA, so that a drift of the machine cancels."""
    if x.half is not None:
        return x.parent if x.half[0] == x.side else x.side
    return x.side if len(x.pairs) % 2 == 0 else x.parent


def compared(c: Campaign, x: Candidate, at: float) -> e.Compared:
    """What the pairs of a comparison say."""
    public, vault = (gate.compare(pairs, c.ss, c.df, c.settings.gate) for pairs in (x.pairs, x.vault))
    low, high = public[1:] if public else (None, None)
    vault_low, vault_high = vault[1:] if vault else (None, None)
    return e.Compared(
        campaign=c.name, at=at, n=x.n, pairs=len(x.pairs), gain=public[0] if public else None, low=low, high=high,
        vault_gain=vault[0] if vault else None, vault_low=vault_low, vault_high=vault_high, reason=_words(x, public),
    )  # fmt: skip


def certified(c: Campaign, x: Candidate, at: float) -> e.Compared:
    """What the pairs of a certification say, once they say it."""
    verdict = stacking.verdict_of(c, x)
    return replace(compared(c, x, at), keep=verdict.call is gate.Call.KEEP, reason=verdict.reason)


def _words(x: Candidate, public: tuple[float, float, float] | None) -> str:
    if x.kind is Kind.ABLATION and not x.head:
        return f"the edit of candidate {x.of} cannot be taken out alone: later ones build on it"
    if x.outcome != "ok":
        return f"it does not run: {x.outcome}: {x.fault}"
    if public is None:
        return "nothing was measured"
    gain, low, high = public
    what = "the tip over the base" if x.kind is Kind.DUEL else f"the tip without the edit of candidate {x.of}"
    return f"{what}: {gain:+.6f} bpb, 95 % interval {low:+.6f} to {high:+.6f}, {len(x.pairs)} fresh pairs"
