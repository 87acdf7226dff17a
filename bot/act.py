"""One function per action: do it, and return the event that is now true; None when there is nothing new to write down.

Every deed is an *ensure*: a crash between the deed and its event is healed by doing it again. The deeds that touch a runner
are in runs.py, those that make a candidate's text in proposing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from bot import actions as a
from bot import events as e
from bot import learning, proposing, runs, stacking, static
from bot.decide import verdict_of
from bot.forge import Gone, Landed, PullState
from bot.proof import base_of, certified, compared
from bot.propose import apply
from bot.report import markdown, status
from bot.state import WITHDRAWN, Campaign, Candidate, Kind, Stage, branch_of
from bot.world import World, editable, source_at
from evaluator.gate import Call


def act(world: World, c: Campaign, action: a.Action) -> e.Event | None:
    """Do it."""
    return _ACTS[type(action)](world, c, action)


def _look(world: World, c: Campaign, action: a.Look) -> e.Event | None:
    for x in list(c.live.values()):
        if x.pull is not None and (news := _look_at_pull(world, c, x)):
            return news
    return _look_at_tip(world, c)


def _look_at_pull(world: World, c: Campaign, x: Candidate) -> e.Event | None:
    """A pull request that is not open any more: merged (by us, killed before we wrote it down) or a person's veto."""
    assert x.pull is not None
    pull = world.forge.pull(x.pull)
    if pull.state is PullState.OPEN or x.vetoed:
        return None
    ours = x.stage in (Stage.MEASURED, Stage.ACCEPTED)
    if pull.state is PullState.MERGED and pull.merged and ours and _is_measured_tree(world, x, pull.merged):
        _retire(world, x)
        return e.Merged(campaign=c.name, at=world.now(), n=x.n, sha=pull.merged, reason=_merge_reason(c, x))
    if pull.state is PullState.CLOSED and pull.closed_by is None:
        return None  # we closed it and were killed: the decision that led there is taken again
    return e.Vetoed(campaign=c.name, at=world.now(), n=x.n, by=pull.closed_by or "a person, who merged it by hand")


def _is_measured_tree(world: World, x: Candidate, sha: str) -> bool:
    return world.code.guard_of(sha) == x.guard


def _merge_reason(c: Campaign, x: Candidate) -> str:
    certified = x.stage is Stage.ACCEPTED and c.certifying >= 0
    verdict = stacking.verdict_of(c, c.candidates[c.certifying]) if certified else verdict_of(c, x)
    return verdict.reason if verdict else "merged by a person before it was judged"


def _look_at_tip(world: World, c: Campaign) -> e.Event | None:
    sha = world.forge.tip()
    if c.landed >= 0 and sha == c.candidates[c.landed].sha:
        return None
    guard = world.code.guard_of(sha)
    if c.landed >= 0 and guard == c.candidates[c.landed].guard:
        return e.TipMoved(campaign=c.name, at=world.now(), sha=sha)
    source = source_at(world, c, sha)
    return e.BaseSeen(campaign=c.name, at=world.now(), n=len(c.candidates), sha=sha, guard=guard, source=static.hash_of(source))


def _open(world: World, c: Campaign, action: a.Open) -> e.Event | None:
    x = c.candidates[action.n]
    base = c.candidates[x.parent].sha
    made = _commit(world, c, x, base)
    if made is None:
        return _closed(world, c, x, "stale", "its edit does not apply to its base")
    head, _ = made
    branch = branch_of(c.name, x.n)
    world.forge.push(branch, head)
    text = markdown.pull_body(c, x, world.code.diff(base, head))
    pull = world.forge.open_pull(branch=branch, title=markdown.pull_title(x), body=text, labels=markdown.labels(x))
    return e.Opened(campaign=c.name, at=world.now(), n=x.n, base=base, head=head, guard=world.code.guard_of(head), pull=pull)


def _commit(world: World, c: Campaign, x: Candidate, base: str) -> tuple[str, str] | None:
    """(commit, source) of the edit on that base; None when it does not apply or changes nothing there. Deterministic, so
    that doing it again after a crash gives the same commit."""
    source = source_at(world, c, base)
    edited = apply(source, x.edits)
    if edited is None or edited == source:
        return None
    return world.code.commit_file(base, editable(c), edited, markdown.commit_message(c, x), when=x.at), edited


def _rebase(world: World, c: Campaign, action: a.Rebase) -> e.Event | None:
    x = c.candidates[action.n]
    base = c.candidates[action.parent].sha
    made = _commit(world, c, x, base)
    if made is None:
        return _close(world, c, a.Close(n=x.n, why="stale", reason="its edit does not apply to the new tip"))
    head, source = made
    if x.awaiting and x.pull:
        world.forge.withdraw(x.pull)
    world.forge.push(branch_of(c.name, x.n), head)
    return e.Rebased(
        campaign=c.name, at=world.now(), n=x.n, parent=action.parent, base=base, head=head,
        guard=world.code.guard_of(head), source=static.hash_of(source),
    )  # fmt: skip


