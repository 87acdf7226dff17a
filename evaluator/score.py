"""What a checkpoint is worth, in bits per byte of the held-out text.

Two fresh sandboxed processes load it, one after the other. A is shown the held-out windows in an order that only the judge
knows. On a CPU it answers with whole distributions, which are normalised here over the whole vocabulary, so that there is
nothing to gain by what a candidate claims. On a GPU, where that is too much data, it commits one number a token, and only then
is it drawn which of them will have to be proved. A is dead before B, the audit's process, hears anything at all (audit.py).
The denominator is the number of bytes of the raw text, which no tokenizer has a say in.

Nothing can be gained by training while being scored: the session switches gradients off, and a candidate that switches them on
again learns from text only what the audit sees (B did not read it); whatever it could learn from data that it brought along,
in its checkpoint or its code, is bounded by the cap on compute, which counts from the moment it is given the checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator import audit
from evaluator.bits import bits_per_byte, surprise
from evaluator.contention import Meter
from evaluator.defences import PRODUCTION, Defences
from evaluator.prepare import HeldOut
from evaluator.scorer import DISTRIBUTIONS, ENDS, NUMBERS, Answer, Scorer, rows_for
from evaluator.training import Orders
from evaluator.wire import Child, Failed
from runners import Outcome

Progress = Callable[[float], None]  # fraction done


@dataclass(frozen=True, kw_only=True)
class Windows:
    """All that is scored. Arrays [windows, context]; `split` [windows] says which of the texts a window belongs to."""

    inputs: NDArray[np.uint16]
    targets: NDArray[np.uint16]
    scored: NDArray[np.bool_]
    split: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How it is scored. `seconds` of wall clock are the most for all of it, `cap` those of compute for A (0: none).

    `cpu` is the one that A has to itself. `smaller` divides the batches. `incumbent` holds the incumbent's log-probabilities of
    the first text (`Score.numbers`), for an audit that looks where there was most to gain; of another length it is left out.
    """

    bos: int
    seconds: float
    cpu: int
    cap: float = 0.0
    smaller: int = 1
    incumbent: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Score:
    """Bits per byte of each text; what the audit compared, in words; seconds of answering, and of A's compute.

    `numbers`: log-probabilities of the first text, one for each token in the order of the windows.
    """

    bpb: tuple[float, ...]
    audit: str
    seconds: float
    cpu_seconds: float
    numbers: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One scoring: the windows, and all that it goes by. `random` is seeded by the system: nobody can know what it draws."""

    pile: Windows
    orders: Orders
    terms: Terms
    defences: Defences
    prefixes: int
    random: np.random.Generator

    @property
    def first(self) -> NDArray[np.bool_]:
        """Where the tokens of the first text are [windows, context]."""
        first: NDArray[np.bool_] = self.pile.scored & (self.pile.split == 0)[:, None]
        return first

    @property
    def incumbent(self) -> NDArray[np.float64] | None:
        known = self.terms.incumbent
        return known if known is not None and known.size == np.count_nonzero(self.first) else None

    @property
    def evenly(self) -> int:
        """How many prefixes are drawn without regard to any gain."""
        return self.prefixes if self.incumbent is None else self.prefixes - self.prefixes // 2

    @property
    def tolerance(self) -> audit.Tolerance:
        return audit.TOLERANCES[self.orders.device]

    def normal(self, logits: Answer) -> NDArray[np.float64]:
        return audit.log_softmax(logits) if self.defences.normalised else logits.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Where A and B will be compared, and A's log-probabilities there: of all tokens [n, vocab], or of the right ones [n]."""

    sample: audit.Sample
    seen: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What A said: log-probabilities of the right tokens [windows, context], 0 where nothing is scored; a look drawn evenly."""

    numbers: NDArray[np.float64]
    look: Look
    drift: float  # largest difference between two answers for one window, nats


def windows(texts: Sequence[HeldOut], *, bos: int, context: int) -> Windows:
    """Each document is BOS and its tokens, cut into windows of `context` predictions that do not overlap; the last is padded."""
    inputs, targets, scored, split = [], [], [], []
    for number, text in enumerate(texts):
        for document in text.tokens:
            count = -(-len(document) // context)
            padded = np.full(count * context + 1, bos, dtype=np.uint16)
            padded[1 : len(document) + 1] = document
            inputs.append(padded[:-1].reshape(count, context))
            targets.append(padded[1:].reshape(count, context))
            scored.append((np.arange(count * context) < len(document)).reshape(count, context))
            split.append(np.full(count, number))
    return Windows(
        inputs=np.concatenate(inputs), targets=np.concatenate(targets), scored=np.concatenate(scored), split=np.concatenate(split)
    )  # fmt: skip


def score(
    a: Child, b: Child, orders: Orders, checkpoint: int, texts: Sequence[HeldOut], terms: Terms, *, progress: Progress,
    defences: Defences = PRODUCTION,
) -> Score:  # fmt: skip
    """Score and audit a checkpoint on each of the texts. Both processes are dead afterwards. Raises Failed."""
    pile = windows(texts, bos=terms.bos, context=orders.context)
    commits = orders.device == "cuda" if defences.commit is None else defences.commit
    answers = NUMBERS if commits else DISTRIBUTIONS
    rows, prefixes = audit.plan(len(pile.inputs), rows_for(orders, answers), defences.prefixes, terms.smaller)
    random = np.random.default_rng()
    trial = Trial(pile=pile, orders=orders, terms=terms, defences=defences, prefixes=prefixes, random=random)
    until = time.monotonic() + terms.seconds
    shown, audited = (Scorer(child, orders, kind, rows, until) for child, kind in ((a, answers), (b, ENDS)))
    bill = _Bill(a, orders, terms, defences)
    shown.load(checkpoint, apart=defences.apart)
    if not defences.apart:
        audited.load(checkpoint, apart=False)
    begun = time.monotonic()
    said = (_numbers if commits else _distributions)(shown, trial, bill, progress)
    cpu_seconds = bill.settle()
    if defences.apart:
        a.kill()
        pause = time.monotonic()
        audited.load(checkpoint)
        begun += time.monotonic() - pause
    words = _audit(audited, said, trial)
    per_text = [-said.numbers[pile.split == number].sum() for number in range(len(texts))]
    bpb = tuple(bits_per_byte(total, text.nbytes) for total, text in zip(per_text, texts, strict=True))
    seconds, numbers = time.monotonic() - begun, said.numbers[trial.first]
    return Score(bpb=bpb, audit=words, seconds=seconds, cpu_seconds=cpu_seconds, numbers=numbers)


class _Bill:
    """What A's compute comes to: CPU time; on a GPU the wall clock, since it has the whole card."""

    def __init__(self, a: Child, orders: Orders, terms: Terms, defences: Defences) -> None:
        self._wall = time.monotonic() if orders.device == "cuda" else math.inf
        self._meter = Meter(a.box.pid, terms.cpu, a.box.cpu_seconds)
        self._cap, self._hidden = terms.cap, defences.hidden_work

    def check(self) -> float:
        """Seconds so far, of those that can be seen at once. Raises Failed beyond the cap."""
        return self._capped(max(self._meter.owned(), time.monotonic() - self._wall))

    def settle(self) -> float:
        """Seconds in the end, hidden ones included."""
        return self._capped(max(self.check(), self._meter.seconds())) if self._hidden else self.check()

    def _capped(self, seconds: float) -> float:
        if self._cap and seconds > self._cap:
            words = f"scoring took {seconds:.1f} s of compute, allowed are {self._cap:.1f} s"
            raise Failed(Outcome.TIMEOUT, f"{words}: about twice what the incumbent takes")
        return seconds


