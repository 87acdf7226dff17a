"""The arithmetic of a score, as the textbook has it: from logits to nats of a token, from nats of a text to bits per byte.

Both refuse what is not a number; what a candidate may gain by one is no concern of theirs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evaluator.defences import PRODUCTION, Defences
from evaluator.wire import Failed
from runners import Outcome


def surprise(
    logits: NDArray[np.float32], targets: NDArray[np.uint16], scored: NDArray[np.bool_], defences: Defences = PRODUCTION
) -> NDArray[np.float64]:  # fmt: skip
    """Nats of each token [n, context] for logits [n, context, vocab]: log-sum-exp less the target's logit; 0 if it is not scored.

    Raises Failed (nan) when a logit that counts is not finite.
    """
    nats = np.zeros(targets.shape)
    for row, (window, target, counts) in enumerate(zip(logits, targets, scored, strict=True)):  # a row fits into the cache
        if not np.isfinite(window[counts]).all():
            if defences.finite:
                raise Failed(Outcome.NAN, "the model's logits are not finite numbers")
            counts = counts & np.isfinite(window).all(axis=1)
        window = window[counts]
        hit = window[np.arange(len(window)), target[counts]]
        if defences.normalised:
            most = window.max(axis=1, initial=-np.inf, keepdims=True)
            hit = hit - most[:, 0]
            window -= most
            nats[row, counts] = np.log(np.exp(window, out=window).sum(axis=1, dtype=np.float64))
        nats[row, counts] -= hit
    return nats


def bits_per_byte(nats: float, nbytes: int) -> float:
    """Total nats / ln 2 / bytes of the raw text. Raises Failed (nan) for what cannot be a result."""
    bits = float(nats) / math.log(2) / nbytes
    if not math.isfinite(bits) or not 0.0 < bits < 100.0:
        raise Failed(Outcome.NAN, f"{bits} is not a possible number of bits per byte")
    return bits