def _post_check(world: World, c: Campaign, action: a.PostCheck) -> e.Event | None:
    x = c.candidates[action.n]
    check = markdown.check(c, x, action.verdict, world.code.diff(x.on, x.head))
    world.forge.post_check(check)
    kept = action.verdict is not None and action.verdict.call is Call.KEEP
    plain = learning.explained(world, c, x) if kept else ""
    _describe(world, c, x, action.verdict.reason if action.verdict else f"{x.outcome}: {x.fault}", plain)
    return e.CheckPosted(campaign=c.name, at=world.now(), n=x.n, head=x.head, conclusion=check.conclusion, title=check.title)


def _adopt(world: World, c: Campaign, action: a.Adopt) -> e.Event | None:
    return e.Adopted(campaign=c.name, at=world.now(), n=action.n)


def _accept(world: World, c: Campaign, action: a.Accept) -> e.Event | None:
    x = c.candidates[action.n]
    assert x.pull is not None
    body = markdown.pull_body(c, x, world.code.diff(x.on, x.head), provisional=action.reason)
    world.forge.edit_pull(x.pull, title=markdown.pull_title(x), body=body, labels=markdown.labels(x))
    return e.Accepted(campaign=c.name, at=world.now(), n=x.n, predicted=action.predicted, reason=action.reason)


def _merge(world: World, c: Campaign, action: a.Merge) -> e.Event | None:
    x = c.candidates[action.n]
    assert x.pull is not None
    onto = c.candidates[c.landed].sha
    head = x.head if x.stage is Stage.MEASURED and x.on == onto else _on_top(world, c, x, onto, action)
    answer = world.forge.merge(x.pull, head=head, onto=onto, guard=x.guard, message=markdown.merge_message(c, x, action.verdict))
    if isinstance(answer, Landed):
        _retire(world, x)
        return e.Merged(campaign=c.name, at=world.now(), n=x.n, sha=answer.sha, reason=action.verdict.reason)
    if answer.why == "vetoed":
        return e.Vetoed(campaign=c.name, at=world.now(), n=x.n, by=answer.detail)
    if answer.why == "waits":
        waits = e.Awaiting(campaign=c.name, at=world.now(), n=x.n, reason=answer.detail)
        return None if x.awaiting == answer.detail else waits
    if answer.why in ("moved", "closed"):
        news = _look(world, c, a.Look())
        if news or answer.why == "moved":
            return news  # else another robot closed it
    reason = f"it could not be merged ({answer.why}): {answer.detail}"
    return _close(world, c, a.Close(n=x.n, why="stale", reason=reason))


def _on_top(world: World, c: Campaign, x: Candidate, onto: str, action: a.Merge) -> str:
    """What was accepted stands on commits that never land, and other files may have been pushed since the base was seen: the
    same code once more, on top of the default branch, with its check."""
    assert x.pull is not None
    code = source_at(world, c, x.head)
    head = world.code.commit_file(onto, editable(c), code, markdown.commit_message(c, x), when=x.at)
    if world.forge.pull(x.pull).state is PullState.OPEN:
        world.forge.push(branch_of(c.name, x.n), head)
        world.forge.post_check(replace(markdown.check(c, x, action.verdict, ""), head=head))
        _describe(world, c, x, action.verdict.reason, learning.explained(world, c, x))
    return head


def _retire(world: World, x: Candidate) -> None:
    """Delete the branch of what was merged, and say so in a label."""
    assert x.pull is not None
    world.forge.close_pull(x.pull, comment="", labels=("autoresearch: merged",))


def _describe(world: World, c: Campaign, x: Candidate, reason: str, plain: str = "") -> None:
    """Bring the pull request's text up to what was measured; `plain` explains a winner."""
    assert x.pull is not None
    body = markdown.pull_body(c, x, world.code.diff(x.on, x.head), reason=reason, plain=plain)
    world.forge.edit_pull(x.pull, title=markdown.pull_title(x), body=body, labels=markdown.labels(x, reason))


def _close(world: World, c: Campaign, action: a.Close) -> e.Event | None:
    x = c.candidates[action.n]
    if x.flight:
        world.runner.cancel(x.flight.run)
        world.progress.pop(x.flight.run, None)
    if x.stage in (Stage.MEASURED, Stage.ACCEPTED) and x.pull and isinstance(news := _look_at_pull(world, c, x), e.Merged):
        return news  # it was merged before we were killed
    branch = branch_of(c.name, x.n)
    if (number := world.forge.pull_of(branch)) is not None:  # asked of the forge: we may have been killed while opening it
        _close_pull(world, c, x, action, number)
    elif not x.base:
        world.forge.delete_branch(branch)
    return _closed(world, c, x, action.why, action.reason)