def _asked(inputs: NDArray[np.uint16], last: NDArray[np.integer] | int) -> NDArray[np.int32]:
    """The windows as a scorer takes them: one more column."""
    asked = np.empty((len(inputs), inputs.shape[1] + 1), dtype=np.int32)
    asked[:, :-1], asked[:, -1] = inputs, last
    return asked


def _distributions(shown: Scorer, trial: Trial, bill: _Bill, progress: Progress) -> Shown:
    """Every logit of A comes over. What will be audited in full is drawn before, and A does not know it."""
    pile = trial.pile
    sample = audit.draw(pile.scored, trial.evenly, trial.random)
    order, doubled = audit.twice(len(pile.inputs), trial.random)
    cuts = np.full(len(pile.inputs), -1)
    cuts[sample.rows] = sample.cuts
    said = np.full(pile.inputs.shape, np.nan)
    kept: dict[int, NDArray[np.float64]] = {}
    seen: dict[int, NDArray[np.float64]] = {}
    drift, done = 0.0, 0
    for logits in shown.run(_asked(pile.inputs[order], 0)):
        batch = order[done : done + len(logits)]
        new = np.isnan(said[batch]).all(axis=1)  # what is asked twice counts as it was answered first
        found = surprise(logits, pile.targets[batch], pile.scored[batch], trial.defences)
        said[batch[new]] = -found[new]
        for i, w in enumerate(batch.tolist()):
            if cuts[w] >= 0 and w not in seen:
                seen[w] = trial.normal(logits[i, cuts[w]])
            if w in doubled:
                answer = trial.normal(logits[i][pile.scored[w]])
                drift = max(drift, float(np.abs(kept.setdefault(w, answer) - answer).max()))
        done += len(logits)
        bill.check()
        progress(done / len(order))
    return Shown(numbers=said, look=Look(sample=sample, seen=np.stack([seen[int(w)] for w in sample.rows])), drift=drift)


