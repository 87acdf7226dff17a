"""What a person says becomes events and replies: every command, on its own thread and on the wrong one, once and twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot import command as say
from bot import events as e
from bot.answer import CONFUSED, ROCKET, Answer, Scene, answer, cause_of, refusal
from bot.command import read
from bot.fold import fold
from bot.hearing import IssueClosed, PullClosed, Reviewed, Said
from bot.loop import View, refresh, run
from bot.state import State
from bot.world import World
from tests.worlds import PROGRAM, RULE, memory_world, until

TEXT = PROGRAM.format(width=1, rule=RULE + ", experiments: 9", mode="pairs", gate="")
WHERE = {"repository": "o/r", "default_branch": "main", "login": "ann"}


def said(command: say.Command, *, issue: int = 12, comment: int = 7, on_pull: bool = False) -> Said:
    return Said(
        **WHERE, issue=issue, on_pull=on_pull, comment=comment, inline=False, created_at=1.0, command=command, title="Smaller",
        body="Look at the width.", closed=False, locked=False,
    )  # fmt: skip


def scene(state: State | None = None, program: str | None = TEXT) -> Scene:
    return Scene(state=state or State(), program=program, now=1_700_000_000.0, seed=3, branch="main")


def ask(state: State, command: say.Command, **where: int | bool) -> Answer:
    """The answer, its events folded into the state."""
    given = answer(said(command, **where), scene(state))  # type: ignore[arg-type]
    fold(given.events, state)
    return given


def world_with(*events: e.Event) -> World:
    world = memory_world(lambda source: 2.0 - 0.05 * source.count("= 1"))
    for event in events:
        world.log.append(event, world.log.read()[1])
    return world


def begun(n: int = 3) -> tuple[World, View]:
    """A campaign on issue 12 whose first candidate has its pull request."""
    world = world_with(*answer(said(say.Run(n, {})), scene()).events)
    view = View()
    until(world, view, e.Opened)
    refresh(world, view)
    return world, view


def test_run_starts_a_campaign_with_all_that_was_asked() -> None:
    """Title and text of the issue, the program, the flags, who and why are in the event; nothing needs to be said beside."""
    given = answer(said(say.Run(5, {"stop.target": 1.9})), scene())
    (event,) = given.events
    assert isinstance(event, e.CampaignStarted)
    assert (event.campaign, event.experiments, event.issue, event.title, event.body) == (
        "12.1",
        5,
        12,
        "Smaller",
        "Look at the width.",
    )
    assert (event.by, event.program, event.settings, event.seed, event.branch) == ("ann", TEXT, {"stop.target": 1.9}, 3, "main")
    assert (event.cause, given.campaign, given.reply, given.reaction) == ("comment-7", "12.1", "", ROCKET)


def test_the_cap_is_held_and_told() -> None:
    """More than stop.experiments is cut to it, and the reply names both numbers."""
    given = answer(said(say.Run(500, {})), scene())
    assert given.events[0].experiments == 9  # type: ignore[attr-defined]
    assert "500" in given.reply and "9" in given.reply and "stop.experiments" in given.reply


@pytest.mark.parametrize(
    ("program", "overrides", "told"),
    [
        (None, {}, "no `program.md`"),
        ("---\nspeed: 3\n---\n", {}, "speed"),
        (TEXT, {"stop.target": -4}, "stop.target"),
        (TEXT, {"parallel": 1000}, "parallel"),
    ],
)
def test_a_program_or_an_option_with_mistakes_starts_nothing(
    program: str | None, overrides: dict[str, object], told: str
) -> None:
    """Nothing is written down, and the one reply says what is wrong."""
    given = answer(said(say.Run(5, overrides)), scene(program=program))
    assert not given.events and given.reaction == CONFUSED and told in given.reply


def test_a_campaign_on_a_pull_request_is_refused() -> None:
    """A campaign belongs to an issue."""
    given = answer(said(say.Run(5, {}), on_pull=True), scene())
    assert not given.events and "issue" in given.reply


def test_two_commands_are_two_campaigns_and_the_second_says_that_it_waits() -> None:
    """Neither is lost, whoever was first; the queue is told."""
    state = State()
    assert ask(state, say.Run(5, {}), comment=1).reply == ""
    given = ask(state, say.Run(2, {}), comment=2)
    assert [*state.campaigns] == ["12.1", "12.2"] and "12.1 comes first" in given.reply


@pytest.mark.parametrize("text", ["5", "hint try a smaller batch", "stop", "pause"])
def test_what_is_delivered_twice_is_written_once(text: str) -> None:
    """The same comment again adds no event, and is answered as before."""
    state = State()
    ask(state, say.Run(5, {}), comment=1)
    command = read(f"/autoresearch {text}", on_pull=False)
    assert command is not None
    first, again = ask(state, command, comment=2), ask(state, command, comment=2)
    assert len(first.events) == 1 and again.events == ()
    assert (again.reaction, again.campaign, again.reply) == (first.reaction, first.campaign, first.reply)


def test_stop_is_for_every_campaign_of_that_issue_and_no_other() -> None:
    """One under way, one in the queue; a campaign elsewhere goes on."""
    state = State()
    for k, issue in enumerate((12, 12, 13)):
        ask(state, say.Run(5, {}), comment=k, issue=issue)
    ask(state, say.Stop(), comment=9)
    assert [(c.name, c.stop) for c in state.campaigns.values()] == [("12.1", "ann"), ("12.2", "ann"), ("13.1", "")]


def test_pause_and_resume_say_when_they_make_no_sense() -> None:
    """Pausing twice or resuming what runs changes nothing, and says so."""
    state = State()
    ask(state, say.Run(5, {}), comment=1)
    assert "not paused" in ask(state, say.Resume(), comment=2).reply
    assert ask(state, say.Pause(), comment=3).reply == "" and "ann" in state.campaigns["12.1"].paused
    assert "paused already" in ask(state, say.Pause(), comment=4).reply
    assert ask(state, say.Resume(), comment=5).reply == "" and state.campaigns["12.1"].paused == ""


@pytest.mark.parametrize("command", [say.Stop(), say.Pause(), say.Resume(), say.Hint("x"), say.Status(), say.Undo()])
def test_steering_where_nothing_was_ever_started(command: say.Command) -> None:
    """The reply says how to start something."""
    given = answer(said(command), scene())
    assert not given.events and "/autoresearch N" in given.reply and given.reaction == CONFUSED


def test_a_hint_reaches_every_later_proposal() -> None:
    """It stands beside the direction that the proposer reads, with who said it, the newest first."""
    world, view = begun(3)
    seen = []
    proposer = world.proposer

    class Listening:
        name = "listening"

        def propose(self, brief):  # type: ignore[no-untyped-def]
            seen.append((brief.direction, brief.hints))
            return proposer.propose(brief)

    world = replace(world, proposer=Listening())
    for k, text in enumerate(("narrower", "shorter")):
        world.log.append(*answer(said(say.Hint(text), comment=8 + k), scene(view.state)).events, world.log.read()[1])
    run(world, view)
    hints = ("Hint by ann: shorter", "Hint by ann: narrower")
    assert seen and all("Look at the width." in text and heard == hints for text, heard in seen)


def test_commands_on_a_candidates_pull_request_are_for_its_campaign() -> None:
    """hint and stop need no issue there; explain tells what it waits for."""
    world, view = begun()
    pull = view.state.campaigns["12.1"].candidates[1].pull
    assert pull is not None
    where = {"issue": pull, "on_pull": True}
    assert "is not judged yet" in ask(view.state, say.Explain(), comment=5, **where).reply
    assert ask(view.state, say.Hint("x"), comment=6, **where).campaign == "12.1"
    assert ask(view.state, say.Stop(), comment=17, **where).events[0].campaign == "12.1"
    assert world.log.read()[0]


@pytest.mark.parametrize("how", ["veto", "review", "close"])
def test_a_veto_frees_the_machine(how: str) -> None:
    """Said, asked for in a review, or clicked: the candidate is closed as vetoed on the next looks and its run is ended."""
    world, view = begun()
    until(world, view, e.MeasureStarted, 3)
    x = view.state.campaigns["12.1"].candidates[1]
    assert x.pull is not None
    heard = {
        "veto": said(say.Veto(), issue=x.pull, on_pull=True, comment=9),
        "review": Reviewed(
            **WHERE, pull=x.pull, review=4, state="changes_requested", commit=x.head, created_at=1.0, command=None, closed=False,
            locked=False,
        ),
        "close": PullClosed(**WHERE, pull=x.pull, merged=False, branch="autoresearch/12.1/1"),
    }[how]  # fmt: skip
    (event,) = answer(heard, scene(view.state)).events
    world.log.append(event, world.log.read()[1])
    until(world, view, e.Closed)
    refresh(world, view)
    assert x.why == "vetoed" and "ann" in x.reason
    assert answer(heard, scene(view.state)).events == ()


def test_a_veto_that_is_too_late_says_what_stands() -> None:
    """What is settled stays; the reply gives its verdict and the way to take back a campaign."""
    world, view = begun(1)
    run(world, view)
    pull = view.state.campaigns["12.1"].candidates[1].pull
    assert pull is not None
    given = answer(said(say.Veto(), issue=pull, on_pull=True, comment=9), scene(view.state))
    assert not given.events and "too late" in given.reply and "undo" in given.reply
    assert "ended as" in answer(said(say.Explain(), issue=pull, on_pull=True), scene(view.state)).reply


def test_commands_on_a_pull_request_that_is_no_candidate() -> None:
    """A person's own pull request is not ours to explain; a review there is nobody's business."""
    assert "not the pull request of a candidate" in answer(said(say.Explain(), issue=99, on_pull=True), scene()).reply
    review = Reviewed(
        **WHERE, pull=99, review=4, state="changes_requested", commit="0" * 40, created_at=1.0, command=None, closed=False,
        locked=False,
    )  # fmt: skip
    assert answer(review, scene()) == Answer(reaction="")


def test_closing_the_issue_stops_its_campaigns_without_a_word() -> None:
    """Whoever may write and closes the issue is done with it."""
    state = State()
    ask(state, say.Run(5, {}), comment=1)
    given = answer(IssueClosed(**WHERE, issue=12), scene(state))
    assert given.events[0].by == "ann, who closed the issue" and not given.reply and not given.reaction  # type: ignore[attr-defined]


def test_undo_waits_for_the_end_and_for_something_to_undo() -> None:
    """A campaign that is under way or merged nothing is not taken back."""
    world, view = begun(3)
    assert "still under way" in answer(said(say.Undo(), comment=9), scene(view.state)).reply
    run(world, view)
    merged = view.state.campaigns["12.1"].merged
    assert answer(said(say.Undo(), comment=9), scene(view.state)).undo == ("12.1" if merged else "") and merged
    lost = world_with(*answer(said(say.Run(1, {})), scene()).events)
    lost = replace(lost, runner=memory_world(lambda source: 2.0 + source.count("= 1")).runner)
    view = View()
    run(lost, view)
    assert "merged nothing" in answer(said(say.Undo(), comment=9), scene(view.state)).reply


def test_status_is_one_line_and_points_to_the_whole() -> None:
    """Where it stands, what is next, and where everything is."""
    _, view = begun()
    reply = answer(said(say.Status(), comment=9), scene(view.state)).reply
    assert "0 of 3 experiments done" in reply and "**Next:**" in reply and "#12" in reply and reply.count("\n") == 0


def test_a_refusal_says_why_and_who_can() -> None:
    """A command is refused in words; a click by somebody without the right is passed over."""
    given = refusal(said(say.Run(5, {})))
    assert "write permission" in given.reply and "o/r" in given.reply and not given.events and given.reaction == CONFUSED
    assert refusal(IssueClosed(**WHERE, issue=12)) == Answer(reaction="")


def test_misuse_and_help_are_answered_and_never_read_as_commands() -> None:
    """The reply says what would be right; no line that we write commands us."""
    wrong = read("/autoresearch frobnicate", on_pull=False)
    assert wrong is not None
    for command in (wrong, say.Help()):
        reply = answer(said(command), scene()).reply
        assert reply and read(reply, on_pull=False) is None
    assert "at most 9" in answer(said(say.Help()), scene()).reply


def test_causes_name_what_was_said() -> None:
    """Comments on the thread and on changed lines are two series; a click has no cause."""
    assert cause_of(said(say.Stop())) == "comment-7"
    assert cause_of(replace(said(say.Stop()), inline=True)) == "review-comment-7"
    assert cause_of(IssueClosed(**WHERE, issue=12)) == ""


def test_help_needs_no_program() -> None:
    """Without a program.md, and with one that has mistakes, `help` names the default cap."""
    for text in (None, "nonsense"):
        given = answer(said(say.Help()), scene(program=text))
        assert "at most 200" in given.reply and given.events == ()
