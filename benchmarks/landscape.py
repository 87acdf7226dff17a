"""A landscape of real trainings: examples/cpu/train.py over its main constants, one row a training, shipped in bot/data.

    python benchmarks/landscape.py              # 340 trainings of 5 s, about 38 minutes -> bot/data/landscape.jsonl
    python benchmarks/landscape.py --quick      # 3 of 2 s, on the screen only

When all rows are there it lays a surface through them (bot/data/surface.json) and says how noisy they are and how far it is off
(benchmarks/results/landscape.json).

Each training is measured by the judge as a campaign would (startup, training, scoring, audit), warm. Which ones: _points.py.
Failures are rows too. A void run says something of the machine alone: it is done again, after a pause, until it is not void, and
is never written. Resumable at any moment: the file is complete after each row, and rows that are there are not run again. To go
on needs the prepared data of --cache, since which texts are held out is drawn for each cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from _laid import figures, laid, short  # noqa: E402
from _points import Ask, following  # noqa: E402
from _record import ROOT, commit  # noqa: E402
from _record import write as record  # noqa: E402

from bot import installed  # noqa: E402
from bot.landscape import SHIPPED, BadLandscape, Landscape, Row, Value, read, write  # noqa: E402
from bot.program import Program, parse  # noqa: E402
from bot.propose import apply  # noqa: E402
from bot.propose.mutate import Move, constants  # noqa: E402
from bot.runs import allowed  # noqa: E402
from bot.settings import Settings  # noqa: E402
from bot.static import hash_of  # noqa: E402
from bot.surface import FITTED  # noqa: E402
from runners import Job, Lost, Measurement, Outcome, Runner, Running  # noqa: E402

PRESET = ROOT / "examples" / "cpu"
CACHE = ROOT / ".cache" / "landscape"
FIRST_SEED = 1000  # of the first training; the next has the next
LOSSES = 5  # in a row: then the machine is broken, not busy
PAUSE_SECONDS = 15.0  # after a void run
SCORING_SECONDS = 60.0  # fifty times what the base takes: what is slower could not win a campaign, which allows it about twice


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Makes one measurement after the other. `sleep` is the only waiting that it does for others."""

    runner: Runner
    settings: Settings
    source: str
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, ask: Ask, seed: int) -> Measurement:
        """Never void. Raises SystemExit when the machine loses runs."""
        asked, voids, losses = with_values(self.source, ask.moved), 0, 0
        while True:
            got = self._once(self._job(asked, seed, f"{seed}.{voids}.{losses}"))
            if isinstance(got, Lost):
                losses += 1
                if losses >= LOSSES:
                    raise SystemExit(f"{losses} runs in a row were lost ({got.reason}): see `autoresearch doctor`, then go on")
            elif got.outcome is Outcome.VOID:
                voids += 1
                print(f"void, {voids} so far, again in {PAUSE_SECONDS:g} s: {got.reason}", file=sys.stderr, flush=True)
                self.sleep(PAUSE_SECONDS)
            else:
                return got

    def _job(self, source: str, seed: int, run: str) -> Job:
        s = self.settings
        return Job(
            run=f"landscape-{run}", commit="landscape", source=source, seed=seed, nonce=run, budget_seconds=s.budget.seconds,
            startup_seconds=s.budget.startup_seconds, scoring_seconds=SCORING_SECONDS,
            deadline=time.time() + allowed(s.budget), corpus=s.corpus, device=s.device, sandbox=s.sandbox,
        )  # fmt: skip

    def _once(self, job: Job) -> Measurement | Lost:
        self.runner.start(job)
        try:
            while isinstance(state := self.runner.poll(job), Running):
                self.runner.warm()
                self.sleep(0.05)
        except BaseException:
            self.runner.cancel(job.run)  # it would go on without us
            raise
        return state


def with_values(source: str, moved: Mapping[str, Value]) -> str:
    """The source with those constants. Raises KeyError for a constant that it has not."""
    found = {constant.name: constant for constant in constants(source)}
    edits = [Move(constant=found[name], value=value, weight=0.0, why="").edit for name, value in moved.items()]
    edited = apply(source, tuple(edits))
    assert edited is not None  # constants() lists what can be edited
    return edited


def values(source: str) -> dict[str, Value]:
    return {constant.name: constant.value for constant in constants(source)}


