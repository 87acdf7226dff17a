"""What stands between a candidate and a number that it does not deserve, each as a field that can be switched off.

A measurement always uses the default. Nothing but tests/cheats makes another one: a test of a defence shows that the cheat
which it stops is credited without it. Here are only those that are decisions of the judge; the sandbox, the process boundary
and the static gate are switched off there by leaving them out.
"""

from __future__ import annotations

from dataclasses import dataclass

VOID_SHARE = 0.05  # of the training time: 5 % fewer steps cost about 0.5 %, as much as the noise of a quiet run


@dataclass(frozen=True, kw_only=True)
class Defences:
    """The rules of one measurement."""

    data_with_clock: bool = True  # the training text comes with session.start(), not before
    late_seconds: float = 0.0  # for so long after its end the candidate is still listened to
    plain_checkpoint: bool = True  # a checkpoint is a sealed file of plain float tensors
    apart: bool = True  # A and B get a copy each of everything, and B knows nothing before A is dead
    normalised: bool = True  # probabilities are made to sum to one
    finite: bool = True  # NaN and infinities are never a number
    audit: bool = True  # B must predict what A predicted
    signed_mean: bool = True  # small differences must not all point the same way
    jump: bool = True  # a score far below the incumbent's is not believed
    hidden_work: bool = True  # CPU time of children that nobody waited for counts
    others_only: bool = True  # void needs somebody else who had the CPU
    void_share: float = VOID_SHARE
    prefixes: int | None = None  # how many are audited; None: a share of all windows (audit.py)
    commit: bool | None = None  # numbers are committed, then audited; None: on a GPU, where distributions are too much data


PRODUCTION = Defences()
