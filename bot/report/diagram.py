"""The machine as a picture: drawn from the table of transitions, so that it cannot say anything else."""

from __future__ import annotations

from bot.state import STEPS, Stage


def mermaid() -> str:
    """The machine as a Mermaid state diagram, drawn from STEPS."""
    lines = ["stateDiagram-v2", "    [*] --> proposed"]
    for stage, row in STEPS.items():
        arrows: dict[Stage, list[str]] = {}
        for kind, then in row.items():
            arrows.setdefault(then, []).append(kind.__name__)
        lines += [f"    {stage} --> {then}: {', '.join(kinds)}" for then, kinds in arrows.items()]
    return "\n".join(lines)
