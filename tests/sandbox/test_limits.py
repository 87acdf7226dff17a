"""How much a sandboxed program can take: memory, files, processes, CPUs; and that it cannot change what it may take.

Each attack stops by itself after a bounded number of attempts, so that a defence that fails costs a second, not the machine.
"""

import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import BOTH, BUBBLEWRAP, HELD, HERE, LANDLOCK, ROOT, Seen, attack

from runners.sandbox import Confinement, Limits

LITTLE = Confinement(limits=Limits(memory=2**28, file=2**27, tmp=2**26, processes=40))
UNWATCHED = replace(LITTLE, watched=False)


@BOTH
def test_an_allocation_beyond_the_limit_fails_inside(tmp_path: Path, kind: str) -> None:
    """As a MemoryError, which an honest candidate can report; without the limit the same succeeds."""
    source = """
    import mmap
    try: bytearray(3 * 2**30); print("got it")
    except MemoryError: print("refused")
    """
    assert attack(tmp_path, kind, source).lines == ["refused"]
    untouched = source.replace("bytearray(3 * 2**30)", "mmap.mmap(-1, 3 * 2**30)")  # costs address space only
    assert attack(tmp_path, kind, untouched, replace(HELD, limits=Limits(memory=None))).lines == ["got it"]


# 768 MiB at most, in pieces that each are allowed.
MEMORY_FILES = """
import os, time
kept = []
try:
    for number in range(12):
        kept.append(os.memfd_create(f"hoard-{number}"))
        os.posix_fallocate(kept[-1], 0, 2**26)
    time.sleep(2)
    print("got it", flush=True)
except OSError as error:
    print(error.strerror)
"""
MAPPED = """
import mmap, os, time
ready, tell = os.pipe()
for number in range(12):
    fd = os.memfd_create(f"hoard-{number}")
    os.posix_fallocate(fd, 0, 2**26)
    if os.fork() == 0:
        kept = mmap.mmap(fd, 2**26)
        os.close(fd)
        os.write(tell, b"x")
        time.sleep(20)
    os.close(fd)
got = b""
while len(got) < 12: got += os.read(ready, 12)
time.sleep(2)
print("got it", flush=True)
os._exit(0)
"""
CHILDREN = """
import os, time
ready, tell = os.pipe()
for number in range(12):
    if os.fork() == 0:
        kept = bytearray(b"x") * 2**26
        os.write(tell, b"x")
        time.sleep(20)
got = b""
while len(got) < 12: got += os.read(ready, 12)
time.sleep(1)
print("got it", flush=True)
"""


@BOTH
@pytest.mark.parametrize("source", [MEMORY_FILES, MAPPED, CHILDREN], ids=["memory files", "mapped and closed", "children"])
def test_the_sum_of_memory_is_limited(tmp_path: Path, kind: str, source: str) -> None:
    """Spread over memory files or children that each keep their own limit it is ended, and said to be for its memory."""
    seen = attack(tmp_path, kind, source, LITTLE)
    assert "got it" not in seen.text
    assert abs(seen.status) in (9, 137)
    assert "MiB of memory, 256 are allowed" in seen.why


def test_unwatched_the_same_memory_can_be_had(tmp_path: Path) -> None:
    """So the test above can fail."""
    for source in (MEMORY_FILES, CHILDREN):
        assert attack(tmp_path, HERE[0], source, replace(UNWATCHED, groups=())).lines == ["got it"]


@BOTH
def test_memory_that_children_share_with_their_parent_counts_once(tmp_path: Path, kind: str) -> None:
    """An honest candidate with workers is not ended: ten processes see the same 100 MiB."""
    source = """
    import os, time
    data = bytearray(b"x") * (100 * 2**20)
    for number in range(10):
        if os.fork() == 0: time.sleep(1); os._exit(data[number] - 120)
    print({os.wait()[1] for number in range(10)})
    """
    assert attack(tmp_path, kind, source, LITTLE).lines == ["{0}"]


FILL = """
import os, tempfile
written = 0
try:
    for number in range({most}):
        with open(f"{{{folder}}}/{{number}}", "wb") as file:
            written += file.write(bytes(2**22))
    print("all of it", flush=True)
except OSError as error:
    print(error.strerror, written <= 2**26)
"""


@BUBBLEWRAP
@pytest.mark.parametrize("folder", ["'/tmp'", "'/dev/shm'"])
def test_tmp_ends_at_its_size(tmp_path: Path, folder: str) -> None:
    """3 GB into /tmp or /dev/shm: no space left, and not a byte on this machine's disk."""
    source = FILL.format(folder=folder, most=768)
    assert attack(tmp_path, "bubblewrap", source, LITTLE).lines == ["No space left on device True"]


