"""Runs a small hostile program in each kind of sandbox that this machine can make, and hands back what it printed.

An attack is written so that it cannot harm the machine where a defence fails: it opens and does not write, it stops after so
many attempts, it asks for limits that are small.
"""

from __future__ import annotations

import os
import select
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runners.sandbox import Box, Confinement, Limits, Program, kinds

PROJECT = Path(__file__).resolve().parents[2]
FEW = Limits(memory=2 * 2**30, file=2**20, tmp=2**22, processes=64)
HELD = Confinement(limits=FEW)
HERE = [name for name, why in kinds().items() if not why]
BOTH = pytest.mark.parametrize("kind", HERE or [pytest.param("", marks=pytest.mark.skip(reason=f"no sandbox here: {kinds()}"))])
BUBBLEWRAP = pytest.mark.skipif("bubblewrap" not in HERE, reason=f"no bubblewrap here: {kinds()['bubblewrap']}")
LANDLOCK = pytest.mark.skipif("landlock" not in HERE, reason=f"no Landlock here: {kinds()['landlock']}")
ROOT = pytest.mark.skipif(os.getuid() != 0, reason="a user of its own can only be given by root")


@dataclass(frozen=True)
class Seen:
    """What the program printed, its exit status, and what it was ended for ("" when it was not)."""

    text: str
    status: int
    why: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def start(tmp_path: Path, source: str, how: Confinement = HELD, *, fds: tuple[int, ...] = ()) -> Box:
    tmp_path.joinpath("hostile.py").write_text(textwrap.dedent(source))
    return Box(Program(script=tmp_path / "hostile.py", fds=fds), how)


def attack(tmp_path: Path, kind: str, source: str, how: Confinement = HELD, *, fds: tuple[int, ...] = ()) -> Seen:
    """Run it until it ends. `kind` may be "none": without any sandbox."""
    how = replace(how, boxed=False) if kind == "none" else replace(how, kind=kind)
    box = start(tmp_path, source, how, fds=fds)
    try:
        assert box.ended(30), "still running"
        os.set_blocking(box.output, True)
        text = b""
        while select.select([box.output], [], [], 2.0)[0] and (chunk := os.read(box.output, 65536)):
            text += chunk
        return Seen(text.decode(errors="replace"), box.kill(), box.why_killed)
    finally:
        box.close()


def running(marker: str) -> list[int]:
    """Processes of this machine that have the marker on their command line, this one and zombies left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether it comes true in that time."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True

