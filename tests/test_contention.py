"""Who took the CPU: what others do makes a run void, what the candidate does to itself does not; hidden work is billed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from evaluator.contention import TICK, Evidence, Meter, Others, Process, held_before, processes
from evaluator.defences import Defences
from runners import Outcome
from tests.test_measure import BOXED, judged

CPU = max(os.sched_getaffinity(0))  # the candidate's
SPIN = "import os, time; os.sched_setaffinity(0, {%d}); end = time.monotonic() + %g\nwhile time.monotonic() < end: pass"
CROWD = 5  # against one candidate: it gets a sixth of the CPU
CROWDED = 0.6  # of the time lost: more than others on a machine of tests take, less than a crowd does

WORK = """
if order["do"] == "train":
    start()
    {}
    end = time.monotonic() + 1.5
    while time.monotonic() < end: pass
    save(); done()
else:
    serve(honest)
"""

def busy() -> float:
    """Share of the candidate's CPU that others take just now."""
    others = Others((os.getpid(),))
    time.sleep(0.4)
    others.look(processes(), CPU)
    return (others.seconds + others.unseen) / 0.4


@contextlib.contextmanager
def strangers(count: int, seconds: float) -> Iterator[list[int]]:
    """Busy processes on the candidate's CPU that are nobody's children: their parent, a shell, has ended."""
    program = SPIN % (CPU, seconds)
    line = f'for i in $(seq {count}); do setsid "$0" -c "$1" >/dev/null 2>&1 & echo $!; done'
    told = subprocess.run(["sh", "-c", line, sys.executable, program], capture_output=True, text=True, check=True)
    pids = [int(word) for word in told.stdout.split()]
    try:
        yield pids
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_candidate_that_others_starve_is_void() -> None:
    """Strangers on its CPU: void, with the numbers, and no score; what it cost is in the record."""
    with strangers(CROWD, 8.0):
        got = judged(WORK.format("pass"), defences=Defences(void_share=CROWDED))
    assert (got.outcome, got.val_bpb) == (Outcome.VOID, None), got
    assert "the machine is too busy" in got.reason
    assert "other processes ran" in got.reason
    assert got.training_seconds > 1.4
    assert 0 < got.cpu_seconds < got.training_seconds


def test_a_candidate_that_starves_itself_is_not_void() -> None:
    """Its own children are its own loss, although it waits as long as with strangers: that alone would make it void."""
    if busy() > 0.3:
        pytest.skip("others are busy on the candidate's CPU, which is what this must tell apart")
    source = WORK.format(f"for _ in range({CROWD}):\n        if os.fork() == 0:\n            while True: pass")
    assert judged(source, defences=Defences(void_share=CROWDED)).outcome is Outcome.OK
    assert judged(source, defences=Defences(void_share=CROWDED, others_only=False)).outcome is Outcome.VOID


def test_a_candidate_that_sleeps_is_not_void() -> None:
    """Strangers have the CPU, but it did not want it."""
    with strangers(1, 8.0):
        got = judged(WORK.format("time.sleep(1.5); save(); done(); hear()"), defences=Defences(void_share=0.0))
    assert got.outcome is Outcome.OK, got
    assert got.cpu_seconds < 0.75


def test_a_crash_stays_a_crash_on_a_busy_machine() -> None:
    """Strangers cannot have caused it."""
    with strangers(CROWD, 8.0):
        got = judged("start()\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nraise KeyError('wte')",
                     defences=Defences(void_share=CROWDED))  # fmt: skip
    assert got.outcome is Outcome.CRASH
    assert got.training_seconds > 1.4
    assert got.cpu_seconds > 0


