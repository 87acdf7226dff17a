"""Commands that look at a workspace and change nothing: status, pr, log, results. And `veto`, a person's word on a candidate.

All of it comes from the log and the forge; a `run` beside them goes on undisturbed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from bot import words
from bot.fold import fold
from bot.forge import ForgeError, Pull, PullState
from bot.forge.local import LocalForge
from bot.lines import GENESIS, digest, to_line
from bot.report import claims, compare, standing, tally, tsv, word
from bot.report import status as status_comment
from bot.screen import Screen
from bot.state import Campaign, Candidate, State
from bot.summary import latest
from bot.workspace import Machine, Told, Workspace
from evaluator import gate

NOTHING = "no campaign was begun in this checkout yet: `autoresearch run N` begins one of N experiments"


def campaign_of(ws: Workspace) -> Campaign:
    """The one that is meant when none is named. Raises Told."""
    c = latest(ws.state())
    if c is None:
        raise Told(NOTHING)
    return c


def status(ws: Workspace, screen: Screen) -> None:
    c = campaign_of(ws)
    screen.document(status_comment.render(c))
    driver = ws.driver()
    if driver:
        screen.line(f"Process {driver} drives it.")
    elif c.ended is None:
        screen.line("No process drives it: `autoresearch run` goes on with it, `autoresearch stop` ends it.")


def status_json(ws: Workspace, screen: Screen) -> None:
    c = campaign_of(ws)
    screen.raw(json.dumps(record(c) | {"driver": ws.driver(), "store": str(ws.store)}, indent=1))


def record(c: Campaign) -> dict[str, Any]:
    """Where a campaign stands, for a program. Gains and noise are in bits per byte; `verdict` is None until it is measured."""
    s = standing(c)
    return {
        "campaign": c.name, "branch": c.started.branch, "mode": c.settings.gate.mode, "experiments": c.started.experiments,
        "settled": c.settled, "outcomes": tally(c), "withdrawn": c.withdrawn, "refused": c.refused,
        "repeats": c.repeats, "spent": asdict(c.spent),
        "provisional": [x.n for x in c.accepted], "certified": [x.n for x in c.merged if word(c, x) == "certified"],
        "start": s.start, "best": s.best, "gain": s.gain, "best_candidate": s.candidate.n if s.candidate else None,
        "verdict": asdict(c.verdict) if c.verdict else None, "claimed": claims.claimed(c), "total": claims.total(c),
        "worth": [{"n": x.candidate.n} | (asdict(x.seen) if x.seen else {"reason": x.reason}) for x in claims.worths(c)],
        "reverted_by": c.reverted if c.reverted >= 0 else None,
        "sigma": gate.sigma(c.ss, c.df, c.settings.gate)[0], "detectable": claims.smallest(c),
        "tip": c.candidates[c.tip].sha if c.tip >= 0 else None,
        "live": [{"n": x.n, "stage": str(x.stage), "title": x.title, "runs": x.runs} for x in c.live.values()],
        "paused": c.paused or None, "stop": c.stop or None,
        "ended": {"why": c.ended.why, "reason": c.ended.reason} if c.ended else None,
    }  # fmt: skip


def pulls(ws: Workspace, screen: Screen, *, as_json: bool) -> None:
    """The list of all pull requests."""
    found = _forge(ws).pulls()
    if as_json:
        screen.raw(json.dumps([_brief(ws, pull) for pull in found], indent=1))
    elif not found:
        screen.line("no pull request yet")
    else:
        rows = [(f"#{p.number}", str(p.state), p.checks[-1].title if p.checks else "not judged", p.title) for p in found]
        screen.table(("pull", "state", "check", "what"), rows)


def pull(ws: Workspace, screen: Screen, number: int, *, as_json: bool) -> None:
    """One pull request: description with diff, check, verdict, comments."""
    p = _pull(ws, number)
    if as_json:
        screen.raw(json.dumps(_brief(ws, p) | {"body": p.body, "comments": list(p.comments), "diff": _diff(ws, p)}, indent=1))
        return
    screen.line(f"#{p.number} {p.title}", "bold")
    screen.line(f"{p.state}; branch {p.branch} at {p.head[:12]}; {', '.join(p.labels)}\n")
    screen.document(p.body)
    for check in p.checks[-1:]:
        screen.line(f"\nCheck: {check.conclusion}: {check.title}", "bold")
        screen.document(check.summary)
    screen.line(f"\nVerdict: {_verdict(ws, p)}", "bold")
    for comment in p.comments:
        screen.line("\nComment:", "bold")
        screen.document(comment)


def veto(ws: Workspace, machine: Machine, screen: Screen, number: int) -> None:
    """A person does not want it: whoever drives ends its measurement and closes it as vetoed."""
    p = _pull(ws, number)
    if p.state is PullState.CLOSED:
        raise Told(f"pull request {number} is closed already")
    if not _forge(ws).close_as(number, machine.who):
        raise Told(f"pull request {number} is merged: to take it back, `git revert {(p.merged or '')[:12]}`, then `run` anew")
    then = "the campaign under way takes note within seconds" if ws.driver() else "the campaign takes note when it goes on"
    screen.line(f"pull request {number} is closed; {then}")


def log(ws: Workspace, screen: Screen, *, as_json: bool) -> None:
    """Every event: in words, or as the JSON lines that the log holds."""
    if not ws.exists:
        raise Told(NOTHING)
    happened, position = ws.log().read()
    previous, state = GENESIS, State()
    for event in happened:
        if as_json:
            line = to_line(event, previous)
            screen.raw(line)
            previous = digest(line)
        else:
            screen.line(f"{words.stamp(event.at)}  {event.campaign}  {words.say(event, state.campaigns.get(event.campaign))}")
            state = fold([event], state)
    if position.healed and not as_json:
        screen.line(position.healed, "yellow")


def results(ws: Workspace, screen: Screen) -> None:
    screen.raw(tsv.results(campaign_of(ws)).rstrip("\n"))


def _forge(ws: Workspace) -> LocalForge:
    c = campaign_of(ws)
    return ws.forge(c.started.branch)


def _pull(ws: Workspace, number: int) -> Pull:
    try:
        return _forge(ws).pull(number)
    except ForgeError as error:
        if "there is no pull request" in str(error):
            raise Told(f"{error}: `autoresearch pr` lists them") from None
        raise


def _candidate(ws: Workspace, p: Pull) -> tuple[Campaign, Candidate] | None:
    for c in ws.state().campaigns.values():
        for x in c.candidates.values():
            if x.pull == p.number:
                return c, x
    return None


def _verdict(ws: Workspace, p: Pull) -> str:
    found = _candidate(ws, p)
    if found is None or not found[1].reason:
        return "not judged yet"
    return f"{word(*found)}: {words.plain(found[1].reason)}"


def _brief(ws: Workspace, p: Pull) -> dict[str, Any]:
    """What a program wants to know of it."""
    found = _candidate(ws, p)
    numbers = compare(*found) if found else None
    return {
        "number": p.number, "state": str(p.state), "title": p.title, "branch": p.branch, "head": p.head, "merged": p.merged,
        "closed_by": p.closed_by, "labels": list(p.labels), "checks": [asdict(check) for check in p.checks],
        "verdict": _verdict(ws, p), "val_bpb": numbers.after if numbers else None, "gain": numbers.gain if numbers else None,
    }  # fmt: skip


def _diff(ws: Workspace, p: Pull) -> str:
    found = _candidate(ws, p)
    return ws.repo.diff(found[1].on, found[1].head) if found and found[1].head else ""
