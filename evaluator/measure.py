"""The supervisor: `python -m evaluator.measure --home RUNS --cache DIR` makes one measurement and ends.

It warms its sandboxed processes, then waits for one job, a JSON line on standard input (or `--job FILE`). Standard input closed
before that: it ends, and leaves nothing behind. Once it has the job it minds nobody; it owns RUNS/<run>/ by a lock on the
file `pid`, and writes there

    progress.json   where it stands           log          what it printed itself
    result.json     the measurement, once     error.json   why there is none, when that is not the candidate's doing

What a candidate cannot gain by, beside what the sandbox (runners/sandbox.py) and the audit (audit.py) keep it from:
* data before the clock, or work after it: none is there, and it is dead; costs nothing
* a result of its own making: no number that it prints, writes or sends counts, and the record carries a nonce that it never saw
* a checkpoint that is more than sealed float tensors: read by hand, in full, some milliseconds
* probabilities that are none, NaN, infinities, bytes counted its own way: always; 22 ms of the supervisor's CPU per 4 M logits
* a score that no edit can bring: more than half of the incumbent's gone is `invalid` (audit.py, which has the evidence)
* training while it is scored, on data that it brought: beyond twice the incumbent's compute and half a second (bot/runs.py)
* a void run, hence another throw: it would need somebody else's processes (contention.py); a look takes some milliseconds
Not covered: compute of scoring hidden in children that nobody waits for, on a machine where others do the same meanwhile, up to
the limit on wall time; on a GPU all that audit.py says, since nothing here has been run on one; text that a model remembers
from its own training and writes into train.py, of which 64 KB fit.

Exit status 0: there is a result, whatever its outcome; 1: there is none, see error.json and standard error.
Not here: how training, scoring and the sandbox work (training.py, score.py, runners/sandbox.py), nor what a number is worth.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from evaluator.bench import SESSION, Bench, BenchError, Cores, device_identity, has_gpu
from evaluator.contention import held_before
from evaluator.defences import PRODUCTION, Defences
from evaluator.wire import Failed, frozen
from runners import Job, Measurement, Outcome, to_json
from runners.local import SandboxError, available, leave

if TYPE_CHECKING:  # numpy is loaded only once the first sandboxed process is on its way
    from evaluator.prepare import Prepared
    from evaluator.score import Score, Terms
    from evaluator.training import Orders

SHELF = "per-token"  # folder in the cache
CLAIM_SECONDS = 1.0  # whoever only looks whether the lock is held has it for an instant
Tell = Callable[[str, float | None], None]


def main(arguments: list[str]) -> int:
    asked = _arguments(arguments)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _stop)
    cores = Cores.split(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores.rest)
    boxed = available() is None
    hide = (Path(__file__).resolve().parent, asked.home.resolve(), asked.cache.resolve())
    seen = tuple((name, os.environ[name]) for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ)
    bench = Bench(cores, boxed=boxed, gpu=has_gpu(), session=asked.session, hide=hide, environment=seen)
    try:
        line = asked.job.read_bytes() if asked.job else bench.warm_until(sys.stdin.fileno())
        return _serve(Job(**json.loads(line)), bench, asked.home, asked.cache) if line else 0
    finally:
        bench.close()


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evaluator.measure", description="Make one measurement.")
    parser.add_argument("--home", type=Path, required=True, help="folder of runs; the result goes to HOME/<run>/result.json")
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared data")
    parser.add_argument("--job", type=Path, help="file with the job as JSON (default: one line on standard input)")
    parser.add_argument("--session", type=Path, default=SESSION, help="the program that runs candidates (default: %(default)s)")
    return parser.parse_args(arguments)


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _serve(job: Job, bench: Bench, home: Path, cache: Path) -> int:
    """Make the run's folder ours, measure, and leave a result or an error there."""
    folder = home / job.run
    folder.mkdir(parents=True, exist_ok=True)
    lock = _claim(folder)
    if lock is None:
        return 0
    signal.setitimer(signal.ITIMER_REAL, max(0.001, job.deadline - time.time()))
    tell = _teller(folder)
    try:
        leave(folder / "result.json", to_json(measure(job, bench, cache, tell)))
        return 0
    except (SandboxError, BenchError, OSError, _data_error()) as error:
        kind = "sandbox" if isinstance(error, SandboxError) else "data" if isinstance(error, _data_error()) else "machine"
        print(f"measure: {error}", file=sys.stderr, flush=True)
        leave(folder / "error.json", json.dumps({"kind": kind, "message": str(error)}))
        return 1