def _close_pull(world: World, c: Campaign, x: Candidate, action: a.Close, number: int) -> None:
    pull = world.forge.pull(number)
    if x.checked != pull.head or action.why in WITHDRAWN:
        check = markdown.withdrawn_check(c, x, action.why, action.reason)
        world.forge.post_check(replace(check, head=pull.head))
    if pull.state is PullState.MERGED:
        return
    if (action.why in WITHDRAWN or x.stage is Stage.ACCEPTED) and x.pull:
        _describe(world, c, x, action.reason)
    comment = markdown.closing(c, x, action.why, action.reason)
    world.forge.close_pull(number, comment=comment, labels=(f"autoresearch: {action.why}",))


def _closed(world: World, c: Campaign, x: Candidate, why: str, reason: str) -> e.Event:
    return e.Closed(campaign=c.name, at=world.now(), n=x.n, why=why, reason=reason)


def _say(world: World, c: Campaign, action: a.Say) -> e.Event | None:
    with suppress(Gone):
        world.forge.say(c.started.issue, c.name, status.render(c))
    return e.Said(campaign=c.name, at=world.now(), about=action.about)


def _pause(world: World, c: Campaign, action: a.Pause) -> e.Event | None:
    return e.Paused(campaign=c.name, at=world.now(), reason=action.reason)


def _begin_end(world: World, c: Campaign, action: a.BeginEnd) -> e.Event | None:
    return e.Ending(campaign=c.name, at=world.now(), why=action.why, reason=action.reason)


def _open_comparison(world: World, c: Campaign, action: a.OpenComparison) -> e.Event | None:
    """Nothing is opened for people to see: an ablation's code is a branch while it is measured, a duel's is there already."""
    title, head = "base against tip" if action.what == Kind.DUEL else "what was accepted against what is merged", ""
    if action.what == Kind.ABLATION:
        x, tip = c.candidates[action.of], c.candidates[c.tip]
        title = f"the tip without candidate {x.n}: {x.title}"
        without = apply(source_at(world, c, tip.sha), tuple(e.Edit(old=edit.new, new=edit.old) for edit in reversed(x.edits)))
        if without is not None:
            head = world.code.commit_file(tip.sha, editable(c), without, title, when=tip.settled_at)
            world.forge.push(branch_of(c.name, action.n), head)
    return e.ComparisonOpened(
        campaign=c.name, at=world.now(), n=action.n, what=action.what, left=action.left, right=action.right, of=action.of,
        title=title, head=head,
    )  # fmt: skip


def _compare(world: World, c: Campaign, action: a.Compare) -> e.Event | None:
    world.forge.delete_branch(branch_of(c.name, action.n))
    x = c.candidates[action.n]
    return (certified if x.kind is Kind.CERTIFY else compared)(c, x, world.now())


def _propose_revert(world: World, c: Campaign, action: a.ProposeRevert) -> e.Event | None:
    base, tip = base_of(c), c.candidates[action.parent]
    before, after = source_at(world, c, base.sha), source_at(world, c, tip.sha)
    said = c.verdict.reason if c.verdict else ""
    return e.Proposed(
        campaign=c.name, at=world.now(), n=action.n, parent=action.parent, title=f"take back what campaign {c.name} merged",
        hypothesis=f"Measured head to head on fresh seeds, what was merged is worse than the base: {said}.",
        edits=(e.Edit(old=after, new=before),), tags=("revert",), proposer="revert", source=base.source, revert=True,
    )  # fmt: skip


def _end(world: World, c: Campaign, action: a.End) -> e.Event | None:
    return e.CampaignEnded(campaign=c.name, at=world.now(), why=action.why, reason=action.reason)


_ACTS: dict[type[a.Action], Callable[..., e.Event | None]] = {
    a.Look: _look,
    a.Poll: runs.poll,
    a.Propose: proposing.propose,
    a.Repair: proposing.repair,
    a.Open: _open,
    a.Rebase: _rebase,
    a.StartRun: runs.start_run,
    a.PostCheck: _post_check,
    a.Adopt: _adopt,
    a.Accept: _accept,
    a.Merge: _merge,
    a.Close: _close,
    a.Say: _say,
    a.Learn: learning.learn,
    a.Pause: _pause,
    a.BeginEnd: _begin_end,
    a.OpenComparison: _open_comparison,
    a.Compare: _compare,
    a.ProposeRevert: _propose_revert,
    a.End: _end,
}
