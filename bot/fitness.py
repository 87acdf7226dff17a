"""Whether a machine is fit to measure: facts about it in, rows for people out. Pure; reading them is bot/box.py.

A row is `ok`, `warn` (it works, but worse), `missing` (nothing can be measured without it) or `unknown` (it could not be looked
at, which is no proof of anything). Whatever is not ok says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

GUIDE = "runners/README.md"
OTHERS = "GPU, others"
BUSY = 0.25  # share of a core that others use; from there on numbers suffer
HELD_MIB = 1024  # of the GPU's memory, that nobody answers for; the driver itself holds some hundreds
DRIVERS = {"13": 580}  # the oldest driver for a CUDA: https://docs.nvidia.com/deploy/cuda-compatibility/
JUMP_SECONDS = 0.05  # between the wall clock and the steady one, while we look
AS_GOOD_AS_ROOT = ("docker", "lxd", "incus-admin", "libvirt", "disk", "sudo", "wheel", "admin")  # groups that lead to root


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that was looked at. `fix` is empty when there is nothing to do."""

    name: str
    state: str
    found: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """As the driver has it; memory in MiB. `others` are processes on it that are not ours, in words."""

    name: str
    driver: str
    total: int
    used: int
    others: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Torch:
    """What `import torch` says. `cuda` is the version that it was built for, "" for none; `sees` counts GPUs."""

    version: str
    cuda: str
    sees: int


