"""One sandboxed process that answers for windows of text, in one of three ways, and what is believed of it: nothing.

    distributions   logits of every position                [rows, context, vocab]
    numbers         log-probability of every next token     [rows, context]          which it is told for that
    ends            logits of one position of each window   [rows, vocab]            which it is told too

Questions and answers are in shared memory, in slots that alternate; every answer is copied before it is used. What is asked is
an array of windows with one more column: nothing, the last next token, or the position. All batches have the same shape, so that
a kernel that is chosen by shape gives the same window the same answer. What answers mean is in score.py.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evaluator.training import Orders, blamed, died
from evaluator.wire import Child, Failed, Gone, Late, copied, shared
from runners import Outcome

SLOTS = 2  # one is computed while the other is read
SLOT_BYTES = 2**22  # of distributions: what is computed, copied and read stays in the cache
SLOT_TOKENS = 2**16  # of numbers and ends: 2 GB of logits on the device for a vocabulary of 8192
DISTRIBUTIONS, NUMBERS, ENDS = "distributions", "numbers", "ends"

Answer = NDArray[np.float32]


def rows_for(orders: Orders, answers: str) -> int:
    """Windows in one batch."""
    if answers == DISTRIBUTIONS:
        return max(1, SLOT_BYTES // (4 * orders.context * orders.vocab_size))
    return max(1, SLOT_TOKENS // orders.context)


class Scorer:
    """By `until`, a monotonic second, all answers must be there."""

    def __init__(self, child: Child, orders: Orders, answers: str, rows: int, until: float) -> None:
        self.child = child
        self._orders, self._answers, self._rows, self._until = orders, answers, rows, until
        each = {DISTRIBUTIONS: (orders.context, orders.vocab_size), NUMBERS: (orders.context,), ENDS: (orders.vocab_size,)}
        question, answer = (SLOTS, rows, orders.context + 1), (SLOTS, rows, *each[answers])
        asked_fd, asked = shared("tokens", 4 * math.prod(question))
        answer_fd, answered = shared("answers", 4 * math.prod(answer))
        self._fds = (asked_fd, answer_fd)
        self._asked = np.frombuffer(asked, dtype=np.int32).reshape(question)
        self._answer = np.frombuffer(answered, dtype=np.float32).reshape(answer)
        self._copy = np.empty_like(self._answer[0])

    def load(self, checkpoint: int, *, apart: bool = True) -> None:
        """Have it build the model and load the checkpoint, and wait for that. `apart`: from files that nobody else has."""
        ours = (self._orders.source, checkpoint)
        files = [copied(fd) if apart else os.dup(fd) for fd in ours]
        try:
            self._send(self._orders.message("score") | {"answers": self._answers, "rows": self._rows, "slots": SLOTS},
                       [*files, *self._fds])  # fmt: skip
        finally:
            for fd in (*files, *self._fds):
                os.close(fd)
        self._expect({"say": "loaded"})

    def run(self, windows: NDArray[np.int32]) -> Iterator[Answer]:
        """Answers batch by batch, in order, each in an array that the next one overwrites. Raises Failed."""
        batches = [windows[at : at + self._rows] for at in range(0, len(windows), self._rows)]
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

    def _ask(self, number: int, batch: NDArray[np.int32]) -> None:
        slot = number % SLOTS
        self._asked[slot] = np.resize(batch, self._asked[slot].shape)  # the last one is filled up with itself
        self._send({"slot": slot}, [])

    def _send(self, message: dict[str, object], fds: list[int]) -> None:
        try:
            self.child.send(message, fds)
        except Gone:
            raise died(self.child, "while it was scored") from None

    def _expect(self, answer: dict[str, object]) -> None:
        try:
            packet = self.child.hear(self._until)
        except Late:
            raise Failed(Outcome.TIMEOUT, "scoring took longer than budget.scoring_seconds: the model is too slow") from None
        except Gone:
            raise died(self.child, "while it was scored") from None
        packet.drop()
        if packet.say == "failed":
            raise blamed(packet)
        if packet.message != answer:
            raise Failed(Outcome.INVALID, f"the scoring process said {packet.say[:40]!r} out of turn")
