"""Write a results file: what was measured, by which command, on which commit and machine, when. Not a benchmark itself."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def commit() -> str:
    """The commit these figures belong to, "+changes" when the checkout has some."""
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "before the first commit"


def write(name: str, command: str, figures: Mapping[str, object], *, n: int) -> Path:
    """benchmarks/results/<name>.json with its head; `n` is how many measurements the figures stand on."""
    head = {
        "command": command,
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "n": n,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head | dict(figures), indent=1) + "\n")
    print(path)
    return path
