"""What others do to a measurement, and what it really costs: read from the kernel and the driver, never from the candidate.

A run is void only on evidence that its candidate cannot make. A candidate can idle, fake its steps, start threads and
children that get in its own way, or hide their CPU time by never waiting for them. It cannot make a process outside of its
own family run. So contention is the smaller of two numbers: how long its first thread was ready to run and did not, and the
CPU time that processes of others, each seen by name, took on the CPU where that thread is. Time that a hypervisor stole comes
on top. Threads of the kernel count as nobody, since a candidate can give them work.

Not seen, hence never void: others that live for less than the time between two looks; what a neighbour does to caches, memory
and clock speed. Without a sandbox a child that leaves the family before the first look counts as somebody else.
The part on GPUs is written from NVIDIA's documentation and has not been run on a GPU.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from runners.local import Box

TICK = os.sysconf("SC_CLK_TCK")
KERNEL = 2  # the parent of all threads of the kernel
VOID_SECONDS = 0.5  # less than this is a matter of luck and of clock ticks, however short the training
LOOK_SECONDS = (0.1, 2.0)  # between two looks, at least and at most; a look takes some milliseconds on another CPU
GPU_LOOK_SECONDS = 20.0  # nvidia-smi takes up to a second
FREE_MB = 768  # of memory, before anything is started: torch alone takes 300 a process
GPU_HELD_MB = 1024  # that nobody answers for; the driver itself holds some hundreds
GPU_WAIT_SECONDS = 10.0  # the driver gives memory back a moment after a process ended


@dataclass(frozen=True, kw_only=True)
class Process:
    """A line of proc(5) stat. Ticks: its own, and of children that it waited for."""

    parent: int
    born: int
    own: int
    waited: int
    threads: int
    cpu: int


def processes() -> dict[int, Process]:
    """Everything that runs on this machine, as far as we may see it."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (process := _process(path)):
            found[int(path.name)] = process
    return found


