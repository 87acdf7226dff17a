"""The candidate trains: the judge's clock runs from `start`, the data come with it, the last checkpoint in time is the result.

Before the clock there is no data and `startup_seconds` at most. The clock is this process's own; saving is inside it. A
checkpoint is a sealed memory file of plain float tensors (safetensors, read by hand: nothing is unpickled). What the
candidate reports about itself (steps, tokens, depth, utilisation) is passed on for people and decides nothing. The run is void
when others had its CPU or its GPU (contention.py), never because the candidate did not use them.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from evaluator.contention import Evidence, Watch, first_program
from evaluator.defences import PRODUCTION, Defences
from evaluator.inert import sentence
from evaluator.wire import Child, Failed, Gone, Late, Packet, is_frozen
from runners import Job, Outcome

CHECKPOINT_BYTES = 2**30
HEADER_BYTES = 2**22
TYPES = {"F32": 4, "BF16": 2, "F16": 2}  # bytes a number
OUT_OF_MEMORY = re.compile(r"MemoryError|out of memory|can't allocate memory|cannot allocate memory|not enough memory", re.I)

Tell = Callable[[str, float | None], None]  # phase, seconds left if known


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What every sandboxed process is told: the code, and the sizes that it must fit."""

    source: int  # file descriptor of train.py
    seed: int
    vocab_size: int
    context: int
    device: str

    def message(self, do: str) -> dict[str, Any]:
        sizes = {"vocab_size": self.vocab_size, "context": self.context, "device": self.device}
        return {"do": do, "seed": self.seed} | sizes


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What is left of the training. `checkpoint` is a file descriptor; `facts` are the candidate's own words.

    `spent` is in seconds and MiB, under the names of a measurement; `contention` what others took, in words.
    """

    checkpoint: int = -1  # none yet
    params: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    note: str = ""
    contention: str = ""


def train(
    child: Child, job: Job, orders: Orders, tokens: int, tell: Tell, *, cpus: frozenset[int], defences: Defences = PRODUCTION
) -> Trained:
    """Let it build, start the clock, give it the data, take what it saves. The child is dead afterwards.

    `cpus` are those that it may use. Raises Failed, which says what was spent, also when the run is void.
    """
    tell("building", None)
    begun = time.monotonic()
    program = first_program(child.box.pid)  # before the candidate could start anything
    try:
        early = [] if defences.data_with_clock else [tokens]
        child.send(orders.message("train") | {"seconds": job.budget_seconds}, [orders.source, *early])
        _until_start(child, begun + job.startup_seconds, job)
        watch = Watch(child.box, program, cpus, job.budget_seconds, gpu=orders.device == "cuda")
        started = time.monotonic()
        child.send({"do": "go", "seconds": job.budget_seconds}, [tokens])
    except (Gone, Failed) as error:
        failed = died(child, "before session.start()") if isinstance(error, Gone) else error
        failed.spent = {"startup_seconds": time.monotonic() - begun}
        raise failed from None
    tell("training", job.budget_seconds)
    try:
        trained, ended = _until_end(child, started, job.budget_seconds, watch, defences)
        evidence = watch.finish()
        child.kill()
        _refuse(trained, ended, evidence, job.budget_seconds, defences)
    except Failed as failed:
        failed.spent = _spent(watch, begun, started)
        raise
    note = ended.reason if ended else ""
    return replace(trained, spent=_spent(watch, begun, started), note=note, contention=str(evidence))


def _spent(watch: Watch, begun: float, started: float) -> dict[str, float]:
    """Of CPU and memory what was seen while it lived."""
    seconds = watch.finish().seconds
    return {"startup_seconds": started - begun, "training_seconds": seconds, "cpu_seconds": watch.cpu_seconds,
            "peak_memory_mb": watch.peak_memory_mb}  # fmt: skip


def _refuse(trained: Trained, ended: Failed | None, evidence: Evidence, seconds: float, defences: Defences) -> None:
    """Raise Failed when there is no result to score. What cannot have come from a lack of time or memory is never void."""
    void = evidence.void(defences.void_share, others_only=defences.others_only)
    if void and (ended is None or ended.outcome in (Outcome.OOM, Outcome.TIMEOUT)):
        raise Failed(Outcome.VOID, void)
    if trained.checkpoint < 0:
        raise _nothing(ended, seconds)


def _until_start(child: Child, until: float, job: Job) -> None:
    while True:
        try:
            packet = child.hear(until)
        except Late:
            words = f"not ready after {job.startup_seconds:g} s: session.start() was not called in time"
            raise Failed(Outcome.TIMEOUT, words) from None
        packet.drop()
        if packet.say == "start":
            return
        if packet.say == "failed":
            raise blamed(packet)
        if packet.say == "done":
            raise Failed(Outcome.CRASH, "train() returned without session.start(): nothing was trained")
        if packet.say == "save":
            raise Failed(Outcome.INVALID, "a checkpoint was saved before session.start()")


def _until_end(
    child: Child, started: float, seconds: float, watch: Watch, defences: Defences
) -> tuple[Trained, Failed | None]:  # fmt: skip
    """The last checkpoint in time, and how it ended if that was not by a plain `done`."""
    trained = Trained()
    while True:
        try:
            packet = child.hear(started + seconds + defences.late_seconds, watch.look)
        except Late:
            return trained, Failed(Outcome.TIMEOUT, f"still running at {seconds:g} s")
        except Gone:
            return trained, died(child, "while training")
        trained = replace(trained, facts=trained.facts | _facts(packet.message.get("facts")))
        if packet.say == "save":
            trained = _take(trained, packet, plain=defences.plain_checkpoint)
            continue
        packet.drop()
        if packet.say == "failed":
            return trained, blamed(packet)
        if packet.say == "done" and not defences.late_seconds:
            return trained, None


def _take(trained: Trained, packet: Packet, *, plain: bool) -> Trained:
    if len(packet.fds) != 1:
        packet.drop()
        raise Failed(Outcome.INVALID, "a checkpoint must be exactly one memory file")
    params = checked(packet.fds[0]) if plain else 0
    if trained.checkpoint >= 0:
        os.close(trained.checkpoint)
    return replace(trained, checkpoint=packet.fds[0], params=params)


def _nothing(ended: Failed | None, seconds: float) -> Failed:
    if ended is None:
        return Failed(Outcome.CRASH, "train() returned without session.save(): there is no result")
    if ended.outcome is Outcome.TIMEOUT:
        return Failed(Outcome.TIMEOUT, f"no checkpoint within {seconds:g} s: session.save() must be inside the clock")
    return ended


def checked(fd: int) -> int:
    """How many numbers a checkpoint holds, once it is one beyond doubt. Raises Failed (invalid).

    Format: https://github.com/huggingface/safetensors#format, without metadata and without gaps.
    """
    size = os.fstat(fd).st_size
    if not is_frozen(fd):
        raise _refused("it is not a sealed memory file")
    if not 8 <= size <= CHECKPOINT_BYTES:
        raise _refused(f"it has {size:,} bytes, allowed are {CHECKPOINT_BYTES:,}")
    length = int.from_bytes(os.pread(fd, 8, 0), "little")
    if not 2 <= length <= min(HEADER_BYTES, size - 8):
        raise _refused("its header has an impossible length")
    try:
        header = json.loads(os.pread(fd, length, 8))
        spans = sorted(_span(name, entry) for name, entry in header.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _refused(f"its header is no description of float tensors ({error})") from None
    end = 0
    for begin, stop, _ in spans:
        if begin != end:
            raise _refused("its tensors overlap or leave gaps")
        end = stop
    if end != size - 8 - length:
        raise _refused("its size is not that of its tensors")
    return sum(count for _, _, count in spans)


def _span(name: str, entry: dict[str, Any]) -> tuple[int, int, int]:
    """Begin, end and count of one tensor."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    if entry["dtype"] not in TYPES:
        raise ValueError(f"{name[:80]} is {str(entry['dtype'])[:20]}, not {', '.join(TYPES)}")
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(f"{name[:80]} has an impossible shape")
    count = math.prod(shape)
    if end - begin != count * TYPES[entry["dtype"]]:
        raise ValueError(f"{name[:80]} has not the bytes that its shape needs")
    return begin, end, count


