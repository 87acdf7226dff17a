"""Several proposers in turn, drawn by weight: a source of ideas that dries up, or whose server is away, does not stop the rest.

    Mix(parts=(Part(proposer=mutate, weight=2), Part(proposer=crossover, weight=1)))

The one that is drawn is asked first, the others in the order of the same draw when it has no idea. What was said and spent on
the way is not lost: money is added up, and the hypothesis names who was asked before.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

from bot.propose import Brief, Idea, NoIdea, Proposer
from bot.spending import FREE
from bot.static import hash_of


@dataclass(frozen=True, kw_only=True)
class Part:
    """A proposer and how often it is asked first, in proportion to the others' weights. 0: only when nobody else has an idea."""

    proposer: Proposer
    weight: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"the weight of {self.proposer.name} is {self.weight}: write 0 or a positive number")


@dataclass(frozen=True, kw_only=True)
class Mix:
    """A proposer made of others. `Idea.proposer` is the one that had the idea."""

    parts: tuple[Part, ...]
    name = "mix"

    def __post_init__(self) -> None:
        if not any(part.weight for part in self.parts):
            raise ValueError("the mix has no proposer with a weight above 0: give one of them a weight")

    def propose(self, brief: Brief) -> Idea | NoIdea:
        """The first idea in the order of the draw. One who waits for a person ("pause") is not passed over: a mix in which the
        model's key is wrong would quietly become another mix. One whose money is spent is: the others may cost nothing."""
        asked: list[tuple[str, NoIdea]] = []
        for part in sorted(self.parts, key=lambda part: _wait(brief, part)):
            answer = part.proposer.propose(brief)
            if isinstance(answer, Idea):
                return _told(answer, part.proposer.name, asked)
            asked.append((part.proposer.name, answer))
            if answer.halt == "pause":
                break
        return _nothing(asked)


def _wait(brief: Brief, part: Part) -> tuple[bool, float]:
    """Exponential waiting times: a weighted draw without replacement (Efraimidis and Spirakis 2006)."""
    text = f"{brief.seed}\0{hash_of(brief.source)}\0{part.proposer.name}"
    luck = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") + 0.5) / 2**64
    return part.weight == 0, -math.log(luck) / (part.weight or 1.0)


def _told(idea: Idea, who: str, asked: list[tuple[str, NoIdea]]) -> Idea:
    spent = sum((answer.spent for _, answer in asked), idea.spent)
    repeats = sum((answer.repeats for _, answer in asked), idea.repeats)
    before = "".join(f"\n\n({name} was asked first and had no idea: {answer.reason})" for name, answer in asked)
    return replace(idea, proposer=idea.proposer or who, hypothesis=idea.hypothesis + before, spent=spent, repeats=repeats)


def _nothing(asked: list[tuple[str, NoIdea]]) -> NoIdea:
    """Exhausted when all are. A halt is told when it is what stands in the way."""
    halts = [answer.halt for _, answer in asked if answer.halt]
    open_ones = [answer for _, answer in asked if not answer.exhausted and not answer.halt]
    return NoIdea(
        reason="; ".join(f"{name}: {answer.reason}" for name, answer in asked),
        exhausted=all(answer.exhausted for _, answer in asked),
        halt="pause" if "pause" in halts else halts[0] if halts and not open_ones else "",
        spent=sum((answer.spent for _, answer in asked), FREE),
        repeats=sum(answer.repeats for _, answer in asked),
    )
