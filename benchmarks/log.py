"""What the log costs as it grows: appending event 10 and event 10,000, and reading all of them. Real git, one process.

    python benchmarks/log.py            # 10,000 appends, some minutes -> benchmarks/results/log.json
    python benchmarks/log.py --quick    # 1,000, on the screen only

Goals: an append at the end costs about what it costs at the start; 10,000 events are read in under 1.5 s. The last WINDOW
appends take turns with as many to a new log, because what else the machine does would drown a comparison made minutes apart.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _record import write

from bot import git
from bot.events import Event, Measured
from bot.log import GitLog, Position

WINDOW = 100


def event(n: int) -> Event:
    """About as long as a real one, with the judge's record in it."""
    result = {"fingerprint": "cpu 0123456789abcdef torch austen", "seed": n, "log_tail": f"step {n} " * 30, "steps": 300 + n}
    return Measured(campaign="1", at=1.7e9 + n, n=n, run=f"1-{n}-1", outcome="ok", val_bpb=2.2, reason="", result=result)


def append(log: GitLog, position: Position) -> tuple[float, Position]:
    """Seconds of one append, and the new end."""
    start = time.perf_counter()
    end = log.append(event(position.count), position)
    return time.perf_counter() - start, end


def fill(log: GitLog, events: int) -> Position:
    """That many events, one append each."""
    position = Position()
    for n in range(events):
        _, position = append(log, position)
        if n % 500 == 499:
            print(f"\r{n + 1}", end="", file=sys.stderr, flush=True)
    return position


def in_turns(new: GitLog, old: GitLog, end: Position) -> tuple[list[float], list[float]]:
    """Seconds of WINDOW appends to a new log and to an old one that ends at `end`."""
    young, late, start = [], [], Position()
    for _ in range(WINDOW):
        seconds, start = append(new, start)
        young.append(seconds)
        seconds, end = append(old, end)
        late.append(seconds)
    return young, late


def read(log: GitLog, expected: int) -> float:
    """Seconds of reading everything, the best of three."""
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        events, _end = log.read()
        spent.append(time.perf_counter() - start)
        assert len(events) == expected
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 events, nothing written")
    events = 1_000 if parser.parse_args().quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        repo = git.init_bare(Path(folder) / "log.git", "main")
        log = GitLog(repo)
        young, late = in_turns(GitLog(git.init_bare(Path(folder) / "new.git", "main")), log, fill(log, events - WINDOW))
        size = sum(path.stat().st_blocks * 512 for path in repo.path.rglob("*") if path.is_file())
        loose = read(log, events)
        repo.tidy()
        packed = read(log, events)
        tidy = sum(path.stat().st_blocks * 512 for path in repo.path.rglob("*") if path.is_file())
    figures = {
        "append_first_ms": round(statistics.median(young) * 1000, 1),
        "append_last_ms": round(statistics.median(late) * 1000, 1),
        "read_all_seconds": round(loose, 2),
        "read_all_tidied_seconds": round(packed, 2),
        "disk_mb": round(size / 1e6, 1),
        "disk_tidied_mb": round(tidy / 1e6, 1),
        "window": WINDOW,
    }
    print(f"\r{events} events: {figures}")
    if events == 10_000:
        write("log", "python benchmarks/log.py", figures, n=events)


if __name__ == "__main__":
    main()
