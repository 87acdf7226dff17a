"""What one candidate costs on top of its training and its scoring: warm beside cold, alternating, in one run.

    python benchmarks/overhead.py            # about 5 minutes -> benchmarks/results/overhead.json
    python benchmarks/overhead.py --quick    # about a minute, on the screen only

A candidate is examples/cpu/train.py, measured for real by LocalRunner: from `start` until `poll` has the measurement, less
what the supervisor counts as training and as scoring. Warm: a process had imported torch before (`warm`), as it does in a
campaign while the candidate before is measured. Cold: nothing was running. The time until warm is reported beside.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from _record import ROOT, write

from runners import Job, Measurement, Running
from runners.local import LocalRunner

BUDGET = 5.0  # seconds of training: enough for the clock, short enough to repeat
SOURCE = (ROOT / "examples" / "cpu" / "train.py").read_text()


def job(run: str) -> Job:
    return Job(
        run=run, commit="benchmark", source=SOURCE, seed=1, nonce=run, budget_seconds=BUDGET, startup_seconds=120.0,
        deadline=time.time() + 300, corpus="austen", sandbox="if-available",
    )  # fmt: skip


def wait_until_warm(home: Path) -> None:
    """The supervisor says `warm` in its log."""
    until = time.monotonic() + 180
    while not (home / "warm.log").exists() or "warm" not in (home / "warm.log").read_text().split():
        if time.monotonic() > until:
            raise SystemExit("the warm process did not come up: see `autoresearch doctor`")
        time.sleep(0.1)


def measured(runner: LocalRunner, run: str) -> tuple[float, Measurement]:
    """Wall seconds of one candidate as the bot sees them, and its measurement."""
    begun = time.monotonic()
    asked = job(run)
    runner.start(asked)
    while isinstance(state := runner.poll(asked), Running):
        time.sleep(0.02)
    if not isinstance(state, Measurement) or state.val_bpb is None:
        raise SystemExit(f"the measurement failed: {state}")
    return time.monotonic() - begun, state


def one(runner: LocalRunner, home: Path, run: str, *, warm: bool) -> dict[str, float]:
    begun = time.monotonic()
    if warm:
        runner.warm()
        wait_until_warm(home)
    warmed = time.monotonic() - begun
    wall, got = measured(runner, run)
    overhead = wall - got.training_seconds - got.scoring_seconds
    row = {"overhead": overhead, "startup": got.startup_seconds, "scoring": got.scoring_seconds, "wall": wall, "warming": warmed}
    print(f"{'warm' if warm else 'cold'}  " + "  ".join(f"{name} {value:.2f} s" for name, value in row.items()), flush=True)
    return row


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    """Medians, and the range of the overhead."""
    figures = {f"{name}_seconds": statistics.median(row[name] for row in rows) for name in rows[0]}
    overheads = [row["overhead"] for row in rows]
    return figures | {"least_overhead_seconds": min(overheads), "most_overhead_seconds": max(overheads), "n": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one of each, nothing is written")
    parser.add_argument("--pairs", type=int, default=7, help="how many of each (default: %(default)s)")
    asked = parser.parse_args()
    pairs = 1 if asked.quick else asked.pairs
    rows: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "runs"
        runner = LocalRunner(home, Path(folder) / "cache")
        measured(runner, "first")  # the corpus is prepared once, and torch comes from the disk once
        for pair in range(pairs):
            for warm in (True, False):
                rows[warm].append(one(runner, home, f"{pair}-{'warm' if warm else 'cold'}", warm=warm))
        runner.close()
    figures = {"warm": summary(rows[True]), "cold": summary(rows[False]), "budget_seconds": BUDGET}
    for name in ("warm", "cold"):
        print(f"{name}: median overhead {summary(rows[name == 'warm'])['overhead_seconds']:.2f} s over {pairs}")
    print(f"other load when it began: {load:.1f}")
    if not asked.quick:
        write("overhead", f"python benchmarks/overhead.py --pairs {pairs}", figures | {"load_before": load}, n=pairs)


if __name__ == "__main__":
    main()
