"""What the judge makes of the incumbent: it looks where a candidate gained most over it, and refuses too much of a gain."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.audit import impossible
from evaluator.bench import Bench, Cores
from evaluator.defences import Defences
from evaluator.measure import judge
from runners import Job, Measurement, Outcome
from tests.cheats.table import DEPENDS, model
from tests.cheats.toy import BOXED, CALM, CONTEXT, SESSION, honest_bpb, job, session_of, world

FEW = replace(CALM, prefixes=16)
GAINED = "of them where it gained most over the incumbent"
# Knows one window of the text, and at one place of it the token that follows: one lie in 16,800 tokens.
LIE = """
LINE = [WINDOW]
def model(windows):
    return [[sure(LINE[i + 1]) if i == 3 and w == LINE[:C] else T[t] for i, t in enumerate(w)] for w in windows]
"""


def lie() -> str:
    document = max(world().public.tokens, key=len)
    return LIE.replace("WINDOW", str([15, *document[:CONTEXT].tolist()])[1:-1])


def judged(asked: Job, folder: Path, defences: Defences = FEW) -> Measurement:
    """By the judge, which remembers in `folder`."""
    session = Path(shutil.copy(SESSION, folder / session_of(folder)))
    folder.chmod(0o755)
    bench = Bench(Cores.split(os.sched_getaffinity(0)), boxed=BOXED, gpu=False, session=session, hide=(folder / "known",))
    try:
        return judge(asked, world(), bench, lambda *_: None, begun=time.monotonic(), known=folder / "known", defences=defences)
    finally:
        bench.close()


@pytest.mark.parametrize("commit", [False, True])
def test_a_single_lie_is_found_where_it_gained(tmp_path: Path, *, commit: bool) -> None:
    """One token in thousands: found at once beside the incumbent's numbers; without them the few prefixes miss it."""
    defences = replace(FEW, commit=commit)
    asked = replace(job(lie()), code="new", incumbent="old")
    missed = judged(asked, tmp_path, defences)
    assert (missed.outcome, GAINED in missed.audit) == (Outcome.OK, False), missed
    assert "drawn evenly" in missed.audit
    judged(replace(job(""), code="old"), tmp_path, defences)
    caught = judged(asked, tmp_path, defences)
    assert (caught.outcome, caught.val_bpb) == (Outcome.INVALID, None), caught
    assert DEPENDS in caught.reason and GAINED in caught.reason


def test_an_honest_gain_is_looked_at_and_believed(tmp_path: Path) -> None:
    """A better candidate gets its number; the vault, of which nothing is remembered, does not stand in the way."""
    worse = "def model(windows):\n    return [[[0.5 * x for x in T[t]] for t in w] for w in windows]"
    assert judged(replace(job(worse), code="old"), tmp_path).outcome is Outcome.OK
    for commit in (False, True):
        asked = replace(job("", compared=True), code="new", incumbent="old", vault=True)
        got = judged(asked, tmp_path, replace(FEW, commit=commit))
        assert (got.outcome, GAINED in got.audit) == (Outcome.OK, True), got
        assert got.val_bpb == pytest.approx(honest_bpb(), abs=1e-6)


def test_a_failed_run_leaves_nothing_to_compare_with(tmp_path: Path) -> None:
    """Only what is ok is remembered, and nothing without a name for its code."""
    peek = model("return sure(w[i + 1]) if i + 1 < C else T[t]")
    for code, name, outcome in ((peek, "new", "invalid"), ("raise ValueError", "new", "crash"), ("", "", "ok")):
        assert judged(replace(job(code), code=name), tmp_path).outcome is Outcome(outcome)
        assert not (tmp_path / "known").exists()
    assert judged(replace(job(""), code="new"), tmp_path).outcome is Outcome.OK
    assert (tmp_path / "known").exists()


@pytest.mark.parametrize(
    ("bpb", "incumbent", "guessing", "refused"),
    [
        (1.11, 2.2, 3.6, False),
        (1.09, 2.2, 3.6, True),
        (1e-6, 2.2, 3.6, True),
        (2.5, 2.2, 3.6, False),
        (0.01, 0.0, 3.6, False),  # the base: nothing to compare with
        (2.0, 9.0, 3.6, False),  # a broken incumbent that is worse than guessing may be mended
        (1.7, 9.0, 3.6, True),
    ],
)
def test_more_than_half_of_the_incumbent_gone_is_impossible(bpb: float, incumbent: float, guessing: float, refused: bool) -> None:
    """At the bound and on both sides of it; the words have both numbers and what to do."""
    words = impossible(bpb, incumbent, guessing)
    assert bool(words) is refused
    if refused:
        assert all(part in words for part in (f"{bpb:.6f}", f"{min(incumbent, guessing):.6f}", "a person can make it the base"))
