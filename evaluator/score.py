"""What a checkpoint is worth, in bits per byte of the held-out text.

Two fresh sandboxed processes load it, gradients off. A is shown the held-out windows in an order that only the judge knows and
answers with whole distributions in shared memory; B is shown the audit's prefixes. Every logit is copied before it is used,
and normalised here over the whole vocabulary, so that there is nothing to gain by what a candidate claims. The denominator is
the number of bytes of the raw text, which no tokenizer has a say in.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from evaluator import audit
from evaluator.prepare import HeldOut
from evaluator.training import Orders, blamed, died
from evaluator.wire import Child, Failed, Gone, Late, shared
from runners import Outcome

SLOTS = 2  # one is computed while the other is read
SLOT_BYTES = 2**24  # of logits: more does not help on a CPU, where it would leave the cache anyway
LEAST_SECONDS = 60.0  # scoring may take so long, or the training budget, whichever is more

Logits = NDArray[np.float32]
Progress = Callable[[float], None]  # fraction done


@dataclass(frozen=True, kw_only=True)
class Windows:
    """All that is scored. Arrays [windows, context]; `split` [windows] says which of the texts a window belongs to."""

    inputs: NDArray[np.uint16]
    targets: NDArray[np.uint16]
    scored: NDArray[np.bool_]
    split: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Score:
    """Bits per byte of each text, what the audit compared, in words, and how long it took once the model was loaded."""

    bpb: tuple[float, ...]
    audit: str
    seconds: float


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


def rows_for(orders: Orders) -> int:
    """Windows in one batch."""
    return max(1, SLOT_BYTES // (4 * orders.context * orders.vocab_size))


class Scorer:
    """One process that answers batches of windows with logits."""

    def __init__(self, child: Child, orders: Orders, rows: int, until: float) -> None:
        self._child, self._rows, self._until = child, rows, until
        shape = (SLOTS, rows, orders.context)
        asked_fd, asked = shared("tokens", 4 * math.prod(shape))
        answer_fd, answer = shared("logits", 4 * math.prod(shape) * orders.vocab_size)
        self._fds = (asked_fd, answer_fd)
        self._asked = np.frombuffer(asked, dtype=np.int32).reshape(shape)
        self._answer = np.frombuffer(answer, dtype=np.float32).reshape(*shape, orders.vocab_size)
        self._copy = np.empty_like(self._answer[0])
        self._orders = orders

    def load(self, checkpoint: int) -> None:
        """Have it build the model and load the checkpoint; does not wait for that."""
        self._send(self._orders.message("score") | {"rows": self._rows, "slots": SLOTS},
                   [self._orders.source, checkpoint, *self._fds])  # fmt: skip
        for fd in self._fds:
            os.close(fd)

    def wait(self) -> None:
        """Until it is loaded."""
        self._expect({"say": "loaded"})

    def run(self, inputs: NDArray[np.uint16]) -> Iterator[Logits]:
        """Logits [n, context, vocab] batch by batch, in order, each in an array that the next one overwrites. Raises Failed."""
        batches = [inputs[at : at + self._rows] for at in range(0, len(inputs), self._rows)]
        for number in range(min(SLOTS, len(batches))):
            self._ask(number, batches[number])
        for number, batch in enumerate(batches):
            slot = number % SLOTS
            self._expect({"say": "scored", "slot": slot})
            copy = self._copy[: len(batch)]
            np.copyto(copy, self._answer[slot, : len(batch)])
            if number + SLOTS < len(batches):
                self._ask(number + SLOTS, batches[number + SLOTS])
            yield copy

    def _ask(self, number: int, batch: NDArray[np.uint16]) -> None:
        slot = number % SLOTS
        self._asked[slot, : len(batch)] = batch
        self._send({"slot": slot, "rows": len(batch)}, [])

    def _send(self, message: dict[str, object], fds: list[int]) -> None:
        try:
            self._child.send(message, fds)
        except Gone:
            raise died(self._child, "while it was scored") from None

    def _expect(self, answer: dict[str, object]) -> None:
        try:
            packet = self._child.hear(self._until)
        except Late:
            raise Failed(Outcome.TIMEOUT, "scoring took too long: the model is too slow for what it was trained in") from None
        except Gone:
            raise died(self._child, "while it was scored") from None
        packet.drop()
        if packet.say == "failed":
            raise blamed(packet)
        if packet.message != answer:
            raise Failed(Outcome.INVALID, f"the scoring process said {packet.say[:40]!r} out of turn")


def score(
    a: Child, b: Child, orders: Orders, checkpoint: int, texts: Sequence[HeldOut], *, bos: int, rows: int, seconds: float,
    progress: Progress,
) -> Score:  # fmt: skip
    """Score and audit a checkpoint on each of the texts. `seconds` is the most that it may take. Raises Failed."""
    random = np.random.default_rng()  # from the system: the candidate must not know what is drawn
    pile = windows(texts, bos=bos, context=orders.context)
    until = time.monotonic() + seconds
    shown, audited = Scorer(a, orders, rows, until), Scorer(b, orders, rows, until)
    for scorer in (shown, audited):
        scorer.load(checkpoint)
    sample = audit.draw(pile.scored, random)
    prefixes = audit.prefixes(pile.inputs, sample, orders.vocab_size, random)
    order = random.permutation(len(pile.inputs))
    for scorer in (shown, audited):
        scorer.wait()
    begun = time.monotonic()
    nats, seen, unseen = _run(shown, audited, pile, order, sample, prefixes, progress)
    worst = audit.compare(seen, unseen)
    words = f"{len(sample.rows)} prefixes, largest difference {worst:.1e} nats"
    if not worst <= audit.TOLERANCE:
        raise Failed(Outcome.INVALID, f"the audit failed ({words}): a prediction depends on more than the tokens before it")
    per_text = [nats[pile.split == number].sum() for number in range(len(texts))]
    bpb = tuple(bits_per_byte(total, text.nbytes) for total, text in zip(per_text, texts, strict=True))
    return Score(bpb=bpb, audit=words, seconds=time.monotonic() - begun)


def _run(
    shown: Scorer, audited: Scorer, pile: Windows, order: NDArray[np.int64], sample: audit.Sample, prefixes: NDArray[np.uint16],
    progress: Progress,
) -> tuple[NDArray[np.float64], Logits, Logits]:  # fmt: skip
    """Both processes side by side: nats of each window, and A's and B's logits at the audited places [prefixes, vocab]."""
    nats = np.zeros(len(order))
    cuts = np.full(len(order), -1)
    cuts[sample.rows] = sample.cuts
    seen: dict[int, Logits] = {}
    unseen: list[Logits] = []
    done = audits = 0
    for logits, other in zip_longest(shown.run(pile.inputs[order]), audited.run(prefixes)):
        if other is not None:
            unseen.append(other[np.arange(len(other)), sample.cuts[audits : audits + len(other)]].copy())
            audits += len(other)
        if logits is not None:
            batch = order[done : done + len(logits)]
            nats[batch] = surprise(logits, pile.targets[batch], pile.scored[batch])
            seen |= {int(w): logits[i, cuts[w]].copy() for i, w in enumerate(batch) if cuts[w] >= 0}
            done += len(logits)
            progress(done / len(order))
    return nats, np.stack([seen[int(w)] for w in sample.rows]), np.concatenate(unseen)


def surprise(logits: Logits, targets: NDArray[np.uint16], scored: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Nats of each window [n] for logits [n, context, vocab]: log-sum-exp less the target's logit, summed in float64.

    Raises Failed (nan) when a logit that counts is not finite.
    """
    nats = np.zeros(len(logits))
    for row, (window, target, counts) in enumerate(zip(logits, targets, scored, strict=True)):  # a row fits into the cache
        window = window[counts]
        if not np.isfinite(window).all():
            raise Failed(Outcome.NAN, "the model's logits are not finite numbers")
        most = window.max(axis=1, keepdims=True)
        hit = window[np.arange(len(window)), target[counts]] - most[:, 0]
        window -= most
        totals = np.exp(window, out=window).sum(axis=1, dtype=np.float64)
        nats[row] = np.log(totals).sum() - hit.sum(dtype=np.float64)
    return nats


def bits_per_byte(nats: float, nbytes: int) -> float:
    """Total nats / ln 2 / bytes of the raw text. Raises Failed (nan) for what cannot be a result."""
    bits = float(nats) / math.log(2) / nbytes
    if not math.isfinite(bits) or not 0.0 < bits < 100.0:
        raise Failed(Outcome.NAN, f"{bits} is not a possible number of bits per byte")
    return bits
