"""What was measured of the code that a proposer is to change, in a few lines: `facts(x)`. Pure.

All of it is numbers of the judge's record (runners.Measurement); from the log of the run only numbers are taken, so nothing that
the code prints reaches a model as words. Not here: what the numbers mean for the next idea.
"""

from __future__ import annotations

import math
import re

from bot.report import amount, mean, measured
from bot.report.quoting import one_line
from bot.state import Candidate

POINTS = 6  # of the loss curve
NUMBER = r"\b(step|loss) (-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)(?=\s|$)"


def facts(x: Candidate, metric: str = "val_bpb") -> str:
    """Speed, size, memory, times and the end of the loss curve of the last run of `x`; empty before it has one."""
    if not x.result:
        return ""
    found = (_score(x, metric), _speed(x), _size(x), _times(x), _loss(str(x.result.get("log_tail", ""))))
    return "\n".join(f"- {line}" for line in found if line)


def _score(x: Candidate, metric: str) -> str:
    score, runs = mean(x), measured(x)
    if score is None:
        return ""
    spread = f", from {min(runs):.6f} to {max(runs):.6f}" if len(runs) > 1 else ""
    device = one_line(str(x.result.get("device", "")), 60)
    return f"{metric} {score:.6f} (mean of {len(runs) or 1} runs{spread})" + (f" on {device}" if device else "")


def _speed(x: Candidate) -> str:
    steps, tokens, seconds = (amount(x.result, name) for name in ("steps", "tokens", "training_seconds"))
    rate = amount(x.result, "tokens_per_second") or (tokens / seconds if tokens and seconds else None)
    parts = [
        f"{steps:,.0f} steps" if steps else "",
        f"{1000 * seconds / steps:,.1f} ms a step" if steps and seconds else "",
        f"{tokens:,.0f} tokens" if tokens else "",
        f"{rate:,.0f} tokens/s" if rate else "",
        f"{value:.1f} % of the peak FLOPS" if (value := amount(x.result, "mfu_percent")) else "",
    ]
    return _joined("speed", parts)


def _size(x: Candidate) -> str:
    named = (("params", "{:,.0f} parameters"), ("depth", "depth {:.0f}"), ("peak_memory_mb", "{:,.0f} MB of memory at most"),
             ("peak_vram_mb", "{:,.0f} MB of GPU memory at most"))  # fmt: skip
    return _joined("size", [said.format(value) for name, said in named if (value := amount(x.result, name))])


def _times(x: Candidate) -> str:
    """Where the time of a run goes. Only training counts against the budget."""
    named = ("total", "startup", "training", "scoring", "overhead")
    seconds = {name: amount(x.result, f"{name}_seconds") for name in named}
    said = {"total": "in all", "startup": "building and compiling before the clock", "training": "training",
            "scoring": "scoring", "overhead": "everything else"}  # fmt: skip
    parts = [f"{value:.1f} s {said[name]}" for name, value in seconds.items() if value]
    busy = amount(x.result, "cpu_seconds")
    if busy and (training := seconds["training"]):
        parts.append(f"{busy / training:.1f} CPU cores busy while it trains")
    return _joined("time", parts)


def _loss(log: str) -> str:
    """The end of the curve as far as the log goes, and whether it still falls."""
    curve = [point for line in log.splitlines() if (point := _point(line))]
    if len(curve) < 2:
        return ""
    chosen = [curve[round(i * (len(curve) - 1) / (POINTS - 1))] for i in range(POINTS)] if len(curve) > POINTS else curve
    shown = ", ".join(f"{loss:.4g} at step {step:,.0f}" for step, loss in chosen)
    late = curve[len(curve) // 2 :]
    return f"training loss in nats, as it says itself: {shown}; {late[-1][1] - late[0][1]:+.3g} over the second half of that"


def _point(line: str) -> tuple[float, float] | None:
    found = {name: float(value) for name, value in re.findall(NUMBER, line)}
    step, loss = found.get("step"), found.get("loss")
    return (step, loss) if step is not None and loss is not None and math.isfinite(step) and math.isfinite(loss) else None


def _joined(name: str, parts: list[str]) -> str:
    said = ", ".join(part for part in parts if part)
    return f"{name}: {said}" if said else ""
