"""How long the core takes to think: fold 10,000 candidates, then decide.

    python benchmarks/fold.py

Whole histories made by the real loop would take hours; these events are made up, in the order in which a campaign makes them.
Goals: 10,000 candidates fold in under 1 s, one decision takes under 5 ms. Counted in CPU seconds, so that a busy machine does
not matter.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator

from _record import write

from bot import events as e
from bot.decide import decide
from bot.fold import fold
from bot.lines import GENESIS, chain, digest, from_line

PROGRAM = "---\ncorpus: austen\ngate: {baseline_runs: 3}\nstop: {experiments: 100000}\n---\nMade up.\n"
AT = 1_700_000_000.0


def history(candidates: int) -> Iterator[e.Event]:
    """One campaign: 3 runs of the base, then losers, one in 40 confirmed by pairs and merged."""
    yield e.CampaignStarted(
        campaign="1", at=AT, experiments=100_000, issue=0, title="", body="", by="", program=PROGRAM, settings={}, seed=1,
        branch="main",
    )  # fmt: skip
    yield e.BaseSeen(campaign="1", at=AT, n=0, sha="s0", guard="g0", source="h0")
    k = 0
    for _ in range(3):
        yield from run(k, 0, 0, 2.0 + k * 0.001)
        k += 1
    yield e.Adopted(campaign="1", at=AT, n=0)
    tip = 0
    for n in range(1, candidates + 1):
        yield from opened(n, tip)
        yield from run(k, n, n, 2.0)
        k += 1
        if n % 40:
            yield e.CheckPosted(campaign="1", at=AT, n=n, head=f"h{n}", conclusion="failure", title="")
            yield e.Closed(campaign="1", at=AT, n=n, why="worse", reason="no gain")
            continue
        for subject in (n, tip):
            yield from run(k, n, subject, 2.0)
            k += 1
        yield e.CheckPosted(campaign="1", at=AT, n=n, head=f"h{n}", conclusion="success", title="")
        yield e.Merged(campaign="1", at=AT, n=n, sha=f"s{n}", reason="better")
        tip = n


def opened(n: int, tip: int) -> Iterator[e.Event]:
    yield e.Proposed(
        campaign="1", at=AT, n=n, parent=tip, title="t", hypothesis="h", edits=(e.Edit(old="A = 1", new=f"A = {n}"),), tags=(),
        proposer="made up", source=f"h{n}",
    )  # fmt: skip
    yield e.Opened(campaign="1", at=AT, n=n, base=f"s{tip}", head=f"h{n}", guard=f"g{n}", pull=n)


def run(k: int, n: int, subject: int, score: float) -> Iterator[e.Event]:
    yield e.MeasureStarted(
        campaign="1", at=AT, n=n, subject=subject, k=k, attempt=1, run=f"1-{k}.1", seed=k, nonce="", head="", deadline=AT + 100
    )
    yield e.Measured(campaign="1", at=AT, n=n, run=f"1-{k}.1", outcome="ok", val_bpb=score, reason="", result={})


def main() -> int:
    """Print and record the medians of several repeats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 repeats; nothing is written")
    repeats = 3 if parser.parse_args().quick else 9
    happened = list(history(10_000))
    lines = chain(happened)
    folds, decisions, parses = [], [], []
    for _ in range(repeats):
        began = time.process_time()
        state = fold(happened)
        folds.append(time.process_time() - began)
        campaign = state.active
        assert campaign is not None and campaign.settled == 10_000
        began = time.process_time()
        for _ in range(100):
            decide(campaign, AT)
        decisions.append((time.process_time() - began) / 100)
        began = time.process_time()
        prev = GENESIS
        for line in lines:
            from_line(line, prev)
            prev = digest(line)
        parses.append(time.process_time() - began)
    figures = {
        "events": len(happened),
        "fold_seconds": round(statistics.median(folds), 3),
        "decide_ms": round(statistics.median(decisions) * 1000, 3),
        "parse_seconds": round(statistics.median(parses), 3),
    }
    print(figures)
    if repeats > 3:
        write("fold", "python benchmarks/fold.py", figures, n=repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
