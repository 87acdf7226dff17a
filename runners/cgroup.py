"""A control group for one sandbox: the sum of its memory (memory files and tmpfs included), its processes, and their end.

Used only where one is ours by right. Version 2: systemd marks a group that it has delegated (`Delegate=yes`; for instance
`systemd-run --user --scope -p Delegate=yes COMMAND`); being root is no such right, for the group we are in may be somebody
else's bookkeeping. Version 1 has no such mark: there, and in a container whose groups are all ours, the folders are named by
the caller (`Confinement.groups`).

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://systemd.io/CGROUP_DELEGATION/
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OURS = "autoresearch"  # the group that we ourselves move to: one with groups below it may hold no process
MARKS = ("user.delegate", "trusted.delegate")
VERSION_1 = {"memory.limit_in_bytes": "memory", "memory.memsw.limit_in_bytes": "memory", "pids.max": "processes"}
VERSION_2 = {"memory.max": "memory", "pids.max": "processes"}


@cache
def delegated() -> tuple[Path, ...]:
    """The folder of the group that we may divide; empty where there is none. Version 2 only."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((ROOT / line[3:].lstrip("/") for line in lines if line.startswith("0::")), None)
        for folder in (own, own.parent) if own and own.name == OURS else (own,):
            if folder and is_delegated(folder) and {"memory", "pids"} <= _words(folder / "cgroup.controllers"):
                return (folder,)
    return ()


def is_delegated(folder: Path) -> bool:
    """Whether systemd says so, and we can make groups in it."""
    for mark in MARKS:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
    return False


class Group:
    """New groups, one in each folder of `parents`. `folders` is where a process has to write itself into cgroup.procs.

    Raises OSError when they cannot be made.
    """

    def __init__(self, parents: tuple[Path, ...], *, memory: int | None, processes: int) -> None:
        name = f"sandbox-{uuid.uuid4().hex}"
        self.folders = tuple(parent / name for parent in parents)
        values = {"memory": memory, "processes": processes}
        try:
            for parent, folder in zip(parents, self.folders, strict=True):
                if (parent / "cgroup.controllers").exists():
                    _divide(parent)
                    folder.mkdir()
                    _limit(folder, VERSION_2, values)
                    _limit(folder, {"memory.swap.max": "swap", "memory.oom.group": "together"}, {"swap": 0, "together": 1})
                else:
                    folder.mkdir()
                    _limit(folder, VERSION_1, values)
        except OSError:
            self.close()
            raise

    def kill(self) -> None:
        """Everything in it, at once, where the kernel can (5.14)."""
        for folder in self.folders:
            if (folder / "cgroup.kill").exists():
                (folder / "cgroup.kill").write_text("1")

    def close(self) -> None:
        """Remove them. A group is busy for an instant after its last process."""
        for folder in self.folders:
            until = time.monotonic() + 1.0
            while folder.exists() and time.monotonic() < until:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.005)


def _divide(parent: Path) -> None:
    """Hand on its controllers; its own processes, which are ours, go one group down first."""
    if {"memory", "pids"} <= _words(parent / "cgroup.subtree_control"):
        return
    own = parent / OURS
    own.mkdir(exist_ok=True)
    for pid in (parent / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (own / "cgroup.procs").write_text(pid)
    (parent / "cgroup.subtree_control").write_text("+memory +pids")


def _limit(folder: Path, files: dict[str, str], values: dict[str, int | None] | dict[str, int]) -> None:
    """A controller that is not there limits nothing (swap accounting is often off)."""
    for name, key in files.items():
        if values[key] is not None and (folder / name).exists():
            (folder / name).write_text(str(values[key]))


def _words(path: Path) -> set[str]:
    return set(path.read_text().split())
