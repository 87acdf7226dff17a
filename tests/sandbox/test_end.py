"""The end of a box: everything that it started is gone, whatever it did to stay."""

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import BOTH, HELD, LANDLOCK, PROJECT, running, start, within

from runners.sandbox import kinds

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
{then}
"""
STAYS, LEAVES = "time.sleep(300)", "time.sleep(0.3)"
HOPS = """
import os, sys, time
print("up", flush=True)
until = time.monotonic() + 20  # it stops by itself
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < until:
        if os.fork(): os._exit(0)
time.sleep(300)
"""


def up(tmp_path: Path, kind: str, source: str, *, second_user: bool = True):
    box = start(tmp_path, source, replace(HELD, kind=kind, second_user=second_user))
    assert select.select([box.output], [], [], 20)[0]
    assert os.read(box.output, 100) == b"up\n"
    return box


@BOTH
@pytest.mark.parametrize("second_user", [True, False] if os.getuid() == 0 else [False])
def test_killing_the_box_kills_every_descendant(tmp_path: Path, kind: str, second_user: bool) -> None:
    """Daemons, double forks, ignored SIGTERM: gone within a second, all of them."""
    marker = f"marker-{os.getpid()}-kill"
    box = up(tmp_path, kind, ESCAPES.format(marker=marker, then=STAYS), second_user=second_user)
    assert within(10, lambda: len(running(marker)) == 2)
    begun = time.monotonic()
    box.kill()
    assert time.monotonic() - begun < 1
    assert running(marker) == []
    box.close()


@BOTH
def test_the_end_of_the_program_is_the_end_of_what_it_started(tmp_path: Path, kind: str) -> None:
    """A program that ends by itself and leaves a daemon behind leaves nothing behind; without a sandbox it does."""
    marker = f"marker-{os.getpid()}-end"
    box = up(tmp_path, kind, ESCAPES.format(marker=marker, then=LEAVES))
    assert box.ended(10)
    assert running(marker) == []
    box.close()


def test_without_a_sandbox_a_daemon_outlives_its_box(tmp_path: Path) -> None:
    """So the tests above can fail: here the process that left its group is still there."""
    marker = f"marker-{os.getpid()}-none"
    box = start(tmp_path, ESCAPES.format(marker=marker, then=LEAVES), replace(HELD, boxed=False))
    assert box.ended(10)
    box.close()
    left = running(marker)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 2


@LANDLOCK
@pytest.mark.parametrize("second_user", [True, False] if os.getuid() == 0 else [False])
def test_a_process_that_always_moves_on_is_caught(tmp_path: Path, second_user: bool) -> None:
    """It forks and leaves, again and again, so that its number is never the one that was looked up; it is ended all the same."""
    box = up(tmp_path, "landlock", HOPS, second_user=second_user)
    time.sleep(0.2)
    begun = time.monotonic()
    box.kill()
    assert time.monotonic() - begun < 4
    assert running(str(tmp_path / "hostile.py")) == []
    box.close()


@pytest.mark.parametrize("kind", [*(name for name, why in kinds().items() if not why), "none"])
def test_it_dies_with_the_process_that_started_it(tmp_path: Path, kind: str) -> None:
    """A supervisor killed with -9 leaves nothing running, sandboxed or not."""
    marker = f"marker-{os.getpid()}-{kind}"
    daemons = ESCAPES.format(marker=marker, then=STAYS)
    (tmp_path / "hostile.py").write_text("import time; time.sleep(300)" if kind == "none" else daemons)
    how = "boxed=False" if kind == "none" else f"kind={kind!r}"
    code = f"""
import sys, time
sys.path.insert(0, {str(PROJECT)!r})
from pathlib import Path
from runners.sandbox import *
box = Box(Program(script=Path({str(tmp_path / "hostile.py")!r}), arguments=({marker!r},)), Confinement({how}))
print(box._tmp, flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().decode().strip())
        assert within(10, lambda: len([pid for pid in running(marker) if pid != parent.pid]) >= (1 if kind == "none" else 4))
        parent.send_signal(signal.SIGKILL)
    assert within(2.0, lambda: not running(marker))
    assert kind == "none" or within(2.0, lambda: not folder.is_dir())  # unsandboxed, nobody is left who knows of it
    if kind == "none":
        folder.rmdir()


@BOTH
def test_cpu_time_of_children_counts(tmp_path: Path, kind: str) -> None:
    """What a candidate computes in a child process, also one of a thread, is on its account."""
    source = """
    import os, threading, time
    def child():
        if (pid := os.fork()) == 0:
            while time.process_time() < 0.4: pass
            print("up", flush=True)
            time.sleep(300)
        os.waitpid(pid, 0)
    threading.Thread(target=child).start()
    """
    box = up(tmp_path, kind, source)
    assert box.cpu_seconds() >= 0.38
    assert box.peak_memory_mb() > 3
    box.close()


@BOTH
def test_its_folder_goes_with_it(tmp_path: Path, kind: str) -> None:
    """What it wrote into /tmp, files without any permission included, is not on this machine afterwards."""
    marker = f"left-{os.getpid()}-{kind}"
    source = f"import os, tempfile; os.makedirs(tempfile.gettempdir() + '/{marker}/x', mode=0o500); print('up', flush=True)"
    box = up(tmp_path, kind, source)
    box.close()
    assert not list(Path("/tmp").glob(f"*/{marker}"))
    assert not list(Path("/tmp").glob(marker))
