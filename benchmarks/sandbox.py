"""How long a sandbox takes to start: from the decision to the first line of a Python program in it, each kind in turn.

    python benchmarks/sandbox.py            # about half a minute -> benchmarks/results/sandbox.json
    python benchmarks/sandbox.py --quick    # a few seconds, on the screen only

The same program without a sandbox, interleaved, is the zero: Python itself takes 10 to 20 ms to start. Also the time until a
box is gone with all that it started.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _record import write

from runners.sandbox import Box, Confinement, Program, kinds

SOURCE = "import os, time\nos.write(1, b'up')\ntime.sleep(60)\n"


def plain(script: Path) -> tuple[float, float]:
    """Seconds until it is up, and until it is gone, of the bare program."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-I", "-B", str(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(2)
        up = time.perf_counter()
        process.kill()
    return up - begun, time.perf_counter() - up


def boxed(script: Path, kind: str) -> tuple[float, float]:
    """The same in a sandbox."""
    begun = time.perf_counter()
    box = Box(Program(script=script), Confinement(kind=kind))
    if not select.select([box.output], [], [], 60)[0] or os.read(box.output, 100) != b"up":
        raise SystemExit(f"{kind}: the program did not start")
    up = time.perf_counter()
    box.kill()
    gone = time.perf_counter()
    box.close()
    return up - begun, gone - up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="five of each, nothing is written")
    parser.add_argument("--starts", type=int, default=20, help="how many of each (default: %(default)s)")
    asked = parser.parse_args()
    starts = 5 if asked.quick else asked.starts
    names = ["none", *(kind for kind, why in kinds().items() if not why)]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "up.py"
        script.write_text(SOURCE)
        Path(folder).chmod(0o755)
        for _ in range(starts):
            for name in names:
                times[name].append(plain(script) if name == "none" else boxed(script, name))
    zero = statistics.median(up for up, _ in times["none"])
    figures: dict[str, object] = {}
    for name in names:
        up, gone = (statistics.median(column) for column in zip(*times[name], strict=True))
        least = min(first for first, _ in times[name])
        figures[name] = {"start_seconds": up, "least_start_seconds": least, "over_plain_seconds": up - zero, "end_seconds": gone}
        more = f"{1000 * (up - zero):.0f} more than plain"
        print(f"{name:11} start {up * 1000:.0f} ms (least {least * 1000:.0f}), {more}; end {gone * 1000:.0f} ms")
    print(f"medians of {starts}; other load when it began: {load:.1f}")
    if not asked.quick:
        write("sandbox", f"python benchmarks/sandbox.py --starts {starts}", figures | {"load_before": load}, n=starts)


if __name__ == "__main__":
    main()
