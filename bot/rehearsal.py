"""`autoresearch propose --dry-run`: the prompt as a model would read it, what it costs, and where one can be asked, its proposal.

Nothing is written down and nothing is opened. Without a key, or with --offline, nothing leaves this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bot import events as e
from bot import static
from bot.briefing import brief, past
from bot.fold import fold
from bot.log import KNOWLEDGE
from bot.minds import Minds, lacking, minds
from bot.preflight import PROGRAM, read_program
from bot.propose import NoIdea, apply, money, prompt
from bot.propose.prompt import Part
from bot.propose.review import diff_of
from bot.proposing import Memory, Question, Refusal, check
from bot.report import count
from bot.report.bills import bill, usd
from bot.screen import Screen
from bot.spending import Spent, prices
from bot.state import Campaign
from bot.words import plain
from bot.workspace import Machine, Told, Workspace

SEED = 1  # of an offline proposer
WIDTH = 2_000  # characters of a text of the proposer


def rehearse(ws: Workspace, machine: Machine, screen: Screen, overrides: Mapping[str, object], *, offline: bool) -> None:
    """Show it all. Raises Told."""
    c = ws.state().active
    if c is None or c.tip < 0:
        c = _imagined(ws, overrides)
    elif overrides:
        raise Told("a campaign is under way, with the settings that it began with: leave --model and --usd out")
    code = ws.repo if ws.exists and ws.repo.resolve(c.candidates[c.tip].sha) else ws.checkout
    tried = past(code, c)
    learned = ws.log().beside(KNOWLEDGE) if ws.exists else ""
    asked = brief(code, c, c.tip, SEED, past=tried, learned=learned)
    _show_prompt(screen, c, (Part("system", prompt.SYSTEM), *prompt.proposing(asked)))
    reason = lacking(c.settings, machine.server)
    if reason or (offline and c.settings.models):
        screen.line(f"\nNobody is asked: {reason or '--offline'}.", "yellow")
        return
    mind = minds(c.settings, machine.proposers, machine.server, sleep=machine.sleep)
    memory = Memory(asked.source, tried, c.name)
    asked = replace(asked, refuses=memory)
    _show_proposal(screen, mind, Question(brief=asked, memory=memory, path=c.settings.editable[0], parent=c.tip, who=("", "")))


def _imagined(ws: Workspace, overrides: Mapping[str, object]) -> Campaign:
    """The campaign that would begin now, with the commit that is checked out for its base."""
    head = ws.checkout.head()
    if head is None:
        raise Told(f"{ws.top} has no commit yet: commit program.md and trainer/train.py first")
    program = read_program(ws.checkout.read(head, PROGRAM) or "", overrides)
    path = program.settings.editable[0]
    source = ws.checkout.read(head, path)
    if source is None:
        raise Told(f"there is no {path} in the commit that is checked out: it is the file that a campaign works on")
    state = ws.state()
    name = state.next_name(0)
    started = e.CampaignStarted(
        campaign=name, at=0.0, experiments=1, issue=0, title="", body="", by="", program=program.text, settings=dict(overrides),
        seed=SEED, branch=ws.checkout.current_branch() or "HEAD",
    )  # fmt: skip
    guard = ws.checkout.guard_of(head)
    base = e.BaseSeen(campaign=name, at=0.0, n=0, sha=head, guard=guard, source=static.hash_of(source))
    return fold([started, base], state).campaigns[name]


def _show_prompt(screen: Screen, c: Campaign, parts: tuple[Part, ...]) -> None:
    """Every part in full, under its name and about how many tokens it has; then what a proposal, and all of them, may cost."""
    for part in parts:
        screen.line(f"=== {part.name}: about {money.about([part.text]):,} tokens", "bold")
        screen.line(f"{part.text}\n")
    texts = [part.text for part in parts]
    table = prices(c.settings.money.prices)
    price = table.get(c.settings.model.proposer or "") if not isinstance(table, str) else None
    screen.line(f"=== in all: about {money.about(texts):,} tokens, at most {money.ceiling(texts):,}", "bold")
    for experiments in (1, 50):
        guess = money.estimate(experiments, money.about(texts), price, c.spent, c.settled)
        cost = "no price in money.prices" if guess.usd is None else f"about {usd(guess.usd)}"
        screen.line(f"{count(experiments, 'experiment')}: about {guess.tokens:,} tokens, {cost} ({guess.why})")


def _show_proposal(screen: Screen, mind: Minds, question: Question) -> None:
    """What is proposed, as a diff, and whether it would be run."""
    source, idea = question.brief.source, mind.proposer.propose(question.brief)
    if isinstance(idea, NoIdea):
        screen.line(f"\ncost: {_paid(idea.spent)}")
        raise Told(f"no proposal: {idea.reason}")
    checked = check(mind.reviewer, question, idea)
    would = f"would be refused: {checked.reason}" if isinstance(checked, Refusal) else f"would be run; {checked.review}"
    screen.line(f"\nproposed by {idea.proposer or mind.proposer.name}: {plain(idea.title)}", "bold")
    rows = {"hypothesis": idea.hypothesis, "expected": idea.expected_effect, "tags": ", ".join(idea.tags), "it": would}
    for name, text in rows.items():
        if text:
            screen.line(f"{name}: {plain(text, WIDTH)}")
    screen.line(f"\n{diff_of(source, apply(source, idea.edits) or source, question.path)}")
    screen.line(f"cost: {_paid(idea.spent + checked.spent)}")


def _paid(spent: Spent) -> str:
    """Nothing of it is written down: that is said, since it is paid."""
    return f"{bill(spent)}; it is paid, and in the books of no campaign and no cap" if spent.calls else "nothing"
