"""The toy world of the cheats: a text that a table of pairs predicts, an honest candidate, and how one is brought to court.

Candidates speak the session's protocol without torch (tests/byte_session.py). Each is PRELUDE, its own code, and EPILOGUE; its
own code replaces `training`, `scoring` or `model`, which are honest in the prelude. In the held-out text a token is followed by
the next one more often than in the training text, so that there is something to gain by seeing it.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.bench import Bench, Cores
from evaluator.defences import Defences
from evaluator.measure import judge
from evaluator.prepare import HeldOut, Prepared
from runners import Job, Measurement
from runners.local import Limits, available

SESSION = Path(__file__).parents[1] / "byte_session.py"
BOXED = available() is None
VOCAB, CONTEXT, BOS = 16, 16, 15
SEED = 7
CALM = Defences(void_share=math.inf)  # what else runs on the machine of a test makes nothing void
TINY = 1e-6  # bits per byte: the toy world has no noise but the rounding of float32

PRELUDE = '''
V, C, FEW = order["vocab_size"], order["context"], 600
honestly = globals().get("choose")

def count(tokens):
    table = [[1.0] * V for _ in range(V)]
    for a, b in zip(tokens, tokens[1:]):
        table[a][b] += 1
    return table

def logs(table):
    return [[math.log(x / sum(row)) for x in row] for row in table]

def pack(table):
    return checkpoint(numbers=[x for row in table for x in row])

def unpack():
    content = os.pread(fds[1], 1 << 26, 0)
    return array.array("f", content[8 + int.from_bytes(content[:8], "little"):])

def table_of(numbers):
    return [list(numbers[i : i + V]) for i in range(0, len(numbers), V)]

def training():
    tokens = start()
    save(pack(count(tokens[:FEW])))
    done()

def sure(token):
    return [9.0 if v == token else 0.0 for v in range(V)]

def model(windows):
    return [[T[t] for t in w] for w in windows]

def scoring():
    global T
    T = logs(table_of(unpack()))
    serve(model)
'''
EPILOGUE = '''
training() if order["do"] == "train" else scoring()
'''


def candidate(code: str) -> str:
    return PRELUDE + code + EPILOGUE


def chain(count: int, follows: float, seed: int) -> Any:
    """Tokens below BOS; each is the one before plus one with that probability, else any."""
    random = np.random.default_rng(seed)
    tokens = random.integers(0, BOS, count)
    for i in range(1, count):
        if random.random() < follows:
            tokens[i] = (tokens[i - 1] + 1) % BOS
    return tokens.astype(np.uint16)


@cache
def world() -> Prepared:
    documents = [chain(length, 0.7, 100 + k) for k, length in enumerate([7, 16, 33, 100, 124] * 100)]
    half = len(documents) // 2
    public, vault = (HeldOut(tokens=tuple(part), nbytes=3 * sum(map(len, part))) for part in (documents[:half], documents[half:]))
    return Prepared(vocab_size=VOCAB, context=CONTEXT, bos=BOS, digest="toy", folder=Path("/nowhere"),
                    train=chain(20_000, 0.5, 1), public=public, vault=vault)  # fmt: skip


def heldout() -> list[int]:
    """All that is scored, for cheats that get hold of it."""
    return [int(t) for document in world().public.tokens for t in [BOS, *document]]


def job(
    code: str, *, seed: int = SEED, budget: float = 5.0, startup: float = 5.0, scoring: float = 60.0, cap: float = 0.0,
    compared: bool = False,
) -> Job:  # fmt: skip
    """`compared`: the incumbent is known to be as good as the honest candidate."""
    return Job(run="r1", commit="c0ffee", source=candidate(code), seed=seed, nonce="secret", budget_seconds=budget,
               startup_seconds=startup, scoring_seconds=scoring, deadline=time.time() + 60, sandbox="if-available",
               scoring_cap_seconds=cap, incumbent_bpb=honest_bpb() if compared else 0.0)  # fmt: skip


def session_of(folder: Path) -> str:
    """A name for the session's program that no other test has, nor another pytest that runs meanwhile."""
    return f"session-{folder.name}-{os.getpid()}.py"


def tried(
    code: str, folder: Path, *, boxed: bool = BOXED, limits: Limits | None = None, defences: Defences = CALM, **asked: Any
) -> Measurement:
    """The judge's measurement. The session's program is a copy in `folder`, whose name marks all processes of this trial."""
    session = Path(shutil.copy(SESSION, folder / session_of(folder)))
    folder.chmod(0o755)
    bench = Bench(Cores.split(os.sched_getaffinity(0)), boxed=boxed, gpu=False, session=session, limits=limits)
    try:
        return judge(job(code, **asked), world(), bench, lambda *_: None, begun=time.monotonic(), defences=defences)
    finally:
        bench.close()


@cache
def honest_bpb() -> float:
    """What the honest candidate deserves, by arithmetic."""
    data = world()
    table = np.ones((VOCAB, VOCAB))
    for a, b in zip(data.train[:599], data.train[1:600], strict=True):
        table[a, b] += 1
    logs = np.log(table.astype(np.float32) / table.sum(axis=1, keepdims=True))
    nats = -sum(logs[[BOS, *document[:-1]], document].sum() for document in data.public.tokens)
    return float(nats / math.log(2) / data.public.nbytes)


