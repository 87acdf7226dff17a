"""Which offline proposer improves most in 30 candidates? The real proposers, gate and loop; trainings come from the landscape.

    python benchmarks/proposers.py            # 20 seeds each, about 20 minutes -> benchmarks/results/proposers.json
    python benchmarks/proposers.py --quick    # 1 seed of 6 candidates each, on the screen only
    python benchmarks/proposers.py --real mutate --candidates 6  # one campaign of real trainings, beside the others

Each campaign begins with the plain examples/cpu/train.py and its own gate (examples/cpu/program.md), the noise that was measured
known to it. Improvement is of the true value of what was merged over that of the base, both without noise, in percent; so luck
that passed the gate counts for nothing. All proposers have the same seeds, hence the same noise. They have equal candidates; as
what looks better is run more often, they are also compared at equal runs, at as many as the shortest campaign took.

There are two controls. `random`: up to two constants at once, drawn evenly from the very space that optuna searches. `blind`: the
moves of `mutate`, drawn evenly. For `mutate` prefers a few moves that were measured by hand on this preset (mutate.KNOWN): it has
seen the answers to this exam, and so has every mix with it; what a proposer that knows nothing finds is told by the others.
Resumable: what is in the results file is not run again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from _record import RESULTS, ROOT, write  # noqa: E402

from bot import campaign, demo, looks  # noqa: E402
from bot import events as e  # noqa: E402
from bot.__main__ import this_machine  # noqa: E402
from bot.installed import PROPOSERS  # noqa: E402
from bot.loop import View, run  # noqa: E402
from bot.minds import Server, lacking, minds  # noqa: E402
from bot.program import Program, parse  # noqa: E402
from bot.propose import Brief, Idea, NoIdea, Proposer, apply  # noqa: E402
from bot.propose.mutate import Move, constants, holds, moves  # noqa: E402
from bot.propose.tpe import WIDTH, space, values_of  # noqa: E402
from bot.screen import Screen  # noqa: E402
from bot.state import Campaign  # noqa: E402
from bot.static import fault, hash_of  # noqa: E402
from bot.surface import Surface, shipped  # noqa: E402
from runners.scripted import ScriptedRunner  # noqa: E402
from tests.worlds import memory_world  # noqa: E402

CANDIDATES, SEEDS = 30, 20
DRAWS = 1000  # of `random` for one proposal
PRESET = ROOT / "examples" / "cpu"
ENDLESS: Mapping[str, object] = {"stop.crashes": 1000, "stop.refusals": 1000}  # all get the same number of candidates
Record = dict[str, Any]


def mix(*names: str) -> dict[str, object]:
    return {"proposer": "mix"} | {f"mix.{name}": float(name in names) for name in ("llm", "mutate", "optuna", "crossover")}


CONTENDERS: Mapping[str, Mapping[str, object]] = {
    "random": {"proposer": "mutate"},  # in whose place the controls stand
    "blind": {"proposer": "mutate"},
    "mutate": {"proposer": "mutate"},
    "optuna": {"proposer": "optuna"},
    "mutate + crossover": mix("mutate", "crossover"),
    "mutate + optuna + crossover": mix("mutate", "optuna", "crossover"),
}


def anywhere(luck: random.Random, source: str) -> list[Move]:
    """Other values for up to as many constants as optuna changes, evenly from the space that it searches."""
    chosen = luck.sample(space(constants(source)), luck.randint(1, WIDTH))
    drawn = [(x.constant, luck.choice([v for v in x.values if v != x.constant.value])) for x in chosen]
    return [Move(constant=constant, value=value, weight=0.0, why="") for constant, value in drawn]


def one_move(luck: random.Random, source: str) -> list[Move]:
    """One of the moves that mutate has, each as likely as any other."""
    return [luck.choice(moves(constants(source)))]


@dataclass(kw_only=True)
class Drawn:
    """A control: it draws, without a preference or a memory but of what was tried."""

    name: str
    draw: Callable[[random.Random, str], list[Move]]

    def propose(self, brief: Brief) -> Idea | NoIdea:
        now, luck = values_of(brief.source), random.Random(f"{brief.seed} {hash_of(brief.source)} {len(brief.tried)}")
        for _ in range(DRAWS):
            made = self.draw(luck, brief.source)
            moved = {move.constant.name: move.value for move in made}
            edits, title = tuple(move.edit for move in made), ", ".join(move.title for move in made)
            if not holds(now | moved, moved.keys()) or brief.refuses(edits):
                continue
            if fault(brief.source, apply(brief.source, edits), brief.tried) is None:
                return Idea(title=title, hypothesis="None: drawn at random.", edits=edits, proposer=self.name)
        return NoIdea(reason=f"none of {DRAWS} draws was new", exhausted=True)


CONTROLS = {control.name: control for control in (Drawn(name="random", draw=anywhere), Drawn(name="blind", draw=one_move))}


@dataclass(frozen=True, kw_only=True)
class Exam:
    """The landscape's surface, and the train.py that all begin with."""

    surface: Surface
    source: str

    def one(self, name: str, seed: int, candidates: int = CANDIDATES) -> Record:
        """A whole campaign in memory."""
        sigma = round(self.surface.sigma, 5)
        overrides = {**CONTENDERS[name], **ENDLESS, "budget.seconds": self.surface.budget_seconds, "gate.prior_sd": sigma}
        text = (PRESET / "program.md").read_text("utf-8")
        program = parse(text, overrides)
        assert isinstance(program, Program), program
        if words := lacking(program.settings, Server()):
            raise SystemExit(words)
        proposer: Proposer = CONTROLS.get(name) or minds(program.settings, PROPOSERS, Server()).proposer
        world = memory_world(lambda _: 0.0, self.source)
        world = replace(world, proposer=proposer, runner=ScriptedRunner(partial(self.surface.play, values_of)))
        started = e.CampaignStarted(
            campaign="1", at=world.now(), experiments=candidates, issue=0, title="", body="", by="a benchmark", program=text,
            settings=overrides, seed=seed, branch="main",
        )  # fmt: skip
        view = View()
        world.log.append(started, view.position)
        c = run(world, view)
        assert c is not None and c.ended is not None, "nobody is there to be asked"
        return {"proposer": name, "seed": seed, **self.told(c, world.log.read()[0], partial(self.source_of, world.code, c))}

    def source_of(self, code: Any, c: Campaign, sha: str) -> str:
        return str(code.read(sha, c.settings.editable[0]))

    def told(self, c: Campaign, happened: Sequence[e.Event], source_at: Any) -> Record:
        """What came of it: `path` has for each merge how many candidates and runs it took, and the improvement then."""
        path: list[tuple[int, int, float]] = []
        settled = runs = worse = 0
        value = base = self.value(self.source)
        for event in happened:
            runs += isinstance(event, e.Measured) and settled < c.settled
            settled += isinstance(event, e.Merged | e.Closed)
            if isinstance(event, e.Merged):
                before, value = value, self.value(source_at(event.sha))
                worse += value >= before
                path.append((settled, runs, round(100 * (base - value) / base, 3)))
        return {
            "candidates": c.settled, "runs": runs, "improvement": path[-1][2] if path else 0.0, "merges": len(path),
            "worse_merges": worse, "refused": c.refused, "failed": sum(n for why, n in c.counts.items() if why in FAILURES),
            "path": path,
        }  # fmt: skip

    def value(self, source: str) -> float:
        """The true one. What was merged has one: a version that fails passes no gate."""
        found = self.surface.guess(values_of(source)).val_bpb
        assert found is not None
        return found


