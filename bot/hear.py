"""What people do on GitHub, from the payload of a webhook to the log: a light job that never trains, proposes or merges.

Eyes at once; then the person's permission is asked for; then it is written down, and a rocket says so. It is safe to do all of
it again: the log knows what it heard. Whoever drives the loop sees the event on its next look.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from bot import events as e
from bot import static
from bot.answer import Answer, Scene, answer, cause_of, refusal
from bot.fold import check, fold
from bot.forge import Gone
from bot.forge.github import GitHubForge
from bot.forge.threads import Threads
from bot.hearing import Heard, Ignored, Reviewed, Said, heard
from bot.log import Log, Moved, Position
from bot.propose import apply
from bot.report import markdown, status
from bot.state import Campaign, State, Unlisted
from bot.words import say
from bot.world import Code

PROGRAM = "program.md"
TRIES = 20  # of an append that others keep overtaking


@dataclass(frozen=True, kw_only=True)
class Ears:
    """Where it is heard, and with what it is answered."""

    threads: Threads
    forge: GitHubForge
    log: Log
    code: Code
    now: Callable[[], float]
    seed: Callable[[], int]


def listen(event: str, payload: object, me: str | None) -> Heard | Ignored:
    """What a payload says. `me` is the login of our token: a person's own token writes in the name of that person, whose
    comments count; ours carry a hidden mark, and are never read as commands."""
    conversation = event in ("issue_comment", "pull_request_review", "pull_request_review_comment")
    return heard(event, payload, me=me if me and (me.endswith("[bot]") or not conversation) else "[bot]")


def hear(ears: Ears, event: str, payload: object) -> list[str]:
    """Do what the payload asks for; what was done, in words. Raises Busy, ForgeError, GitError, LogDamaged."""
    said = listen(event, payload, ears.threads.me)
    if isinstance(said, Ignored):
        return [f"nothing to do: {said.reason}"]
    if said.repository.lower() != ears.threads.rest.name.lower():
        return [f"nothing to do: the payload is of {said.repository}, the token of {ears.threads.rest.name}"]
    _react(ears, said, "eyes")
    if not ears.threads.may_write(said.login):
        return _reply(ears, said, refusal(said), None)
    wanted, state = _write_down(ears, said)
    if wanted.undo:
        wanted = _undo(ears, said, state.campaigns[wanted.undo])
    return [*map(say, wanted.events), *_reply(ears, said, wanted, state)]


def _write_down(ears: Ears, said: Heard) -> tuple[Answer, State]:
    """The answer, once its events are in the log, and the state with them."""
    for _ in range(TRIES):
        happened, position = ears.log.read()
        state = fold(happened)
        wanted = answer(said, _scene(ears, state))
        try:
            for k, event in enumerate(wanted.events):
                position = _append(ears, event, position, again=k > 0)
        except Moved:
            continue
        return wanted, fold(ears.log.read()[0]) if wanted.events else state
    raise Moved(f"others wrote to the log {TRIES} times in a row while this was to be written down: deliver it once more")


def _append(ears: Ears, event: e.Event, position: Position, *, again: bool) -> Position:
    """`again`: what went before it is written down already, so it follows, whoever writes in between."""
    while True:
        try:
            return ears.log.append(event, position)
        except Moved:
            if not again:
                raise
            happened, position = ears.log.read()
            try:
                check(fold(happened).campaigns[event.campaign], event)
            except Unlisted:
                return position  # it ended meanwhile


def _scene(ears: Ears, state: State) -> Scene:
    text = ears.code.read(ears.forge.tip(), PROGRAM)
    return Scene(state=state, program=text, now=ears.now(), seed=ears.seed(), branch=ears.forge.branch)


def _reply(ears: Ears, said: Heard, wanted: Answer, state: State | None) -> list[str]:
    """Say it in the thread where it was asked, in one comment for each command."""
    done = []
    if state and (c := state.campaigns.get(wanted.campaign)):
        with suppress(Gone):
            ears.forge.say(c.started.issue, c.name, status.render(c))
        done.append(f"status comment of campaign {c.name} on #{c.started.issue}")
    thread = _thread(said)
    if wanted.reply and thread:
        with suppress(Gone):
            ears.forge.say(thread, f"cmd={cause_of(said)}", wanted.reply)
        done.append(f"reply on #{thread}: {wanted.reply.splitlines()[0]}")
    if wanted.reaction:
        _react(ears, said, wanted.reaction)
    return done or ["nothing new"]


def _thread(said: Heard) -> int | None:
    """Where a reply can stand."""
    match said:
        case Said(locked=False):
            return said.issue
        case Reviewed(locked=False):
            return said.pull
    return None


def _react(ears: Ears, said: Heard, content: str) -> None:
    if isinstance(said, Said):
        ears.threads.react(said.comment, content, on="pulls" if said.inline else "issues")


def _undo(ears: Ears, said: Heard, c: Campaign) -> Answer:
    """One pull request that takes back what the campaign merged, newest edit first. People merge it or not: nobody measures
    what they have decided."""
    tip, path = ears.forge.tip(), c.settings.editable[0]
    source = ears.code.read(tip, path) or ""
    back = apply(source, tuple(e.Edit(old=x.new, new=x.old) for m in reversed(c.merged) for x in reversed(m.edits)))
    branch = f"autoresearch/{c.name}/undo"
    if (pull := ears.forge.pull_of(branch)) is None:
        if back is None or static.hash_of(back) == static.hash_of(source):
            commits = ", ".join(f"`{m.sha[:12]}`" for m in reversed(c.merged))
            return Answer(reply=f"{path} was changed since: revert by hand, newest first: {commits}.", reaction="confused")
        head = ears.code.commit_file(tip, path, back, markdown.undo_title(c), when=c.at)
        ears.forge.push(branch, head)
        body = markdown.undo_body(c, said.login)
        labels = ("autoresearch: undo",)
        pull = ears.forge.open_pull(branch=branch, title=markdown.undo_title(c), body=body, labels=labels)
    if c.undone is None:
        _record(ears, e.UndoOpened(campaign=c.name, at=ears.now(), pull=pull, by=said.login, cause=cause_of(said)))
    return Answer(reply=f"Pull request #{pull} takes back what campaign {c.name} merged. Merge it if you want that.")


def _record(ears: Ears, event: e.Event) -> None:
    """An event that may follow anything."""
    while True:
        try:
            ears.log.append(event, ears.log.read()[1])
            return
        except Moved:
            continue


def rehearse(event: str, payload: object, program: str | None, now: float) -> list[str]:
    """What a payload would do, if the person may and no campaign was ever run: nothing is asked and nothing is done."""
    said = listen(event, payload, None)
    if isinstance(said, Ignored):
        return [f"would do nothing: {said.reason}"]
    what = f": {said.command}" if isinstance(said, (Said, Reviewed)) else ""
    lines = [f"heard {type(said).__name__} by {said.login} on {said.repository}{what}"]
    lines.append(
        f"would ask GitHub whether {said.login} may write to {said.repository}; if not: {refusal(said).reply or 'silence'}"
    )
    wanted = answer(said, Scene(state=State(), program=program, now=now, seed=0, branch=said.default_branch))
    lines += [f"would write down: {say(x)}" for x in wanted.events]
    if wanted.reply:
        lines.append(f"would reply: {wanted.reply}")
    if wanted.reaction and isinstance(said, Said):
        lines.append(f"would react: eyes, then {wanted.reaction}")
    return lines
