"""`autoresearch` inside a workflow that act runs: the real command line, scripted measurements, no pauses between requests.

As in `python -m tests.acted settle --run 1.1-0.1 --result result.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from bot.__main__ import main, this_machine
from bot.forge.rest import Pace
from runners.scripted import ScriptedRunner
from tests.laptop import WELL
from tests.worlds import Knobs, Luck


def better(source: str) -> float:
    """One knob helps once, the one that the seed below draws first; the others do harm."""
    levels = [int(line.split()[2]) for line in source.splitlines()]
    return 2.0 - 0.2 * min(levels[3], 1) + 0.1 * (sum(levels) - min(levels[3], 1))


if __name__ == "__main__":
    real = this_machine()
    sys.exit(main(sys.argv[1:], replace(
        real, runners={"local": lambda home, cache: ScriptedRunner(Luck(better))}, proposers={"mutate": Knobs()}, seed=lambda: 7,
        prepare=lambda corpus, cache, tell: None, look=lambda: WELL, torch=lambda: None,
        sandbox=lambda: None, platform=lambda: replace(real.platform(), pace=Pace(requests=0, writes=0)),
    )))  # fmt: skip
