"""THE sandbox, tried from the inside: each test runs a small hostile program in it and looks at what it could do."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from runners import sandbox
from runners.sandbox import Box, Confinement, Limits, Program, available

PROJECT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(available() is not None, reason=f"no sandbox here: {available()}")
FEW = Limits(memory=2 * 2**30, file=2**20, tmp=2**22)


def inside(tmp_path: Path, source: str, how: Confinement = Confinement(limits=FEW)) -> str:  # noqa: B008 - frozen
    """What a program prints in the sandbox until it ends."""
    script = tmp_path / "hostile.py"
    script.write_text(textwrap.dedent(source))
    box = Box(Program(script=script), how)
    try:
        assert box.ended(20), "still running"
        os.set_blocking(box.output, True)
        text = b""
        while chunk := os.read(box.output, 65536):
            text += chunk
        return text.decode()
    finally:
        box.close()


def running(marker: str) -> list[int]:
    """Processes of this machine that have the marker on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def gone(marker: str, seconds: float = 2.0) -> bool:
    until = time.monotonic() + seconds
    while running(marker) and time.monotonic() < until:
        time.sleep(0.02)
    return not running(marker)


def test_there_is_no_network(tmp_path: Path) -> None:
    """Not to the world, and not to a server on this machine."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = f"""
        import socket
        for address in (("1.1.1.1", 53), ("127.0.0.1", {port})):
            try:
                socket.create_connection(address, timeout=2); print("connected")
            except OSError as error:
                print("refused")
        """
        assert inside(tmp_path, source).split() == ["refused", "refused"]


def test_nothing_is_inherited_from_the_environment(tmp_path: Path) -> None:
    """Only the allow-list is there, whatever we have."""
    source = "import json, os; print(json.dumps(dict(os.environ)))"
    assert set(json.loads(inside(tmp_path, source))) <= {*sandbox.ENVIRONMENT, "PWD", "LC_CTYPE", "OLDPWD", "SHLVL", "_"}


def test_the_machine_is_not_to_be_seen(tmp_path: Path) -> None:
    """Neither this project, nor home folders, nor other files of the folder that the script came from, nor other processes."""
    (tmp_path / "heldout.bin").write_text("secret")
    source = f"""
    import os
    for path in ({str(PROJECT / "evaluator")!r}, {str(PROJECT / "pyproject.toml")!r}, {str(tmp_path)!r}, "/etc/passwd",
                 "/etc/shadow", "/home", "/var", "/run", "/sys"):
        if os.path.exists(path): print(path)
    print(sorted(os.listdir("/job")), len([name for name in os.listdir("/proc") if name.isdigit()]))
    """
    assert inside(tmp_path, source).splitlines() == ["['hostile.py'] 2"]


def test_what_must_stay_hidden_is_hidden_even_inside_a_bound_folder(tmp_path: Path) -> None:
    """The project may be installed into the environment that the sandbox shows; its data is covered then."""
    import numpy

    folder = Path(numpy.__file__).parent
    source = f"import os; print(os.listdir({str(folder)!r}))"
    assert "random" in inside(tmp_path, source)
    assert inside(tmp_path, source, Confinement(limits=FEW, hide=(folder,))).strip() == "[]"


def test_nothing_can_be_written_but_a_little_in_tmp(tmp_path: Path) -> None:
    """The root, the packages, /dev and the script are read-only; /tmp and /dev/shm end at their size; so does one file."""
    source = f"""
    import os, sys
    for path in ("/x", "/dev/x", "/job/x", "/usr/x", sys.prefix + "/x", "/proc/sys/x"):
        try:
            open(path, "w"); print("made", path)
        except OSError:
            pass
    for folder in ("/tmp", "/dev/shm"):
        written = 0
        try:
            for number in range(100):
                with open(f"{{folder}}/{{number}}", "wb") as file:
                    written += file.write(bytes(2**19))
        except OSError as error:
            print(folder, error.strerror, written <= {FEW.tmp})
    try:
        os.truncate(os.open("/tmp/0", os.O_RDWR), 2**21); print("grew")
    except OSError as error:
        print(error.strerror)
    """
    full = "No space left on device True"
    assert inside(tmp_path, source).splitlines() == [f"/tmp {full}", f"/dev/shm {full}", "File too large"]


def test_no_setting_of_the_kernel_can_be_changed(tmp_path: Path) -> None:
    """No file outside its own process opens for writing: not the script, and above all nothing of /proc/sys, also as root."""
    source = """
    import os, stat, sys
    own = ["/tmp", "/dev/shm", "/usr", sys.prefix, sys.base_prefix, "/proc/pressure"]
    own += [f"/proc/{n}" for n in os.listdir("/proc") if n.isdigit()]
    for top, folders, files in os.walk("/"):
        if top in own: folders.clear(); continue
        for path in (os.path.join(top, name) for name in files):
            try:
                if stat.S_ISREG(os.lstat(path).st_mode): os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); print(path)
            except OSError:
                pass
    print(os.path.exists("/proc/sys/kernel/core_pattern"))
    """
    assert inside(tmp_path, source).splitlines() == ["True"]


def test_memory_is_limited(tmp_path: Path) -> None:
    """An allocation beyond the limit fails inside, as a MemoryError."""
    source = """
    try:
        bytearray(3 * 2**30); print("got it")
    except MemoryError:
        print("refused")
    """
    assert inside(tmp_path, source).strip() == "refused"


def test_there_are_no_capabilities(tmp_path: Path) -> None:
    """Not even those of root inside its own namespace."""
    source = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapBnd'))))"
    assert set(inside(tmp_path, source).split()) == {"0" * 16}


def test_it_starts_on_the_cpus_that_it_was_given(tmp_path: Path) -> None:
    """The set is inherited by all that it starts."""
    last = max(os.sched_getaffinity(0))
    source = "import os; print(os.sched_getaffinity(0))"
    assert inside(tmp_path, source, Confinement(cpus=frozenset({last}), limits=FEW)).strip() == str({last})


ESCAPES = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
subprocess.Popen([sys.executable, "-c", code, "{marker}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", code, "{marker}"])
    os._exit(0)
print("up", flush=True)
time.sleep(300)
"""


