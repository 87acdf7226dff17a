"""How often the gate errs and what it sees: whole campaigns simulated around the real `evaluator.gate` and `evaluator.stack`.

    python benchmarks/gate.py             # some minutes on one core -> benchmarks/results/gate.json
    python benchmarks/gate.py --quick     # about a minute, on the screen only: too few campaigns to be quoted

Scores are drawn, nothing is trained; the unit is sigma, the standard deviation of one run. Beside the gate's two modes stand
keep-if-lower (one run, kept if it beats the incumbent's one run) and a t test with three seeds, under the same noise.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from _lab import BASE, GAINS, NIGHTS, WORLDS, Lab, Night, Result, World, mixed  # noqa: E402
from _record import write  # noqa: E402
from _rules import Rule, Stack, gate, keep_if_lower, stacked, three_seeds, with_gate  # noqa: E402

from evaluator.gate import GateSettings  # noqa: E402

__all__ = ["BASE", "NIGHTS", "WORLDS", "Lab", "Stack"]  # what a test asks of this program beside its own functions
__all__ += ["any_kept", "gate", "keep_if_lower", "nights", "stacked", "stream", "three_seeds", "with_gate"]

SETTINGS = GateSettings()
RULES: dict[str, Rule] = {
    "gate": gate(SETTINGS),
    "stack": stacked(replace(SETTINGS, mode="stack")),
    "keep_if_lower": keep_if_lower,
    "three_seeds": three_seeds,
}
DEMO = GateSettings(baseline_runs=3, prior_sd=1.0, prior_df=6)


def any_kept(rule: Rule, world: World, reps: int, seed: int, n: int = 50) -> dict[str, float]:
    """P(any keep | n equal candidates), its standard error, and runs per candidate (baseline included)."""
    results = [rule([0.0] * n, world, random.Random(f"{seed}/{i}")) for i in range(reps)]
    share = sum(bool(r.claims) for r in results) / reps
    runs = sum(r.runs for r in results) / reps / n
    return {"any_kept": share, "error": math.sqrt(share * (1 - share) / reps), "runs_per_candidate": runs, "campaigns": reps}


def stream(rule: Rule, world: World, reps: int, seed: int, n: int = 50) -> dict[str, object]:
    """The mixed stream: power by size of the gain, what is false among what is kept, what it costs and brings."""
    results = []
    for i in range(reps):
        rng = random.Random(f"{seed}/mixed/{i}")
        results.append(rule(mixed(rng, n), world, rng))
    all_kept = [pair for r in results for pair in r.kept]
    power = {}
    for size in GAINS:
        of_size = [kept for g, kept in all_kept if g == size]
        power[f"{size:g}"] = sum(of_size) / max(1, len(of_size))
    return {"power": power, "runs_per_candidate": sum(r.runs for r in results) / reps / n} | summary(results)


def nights(rule: Rule, night: Night, reps: int, seed: int) -> dict[str, object]:
    """A night of 125 candidates, clean noise."""
    results = []
    for i in range(reps):
        rng = random.Random(f"{seed}/night/{i}")
        results.append(rule(night.gains(rng), World(), rng))
    return summary(results)


def summary(results: Sequence[Result]) -> dict[str, object]:
    """`false_share` is of the claims: of a stack its certified states, else the kept edits. `edits_*` look at single edits."""
    n = len(results)
    claims = [g for r in results for g in r.claims]
    edits = [g for r in results for g, kept in r.kept if kept]
    gain, runs = sum(r.gain for r in results) / n, sum(r.runs for r in results) / n
    spread = math.sqrt(sum((r.gain - gain) ** 2 for r in results) / max(1, n - 1) / n)
    return {
        "false_share": sum(g <= 0 for g in claims) / max(1, len(claims)),
        "claims": len(claims) / n,
        "edits_not_better": sum(g <= 0 for g in edits) / max(1, len(edits)),
        "edits_worse": sum(g < 0 for g in edits) / max(1, len(edits)),
        "true_gain": gain,
        "error": spread,
        "runs": runs,
        "gain_per_100_runs": 100 * gain / runs,
        "campaigns": n,
    }


def measure(reps: int, seed: int) -> dict[str, object]:
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name, world in WORLDS.items():
        table[name] = {rule: any_kept(run, world, reps, seed) for rule, run in RULES.items()}
        print(f"{name:36}", *(f"{rule} {row['any_kept']:.3f} +-{row['error']:.3f}  " for rule, row in table[name].items()))
    demos = {}
    for wrong in (1.0, 0.7, 1.5):
        demos[f"prior sd x{wrong:g}"] = d = any_kept(gate(replace(DEMO, prior_sd=wrong)), World(), reps, seed)
        print(f"demo: 3 baseline runs, prior sd x{wrong:<4g} gate {d['any_kept']:.3f} +-{d['error']:.3f}")
    streams = {rule: stream(run, World(), reps, seed) for rule, run in RULES.items()}
    for rule, row in streams.items():
        print(f"mixed stream, {rule}: {_short(row)}")
    tables: dict[str, object] = {"equal_candidates": table, "demo": demos, "mixed_stream": streams}
    for name, night in NIGHTS.items():
        tables[name] = rows = {rule: nights(run, night, reps // 4, seed) for rule, run in RULES.items()}
        for rule, row in rows.items():
            print(f"{name}, {rule}: {_short(row)}")
    return tables


def _short(row: dict[str, object]) -> str:
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
    power = rounded.pop("power", None)
    words = [] if not isinstance(power, dict) else ["power " + " ".join(f"{share:.2f}" for share in power.values())]
    return ", ".join([*words, *(f"{key} {value}" for key, value in rounded.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the campaigns; nothing is written")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    reps, start = (400 if args.quick else 4000), time.time()
    figures = measure(reps, args.seed)
    seconds = round(time.time() - start)
    print(f"{seconds} s")
    if not args.quick:
        write("gate", f"python benchmarks/gate.py --seed {args.seed}", {"seconds": seconds} | figures, n=reps)


if __name__ == "__main__":
    main()
