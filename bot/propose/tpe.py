"""Constants of train.py set by optuna's TPE from the scores of those that ran. Offline and seeded; needs the `search` extra.

The space is that of mutate.py: each constant has the values that REACH moves lead to, so that kinds, limits and what is left
alone are decided in one place. TPE (Bergstra et al. 2011) sees numbers by their rank in that list, in the order of their size.
It models each constant by itself; of what it draws at most WIDTH constants are changed at once, because a draw of all of them
is a jump away from everything that was merged. `Brief.trials` is the whole memory: a failed run counts as worse than all others.
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.propose import Brief, Idea, NoIdea, Trial, apply
from bot.propose.mutate import Constant, Move, Value, constants, holds, moves
from bot.static import fault, hash_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

name = "optuna"

REACH = 2  # moves from the present value
WIDTH = 2  # constants that one proposal changes, at most
DRAWS = 32  # of TPE for one proposal, before single changes are taken in a random order
NEWEST = 500  # trials that TPE reads: its time grows with them
MISSING = "optuna is not installed where the bot runs: pip install 'autoresearch-bot[search]', or choose another proposer"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A constant with all its values, the present one among them. Numbers are sorted."""

    constant: Constant
    values: tuple[Value, ...]

    @property
    def ordered(self) -> bool:
        return not isinstance(self.constant.value, bool | str)


def values_of(source: str) -> dict[str, Value]:
    """What a `Trial` remembers of a train.py; nothing when it does not parse."""
    try:
        return {constant.name: constant.value for constant in constants(source)}
    except (SyntaxError, ValueError):
        return {}


