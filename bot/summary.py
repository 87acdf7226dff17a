"""What is left of a campaign when its process ends: a page, the winners in the checkout, a table, and what to look at next."""

from __future__ import annotations

import uuid
from pathlib import Path

from bot.report import WORDS, page, standing, tally
from bot.report.markdown import percent
from bot.screen import Screen
from bot.state import Campaign, State
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
    gain = "-" if s.gain is None or not s.start else f"{s.gain:+.6f} ({percent(100 * s.gain / s.start)})"
    counts = " + ".join(f"{count} {WORDS[why]}" for why, count in tally(c).items() if count) or "0"
    rows = [
        ("start", "-" if s.start is None else f"{s.start:.6f} val_bpb, mean of {len(c.candidates[0].own)} runs"),
        ("best", "-" if s.best is None or s.candidate is None else f"{s.best:.6f} val_bpb, {_whose(s.candidate.n)}"),
        ("total gain", f"{gain}, claimed: from runs at different times" if s.gain else gain),
        ("head to head", _head_to_head(c)),
        ("experiments", f"{c.settled} of {c.started.experiments} = {counts}"),
        ("beside", f"{c.withdrawn} withdrawn without a verdict, {c.refused} refused before any run"),
        ("cost", f"{sum(x.runs for x in c.candidates.values())} runs, {duration(c.at - c.started.at)}"),
        ("how it ended", plain(c.ended.reason if c.ended else f"paused: {c.paused}")),
    ]
    if any(x.result and not x.result.get("sandboxed") for x in c.candidates.values()):
        rows.append(("sandbox", "UNSANDBOXED: at least one number was measured without a sandbox"))
    screen.line("")
    screen.table((), rows)


def _head_to_head(c: Campaign) -> str:
    """What base and tip measured side by side on fresh seeds: the number that counts."""
    if not c.merged:
        return "nothing was merged, so there is nothing to prove"
    v = c.verdict
    if v is None or v.gain is None or v.low is None or v.high is None:
        return "not measured yet" if v is None else plain(v.reason)
    vault = "" if v.vault_gain is None else f"; on the private text {v.vault_gain:+.6f}"
    return f"{v.gain:+.6f} val_bpb, 95 % interval {v.low:+.6f} to {v.high:+.6f}, {v.pairs} fresh pairs{vault}"


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


def _whose(n: int) -> str:
    return f"candidate {n}" if n else "the base itself"
