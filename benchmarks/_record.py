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
    """The commit these figures belong to, "+changes" when anything but results was changed since."""
    head = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return f"{head}{'+changes' if changes else ''}" if head else "before the first commit"


def _git(*asked: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *asked], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


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