def _claim(folder: Path) -> int | None:
    """The lock that says that this process is at it, held until it ends; None when the run has begun before or is cancelled."""
    fd = os.open(folder / "pid", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    until = time.monotonic() + CLAIM_SECONDS
    while not _locked(fd):
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
    if os.fstat(fd).st_size:
        return None
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    return fd


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _teller(folder: Path) -> Tell:
    def tell(phase: str, left: float | None) -> None:
        ends = None if left is None else time.time() + left
        with contextlib.suppress(OSError):  # a full disk shows when the result is written
            draft = folder / ".progress"
            draft.write_text(json.dumps({"phase": phase, "ends": ends}))
            draft.rename(folder / "progress.json")

    return tell


def _data_error() -> type[Exception]:
    from evaluator.prepare import DataError

    return DataError


def measure(job: Job, bench: Bench, cache: Path, tell: Tell) -> Measurement:
    """One run from the job to its measurement. Raises SandboxError, BenchError, DataError: not the candidate's fault."""
    begun = time.monotonic()
    if job.sandbox == "required" and not bench.boxed:
        raise SandboxError(available() or "this supervisor runs without a sandbox: start another one")
    if job.sandbox == "none" and bench.boxed:
        bench.unbox()
    tell("preparing", None)
    bench.start("train")
    from evaluator import prepare

    data = prepare.load(job.corpus, cache, tell=lambda stage, done: tell("preparing", None))
    return judge(job, data, bench, tell, begun=begun, known=cache / SHELF)


def judge(
    job: Job, data: Prepared, bench: Bench, tell: Tell, *, begun: float, known: Path | None = None,
    defences: Defences = PRODUCTION,
) -> Measurement:  # fmt: skip
    """Train, score, audit. Everything that a candidate does wrong is in the outcome. `begun` is a monotonic second.

    `known` is the folder of what is remembered of the incumbent (shelf.py); None: nothing is.
    """
    facts: dict[str, Any] = {"sandboxed": bench.boxed, "outcome": Outcome.OK, "extra": {}}
    try:
        scored = _run(job, data, bench, tell, facts, known, defences)
        _believe(job, data, scored, facts, known, defences)
    except Failed as failed:
        facts |= failed.spent | {"outcome": failed.outcome, "reason": failed.reason}
        facts["log_tail"] = failed.log or facts.get("log_tail", "")
    total = time.monotonic() - begun
    spent = facts.get("training_seconds", 0.0) + facts.get("scoring_seconds", 0.0)
    facts |= {"total_seconds": total, "overhead_seconds": total - spent}
    return Measurement(run=job.run, commit=job.commit, seed=job.seed, nonce=job.nonce, **facts)


def _run(
    job: Job, data: Prepared, bench: Bench, tell: Tell, facts: dict[str, Any], known: Path | None, defences: Defences
) -> Score:  # fmt: skip
    """Fill in the facts as they come, but for the number. Raises Failed."""
    from evaluator.training import Orders, train

    cpus = bench.cores.candidate | bench.cores.rest if bench.gpu else bench.cores.candidate
    child, hello = bench.take("train", cpus)
    device = job.device if job.device != "auto" else "cuda" if hello.get("cuda") is True else "cpu"
    if device == "cuda" and hello.get("cuda") is not True:
        raise BenchError("device cuda was asked for, but torch sees no GPU here: install a CUDA build, or set device: cpu")
    versions = f"torch {hello.get('torch')} / {data.digest} / {job.budget_seconds:g} s / context {data.context}"
    facts |= {"device": device, "fingerprint": f"{device} {device_identity(device)} / {versions}"}
    if child.box.kind:
        facts["extra"]["sandbox"] = child.box.kind
    if held := held_before(gpu=device == "cuda"):
        raise Failed(Outcome.VOID, held)
    if not bench.cores.shared:  # they import torch while the candidate trains on its own CPU
        for role in ("a", "b"):
            bench.start(role)
    orders = Orders(source=frozen("train.py", job.source.encode()), seed=job.seed, vocab_size=data.vocab_size,
                    context=data.context, device=device)  # fmt: skip
    tokens = frozen("tokens", data.train_tokens().data)
    try:
        trained = train(child, job, orders, tokens, tell, cpus=cpus, defences=defences)
    finally:
        child.kill()
        facts["log_tail"] = child.tail()
    facts |= trained.spent | {"params": trained.params} | _own_words(trained.facts, trained.spent["training_seconds"])
    facts["extra"] |= {name: words for name in ("note", "contention") if (words := getattr(trained, name))}
    result = _score(job, data, bench, orders, trained.checkpoint, _terms(job, data, bench, device, known), tell, defences)
    facts |= {"scoring_seconds": result.seconds, "scoring_cpu_seconds": result.cpu_seconds, "audit": result.audit}
    return result


def _believe(job: Job, data: Prepared, scored: Score, facts: dict[str, Any], known: Path | None, defences: Defences) -> None:
    """The number becomes one, unless it is impossible; then others may be compared with it. Raises Failed (invalid)."""
    from evaluator import audit, bits, shelf

    tokens = sum(map(len, data.public.tokens))
    guessing = bits.bits_per_byte(tokens * math.log(data.vocab_size), data.public.nbytes)
    if defences.jump and (why := audit.impossible(scored.bpb[0], job.incumbent_bpb, guessing)):
        raise Failed(Outcome.INVALID, why)
    facts |= {"val_bpb": scored.bpb[0], "vault_bpb": scored.bpb[1] if job.vault else None}
    if known and job.code:
        shelf.keep(known, shelf.name_of(job.code, data.digest, facts["device"]), scored.numbers)


def _terms(job: Job, data: Prepared, bench: Bench, device: str, known: Path | None) -> Terms:
    from evaluator import score, shelf

    numbers = shelf.recall(known, shelf.name_of(job.incumbent, data.digest, device)) if known and job.incumbent else None
    return score.Terms(bos=data.bos, seconds=job.scoring_seconds, cpu=min(bench.cores.candidate),
                       cap=job.scoring_cap_seconds, incumbent=numbers)  # fmt: skip


def _own_words(facts: dict[str, float], seconds: float) -> dict[str, Any]:
    """What the candidate says of itself, under the names of a measurement."""
    counts = {name: int(max(0.0, facts.get(name, 0.0))) for name in ("steps", "tokens", "depth")}
    rate = counts["tokens"] / seconds if seconds > 0 else 0.0
    more = {"mfu_percent": facts.get("mfu_percent"), "peak_vram_mb": facts.get("peak_vram_mb", 0.0)}
    return counts | {"tokens_per_second": rate} | more


def _score(
    job: Job, data: Prepared, bench: Bench, orders: Orders, checkpoint: int, terms: Terms, tell: Tell, defences: Defences
) -> Score:  # fmt: skip
    """Score in two fresh processes; once more in two others with half the batch when memory was short."""
    try:
        return _score_once(job, data, bench, orders, checkpoint, terms, tell, defences)
    except Failed as failed:
        if failed.outcome is not Outcome.OOM:
            raise
        return _score_once(job, data, bench, orders, checkpoint, replace(terms, smaller=2), tell, defences)


def _score_once(
    job: Job, data: Prepared, bench: Bench, orders: Orders, checkpoint: int, terms: Terms, tell: Tell, defences: Defences
) -> Score:  # fmt: skip
    from evaluator import score

    a, _ = bench.take("a", bench.cores.candidate)
    b, _ = bench.take("b", bench.cores.candidate)
    begun = time.monotonic()

    def progress(done: float) -> None:
        tell("scoring", (time.monotonic() - begun) * (1 - done) / done)

    tell("scoring", None)
    texts = [data.public, data.vault] if job.vault else [data.public]
    try:
        return score.score(a, b, orders, checkpoint, texts, terms, progress=progress, defences=defences)
    except Failed as failed:
        for child in (a, b):
            child.kill()
            failed.log = failed.log or child.tail()
        raise
    finally:
        for child in (a, b):
            child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
