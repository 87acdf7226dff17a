"""What a candidate must not get away with while it is scored: looking ahead, remembering what it was shown, claiming.

Process A answers for the held-out text. Once it is dead, process B, which never sees that text, is shown prefixes of it only: one
a window, made-up tokens after it, the whole padded to the same shape. Its distribution at the end of the prefix, which the
judge makes sum to one, must be what A gave there: token by token within a tolerance, and without A being better on average.

Caught, n = number of prefixes, f = share of the tokens that are cheated on; the cost is one window a prefix, a fifth of A's:
* a look at later tokens, at other windows, at what was shown before; an answer that depends on the target, the order, the time
  or the process: seen with 1 - (1 - f) ** n in one run. With n = 64, the least (CPU preset): 47 % for f = 1 %, 86 % for 3 %,
  99 % for 7 %. With n = 1024, the most (GPU): 99.997 % for f = 1 %. What is kept was measured several times: five runs with
  n = 64 see f = 1 % with 96 %
* the same where it pays most: given the incumbent's numbers, half of the prefixes are drawn in proportion to the gain over it,
  so that a lie that makes up a share g of all gain is seen with 1 - (1 - g) ** (n / 2)
* committed numbers that are better by a little everywhere: their mean beyond what B says, if it is above `Tolerance.mean`
* different answers for the same window (REPEATS are asked twice, at different times): always, if it happens to all windows

Not covered: cheating on far fewer tokens than one in n (worth at most that share of the score); text that the candidate brought
with it (train.py is capped at 64 KB, and the held-out chunks are private); on a GPU, differences below the tolerance; what
one process could leave for the next in the machine itself (page cache, temperature), since B begins after A has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REPEATS = 4  # windows that A is asked twice
SHARE, LEAST, MOST = 0.2, 64, 1024  # of the windows there are, how many are audited


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Nats: the largest difference at one token, and how much better A may be on average."""

    token: float
    mean: float


# CPU, measured: float32 differs by about 1e-6 with the place in the batch. CUDA, by reasoning, not measured: bfloat16 has 8
# significant bits, so logits around 10 are off by up to 0.03 each when another kernel or order of summing is chosen; the
# largest of a whole vocabulary by several times that. Their mean over 1024 places is known to about 0.03 / 32.
TOLERANCES = {
    "cpu": Tolerance(token=1e-4, mean=1e-5),
    "cuda": Tolerance(token=0.25, mean=0.003),
}


def plan(windows: int, most_rows: int, wanted: int | None, smaller: int = 1) -> tuple[int, int]:
    """Windows in one batch, and how many prefixes: whole batches, of the same shape as A's, which are as even as can be.

    `smaller`: into so many are the batches divided that would be made else.
    """
    wanted = wanted or max(LEAST, min(int(SHARE * windows), MOST))
    asked = windows + REPEATS
    rows = -(-asked // (-(-asked // min(most_rows, wanted)) * smaller))
    return rows, min(windows, rows * max(1, round(wanted / rows)))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Of window `rows[i]` the tokens up to and including position `cuts[i]` are shown."""

    rows: NDArray[np.int64]
    cuts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Nats: the largest difference, and by how much A was better on average."""

    worst: float
    mean: float

    def __str__(self) -> str:
        return f"largest difference {self.worst:.1e} nats, mean {self.mean:+.1e}"


def draw(
    scored: NDArray[np.bool_], count: int, random: np.random.Generator, gain: NDArray[np.float64] | None = None
) -> Sample:  # fmt: skip
    """At most `count` windows, each cut at one of its scored positions. All arrays are [windows, context].

    Given the gain over the incumbent in nats, every other prefix is drawn in proportion to it where it is positive.
    """
    lengths = scored.sum(axis=1)  # scored positions come first in a window
    rows = random.permutation(len(scored))
    cuts = (random.random(len(rows)) * lengths[rows]).astype(np.int64)
    if gain is not None:
        weight = np.where(scored, gain, 0.0).clip(min=0.0)
        half = min(count // 2, int(np.count_nonzero(weight)))
        share = weight.ravel() / max(weight.sum(), 1e-300)
        chosen = random.choice(weight.size, half, replace=False, p=share) if half else np.zeros(0, np.int64)
        rows, cuts = (np.concatenate(pair) for pair in zip(np.divmod(chosen, scored.shape[1]), (rows, cuts), strict=True))
    return Sample(rows=rows[:count], cuts=cuts[:count])


def prefixes(inputs: NDArray[np.uint16], sample: Sample, vocab_size: int, random: np.random.Generator) -> NDArray[np.uint16]:
    """The windows that B is shown: each true up to its cut, made-up after it. [prefixes, context]."""
    made_up = random.integers(0, vocab_size, (len(sample.rows), inputs.shape[1]), dtype=np.uint16)
    true = np.arange(inputs.shape[1]) <= sample.cuts[:, None]
    return np.where(true, inputs[sample.rows], made_up)


def twice(count: int, random: np.random.Generator) -> tuple[NDArray[np.int64], frozenset[int]]:
    """An order of so many windows, and which of them are in it twice: once in each half, at random places."""
    order = random.permutation(count)
    half = count // 2
    again = order[:half][random.permutation(half)[:REPEATS]]
    places = half + (random.random(len(again)) * (count - half + 1)).astype(np.int64)
    return np.insert(order, places, again), frozenset(again.tolist())


def compare(seen: NDArray[np.float64], unseen: NDArray[np.float64], targets: NDArray[np.uint16]) -> Comparison:
    """A's log-probabilities against B's [prefixes, vocab]; or what A committed for the targets alone [prefixes]."""
    if not np.isfinite(unseen).all():
        return Comparison(worst=float("inf"), mean=float("inf"))
    hit = unseen[np.arange(len(targets)), targets]
    if seen.ndim == 1:
        difference = seen - hit
        return Comparison(worst=float(np.abs(difference).max(initial=0.0)), mean=float(difference.mean()))
    mean = float((seen[np.arange(len(targets)), targets] - hit).mean())
    return Comparison(worst=float(np.abs(seen - unseen).max(initial=0.0)), mean=mean)


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Over the last axis, in float64."""
    with np.errstate(invalid="ignore"):  # infinite logits, which are refused elsewhere
        shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
        result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