def test_killing_the_box_kills_every_descendant(tmp_path: Path) -> None:
    """Daemons, double forks, ignored SIGTERM: gone within a second, all of them."""
    marker = f"marker-{os.getpid()}-kill"
    script = tmp_path / "hostile.py"
    script.write_text(ESCAPES.format(marker=marker))
    box = Box(Program(script=script), Confinement(limits=FEW))
    assert select.select([box.output], [], [], 20)[0]
    until = time.monotonic() + 10
    while len(running(marker)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(running(marker)) >= 2
    begun = time.monotonic()
    box.kill()
    assert time.monotonic() - begun < 1
    assert running(marker) == []
    box.close()


@pytest.mark.parametrize("boxed", [True, False])
def test_it_dies_with_the_process_that_started_it(tmp_path: Path, boxed: bool) -> None:
    """A supervisor killed with -9 leaves nothing running, sandboxed or not."""
    marker = f"marker-{os.getpid()}-{boxed}"
    script = tmp_path / "hostile.py"
    script.write_text("import time; time.sleep(300)")
    code = f"""
import sys, time
sys.path.insert(0, {str(PROJECT)!r})
from pathlib import Path
from runners.sandbox import *
box = Box(Program(script=Path({str(script)!r}), arguments=({marker!r},)), Confinement(boxed={boxed}))
print("up", flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        time.sleep(0.3)
        assert [pid for pid in running(marker) if pid != parent.pid]
        parent.send_signal(signal.SIGKILL)
    assert gone(marker)


def test_cpu_time_of_children_counts(tmp_path: Path) -> None:
    """What a candidate computes in a child process is on its account."""
    script = tmp_path / "hostile.py"
    script.write_text(
        "import os, time\npid = os.fork()\nif pid == 0:\n    while time.process_time() < 0.4: pass\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\nprint('done', flush=True)\ntime.sleep(300)\n"
    )
    box = Box(Program(script=script), Confinement(limits=FEW))
    assert select.select([box.output], [], [], 20)[0]
    assert box.cpu_seconds() >= 0.38
    assert box.peak_memory_mb() > 3
    box.close()


def test_why_there_is_no_sandbox_is_said_with_what_to_do(tmp_path: Path) -> None:
    """A bubblewrap that fails is reported in its own words and with the setting that helps."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from runners.sandbox import available; print(available())"
    done = subprocess.run([sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert "No permissions to create new namespace" in done.stdout
    assert "unprivileged_userns_clone" in done.stdout