def _refused(why: str) -> Failed:
    return Failed(Outcome.INVALID, f"the checkpoint was refused: {sentence(why)}")


def _facts(raw: object) -> dict[str, float]:
    """The candidate's numbers about itself, as far as they are numbers."""
    if not isinstance(raw, dict) or len(raw) > 100:
        return {}
    return {
        str(name)[:40]: float(value)
        for name, value in raw.items()
        if type(value) in (int, float) and abs(value) < 1e18 and math.isfinite(value)
    }


def blamed(packet: Packet) -> Failed:
    """What a candidate's own exception means."""
    error = sentence(str(packet.message.get("error", "")))[:500] or "it failed and did not say why"
    outcome = Outcome.OOM if OUT_OF_MEMORY.search(error) else Outcome.CRASH
    return Failed(outcome, error)


def died(child: Child, when: str) -> Failed:
    """What it means that the process ended without a word. Kills what is left of it.

    Only memory that ran out is `oom`, which is tried once more with less (measure.py); a fork bomb is a crash.
    """
    if why := child.box.why_killed:
        child.kill()
        outcome = Outcome.OOM if child.box.excess == "memory" else Outcome.CRASH
        return Failed(outcome, f"the process was killed {when}: {why}")
    if not child.box.ended(0.2):
        child.kill()
        return Failed(Outcome.INVALID, f"the process closed its line to the judge {when}")
    status = child.kill()
    by = -status if status < 0 else status - 128
    if by == signal.SIGKILL:
        return Failed(Outcome.OOM, f"the process was killed {when}: most likely for its memory")
    words = f"by signal {by}" if 0 < by < 65 else f"with exit status {status}"
    return Failed(Outcome.CRASH, f"the process ended {words} {when}")
