"""The deeds that touch a runner: begin a run, see where it stands, bring its result through the door.

A run is written down first (MeasureStarted) and started by the polls that follow: a run that nobody knows of cannot exist, and
one that was never started is started by the next poll. Not here: what a run means (state.py, the gate).
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean

from bot import actions as a
from bot import events as e
from bot.program import Budget
from bot.state import Campaign, Candidate, Run, Stage
from bot.world import World, source_at
from runners import BadResult, Job, Lost, Measurement, Outcome, Running

SCORING_FACTOR = 2.0  # a better model may be dearer to use, within reason
SCORING_FLOOR = 0.5  # seconds: what a CPU's other users, and the clock's ticks, make of a small number
GRACE_SECONDS = 180.0  # for what is the judge's own: starting processes from a cold disk, preparing data, writing a result


def allowed(budget: Budget) -> float:
    """Seconds after which a run is lost. The judge ends each of the three parts itself, well before: this is for its own end."""
    return budget.startup_seconds + budget.seconds + budget.scoring_seconds + GRACE_SECONDS


def start_run(world: World, c: Campaign, action: a.StartRun) -> e.Event | None:
    """Decide everything about the run and write it down; `poll` starts it."""
    subject = c.candidates[action.subject]
    return e.MeasureStarted(
        campaign=c.name, at=world.now(), n=action.n, subject=action.subject, k=action.k, attempt=action.attempt,
        run=f"{c.name}-{action.k}.{action.attempt}", seed=action.seed, nonce=world.token(),
        head=subject.head if subject.n == action.n else subject.sha, vault=action.vault,
        deadline=world.now() + allowed(c.settings.budget) + world.queue_seconds,
    )  # fmt: skip


def poll(world: World, c: Campaign, action: a.Poll) -> e.Event | None:
    run = action.run
    x = c.candidates[action.n]
    job = job_of(c, run, source_at(world, c, run.head))
    try:
        world.runner.start(job)
        seen = world.runner.poll(job)
    except BadResult as error:
        return _measured(world, c, action, Outcome.INVALID, None, f"the result was refused at the door: {error}", {})
    if isinstance(seen, Running):
        world.progress[run.run] = seen
        world.tell(c, seen)
        return _overdue(world, c, action, seen) if world.now() > run.deadline else None
    world.progress.pop(run.run, None)
    if isinstance(seen, Lost):
        return e.RunLost(campaign=c.name, at=world.now(), n=x.n, run=run.run, reason=seen.reason)
    return _seen(world, c, action, seen)


def _overdue(world: World, c: Campaign, action: a.Poll, seen: Running) -> e.Event:
    """The judge itself hangs: its own deadlines are far earlier than this one. Or nobody ever began: a person must see to that
    first, so pause, then take the run back."""
    reason = "no result before the deadline"
    if world.queue_seconds and seen.phase == "waiting":
        hours = (action.run.deadline - action.run.started) / 3600
        reason = f"no machine with the label gpu took it for {hours:.0f} hours"
        if not c.paused and not c.stop:
            fix = "`autoresearch doctor --github` says which are online, runners/README.md how to set one up"
            return e.Paused(campaign=c.name, at=world.now(), reason=f"{reason}, a run of candidate {action.n} that waits: {fix}")
    world.runner.cancel(action.run.run)
    return e.RunLost(campaign=c.name, at=world.now(), n=action.n, run=action.run.run, reason=reason)


def _seen(world: World, c: Campaign, action: a.Poll, seen: Measurement) -> e.Event | None:
    if seen.outcome is Outcome.VOID:
        return e.RunLost(campaign=c.name, at=world.now(), n=action.n, run=action.run.run, reason=seen.reason, void=True)
    if c.fingerprint and seen.fingerprint and seen.fingerprint != c.fingerprint:
        return _other_device(world, c, action, seen)
    record = asdict(seen) | {"outcome": str(seen.outcome)}
    return _measured(world, c, action, seen.outcome, seen.val_bpb, seen.reason, record)


def _other_device(world: World, c: Campaign, action: a.Poll, seen: Measurement) -> e.Event:
    """Pause, then take the run back: it is done again wherever the campaign is resumed."""
    reason = (
        f"this campaign was measured on {c.fingerprint}, and this machine, torch, corpus or budget is {seen.fingerprint}: "
        "numbers compare only on the same; resume it there, or stop it and start a new one"
    )
    if c.paused:
        return e.RunLost(campaign=c.name, at=world.now(), n=action.n, run=action.run.run, reason="measured on another device")
    return e.Paused(campaign=c.name, at=world.now(), reason=reason)


def _measured(
    world: World, c: Campaign, action: a.Poll, outcome: Outcome, bpb: float | None, reason: str, record: dict[str, object]
) -> e.Event:
    return e.Measured(
        campaign=c.name, at=world.now(), n=action.n, run=action.run.run, outcome=str(outcome), val_bpb=bpb,
        reason=reason, result=record,
    )  # fmt: skip


def job_of(c: Campaign, run: Run, source: str) -> Job:
    """What the runner is asked to measure."""
    s = c.settings
    subject, tip = c.candidates[run.subject], incumbent_of(c, run)
    scores = [score for _, score in tip.baseline] if tip else []
    return Job(
        run=run.run, commit=run.head, source=source, seed=run.seed, nonce=run.nonce, budget_seconds=s.budget.seconds,
        startup_seconds=s.budget.startup_seconds, scoring_seconds=s.budget.scoring_seconds, deadline=run.deadline,
        corpus=s.corpus, device=s.device, sandbox=s.sandbox, vault=run.vault, scoring_cap_seconds=scoring_cap(c, run),
        code=subject.guard, incumbent=tip.guard if tip else "", incumbent_bpb=fmean(scores) if scores else 0.0,
    )  # fmt: skip


def incumbent_of(c: Campaign, run: Run) -> Candidate | None:
    """What the code of that run wants to beat: what it stands on, whatever the tip is by now. None for a base, which people
    wrote, and for what others are measured against itself."""
    x = c.candidates[run.subject]
    return None if x.base or x.stage in (Stage.ACCEPTED, Stage.MERGED) else c.candidates[x.parent]


def scoring_cap(c: Campaign, run: Run) -> float:
    """Seconds of compute that scoring may take: twice what the incumbent's took, and a floor. 0, no cap, without one."""
    tip = incumbent_of(c, run)
    spent = tip.result.get("scoring_cpu_seconds") if tip else None
    if tip is None or not isinstance(spent, float) or spent <= 0:
        return 0.0
    texts = 2 if run.vault and tip.result.get("vault_bpb") is None else 1
    return SCORING_FACTOR * texts * spent + SCORING_FLOOR
