"""THE sandbox: a program that we do not trust runs here, and nowhere else. Linux. Of two kinds; see `kind()`.

"bubblewrap", covered: no network; a read-only root that holds the system's programs, Python with its packages and the files
named by the caller, nothing else of this machine; no inherited environment or open file; its own process, mount, network and
IPC namespaces, so that killing the box kills every descendant, daemonised or not; started by root a user of its own (others
get a user namespace); /tmp and /dev/shm of a fixed size; address space and open files of a process, size of a file, core
dumps; the sum of memory and processes; a set of CPUs that cannot be widened; no kernel calls beyond training's needs
(seccomp.py); death with the process that started it; first to go when the machine has no memory left.

"landlock", where namespaces are closed: the same limits and filter, files by Landlock, a user of its own when we are root,
/tmp is a folder of its own on the disk. Weaker: no process namespace, so descendants are found by a parent that adopts
orphans (enter.py), which ends with them all at once only with a user of its own; names, sizes and owners of files everywhere
can be looked up, not their content; /tmp is measured five times a second instead of having a size; no /dev/shm; no network and
no socket but a connected pair, by the filter and not by a namespace; without a user of its own also no signals and no chmod.

The sum of memory and the number of processes are held by a control group where one is ours (cgroup.py), else by a watch five
times a second (processes.py): a burst passes for that long. The number of processes is bound by the kernel as well, except
for root without a user of its own.

Not covered: holes in the kernel, in bubblewrap and in the GPU driver; heat, caches and memory bandwidth as a channel between
two boxes. The GPU part (device nodes, /sys) is written from NVIDIA's documentation and has not been run on a GPU; nor have
control groups been run on a machine that delegates one.

Unboxed (`boxed=False`) only the environment, the limits, the CPUs and the killing of the process group remain.
This module knows nothing of candidates, clocks or scores.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from runners import bubblewrap, cgroup, landlock, seccomp
from runners.bubblewrap import bwrap
from runners.confinement import ENVIRONMENT, Confinement, Limits, Program, SandboxError
from runners.processes import Watch, children, cpu_seconds, descendants, listed, peak_mb, threads_of, users

__all__ = ["ENVIRONMENT", "Box", "Confinement", "Limits", "Program", "SandboxError", "available", "bwrap", "kind", "kinds"]

ENTER = Path(__file__).with_name("enter.py")
USERS = range(61184, 65520)  # what systemd, too, takes for users that exist only while they run
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
READ = ("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu", "/proc/cpuinfo",
        "/proc/meminfo", "/proc/filesystems", "/proc/sys/vm/overcommit_memory")  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@cache
def kinds() -> dict[str, str]:
    """Every kind of sandbox there is, best first, with why this machine cannot have it; "" when it can."""
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(("bubblewrap", "landlock"), f"there is no sandbox on {sys.platform}, only on Linux")
    try:
        seccomp.filter_for()
    except seccomp.Unsupported as error:
        return dict.fromkeys(("bubblewrap", "landlock"), str(error))
    return {"bubblewrap": bubblewrap.refusal() or "", "landlock": landlock.refusal() or ""}


def kind() -> str:
    """The best kind that this machine can have: "bubblewrap", "landlock", or "" for none."""
    return next((name for name, why in kinds().items() if not why), "")


def available() -> str | None:
    """None when a sandbox can be made on this machine, else why not and what to do (costs about 50 ms, once)."""
    if kind():
        return None
    return " Also: ".join(dict.fromkeys(kinds().values()))


class Box:
    """One running program. `pid` is that of its outermost process; what it prints can be read from `output`.

    `kind` is the kind of sandbox, "" for none. Raises SandboxError.
    """

    def __init__(self, program: Program, how: Confinement) -> None:
        self.boxed = how.boxed
        self.kind = (how.kind or kind()) if how.boxed else ""
        if how.boxed and (why := kinds().get(self.kind, available() or f"there is no kind of sandbox called {self.kind!r}")):
            raise SandboxError(why)
        self._group: cgroup.Group | None = None
        self._user = _user(self.kind, how, program.script)
        self._tmp = None if self.kind == "bubblewrap" else _folder(self._user)
        self.output, write = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self._process = self._start(program, how, write)
        except OSError as error:
            self._give_back()
            raise SandboxError(f"could not start a sandbox: {error}") from None
        finally:
            os.close(write)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self._first: dict[int, int] = {}  # of the namespace: its number (ours, not the one inside) and a pidfd of it
        self._watch = self._watched(how) if how.watched and how.boxed else None

    @property
    def why_killed(self) -> str:
        """What it had too much of, in words, when it was ended for that."""
        return self._watch.why if self._watch else ""

    @property
    def excess(self) -> str:
        """The same in a word: "memory", "processes" or "files"; "" when it was not ended for any of them."""
        return self._watch.excess if self._watch else ""

    def _start(self, program: Program, how: Confinement, write: int) -> subprocess.Popen[bytes]:
        groups = cgroup.delegated() if how.groups is None else how.groups
        if groups and how.boxed:
            self._group = cgroup.Group(groups, memory=how.limits.memory, processes=how.limits.processes)
        orders: dict[str, Any] = {"parent": os.getpid(), "reap": False, "cpus": sorted(how.cpus)}
        orders["limits"] = _limits(how, self._user)
        orders["groups"] = [str(folder) for folder in self._group.folders] if self._group else []
        environment = ENVIRONMENT | dict(program.environment)
        if self._tmp:
            environment |= {"TMPDIR": str(self._tmp), "HOME": str(self._tmp)}
        with contextlib.ExitStack() as files:
            ours = self._walls(program, how, orders, files)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(ENTER), json.dumps(orders)], stdin=subprocess.DEVNULL, stdout=write,
                stderr=write, env=environment, pass_fds=(*program.fds, *ours), cwd=self._tmp or "/", process_group=0,
            )  # fmt: skip

    def _walls(self, program: Program, how: Confinement, orders: dict[str, Any], files: contextlib.ExitStack) -> tuple[int, ...]:
        """Add to the orders how this kind of box is built. The open files that this takes."""
        orders["argv"] = [*bubblewrap.PYTHON, str(program.script), *program.arguments]
        if self.kind == "bubblewrap":
            calls = os.memfd_create("calls", 0)
            files.callback(os.close, calls)
            os.pwrite(calls, seccomp.filter_for(), 0)
            walls = bubblewrap.walls(how, user=self._user, script=program.script, calls=calls if how.filtered else None)
            orders["argv"] = [*walls, *bubblewrap.PYTHON, f"/job/{program.script.name}", *program.arguments]
            return (calls,)
        if self.kind == "landlock":
            rules = landlock.rules(_reach(how, program.script, str(self._tmp)))
            files.callback(os.close, rules)
            calls_allowed = seccomp.filter_for(shared=True, same_user=self._user is None) if how.filtered else b""
            orders |= {"reap": True, "rules": rules, "filter": calls_allowed.hex(), "user": self._user, "tmp": str(self._tmp)}
            orders["search"] = self._user is not None and not _open_to_all()
            return (rules,)
        return ()

    def _watched(self, how: Confinement) -> Watch | None:
        """What no control group looks at."""
        tmp = (self._tmp, how.limits.tmp) if self._tmp else None
        if self._group and not tmp:
            return None
        memory = None if self._group else how.limits.memory
        return Watch(self.pid, self._signal, memory=memory, processes=how.limits.processes + 8, tmp=tmp)

    def _find_first(self) -> None:
        """Remember the first process inside while it can be found, that is while the outer one lives."""
        for pid in children(self.pid) if self.kind == "bubblewrap" and not self._first else []:
            with contextlib.suppress(ProcessLookupError):
                self._first[pid] = os.pidfd_open(pid)

    def pin(self, cpus: frozenset[int]) -> None:
        """Move every thread of it to these CPUs."""
        self._find_first()
        for pid in [self.pid, *descendants(self.pid)]:
            for thread in listed(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), cpus)

    def cpu_seconds(self) -> float:
        """CPU time of its processes so far, ended ones that were waited for included (grain 10 ms)."""
        return sum(cpu_seconds(pid) for pid in [self.pid, *descendants(self.pid)])

    def peak_memory_mb(self) -> float:
        """The most resident memory that any living process of it has had, MiB."""
        return max((peak_mb(pid) for pid in [self.pid, *descendants(self.pid)]), default=0.0)

    def kill(self) -> int:
        """Kill it with everything that it started; when this returns they are gone. Its exit status, negative for a signal."""
        if self._watch:
            self._watch.stop()
        self._signal()
        if not self.ended(5.0 if self._first or self.kind == "landlock" else 0.0):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        for pidfd in self._first.values():  # the outer process may end an instant before the namespace is empty
            select.select([pidfd], [], [], 2.0)
        return self._process.wait()

    def _signal(self) -> None:
        """Begin its end, without waiting for it.

        The first process of a namespace goes first: the kernel then kills the rest of it before the outer one can end.
        """
        if self._group:
            with contextlib.suppress(OSError):
                self._group.kill()
        self._find_first()
        for pidfd in self._first.values() if self._first else [self.pidfd]:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM if self.kind == "landlock" else signal.SIGKILL)

    def close(self) -> None:
        """Give back what is left of a killed box."""
        self.kill()
        for fd in (self.pidfd, *self._first.values()):
            os.close(fd)
        self._give_back()

    def _give_back(self) -> None:
        os.close(self.output)
        if self._group:
            self._group.close()
        if self._tmp:
            shutil.rmtree(self._tmp, ignore_errors=True)

    def ended(self, seconds: float) -> bool:
        """Whether it is over, waiting so long for that at most."""
        return bool(select.select([self.pidfd], [], [], seconds)[0])


def _user(kind: str, how: Confinement, script: Path) -> int | None:
    """A user of its own, one that runs nothing now; None where we cannot give it one, or it could not read the script."""
    if os.getuid() != 0 or not how.second_user or not kind or not script.stat().st_mode & 0o004:
        return None
    if kind == "bubblewrap" and not bubblewrap.changes_user():
        return None
    taken = users()
    return random.choice([user for user in USERS if user not in taken])


def _folder(user: int | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
    if user is not None:
        os.chown(folder, user, user)
    return folder


def _limits(how: Confinement, user: int | None) -> dict[str, int]:
    """By the names of Python's `resource`; processes count for all that the user has running. Linux exempts root from that."""
    limits = how.limits
    running = 0 if user is not None else threads_of(os.getuid())
    found = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits.file, "RLIMIT_NOFILE": limits.handles}
    found["RLIMIT_NPROC"] = running + limits.processes
    if limits.memory is not None and not how.gpu:
        found["RLIMIT_AS"] = limits.memory
    return found


def _reach(how: Confinement, script: Path, tmp: str) -> dict[str, int]:
    """What can be reached under Landlock, and for what."""
    hidden = [path.resolve() for path in how.hide]
    reach = dict.fromkeys((*READ, str(script)), landlock.READ)
    for root in {Path(path).resolve() for path in (*SYSTEM, sys.prefix, sys.base_prefix) if Path(path).exists()}:
        reach |= landlock.around(root, hidden)
    reach |= dict.fromkeys(DEVICES, landlock.USE)
    if how.gpu:
        reach |= dict.fromkeys(map(str, Path("/dev").glob(bubblewrap.GPU_NODES)), landlock.USE)
        reach |= dict.fromkeys(("/sys/devices", "/sys/bus/pci", "/sys/module/nvidia", "/proc/driver/nvidia"), landlock.READ)
    return reach | {tmp: landlock.WRITE}


@cache
def _open_to_all() -> bool:
    """Whether any user can get to Python: often its folder is below a closed home."""
    roots = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix, ENTER.parent)}
    return all(folder.stat().st_mode & 0o001 for root in roots for folder in (root, *root.parents))
