"""What a candidate must not get away with while it is scored: looking ahead, remembering what it was shown, claiming.

Process A answers for the held-out text. Once it is dead, process B, which never sees that text, is shown prefixes of it only: one
a window, made-up tokens after it, the whole padded to the same shape. Its distribution at the end of the prefix, which the
judge makes sum to one, must be what A gave there: token by token within a tolerance, and without A being better on average.

Caught, n = number of prefixes, f = share of the tokens that are cheated on; the cost is one window a prefix, a tenth of A's:
* a look at later tokens, at other windows, at what was shown before; an answer that depends on the target, the order, the time
  or the process: seen with 1 - (1 - f) ** n in one run. With n = 32, the least (CPU preset): 28 % for f = 1 %, 62 % for 3 %,
  90 % for 7 %. With n = 1024, the most (GPU): 99.997 % for f = 1 %. What is kept was measured several times: five runs with
  n = 32 see f = 1 % with 80 %
* the same where it pays most: given the incumbent's numbers (shelf.py), half of the prefixes are drawn in proportion to the gain
  over it, once A has answered, so that a lie that makes up a share g of all gain is seen with 1 - (1 - g) ** (n / 2); the other
  half is drawn evenly, and n / 2 takes the place of n above. Measured between two seeds of examples/cpu (4 s): g is 10 % for a
  lie that takes all loss off f = 1 % of the tokens, which n = 32 sees with 81 % in one run, and with 99.4 % in three
* committed numbers that are better by a little everywhere: their mean beyond what B says, if it is above `Tolerance.mean`, over
  those drawn evenly (where the gain is largest, chance has helped)
* different answers for the same window (REPEATS are asked twice, at different times): always, if it happens to all windows
* a score too good to be true, however it came about: see `impossible`

Not covered: cheating on far fewer tokens than one in n (worth at most that share of the score); text that the candidate brought
with it (train.py is capped at 64 KB, and the held-out chunks are private); on a GPU, differences below the tolerance; what
one process could leave for the next in the machine itself (page cache, temperature), since B begins after A has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REPEATS = 4  # windows that A is asked twice
SHARE, LEAST, MOST = 0.1, 32, 1024  # of the windows there are, how many are audited
JUMP = 0.5  # of the incumbent's score: more than this no single edit takes off


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Nats: the largest difference at one token, and how much better A may be on average."""

    token: float
    mean: float


# CPU, measured: float32 differs by about 1e-6 with the place in the batch. CUDA, by reasoning, not measured: bfloat16 has 8
# significant bits, so logits around 10 are off by up to 0.03 each when another kernel or order of summing is chosen; the
# largest of a whole vocabulary by several times that. Their mean over 512 places, half of MOST, is known to about 0.03 / 22.
TOLERANCES = {
    "cpu": Tolerance(token=1e-4, mean=1e-5),
    "cuda": Tolerance(token=0.25, mean=0.004),
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

    def but_worst(self, other: Comparison) -> Comparison:
        """Of both the larger difference; the mean stays its own."""
        return Comparison(worst=max(self.worst, other.worst), mean=self.mean)

    def __str__(self) -> str:
        return f"largest difference {self.worst:.1e} nats, mean {self.mean:+.1e}"


def draw(scored: NDArray[np.bool_], count: int, random: np.random.Generator) -> Sample:
    """At most `count` windows [windows, context], each cut at one of its scored positions, all of them equally likely."""
    lengths = scored.sum(axis=1)  # scored positions come first in a window
    rows = random.permutation(len(scored))[:count]
    return Sample(rows=rows, cuts=(random.random(len(rows)) * lengths[rows]).astype(np.int64))


def draw_gains(gain: NDArray[np.float64], count: int, random: np.random.Generator) -> Sample:
    """At most `count` different positions [windows, context], in proportion to the gain in nats where it is positive.

    The largest of log weight plus Gumbel noise, which is the same as one after the other: https://arxiv.org/abs/1903.06059.
    """
    weight = gain.ravel().clip(min=0.0)
    with np.errstate(divide="ignore"):
        rank = np.log(weight) + random.gumbel(size=weight.size)
    count = min(count, int(np.count_nonzero(weight)))
    rows, cuts = np.divmod(np.argsort(-rank)[:count], gain.shape[1])
    return Sample(rows=rows, cuts=cuts)


def joined(one: Sample, other: Sample) -> Sample:
    return Sample(rows=np.concatenate([one.rows, other.rows]), cuts=np.concatenate([one.cuts, other.cuts]))


def impossible(bpb: float, incumbent: float, guessing: float) -> str:
    """Why a score cannot be the work of one edit; "" when it can. Bits per byte; `incumbent` 0: there is nothing to compare with.

    The largest gain of one edit in 125 experiments of https://github.com/karpathy/autoresearch (H100) was 1.2 %, in 362 of
    https://github.com/EdwardOptimization/Bilevel-Autoresearch (RTX 5090) 3.8 %; of the known moves that examples/cpu is left
    plain for, 7.7 % in one run (docs/demo.jsonl). An incumbent that is worse than guessing every token evenly counts as
    guessing, since mending what is broken may gain much.
    """
    level, whose = min((incumbent, "the incumbent's"), (guessing, "plain guessing's"))
    if not level or bpb >= (1.0 - JUMP) * level:
        return ""
    gain = 100 * (1.0 - bpb / level)
    return (
        f"an impossible jump: {bpb:.6f} bits per byte is {gain:.0f} % below {whose} {level:.6f}, and no honest edit is known to "
        f"take off a tenth, let alone more than {100 * JUMP:.0f} %; if it is right after all, a person can make it the base"
    )


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
