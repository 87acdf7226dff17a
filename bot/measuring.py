"""`autoresearch measure`: one version of train.py measured, once or with several seeds, with the settings of its program.md.

The summary of one run has the original's names and alignment, so that scripts written for it go on working. A run that is void
is done again with the same seed, twice at most, as in a campaign.
Not here: a verdict. One number without pairs says little about which of two versions is better.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev

from bot.preflight import PROGRAM, check_machine
from bot.program import Problems, Settings, parse
from bot.runs import allowed
from bot.screen import Screen
from bot.workspace import Machine, Told
from runners import BadResult, Job, Lost, Measurement, Outcome, Running

POLL_SECONDS = 0.1
SEEDS = 2**31
VOIDS = 2  # as often a run that others disturbed is done again


def source_file(path: Path, top: Path | None) -> Path:
    """The train.py that is meant: a file, or the one in a folder or, with None, of the checkout. Raises Told."""
    places = [path] if path.is_file() else [path / "trainer" / "train.py", path / "train.py"]
    if path.is_dir() and top and path != top:
        places.append(top / "trainer" / "train.py")
    for place in places:
        if place.is_file():
            return place.resolve()
    raise Told(f"there is no train.py at {path}: name the file, or run this in a checkout that has trainer/train.py")


def settings_for(file: Path, top: Path | None) -> tuple[Settings, str]:
    """Those of the program.md nearest above the file, and where that is; the defaults when there is none. Raises Told."""
    for folder in file.parents:
        place = folder / PROGRAM
        if place.is_file():
            program = parse(_read(place))
            if isinstance(program, Problems):
                raise Told(f"{place} has mistakes, mend them:\n{program}")
            return program.settings, str(place)
        if folder == top or (folder / ".git").exists():
            break
    program = parse("---\n---\n")
    assert not isinstance(program, Problems), "the defaults are right"
    return program.settings, "the defaults, since there is no program.md above it"


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise Told(f"{path} is not UTF-8 text: save it as UTF-8") from None


def measure(machine: Machine, screen: Screen, file: Path, settings: Settings, seed: int | None, runs: int) -> list[Measurement]:
    """So many measurements, each with a seed of its own. Raises Told; what the candidate does wrong is in the outcome."""
    with screen.stages("preparing") as tell:
        check_machine(machine, settings, tell)
    source = _read(file)
    seeds = [machine.seed() % SEEDS if seed is None else (seed + k) % SEEDS for k in range(runs)]
    return [_not_void(machine, screen, file, source, settings, each) for each in seeds]


def _not_void(machine: Machine, screen: Screen, file: Path, source: str, settings: Settings, seed: int) -> Measurement:
    """The same seed again as long as others disturb it. Raises Told when they go on."""
    for _ in range(1 + VOIDS):
        seen = _measure_once(machine, screen, file, _job(machine, source, settings, seed), settings)
        if seen.outcome is not Outcome.VOID:
            return seen
        screen.line(f"seed {seed}: {seen.reason}", "yellow")
    raise Told(f"every run was void, {1 + VOIDS} times with seed {seed}: wait until the machine is quiet")


def _measure_once(machine: Machine, screen: Screen, file: Path, job: Job, settings: Settings) -> Measurement:
    runner = machine.runners[settings.runner](machine.cache / "runs", machine.cache)
    try:
        runner.start(job)
        with screen.live():
            while isinstance(seen := runner.poll(job), Running):
                screen.bar(job.run, file.name, seen)
                machine.sleep(POLL_SECONDS)
    except BadResult as error:
        raise Told(f"the result was refused at the door: {error}") from None
    except KeyboardInterrupt:
        runner.cancel(job.run)
        raise
    finally:
        runner.close()
    if isinstance(seen, Lost):
        raise Told(f"the run was lost: {seen.reason}; do it again")
    return seen


def _job(machine: Machine, source: str, settings: Settings, seed: int) -> Job:
    budget = settings.budget
    return Job(
        run=f"measure-{machine.token()[:16]}", commit="", source=source, seed=seed,
        nonce=machine.token(), budget_seconds=budget.seconds, startup_seconds=budget.startup_seconds,
        scoring_seconds=budget.scoring_seconds, deadline=machine.now() + allowed(budget), corpus=settings.corpus,
        device=settings.device, sandbox=settings.sandbox,
    )  # fmt: skip


def summary(m: Measurement) -> str:
    """The block that https://github.com/karpathy/autoresearch prints at the end of train.py; n/a is what this device has not.

    Seconds, MiB, percent, millions. total_seconds is the whole run: start-up, training, scoring."""
    rows = [
        ("val_bpb", None if m.val_bpb is None else f"{m.val_bpb:.6f}"),
        ("training_seconds", f"{m.training_seconds:.1f}"),
        ("total_seconds", f"{m.total_seconds:.1f}"),
        ("peak_vram_mb", f"{m.peak_vram_mb:.1f}" if m.peak_vram_mb > 0 else None),
        ("mfu_percent", None if m.mfu_percent is None else f"{m.mfu_percent:.2f}"),
        ("total_tokens_M", f"{m.tokens / 1e6:.1f}" if m.tokens else None),
        ("num_steps", str(m.steps) if m.steps else None),
        ("num_params_M", f"{m.params / 1e6:.1f}" if m.params else None),
        ("depth", str(m.depth) if m.depth else None),
    ]
    return "\n".join(["---", *(f"{name + ':':<17} {value or 'n/a'}" for name, value in rows)])


def show(screen: Screen, runs: list[Measurement], *, as_json: bool) -> None:
    """One run in the original's words, several as a table with mean, sigma and what they rest on."""
    records = [asdict(m) | {"outcome": str(m.outcome)} for m in runs]
    if as_json:
        screen.raw(json.dumps(records if len(runs) > 1 else records[0], indent=1, sort_keys=True))
    elif len(runs) == 1:
        _show_one(screen, runs[0])
    else:
        scores = [str(m.outcome) if m.val_bpb is None else f"{m.val_bpb:.6f}" for m in runs]
        rows = [(str(m.seed), score, str(m.steps), m.audit or m.reason) for m, score in zip(runs, scores, strict=True)]
        screen.table(("seed", "val_bpb", "steps", "audit"), rows)
        screen.line(spread(runs))


def spread(runs: list[Measurement]) -> str:
    """Mean and sigma (of one run, n - 1) of those that have a number, and on what they were measured."""
    scores = [m.val_bpb for m in runs if m.val_bpb is not None]
    lines = [f"mean         {fmean(scores):.6f}  ({len(scores)} of {len(runs)} runs)"] if scores else []
    if len(scores) > 1:
        lines.append(f"sigma        {stdev(scores):.6f}  ({100 * stdev(scores) / fmean(scores):.2f} % of the mean)")
    boxes = {"unsandboxed" if not m.sandboxed else m.extra.get("sandbox", "sandboxed") for m in runs}
    lines.append(f"sandbox      {', '.join(sorted(boxes))}")
    return "\n".join([*lines, *(f"fingerprint  {words}" for words in sorted({m.fingerprint for m in runs}))])


def _show_one(screen: Screen, m: Measurement) -> None:
    if m.outcome is not Outcome.OK and m.log_tail:
        screen.line(m.log_tail)
    screen.line(summary(m))
    if not m.sandboxed:
        screen.line("UNSANDBOXED: it was measured without a sandbox", "bold red")
