"""Several proposers behind one: who is asked how often, who is asked next, and what is told when nobody knows anything."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from bot.events import Edit
from bot.installed import PROPOSERS as INSTALLED
from bot.minds import Server, minds
from bot.program import Program, parse
from bot.propose import Brief, Idea, NoIdea, Proposer, mutate
from bot.propose.mix import Mix, Part
from bot.settings import PROPOSERS
from bot.spending import Spent

CALL = Spent(calls=1, input=100, output=10, usd=0.01)
IDEA = Idea(title="t", hypothesis="it may help", edits=(Edit(old="A = 1", new="A = 2"),))
DRY = NoIdea(reason="all was tried", exhausted=True)
AWAY = NoIdea(reason="the server did not answer", spent=CALL)
BROKE = NoIdea(reason="the cap is reached", halt="money")
LOCKED = NoIdea(reason="the key is wrong", halt="pause")


@dataclass
class Says:
    """A proposer that has one answer."""

    name: str
    answer: Idea | NoIdea = IDEA
    asked: list[int] = field(default_factory=list)

    def propose(self, brief: Brief) -> Idea | NoIdea:
        self.asked.append(brief.seed)
        return self.answer


def brief(seed: int = 1, source: str = "A = 1\n") -> Brief:
    return Brief(source=source, instructions="", direction="", tried=frozenset(), seed=seed)


def mix(*parts: tuple[Proposer, float]) -> Mix:
    return Mix(parts=tuple(Part(proposer=proposer, weight=weight) for proposer, weight in parts))


def ordered(*says: Says) -> Mix:
    """Asked in this order: the weights leave no doubt."""
    return mix(*((one, 1000.0 ** (len(says) - k)) for k, one in enumerate(says)))


def test_the_weights_say_how_often_each_is_asked_first() -> None:
    """In 1,000 draws with weights 6, 2, 1, 1 each has its share, within four standard deviations; nobody else is asked."""
    names = {"llm": 6, "mutate": 2, "optuna": 1, "crossover": 1}
    mixed = mix(*((Says(name), weight) for name, weight in names.items()))
    ideas = [mixed.propose(brief(seed)) for seed in range(1000)]
    counts = {name: sum(isinstance(idea, Idea) and idea.proposer == name for idea in ideas) for name in names}
    assert sum(counts.values()) == 1000
    for name, weight in names.items():
        share = weight / 10
        assert abs(counts[name] - 1000 * share) < 4 * math.sqrt(1000 * share * (1 - share)), counts


def test_the_idea_carries_the_name_of_its_real_proposer() -> None:
    """The one that had it; a name that the idea has already stays."""
    assert ordered(Says("llm")).propose(brief()) == Idea(title="t", hypothesis=IDEA.hypothesis, edits=IDEA.edits, proposer="llm")
    proposer: Proposer = mix((mutate, 1))
    idea = proposer.propose(brief(source="BATCH = 16\n"))
    assert isinstance(idea, Idea)
    assert (proposer.name, idea.proposer) == ("mix", "mutate")


def test_who_has_no_idea_is_followed_by_the_next() -> None:
    """The text says who was asked before and why that came to nothing, and what it cost is not lost."""
    last = Says("mutate", Idea(title="t", hypothesis="it may help", edits=IDEA.edits, spent=CALL))
    idea = ordered(Says("llm", AWAY), Says("crossover", DRY), last, other := Says("optuna")).propose(brief())
    assert isinstance(idea, Idea)
    assert idea.proposer == "mutate"
    assert "(llm was asked first and had no idea: the server did not answer)" in idea.hypothesis
    assert idea.hypothesis.startswith("it may help")
    assert idea.spent == CALL + CALL
    assert other.asked == []


@pytest.mark.parametrize(
    ("answers", "exhausted", "halt"),
    [
        ((DRY, DRY), True, ""),
        ((DRY, AWAY), False, ""),
        ((AWAY, DRY), False, ""),
        ((BROKE, DRY), False, "money"),
        ((BROKE, AWAY), False, ""),
        ((LOCKED, DRY), False, "pause"),
        ((DRY, LOCKED), False, "pause"),
        ((BROKE, LOCKED), False, "pause"),
    ],
)
def test_nobody_knows_anything(answers: tuple[NoIdea, ...], *, exhausted: bool, halt: str) -> None:
    """Exhausted only when all are; a halt is told when waiting would not help; every reason with its name; money adds up."""
    says = [Says(f"p{k}", answer) for k, answer in enumerate(answers)]
    got = ordered(*says).propose(brief())
    assert isinstance(got, NoIdea)
    assert (got.exhausted, got.halt) == (exhausted, halt)
    asked = [one for one in says if one.asked]
    assert all(isinstance(one.answer, NoIdea) and f"{one.name}: {one.answer.reason}" in got.reason for one in asked)
    assert got.spent == (CALL if AWAY in answers else Spent())


def test_who_waits_for_a_person_is_not_passed_over() -> None:
    """With a wrong key the mix would quietly become another one; with the money spent it goes on with what costs nothing."""
    free = Says("mutate")
    assert ordered(Says("llm", LOCKED), free).propose(brief()) == NoIdea(reason="llm: the key is wrong", halt="pause")
    assert free.asked == []
    idea = ordered(Says("llm", BROKE), free).propose(brief())
    assert isinstance(idea, Idea) and "the cap is reached" in idea.hypothesis


def test_a_weight_of_zero_is_the_last_resort() -> None:
    """It is asked only when all the others have nothing."""
    for seed in range(20):
        spare = Says("mutate")
        assert isinstance(mix((spare, 0), (Says("llm"), 1)).propose(brief(seed)), Idea)
        assert spare.asked == []
        idea = mix((spare, 0), (Says("llm", DRY), 1)).propose(brief(seed))
        assert isinstance(idea, Idea) and idea.proposer == "mutate"


def test_it_is_a_function_of_the_brief() -> None:
    """The same again is equal; the seed and the base draw anew."""
    mixed = mix(*((Says(name), 1) for name in "abcd"))
    assert mixed.propose(brief(3)) == mixed.propose(brief(3))
    assert len({getattr(mixed.propose(brief(seed)), "proposer", "") for seed in range(30)}) == 4
    assert len({getattr(mixed.propose(brief(1, f"A = {k}\n")), "proposer", "") for k in range(30)}) == 4


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_a_weight_is_a_number_from_zero_up(weight: float) -> None:
    """What is no weight is refused with the name of the proposer; so is a mix of nobody."""
    with pytest.raises(ValueError, match="the weight of llm is"):
        Part(proposer=Says("llm"), weight=weight)
    with pytest.raises(ValueError, match="no proposer with a weight above 0"):
        mix((Says("llm"), 0))


def test_every_proposer_that_program_md_may_name_is_installed() -> None:
    """Each of them alone, and the mix of all: none is a name without a program behind it."""
    for name in PROPOSERS:
        program = parse(f"---\nproposer: {name}\nmodel: {{proposer: m}}\nmoney: {{prices: [m 1 1 1]}}\n---\n")
        assert isinstance(program, Program), program
        made = minds(program.settings, INSTALLED, Server(base_url="http://127.0.0.1:9/v1", key="k"))
        assert made.proposer.name == name
