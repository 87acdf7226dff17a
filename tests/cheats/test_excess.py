"""A candidate that takes more than its box allows is ended for it, and what it had too much of is what its reason says."""

from __future__ import annotations

import os
import time

import pytest

from evaluator.training import died
from evaluator.wire import Child, Gone, frozen
from runners import Outcome
from runners.sandbox import Confinement, Limits
from tests.cheats.toy import BOXED, SESSION, candidate

LITTLE = Confinement(limits=Limits(memory=2**28, processes=40), groups=(), second_user=False)

# Both stop by themselves: 150 processes that sleep, 768 MiB in twelve pieces.
BOMB = """
for attempt in range(150):
    time.sleep(0.01)
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""
HOARD = """
kept = []
for number in range(12):
    kept.append(os.memfd_create(f"hoard-{number}"))
    os.posix_fallocate(kept[-1], 0, 2**26)
time.sleep(20)
"""


@pytest.mark.skipif(not BOXED, reason="there is no sandbox here")
@pytest.mark.parametrize(
    ("code", "outcome", "reason"),
    [
        # as root without a user of its own, where the kernel counts no processes and only the watch does
        pytest.param(BOMB, "crash", "processes and threads, 48 are allowed",
                     marks=pytest.mark.skipif(os.getuid() != 0, reason="the kernel itself stops it")),
        (HOARD, "oom", "MiB of memory, 256 are allowed"),
    ],
    ids=["processes", "memory"],
)  # fmt: skip
def test_what_it_had_too_much_of_is_its_outcome_and_reason(code: str, outcome: str, reason: str) -> None:
    """A fork bomb is a crash and not a lack of memory; memory is a lack of memory."""
    child = Child(SESSION, "train", LITTLE)
    try:
        child.ready(30.0)
        order = {"do": "train", "vocab_size": 16, "context": 16, "seed": 1}
        child.send(order, [frozen("train.py", candidate(code).encode())])
        with pytest.raises(Gone):
            child.hear(time.monotonic() + 15)
        failed = died(child, "while training")
    finally:
        child.close()
    assert (failed.outcome, reason in failed.reason) == (Outcome(outcome), True), failed.reason
