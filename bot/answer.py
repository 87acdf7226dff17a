"""What a person said becomes what is written down and what is answered. Decide here; bot/hear.py does it.

Who may steer was asked before: `answer` takes it that the person may, `refusal` is for who may not. The same thing said twice
(a webhook delivered again, a job run again) finds its cause in the log: nothing is written a second time, the answer is
the same.

Pure: the log's state in, an Answer out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot import command as say
from bot import events as e
from bot.hearing import Heard, IssueClosed, PullClosed, Reviewed, Said
from bot.program import Problems, Program, parse
from bot.report import markdown, standing, status
from bot.report.quoting import fence, span
from bot.state import Campaign, Candidate, State

ROCKET, CONFUSED = "rocket", "confused"
WRONG = "**`program.md` or an option of the command has mistakes; nothing was started.**\n\n"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`events` go to the log, in this order, together or not at all; then `reply` is said, if there is one, and the status
    comment of `campaign` is brought up to date. `undo`: the campaign to be taken back by a pull request."""

    events: tuple[e.Event, ...] = ()
    reply: str = ""
    reaction: str = ROCKET
    campaign: str = ""
    undo: str = ""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where it is said: the log, program.md as it is on the default branch now, the clock, and a fresh secret seed."""

    state: State
    program: str | None
    now: float
    seed: int
    branch: str


def cause_of(heard: Heard) -> str:
    """Names what a person did, once and for all; the empty text for what cannot be done twice."""
    match heard:
        case Said():
            return f"{'review-comment' if heard.inline else 'comment'}-{heard.comment}"
        case Reviewed():
            return f"review-{heard.review}"
    return ""


def refusal(heard: Heard) -> Answer:
    """For somebody without write permission: why, and who can. What they only clicked is passed over."""
    if not isinstance(heard, Said):
        return Answer(reaction="")
    text = f"`{heard.login}` has no write permission on {heard.repository}, which this takes. Somebody who has it can write it."
    return Answer(reply=text, reaction=CONFUSED)


def answer(heard: Heard, scene: Scene) -> Answer:
    """What to do about it. An event that came already has no events in its answer."""
    match heard:
        case PullClosed():
            return _pull_closed(heard, scene)
        case IssueClosed():
            return _stop(heard, scene, _running(scene.state, heard.issue), "closed the issue")
        case Reviewed():
            return _reviewed(heard, scene)
        case Said():
            return _said(heard, scene, heard.command, heard.issue, on_pull=heard.on_pull)
    raise TypeError(f"nobody hears {type(heard).__name__}")


def _reviewed(heard: Reviewed, scene: Scene) -> Answer:
    if heard.state == "changes_requested":
        return _veto(heard, scene, heard.pull, f"{heard.login}, who asked for changes")
    return _said(heard, scene, heard.command, heard.pull, on_pull=True) if heard.command else Answer(reaction="")


def _pull_closed(heard: PullClosed, scene: Scene) -> Answer:
    """Closed by hand is a veto. What was merged by hand is seen by the loop, which compares trees."""
    found = candidate_of(scene.state, heard.pull)
    if heard.merged or found is None or found[1].n not in found[0].live or found[1].vetoed:
        return Answer(reaction="")
    c, x = found
    event = e.Vetoed(campaign=c.name, at=scene.now, n=x.n, by=f"{heard.login}, who closed its pull request")
    return Answer(events=(event,), reaction="")


def _said(heard: Heard, scene: Scene, command: say.Command, thread: int, *, on_pull: bool) -> Answer:
    if isinstance(command, say.Misuse):
        return Answer(reply=command.reply, reaction=CONFUSED)
    if isinstance(command, say.Help):
        return Answer(reply=say.help_text(_cap(scene), on_pull))
    if isinstance(command, say.Run):
        return _run(heard, scene, command)
    if isinstance(command, say.Explain):
        return _explain(scene, thread)
    if isinstance(command, say.Veto):
        return _veto(heard, scene, thread, heard.login)
    return _steer(heard, scene, command, thread, on_pull)


def _cap(scene: Scene) -> int:
    program = parse(scene.program or "")
    return program.settings.stop.experiments if isinstance(program, Program) else parse_default().settings.stop.experiments


def parse_default() -> Program:
    program = parse("---\n---\n")
    assert isinstance(program, Program), "the defaults are right"
    return program


# a new campaign


def _run(heard: Heard, scene: Scene, command: say.Run) -> Answer:
    if not isinstance(heard, Said) or heard.on_pull:
        return _misuse("A campaign belongs to an issue: write it there. Its title and text say what to look for.")
    if again := _caused(scene.state, cause_of(heard)):
        return Answer(campaign=again.name, reply=_notes(again, command, scene.state))
    if scene.program is None:
        return _misuse(f"There is no `program.md` on `{scene.branch}`: commit one (docs/program.md), then write this again.")
    program = parse(scene.program, command.overrides)
    if isinstance(program, Problems):
        return _misuse(WRONG + fence(str(program), 6000))
    started = e.CampaignStarted(
        campaign=scene.state.next_name(heard.issue), at=scene.now,
        experiments=min(command.experiments, program.settings.stop.experiments), issue=heard.issue, title=heard.title,
        body=heard.body, by=heard.login, program=scene.program, settings=dict(command.overrides), seed=scene.seed,
        branch=scene.branch, cause=cause_of(heard),
    )  # fmt: skip
    begun = Campaign(started=started, settings=program.settings, instructions="", past=scene.state.past)
    return Answer(events=(started,), campaign=started.campaign, reply=_notes(begun, command, scene.state))


def _notes(c: Campaign, command: say.Run, state: State) -> str:
    """What the person may not expect. The status comment says all the rest."""
    notes = []
    if command.experiments > c.started.experiments:
        notes.append(
            f"{command.experiments} experiments are more than `stop.experiments` in program.md allows, so it tries "
            f"{c.started.experiments}."
        )
    if (first := state.active) and first.name != c.name and c.ended is None:
        notes.append(f"It is in the queue: campaign {first.name} comes first.")
    return f"Campaign {c.name}: {' '.join(notes)}" if notes else ""


def _caused(state: State, cause: str) -> Campaign | None:
    return next((c for c in state.campaigns.values() if c.started.cause == cause), None)


# steering one that is under way


def candidate_of(state: State, pull: int) -> tuple[Campaign, Candidate] | None:
    """Whose pull request it is."""
    pairs = ((c, x) for c in reversed(state.campaigns.values()) for x in c.candidates.values())
    return next(((c, x) for c, x in pairs if x.pull == pull), None)


def _running(state: State, issue: int) -> list[Campaign]:
    return [c for c in state.campaigns.values() if c.started.issue == issue and c.ended is None]


def _steer(heard: Heard, scene: Scene, command: say.Command, thread: int, on_pull: bool) -> Answer:
    """For the campaign of that issue, or of that candidate."""
    found = candidate_of(scene.state, thread) if on_pull else None
    issue = found[0].started.issue if found else thread
    running = [found[0]] if found and found[0].ended is None else _running(scene.state, issue)
    latest = next((c for c in reversed(scene.state.campaigns.values()) if c.started.issue == issue), None)
    if latest is None:
        return _misuse("No campaign was ever started on this issue: `/autoresearch N` starts one.")
    if isinstance(command, say.Status):
        return Answer(reply=_state_of(running[0] if running else latest), campaign=(running[0] if running else latest).name)
    if isinstance(command, say.Undo):
        return _undo(heard, running, latest)
    if not running:
        return _misuse(f"Campaign {latest.name} has ended: {_ended(latest)}. There is nothing to steer.")
    return _STEERING[type(command)](heard, scene, running, command)


def _ended(c: Campaign) -> str:
    return span(c.ended.reason) if c.ended else "not yet"


def _state_of(c: Campaign) -> str:
    s = standing(c)
    numbers = f" Start {s.start:.6f}, best so far {s.best:.6f}." if s.start is not None and s.best is not None else ""
    ahead = "; ".join(status.upcoming(c, span))
    return (
        f"Campaign {c.name}: {c.settled} of {c.started.experiments} experiments done, {len(c.merged)} merged.{numbers} "
        f"**Next:** {ahead}. The status comment on #{c.started.issue} has everything."
    )


def _stop(heard: Heard, scene: Scene, running: list[Campaign], how: str = "") -> Answer:
    who = f"{heard.login}, who {how}" if how else heard.login
    events = tuple(e.StopRequested(campaign=c.name, at=scene.now, by=who, cause=cause_of(heard)) for c in running if not c.stop)
    return _once(heard, scene, Answer(events=events, campaign=running[0].name if running else "", reaction="" if how else ROCKET))


def _pause(heard: Heard, scene: Scene, running: list[Campaign], command: object) -> Answer:
    c = running[0]
    if c.paused and cause_of(heard) not in scene.state.heard:
        return _misuse(f"Campaign {c.name} is paused already: {span(c.paused)}. `/autoresearch resume` goes on.")
    event = e.Paused(campaign=c.name, at=scene.now, reason=f"{heard.login} asked for it", cause=cause_of(heard))
    return _once(heard, scene, Answer(events=(event,), campaign=c.name))


def _resume(heard: Heard, scene: Scene, running: list[Campaign], command: object) -> Answer:
    c = running[0]
    if not c.paused and cause_of(heard) not in scene.state.heard:
        return _misuse(f"Campaign {c.name} is not paused.")
    text = scene.program or ""
    if scene.program is not None and isinstance(problems := parse(text, c.started.settings), Problems):
        return _misuse(f"**`program.md` has mistakes; campaign {c.name} is still paused.**\n\n" + fence(str(problems), 6000))
    event = e.Resumed(campaign=c.name, at=scene.now, by=heard.login, cause=cause_of(heard), program=text)
    return _once(heard, scene, Answer(events=(event,), campaign=c.name))


def _hint(heard: Heard, scene: Scene, running: list[Campaign], command: say.Hint) -> Answer:
    event = e.Hinted(campaign=running[0].name, at=scene.now, by=heard.login, text=command.text, cause=cause_of(heard))
    return _once(heard, scene, Answer(events=(event,), campaign=running[0].name))


_STEERING: Mapping[type[Any], Callable[[Heard, Scene, list[Campaign], Any], Answer]] = {
    say.Stop: lambda heard, scene, running, command: _stop(heard, scene, running),
    say.Pause: _pause,
    say.Resume: _resume,
    say.Hint: _hint,
}


def _once(heard: Heard, scene: Scene, wanted: Answer) -> Answer:
    return replace(wanted, events=()) if cause_of(heard) in scene.state.heard else wanted


# one candidate


def _explain(scene: Scene, pull: int) -> Answer:
    found = candidate_of(scene.state, pull)
    return Answer(reply=markdown.explanation(*found)) if found else _no_candidate()


def _veto(heard: Heard, scene: Scene, pull: int, by: str) -> Answer:
    found = candidate_of(scene.state, pull)
    if found is None:
        return _no_candidate() if isinstance(heard, Said) else Answer(reaction="")
    c, x = found
    if x.n in c.live or cause_of(heard) in scene.state.heard:
        event = e.Vetoed(campaign=c.name, at=scene.now, n=x.n, by=by, cause=cause_of(heard))
        return _once(heard, scene, Answer(events=(event,)))
    said = markdown.explanation(c, x).splitlines()[0]
    return _misuse(f"It is too late: {said} `/autoresearch undo` takes back a whole campaign.")


def _no_candidate() -> Answer:
    return _misuse("This is not the pull request of a candidate: the log does not know it.")


def _undo(heard: Heard, running: list[Campaign], latest: Campaign) -> Answer:
    if running:
        return _misuse(f"Campaign {running[0].name} is still under way: `/autoresearch stop` first.")
    if not latest.merged:
        return _misuse(f"Campaign {latest.name} merged nothing, so there is nothing to take back.")
    return Answer(undo=latest.name)


def _misuse(text: str) -> Answer:
    return Answer(reply=text, reaction=CONFUSED)
