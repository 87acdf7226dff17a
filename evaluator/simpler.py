"""Is a simpler candidate at most a little worse? A test of non-inferiority, with pairs. Pure statistics; lower scores are better.

For: keeping a candidate that takes something out (its syntax tree shrinks) although it is not better. Not for: deciding what is
simpler, or how much worse is bearable; both are handed in, the second as `margin`.

It is the rule of evaluator/gate.py with the candidate's scores lowered by the margin, so what must be shown is "not worse by the
margin" instead of "better"; and with a level of its own, spent in the same way. A candidate may be looked at by both rules: each
spends its own level. An error here costs at most about the margin, but errors add up: many simplifications in a row may each
lose something less than it, and only the comparison of base and tip at the end of a campaign sees their sum.
"""

from __future__ import annotations

import math
from dataclasses import replace

from evaluator import gate

ALPHA = 0.025  # of keeping what is worse by the margin; the usual one-sided level of a non-inferiority trial (ICH E9, 5.2.1 and 3.5)
FLOOR = 0.0  # sigma: goes on while it looks no worse than the margin; a candidate that is equal starts at margin / sigma
