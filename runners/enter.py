"""The step between us and a sandboxed program, itself a program: `python -I -S enter.py ORDERS`, standard library only.

It puts itself under limits, CPUs and control groups that all its children inherit, and becomes the program (bubblewrap, or
Python where there is no sandbox). Without bubblewrap it builds the last walls itself, in a child, and stays as the parent of
whoever loses theirs, so that it can end them all: when the child ends, on SIGTERM, and when our process dies.
ORDERS is JSON, written by sandbox.py.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

TYPE_CHECKING = False  # typing, pathlib and contextlib take longer to import than all of this takes to run
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# <linux/prctl.h>, <linux/capability.h>, <linux/securebits.h>
PDEATHSIG, KEEPCAPS, SECCOMP, CAPBSET_DROP, SECUREBITS, SUBREAPER, NO_NEW_PRIVS, AMBIENT = 1, 8, 22, 24, 28, 36, 38, 47
CAPABILITIES, READ_SEARCH = 64, 2
NO_ROOT = 0b11  # root has no privileges by its number, and cannot change that
CAPSET = {"x86_64": 126, "aarch64": 91}
LANDLOCK_RESTRICT = 446
KILLED = 128 + signal.SIGKILL


def main() -> None:
    orders = json.loads(sys.argv[1])
    prctl = _prctl()
    prctl(PDEATHSIG, signal.SIGTERM if orders["reap"] else signal.SIGKILL)
    if os.getppid() != orders["parent"]:
        os._exit(KILLED)
    for group in orders["groups"]:
        with open(f"{group}/cgroup.procs", "w") as file:  # noqa: PTH123
            file.write("0")
    if orders["cpus"]:
        os.sched_setaffinity(0, orders["cpus"])
    _offer()
    if orders["reap"]:
        sys.exit(_reap(orders, prctl))
    _limit(orders["limits"])
    os.execv(orders["argv"][0], orders["argv"])  # noqa: S606 - there is no shell, which is meant


def _offer() -> None:
    """When the machine has no memory left, it is this that goes."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("1000")
    except OSError:
        pass


def _kill(pid: int) -> None:
    try:  # noqa: SIM105
        os.kill(pid, signal.SIGKILL)
    except OSError:  # it is gone, or -1 found nobody
        pass


def _prctl() -> Callable[..., int]:
    import ctypes

    def call(option: int, *values: int) -> int:
        return int(libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])))

    libc = ctypes.CDLL(None, use_errno=True)
    return call


def _limit(limits: dict[str, int]) -> None:
    for name, most in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


class Over(Exception):
    """We are to end."""


def _reap(orders: dict[str, Any], prctl: Callable[..., int]) -> int:
    """Run the program in a child with walls. Its exit status, when it and all that it started are gone."""

    def over(*_: object) -> None:
        raise Over

    prctl(SUBREAPER, 1)
    signal.signal(signal.SIGTERM, over)
    status = KILLED
    try:
        child = os.fork()
        if child == 0:
            _become(orders, prctl)
        os.closerange(3, 65536)  # or what the program closes would seem open
        while (ended := os.wait())[0] != child:
            pass
        code = os.waitstatus_to_exitcode(ended[1])
        status = code if code >= 0 else 128 - code
    except Over:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_all(orders["user"])
    if os.getppid() != orders["parent"]:  # who would have cleared up is gone
        import shutil

        shutil.rmtree(orders["tmp"], ignore_errors=True)
    return status


def _end_all(user: int | None) -> None:
    """Kill what is left. All at once where it is the only one of its user; else from the parents down, until none is left."""
    if user is not None and (helper := os.fork()) == 0:
        os.setgid(user)
        os.setuid(user)
        _kill(-1)
        os._exit(0)
    me = os.getpid()
    try:
        while True:
            with open(f"/proc/self/task/{me}/children") as file:  # noqa: PTH123
                ours = [int(word) for word in file.read().split()]
            for pid in ours:
                if user is None or pid != helper:
                    _kill(pid)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.0005)
    except ChildProcessError:  # nobody is left
        return


def _become(orders: dict[str, Any], prctl: Callable[..., int]) -> None:
    """In the child: nothing more than a wall at a time, then the program."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(orders["tmp"])
        _limit(orders["limits"])
        _drop_privileges(orders["user"], orders["search"], prctl)
        prctl(PDEATHSIG, signal.SIGKILL)  # lost with the change of user
        prctl(NO_NEW_PRIVS, 1)
        _restrict(orders["rules"], bytes.fromhex(orders["filter"]))
        os.execv(orders["argv"][0], orders["argv"])  # noqa: S606
    except OSError as error:
        print(f"the sandbox could not be made: {error}", file=sys.stderr)
    finally:
        os._exit(126)


def _drop_privileges(user: int | None, search: bool, prctl: Callable[..., int]) -> None:
    """Become that user, with no capability, but for the one to reach files that Landlock allows and the user does not."""
    import ctypes

    keep = 1 << READ_SEARCH if user is not None and search else 0
    for capability in range(CAPABILITIES):
        if not keep & (1 << capability):
            prctl(CAPBSET_DROP, capability)  # fails without privileges, when there are none to drop
    prctl(SECUREBITS, NO_ROOT)
    if user is not None:
        prctl(KEEPCAPS, 1)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)(keep, keep, keep, 0, 0, 0)
    _call(CAPSET[os.uname().machine], header, sets)
    if keep:
        prctl(AMBIENT, 2, READ_SEARCH)


def _restrict(rules: int, calls: bytes) -> None:
    import ctypes

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    _call(LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)
    if calls:
        program = Filter(len(calls) // 8, calls)
        libc = ctypes.CDLL(None, use_errno=True)
        mode = ctypes.c_ulong(2)  # SECCOMP_MODE_FILTER
        if libc.prctl(SECCOMP, mode, ctypes.byref(program), ctypes.c_ulong(0), ctypes.c_ulong(0)):
            raise OSError(ctypes.get_errno(), "no filter of kernel calls")


def _call(number: int, *arguments: object) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