def _numbers(shown: Scorer, trial: Trial, bill: _Bill, progress: Progress) -> Shown:
    """A commits one number a token; then it is drawn what of it is audited."""
    pile = trial.pile
    order, doubled = audit.twice(len(pile.inputs), trial.random)
    said = np.full(pile.inputs.shape, np.nan)
    kept: dict[int, NDArray[np.float32]] = {}
    drift, done = 0.0, 0
    for answer in shown.run(_asked(pile.inputs[order], pile.targets[order, -1])):
        batch = order[done : done + len(answer)]
        for w, line in zip(batch.tolist(), answer, strict=True):
            if w in doubled:
                first = kept.setdefault(w, line.copy())
                drift = max(drift, float(np.abs(first - line)[pile.scored[w]].max()))
        new = np.isnan(said[batch]).all(axis=1)
        said[batch[new]] = answer[new]
        done += len(answer)
        bill.check()
        progress(done / len(order))
    if not np.isfinite(said[pile.scored]).all():
        raise Failed(Outcome.NAN, "the model's log-probabilities are not finite numbers")
    if (said[pile.scored] > trial.tolerance.mean).any():
        raise Failed(Outcome.INVALID, "the scoring process claims probabilities above one")
    said[~pile.scored] = 0.0
    sample = audit.draw(pile.scored, trial.evenly, trial.random)
    return Shown(numbers=said, look=Look(sample=sample, seen=said[sample.rows, sample.cuts]), drift=drift)


def _where_it_gained(said: Shown, trial: Trial) -> Look:
    """The second look, of nothing where the incumbent's numbers are not known."""
    gain = np.zeros(said.numbers.shape)
    if trial.incumbent is not None:
        gain[trial.first] = said.numbers[trial.first] - trial.incumbent
    sample = audit.draw_gains(gain, trial.prefixes - trial.evenly, trial.random)
    return Look(sample=sample, seen=said.numbers[sample.rows, sample.cuts])


def _audit(audited: Scorer, said: Shown, trial: Trial) -> str:
    """Ask B for what A was asked, and compare. Raises Failed (invalid), else says what was compared."""
    tolerance, defences = trial.tolerance, trial.defences
    if defences.audit and not said.drift <= tolerance.token:
        words = f"a window that was asked twice, among others, was answered differently by {said.drift:.1e} nats"
        raise Failed(Outcome.INVALID, f"its scoring is not deterministic, or it looks at or remembers other windows: {words}")
    paid = _where_it_gained(said, trial)
    sample = audit.joined(said.look.sample, paid.sample)
    prefixes = audit.prefixes(trial.pile.inputs, sample, trial.orders.vocab_size, trial.random)
    ends = np.concatenate([trial.normal(answer) for answer in audited.run(_asked(prefixes, sample.cuts))])
    evenly = len(said.look.seen)
    found, drawn = _compared(said.look, ends[:evenly], trial), "drawn evenly"
    if len(paid.seen):
        found = found.but_worst(_compared(paid, ends[evenly:], trial))
        drawn = f"{len(paid.seen)} of them where it gained most over the incumbent"
    words = f"{len(sample.rows)} prefixes, {drawn}, {found}"
    if defences.audit and not found.worst <= tolerance.token:
        raise Failed(Outcome.INVALID, f"the audit failed ({words}): a prediction depends on more than the tokens before it")
    if defences.audit and defences.signed_mean and not found.mean <= tolerance.mean:
        raise Failed(Outcome.INVALID, f"the audit failed ({words}): what it was scored by is better than what its model predicts")
    return words


def _compared(look: Look, unseen: NDArray[np.float64], trial: Trial) -> audit.Comparison:
    seen, targets = look.seen, trial.pile.targets[look.sample.rows, look.sample.cuts]
    if not trial.defences.finite:
        good = np.isfinite(seen).all(axis=tuple(range(1, seen.ndim))) & np.isfinite(unseen).all(axis=1)
        seen, unseen, targets = seen[good], unseen[good], targets[good]
    return audit.compare(seen, unseen, targets)
