"""The proposer that asks optuna: what it may draw, that it learns from scores, and that it never draws the same twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.propose import Brief, Idea, NoIdea, Proposer, Trial, apply, tpe
from bot.propose.mutate import Value, constants
from bot.propose.tpe import REACH, WIDTH, space, values_of
from bot.static import fault, hash_of

ROOT = Path(__file__).resolve().parents[1]
SMALL = (ROOT / "examples" / "cpu" / "train.py").read_text("utf-8")
LARGE = (ROOT / "trainer" / "train.py").read_text("utf-8")
FEW = 'A_LR = 0.1\nB_LR = 0.1\nKIND = "a"  # "a" or "b"\nON = True\nBATCH = 16\n'


def brief(source: str = FEW, *, seed: int = 1, tried: frozenset[str] = frozenset(), trials: tuple[Trial, ...] = ()) -> Brief:
    return Brief(source=source, instructions="", direction="", tried=tried, seed=seed, trials=trials)


def ask(source: str = FEW, **facts: Any) -> Idea:
    idea = tpe.propose(brief(source, **facts))
    assert isinstance(idea, Idea), idea
    return idea


def edited(source: str, idea: Idea) -> str:
    text = apply(source, idea.edits)
    assert text is not None
    return text


def trial(score: float | None, **values: Value) -> Trial:
    return Trial(values=values, val_bpb=score)


@pytest.mark.parametrize("source", [SMALL, LARGE], ids=["examples/cpu", "trainer"])
def test_a_proposal_changes_few_constants_to_values_in_reach(source: str) -> None:
    """Each applies, passes the static gate, changes what its title says, and nothing but values that moves lead to."""
    reach = {axis.constant.name: axis.values for axis in space(constants(source))}
    before = values_of(source)
    for seed in range(5):
        idea = ask(source, seed=seed)
        after = edited(source, idea)
        assert fault(source, after, frozenset()) is None
        changed = {name: value for name, value in values_of(after).items() if value != before[name]}
        assert 1 <= len(changed) <= WIDTH
        assert all(value in reach[name] for name, value in changed.items())
        assert {part.partition(" ")[0] for part in idea.title.split(", ")} == set(changed)
        assert idea.tags == ("optuna", *(part.partition(" ")[0].lower() for part in idea.title.split(", ")))


def test_it_says_who_proposes() -> None:
    """Neither a model nor chance alone: the estimator, and how many runs it had to go by."""
    proposer: Proposer = tpe
    idea = proposer.propose(brief(trials=(trial(2.0, A_LR=0.1), trial(None, A_LR=0.4))))
    assert isinstance(idea, Idea)
    assert idea.proposer == "optuna"
    assert "No model proposed this" in idea.hypothesis and "1 runs with a score and 1 without" in idea.hypothesis


def test_the_space_is_what_moves_lead_to_and_what_was_tried() -> None:
    """Numbers in order, words and switches as they are; what an earlier base had is a value too, of the same kind only."""
    trials = (trial(2.0, A_LR=5.0, KIND="c", ON=1, BATCH=True, GONE=3),)
    axes = {axis.constant.name: axis.values for axis in space(constants(FEW), trials)}
    assert axes["A_LR"] == (0.025, 0.035, 0.049, 0.05, 0.07, 0.098, 0.1, 0.14, 0.196, 0.2, 0.28, 0.4, 5.0)
    assert axes["KIND"] == ("a", "b", "c")
    assert axes["ON"] == (False, True)
    assert axes["BATCH"] == (4, 8, 16, 32, 64)
    assert "GONE" not in axes
    assert REACH == 2


def test_it_goes_where_the_scores_are_better() -> None:
    """Shown that a low rate is better, it mostly lowers it; shown the opposite, it mostly raises it."""
    rates = (0.025, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4)

    def lowered(sign: float) -> list[bool]:
        trials = tuple(trial(2 + sign * rate, A_LR=rate, B_LR=0.1) for rate in rates * 3)
        drawn = [values_of(edited(FEW, ask(seed=seed, trials=trials)))["A_LR"] for seed in range(40)]
        return [float(rate) < 0.1 for rate in drawn if rate != 0.1]

    down, up = lowered(1.0), lowered(-1.0)
    assert min(len(down), len(up)) >= 5
    assert sum(down) > 0.75 * len(down)
    assert sum(up) < 0.25 * len(up)


def test_a_failed_run_counts_as_worse_than_any_other() -> None:
    """Where all large batches failed and the others are alike, a larger one is drawn less often than a smaller one."""
    trials = tuple(trial(None if size > 16 else 2.0, BATCH=size) for size in (4, 8, 16, 32, 64) * 4)
    drawn = [values_of(edited(FEW, ask(seed=seed, trials=trials)))["BATCH"] for seed in range(60)]
    larger, smaller = sum(int(size) > 16 for size in drawn), sum(int(size) < 16 for size in drawn)
    assert larger < smaller


def test_nothing_comes_twice_on_one_base_and_then_it_ends() -> None:
    """Every proposal on a base is a new file; when the single changes are used up as well it says that it is exhausted."""
    source = 'KIND = "a"  # "a" or "b"\nON = True\n'
    tried: frozenset[str] = frozenset()
    while isinstance(answer := tpe.propose(brief(source, seed=len(tried), tried=tried)), Idea):
        name = hash_of(edited(source, answer))
        assert name not in tried
        tried |= {name}
    assert answer.exhausted and "2 constants" in answer.reason
    assert 2 <= len(tried) <= 3


def test_what_repeats_an_earlier_idea_is_passed_over() -> None:
    """What the check would refuse is not proposed: the next draw is, and none when all are repeats."""
    first = ask()
    other = tpe.propose(replace(brief(), refuses=lambda edits: "a repeat" if edits == first.edits else None))
    assert isinstance(other, Idea) and other.edits != first.edits
    nothing = tpe.propose(replace(brief(), refuses=lambda _: "a repeat"))
    assert isinstance(nothing, NoIdea) and nothing.exhausted


def test_it_is_a_function_of_the_brief() -> None:
    """The same again is equal; another seed, base or history draws anew."""
    trials = (trial(2.0, A_LR=0.1, B_LR=0.2), trial(2.1, A_LR=0.2, B_LR=0.1))
    assert ask(seed=5, trials=trials) == ask(seed=5, trials=trials)
    assert len({ask(seed=seed).title for seed in range(12)}) > 4
    other = FEW + "X = (1, 2)\n"
    assert [ask(seed=seed).title for seed in range(8)] != [ask(other, seed=seed).title for seed in range(8)]


def test_constraints_hold_for_all_that_is_changed_at_once() -> None:
    """Two constants that must fit together do, however they are drawn."""
    source = "DIM = 128  # width\nHEAD_DIM = 64  # of a head\n"
    for seed in range(40):
        values = values_of(edited(source, ask(source, seed=seed)))
        assert int(values["DIM"]) % int(values["HEAD_DIM"]) == 0


@pytest.mark.parametrize("source", ["", "x = 1\n", "def (", "\0", "SEED = 1\n"])
def test_a_file_without_constants_is_exhausted(source: str) -> None:
    """Where there is nothing to draw, or nothing that parses, there is no idea, and asking again is said to be pointless."""
    answer = tpe.propose(brief(source))
    assert isinstance(answer, NoIdea)
    assert answer.exhausted and answer.reason
    assert values_of(source) in ({}, {"SEED": 1})


def test_without_the_library_a_person_is_told_what_to_install() -> None:
    """No traceback: no idea, and the command that helps."""

    def absent() -> Any:
        raise ImportError("No module named 'optuna'")

    answer = tpe.propose(brief(), library=absent)
    assert isinstance(answer, NoIdea)
    assert answer.exhausted and "pip install 'autoresearch-bot[search]'" in answer.reason


def test_odd_trials_do_no_harm() -> None:
    """Values of another kind, of constants that are gone, and empty ones are passed over."""
    odd = (trial(2.0), trial(None), trial(1.0, GONE=1), trial(1.0, A_LR=True), trial(1.0, A_LR="x", ON="yes"), trial(1.0, KIND=2))
    assert ask(trials=odd * 5)
