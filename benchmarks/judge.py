"""What the full judgement of a checkpoint costs, beside a plain evaluation of the same checkpoint in one process.

    python benchmarks/judge.py            # about a minute -> benchmarks/results/judge.json
    python benchmarks/judge.py --quick    # one of each, on the screen only

The checkpoint is examples/cpu/train.py after a few seconds. Plain: this process builds the model, loads the checkpoint and sums
cross entropies over the held-out text, one thread on the candidate's CPU, in batches of the same size; malloc keeps its memory
as in the judge's processes (else the plain one is a quarter slower). Judged: two sandboxed processes, warm, as in a campaign,
distributions over shared memory, prefixes audited; this process is then the supervisor, on the other CPUs. The two alternate.
`ratio` is of wall clock, without building and loading; `cpu` counts all processes of either, with both, so it shows
nothing of what several CPUs share and little of what else runs on them. Process starts (torch's import, mostly) are reported
apart: in a campaign they happen while the candidate trains.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from _record import ROOT, write

from evaluator import prepare, score
from evaluator.bench import KEEP, READY_SECONDS, Bench, Cores
from evaluator.defences import Defences
from evaluator.prepare import Prepared
from evaluator.scorer import DISTRIBUTIONS, rows_for
from evaluator.training import Orders, train
from evaluator.wire import frozen
from runners import Job
from runners.local import available

SOURCE = (ROOT / "examples" / "cpu" / "train.py").read_text()
TRAINING = 4.0  # seconds: scoring does not depend on how good the model is
STARTUP = 120.0
ROLES = ("a", "b")
MALLOPT = (-3, -1)  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h, in the order of KEEP


def trained(bench: Bench, orders: Orders, data: Prepared) -> int:
    """The checkpoint, as a file descriptor."""
    job = Job(run="benchmark", commit="benchmark", source=SOURCE, seed=orders.seed, nonce="", budget_seconds=TRAINING,
              startup_seconds=STARTUP, deadline=time.time() + 600)  # fmt: skip
    child, _ = bench.take("train", bench.cores.candidate)
    tokens = frozen("tokens", data.train_tokens().data)
    calm = Defences(void_share=math.inf)  # how well it trains does not matter here
    return train(child, job, orders, tokens, lambda *_: None, cpus=bench.cores.candidate, defences=calm).checkpoint


def plain(orders: Orders, checkpoint: int, data: Prepared) -> dict[str, float]:
    """Seconds to build and load, and to evaluate; and the number."""
    import torch
    from torch.nn.functional import cross_entropy

    from trainer import session

    torch.set_num_threads(1)
    for parameter, (_, value) in zip(MALLOPT, KEEP, strict=True):
        ctypes.CDLL(None).mallopt(parameter, int(value))
    begun, cpu = time.monotonic(), time.process_time()
    model: Any = session._build(session._load(orders.message("score"), orders.source), orders.seed)
    model.load_state_dict(session.unpack(checkpoint))
    model.eval().requires_grad_(False)
    loaded = time.monotonic()
    pile = score.windows([data.public], bos=data.bos, context=orders.context)
    rows, nats = rows_for(orders, DISTRIBUTIONS), 0.0
    with torch.no_grad():
        for at in range(0, len(pile.inputs), rows):
            x, y = (torch.from_numpy(part[at : at + rows].astype("int64")) for part in (pile.inputs, pile.targets))
            counts = torch.from_numpy(pile.scored[at : at + rows])
            losses = cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none")
            nats += float(losses[counts.flatten()].double().sum())
    done = time.monotonic()
    bpb = nats / math.log(2) / data.public.nbytes
    return {"load": loaded - begun, "evaluate": done - loaded, "cpu": time.process_time() - cpu, "bpb": bpb}


def judged(bench: Bench, orders: Orders, checkpoint: int, data: Prepared) -> dict[str, float]:
    """Seconds of starting both processes, of all of the judgement, and of what of it is not building and loading."""
    begun = time.monotonic()
    for role in ROLES:
        bench.start(role).ready(READY_SECONDS)
    warm = time.monotonic()
    a, _ = bench.take("a", bench.cores.candidate)
    b, _ = bench.take("b", bench.cores.candidate)
    cpu, before = time.process_time(), b.box.cpu_seconds()
    terms = score.Terms(bos=data.bos, seconds=600.0, cpu=min(bench.cores.candidate))
    got = score.score(a, b, orders, checkpoint, [data.public], terms, progress=lambda done: None)
    done = time.monotonic()
    cpu = time.process_time() - cpu + got.cpu_seconds + b.box.cpu_seconds() - before
    for child in (a, b):
        child.kill()
    return {"start": warm - begun, "judge": done - warm, "answer": got.seconds, "cpu": cpu, "bpb": got.bpb[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one of each, nothing is written")
    parser.add_argument("--pairs", type=int, default=9, help="how many of each (default: %(default)s)")
    parser.add_argument("--cache", type=Path, help="folder of prepared data (default: a temporary one)")
    asked = parser.parse_args()
    pairs, load = 1 if asked.quick else asked.pairs, os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(asked.cache or Path(folder), pairs)
    figures = summary(rows)
    for name, value in figures.items():
        print(f"{name:<28} {value:.3f}")
    print(f"medians over {pairs}; other load when it began: {load:.1f}")
    if not asked.quick:
        write("judge", f"python benchmarks/judge.py --pairs {pairs}", figures | {"load_before": load}, n=pairs)


def measured(cache: Path, pairs: int) -> list[tuple[dict[str, float], dict[str, float]]]:
    data = prepare.load("austen", cache)
    cores = Cores.split(os.sched_getaffinity(0))
    orders = Orders(source=frozen("train.py", SOURCE.encode()), seed=1, vocab_size=data.vocab_size, context=data.context,
                    device="cpu")  # fmt: skip
    rows = []
    bench = Bench(cores, boxed=available() is None, gpu=False)
    try:
        checkpoint = trained(bench, orders, data)
        plain(orders, checkpoint, data)  # torch's first use of everything
        for _ in range(pairs):
            os.sched_setaffinity(0, cores.candidate)
            one = plain(orders, checkpoint, data)
            os.sched_setaffinity(0, cores.rest)
            other = judged(bench, orders, checkpoint, data)
            print("  ".join(f"{name} {value:.3f}" for row in (one, other) for name, value in row.items()), flush=True)
            if abs(one["bpb"] - other["bpb"]) > 1e-5:
                raise SystemExit(f"the two disagree: {one['bpb']} and {other['bpb']} bits per byte")
            rows.append((one, other))
    finally:
        bench.close()
    return rows


def summary(rows: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, float]:
    """Medians; ratio and surplus are those of each pair."""
    figures = {f"plain_{name}": statistics.median(one[name] for one, _ in rows) for name in rows[0][0]}
    figures |= {f"judged_{name}": statistics.median(other[name] for _, other in rows) for name in rows[0][1]}
    ratios = [other["answer"] / one["evaluate"] for one, other in rows]
    work = [other["cpu"] / one["cpu"] for one, other in rows]
    surplus = [other["judge"] - one["load"] - one["evaluate"] for one, other in rows]
    return figures | {
        "ratio": statistics.median(ratios), "least_ratio": min(ratios), "most_ratio": max(ratios),
        "cpu_ratio": statistics.median(work),
        "surplus_seconds_warm": statistics.median(surplus), "least_surplus": min(surplus), "most_surplus": max(surplus),
    }  # fmt: skip


if __name__ == "__main__":
    main()
