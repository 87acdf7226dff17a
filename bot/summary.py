"""What is left of a campaign when its process ends: a page, the winners in the checkout, a table, and what to look at next."""

from __future__ import annotations

import uuid
from pathlib import Path

from bot.report import bills, called, claims, count, measured, outcomes, page, standing
from bot.screen import Screen
from bot.state import Campaign, Candidate, State
from bot.words import duration, plain
from bot.workspace import Workspace


def latest(state: State) -> Campaign | None:
    """The campaign that people mean when they name none: the active one, else the last."""
    return state.active or next(reversed(state.campaigns.values()), None)


def write_page(ws: Workspace, c: Campaign) -> Path:
    """The static page of a campaign; its path."""
    edits = [x for x in c.candidates.values() if not x.base and not x.comparison and x.head]
    text = page.render(c, {x.n: ws.repo.diff(x.on, x.head) for x in edits})
    path = ws.store / "pages" / f"{c.name}.html"
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    draft.write_text(text, "utf-8")
    draft.rename(path)
    return path


def bring_home(ws: Workspace, screen: Screen, branch: str) -> None:
    """The winners into the checkout, or the command that does it."""
    if command := ws.bring_home(branch):
        screen.line(f"The merged winners are not in your checkout yet. When it suits you, in {ws.top}: {command}", "yellow")


def show(screen: Screen, c: Campaign) -> None:
    """The table at the end."""
    s = standing(c)
    seen, claim = claims.proven(c), claims.claimed(c)
    rows = [
        ("total gain", f"{seen}, head to head on fresh seeds" if seen else f"not measured head to head: {claims.unproven(c)}"),
        ("", claims.private(c) if seen else ""),
        ("", claims.meaning(c)),
        ("claimed", f"{claim:+.6f} bpb, start less best, from runs at different times" if claim and (c.merged or seen) else ""),
        ("start", "-" if s.start is None else f"{s.start:.6f} val_bpb, mean of {count(len(measured(c.candidates[0])), 'run')}"),
        ("best", "-" if s.best is None or s.candidate is None else f"{s.best:.6f} val_bpb, {_whose(s.candidate)}"),
        *((f"worth of {x.candidate.n}", f"{x.seen or x.reason}") for x in claims.worths(c)),
        *(("rolled back", f"{claims.listed(x.edits)}: {x.reason}") for x in claims.stacks(c) if not x.kept),
        ("experiments", f"{c.settled} of {c.started.experiments} = {outcomes(c) or '0'}"),
        ("provisional", claims.provisional(c)),
        ("beside", bills.beside(c)),
        ("cost", f"{sum(x.runs for x in c.candidates.values())} runs, {duration(c.at - c.started.at)}"),
        ("models", bills.of_campaign(c)),
        ("noise", claims.detectable(c)),
        ("how it ended", plain(c.ended.reason if c.ended else f"paused: {c.paused}")),
    ]
    if any(x.result and not x.result.get("sandboxed") for x in c.candidates.values()):
        rows.append(("sandbox", "UNSANDBOXED: at least one number was measured without a sandbox"))
    screen.line("")
    screen.table((), [row for row in rows if row[1]])


def show_next(screen: Screen, ws: Workspace, c: Campaign, command: str, cwd: Path) -> None:
    """Commands that show more, with real paths."""
    there = "" if cwd == ws.top or ws.top in cwd.parents else f"cd {ws.top} && "
    pulls = [x.pull for x in c.merged if x.pull is not None] or [x.pull for x in c.candidates.values() if x.pull is not None]
    rows = [(f"{there}git log -p --oneline", "the merged winners, as commits")] if c.merged else []
    rows += [(f"{there}{command} pr {pulls[-1]}", "a pull request with diff, check and verdict")] if pulls else []
    rows += [(f"{there}{command} measure", "measure what is checked out, with a fresh seed")]
    rows += [(f"{ws.store / 'pages' / f'{c.name}.html'}", "the page of this campaign, for a browser")]
    screen.line("\nLook at next:")
    screen.table((), rows)


def _whose(x: Candidate) -> str:
    return "the base itself" if x.base else called(x)
