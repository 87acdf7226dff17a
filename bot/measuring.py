"""`autoresearch measure`: one version of train.py measured once, with the settings of its program.md and a fresh seed.

The summary has the original's names and alignment, so that scripts written for it go on working.
Not here: a verdict. One number without pairs says little about which of two versions is better.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bot.preflight import PROGRAM, check_machine
from bot.program import Problems, Settings, parse
from bot.screen import Screen
from bot.workspace import Machine, Told
from runners import BadResult, Job, Lost, Measurement, Outcome, Running

POLL_SECONDS = 0.1
SEEDS = 2**31


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


def measure(machine: Machine, screen: Screen, file: Path, settings: Settings, seed: int | None) -> Measurement:
    """One measurement. Raises Told; what the candidate does wrong is in the outcome."""
    with screen.stages("preparing") as tell:
        check_machine(machine, settings, tell)
    job = _job(machine, _read(file), settings, seed)
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


def _job(machine: Machine, source: str, settings: Settings, seed: int | None) -> Job:
    budget = settings.budget
    allowed = budget.startup_seconds + budget.seconds + budget.scoring_seconds
    return Job(
        run=f"measure-{machine.token()[:16]}", commit="", source=source, seed=machine.seed() % SEEDS if seed is None else seed,
        nonce=machine.token(), budget_seconds=budget.seconds, startup_seconds=budget.startup_seconds,
        deadline=machine.now() + allowed, corpus=settings.corpus, device=settings.device, sandbox=settings.sandbox,
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


def show(screen: Screen, m: Measurement, *, as_json: bool) -> None:
    if as_json:
        screen.raw(json.dumps(asdict(m) | {"outcome": str(m.outcome)}, indent=1, sort_keys=True))
        return
    if m.outcome is not Outcome.OK and m.log_tail:
        screen.line(m.log_tail)
    screen.line(summary(m))
    if not m.sandboxed:
        screen.line("UNSANDBOXED: it was measured without a sandbox", "bold red")
