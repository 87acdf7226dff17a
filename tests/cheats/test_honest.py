"""Honest but unusual candidates, all of which must get a number: what the judge may never take for a cheat.

Those of TOYS speak the protocol without torch; those of MODELS are real, small, and trained for an instant.
"""

from __future__ import annotations

import importlib.util
import math
import os
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import beta

from evaluator.bench import SESSION, Bench, Cores
from evaluator.measure import judge
from runners import Job, Measurement, Outcome
from runners.scripted import Result, ScriptedRunner, measurement
from tests.cheats.table import model, scored, trained
from tests.cheats.toy import BOXED, CALM, honest_bpb, tried, world

FEW = "save(pack(count(tokens[:FEW])))\ndone()"
TOYS: dict[str, str] = {
    "has a single number": trained("start()\nsave(checkpoint(numbers=[0.5]))\ndone()") + """
def scoring():
    p = unpack()[0]
    serve(lambda windows: [[[p if v < 15 else -9.0 for v in range(V)] for t in w] for w in windows])
""",
    "is slow to build": "if order['do'] == 'train': time.sleep(1.5)",
    "reads its data in an order that it keeps a state of": trained("""
tokens, place, table = start(), order["seed"], [[1.0] * V for _ in range(V)]
for _ in range(FEW):
    place = (place * 1103515245 + 12345) % 19999
    table[tokens[place]][tokens[place + 1]] += 1
save(pack(table))
done()"""),
    "runs into the deadline with a checkpoint saved": trained(
        "tokens = start()\nsave(pack(count(tokens[:FEW])))\ntime.sleep(60)"
    ),
    "saves many checkpoints": trained("tokens = start()\nfor n in range(30): save(pack(count(tokens[:n * 20 + 20])))\ndone()"),
    "crashes once it has saved": trained("tokens = start()\nsave(pack(count(tokens[:FEW])))\nraise OSError('logger')"),
    "loads its data in children that it waits for": trained("""
tokens, (ours, theirs) = start(), os.pipe()
if os.fork() == 0:
    os.write(theirs, bytes(tokens[:FEW]))
    os._exit(0)
os.wait()
save(pack(count(os.read(ours, 65536))))
done()"""),
    "has threads that work until the end": trained("""
import threading
tokens, tables = start(), []
workers = [threading.Thread(target=lambda: tables.append(count(tokens[:FEW]))) for _ in range(8)]
for worker in workers: worker.start()
for worker in workers: worker.join()
save(pack(tables[0]))
done()"""),
    "prints a progress bar in colours": "for n in range(3000): print(f'\\r\\x1b[32m{n} \\u2588\\u2588', end='', flush=True)",
    "leaves temporary files": trained("""
import tempfile
tokens = start()
open(tempfile.mkdtemp() + "/cache", "wb").write(bytes(10**6))
""" + FEW),
    "rules tokens out with very negative logits": model("return [x if v < 15 else -1e30 for v, x in enumerate(T[t])]"),
    "has logits far from zero": model("return [x + 300.0 for x in T[t]]"),
    "knows the position": model("return [x * (1 - 0.01 * i) for x in T[t]]"),
    "looks back over the whole window": model("return [x + 0.1 * w[: i + 1].count(v) for v, x in enumerate(T[t])]"),
    "is unsure at the start of a document": model("return T[t] if t != 15 else [0.0] * V"),
    "works while it is scored, within reason": scored("for _ in range(10**5): pass\nserve(model)"),
}
TRAIN = """
def train(model, session):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    session.start()
    for n, (x, y) in enumerate(session.batches(8, contract.CONTEXT)):
        loss = F.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        if n == 20: break
    session.save(model)
"""
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom trainer import session as contract\n"
MODELS: dict[str, str] = {
    "ties its weights": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(contract.VOCAB_SIZE, 8), nn.Linear(8, contract.VOCAB_SIZE, bias=False)
        self.head.weight = self.wte.weight
    def forward(self, x): return self.head(F.rms_norm(self.wte(x), (8,)))
""",
    "is a mixture of experts in low precision": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.router = nn.Embedding(contract.VOCAB_SIZE, 8), nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, contract.VOCAB_SIZE) for _ in range(4))
    def forward(self, x):
        h = self.wte(x).flatten(0, 1)
        gate, choice = self.router(h).softmax(-1).max(-1)
        out = torch.zeros(len(h), contract.VOCAB_SIZE, dtype=h.dtype)
        for k, expert in enumerate(self.experts):
            mine = (choice == k).nonzero()[:, 0]
            out = out.index_add(0, mine, gate[mine, None] * expert(h[mine]))
        return out.view(*x.shape, -1)
def build(): return Net().bfloat16()
""",
    "is compiled": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(contract.VOCAB_SIZE, 8), nn.Linear(8, contract.VOCAB_SIZE)
    def forward(self, x): return self.head(F.gelu(self.wte(x)))
def build(): return torch.compile(Net(), backend="eager")
""",
}


@pytest.mark.parametrize("name", TOYS)
def test_an_honest_candidate_gets_its_number(name: str, tmp_path: Path) -> None:
    """However unusual: ok, a number, and no word of blame."""
    got = tried(TOYS[name], tmp_path, budget=2.0, cap=2.0)
    assert (got.outcome, got.reason) == (Outcome.OK, ""), got
    assert got.val_bpb is not None and got.val_bpb < 2.0
    if "def " not in TOYS[name]:
        assert got.val_bpb == pytest.approx(honest_bpb(), abs=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_an_honest_real_model_gets_its_number(name: str) -> None:
    """The same with torch, by the session that candidates really have."""
    plain = "" if "def build" in MODELS[name] else "def build(): return Net()\n"
    got = measured(IMPORTS + MODELS[name] + plain + TRAIN)
    assert (got.outcome, got.reason) == (Outcome.OK, ""), got
    assert got.val_bpb is not None and got.val_bpb < 2.0


# a model that looks one token ahead, and a session whose loss it replaced; the second matters where numbers are committed
AHEAD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(contract.VOCAB_SIZE, contract.VOCAB_SIZE)
        self.conv = nn.Conv1d(contract.VOCAB_SIZE, contract.VOCAB_SIZE, 3, padding=1)
    def forward(self, x): return self.conv(self.wte(x).transpose(1, 2)).transpose(1, 2)
def build(): return Net()
"""
REPLACED = """
honest = F.cross_entropy
def build():
    F.cross_entropy = lambda out, y, reduction="mean": honest(out, y, reduction=reduction) * (0.1 if reduction == "none" else 1.0)
    return nn.Embedding(contract.VOCAB_SIZE, contract.VOCAB_SIZE)
"""


@pytest.mark.parametrize(("source", "commit"), [(AHEAD, False), (REPLACED, True)], ids=["looks ahead", "replaces the loss"])
def test_a_real_model_that_cheats_is_caught_and_would_be_paid(source: str, *, commit: bool) -> None:
    """The two classics with torch: invalid by the audit, and the second gets a better number without it."""
    caught = measured(IMPORTS + source + TRAIN, commit=commit)
    assert (caught.outcome, caught.val_bpb) == (Outcome.INVALID, None)
    assert "depends on more than the tokens before it" in caught.reason
    if commit:
        paid = measured(IMPORTS + source + TRAIN, commit=commit, audit=False)
        assert paid.val_bpb is not None and paid.val_bpb < 0.5


def measured(source: str, **defences: bool) -> Measurement:
    job = Job(run="r1", commit="c0ffee", source=textwrap.dedent(source), seed=7, nonce="secret", budget_seconds=30.0,
              startup_seconds=60.0, deadline=time.time() + 300, sandbox="if-available")  # fmt: skip
    bench = Bench(Cores.split(os.sched_getaffinity(0)), boxed=BOXED, gpu=False, session=SESSION)
    try:
        return judge(job, world(), bench, lambda *_: None, begun=time.monotonic(), defences=replace(CALM, **defences))
    finally:
        bench.close()


def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "honest.py"
    spec = importlib.util.spec_from_file_location("bench_honest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_runs_without_a_refusal_prove_is_clopper_and_pearsons_bound() -> None:
    """It agrees with scipy's beta quantile, a little below the rule of three; nothing is proven by nothing."""
    at_most = bench().at_most
    for failures, runs in ((0, 1), (0, 100), (0, 2000), (1, 100), (3, 40), (99, 100)):
        assert at_most(failures, runs) == pytest.approx(beta.ppf(0.95, failures + 1, runs - failures), rel=1e-6)
    assert at_most(0, 100) == pytest.approx(1 - 0.05**0.01)
    assert at_most(0, 100) < 3 / 100
    assert (at_most(0, 0), at_most(7, 7)) == (1.0, 1.0)


def test_a_void_run_neither_counts_nor_refuses() -> None:
    """Refused is whatever is neither ok nor void, and the bound is over those that count."""
    honest = bench()
    runs: list[dict[str, object]] = [{"outcome": outcome} for outcome in ("ok", "void", "ok", "invalid", "timeout")]
    found = honest.summary(runs, 2.0)
    assert (found["counted"], found["refused"], found["void"]) == (4, 2, 1)
    assert found["at_most"] == honest.at_most(2, 4)


def test_a_run_that_others_disturbed_is_done_again_with_the_same_seed() -> None:
    """Twice at most; what ends up in the file is the last of them."""
    honest = bench()
    seen: list[tuple[str, int]] = []

    def script(job: Job) -> Result:
        seen.append((job.run, job.seed))
        void = job.seed == 2 or len(seen) < 2
        return measurement(job, val_bpb=None if void else 2.0, outcome=Outcome.VOID if void else Outcome.OK)

    records = [honest.one(ScriptedRunner(script), seed, honest.settings(2.0), []) for seed in (1, 2)]
    assert [(record["outcome"], record["voids"], record["val_bpb"]) for record in records] == [("ok", 1, 2.0), ("void", 2, None)]
    assert seen == [("honest-1.0", 1), ("honest-1.1", 1), ("honest-2.0", 2), ("honest-2.1", 2), ("honest-2.2", 2)]
    assert honest.job(3, 0, honest.settings(2.0), records).incumbent == "plain"


def test_each_run_is_told_of_the_one_before_as_in_a_campaign() -> None:
    """The first has no incumbent; later ones its name, the mean of those that are ok, and a cap on compute."""
    honest = bench()
    s = honest.settings(2.0)
    first = honest.job(1, 0, s, [])
    assert (first.incumbent, first.incumbent_bpb, first.scoring_cap_seconds, first.budget_seconds) == ("", 0.0, 0.0, 2.0)
    before = [{"outcome": "ok", "val_bpb": x, "scoring_cpu_seconds": 1.5} for x in (2.0, 3.0)]
    later = honest.job(3, 1, s, [*before, {"outcome": "void", "val_bpb": None, "scoring_cpu_seconds": 0.0}])
    assert (later.incumbent, later.incumbent_bpb, later.scoring_cap_seconds) == (first.code, 2.5, 3.5)


def test_there_are_enough_of_them() -> None:
    """At least ten, real ones among them."""
    assert len(TOYS) + len(MODELS) >= 10
    assert math.isfinite(honest_bpb())
