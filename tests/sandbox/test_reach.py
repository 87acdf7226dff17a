"""What a sandboxed program can see and touch of this machine: files, processes, environment, open files, the network."""

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import BOTH, BUBBLEWRAP, HELD, LANDLOCK, PROJECT, attack, start

from runners.sandbox import ENVIRONMENT

# Each path is opened, never written; what opens is printed.
OPENS = """
import os
for path, flags in {paths}:
    try:
        os.close(os.open(path, flags)); print(path)
    except OSError:
        pass
"""
READ, WRITE = os.O_RDONLY, os.O_WRONLY


def opened(tmp_path: Path, kind: str, paths: list[str], flags: int = READ) -> list[str]:
    return attack(tmp_path, kind, OPENS.format(paths=[(path, flags) for path in paths])).lines


@BOTH
def test_nothing_is_inherited_from_the_environment(tmp_path: Path, kind: str) -> None:
    """Only the allow-list is there, whatever we have."""
    seen = set(json.loads(attack(tmp_path, kind, "import json, os; print(json.dumps(dict(os.environ)))").text))
    assert seen <= {*ENVIRONMENT, "PWD", "LC_CTYPE", "OLDPWD", "SHLVL", "_", "TMPDIR"}
    assert "PATH" in seen


@BOTH
def test_the_files_of_this_machine_cannot_be_read(tmp_path: Path, kind: str) -> None:
    """Not the project, the cache beside the script, another user's file, nor passwords; without a sandbox each one opens."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "val.bin").write_text("held out")
    (cache / "closed.bin").write_text("held out")
    (cache / "closed.bin").chmod(0o600)
    ours = [PROJECT / "pyproject.toml", PROJECT / "evaluator" / "gate.py", cache / "val.bin", cache / "closed.bin", cache]
    paths = [*map(str, ours), "/etc/passwd", "/etc/hostname", f"/proc/{os.getpid()}/environ", f"/proc/{os.getpid()}/maps"]
    assert opened(tmp_path, kind, paths) == []
    assert set(map(str, ours)) <= set(opened(tmp_path, "none", paths))


@BOTH
def test_no_other_process_can_be_looked_into(tmp_path: Path, kind: str) -> None:
    """With namespaces there are two, the filter holds the first as well (with a user of its own it is closed, too)."""
    source = """
    import os
    try:
        print(os.getpid(), *(name for name in os.listdir("/proc") if name.isdigit()))
        print(*(line.split()[1] for line in open("/proc/1/status") if line.startswith("Seccomp:")))
    except OSError: print("closed")
    try: open("/proc/1/mem", "rb"); print("open")
    except OSError: pass
    """
    two = ["2 1 2", "2"] if os.getuid() == 0 else ["2 1 2", "2", "open"]
    assert attack(tmp_path, kind, source).lines == (two if kind == "bubblewrap" else ["closed"])


@BOTH
def test_nothing_outside_its_own_folder_can_be_written(tmp_path: Path, kind: str) -> None:
    """Not the packages, the system, the script, devices, or settings of the kernel; in its own folder it can."""
    packages = Path(json.__file__)
    paths = [str(packages), os.__file__, "/usr/bin/env", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory",
             "/proc/sysrq-trigger", str(tmp_path / "hostile.py"), "/job/hostile.py"]  # fmt: skip
    assert opened(tmp_path, kind, paths, WRITE) == []
    assert opened(tmp_path, "none", [str(packages)], WRITE) or not os.access(packages, os.W_OK)
    new = [f"{folder}/made-by-a-test" for folder in (sys.prefix, str(packages.parent), "/usr", "/dev", "/", "/proc/sys", "/job")]
    assert opened(tmp_path, kind, new, WRITE | os.O_CREAT) == []
    assert attack(tmp_path, kind, "import tempfile; tempfile.TemporaryFile().write(b'x'); print('made')").lines == ["made"]


@BOTH
def test_no_file_of_the_whole_tree_opens_for_writing(tmp_path: Path, kind: str) -> None:
    """The walk finds none but its own process's, also as root, and above all nothing of /proc/sys."""
    source = """
    import os, stat, sys
    own = [os.environ["HOME"], "/tmp", "/dev/shm", "/usr", sys.prefix, sys.base_prefix, "/proc/pressure"]
    try: own += [f"/proc/{n}" for n in os.listdir("/proc") if n.isdigit()]
    except OSError: pass
    for top, folders, files in os.walk("/"):
        if top in own: folders.clear(); continue
        for path in (os.path.join(top, name) for name in files):
            try:
                if stat.S_ISREG(os.lstat(path).st_mode): os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); print(path)
            except OSError:
                pass
    print("done")
    """
    assert attack(tmp_path, kind, source).lines == ["done"]


@BUBBLEWRAP
def test_the_rest_of_the_machine_is_not_even_there(tmp_path: Path) -> None:
    """With namespaces there are no names to look up, and no processes but its own."""
    source = f"""
    import os
    for path in ({str(PROJECT / "evaluator")!r}, {str(tmp_path)!r}, "/etc/passwd", "/etc/shadow", "/home", "/var", "/sys"):
        if os.path.exists(path): print(path)
    print(sorted(os.listdir("/job")), len([name for name in os.listdir("/proc") if name.isdigit()]))
    """
    assert attack(tmp_path, "bubblewrap", source).lines == ["['hostile.py'] 2"]