FAILURES = ("crash", "oom", "nan", "timeout", "invalid")


def after(record: Record, runs: int) -> float:
    """The improvement when so many runs were done."""
    return next((float(gain) for _, ran, gain in reversed(record["path"]) if ran <= runs), 0.0)


def quartiles(values: Sequence[float]) -> Record:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return {"median": round(middle, 2), "lower_quartile": round(low, 2), "upper_quartile": round(high, 2)}


def summary(done: Sequence[Record]) -> Record:
    """By proposer. `at_equal_runs`: what each had reached after `equal_runs`."""
    equal = min(int(record["runs"]) for record in done)
    found: Record = {"candidates": CANDIDATES, "equal_runs": equal, "proposers": {}}
    for name in CONTENDERS:
        if mine := [record for record in done if record["proposer"] == name]:
            found["proposers"][name] = {
                "seeds": len(mine),
                "improvement_percent": quartiles([record["improvement"] for record in mine]),
                "at_equal_runs": quartiles([after(record, equal) for record in mine]),
                **{f"{key}_median": statistics.median(record[key] for record in mine) for key in ("runs", "merges", "failed")},
                "worse_merges": sum(record["worse_merges"] for record in mine),
                "all_merges": sum(record["merges"] for record in mine),
            }
    return found


def wanted(done: Sequence[Record], seeds: int) -> Iterator[tuple[str, int]]:
    """What is missing: all proposers of one seed, then of the next."""
    there = {(record["proposer"], record["seed"]) for record in done}
    yield from ((name, seed) for seed in range(1, seeds + 1) for name in CONTENDERS if (name, seed) not in there)


