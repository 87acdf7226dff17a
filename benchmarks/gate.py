"""How often the gate errs and what it sees: whole campaigns simulated around the real `evaluator.gate.judge`.

    python benchmarks/gate.py             # a few minutes on one core -> benchmarks/results/gate.json
    python benchmarks/gate.py --quick     # under a minute, on the screen only: too few campaigns to be quoted

Scores are drawn, nothing is trained; the unit is sigma, the standard deviation of one run. A gain is relative to the current
incumbent. Beside the gate stands keep-if-lower: one run, kept if it beats the incumbent's one run, under the same noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gate.json"
sys.path.insert(0, str(ROOT))

from evaluator.gate import Call, Evidence, GateSettings, judge, needs_baseline, needs_refresh, residual  # noqa: E402

BASE = 100.0  # any level will do, as the gate only looks at differences
GAINS = (0.5, 1.0, 2.0, 3.0, 5.0)
DEMO = GateSettings(baseline_runs=3, prior_sd=1.0, prior_df=6)


@dataclass(frozen=True, kw_only=True)
class World:
    """One kind of noise. `drift` is in sigma per run of anything; `shift` moves the first baseline runs (negative: lucky)."""

    draw: Callable[[random.Random], float] = lambda rng: rng.gauss(0, 1)
    candidate_sd: Callable[[random.Random], float] = lambda _: 1.0
    drift: float = 0.0
    shift: float = 0.0


def t3(rng: random.Random) -> float:
    """Student's t with 3 degrees of freedom, scaled to sd 1."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2.0))


WORLDS = {
    "clean": World(),
    "t3 noise": World(draw=t3),
    "candidate sd log-uniform x[1/2, 2]": World(candidate_sd=lambda rng: 2 ** rng.uniform(-1, 1)),
    "every candidate sd x2": World(candidate_sd=lambda _: 2.0),
    "drift of 1 sigma per 50 runs": World(drift=1 / 50),
    "lucky incumbent": World(shift=-1.0),
    "unlucky incumbent": World(shift=1.0),
}


@dataclass(kw_only=True)
class Lab:
    """A machine: it counts runs and draws scores. `level` is the true score of the incumbent."""

    world: World
    rng: random.Random
    runs: int = 0
    level: float = BASE

    def run(self, gain: float = 0.0, sd: float = 1.0) -> float:
        self.runs += 1
        return self.level - gain + self.world.drift * self.runs + sd * self.world.draw(self.rng)


@dataclass(kw_only=True)
class Group:
    """The runs of one version of the code: (index of the run, score), and their pooled residuals."""

    runs: list[tuple[int, float]] = field(default_factory=list)
    ss: float = 0.0

    def add(self, when: int, score: float) -> float:
        if self.runs:
            self.ss += residual(score, self.aged(when))
        self.runs.append((when, score))
        return score

    def aged(self, now: int) -> tuple[tuple[int, float], ...]:
        return tuple((now - when, score) for when, score in self.runs)

    @property
    def df(self) -> int:
        return len(self.runs) - 1


@dataclass(kw_only=True)
class Result:
    kept: list[tuple[float, bool]] = field(default_factory=list)  # (true gain, was it kept) of every candidate
    runs: int = 0
    gain: float = 0.0


def with_gate(gains: Sequence[float], world: World, settings: GateSettings, rng: random.Random) -> Result:
    """The campaign of a gate: baseline, screen, pairs, refresh; a kept candidate's own runs become the baseline."""
    lab, result = Lab(world=world, rng=rng), Result()
    tip, ss, df = Group(), 0.0, 0  # ss and df of every group but the tip's and the candidate's
    while needs_baseline(len(tip.runs), settings):
        tip.add(lab.runs + 1, lab.run() + world.shift)
    for gain in gains:
        if needs_refresh(lab.runs - tip.runs[-1][0], settings):
            tip.add(lab.runs + 1, lab.run())
        kept, own = confirm(gain, lab, tip, settings, (ss, df))
        result.kept.append((gain, kept))
        loser = tip if kept else own
        ss, df = ss + loser.ss, df + loser.df
        if kept:
            tip = own
            lab.level -= gain
    result.runs, result.gain = lab.runs, BASE - lab.level
    return result


def confirm(gain: float, lab: Lab, tip: Group, settings: GateSettings, rest: tuple[float, int]) -> tuple[bool, Group]:
    sd, own = lab.world.candidate_sd(lab.rng), Group()
    screen = own.add(lab.runs + 1, lab.run(gain, sd))
    pairs: list[tuple[float, float]] = []
    while True:
        evidence = Evidence(
            screen=screen,
            pairs=tuple(pairs),
            incumbent=tip.aged(lab.runs),
            ss=rest[0] + tip.ss,
            df=rest[1] + tip.df,
        )
        call = judge(evidence, settings).call
        if call is not Call.AGAIN:
            return call is Call.KEEP, own
        candidate = own.add(lab.runs + 1, lab.run(gain, sd))
        pairs.append((tip.add(lab.runs + 1, lab.run()), candidate))


