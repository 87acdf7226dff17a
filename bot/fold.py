"""The fold: what each event changes. The table of what may follow what is in state.py.

`fold` owns the State that it is given and returns it changed: nobody else writes to one. Pure: no clock, no disk, no luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bot import events as e
from bot import ideas, scores
from bot.ideas import add, move
from bot.program import Problems, parse
from bot.settings import renewed
from bot.spending import FREE
from bot.state import STEPS, WITHDRAWN, Campaign, Candidate, Kind, Run, Stage, State, Unlisted, check_listed


def fold(happened: Iterable[e.Event], state: State | None = None) -> State:
    """The state after these events (after those that `state` already holds). Raises Unlisted."""
    state = State() if state is None else state
    for event in happened:
        if isinstance(event, e.CampaignStarted):
            _start(state, event)
        elif isinstance(event, e.ReportSent):
            state.reported = event  # no news of any campaign: else each would be in every report
        else:
            campaign = state.campaigns.get(event.campaign)
            if campaign is None:
                raise Unlisted(f"{type(event).__name__} in campaign {event.campaign}, which never started")
            check(campaign, event)
            campaign.at = event.at
            if (spent := getattr(event, "spent", FREE)).calls:
                campaign.spent += spent
            _APPLY[type(event)](campaign, event)
        if cause := getattr(event, "cause", ""):
            state.heard.add(cause)
        state.events += 1
    return state


def check(c: Campaign, event: e.Event) -> None:
    """Raises Unlisted when this event cannot follow; changes nothing."""
    kind = type(event)
    if c.ended is not None and kind not in (e.UndoOpened, e.Billed):
        raise Unlisted(f"{kind.__name__} after the end of campaign {c.name}")
    if kind not in _APPLY:
        raise Unlisted(f"{kind.__name__} inside campaign {c.name}")
    if kind not in _STEPPING:
        return
    n = event.n  # type: ignore[attr-defined]
    candidate = c.candidates.get(n)
    check_listed(c.name, n, candidate.stage if candidate else None, kind)
    assert candidate is not None
    _check_run(candidate, event)


def _check_run(candidate: Candidate, event: e.Event) -> None:
    if isinstance(event, e.MeasureStarted) and candidate.flight is not None:
        raise Unlisted(f"{event.run} started while {candidate.flight.run} is in flight for candidate {event.n}")
    if isinstance(event, _RESULTS) and (candidate.flight is None or candidate.flight.run != event.run):
        raise Unlisted(f"{type(event).__name__} of {event.run}, which is not in flight for candidate {event.n}")


_RESULTS = (e.Measured, e.RunLost)
_STEPPING = {kind for row in STEPS.values() for kind in row}


def _start(state: State, event: e.CampaignStarted) -> None:
    if event.campaign in state.campaigns:
        raise Unlisted(f"campaign {event.campaign} started twice")
    program = parse(event.program, event.settings)
    if isinstance(program, Problems):
        raise Unlisted(f"the program.md of campaign {event.campaign} does not suit this version: {program}")
    state.campaigns[event.campaign] = Campaign(
        started=event, settings=program.settings, instructions=program.instructions, past=state.past, at=event.at,
        said=0 if event.cause else -1,  # who was asked by a comment has answered it
    )  # fmt: skip


def _base_seen(c: Campaign, event: e.BaseSeen) -> None:
    add(c, Candidate(n=event.n, parent=event.n, kind=Kind.BASE, side=event.n, stage=Stage.OPEN, title="base", at=event.at))
    base = c.candidates[event.n]
    base.on = base.head = base.sha = event.sha
    base.guard, base.source = event.guard, event.source
    c.tip = c.landed = event.n
    c.last_tip_run = c.runs_done
    c.tried.setdefault(event.n, set()).add(event.source)


def _tip_moved(c: Campaign, event: e.TipMoved) -> None:
    c.candidates[c.landed].sha = event.sha


def _comparison_opened(c: Campaign, event: e.ComparisonOpened) -> None:
    kind = Kind(event.what)
    x = Candidate(n=event.n, kind=kind, parent=event.left, side=event.right, stage=Stage.OPEN, title=event.title, at=event.at)
    x.of, x.head = event.of, event.head
    add(c, x)
    if kind is Kind.DUEL:
        c.duel = event.n
    elif kind is Kind.CERTIFY:
        c.certifying = event.n
    else:
        c.ablated.add(event.of)


def _compared(c: Campaign, event: e.Compared) -> None:
    x = move(c, event.n, event)
    x.compared = event
    if event.keep:
        scores.believe(c, c.candidates[x.side])
    _settle(c, x, "compared", event.reason, event.at)


def _opened(c: Campaign, event: e.Opened) -> None:
    x = move(c, event.n, event)
    x.on, x.head, x.guard, x.pull = event.base, event.head, event.guard, event.pull


def _measure_started(c: Campaign, event: e.MeasureStarted) -> None:
    x = move(c, event.n, event)
    x.flight = Run(
        k=event.k, attempt=event.attempt, run=event.run, subject=event.subject, seed=event.seed, nonce=event.nonce,
        head=event.head, started=event.at, deadline=event.deadline, vault=event.vault,
    )  # fmt: skip
    x.redo = None
    c.next_k = max(c.next_k, event.k + 1)


def _measured(c: Campaign, event: e.Measured) -> None:
    x = move(c, event.n, event)
    run, x.flight = x.flight, None
    assert run is not None
    x.runs += 1
    c.seconds += event.at - run.started
    scores.take(c, x, run, event)


def _run_lost(c: Campaign, event: e.RunLost) -> None:
    x = move(c, event.n, event)
    x.redo, x.flight = x.flight, None
    if event.void:
        x.voids += 1
    else:
        x.losses, x.loss = x.losses + 1, event.reason


def _check_posted(c: Campaign, event: e.CheckPosted) -> None:
    move(c, event.n, event).checked = event.head


def _adopted(c: Campaign, event: e.Adopted) -> None:
    _settle(c, move(c, event.n, event), "adopted", "", event.at)


def _accepted(c: Campaign, event: e.Accepted) -> None:
    x = move(c, event.n, event)
    x.predicted, x.reason, x.sha = event.predicted, event.reason, x.head
    scores.assume(c, x)
    c.tip, c.since_merge, c.crashes_row = x.n, 0, 0
    c.tried.setdefault(x.n, set()).add(x.source)


def _merged(c: Campaign, event: e.Merged) -> None:
    x = move(c, event.n, event)
    if c.tip == x.parent or not c.accepted:
        c.tip = x.n
    x.sha, c.landed = event.sha, x.n
    _settle(c, x, "merged", event.reason, event.at)
    c.since_merge = c.crashes_row = 0
    c.last_tip_run = x.own[-1][0] if x.own else c.runs_done
    c.tried.setdefault(x.n, set()).add(x.source)


def _closed(c: Campaign, event: e.Closed) -> None:
    x = move(c, event.n, event)
    x.flight = x.redo = None
    _settle(c, x, event.why, event.reason, event.at)
    while c.candidates[c.tip].edit and c.candidates[c.tip].stage is Stage.CLOSED:
        c.tip = c.candidates[c.tip].parent  # what stood on it goes back to what it stood on
    if not x.edit or event.why in WITHDRAWN:
        return
    c.since_merge += 1
    c.crashes_row = 0 if event.why == "worse" else c.crashes_row + 1


def _settle(c: Campaign, x: Candidate, why: str, reason: str, at: float) -> None:
    x.why, x.reason, x.settled_at = why, reason, at
    del c.live[x.n]
    if x.edit:
        c.counts[why] = c.counts.get(why, 0) + 1


def _vetoed(c: Campaign, event: e.Vetoed) -> None:
    if event.n in c.live:
        c.live[event.n].vetoed = event.by


def _awaiting(c: Campaign, event: e.Awaiting) -> None:
    move(c, event.n, event).awaiting = event.reason
    c.turns += 1


def _hinted(c: Campaign, event: e.Hinted) -> None:
    c.hints.append(event)
    c.turns += 1


def _undo_opened(c: Campaign, event: e.UndoOpened) -> None:
    c.undone = event.pull


def _stop(c: Campaign, event: e.StopRequested) -> None:
    c.stop = c.stop or event.by


def _paused(c: Campaign, event: e.Paused) -> None:
    c.paused = event.reason
    c.turns += 1


def _resumed(c: Campaign, event: e.Resumed) -> None:
    if event.program:
        program = parse(event.program, c.started.settings)
        if isinstance(program, Problems):
            raise Unlisted(f"the program.md with which campaign {c.name} was resumed does not suit this version: {program}")
        c.settings = renewed(c.settings, program.settings)
        c.broke, c.exhausted, c.refusals_row = "", -1, 0  # another may propose now, or for more
    c.paused = ""
    c.turns += 1
    for x in c.live.values():
        x.losses = x.voids = 0


def _said(c: Campaign, event: e.Said) -> None:
    c.said = event.about


def _learned(c: Campaign, event: e.Learned) -> None:
    c.learned = event.about


def _ending(c: Campaign, event: e.Ending) -> None:
    c.ending = event


def _ended(c: Campaign, event: e.CampaignEnded) -> None:
    c.ended = event
    c.past.campaigns.append(c)
    scores.keep(c)


_APPLY: dict[type[e.Event], Callable[..., None]] = {
    e.BaseSeen: _base_seen,
    e.TipMoved: _tip_moved,
    e.Proposed: ideas.proposed,
    e.ProposalRefused: ideas.refused,
    e.Opened: _opened,
    e.Rebased: ideas.rebased,
    e.Repaired: ideas.repaired,
    e.NotRepaired: ideas.not_repaired,
    e.MeasureStarted: _measure_started,
    e.Measured: _measured,
    e.RunLost: _run_lost,
    e.CheckPosted: _check_posted,
    e.Adopted: _adopted,
    e.Accepted: _accepted,
    e.Merged: _merged,
    e.ComparisonOpened: _comparison_opened,
    e.Compared: _compared,
    e.Closed: _closed,
    e.Vetoed: _vetoed,
    e.Awaiting: _awaiting,
    e.Hinted: _hinted,
    e.UndoOpened: _undo_opened,
    e.StopRequested: _stop,
    e.Paused: _paused,
    e.Resumed: _resumed,
    e.Billed: lambda c, event: None,  # what is spent is added up for every event
    e.Said: _said,
    e.Learned: _learned,
    e.Ending: _ending,
    e.CampaignEnded: _ended,
}
