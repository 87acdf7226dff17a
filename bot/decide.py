"""What to do next: (campaign, now) -> actions in order of preference. Decides by returning; it never acts.

The order is a policy, read from top to bottom: look at what people and the machine did; if the campaign must end, wind it
down; land what is proven; keep the device busy; then paperwork; then make the next candidate ready. The loop does the first
action that yields an event, writes that down, folds, and asks again.

Pure: no clock, no disk, no luck.
"""

from __future__ import annotations

from collections.abc import Iterator

from bot import events as e
from bot import stacking
from bot.actions import (
    Action,
    Adopt,
    BeginEnd,
    Close,
    Compare,
    End,
    Learn,
    Look,
    Merge,
    Open,
    Pause,
    Poll,
    PostCheck,
    Propose,
    Rebase,
    Repair,
    Say,
    StartRun,
)
from bot.proof import finished, proof, turn
from bot.scores import evidence
from bot.state import WITHDRAWN, Campaign, Candidate, Kind, Stage, seed_of
from evaluator import gate, stack
from evaluator.simpler import simpler

MAX_LOSSES = 5  # lost runs in a row of one candidate, then a person must look at the machine
EVERY = 10  # settled candidates between two writings of what was learned
MAX_VOIDS = 2  # repeats of a run that was void for reasons outside the candidate (design: twice at most)


def decide(c: Campaign, now: float) -> list[Action]:
    """Everything that could be done now, the best first. Empty when only time or people can change anything."""
    if c.ended:
        return []
    if c.tip < 0:
        return [Look()]
    looks: list[Action] = [Look(), *(Poll(n=x.n, run=x.flight) for x in c.live.values() if x.flight)]
    if c.paused and not c.stop:
        return [*looks, *_news(c)]
    if c.ending:
        return [*looks, *_wind_down(c, c.ending)]
    if reason := stop_reason(c, now):
        return [Look(), BeginEnd(why=reason[0], reason=reason[1])]
    if any(x.awaiting and x.parent == c.landed for x in c.live.values()):
        return [*looks, *_vetoes(c), *stacking.moves(c), *_landings(c), *_news(c)]  # the next base is not known before it landed
    return [*looks, *_going_on(c), *_preparations(c)]


def _going_on(c: Campaign) -> Iterator[Action]:
    yield from [*stacking.moves(c), *_vetoes(c), *_trouble(c), *_landings(c), *_rebases(c), *_starts(c), *_paperwork(c)]


def stop_reason(c: Campaign, now: float) -> tuple[str, str] | None:
    """(why, words) when the campaign is to end: the first stop rule that holds."""
    rules = c.settings.stop
    tip = c.candidates[c.tip]
    wanted = c.started.experiments
    if c.stop:
        return "stopped", f"stopped by {c.stop} after {c.settled} of {wanted} experiments"
    if tip.stage is Stage.CLOSED and tip.why not in WITHDRAWN:
        return "base", f"the base itself cannot be measured: {tip.reason}"
    if c.settled >= wanted:
        return "done", f"{wanted} experiments done"
    if rules.target is not None and not tip.live and tip.mean is not None and tip.mean <= rules.target:
        return "target", f"target {rules.target:g} reached: {tip.mean:.6f} after {c.settled} of {wanted} experiments"
    if rules.hours is not None and now - c.started.at >= rules.hours * 3600:
        return "hours", f"{rules.hours:g} hours are over after {c.settled} of {wanted} experiments"
    if rules.patience is not None and c.since_merge >= rules.patience:
        return "patience", f"{c.since_merge} experiments in a row without an improvement"
    if c.crashes_row >= rules.crashes:
        return "crashes", f"{c.crashes_row} candidates in a row failed; look at the last one's log before you go on"
    return _nothing_left(c)


def _nothing_left(c: Campaign) -> tuple[str, str] | None:
    """No further proposal comes, and all that came are judged."""
    if c.live:
        return None
    if c.refusals_row >= c.settings.stop.refusals:
        return "refusals", f"{c.refusals_row} proposals in a row were refused"
    if c.broke:
        return "money", f"{c.broke}; {c.settled} of {c.started.experiments} experiments are done"
    if c.exhausted == c.tip:
        return "exhausted", f"the proposer has nothing new for this base after {c.settled} of {c.started.experiments} experiments"
    return None


