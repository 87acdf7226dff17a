"""What a sandbox is asked for: the program, and how it is held. Plain values; how each is enforced is sandbox.py's to say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# All of the environment that a program finds. A home and a folder for temporary files of its own come from its sandbox.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "USER": "sandbox", "LANG": "C.UTF-8", "OMP_WAIT_POLICY": "passive"}


class SandboxError(Exception):
    """The sandbox could not be made; says what to do."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bytes, and counts. `memory` holds for the sum of all processes, memory files included; None is no limit."""

    memory: int | None = 12 * 2**30  # also the address space of each process, but not with a GPU
    file: int = 2**30  # one file, hence also one checkpoint
    tmp: int = 2**30  # /tmp; /dev/shm as much again
    processes: int = 512  # threads count
    handles: int = 1024  # open files of one process


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run: python on `script`, which is all of the project that it can see, with `arguments` and open files `fds`."""

    script: Path
    arguments: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """How to hold it. `hide` are folders that must stay invisible even where a folder that it needs contains them.

    `kind` is "bubblewrap" or "landlock"; empty is the best that this machine has. `groups` are control groups in which we may
    make some of our own (one folder for version 2; for version 1 one of each controller); None is those delegated to us.
    `filtered`, `watched` and `second_user` are off only in the tests that show what these defences are for.
    """

    boxed: bool = True
    gpu: bool = False
    cpus: frozenset[int] = frozenset()
    limits: Limits = Limits()
    hide: tuple[Path, ...] = ()
    kind: str = ""
    groups: tuple[Path, ...] | None = None
    filtered: bool = True
    watched: bool = True
    second_user: bool = True
