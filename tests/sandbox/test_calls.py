"""The filter of kernel calls: each line of its tables read by a small BPF machine, and a good many tried for real."""

import errno
import os
import platform
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import BOTH, HELD, LANDLOCK, attack

from runners import seccomp

MACHINES = sorted(seccomp.AUDIT_ARCH)
# What trainings and their libraries use: must stay open. name: (x86_64, aarch64)
NEEDED = {
    "read": (0, 63), "write": (1, 64), "mmap": (9, 222), "sched_getaffinity": (204, 123), "futex": (202, 98),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "execve": (59, 221), "wait4": (61, 260),
    "setrlimit": (160, 164), "openat": (257, 56), "exit": (60, 93),
    "pipe2": (293, 59), "getrandom": (318, 278), "mbind": (237, 235), "setuid": (105, 146), "rseq": (334, 293),
    "fcntl": (72, 25), "clock_gettime": (228, 113), "madvise": (28, 233), "statx": (332, 291),
}  # fmt: skip


def verdict(program: bytes, number: int, *arguments: int, machine: str = "x86_64") -> int:
    """Run a classic BPF program over one struct seccomp_data: https://www.kernel.org/doc/Documentation/networking/filter.txt."""
    data = struct.pack("<IIQ6Q", number, seccomp.AUDIT_ARCH.get(machine, 0x40000003), 0, *(*arguments, *[0] * 6)[:6])
    lines = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, if_true, if_false, k = lines[at]
        at += 1
        if code == seccomp.RETURN:
            return int(k)
        if code == seccomp.LOAD:
            value = struct.unpack_from("<I", data, k)[0]
        elif code == seccomp.AND:
            value &= k
        else:
            true = {seccomp.JUMP_EQUAL: value == k, seccomp.JUMP_LEAST: value >= k, seccomp.JUMP_BITS: bool(value & k)}[code]
            at += if_true if true else if_false


def refused(number: int = errno.EPERM) -> int:
    return seccomp.REFUSE | number


@pytest.mark.parametrize("machine", MACHINES)
def test_each_listed_call_is_refused_and_each_needed_one_is_not(machine: str) -> None:
    """On both architectures, in each of the three strengths."""
    column = list(seccomp.AUDIT_ARCH).index(machine)
    tables = [({}, seccomp.ALWAYS), ({"shared": True}, seccomp.SHARED), ({"shared": True, "same_user": True}, seccomp.SAME_USER)]
    for strength, table in tables:
        program = seccomp.filter_for(machine=machine, **strength)
        assert len(program) // 8 < 4096  # BPF_MAXINSNS
        for pair in table.values():
            assert pair[column] is None or verdict(program, pair[column], machine=machine) == refused()
        for pair in NEEDED.values():
            assert verdict(program, pair[column], machine=machine) == seccomp.ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_of_a_foreign_architecture_kills(machine: str) -> None:
    """Its numbers mean other calls: 32-bit programs, and the x32 numbers of x86."""
    program = seccomp.filter_for(machine=machine)
    assert verdict(program, 0, machine="i386") == seccomp.KILL
    assert verdict(program, 0, machine=next(other for other in MACHINES if other != machine)) == seccomp.KILL
    if machine == "x86_64":
        assert verdict(program, seccomp.X32 | 1) == seccomp.KILL


# number on x86_64, arguments, what the filter says
BY_ARGUMENT = [
    (41, (socket.AF_UNIX,), seccomp.ALLOW), (41, (socket.AF_INET,), refused()), (41, (socket.AF_INET6,), refused()),
    (41, (socket.AF_NETLINK,), refused()), (41, (socket.AF_VSOCK,), refused()), (41, (2**32 + socket.AF_INET,), refused()),
    (53, (socket.AF_UNIX, 5), seccomp.ALLOW), (53, (30, 5), refused()),
    (56, (0x3D0F00,), seccomp.ALLOW), (56, (0x11,), seccomp.ALLOW), (56, (0x10000011,), refused()), (56, (0x20000,), refused()),
    (435, (), refused(errno.ENOSYS)), (319, (0, 3), seccomp.ALLOW), (319, (0, 4), refused()), (319, (0, 0x7C000004), refused()),
    (135, (0xFFFFFFFF,), seccomp.ALLOW), (135, (0,), seccomp.ALLOW), (135, (0x40000,), refused()),
    (16, (0, 0x5401), seccomp.ALLOW), (16, (0, 0x5412), refused()), (16, (0, 0x541C), refused()),
    (302, (0,), seccomp.ALLOW), (302, (7,), refused()), (157, (38,), seccomp.ALLOW), (157, (4,), refused()),
]  # fmt: skip


