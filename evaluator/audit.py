"""What a candidate must not get away with while it is scored: looking ahead, and remembering what it was shown before.

Caught: process B, which never sees the held-out text, is shown prefixes only (one a window, the rest made-up tokens) and must
give the distribution that process A gave at that place. A model that uses later tokens, other windows of the batch, or earlier
batches on a share f of its tokens goes unseen with probability (1 - f) ** PREFIXES: 128 prefixes find f = 1 % with 72 %,
f = 4 % with 99 %. Cost: as many windows as prefixes, on another core while A computes.

Not covered: cheating on far fewer tokens than one in PREFIXES (worth at most that share of the score), and text that the
candidate brought with it (train.py is capped at 64 KB, and the held-out chunks are private).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PREFIXES = 128
TOLERANCE = 1e-4  # nats, of a log-probability; float32 on one CPU differs by about 1e-6 with the place in the batch


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Prefixes drawn before anything is scored: of window `rows[i]` the tokens up to and including position `cuts[i]`."""

    rows: NDArray[np.int64]
    cuts: NDArray[np.int64]


def draw(scored: NDArray[np.bool_], random: np.random.Generator) -> Sample:
    """At most PREFIXES windows, each cut at one of its scored positions. `scored` is [windows, context]."""
    rows = random.permutation(len(scored))[:PREFIXES]
    lengths = scored[rows].sum(axis=1)  # scored positions come first in a window
    return Sample(rows=rows, cuts=(random.random(len(rows)) * lengths).astype(np.int64))


def prefixes(inputs: NDArray[np.uint16], sample: Sample, vocab_size: int, random: np.random.Generator) -> NDArray[np.uint16]:
    """The windows that B is shown: each true up to its cut, made-up after it. [prefixes, context]."""
    made_up = random.integers(0, vocab_size, (len(sample.rows), inputs.shape[1]), dtype=np.uint16)
    true = np.arange(inputs.shape[1]) <= sample.cuts[:, None]
    return np.where(true, inputs[sample.rows], made_up)


def compare(seen: NDArray[np.float32], unseen: NDArray[np.float32]) -> float:
    """The largest difference of log-probabilities between A's logits and B's at the same places, in nats. [prefixes, vocab]."""
    if not np.isfinite(unseen).all():
        return float("inf")
    return float(np.abs(_log_softmax(seen) - _log_softmax(unseen)).max(initial=0.0))


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