@LANDLOCK
def test_the_folder_for_temporary_files_is_measured(tmp_path: Path) -> None:
    """Without namespaces it has no size of its own: who fills it is ended for it, also by files that are deleted at once."""
    slowly = FILL.replace("import os", "import os, time").replace("written +=", "time.sleep(0.02); written +=")
    seen = attack(tmp_path, "landlock", slowly.format(folder="tempfile.gettempdir()", most=100), LITTLE)
    assert "all of it" not in seen.text
    assert "MiB of temporary files, 64 are allowed" in seen.why
    assert attack(tmp_path, "landlock", slowly.format(folder="tempfile.gettempdir()", most=40), UNWATCHED).lines == ["all of it"]
    deleted = slowly.replace("as file:", "as file:\n            kept = os.dup(file.fileno()); os.unlink(file.name)")
    seen = attack(tmp_path, "landlock", deleted.format(folder="tempfile.gettempdir()", most=300), LITTLE)
    assert "all of it" not in seen.text
    assert seen.why


@LANDLOCK
def test_shared_memory_and_other_folders_are_closed_without_namespaces(tmp_path: Path) -> None:
    """There is nothing of a sandbox's size behind /dev/shm then, so it is refused, as are /tmp itself and /var/tmp."""
    source = """
    for folder in ("/dev/shm", "/tmp", "/var/tmp"):
        try: open(f"{folder}/made-by-a-test", "x"); print(folder)
        except OSError: pass
    """
    assert attack(tmp_path, "landlock", source).lines == []


@BOTH
def test_one_file_ends_at_its_size(tmp_path: Path, kind: str) -> None:
    """Also a memory file; so a checkpoint cannot be larger either."""
    source = """
    import os, tempfile
    for fd in (os.open(tempfile.mkstemp()[1], os.O_RDWR), os.memfd_create("x")):
        try: os.truncate(fd, 2**29); print("grew")
        except OSError as error: print(error.strerror)
    """
    assert attack(tmp_path, kind, source, LITTLE).lines == ["File too large"] * 2


# 150 attempts at most; those that are made sleep, and end with the box.
BOMB = """
import os, time
made = 0
for attempt in range(150):
    try:
        if os.fork() == 0: time.sleep(20); os._exit(0)
        made += 1
    except OSError:
        pass
print(made, flush=True)
os._exit(0)
"""


def bomb(tmp_path: Path, kind: str, how: Confinement) -> Seen:
    return attack(tmp_path, kind, textwrap.dedent(BOMB), how)


@BOTH
def test_processes_are_limited_by_the_kernel(tmp_path: Path, kind: str) -> None:
    """A fork bomb gets no further than its limit, nobody watching; as root because it is a user of its own."""
    seen = bomb(tmp_path, kind, UNWATCHED)
    assert 20 < int(seen.text) < 40


@ROOT
@BOTH
def test_processes_of_root_are_limited_by_the_watch(tmp_path: Path, kind: str) -> None:
    """Linux does not count them; the watch does, a moment later. With neither all 150 are there."""
    plain = replace(UNWATCHED, second_user=False, groups=())
    assert bomb(tmp_path, kind, plain).text.strip() == "150"
    slow = BOMB.replace("    try:\n", "    try:\n        time.sleep(0.01)\n")
    seen = attack(tmp_path, kind, slow, replace(plain, watched=True))
    assert "40 are allowed" not in seen.text
    assert "processes and threads, 48 are allowed" in seen.why


@BOTH
def test_the_cpus_cannot_be_widened(tmp_path: Path, kind: str) -> None:
    """It is on the CPUs that it was given, with all that it starts, and an attempt at more is refused."""
    last = max(os.sched_getaffinity(0))
    source = f"""
    import os, threading
    def attempt():
        for who in (0, os.getpid()):
            try: os.sched_setaffinity(who, range({os.cpu_count()}))
            except OSError as error: print(error.errno)
    attempt()
    thread = threading.Thread(target=attempt); thread.start(); thread.join()
    print(os.sched_getaffinity(0))
    """
    how = Confinement(limits=HELD.limits, cpus=frozenset({last}))
    assert attack(tmp_path, kind, source, how).lines == ["1"] * 4 + [str({last})]
    if (os.cpu_count() or 1) > 1:
        assert attack(tmp_path, kind, source, replace(how, filtered=False)).lines != [str({last})]


@BOTH
def test_no_limit_can_be_raised(tmp_path: Path, kind: str) -> None:
    """Neither its own, nor, by number, another process's."""
    source = """
    import os, resource
    for name in ("AS", "FSIZE", "NPROC", "NOFILE", "CORE"):
        limit = getattr(resource, f"RLIMIT_{name}")
        soft, hard = resource.getrlimit(limit)
        try: resource.setrlimit(limit, (hard + 1, hard + 1)); print("raised", name)
        except (OSError, ValueError): pass
        if hard == resource.RLIM_INFINITY: print("no limit for", name)
    other = os.fork()
    if other == 0: os.read(os.pipe()[0], 1)
    try: resource.prlimit(other, resource.RLIMIT_NOFILE, (8, 8)); print("another's")
    except OSError: print("done")
    try: os.kill(other, 9)
    except PermissionError: pass  # its box ends it
    """
    assert attack(tmp_path, kind, source).lines == ["done"]


@BOTH
def test_open_files_are_limited(tmp_path: Path, kind: str) -> None:
    """Or memory files without number could be under way in sockets, where nobody counts them."""
    source = """
    import os
    try:
        for number in range(2000): os.memfd_create("x")
    except OSError as error: print(error.strerror, number < 1024)
    """
    assert attack(tmp_path, kind, source).lines == ["Too many open files True"]
