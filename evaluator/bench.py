"""The processes of one measurement, started ahead of need: one that trains, A that is scored, B that audits.

Each is used once, for one purpose, and killed. Warming (importing torch takes seconds) goes one after the other on the CPUs
that no candidate trains on, so that it does not disturb another measurement's clock. Also says what machine this is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import select
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluator.wire import Child, Failed, Gone, Late
from runners.local import Confinement, Limits

ROLES = ("train", "a", "b")
READY_SECONDS = 180.0  # a cold disk and a busy machine included
SESSION = Path(__file__).resolve().parent.parent / "trainer" / "session.py"
GPU_TMP = 8 * 2**30  # compiler caches
GPU_MEMORY = 64 * 2**30  # of the host, resident: with a GPU no address space is limited
# Bytes. glibc's malloc gives blocks of this size and more back to the system each time, which finds and clears new pages for the
# next batch of logits: a quarter of the time of scoring on a CPU, measured. The first is the most that mallopt(3) takes. Training
# keeps malloc's own ways, since they are a part of what was measured until now.
KEEP = (("MALLOC_MMAP_THRESHOLD_", str(2**25)), ("MALLOC_TRIM_THRESHOLD_", str(2**27)))


class BenchError(Exception):
    """A sandboxed process did not come up, before any of the candidate ran: our fault, or the installation's."""


@dataclass(frozen=True, kw_only=True)
class Cores:
    """The last allowed CPU is the candidate's; everything else shares the rest (with one CPU: that one)."""

    candidate: frozenset[int]
    rest: frozenset[int]

    @staticmethod
    def split(allowed: set[int]) -> Cores:
        last = max(allowed)
        return Cores(candidate=frozenset({last}), rest=frozenset(allowed - {last}) or frozenset({last}))

    @property
    def shared(self) -> bool:
        return self.candidate == self.rest


class Bench:
    """Makes the processes, keeps those that are warm, and kills all of them in the end."""

    def __init__(
        self, cores: Cores, *, boxed: bool, gpu: bool, session: Path = SESSION, hide: tuple[Path, ...] = (),
        environment: tuple[tuple[str, str], ...] = (), limits: Limits | None = None,
    ) -> None:  # fmt: skip
        limits = limits or (Limits(memory=GPU_MEMORY, tmp=GPU_TMP) if gpu else Limits())
        self.cores, self.boxed, self.gpu = cores, boxed, gpu
        self._session, self._environment = session, environment if gpu else (*environment, ("OMP_NUM_THREADS", "1"))
        self._how = Confinement(boxed=boxed, gpu=gpu, cpus=cores.rest, limits=limits, hide=hide)
        self._warm: dict[str, Child] = {}
        self._all: list[Child] = []

    def unbox(self) -> None:
        """From now on without the sandbox, because the job says so."""
        self.close()
        self.boxed = False
        self._how = replace(self._how, boxed=False)

    def start(self, role: str) -> Child:
        """A new process for that role, or the one that is warm already and alive."""
        child = self._warm.get(role)
        if child is None or child.box.ended(0.0):
            kind, kept = ("train", ()) if role == "train" else ("score", () if self.gpu else KEEP)
            child = Child(self._session, kind, self._how, (*self._environment, *kept))
            self._warm[role] = child
            self._all.append(child)
        return child

    def take(self, role: str, cpus: frozenset[int]) -> tuple[Child, dict[str, Any]]:
        """That process, ready and on these CPUs, and what it says of torch. Nobody else gets it."""
        child = self.start(role)
        child.box.pin(cpus)
        try:
            hello = child.ready(READY_SECONDS)
        except (Late, Gone, Failed) as error:
            child.kill()
            raise BenchError(f"the sandboxed process did not start ({error or type(error).__name__}):\n{child.tail()}") from None
        del self._warm[role]
        child.box.pin(cpus)  # threads that came with the imports
        return child, hello

    def warm_until(self, stdin: int) -> bytes:
        """Warm up until a line is on `stdin`. Empty when it was closed without one."""
        line = bytearray()
        todo: list[str | None] = [*ROLES, None]
        while not line.endswith(b"\n"):
            if todo and all(child.is_ready for child in self._warm.values()):
                if role := todo.pop(0):
                    self.start(role)
                else:
                    print("warm", flush=True)
            waiting = [child for child in self._warm.values() if not child.is_ready]
            if stdin in select.select([stdin, *(child.fileno() for child in waiting)], [], [])[0]:
                chunk = os.read(stdin, 65536)
                if not chunk:
                    return b""
                line += chunk
            elif waiting:
                self._greet(waiting[0])
        return bytes(line)

    def _greet(self, child: Child) -> None:
        """Take note that it is ready; one that is not well is found out when it is needed."""
        try:
            child.ready(READY_SECONDS)
        except (Late, Gone, Failed):
            child.kill()
            self._warm = {role: kept for role, kept in self._warm.items() if kept is not child}

    def close(self) -> None:
        for child in self._all:
            child.close()
        self._all.clear()
        self._warm.clear()


def has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


def device_identity(device: str) -> str:
    """What must be equal for numbers to compare: the card and its driver, or the machine and its CPU model. 12 hex digits."""
    words = _gpu_words() if device == "cuda" else f"{_machine()} {_cpu_model()}"
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _gpu_words() -> str:
    """UUID and driver of the first GPU, by nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return _machine()
    query = [program, "--query-gpu=uuid,driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout.strip() or _machine()


def _machine() -> str:
    with contextlib.suppress(OSError):
        return Path("/etc/machine-id").read_text().strip() or platform.node()
    return platform.node()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
