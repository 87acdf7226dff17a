"""Two winners on one source: what fits together, what does not, and that nothing comes twice."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.events import Edit
from bot.propose import Brief, Idea, NoIdea, Proposer, Winner, apply, crossover
from bot.propose.mutate import constants, moves
from bot.static import fault, hash_of

ROOT = Path(__file__).resolve().parents[1]
SMALL = (ROOT / "examples" / "cpu" / "train.py").read_text("utf-8")
BASE = "A = 1  # one\nB = 2\nC = 3\n\n\ndef f():\n    return A\n\n\ndef g():\n    return B\n"


def won(old: str, new: str, gain: float = 0.01) -> Winner:
    return Winner(title=f"{old.partition(' ')[0]} to {new.rpartition(' ')[2]}", edits=(Edit(old=old, new=new),), gain=gain)


def brief(*winners: Winner, source: str = BASE, seed: int = 1, tried: frozenset[str] = frozenset()) -> Brief:
    return Brief(source=source, instructions="", direction="", tried=tried, seed=seed, winners=winners)


def child(*winners: Winner, source: str = BASE) -> str | None:
    """The source that comes out, or None."""
    idea = crossover.propose(brief(*winners, source=source))
    return apply(source, idea.edits) if isinstance(idea, Idea) else None


def test_two_winners_of_different_bases_are_joined() -> None:
    """Both edits are in the child, each once, and the texts say which parents, which gains and that no model thought."""
    proposer: Proposer = crossover
    idea = proposer.propose(brief(won("A = 1  # one", "A = 10  # one", 0.02), won("B = 2", "B = 20", 0.01)))
    assert isinstance(idea, Idea)
    assert apply(BASE, idea.edits) == BASE.replace("A = 1 ", "A = 10 ").replace("B = 2", "B = 20")
    assert (idea.title, idea.proposer, idea.tags) == ("A to one + B to 20", "crossover", ("crossover",))
    assert "No model proposed this" in idea.hypothesis and "0.020000 and 0.010000" in idea.hypothesis
    assert "present code" not in idea.hypothesis


def test_a_winner_joins_the_one_that_is_merged() -> None:
    """What the source has already is not done again: the other parent alone is the edit, and the text says so."""
    source = BASE.replace("B = 2", "B = 20")
    idea = crossover.propose(brief(won("B = 2", "B = 20"), won("C = 3", "C = 30"), source=source))
    assert isinstance(idea, Idea)
    assert idea.edits == (Edit(old="C = 3", new="C = 30"),)
    assert "The first is part of the present code." in idea.hypothesis


@pytest.mark.parametrize(
    ("winners", "why"),
    [
        ((), "nobody won"),
        ((won("A = 1  # one", "A = 10"),), "one winner has no partner"),
        ((won("A = 1  # one", "A = 10"), won("A = 1  # one", "A = 12")), "both change the same place"),
        ((won("A = 1  # one", "A = 10"), won("A = 10", "A = 1  # one")), "the second undoes the first"),
        ((won("A = 1  # one", "A = 10", -0.01), won("B = 2", "B = 20")), "a loser is no parent"),
        ((won("A = 1  # one", "A = 10", 0.0), won("B = 2", "B = 20")), "nor is what gained nothing"),
        ((won("Z = 1", "Z = 10"), won("B = 2", "B = 20")), "the place is gone"),
        ((won("A = 1  # one", "A = (10"), won("B = 2", "B = 20")), "it does not parse"),
        ((won("A = 1  # one", "A = 1  # two"), won("B = 2", "B = 2  # two")), "nothing but comments"),
        ((won("A = 1  # one", "A = 10\nSEED = 7"), won("B = 2", "B = 20")), "it fixes a seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_no_idea(winners: tuple[Winner, ...], why: str) -> None:
    """No child, for whatever reason, is told as exhausted: the same winners on the same base give nothing else later."""
    answer = crossover.propose(brief(*winners))
    assert isinstance(answer, NoIdea), why
    assert answer.exhausted and answer.reason


def test_nothing_is_left_where_both_are_merged() -> None:
    """Two parents that the source has already make no child."""
    source = BASE.replace("B = 2", "B = 20").replace("C = 3", "C = 30")
    assert child(won("B = 2", "B = 20"), won("C = 3", "C = 30"), source=source) is None


def test_an_edit_that_brought_its_surroundings_fits_where_these_have_changed() -> None:
    """Lines of an edit that it does not change need not be as they were."""
    wide = won("A = 1  # one\nB = 2\nC = 3", "A = 1  # one\nB = 2\nC = 30")
    other = won("def f():\n    return A", "def f():\n    return A + A")
    source = BASE.replace("A = 1 ", "A = 7 ")
    assert child(wide, other, source=source) == source.replace("C = 3", "C = 30").replace("return A", "return A + A")
    added = won("A = 1  # one\nB = 2", "A = 1  # one\nD = 4\nB = 2")
    assert child(added, other) == BASE.replace("B = 2", "D = 4\nB = 2").replace("return A", "return A + A")
    assert child(added, other, source=source) is None, "an addition has no place of its own"


def test_a_number_is_not_found_in_a_longer_one() -> None:
    """`A = 1` is not there because `A = 12` is."""
    source = BASE.replace("A = 1  # one", "A = 12")
    assert child(won("A = 9", "A = 1"), won("B = 2", "B = 20"), source=source) is None


def test_every_pair_comes_once_and_the_larger_gains_come_early() -> None:
    """Asked again and again it gives all pairs that fit, each once; the best pair leads more often than the worst."""
    rows = (("P", 0, 1), ("Q", 1, 1), ("R", 2, 9), ("S", 3, 9))
    winners = [won(f"{name} = {k}", f"{name} = {k}0", gain) for name, k, gain in rows]
    source = "".join(f"{name} = {k}\n" for k, name in enumerate("PQRS"))
    first = []
    for seed in range(60):
        tried: frozenset[str] = frozenset()
        titles = []
        while isinstance(idea := crossover.propose(brief(*winners, source=source, seed=seed, tried=tried)), Idea):
            titles.append(idea.title)
            tried |= {hash_of(apply(source, idea.edits) or "")}
        assert len(titles) == len(set(titles)) == 6
        first.append(titles[0])
    assert first.count("R to 20 + S to 30") > first.count("P to 00 + Q to 10") < 10


def test_a_child_that_repeats_an_earlier_idea_is_passed_over() -> None:
    """What the check would refuse is not proposed: another pair is, and none when all are repeats."""
    asked = brief(won("A = 1  # one", "A = 10"), won("B = 2", "B = 20"), won("C = 3", "C = 30"))
    first = crossover.propose(asked)
    assert isinstance(first, Idea)
    other = crossover.propose(replace(asked, refuses=lambda edits: "a repeat" if edits == first.edits else None))
    assert isinstance(other, Idea) and other.edits != first.edits
    nothing = crossover.propose(replace(asked, refuses=lambda _: "a repeat"))
    assert isinstance(nothing, NoIdea) and nothing.exhausted


def test_it_is_a_function_of_the_brief() -> None:
    """The same again is equal, and another seed may draw another pair."""
    winners = [won(move.edit.old, move.edit.new) for move in moves(constants(SMALL))[::7]]
    asked = [crossover.propose(brief(*winners, source=SMALL, seed=seed)) for seed in (1, 1, *range(2, 12))]
    assert asked[0] == asked[1]
    assert len(set(asked)) > 3


@given(st.data())
def test_a_child_of_any_moves_is_sound(data: st.DataObject) -> None:
    """With real moves as parents, on a base that has some of them: it applies, parses, is new, and passes the static gate."""
    block = SMALL.partition("\n\n\ndef ")[0]
    known = moves(constants(block))
    drawn = data.draw(st.lists(st.sampled_from(known), min_size=2, max_size=6))
    merged = data.draw(st.lists(st.sampled_from(known), max_size=2))
    source = block
    for move in merged:
        source = apply(source, (move.edit,)) or source
    idea = crossover.propose(brief(*(Winner(title=m.title, edits=(m.edit,), gain=0.01) for m in drawn), source=source))
    if isinstance(idea, Idea):
        edited = apply(source, idea.edits)
        assert edited is not None and fault(source, edited, frozenset()) is None
        ast.parse(edited)
    else:
        assert idea.exhausted