def _process(folder: Path) -> Process | None:
    try:
        words = (folder / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(parent=int(words[1]), born=int(words[19]), own=int(words[11]) + int(words[12]),
                   waited=int(words[13]) + int(words[14]), threads=int(words[17]), cpu=int(words[36]))  # fmt: skip


def family(roots: Iterable[int], everybody: dict[int, Process]) -> set[int]:
    """Those processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in everybody.items():
        children.setdefault(process.parent, []).append(pid)
    found, todo = set(), list(roots)
    while todo:
        pid = todo.pop()
        found.add(pid)
        todo += children.get(pid, [])
    return found


def first_program(pid: int) -> int:
    """The innermost of a chain of processes that starts with `pid`: the program of a box, while it has no children."""
    everybody = processes()
    while inner := [child for child, process in everybody.items() if process.parent == pid]:
        pid = min(inner)
    return pid


class Others:
    """CPU seconds on one CPU by processes outside of a family.

    `unseen` is what their children took that began and ended between two looks, wherever they may have run.
    """

    def __init__(self, roots: tuple[int, ...], everybody: dict[int, Process] | None = None) -> None:
        self._roots = roots
        self._family: set[tuple[int, int]] = set()
        self._processes: dict[tuple[int, int], Process] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self.seconds = self._waited = 0.0
        self.look(processes() if everybody is None else everybody, -1)

    def look(self, everybody: dict[int, Process], cpu: int) -> None:
        """Add up what they did since the last look, as if each thread had stayed where it is now."""
        ours = family(self._roots, everybody)
        self._family |= {(pid, everybody[pid].born) for pid in ours if pid in everybody}  # also once its parent has died
        first = not self._processes
        for pid, process in everybody.items():
            key = (pid, process.born)
            if key in self._family or KERNEL in (pid, process.parent):
                continue
            before, self._processes[key] = self._processes.get(key), process
            if before and (before.own, before.waited) == (process.own, process.waited):
                continue
            if not first and process.waited and _may_use(pid, cpu):
                self._waited += (process.waited - (before.waited if before else 0)) / TICK
            for thread, ticks, where in _threads(pid, process):
                old = self._threads.get((thread, process.born), ticks if first else 0)
                self._threads[thread, process.born] = ticks
                self.seconds += (ticks - old) / TICK if where == cpu else 0.0
        for key in [key for key in self._processes if key[0] not in everybody]:
            gone = self._processes.pop(key)
            self._waited -= (gone.own + gone.waited) / TICK  # was seen, hence known

    @property
    def unseen(self) -> float:
        return max(0.0, self._waited)


def _may_use(pid: int, cpu: int) -> bool:
    with contextlib.suppress(OSError):
        return cpu in os.sched_getaffinity(pid)
    return False


def _threads(pid: int, process: Process) -> list[tuple[int, int, int]]:
    """Number, ticks and CPU of each thread."""
    if process.threads == 1:
        return [(pid, process.own, process.cpu)]
    with contextlib.suppress(OSError):
        seen = [(int(folder.name), _process(folder)) for folder in Path(f"/proc/{pid}/task").iterdir()]
        return [(number, thread.own, thread.cpu) for number, thread in seen if thread]
    return []


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Seconds: of watching, of waiting for a CPU, of others on that CPU, of the hypervisor. `gpu`: who else is on the device."""

    seconds: float = 0.0
    delay: float = 0.0
    others: float = 0.0
    steal: float = 0.0
    gpu: str = ""

    def void(self, share: float, *, others_only: bool = True) -> str:
        """Why the run says nothing about its candidate; empty when it does."""
        if self.gpu:
            return f"void, somebody else is on the GPU: {self.gpu}"
        lost = (min(self.delay, self.others) if others_only else self.delay) + self.steal
        if lost <= max(VOID_SECONDS, share * self.seconds):
            return ""
        return f"void, the machine is too busy: {self}; {share:.0%} is allowed"

    def __str__(self) -> str:
        return (f"in {self.seconds:.1f} s of training it waited {self.delay:.2f} s for its CPU, on which other processes ran "
                f"{self.others:.2f} s, and a hypervisor took {self.steal:.2f} s")  # fmt: skip


class Watch:
    """Looks at a training from outside. `cpus` are those that the judge gave it; with a GPU that is all of them."""

    def __init__(self, box: Box, program: int, cpus: frozenset[int], seconds: float, *, gpu: bool = False) -> None:
        self._box, self._program, self._cpus = box, program, cpus
        self._others = Others((os.getpid(), box.pid))
        self._every = min(max(seconds / 20, LOOK_SECONDS[0]), LOOK_SECONDS[1])
        self._begun = self._last = time.monotonic()
        self._delay_before = self._delay = _delay(program) or 0.0
        self._steal_before = _stolen(cpus)
        self._cpu_before, self.cpu_seconds, self.peak_memory_mb = box.cpu_seconds(), 0.0, 0.0
        self._gpu, self._next_gpu = "", self._begun + GPU_LOOK_SECONDS if gpu else math.inf
        self._evidence: Evidence | None = None

    def look(self) -> float:
        """Look if it is time to. Seconds until the next look."""
        now = time.monotonic()
        if now >= self._last + self._every:
            self._look()
            self._last = now = time.monotonic()
        if now >= self._next_gpu:
            self._gpu = self._gpu or gpu_strangers(self._box.pid)
            self._next_gpu = time.monotonic() + GPU_LOOK_SECONDS
        return self._last + self._every - now

    def _look(self) -> None:
        everybody = processes()
        program = everybody.get(self._program)
        cpu = program.cpu if program and program.cpu in self._cpus else min(self._cpus) if len(self._cpus) == 1 else -1
        self._others.look(everybody, cpu)
        self._delay = _delay(self._program) or self._delay
        self.cpu_seconds = max(self.cpu_seconds, self._box.cpu_seconds() - self._cpu_before)
        self.peak_memory_mb = max(self.peak_memory_mb, self._box.peak_memory_mb())

    def finish(self) -> Evidence:
        """Look for the last time; asked again it says the same."""
        if self._evidence is None:
            self._look()
            steal = _stolen(self._cpus) - self._steal_before if len(self._cpus) == 1 else 0.0
            self._evidence = Evidence(seconds=time.monotonic() - self._begun, delay=self._delay - self._delay_before,
                                      others=self._others.seconds, steal=steal, gpu=self._gpu)  # fmt: skip
        return self._evidence


def _delay(thread: int) -> float | None:
    """Seconds that a thread was ready and did not run: https://docs.kernel.org/scheduler/sched-stats.html."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{thread}/task/{thread}/schedstat").read_bytes().split()[1]) / 1e9
    return None


def _stolen(cpus: frozenset[int]) -> float:
    return sum(times[7] for cpu, times in _cpu_times().items() if cpu in cpus) / TICK


def _cpu_times() -> dict[int, list[int]]:
    """Ticks of each CPU by proc(5) stat: user, nice, system, idle, iowait, irq, softirq, steal ..."""
    lines = Path("/proc/stat").read_text().splitlines()
    return {int(line[3 : line.index(" ")]): [int(word) for word in line.split()[1:]]
            for line in lines if line.startswith("cpu") and line[3] != " "}  # fmt: skip


class Meter:
    """CPU seconds that a box takes on a CPU that nobody of the judge uses meanwhile.

    A child that nobody waits for takes its CPU time with it to the grave. So the bill is what the CPU did, less what is known of
    others; never less than what the family owns up to.
    """

    def __init__(self, root: int, cpu: int, owned: Callable[[], float]) -> None:
        self._cpu, self._owned = cpu, owned
        self._others = Others((root,))
        self._owned_before, self._busy_before = owned(), self._busy()

    def _busy(self) -> float:
        return sum(_cpu_times().get(self._cpu, [0])[:3]) / TICK

    def owned(self) -> float:
        return self._owned() - self._owned_before

    def seconds(self) -> float:
        busy, owned = self._busy() - self._busy_before, self.owned()
        self._others.look(processes(), self._cpu)
        return max(owned, busy - self._others.seconds - self._others.unseen)


def held_before(*, gpu: bool) -> str:
    """Why nothing should be measured here now: memory that others, or the dead, hold. Empty when all is well (case A21)."""
    free = _free_mb()
    if free is not None and free < FREE_MB:
        return f"void, only {free:.0f} MiB of memory are free, {FREE_MB} are needed: end what holds the rest"
    if not gpu:
        return ""
    until = time.monotonic() + GPU_WAIT_SECONDS
    while held := _gpu_held():
        if time.monotonic() > until:
            return f"void, the GPU is not free: {held}"
        time.sleep(0.5)
    return ""


def _free_mb() -> float | None:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return None


def _gpu_held() -> str:
    if strangers := gpu_strangers(os.getpid()):
        return strangers
    used = sum(int(row[0]) for row in _nvidia_smi("--query-gpu=memory.used") if row[0].isdigit())
    return f"{used} MiB of its memory are held, and no process owns up to them (zombies?)" if used > GPU_HELD_MB else ""


def gpu_strangers(root: int) -> str:
    """Computing processes on the first GPU that are not of that family, in words; empty when there are none."""
    before = family((root,), processes())
    rows = _nvidia_smi("--query-compute-apps=pid,process_name,used_memory")
    everybody = processes()
    strange = [row for row in rows if row[0].isdigit() and int(row[0]) in everybody]  # what has ended may have been ours
    strange = [row for row in strange if int(row[0]) not in before | family((root,), everybody)]
    return ", ".join(f"process {row[0]} ({row[1][-40:]}) with {row[2]} MiB" for row in strange if len(row) == 3)


def _nvidia_smi(query: str) -> list[list[str]]:
    """Rows of https://docs.nvidia.com/deploy/nvidia-smi/ ; none where there is no such program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    argv = [program, query, "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