def _wind_down(c: Campaign, ending: e.Ending) -> Iterator[Action]:
    """Close what is not judged yet; measure what is claimed; then the end."""
    proving = not c.stop and ending.why not in ("stopped", "base")
    kept = c.accepted if proving else []
    unwanted = [x for x in c.live.values() if not proving or x.base or (x.edit and x not in kept)]
    for x in reversed(unwanted):
        yield Close(n=x.n, why="stopped", reason=f"the campaign ended: {ending.reason}")
    if proving and not unwanted:
        compared = c.duel >= 0 and c.duel not in c.live  # what follows is told at once, at the end
        yield from (x for x in (*_going_on(c), *_openings(c), *proof(c)) if not (compared and isinstance(x, Say)))
    if c.learned < c.settled and not c.live:
        yield Learn(about=c.settled)
    if not c.live:  # one or the other: an end must not overtake last words that GitHub did not take at once
        yield Say(about=c.news) if c.said < c.news else End(why=ending.why, reason=ending.reason)


def _vetoes(c: Campaign) -> Iterator[Action]:
    for x in c.live.values():
        if x.vetoed and x.stage is not Stage.ACCEPTED:
            yield Close(n=x.n, why="vetoed", reason=f"not wanted by {x.vetoed}")


def _trouble(c: Campaign) -> Iterator[Action]:
    for x in c.live.values():
        if x.voids > MAX_VOIDS:
            yield Pause(reason=f"the machine is too busy: the same run of candidate {x.n} was void {x.voids} times")
        if x.losses >= MAX_LOSSES:
            why = f"the last time because {x.loss}" if x.loss else "see `autoresearch doctor`"
            yield Pause(reason=f"a run of candidate {x.n} was lost {x.losses} times in a row, {why}")


def _landings(c: Campaign) -> Iterator[Action]:
    """Adopt a base that has its baseline; merge what the gate keeps and what was measured on the tip."""
    for x in _idle(c):
        if x.comparison:
            continue
        if x.base:
            if x.outcome == "ok" and len(x.own) >= c.settings.gate.baseline_runs:
                yield Adopt(n=x.n)
        elif c.stacking and x.edit and x.outcome == "ok" and x.screen is not None:
            yield from stacking.acceptance(c, x)
        elif (verdict := verdict_of(c, x)) and verdict.call is gate.Call.KEEP and x.parent == c.tip:
            yield PostCheck(n=x.n, verdict=verdict) if x.checked != x.head else Merge(n=x.n, verdict=verdict)


def _idle(c: Campaign) -> list[Candidate]:
    """Candidates that wait for a decision: measured, nothing in flight, nothing to be done again."""
    return [x for x in c.live.values() if x.stage is Stage.MEASURED and x.redo is None]


def verdict_of(c: Campaign, x: Candidate) -> gate.Verdict | None:
    """The gate's call on a candidate as measured so far; None when its own run failed, or it has none, or a pair is half."""
    if x.outcome != "ok" or x.screen is None or x.half is not None:
        return None
    if c.stacking and x.edit:
        return stack.screen(evidence(c, x), c.settings.gate)[0]
    verdict, rules = gate.judge(evidence(c, x), c.settings.gate), c.settings.gate
    if rules.simpler and x.edit and x.shorter > 0 and verdict.call is not gate.Call.KEEP:
        return simpler(evidence(c, x), rules, rules.margin)  # not better, but it may be kept for being shorter
    return verdict


def _rebases(c: Campaign) -> Iterator[Action]:
    """What is not on the tip any more: not yet measured, or measured on the old base and not worse there."""
    for x in c.live.values():
        if x.base or x.comparison or x.parent == c.tip or x.flight or x.outcome != "ok":
            continue
        verdict = verdict_of(c, x)
        if x.stage is Stage.OPEN or (x.stage is Stage.MEASURED and not (verdict and verdict.call is gate.Call.DISCARD)):
            yield Rebase(n=x.n, parent=c.tip)


