"""The walls of the sandbox where bubblewrap cannot be had: Landlock, by three kernel calls. Standard library only.

Which files can be reached at all, and no TCP port; from Linux 6.12 (version 6) no signal to a process outside and no abstract
socket either. It is not a container; sandbox.py says what is weaker.

https://docs.kernel.org/userspace-api/landlock.html; numbers: <linux/landlock.h>, the same on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path

CREATE, ADD = 444, 445
LEAST = 3  # from here on (Linux 6.2) it also rules who may cut files
SCOPES_SIGNALS = 6
MISSING = "the kernel has no Landlock of version 3 or later: Linux 6.2, built with it and booted with lsm=...,landlock"

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, DEVICES = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
MAKE = 0x3FF0 & ~(1 << 6 | 1 << 11)  # every kind of making, removing and moving, but no device nodes
WRITE = READ | WRITE_FILE | TRUNCATE | MAKE
USE = READ_FILE | WRITE_FILE | DEVICES  # a device
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICES


@cache
def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    found: int = ctypes.CDLL(None).syscall(ctypes.c_long(CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, found)


@cache
def refusal() -> str | None:
    """None when it works on this machine, else why not."""
    return None if version() >= LEAST else MISSING


def rules(allowed: Mapping[str, int]) -> int:
    """A rule set, as a file descriptor: nothing but these paths with all below them; what is not there is left out."""
    handled = (1 << (16 if version() >= 5 else 15)) - 1
    wanted = struct.pack("=QQQ", handled, 3 if version() >= 4 else 0, 3 if version() >= SCOPES_SIGNALS else 0)
    size = 24 if version() >= SCOPES_SIGNALS else 16 if version() >= 4 else 8
    ruleset = _call(CREATE, ctypes.c_char_p(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path, rights in allowed.items():
        if Path(path).exists():
            at = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights &= handled if stat.S_ISDIR(os.fstat(at).st_mode) else handled & FOR_FILES
            rule = ctypes.c_char_p(struct.pack("=Qi", rights, at))
            _call(ADD, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
            os.close(at)
    return ruleset


def around(root: Path, hidden: list[Path]) -> dict[str, int]:
    """`root` to be read, but for the hidden folders in it; their names can be listed. All paths resolved."""
    if not any(path.is_relative_to(root) for path in hidden):
        return {str(root): READ}
    reach = {str(root): READ_DIR}
    for path in root.iterdir() if root not in hidden else []:
        reach |= {} if path.is_symlink() else around(path, hidden)  # a link would open what it points at
    return reach


def _call(number: int, *arguments: object) -> int:
    done: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return done