@dataclass(frozen=True, kw_only=True)
class Clock:
    """`kept`: whether something holds it to the right time, None when nobody knows; `error`: seconds it may be wrong by, at most.

    `jump`: by how many seconds the wall clock moved against the steady one while we looked."""

    kept: bool | None
    error: float = 0.0
    jump: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One machine at one moment. A `str` in place of a value says why it could not be looked at.

    `card`: whether one of NVIDIA's is on the bus. `groups`: whether control groups are ours to divide. `names` are variables and
    files that look like secrets. `busy` is, of each core that we may use, the share of it that is in use now.
    """

    gpus: tuple[Gpu, ...] | str
    card: bool
    torch: Torch | str
    pinned: str  # torch, by the lock file; "" where there is none
    clock: Clock
    groups: bool
    busy: Mapping[int, float]
    names: tuple[str, ...]
    root: bool
    member: tuple[str, ...]  # of which groups the user is


def findings(facts: Facts, device: str) -> list[Row]:
    """What those facts mean for a machine that measures. `device` is the setting of program.md: cpu, cuda or auto."""
    return [
        *_gpu(facts, device),
        *_torch(facts, device),
        _clock(facts.clock),
        _groups(facts.groups),
        cores(facts.busy),
        _secrets(facts.names),
        _user(facts),
    ]


def unfit(rows: list[Row]) -> str:
    """Why nothing can be measured here, in words; empty when something can."""
    return ". ".join(f"{row.name}: {row.found}; {row.fix}" for row in rows if row.state == "missing")


def taken(rows: list[Row]) -> bool:
    """Whether nothing but others on the GPU makes it unfit."""
    return {row.name for row in rows if row.state == "missing"} == {OTHERS}


def _gpu(facts: Facts, device: str) -> Iterator[Row]:
    if isinstance(facts.gpus, str) or not facts.gpus:
        yield _no_gpu(facts, device)
        return
    first = facts.gpus[0]
    more = f"; {len(facts.gpus) - 1} more, which are not used" if len(facts.gpus) > 1 else ""
    free = f"{first.total - first.used} of {first.total} MiB free"
    yield Row(name="GPU", state="ok", found=f"{first.name}, driver {first.driver}, {free}{more}")
    yield _others(first, device)


def _no_gpu(facts: Facts, device: str) -> Row:
    why = facts.gpus if isinstance(facts.gpus, str) else "the driver lists none"
    if device == "cpu":
        return Row(name="GPU", state="ok", found=f"none ({why}), and none is needed: device: cpu in program.md")
    if facts.card:
        fix = f"`nvidia-smi` must work for the runner's user: install the driver, restart the machine ({GUIDE})"
        return Row(name="GPU", state="missing", found=f"a card of NVIDIA's is in this machine, but {why}", fix=fix)
    fix = f"this machine can only train on its CPU: if that is meant, set `device: cpu` in program.md; else see {GUIDE}"
    return Row(name="GPU", state="missing", found=f"there is no GPU here ({why})", fix=fix)


def _others(gpu: Gpu, device: str) -> Row:
    """Whoever else computes there is in every number, so that all runs would be void."""
    state = "warn" if device == "cpu" else "missing"
    if gpu.others:
        fix = "end them, or keep them away from this GPU: what they do there is in every number, so each run would be void"
        return Row(name=OTHERS, state=state, found="; ".join(gpu.others), fix=fix)
    if gpu.used > HELD_MIB:
        fix = "look for dead processes (`ps -el | grep Z`), or from outside of this container; else restart the machine"
        found = f"{gpu.used} MiB of its memory are held, and no process that we can see owns up to them"
        return Row(name=OTHERS, state=state, found=found, fix=fix)
    return Row(name=OTHERS, state="ok", found="nobody computes on it")


def _torch(facts: Facts, device: str) -> Iterator[Row]:
    """Installed at all is another row: whoever has not got it is told there."""
    torch, gpu = facts.torch, bool(facts.gpus) and not isinstance(facts.gpus, str) and device != "cpu"
    if isinstance(torch, str):
        yield Row(name="torch, GPU", state="unknown", found=torch, fix="`python -c 'import torch'` in this environment says more")
        return
    built = f"torch {torch.version}, " + (f"built for CUDA {torch.cuda}" if torch.cuda else "built without CUDA")
    if gpu and not torch.cuda:
        fix = "install a build with CUDA: PyPI's for Linux has it; look for another index in pip's configuration"
        yield Row(name="torch, GPU", state="missing", found=f"{built}: it cannot use the GPU", fix=fix)
    elif gpu and not torch.sees:
        least = DRIVERS.get(torch.cuda.partition(".")[0])
        new = f"{least} or newer (`nvidia-smi` shows it; {GUIDE})" if least else "new enough"
        fix = f"the driver must be {new} for CUDA {torch.cuda}: https://docs.nvidia.com/deploy/cuda-compatibility/"
        yield Row(name="torch, GPU", state="missing", found=f"{built}, sees no GPU", fix=fix)
    elif facts.pinned and torch.version.partition("+")[0] != facts.pinned:
        fix = "`python3 runners/install.py train parquet` makes the environment of the lock; two versions never compare"
        yield Row(name="torch, GPU", state="warn", found=f"{built}, while requirements.lock says {facts.pinned}", fix=fix)
    else:
        yield Row(name="torch, GPU", state="ok", found=f"{built}, sees {torch.sees} GPU{'s' * (torch.sees != 1)}")


def _clock(clock: Clock) -> Row:
    if abs(clock.jump) > JUMP_SECONDS:
        fix = "something sets it in jumps: let one time service keep it (`timedatectl`, `chronyc tracking`)"
        return Row(name="clock", state="warn", found=f"it moved by {clock.jump:+.2f} s while we looked", fix=fix)
    if clock.kept is None:
        fix = "compare `date -u` with another clock: GitHub refuses a runner whose time is minutes off"
        return Row(name="clock", state="unknown", found="this system does not say whether anything keeps it", fix=fix)
    if not clock.kept:
        fix = "run a time service: `timedatectl set-ntp true`, or chrony. GitHub refuses a runner whose time is minutes off"
        return Row(name="clock", state="warn", found="nothing keeps it to the right time", fix=fix)
    return Row(name="clock", state="ok", found=f"kept to the right time, at most {1000 * clock.error:.0f} ms off")


def _groups(ours: bool) -> Row:
    if ours:
        return Row(name="control groups", state="ok", found="delegated to us: a candidate's memory is limited by the kernel")
    fix = f"run it by a unit with `Delegate=yes`, with systemd 251 or newer and control groups of version 2 ({GUIDE})"
    found = "none is ours: a candidate's memory is looked at five times a second, and a burst passes"
    return Row(name="control groups", state="warn", found=found, fix=fix)


def cores(busy: Mapping[int, float]) -> Row:
    """The last allowed core trains the candidates, or feeds the GPU: what else runs there is in every number."""
    last = max(busy)
    found = f"{len(busy)}, busy now: " + ", ".join(f"{core}: {100 * busy[core]:.0f} %" for core in sorted(busy)[-8:])
    if len(busy) == 1:
        return Row(name="cores", state="warn", found=found, fix="the bot and its measurements share it: use two or more")
    if busy[last] > BUSY:
        fix = f"candidates train on core {last}: end what runs there (`top`), or expect noisy numbers"
        return Row(name="cores", state="warn", found=found, fix=fix)
    return Row(name="cores", state="ok", found=found)


def _secrets(names: tuple[str, ...]) -> Row:
    if not names:
        return Row(name="secrets", state="ok", found="none that we know by its name")
    fix = "take them away: this machine trains what a model wrote, and needs no key at all. Keys belong where `settle` runs"
    return Row(name="secrets", state="warn", found=f"found {', '.join(names)}", fix=fix)


def _user(facts: Facts) -> Row:
    if facts.root:
        fix = f"make a user for it that may nothing else ({GUIDE}): a hole in the sandbox would give the machine away"
        return Row(name="user", state="warn", found="root", fix=fix)
    if strong := [name for name in facts.member if name in AS_GOOD_AS_ROOT]:
        fix = f"take it out of there (`gpasswd -d USER {strong[0]}`): that is as good as being root"
        return Row(name="user", state="warn", found=f"a member of {', '.join(strong)}", fix=fix)
    return Row(name="user", state="ok", found="not root, and in no group that leads there")
