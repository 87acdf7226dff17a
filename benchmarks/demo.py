"""The demo as a newcomer meets it, for several seeds: how long, how many real merges, and does the merged number hold?

    python benchmarks/demo.py --seeds 10

Each seed is a whole `autoresearch demo "/autoresearch 6"` with real trainings, in a fresh folder; afterwards the merged commit is
measured once more, with a fresh seed, by `autoresearch measure`. A number reproduces when it is within three standard
deviations of one run (the campaign's own sigma) of the mean that the campaign claims. Resumable: seeds that are in the results
file are not run again, unless --again is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _record import RESULTS, write

EXPERIMENTS = 6
Record = dict[str, object]


def autoresearch(*arguments: str, cwd: Path) -> str:
    """What a command prints. Raises CalledProcessError when it fails."""
    argv = [sys.executable, "-m", "bot", *arguments]
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout


def one(seed: int) -> Record:
    """One demo and one more measurement of what it merged."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "demo")
        began = time.monotonic()
        autoresearch("demo", f"/autoresearch {EXPERIMENTS}", "--dir", str(folder), "--seed", str(seed), cwd=Path(scratch))
        seconds = time.monotonic() - began
        status = json.loads(autoresearch("status", "--json", cwd=folder))
        again = json.loads(autoresearch("measure", "--json", cwd=folder))
    return {
        "seed": seed, "seconds": round(seconds, 1), "start": status["start"], "best": status["best"], "sigma": status["sigma"],
        "outcomes": {why: n for why, n in status["outcomes"].items() if n}, "again": again["val_bpb"],
        "reproduced": abs(again["val_bpb"] - status["best"]) <= 3 * status["sigma"],
    }  # fmt: skip


def summary(runs: list[Record]) -> Record:
    merges = [int(run["outcomes"].get("merged", 0)) for run in runs]  # type: ignore[attr-defined]
    return {
        "experiments": EXPERIMENTS,
        "seconds_median": statistics.median(float(run["seconds"]) for run in runs),  # type: ignore[arg-type]
        "with_a_merge": sum(count > 0 for count in merges),
        "merges_median": statistics.median(merges),
        "reproduced": sum(bool(run["reproduced"]) for run in runs),
        "runs": runs,
    }


def main() -> int:
    """Print one line a seed; keep them in the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--again", action="store_true", help="forget the seeds that are in the results file")
    parser.add_argument("--quick", action="store_true", help="one seed; nothing is written")
    options = parser.parse_args()
    if options.quick:
        print(json.dumps(one(1)))
        return 0
    file = RESULTS / "demo.json"
    runs: list[Record] = [] if options.again or not file.exists() else json.loads(file.read_text())["runs"]
    for seed in range(1, options.seeds + 1):
        if any(run["seed"] == seed for run in runs):
            continue
        runs.append(one(seed))
        print(json.dumps(runs[-1]), flush=True)
        write("demo", f"python benchmarks/demo.py --seeds {options.seeds}", summary(runs), n=len(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