def test_evidence_needs_both_a_wait_and_somebody_who_had_the_cpu() -> None:
    """The smaller of the two counts, and what a hypervisor took; little of it never does."""
    busy = Evidence(seconds=10, delay=2, others=2)
    assert "2.00 s" in busy.void(0.05)
    assert replace(busy, others=0.4).void(0.05) == ""
    assert replace(busy, delay=0.4).void(0.05) == ""
    assert replace(busy, others=0, steal=0.6).void(0.05) != ""
    assert replace(busy, seconds=1, delay=0.4, others=0.4).void(0.05) == ""
    assert replace(busy, seconds=100).void(0.05) == ""
    assert "process 7" in Evidence(gpu="process 7 (python) with 900 MiB").void(math.inf)


def process(parent: int, own: int = 0, *, cpu: int = 0, waited: int = 0, born: int = 1) -> Process:
    return Process(parent=parent, born=born, own=own, waited=waited, threads=1, cpu=cpu)


# what is added to the world between two looks, and the seconds that others took on CPU 0; 10 is the family, 50 somebody else
ADDED: list[tuple[str, dict[int, Process], float]] = [
    ("nothing", {}, 0.0),
    ("a stranger works", {50: process(1, 1200)}, 2.0),
    ("a stranger works on another CPU", {50: process(1, 1200, cpu=1)}, 0.0),
    ("a new stranger works", {60: process(50, 100)}, 1.0),
    ("the number of a stranger is that of another one now", {50: process(1, 100, born=2)}, 1.0),
    ("the family works", {10: process(1, 900), 11: process(10, 900)}, 0.0),
    ("a new grandchild works", {12: process(11, 900)}, 0.0),
    ("a child works on for another parent", {11: process(1, 900)}, 0.0),
    ("a thread of the kernel works", {70: process(2, 900)}, 0.0),
    ("a stranger waited for its children", {50: process(1, 1000, waited=900)}, 0.0),
]


@pytest.mark.parametrize(("what", "added", "seconds"), ADDED, ids=[what for what, *_ in ADDED])
def test_only_strangers_on_that_cpu_count(what: str, added: dict[int, Process], seconds: float) -> None:
    """Not the family, nor who ever was in it, nor the kernel, nor other CPUs."""
    world = {1: process(0), 2: process(0), 10: process(1), 11: process(10), 50: process(1, 1000)}
    others = Others((10,), world)
    others.look(world | added, 0)
    assert others.seconds == pytest.approx(seconds * 100 / TICK)


HIDING = textwrap.dedent("""
    import os, signal, time
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("on", flush=True)
    for _ in range(20):
        if os.fork() == 0:
            burn = time.process_time() + 0.02
            while time.process_time() < burn: pass
            os._exit(0)
        time.sleep(0.03)
    print("off", flush=True)
    time.sleep(5)
""")


def test_work_in_children_that_nobody_waits_for_is_billed() -> None:
    """Each child works for 20 ms and is never waited for: its parent's account is clean, the CPU's is not."""
    if busy() > 0.3:
        pytest.skip("others are busy on the candidate's CPU: what might be theirs is not billed")
    argv = ["taskset", "-c", str(CPU), sys.executable, "-c", HIDING]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as hider:
        assert hider.stdout
        assert hider.stdout.readline() == "on\n"
        meter = Meter(hider.pid, CPU, lambda: 0.0)
        assert hider.stdout.readline() == "off\n"
        billed = meter.seconds()
        hider.kill()
    assert billed > 0.15  # of .4; what short-lived others took is taken off, to be on the safe side


def test_what_others_do_is_not_billed() -> None:
    """Strangers on the same CPU make the bill no larger than a few clock ticks."""
    argv = ["taskset", "-c", str(CPU), sys.executable, "-c", "import time; time.sleep(9)"]
    with strangers(1, 3.0), subprocess.Popen(argv) as idle:
        time.sleep(0.2)
        meter = Meter(idle.pid, CPU, lambda: 0.0)
        time.sleep(1.0)
        billed = meter.seconds()
        idle.kill()
    assert billed < 0.3


def test_a_machine_with_memory_is_fit_to_measure() -> None:
    """Nothing stands against starting here; without a GPU nobody asks for one."""
    assert held_before(gpu=False) == ""
    assert BOXED in (True, False)
