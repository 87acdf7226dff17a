"""Which kernel calls a sandboxed program may make: a list of refusals, assembled into a classic BPF program.

Refused (EPERM) is what no training needs and what an escape is made of: widening the CPU set, mounts and namespaces, looking
into other processes, keys, BPF, io_uring (whose calls no filter sees), modules, clocks, System V memory (which outlives its
process and counts for nobody), sockets of any family but AF_UNIX, limits of other processes. Everything else is allowed: the
filter stands behind the namespaces, or behind Landlock, and is not the only wall. A call of a foreign architecture or of the
x32 ABI kills the process, for its numbers mean other things.

Format: https://docs.kernel.org/userspace-api/seccomp_filter.html; numbers: arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h (aarch64) of Linux 6.18. A call that came later is not refused.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000  # <linux/seccomp.h>; a refusal carries its errno
LOAD, JUMP_EQUAL, JUMP_LEAST, JUMP_BITS, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06  # <linux/bpf_common.h>
NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; both architectures are little-endian
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>
X32 = 0x40000000
NEW_NAMESPACES = 0x7E020080  # all CLONE_NEW* of <linux/sched.h>
SEALING_ONLY = 0xFFFFFFFF & ~(1 | 2 | 8 | 16)  # memfd_create: no huge pages, which no memory limit counts
SET_DUMPABLE = 4  # <linux/prctl.h>
TERMINAL = (0x5412, 0x541C)  # ioctl TIOCSTI, TIOCLINUX: typing into the terminal of whoever started us

# name: (x86_64, aarch64); None where the architecture has no such call
Calls = dict[str, tuple[int | None, int | None]]
ALWAYS: Calls = {
    "sched_setaffinity": (203, 122), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "swapon": (167, 224), "swapoff": (168, 225),
    "unshare": (272, 97), "setns": (308, 268), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "syslog": (103, 116), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "vhangup": (153, 58),
    "fanotify_init": (300, 262), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "memfd_secret": (447, 447),
}  # fmt: skip
# Without a process and network namespace of its own: other programs' sockets, and their priorities.
SHARED: Calls = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
}  # fmt: skip
# Without a user of its own as well: signals, and what Landlock does not rule, the owner and mode of files.
SAME_USER: Calls = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip


class Unsupported(Exception):
    """There is no list of calls for this architecture."""


def filter_for(*, shared: bool = False, same_user: bool = False, machine: str = "") -> bytes:
    """The BPF program, 8 bytes an instruction. `shared`: the program has no namespaces; `same_user`: nor a user of its own."""
    machine = machine or platform.machine()
    if machine not in AUDIT_ARCH:
        raise Unsupported(f"no filter of kernel calls for {machine}, only for {' and '.join(AUDIT_ARCH)}")
    column = list(AUDIT_ARCH).index(machine)
    refused = ALWAYS | (SHARED if shared else {}) | (SAME_USER if same_user else {})
    lines = [_line(LOAD, ARCH), _line(JUMP_EQUAL, AUDIT_ARCH[machine], 1, 0), _line(RETURN, KILL), _line(LOAD, NUMBER)]
    if machine == "x86_64":
        lines += [_line(JUMP_LEAST, X32, 0, 1), _line(RETURN, KILL)]
    for pair in refused.values():
        if (number := pair[column]) is not None:
            lines += [_line(JUMP_EQUAL, number, 0, 1), _refuse()]
    lines += _by_argument(column, shared)
    return b"".join([*lines, _line(RETURN, ALLOW)])


def _by_argument(column: int, shared: bool) -> list[bytes]:
    """Calls that are refused for some values only. The low halves are compared: these arguments are ints."""
    number = {
        "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "memfd_create": (319, 279),
        "personality": (135, 92), "ioctl": (16, 29), "prlimit64": (302, 261), "prctl": (157, 167),
    }  # fmt: skip
    unix = [_line(JUMP_EQUAL, socket.AF_UNIX, 1, 0), _refuse()]
    # A pair of datagram sockets can still be pointed at somebody else's; one with a connection cannot.
    connected = [_line(AND, 0xF), _line(JUMP_EQUAL, socket.SOCK_STREAM, 2, 0), _line(JUMP_EQUAL, socket.SOCK_SEQPACKET, 1, 0)]
    rules = [
        ("clone", 0, [_line(JUMP_BITS, NEW_NAMESPACES, 0, 1), _refuse()]),
        # Its flags are in memory, where no filter looks; the C library then falls back to clone.
        ("clone3", 0, [_refuse(errno.ENOSYS)]),
        ("socket", 0, unix),
        ("socketpair", 0, unix),
        *([("socketpair", 1, [*connected, _refuse()])] if shared else []),
        ("memfd_create", 1, [_line(JUMP_BITS, SEALING_ONLY, 0, 1), _refuse()]),
        ("personality", 0, [_line(JUMP_EQUAL, 0xFFFFFFFF, 2, 0), _line(JUMP_EQUAL, 0, 1, 0), _refuse()]),
        *(("ioctl", 1, [_line(JUMP_EQUAL, command, 0, 1), _refuse()]) for command in TERMINAL),
        ("prlimit64", 0, [_line(JUMP_EQUAL, 0, 1, 0), _refuse()]),  # 0 is the caller itself
        ("prctl", 0, [_line(JUMP_EQUAL, SET_DUMPABLE, 0, 1), _refuse()]),  # or it could hide its files from the watch
    ]
    lines = []
    for name, argument, test in rules:
        # Not this call: over the argument, the test and the number that is loaded again.
        lines += [_line(JUMP_EQUAL, number[name][column], 0, len(test) + 2), _line(LOAD, ARGUMENTS + 8 * argument), *test]
        lines.append(_line(LOAD, NUMBER))
    return lines


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """struct sock_filter of <linux/filter.h>."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _line(RETURN, REFUSE | number)