def real(name: str, candidates: int, seed: int) -> Record:
    """A campaign of real trainings in a scratch folder, as `autoresearch demo` makes one."""
    with tempfile.TemporaryDirectory() as scratch:
        ws = demo.make(Path(scratch, "real"))
        c = campaign.begin(ws, this_machine(), Screen(sys.stderr), candidates, CONTENDERS[name], seed=seed)
    seen = looks.record(c)
    edits = [x for x in c.candidates.values() if x.edit]
    return {
        "proposer": name, "seed": seed, "budget_seconds": c.settings.budget.seconds, "runs": c.runs_done,
        **{key: seen[key] for key in ("settled", "outcomes", "refused", "sigma", "start", "best", "total", "verdict")},
        "edits": [{"n": x.n, "proposer": x.proposer, "title": x.title, "why": x.why} for x in edits],
    }  # fmt: skip


def earlier(*, again: bool) -> Record:
    """What the results file holds: `campaigns`, and `real` ones. Those of another landscape are no use."""
    file = RESULTS / "proposers.json"
    return {} if again or not file.exists() else dict(json.loads(file.read_text()))


def figures(exam: Exam, done: Sequence[Record], reals: Sequence[Record]) -> Record:
    """All that goes into the results file."""
    return (summary(done) if done else {}) | {
        "sigma": exam.surface.sigma, "base_bpb": round(exam.value(exam.source), 4), "landscape": exam.surface.digest,
        "real": list(reals), "campaigns": list(done),
    }  # fmt: skip


def keep(exam: Exam, done: Sequence[Record], reals: Sequence[Record]) -> None:
    write("proposers", "python benchmarks/proposers.py", figures(exam, done, reals), n=len(done))


def main() -> int:
    """Print one line a campaign; keep them in the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="campaigns of each proposer (default: %(default)s)")
    able = [name for name in CONTENDERS if name not in CONTROLS]
    parser.add_argument("--real", choices=able, help="one campaign of real trainings with that proposer instead")
    parser.add_argument("--candidates", type=int, default=6, help="of that one (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of that one (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget what is in the results file")
    parser.add_argument("--quick", action="store_true", help="1 seed of 6 candidates each; nothing is written")
    asked = parser.parse_args()
    exam = Exam(surface=shipped(), source=(PRESET / "train.py").read_text("utf-8"))
    if asked.quick:
        for name in (name for name in CONTENDERS if "optuna" not in name or importlib.util.find_spec("optuna")):
            print(json.dumps(exam.one(name, 1, 6)), flush=True)
        return 0
    found = earlier(again=asked.again)
    reals = found.get("real", [])
    done = found.get("campaigns", []) if found.get("landscape") == exam.surface.digest else []
    if asked.real:
        keep(exam, done, [*reals, real(asked.real, asked.candidates, asked.seed)])
        return 0
    for name, seed in wanted(done, asked.seeds):
        done.append(exam.one(name, seed))
        print(json.dumps(done[-1]), flush=True)
        keep(exam, done, reals)
    print(json.dumps(summary(done), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
