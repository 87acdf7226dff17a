"""Does the judge ever refuse an honest candidate? The plain preset, again and again, each time with another seed.

    python benchmarks/honest.py --runs 100      # about 40 minutes -> benchmarks/results/honest.json

Each run is examples/cpu/train.py by the full judge, told of the one before as a campaign would be: its name, so that the audit
looks where this one gained over it, the mean so far, and twice its compute as the cap. Refused is whatever is neither ok nor
void; a void run says something of the machine and is done again with the same seed, twice at most. `at_most` is the share of
refusals that so many runs rule out with 95 % confidence. Resumable: seeds that are in the results file are not run again, unless
--again is given. Refusals do not depend on how long it trains, so --seconds 2 proves as much in less time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from _record import RESULTS, ROOT, write  # noqa: E402

from bot import installed  # noqa: E402
from bot.program import Program, Settings, parse  # noqa: E402
from bot.runs import SCORING_FACTOR, SCORING_FLOOR, allowed  # noqa: E402
from runners import Job, Measurement, Outcome, Runner, Running  # noqa: E402

PRESET = ROOT / "examples" / "cpu"
VOIDS = 2  # as often a run that others disturbed is done again
CONFIDENCE = 0.95
Record = dict[str, object]


def at_most(failures: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """The largest rate that so few failures in so many runs do not contradict: Clopper and Pearson's bound, one-sided, exact.

    Without any failure that is 1 - (1 - confidence) ** (1 / runs), which the rule of three calls 3 / runs.
    """

    def chance(rate: float) -> float:
        return math.fsum(math.comb(runs, k) * rate**k * (1 - rate) ** (runs - k) for k in range(failures + 1))

    low, high = 0.0, 1.0
    while failures < runs and high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 1 - confidence else (low, middle)
    return high


def settings(seconds: float) -> Settings:
    program = parse((PRESET / "program.md").read_text("utf-8"), {"budget.seconds": seconds})
    assert isinstance(program, Program), program
    return program.settings


def job(seed: int, attempt: int, s: Settings, before: list[Record]) -> Job:
    """What a campaign would ask, whose incumbent is the same code."""
    scores = [float(str(record["val_bpb"])) for record in before if record["outcome"] == Outcome.OK]
    spent = [float(str(record["scoring_cpu_seconds"])) for record in before if record["outcome"] == Outcome.OK]
    return Job(
        run=f"honest-{seed}.{attempt}", commit="plain", source=(PRESET / "train.py").read_text("utf-8"), seed=seed, nonce="plain",
        budget_seconds=s.budget.seconds, startup_seconds=s.budget.startup_seconds, scoring_seconds=s.budget.scoring_seconds,
        deadline=time.time() + allowed(s.budget), corpus=s.corpus, device=s.device, sandbox=s.sandbox, code="plain",
        incumbent="plain" if scores else "", incumbent_bpb=fmean(scores) if scores else 0.0,
        scoring_cap_seconds=SCORING_FACTOR * spent[-1] + SCORING_FLOOR if spent else 0.0,
    )  # fmt: skip


def measured(runner: Runner, asked: Job) -> Measurement:
    runner.start(asked)
    while isinstance(state := runner.poll(asked), Running):
        runner.warm()
        time.sleep(0.1)
    if not isinstance(state, Measurement):
        raise SystemExit(f"the machine lost a run, which says nothing of the judge: {state.reason}")
    return state


def one(runner: Runner, seed: int, s: Settings, before: list[Record]) -> Record:
    """One run; once more, twice at most, when others disturbed it."""
    for voids in range(VOIDS + 1):
        got = measured(runner, job(seed, voids, s, before))
        if got.outcome is not Outcome.VOID:
            break
    return {
        "seed": seed, "outcome": str(got.outcome), "reason": got.reason, "val_bpb": got.val_bpb, "audit": got.audit,
        "voids": voids, "scoring_cpu_seconds": got.scoring_cpu_seconds,
    }  # fmt: skip


def summary(done: list[Record], seconds: float) -> Record:
    outcomes = [str(record["outcome"]) for record in done]
    counted = [outcome for outcome in outcomes if outcome != Outcome.VOID]
    refused = sum(outcome != Outcome.OK for outcome in counted)
    return {
        "seconds": seconds, "counted": len(counted), "refused": refused, "at_most": at_most(refused, len(counted)),
        "confidence": CONFIDENCE, "void": len(outcomes) - len(counted), "runs": done,
    }  # fmt: skip


def earlier(seconds: float, *, again: bool) -> list[Record]:
    """The runs of the results file, void ones left out; only those of the same budget can be added to."""
    file = RESULTS / "honest.json"
    if again or not file.exists():
        return []
    found = json.loads(file.read_text())
    if found["seconds"] != seconds:
        raise SystemExit(f"{file} holds runs of {found['seconds']:g} s: ask for --seconds {found['seconds']:g}, or --again")
    return [record for record in found["runs"] if record["outcome"] != Outcome.VOID]


def main() -> int:
    """Print one line a run; keep them in the results file. Exit 1 when anything was refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0, help="of training (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget the runs that are in the results file")
    parser.add_argument("--quick", action="store_true", help="3 runs of 2 s; nothing is written")
    options = parser.parse_args()
    runs, seconds = (3, 2.0) if options.quick else (options.runs, options.seconds)
    done = [] if options.quick else earlier(seconds, again=options.again)
    with tempfile.TemporaryDirectory() as scratch:
        runner = installed.local(Path(scratch, "runs"), Path(scratch, "cache"))
        try:
            for seed in sorted(set(range(1, runs + 1)) - {int(str(record["seed"])) for record in done}):
                done.append(one(runner, seed, settings(seconds), done))
                print(json.dumps(done[-1]), flush=True)
                if not options.quick:
                    command = f"python benchmarks/honest.py --runs {runs} --seconds {seconds:g}"
                    write("honest", command, summary(done, seconds), n=len(done))
        finally:
            runner.close()
    found = summary(done, seconds)
    bound = f"at most {100 * float(str(found['at_most'])):.1f} % with {100 * CONFIDENCE:.0f} % confidence"
    print(f"{found['refused']} of {found['counted']} honest runs refused: {bound}; {found['void']} void")
    return 1 if found["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