def keep_if_lower(gains: Sequence[float], world: World, rng: random.Random) -> Result:
    lab, result = Lab(world=world, rng=rng), Result()
    best = lab.run() + world.shift
    for gain in gains:
        score = lab.run(gain, world.candidate_sd(rng))
        result.kept.append((gain, score < best))
        if score < best:
            best = score
            lab.level -= gain
    result.runs, result.gain = lab.runs, BASE - lab.level
    return result


def mixed(rng: random.Random, n: int) -> list[float]:
    """10 % true gains (evenly .5 1 2 3 5 sigma), 30 % equal, 60 % worse by 1 to 5 sigma, in any order."""

    def one() -> float:
        u = rng.random()
        return rng.choice(GAINS) if u < 0.1 else 0.0 if u < 0.4 else -rng.uniform(1, 5)

    return [one() for _ in range(n)]


Rule = Callable[[Sequence[float], World, random.Random], Result]


def gate(settings: GateSettings) -> Rule:
    return lambda gains, world, rng: with_gate(gains, world, settings, rng)


def any_kept(rule: Rule, world: World, reps: int, seed: int, n: int = 50) -> dict[str, float]:
    """P(any keep | n equal candidates), its standard error, and runs per candidate (baseline included)."""
    results = [rule([0.0] * n, world, random.Random(f"{seed}/{i}")) for i in range(reps)]
    share = sum(any(kept for _, kept in r.kept) for r in results) / reps
    runs = sum(r.runs for r in results) / reps / n
    return {"any_kept": share, "error": math.sqrt(share * (1 - share) / reps), "runs_per_candidate": runs, "campaigns": reps}


def stream(rule: Rule, world: World, reps: int, seed: int, n: int = 50) -> dict[str, object]:
    """The mixed stream: power by size of the gain, share of keeps that are not better, runs and true gain per candidate."""
    results = []
    for i in range(reps):
        rng = random.Random(f"{seed}/mixed/{i}")
        results.append(rule(mixed(rng, n), world, rng))
    all_kept = [pair for r in results for pair in r.kept]
    keeps = [g for g, kept in all_kept if kept]
    power = {}
    for size in GAINS:
        of_size = [kept for g, kept in all_kept if g == size]
        power[f"{size:g}"] = sum(of_size) / max(1, len(of_size))
    return {
        "power": power,
        "false_share": sum(g <= 0 for g in keeps) / max(1, len(keeps)),
        "runs_per_candidate": sum(r.runs for r in results) / reps / n,
        "true_gain": sum(r.gain for r in results) / reps,
        "campaigns": reps,
    }


def measure(reps: int, seed: int) -> dict[str, object]:
    settings = GateSettings()
    table = {}
    for name, world in WORLDS.items():
        row = {"gate": any_kept(gate(settings), world, reps, seed), "keep_if_lower": any_kept(keep_if_lower, world, reps, seed)}
        table[name] = row
        g = row["gate"]
        print(f"{name:36} gate {g['any_kept']:.3f} +-{g['error']:.3f}   keep-if-lower {row['keep_if_lower']['any_kept']:.3f}")
    demos = {}
    for wrong in (1.0, 0.7, 1.5):
        demo = replace(DEMO, prior_sd=wrong)
        demos[f"prior sd x{wrong:g}"] = d = any_kept(gate(demo), World(), reps, seed)
        print(f"demo: 3 baseline runs, prior sd x{wrong:<12g} gate {d['any_kept']:.3f} +-{d['error']:.3f}")
    streams = {"gate": stream(gate(settings), World(), reps, seed), "keep_if_lower": stream(keep_if_lower, World(), reps, seed)}
    for name, s in streams.items():
        print(f"mixed stream, {name}: {json.dumps(s)}")
    return {"equal_candidates": table, "demo": demos, "mixed_stream": streams}


def commit() -> str:
    """The commit these figures belong to, "+changes" when the checkout has some."""
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "before the first commit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="400 campaigns a line instead of 4000; nothing is written")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    reps, start = (400 if args.quick else 4000), time.time()
    figures = measure(reps, args.seed)
    print(f"{time.time() - start:.0f} s")
    if args.quick:
        return
    head = {
        "command": f"python benchmarks/gate.py --seed {args.seed}",
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "n": f"{reps} campaigns of 50 candidates per line",
        "date": time.strftime("%Y-%m-%d", time.gmtime(start)),
        "seconds": round(time.time() - start),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(head | figures, indent=1) + "\n")
    print(RESULTS)


if __name__ == "__main__":
    main()