def row_of(ask: Ask, seed: int, got: Measurement) -> Row:
    """What is kept of a measurement, to figures that mean something."""
    return Row(
        why=ask.why, seed=seed, moved=ask.moved, outcome=got.outcome, reason=got.reason[:120], steps=got.steps, params=got.params,
        val_bpb=None if got.val_bpb is None else round(got.val_bpb, 6), tokens_per_second=round(got.tokens_per_second),
        peak_memory_mb=round(got.peak_memory_mb), training_seconds=round(got.training_seconds, 3),
        cpu_seconds=round(got.cpu_seconds, 2), scoring_cpu_seconds=round(got.scoring_cpu_seconds, 3),
    )  # fmt: skip


def device_of(fingerprint: str) -> str:
    """What must be equal for numbers to compare, without the mark of the single machine."""
    return re.sub(r"^(\w+) [0-9a-f]{12} / ", r"\1 / ", fingerprint)


def collect(
    found: Landscape, n: int, measure: Callable[[Ask, int], Measurement], keep: Callable[[Landscape], None]
) -> Iterator[Row]:  # fmt: skip
    """Train what is missing of `n`; `keep` gets the whole landscape after each. Raises BadLandscape on another device."""
    while ask := following(found.rows, n, found.base):
        seed = FIRST_SEED + len(found.rows)
        got = measure(ask, seed)
        device = device_of(got.fingerprint) if got.fingerprint else found.head["device"]
        if found.head["device"] not in ("", device):
            raise BadLandscape(f"its rows are from {found.head['device']}, this is {device}: go on there, or begin with --again")
        found = replace(found, head={**found.head, "device": device}, rows=(*found.rows, row_of(ask, seed, got)))
        keep(found)
        yield found.rows[-1]


def empty(source: str, s: Settings, command: str) -> Landscape:
    head = {
        "command": command, "commit": commit(), "machine": f"{platform.machine()}, {os.cpu_count()} cores, one trains",
        "date": time.strftime("%Y-%m-%d", time.gmtime()), "device": "", "corpus": s.corpus, "train": hash_of(source),
        "budget_seconds": s.budget.seconds, "base": values(source),
    }  # fmt: skip
    return Landscape(head=head, rows=())


def earlier(path: Path, new: Landscape) -> Landscape:
    """What the file holds, if it can be added to. Raises BadLandscape."""
    if not path.exists():
        return new
    found = read(path.read_text("utf-8"))
    for name in ("train", "budget_seconds", "corpus"):
        if found.head[name] != new.head[name]:
            raise BadLandscape(f"its {name} is {found.head[name]}, now it is {new.head[name]}: --again begins anew")
    return replace(found, head={**new.head, "device": found.head["device"]})


def store(path: Path, text: str) -> None:
    """The whole file or the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def finish(path: Path, found: Landscape) -> None:
    """Lay the surface, beside the landscape; write down the figures if it is the one that is shipped."""
    made, off = laid(found)
    store(path.with_name(FITTED.name), json.dumps(short(made)) + "\n")
    told = short(figures(found, off))
    if path == SHIPPED:
        record("landscape", found.head["command"], told, n=len(found.rows))
    print(json.dumps(told, indent=1))


def settings(seconds: float) -> Settings:
    program = parse((PRESET / "program.md").read_text("utf-8"), {"budget.seconds": seconds})
    assert isinstance(program, Program), program
    return program.settings


def main() -> int:
    """Print one line a training. Exit 1 when the file cannot be added to; interrupted, nothing is lost but the run under way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=340, help="trainings in all (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of one training (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the file (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="of prepared data (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget the rows that are in the file")
    parser.add_argument("--quick", action="store_true", help="3 trainings of 2 s; nothing is written")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if asked.quick:
            asked.n, asked.budget, asked.out, asked.cache = 3, 2.0, Path(scratch, "landscape.jsonl"), Path(scratch, "cache")
        source, s = (PRESET / "train.py").read_text("utf-8"), settings(asked.budget)
        new = empty(source, s, f"python benchmarks/landscape.py --n {asked.n} --budget {asked.budget:g}")
        runner = installed.local(Path(scratch, "runs"), asked.cache)
        try:
            found = new if asked.again else earlier(asked.out, new)
            measure = Bench(runner=runner, settings=s, source=source)
            for row in collect(found, asked.n, measure, lambda now: store(asked.out, write(now))):
                words = f"{row.val_bpb:.4f}" if row.val_bpb is not None else f"{row.outcome}: {row.reason}"
                print(f"{row.seed - FIRST_SEED + 1}/{asked.n} {row.why} {json.dumps(row.moved)} {words}", flush=True)
        except BadLandscape as error:
            print(f"landscape: {asked.out}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("landscape: interrupted; the same command goes on from here", file=sys.stderr)
            return 130
        finally:
            runner.close()
    if not asked.quick:
        finish(asked.out, read(asked.out.read_text("utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
