"""A/A: a real campaign of candidates that are all equal to the base. Every keep is a false one.

    python benchmarks/aa.py --campaigns 5 --experiments 10

Real trainings on the CPU preset, the real judge and gate; each candidate only adds a constant that nothing reads. A handful of
real campaigns proves no rate (benchmarks/gate.py simulates that by the thousand): it illustrates that real noise behaves.
Resumable: campaigns that are in the results file are not run again, unless --again is given. One that pauses because the machine
is too busy goes on a minute later.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from _record import RESULTS, ROOT, write

sys.path.insert(0, str(ROOT))

from bot import campaign, demo
from bot.__main__ import this_machine
from bot.events import Edit
from bot.propose import Brief, Idea, NoIdea
from bot.screen import Screen
from evaluator import gate

PAUSE_SECONDS = 60.0
Record = dict[str, object]


class Equal:
    """Proposes a constant that nothing reads."""

    name = "equal"

    def propose(self, brief: Brief) -> Idea | NoIdea:
        first = next(line for line in brief.source.splitlines() if line.startswith("DEPTH"))
        value = 2 ** len(brief.tried)  # numbers that are close to each other would be one idea
        edit = Edit(old=first, new=f"UNREAD_{len(brief.tried)} = {value}  # nothing reads this\n{first}")
        return Idea(title=f"equal {len(brief.tried)}", hypothesis="None: it is equal to its base.", edits=(edit,))


def one(seed: int, experiments: int) -> Record:
    """One campaign in a scratch folder."""
    machine, screen = replace(this_machine(), proposers={"mutate": Equal()}), Screen(sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        ws, c = demo.run(machine, screen, Path(scratch, "aa"), experiments, seed)
        while c.paused:
            time.sleep(PAUSE_SECONDS)
            c = campaign.resume(ws, machine, screen)
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    return {
        "seed": seed, "experiments": c.settled, "kept": c.counts.get("merged", 0), "outcomes": dict(c.counts),
        "runs": sum(x.runs for x in c.candidates.values()), "sigma": round(sigma, 6), "df": df,
    }  # fmt: skip


def main() -> int:
    """Print one line a campaign; keep them in the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=5)
    parser.add_argument("--experiments", type=int, default=10)
    parser.add_argument("--again", action="store_true", help="forget the campaigns that are in the results file")
    parser.add_argument("--quick", action="store_true", help="one campaign of 2; nothing is written")
    options = parser.parse_args()
    if options.quick:
        print(json.dumps(one(1, 2)))
        return 0
    file = RESULTS / "aa.json"
    done: list[Record] = [] if options.again or not file.exists() else json.loads(file.read_text())["campaigns"]
    for seed in range(1, options.campaigns + 1):
        if any(record["seed"] == seed for record in done):
            continue
        done.append(one(seed, options.experiments))
        print(json.dumps(done[-1]), flush=True)
        total = sum(int(str(record["experiments"])) for record in done)
        kept = sum(int(str(record["kept"])) for record in done)
        command = f"python benchmarks/aa.py --campaigns {options.campaigns} --experiments {options.experiments}"
        write("aa", command, {"candidates": total, "kept": kept, "campaigns": done}, n=total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
