"""The facts about this machine that fitness.py judges: read from the kernel, the driver and torch. Looks only.

The part on GPUs is written from NVIDIA's documentation of nvidia-smi, which asks NVML, and has not been run on a GPU.
"""

from __future__ import annotations

import ctypes
import grp
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bot.fitness import Clock, Facts, Gpu, Torch
from runners import cgroup
from runners.local import PROJECT
from runners.processes import descendants

LOOK_SECONDS = 0.5
GPU_SECONDS, TORCH_SECONDS = 30.0, 180.0  # a driver that hangs; a cold disk
NVIDIA = "0x10de"  # https://pcisig.com/membership/member-companies
SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|APP_KEY|PRIVATE_KEY|ACCESS_KEY|WEBHOOK_URL)$|^SLACK_", re.IGNORECASE)
KEYS = (".netrc", ".git-credentials", ".config/gh/hosts.yml", ".aws/credentials", ".ssh/id_*", ".huggingface/token",
        ".cache/huggingface/token", ".docker/config.json", ".kube/config")  # fmt: skip
# What is told of torch by a process of its own: the driver may hang, and two seconds of import are not ours.
ASK_TORCH = """import json, torch
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda or "", "sees": torch.cuda.device_count()}))"""
UNSYNC = 0x40  # STA_UNSYNC of adjtimex(2), in its status
TIMEX_WORDS, TIMEX_BYTES = 6, 512  # modes, offset, frequency, maxerror, esterror, status; the structure has 208 bytes


def look(names: Iterable[str], home: Path) -> Facts:
    """This machine now; takes LOOK_SECONDS and an import of torch. `names` are those of its variables, never their values."""
    before, shares = _apart(), busy()
    kept, error = _kept()
    return Facts(
        gpus=_gpus(), card=_card(), torch=_torch(), pinned=_pinned(),
        clock=Clock(kept=kept, error=error, jump=_apart() - before), groups=bool(cgroup.delegated()), busy=shares,
        names=tuple(sorted(filter(SECRET.search, names))) + tuple(_files(home)), root=os.getuid() == 0, member=tuple(_member()),
    )  # fmt: skip


def _gpus() -> tuple[Gpu, ...] | str:
    """The GPUs that the driver lists, or why it does not."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "there is no nvidia-smi"
    try:
        cards = _ask(program, "--query-gpu=uuid,name,driver_version,memory.total,memory.used")
        running = _ask(program, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory")
    except (OSError, subprocess.SubprocessError) as error:
        return f"nvidia-smi does not answer: {error}"
    ours = {str(pid) for pid in (os.getpid(), *descendants(os.getpid()))}
    found = []
    for uuid, name, driver, total, used in cards:
        others = [_words(row) for row in running if row[0] == uuid and row[1] not in ours]
        found.append(Gpu(name=name, driver=driver, total=_mib(total), used=_mib(used), others=tuple(others)))
    return tuple(found)


def _words(row: list[str]) -> str:
    """A name may have commas. Only the program's own is told, without folders and arguments: it may stand on a public issue."""
    program = ",".join(row[2:-1]).split(" ")[0].rpartition("/")[2]
    return f"process {row[1]} ({program[-40:]}) with {_mib(row[-1])} MiB"


def _ask(program: str, query: str) -> list[list[str]]:
    """Rows of https://docs.nvidia.com/deploy/nvidia-smi/. Raises SubprocessError."""
    argv = [program, query, "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GPU_SECONDS, check=False)
    if done.returncode:
        raise subprocess.SubprocessError((done.stderr or done.stdout).strip()[:200] or f"exit status {done.returncode}")
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if "," in line]


def _mib(word: str) -> int:
    """0 for what the driver does not tell, such as [N/A]."""
    return int(word) if word.isdecimal() else 0


def _card() -> bool:
    """Whether the bus has a display or compute device of NVIDIA's, whatever the driver says."""
    for folder in Path("/sys/bus/pci/devices").glob("*"):
        with suppress(OSError):
            if (folder / "vendor").read_text().strip() == NVIDIA and (folder / "class").read_text().startswith("0x03"):
                return True
    return False


def _torch() -> Torch | str:
    argv = [sys.executable, "-c", ASK_TORCH]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TORCH_SECONDS, check=False, cwd="/")
        return Torch(**json.loads(done.stdout.strip().splitlines()[-1]))
    except (OSError, subprocess.SubprocessError) as error:
        return f"torch does not answer: {error}"
    except (IndexError, ValueError, TypeError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return f"torch does not answer: {said[:200]}"


def _pinned() -> str:
    with suppress(OSError):
        if found := re.search(r"^torch==(\S+)$", (PROJECT / "requirements.lock").read_text("utf-8"), re.MULTILINE):
            return found[1]
    return ""


def _apart() -> float:
    """Seconds between the wall clock and the steady one; only its change means something."""
    return time.time() - time.monotonic()


def _kept() -> tuple[bool | None, float]:
    """Whether the kernel's clock is kept to the right time, and by how many seconds it may be wrong: adjtimex(2), looking only.

    The structure begins with one int, then longs, then the status, all in slots of a long.
    """
    room = (ctypes.c_long * (TIMEX_BYTES // ctypes.sizeof(ctypes.c_long)))()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(room))
    except (OSError, AttributeError):
        return None, 0.0
    if state < 0:
        return None, 0.0
    _, _, _, largest, _, status = room[:TIMEX_WORDS]
    return not status & UNSYNC, largest / 1e6


def busy() -> dict[int, float]:
    """Share of LOOK_SECONDS in which each core that we may use did something."""
    before = _ticks()
    time.sleep(LOOK_SECONDS)
    after = _ticks()
    shares = {}
    for core in sorted(os.sched_getaffinity(0)):
        idle, total = (b - a for a, b in zip(before.get(core, (0, 0)), after.get(core, (0, 1)), strict=True))
        shares[core] = 1 - idle / total if total > 0 else 0.0
    return shares


def _ticks() -> dict[int, tuple[int, int]]:
    """Core -> (idle, all) clock ticks so far: the lines cpu0, cpu1 ... of proc(5) stat; idle and iowait are fields 4 and 5."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdecimal():
            ticks = [int(number) for number in numbers[:8]]
            found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
    return found


def _files(home: Path) -> list[str]:
    """Files of keys in the user's home."""
    found = [path for pattern in KEYS for path in home.glob(pattern) if path.suffix != ".pub"]
    return [f"~/{path.relative_to(home)}" for path in found]


def _member() -> list[str]:
    names = []
    for number in {os.getgid(), *os.getgroups()}:
        with suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return sorted(names)