def _starts(c: Campaign) -> Iterator[Action]:
    """Runs for the free places: what was begun goes on before anything new begins."""
    if sum(1 for x in c.live.values() if x.flight) >= c.places:
        return
    ready = [x for x in c.live.values() if not x.flight and (x.parent == c.tip or x.redo or x.comparison)]
    for x in sorted(ready, key=lambda x: (x.redo is None, not x.base, x.screen is None, x.n)):
        if (subject := _next_subject(c, x)) is None:
            continue
        k, attempt = (x.redo.k, x.redo.attempt + 1) if x.redo else (c.next_k, 1)
        seed = x.redo.seed if x.redo else seed_of(c.started.seed, "run", k)
        yield StartRun(n=x.n, subject=subject, k=k, attempt=attempt, seed=seed, vault=x.kind is Kind.DUEL)


def _next_subject(c: Campaign, x: Candidate) -> int | None:
    """Whose code to run next in order to judge x; None when it needs no run now."""
    if x.redo:
        return x.redo.subject
    if x.outcome != "ok" or x.stage not in (Stage.OPEN, Stage.MEASURED):
        return None
    if x.base:
        return x.n if gate.needs_baseline(len(x.own), c.settings.gate) else None
    if x.comparison:
        return None if finished(c, x) else turn(x)
    if (c.candidates[c.tip].base and c.candidates[c.tip].live) or (x.edit and stacking.held(c)):
        return None  # the base has no baseline yet, or the stack must stay as it is
    if x.screen is None:
        return c.tip if gate.needs_refresh(c.runs_done - c.last_tip_run, c.settings.gate) else x.n
    return _pair_subject(c, x)


def _pair_subject(c: Campaign, x: Candidate) -> int | None:
    verdict = verdict_of(c, x)
    if x.half is None and (verdict is None or verdict.call is not gate.Call.AGAIN):
        return None
    return c.tip if c.stacking and x.edit else turn(x)


def _paperwork(c: Campaign) -> Iterator[Action]:
    """Close what failed or is not better; end comparisons; keep the status comment true."""
    for x in c.live.values():
        if x.comparison and not x.flight and not x.redo and finished(c, x):
            yield Compare(n=x.n)
    for x in _idle(c):
        if x.comparison:
            continue
        if _mendable(c, x):
            yield Repair(n=x.n)
        elif x.outcome != "ok":
            yield from _closing(x, None, x.outcome, f"{x.outcome}: {x.fault}")
        elif (verdict := verdict_of(c, x)) and verdict.call is gate.Call.DISCARD:
            yield from _closing(x, verdict, "worse", verdict.reason)
    if due(c.settled, c.learned):
        yield Learn(about=c.settled)
    yield from _news(c)


def due(settled: int, written: int) -> bool:
    """Whether knowledge.md, last written when `written` were settled, is to be written again."""
    return settled // EVERY > written // EVERY


def _mendable(c: Campaign, x: Candidate) -> bool:
    """It crashed at once, and who proposed it may try once more. What ran and then crashed in its pairs was judged by that."""
    return x.edit and x.outcome == "crash" and x.screen is None and x.repairs > 0 and not c.broke and not c.ending


def _news(c: Campaign) -> Iterator[Action]:
    if c.said < c.news:
        yield Say(about=c.news)


def _closing(x: Candidate, verdict: gate.Verdict | None, why: str, reason: str) -> Iterator[Action]:
    if not x.base and x.checked != x.head:
        yield PostCheck(n=x.n, verdict=verdict)
    else:
        yield Close(n=x.n, why=why, reason=reason)


def _preparations(c: Campaign) -> Iterator[Action]:
    """One candidate is always ready ahead of the runs in flight, and never more than the campaign may still judge."""
    yield from _openings(c)
    edits = [x for x in c.live.values() if x.edit]
    waiting = sum(1 for x in edits if x.stage in (Stage.PROPOSED, Stage.OPEN))
    free = c.places - sum(1 for x in c.live.values() if x.flight)
    room = c.settled + len(edits) < c.started.experiments
    if room and waiting <= free and not c.dry:
        yield Propose(n=len(c.candidates), parent=c.tip, seed=seed_of(c.started.seed, "propose", c.proposals))


def _openings(c: Campaign) -> Iterator[Action]:
    for x in c.live.values():
        if x.stage is Stage.PROPOSED:
            yield Open(n=x.n)