def optuna_here() -> Any:
    """The library, imported when it is first needed. Raises ImportError."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def propose(brief: Brief, library: Callable[[], Any] = optuna_here) -> Idea | NoIdea:
    """Constants that were not tried together on this source, or NoIdea (exhausted) when none are left."""
    try:
        axes = space(constants(brief.source), brief.trials)
    except (SyntaxError, ValueError) as error:
        return NoIdea(reason=f"train.py does not parse, so its constants cannot be found: {error}", exhausted=True)
    try:
        optuna = library()
    except ImportError:
        return NoIdea(reason=MISSING, exhausted=True)
    luck = _number(f"{brief.seed}\0{hash_of(brief.source)}")
    by = f"{sum(trial.val_bpb is not None for trial in brief.trials)} runs with a score and {_failed(brief.trials)} without"
    for drawn in itertools.chain(_draws(optuna, axes, brief, luck), _single(axes, luck)):
        idea = _idea(brief, drawn, by)
        if idea is not None:
            return idea
    return NoIdea(reason=f"every value of {len(axes)} constants was tried on this base, or is a repeat", exhausted=True)


def space(found: Sequence[Constant], trials: Sequence[Trial] = ()) -> list[Axis]:
    """All constants that moves change, each with what is in reach and what was tried before."""
    depth = [constant for constant in found if constant.name == "DEPTH"]  # the patterns of attention spans depend on it
    axes = []
    for constant in found:
        near = {constant.value}
        for _ in range(REACH):
            near |= {value for old in near for value in _moved(constant, old, depth)}
        if len(near) > 1:
            near |= {v for trial in trials[-NEWEST:] if _fits(constant, v := trial.values.get(constant.name)) and v is not None}
            axes.append(Axis(constant=constant, values=tuple(sorted(near, key=lambda value: (type(value) is str, value)))))
    return axes


def _moved(constant: Constant, value: Value, depth: list[Constant]) -> Iterator[Value]:
    others = [other for other in depth if other.name != constant.name]
    yield from (move.value for move in moves([replace(constant, value=value), *others]) if move.constant.name == constant.name)


def _fits(constant: Constant, value: Value | None) -> bool:
    """Of the same kind: a switch is no number, though Python takes True for 1."""
    kind = type(constant.value)
    return type(value) is kind if kind in (bool, str) else type(value) in (int, float)


def _draws(optuna: Any, axes: list[Axis], brief: Brief, luck: int) -> Iterator[list[Move]]:
    """What TPE would try next, as changes of the present source. The same for the same brief."""
    present = {axis.constant.name: axis.constant.value for axis in axes}
    if not axes:
        return
    sampler = optuna.samplers.TPESampler(seed=luck % 2**32)
    study = optuna.create_study(sampler=sampler)
    shapes = {axis.constant.name: _shape(optuna, axis) for axis in axes}
    _remember(optuna, study, axes, shapes, brief.trials[-NEWEST:])
    for k in range(DRAWS):
        with warnings.catch_warnings():  # what it warns of is a matter of its own versions, not of a campaign
            warnings.simplefilter("ignore")
            asked = study.ask(shapes)
        drawn = {axis.constant.name: _decoded(axis, asked.params[axis.constant.name]) for axis in axes}
        changed = [axis for axis in axes if drawn[axis.constant.name] != present[axis.constant.name]]
        chosen = sorted(changed, key=lambda axis: _number(f"{luck}\0{k}\0{axis.constant.name}"))[: 1 + (luck + k) % WIDTH]
        yield [_move(axis, drawn[axis.constant.name]) for axis in chosen]


def _remember(
    optuna: Any, study: Study, axes: list[Axis], shapes: Mapping[str, BaseDistribution], trials: Sequence[Trial]
) -> None:
    """Trials that know at least one of the constants. TPE only compares scores, so that a failure may be any larger number."""
    worst = max((trial.val_bpb for trial in trials if trial.val_bpb is not None), default=0.0) + 1.0
    for trial in trials:
        known = {x.constant.name: _encoded(x, v) for x in axes if _fits(x.constant, v := trial.values.get(x.constant.name))}
        if known:
            study.add_trial(
                optuna.trial.create_trial(
                    params=known,
                    distributions={key: shapes[key] for key in known},
                    value=worst if trial.val_bpb is None else trial.val_bpb,
                )
            )


def _shape(optuna: Any, axis: Axis) -> BaseDistribution:
    made: BaseDistribution = (
        optuna.distributions.IntDistribution(0, len(axis.values) - 1)
        if axis.ordered
        else optuna.distributions.CategoricalDistribution(axis.values)
    )
    return made


def _encoded(axis: Axis, value: Value | None) -> Value:
    assert value is not None  # _fits
    return axis.values.index(value) if axis.ordered else value


def _decoded(axis: Axis, drawn: Any) -> Value:
    value: Value = axis.values[drawn] if axis.ordered else drawn
    return value


def _single(axes: list[Axis], luck: int) -> list[list[Move]]:
    """Every change of one constant, in a random order."""
    every = [_move(axis, value) for axis in axes for value in axis.values if value != axis.constant.value]
    return [[move] for move in sorted(every, key=lambda move: _number(f"{luck}\0{move.title}"))]


def _move(axis: Axis, value: Value) -> Move:
    return Move(constant=axis.constant, value=value, weight=0.0, why="")


def _idea(brief: Brief, drawn: list[Move], by: str) -> Idea | None:
    """None unless it keeps what must hold, applies, is new and sound, and repeats nothing."""
    edits = tuple(move.edit for move in drawn)
    edited = apply(brief.source, edits)
    moved = {move.constant.name: move.value for move in drawn}
    if not drawn or not holds(values_of(brief.source) | moved, moved.keys()):
        return None
    if fault(brief.source, edited, brief.tried) or brief.refuses(edits):
        return None
    return Idea(
        title=", ".join(move.title for move in drawn),
        hypothesis=f"No model proposed this: a tree-structured Parzen estimator drew the values, by {by}.",
        edits=edits,
        tags=(name, *(move.constant.name.lower() for move in drawn)),
        proposer=name,
    )


def _failed(trials: Sequence[Trial]) -> int:
    return sum(trial.val_bpb is None for trial in trials)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
