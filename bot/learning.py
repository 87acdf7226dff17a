"""The deed of writing down what was learned: knowledge.md beside the log, in which people write too, and winners in words."""

from __future__ import annotations

from collections.abc import Iterator

from bot import actions as a
from bot import events as e
from bot.briefing import reader
from bot.log import KNOWLEDGE, Moved
from bot.propose import knowledge
from bot.propose.knowledge import Lesson, distil, lesson, merge
from bot.state import VERDICTS, Campaign, Candidate
from bot.world import World, editable

GENERATED = "knowledge.generated.md"  # our own text as last written: only against it the lines of people can be told from ours


def learn(world: World, c: Campaign, action: a.Learn) -> e.Event | None:
    """knowledge.md holds all that is settled. None when somebody else wrote to the log in this moment: look again."""
    ours, base = distil(_lessons(world, c)), world.log.beside(GENERATED)
    if ours != base:
        text = merge(base, world.log.beside(KNOWLEDGE), ours)
        try:
            world.log.keep({KNOWLEDGE: text, GENERATED: ours}, f"{c.name}: what {action.about} experiments taught", when=c.at)
        except Moved:
            return None
    return e.Learned(campaign=c.name, at=world.now(), about=action.about)


def explained(world: World, c: Campaign, x: Candidate) -> str:
    """A winner for people who do not read code."""
    return knowledge.explain(c, x, reader(world.code, x.on)(editable(c)) or "")


def _lessons(world: World, c: Campaign) -> Iterator[Lesson]:
    """One of each experiment with a verdict, in this campaign and all before it."""
    sources: dict[str, str] = {}
    for each in (*c.past.campaigns, c):
        for x in each.candidates.values():
            if x.edit and x.why in ("merged", *VERDICTS):
                if x.on not in sources:
                    sources[x.on] = reader(world.code, x.on)(editable(each)) or ""
                yield lesson(each, x, sources[x.on])