@pytest.mark.parametrize(("number", "arguments", "wanted"), BY_ARGUMENT)
def test_some_calls_depend_on_their_arguments(number: int, arguments: tuple[int, ...], wanted: int) -> None:
    """Unix sockets, plain threads and sealed memory files pass; other families, namespaces and huge pages do not."""
    assert verdict(seccomp.filter_for(machine="x86_64"), number, *arguments) == wanted


def test_without_namespaces_only_connected_pairs_are_left() -> None:
    """No socket of one's own, and no pair of datagrams, which could be aimed at others."""
    program = seccomp.filter_for(shared=True, machine="x86_64")
    assert verdict(program, 41, socket.AF_UNIX, 1) == refused()
    kinds = {kind: verdict(program, 53, 1, kind | 0x80000) for kind in (1, 2, 3, 5)}
    assert kinds == {1: seccomp.ALLOW, 2: refused(), 3: refused(), 5: seccomp.ALLOW}


def test_an_unknown_machine_has_no_filter() -> None:
    """And so no sandbox; the reason says which machines have one."""
    with pytest.raises(seccomp.Unsupported, match="riscv64, only for x86_64 and aarch64"):
        seccomp.filter_for(machine="riscv64")


# Arguments that do nothing even where the call is allowed: null pointers, bad files, flags that do not exist.
TRIED = {
    "ptrace": (99,), "process_vm_readv": (1, 0, 0, 0, 0, 0), "keyctl": (99,), "bpf": (99, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 99), "userfaultfd": (99,), "io_uring_setup": (0, 0), "unshare": (0,), "setns": (-1, 0),
    "shmget": (0, 0, 0), "semget": (0, -1, 0),
    "open_by_handle_at": (-1, 0, 0), "pidfd_getfd": (-1, -1, 0), "kcmp": (0, 0, 99, 0, 0), "process_madvise": (-1, 0, 0, 0, 0),
    "memfd_secret": (99,), "mq_open": (0, 0, 0, 0), "open_tree": (-1, 0, 0), "add_key": (0, 0, 0, 0, 0),
}  # fmt: skip
TRY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, (number, arguments) in {calls!r}.items():
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in arguments))
    print(name, ctypes.get_errno() if done == -1 else 0)
"""


@BOTH
def test_real_calls_are_refused(tmp_path: Path, kind: str) -> None:
    """Each says "not permitted" with the filter, and something else (or worked) without it."""
    column = list(seccomp.AUDIT_ARCH).index(platform.machine())
    source = TRY.format(calls={name: (seccomp.ALWAYS[name][column], arguments) for name, arguments in TRIED.items()})
    said = [line.split() for line in attack(tmp_path, kind, source).lines]
    assert [name for name, number in said if int(number) != errno.EPERM] == []
    assert len(said) == len(TRIED)
    free = dict(line.split() for line in attack(tmp_path, kind, source, replace(HELD, filtered=False)).lines)
    assert [name for name, number in free.items() if int(number) == errno.EPERM and name != "perf_event_open"] == []


@BOTH
def test_no_namespace_can_be_made(tmp_path: Path, kind: str) -> None:
    """A user namespace would give back every capability: neither by unshare, nor by clone; threads and processes still start."""
    source = """
    import ctypes, os, subprocess, sys, threading
    libc = ctypes.CDLL(None, use_errno=True)
    print(libc.unshare(0x10000000), ctypes.get_errno())
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    made = libc.syscall(ctypes.c_long(number), ctypes.c_long(0x10000000 | 17), *[ctypes.c_long(0)] * 4)
    if made == 0: os._exit(0)
    print(made, ctypes.get_errno())
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    print(subprocess.run([sys.executable, "-c", "print('process')"], capture_output=True, text=True).stdout.strip())
    """
    assert attack(tmp_path, kind, source).lines == ["-1 1", "-1 1", "thread", "process"]


@LANDLOCK
@pytest.mark.parametrize("second_user", [True, False])
def test_no_signal_reaches_anybody_outside(tmp_path: Path, second_user: bool) -> None:
    """Not the judge, whose process can be seen by its number, nor the parent that will end it (signal 0 only asks)."""
    source = f"""
    import os
    for pid in ({os.getpid()}, os.getppid()):
        try: os.kill(pid, 0); print(pid)
        except OSError: pass
    print("done")
    """
    assert attack(tmp_path, "landlock", source, replace(HELD, second_user=second_user)).lines == ["done"]
    assert len(attack(tmp_path, "none", source).lines) >= 2
