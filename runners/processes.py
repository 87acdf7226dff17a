"""What /proc says of a process and of all that it started, and a watch that ends those that take too much together.

The watch is for machines where no control group is ours: Linux limits the memory of one process, but not the sum of many, nor
a memory file that nobody has mapped. It looks five times a second, so it is late by what can be written in that time (some
hundred MiB), and it does not see a memory file that is only under way in a socket (`Limits.handles` bounds these). A look at
a process with torch takes 0.5 ms of CPU time, and 2 ms more once a second.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

TICK = 0.2  # seconds
MAPS = 5  # every so many looks also at what is mapped, which takes longest
PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Calls `kill`, once, when `pid` and its descendants have more than `memory` bytes or `processes` threads; before that it
    has said `why`, in words, and of what (`excess`: "memory", "processes" or "files").

    `tmp` is a folder of theirs with no size of its own, and what it may hold. `kill` runs in another thread.
    """

    def __init__(
        self, pid: int, kill: Callable[[], None], *, memory: int | None, processes: int, tmp: tuple[Path, int] | None = None
    ) -> None:
        self.excess = self.why = ""
        self._pid, self._kill, self._memory, self._processes, self._tmp = pid, kill, memory, processes, tmp
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"watch-{pid}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Nothing is looked at, nor killed, any more when this returns."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        for look in itertools.count(1):
            if self._over.wait(TICK):
                return
            if found := self._too_much(look % MAPS == 0):
                self.excess, self.why = found
                self._kill()
                return

    def _too_much(self, thorough: bool) -> tuple[str, str] | None:
        pids = [self._pid, *descendants(self._pid)]
        if (count := sum(len(threads(pid)) for pid in pids)) > self._processes:
            return "processes", f"{count} processes and threads, {self._processes} are allowed"
        # What several share since a fork is first counted for each, which is quick, and exactly only when that is too much.
        loose = _loose(pids, thorough) if self._memory is not None else 0
        suspicious = self._memory is not None and sum(map(_resident, pids)) + loose > self._memory
        if self._memory is not None and suspicious and (used := sum(map(_private, pids)) + loose) > self._memory:
            return "memory", f"{used >> 20} MiB of memory, {self._memory >> 20} are allowed"
        if self._tmp and (used := stored(self._tmp[0])) > self._tmp[1]:
            return "files", f"{used >> 20} MiB of temporary files, {self._tmp[1] >> 20} are allowed"
        return None


def descendants(pid: int) -> Iterator[int]:
    """All that it started and whoever they started, as far as their parents live (or a reaper does)."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    """A child belongs to the thread that started it: https://man7.org/linux/man-pages/man5/proc_tid_children.5.html."""
    found: list[int] = []
    for thread in threads(pid):
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def threads(pid: int) -> list[int]:
    return [int(name) for name in listed(f"/proc/{pid}/task")]


def threads_of(uid: int) -> int:
    """What counts against RLIMIT_NPROC of this user already."""
    count = 0
    for name in filter(str.isdigit, listed("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{name}").stat().st_uid == uid:
                count += len(threads(int(name)))
    return count


def users() -> set[int]:
    """Who runs anything at all."""
    found = set()
    for name in listed("/proc"):
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{name}").st_uid)  # noqa: PTH116 - ten times as fast
    return found


def cpu_seconds(pid: int) -> float:
    """Own and waited-for children's time: fields 14 to 17 of proc(5) stat."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """VmHWM of proc(5) status, which is in KiB."""
    return _kib(f"/proc/{pid}/status", "VmHWM:") / 1024


def listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - several times as fast, and the watch calls it all the time
    except OSError:
        return []


def stored(folder: Path) -> int:
    """Bytes on disk below a folder; what is linked twice counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for top, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                entry = Path(top, name).lstat()
                sizes[entry.st_dev, entry.st_ino] = entry.st_blocks * 512
    return sum(sizes.values())


def _resident(pid: int) -> int:
    """Memory of its own, bytes, pages shared with its parent since a fork included: proc(5) statm."""
    with contextlib.suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        return (resident - shared) * PAGE
    return 0


def _private(pid: int) -> int:
    """Memory of its own, bytes, a page of several in equal parts: https://docs.kernel.org/filesystems/proc.html."""
    rollup = f"/proc/{pid}/smaps_rollup"
    return 1024 * (_kib(rollup, "Pss_Anon:") + _kib(rollup, "SwapPss:"))


def _loose(pids: list[int], thorough: bool) -> int:
    """Bytes in memory files and deleted files that any of them has open (thorough: or mapped): each once."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        for name in listed(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                entry = Path(f"/proc/{pid}/fd/{name}").stat()
                if entry.st_nlink == 0 and entry.st_blocks:
                    sizes[entry.st_dev, entry.st_ino] = entry.st_blocks * 512
    for pid in pids if thorough else []:
        for key, size in _mapped(pid).items():
            sizes.setdefault(key, size)
    return sum(sizes.values())


def _mapped(pid: int) -> dict[tuple[int, int], int]:
    """Deleted files that it has mapped shared, with the bytes mapped, an upper bound: proc(5) maps."""
    found: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        for line in text.splitlines() if " (deleted)" in text else []:
            if line.endswith(" (deleted)"):
                span, mode, _, device, inode, *_ = line.split(maxsplit=5)
                low, high = (int(address, 16) for address in span.split("-"))
                major, minor = (int(part, 16) for part in device.split(":"))
                key = os.makedev(major, minor), int(inode)
                found[key] = found.get(key, 0) + (high - low if mode.endswith("s") else 0)
    return found


def _kib(path: str, label: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) for line in lines if line.startswith(label)), default=0)