@BOTH
def test_what_must_stay_hidden_is_hidden_even_inside_a_bound_folder(tmp_path: Path, kind: str) -> None:
    """The project may be installed into the environment that the sandbox shows; its data is covered then."""
    folder = next(path for path in (Path(root, "email") for root in sys.path) if path.is_dir())
    source = OPENS.format(paths=[(str(folder / "__init__.py"), READ), (json.__file__, READ)])
    assert attack(tmp_path, kind, source).lines == [str(folder / "__init__.py"), json.__file__]
    assert attack(tmp_path, kind, source, replace(HELD, hide=(folder,))).lines == [json.__file__]


@BOTH
def test_no_open_file_of_ours_is_inherited(tmp_path: Path, kind: str) -> None:
    """Not even one that was made inheritable; one that is handed over is there."""
    secret = os.memfd_create("secret", 0)
    os.set_inheritable(secret, True)
    source = """
    import os
    for fd in range(300):
        try: print(fd, os.readlink(f"/proc/self/fd/{fd}") if os.path.exists("/proc/self/fd/0") else os.fstat(fd).st_size)
        except OSError: pass
    """
    assert [line.split()[0] for line in attack(tmp_path, kind, source).lines] == ["0", "1", "2"]
    assert str(secret) in [line.split()[0] for line in attack(tmp_path, kind, source, fds=(secret,)).lines]
    os.close(secret)


@BOTH
def test_a_file_that_it_closes_is_closed(tmp_path: Path, kind: str) -> None:
    """Nobody between us and the program keeps a copy: we see the end of the line while the program is still there."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            source = f"import os, time; os.close({theirs.fileno()}); time.sleep(60)"
            box = start(tmp_path, source, replace(HELD, kind=kind), fds=(theirs.fileno(),))
        ours.settimeout(20)
        assert ours.recv(1) == b""
        assert not box.ended(0.0)
        box.close()


CALLS_OUT = """
import socket
attempts = {{
    "tcp": lambda: socket.create_connection(("127.0.0.1", {tcp}), timeout=2),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"udp", ("127.0.0.1", {udp})),
    "world": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 53)),
    "path": lambda: socket.socket(socket.AF_UNIX).connect({path!r}),
    "abstract": lambda: socket.socket(socket.AF_UNIX).connect("\\0" + {abstract!r}),
    "pair": lambda: [s.sendto(b"pair", "\\0" + {abstract!r} + "-d") for s in socket.socketpair(type=socket.SOCK_DGRAM)],
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
}}
for name, attempt in attempts.items():
    try:
        attempt(); print(name)
    except OSError:
        pass
"""


@BOTH
def test_nobody_can_be_called(tmp_path: Path, kind: str) -> None:
    """Not by TCP, UDP or a Unix socket, named, abstract or a re-aimed pair; each server hears the attack without a sandbox."""
    name = f"attack-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as path, socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):  # fmt: skip
        udp.bind(("127.0.0.1", 0))
        path.bind(str(tmp_path / "socket"))
        (tmp_path / "socket").chmod(0o777)
        abstract.bind("\0" + name)
        datagrams.bind("\0" + name + "-d")
        path.listen(8)
        abstract.listen(8)
        source = CALLS_OUT.format(
            tcp=tcp.getsockname()[1], udp=udp.getsockname()[1], path=str(tmp_path / "socket"), abstract=name
        )
        udp.setblocking(False)
        assert attack(tmp_path, kind, source).lines == []
        with pytest.raises(BlockingIOError):
            udp.recv(10)
        assert {"tcp", "udp", "path", "abstract", "pair"} <= set(attack(tmp_path, "none", source).lines)
        assert udp.recv(10) == b"udp"


@LANDLOCK
def test_without_a_user_of_its_own_it_cannot_change_who_may_read_our_files(tmp_path: Path) -> None:
    """Landlock does not rule chmod, the filter does: a file of the same user keeps its mode; without the filter it does not."""
    ours = tmp_path / "ours"
    source = f"import os\ntry: os.chmod({str(ours)!r}, 0o666); print('changed')\nexcept OSError as error: print(error.errno)"
    for filtered, said, mode in ((True, "1", 0o600), (False, "changed", 0o666)):
        ours.write_text("secret")
        ours.chmod(0o600)
        how = replace(HELD, second_user=False, filtered=filtered)
        assert attack(tmp_path, "landlock", source, how).lines == [said]
        assert ours.stat().st_mode & 0o777 == mode


@BOTH
def test_there_are_no_capabilities(tmp_path: Path, kind: str) -> None:
    """None can be used, none be gained; but for reading what Landlock shows below a closed home, where that is needed."""
    source = """
    import ctypes, os
    sets, header = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 2)(0x20080522, 0)
    ctypes.CDLL(None).syscall({"x86_64": 125, "aarch64": 90}[os.uname().machine], header, sets)
    print(sets[0] | sets[3] << 32, sets[1] | sets[4] << 32, ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))
    """
    effective, permitted, no_new = map(int, attack(tmp_path, kind, source).text.split())
    assert (effective, permitted) in ({(0, 0)} if kind == "bubblewrap" else {(0, 0), (4, 4)})
    assert no_new == 1
