"""The judge, seen from the candidate's side. Most candidates here speak the protocol without torch; the last few are real."""

import array
import fcntl
import json
import math
import os
import socket
import textwrap
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from evaluator import audit, bits, score
from evaluator.bench import SESSION, Bench, Cores
from evaluator.defences import Defences
from evaluator.inert import inert
from evaluator.measure import judge, measure
from evaluator.prepare import HeldOut, Prepared
from evaluator.training import checked
from evaluator.wire import FROZEN, Failed, frozen
from runners import Job, Measurement, Outcome
from runners.local import SandboxError, available

BYTES = Path(__file__).with_name("byte_session.py")
VOCAB, CONTEXT, BOS = 16, 8, 15
BOXED = available() is None
CALM = Defences(void_share=math.inf)  # what else runs on the machine of a test makes nothing void


def texts(seed: int) -> HeldOut:
    """Documents of several lengths: shorter than a window, exactly one, and longer."""
    random = np.random.default_rng(seed)
    documents = tuple(random.integers(0, BOS, n).astype(np.uint16) for n in (3, 8, 60, 41, 17) * 20)
    return HeldOut(tokens=documents, nbytes=3 * sum(map(len, documents)))


DATA = Prepared(
    vocab_size=VOCAB, context=CONTEXT, bos=BOS, digest="made-up", folder=Path("/nowhere"),
    train=np.arange(5000, dtype=np.uint16) % VOCAB, public=texts(1), vault=texts(2),
)  # fmt: skip

TRAIN = """
if order["do"] == "train":
    start(); save(); done()
"""
HONEST = TRAIN + """
else:
    serve(honest)
"""


@dataclass
class Asked:
    """Defaults of a test's job."""

    budget: float = 5.0
    startup: float = 5.0
    vault: bool = False
    sandbox: str = "if-available"
    cap: float = 0.0


def job(source: str, asked: Asked) -> Job:
    return Job(
        run="r1", commit="c0ffee", source=textwrap.dedent(source), seed=7, nonce="secret", budget_seconds=asked.budget,
        startup_seconds=asked.startup, deadline=time.time() + 60, vault=asked.vault, sandbox=asked.sandbox,
        scoring_cap_seconds=asked.cap,
    )  # fmt: skip


def judged(
    source: str, *, data: Prepared = DATA, session: Path = BYTES, boxed: bool = BOXED, defences: Defences = CALM, **asked: object
) -> Measurement:  # fmt: skip
    bench = Bench(Cores.split(os.sched_getaffinity(0)), boxed=boxed, gpu=False, session=session)
    wanted = job(source, Asked(**asked))  # type: ignore[arg-type]
    try:
        return judge(wanted, data, bench, lambda *_: None, begun=time.monotonic(), defences=defences)
    finally:
        bench.close()


def expected(text: HeldOut) -> float:
    """Bits per byte of the honest model, straight from its definition."""
    norm = math.log(math.exp(2.0) + VOCAB - 1)
    nats = 0.0
    for document in text.tokens:
        before = [BOS, *map(int, document)]
        nats += sum(norm - (2.0 if after == (b + 1) % VOCAB else 0.0) for b, after in pairwise(before))
    return nats / math.log(2) / text.nbytes


def test_an_honest_candidate_gets_its_bits_per_byte() -> None:
    """The number is total nats over ln 2 over the raw bytes, and the record carries what was asked."""
    got = judged(HONEST, vault=True)
    assert (got.outcome, got.reason) == (Outcome.OK, "")
    assert got.val_bpb == pytest.approx(expected(DATA.public), rel=1e-6)
    assert got.vault_bpb == pytest.approx(expected(DATA.vault), rel=1e-6)
    assert (got.run, got.commit, got.seed, got.nonce, got.sandboxed) == ("r1", "c0ffee", 7, "secret", BOXED)
    assert got.params == 1
    assert "70 prefixes, drawn evenly" in got.audit
    assert "made-up" in got.fingerprint
    assert "5 s" in got.fingerprint


def test_the_vault_is_scored_only_when_asked() -> None:
    """Without `vault` there is no second number."""
    assert judged(HONEST).vault_bpb is None


def test_what_a_candidate_says_of_itself_is_passed_on_but_decides_nothing() -> None:
    """Steps and the like are copied; a claimed loss or score changes nothing."""
    source = HONEST.replace("done()", "done(steps=12, tokens=3456, depth=2, mfu_percent=1.5, val_bpb=0.001)")
    got = judged(source)
    assert (got.steps, got.tokens, got.depth, got.mfu_percent) == (12, 3456, 2, 1.5)
    assert got.val_bpb == pytest.approx(expected(DATA.public), rel=1e-6)


@pytest.mark.parametrize(
    ("source", "outcome", "reason"),
    [
        ("raise ValueError('no such layer')", "crash", "ValueError: no such layer"),
        ("start(); raise ValueError('no such layer')", "crash", "ValueError: no such layer"),
        ("raise MemoryError('x')", "oom", "MemoryError"),
        ("start(); raise RuntimeError('CUDA out of memory. Tried to allocate')", "oom", "out of memory"),
        ("start(); os._exit(3)", "crash", "exit status 3 while training"),
        ("os.kill(os.getpid(), 11)", "crash", "signal 11 before session.start()"),
        ("start(); os.kill(os.getpid(), 9)", "oom", "killed while training"),
        ("sys.exit(0)", "crash", "SystemExit"),
        ("done()", "crash", "without session.start()"),
        ("start(); done()", "crash", "without session.save()"),
        ("save()", "invalid", "before session.start()"),
        ("start(); line.close(); time.sleep(60)", "invalid", "closed its line"),
        ("start(); line.send(b'hello')", "invalid", "not a packet"),
        ("start(); line.send(b'[' * 60000)", "invalid", "not a packet"),
        ("start(); say({'say': 'save'})", "invalid", "exactly one memory file"),
        ("start(); save(checkpoint('I64', [1], 'q'))", "invalid", "w is I64"),
        ("start(); save(os.open('train.py', os.O_RDWR | os.O_CREAT))", "invalid", "not a sealed memory file"),
    ],
)
def test_a_failed_training_has_an_outcome_a_reason_and_no_number(source: str, outcome: str, reason: str) -> None:
    """Every way to fail in training is told apart, in words."""
    got = judged(source)
    assert (got.outcome, got.val_bpb) == (Outcome(outcome), None)
    assert reason in got.reason


def test_a_crash_shows_the_end_of_its_traceback_and_nothing_that_moves_a_terminal() -> None:
    """The log tail has the failing line; escapes and direction marks are gone."""
    got = judged("print('\\x1b[2Jhidden\\u202e')\nraise KeyError('wte')")
    assert "KeyError: 'wte'" in got.log_tail
    assert '"train.py", line 2' in got.log_tail
    assert "\x1b" not in got.log_tail
    assert "\u202e" not in got.log_tail


def test_the_log_is_bounded_and_never_blocks_the_candidate() -> None:
    """A candidate that prints megabytes goes on, and its last 2,000 characters are kept."""
    got = judged(HONEST.replace("save();", "print('x' * 10_000_000 + 'end', flush=True); save();"))
    assert got.outcome is Outcome.OK
    assert got.log_tail.endswith("xend\n")
    assert len(got.log_tail) <= 2000


def test_an_over_runner_keeps_its_last_checkpoint() -> None:
    """Still running at the deadline: killed there, and what it had saved in time counts."""
    got = judged(HONEST.replace("save(); done()", "save(); save(checkpoint(numbers=(1, 2, 3))); time.sleep(60)"), budget=0.5)
    assert (got.outcome, got.params) == (Outcome.OK, 3)
    assert 0.5 <= got.training_seconds < 1.5
    assert "still running" in got.extra["note"]


def test_a_candidate_that_dies_after_saving_keeps_its_checkpoint() -> None:
    """Its result was there; that it crashed then is noted."""
    got = judged(HONEST.replace("done()", "raise OSError('late')"))
    assert got.outcome is Outcome.OK
    assert "OSError: late" in got.extra["note"]


def test_without_a_checkpoint_at_the_deadline_it_is_a_timeout() -> None:
    """The clock is the supervisor's, and saving is inside it."""
    got = judged("start(); time.sleep(0.7); save(); done()", budget=0.5)
    assert (got.outcome, got.val_bpb) == (Outcome.TIMEOUT, None)
    assert "no checkpoint within 0.5 s" in got.reason


def test_building_for_ever_is_a_timeout_too() -> None:
    """Before session.start() there are startup_seconds and no more."""
    begun = time.monotonic()
    got = judged("time.sleep(60)", startup=0.5)
    assert got.outcome is Outcome.TIMEOUT
    assert "not ready after 0.5 s" in got.reason
    assert time.monotonic() - begun < 10


def test_there_is_no_training_text_before_the_clock() -> None:
    """Before start() no open file holds the tokens; afterwards they are there, complete, and cannot be changed."""
    source = """
    if order["do"] == "train":
        def held():
            names = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit()
                     and os.path.islink(f"/proc/self/fd/{fd}")]
            return sum("tokens" in name for name in names)
        before, files = held(), len(fds)
        say({"say": "start"})
        _, (tokens,) = hear()
        try:
            os.pwrite(tokens, b"mine", 0)
        except PermissionError:
            save(steps=before * 100 + held(), tokens=os.fstat(tokens).st_size // 2, depth=files); done()
    else:
        serve(honest)
    """
    got = judged(source)
    assert (got.outcome, got.steps, got.tokens, got.depth) == (Outcome.OK, 1, 5000, 1)


@pytest.mark.parametrize(("number", "outcome"), [("math.nan", "nan"), ("math.inf", "nan"), ("-math.inf", "nan")])
def test_logits_that_are_not_finite_are_never_a_number(number: str, outcome: str) -> None:
    """NaN and both infinities, at a single place, end as nan."""
    source = TRAIN + f"""
else:
    def model(windows):
        out = honest(windows)
        out[-1][0][3] = {number}
        return out
    serve(model)
"""
    got = judged(source)
    assert (got.outcome, got.val_bpb) == (Outcome(outcome), None)


CHEATS = {
    "looks one token ahead": "[[after(t) if i + 1 == len(w) else [9.0 * (v == w[i + 1]) for v in range(16)]"
    " for i, t in enumerate(w)] for w in windows]",
    "looks at the last token of the window": "[[[x + 0.1 * w[-1] * (v == 3) for v, x in enumerate(after(t))] for t in w]"
    " for w in windows]",
}
RESTLESS = {
    "looks at the other windows": "(lambda total: [[[x + 1e-3 * total * (v == 3) for v, x in enumerate(after(t))] for t in w]"
    " for w in windows])(sum(map(sum, windows)))",
    "remembers what it was shown": "[[[x + 0.01 * (seen.append(t) or len(seen)) * (v == 3) for v, x in enumerate(after(t))]"
    " for t in w] for w in windows]",
    "is random": "[[[x + rng.random() * (v == 3) for v, x in enumerate(after(t))] for t in w] for w in windows]",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_prediction_that_depends_on_more_than_the_tokens_before_it_is_invalid(cheat: str) -> None:
    """The audit's process never saw the text; what it answers for a prefix must be what the scored one answered."""
    source = TRAIN + f"""
else:
    import random
    seen, rng = [], random.Random()
    serve(lambda windows: {CHEATS[cheat]})
"""
    got = judged(source)
    assert (got.outcome, got.val_bpb) == (Outcome.INVALID, None)
    assert "depends on more than the tokens before it" in got.reason


@pytest.mark.parametrize("restless", RESTLESS)
@pytest.mark.parametrize("commit", [False, True])
def test_scoring_that_is_not_deterministic_is_invalid_with_that_reason(restless: str, *, commit: bool) -> None:
    """A few windows are asked twice, at different times; the answers must agree."""
    source = TRAIN + f"""
else:
    import random
    seen, rng = [], random.Random()
    serve(lambda windows: {RESTLESS[restless]})
"""
    got = judged(source, defences=replace(CALM, commit=commit))
    assert (got.outcome, got.val_bpb) == (Outcome.INVALID, None)
    assert "not deterministic" in got.reason


def test_committed_numbers_give_the_same_score() -> None:
    """Whether whole distributions come over or one number a token, an honest candidate gets the same number."""
    got = judged(HONEST, vault=True, defences=replace(CALM, commit=True))
    assert (got.outcome, got.reason) == (Outcome.OK, "")
    assert got.val_bpb == pytest.approx(expected(DATA.public), rel=1e-6)
    assert got.vault_bpb == pytest.approx(expected(DATA.vault), rel=1e-6)


@pytest.mark.parametrize(
    ("serving", "outcome", "reason"),
    [
        ("raise RuntimeError('size mismatch for wte.weight')", "crash", "size mismatch"),
        ("os._exit(1)", "crash", "exit status 1 while it was scored"),
        ("say({'say': 'scored', 'slot': 0})", "invalid", "out of turn"),
        ("serve(lambda windows: os._exit(0))", "crash", "exit status 0 while it was scored"),
    ],
)
def test_a_failed_scoring_has_an_outcome_a_reason_and_no_number(serving: str, outcome: str, reason: str) -> None:
    """Dying or talking nonsense while being scored is the candidate's own loss."""
    got = judged(TRAIN + f"else:\n    {serving}")
    assert (got.outcome, got.val_bpb) == (Outcome(outcome), None)
    assert reason in got.reason


def test_memory_short_while_scoring_is_tried_once_more_with_half_the_batch() -> None:
    """Good training is not lost to the judge's own batch size; a second failure is final."""
    once = TRAIN + """
else:
    if order["rows"] > 40: raise MemoryError()
    serve(honest)
"""
    assert judged(once).val_bpb == pytest.approx(expected(DATA.public), rel=1e-6)
    assert judged(TRAIN + "else:\n    raise MemoryError()").outcome is Outcome.OOM


def test_the_scorer_is_a_new_process_with_nothing_but_the_checkpoint() -> None:
    """Files left in /tmp by training are not there, and the checkpoint is what was saved."""
    source = """
    if order["do"] == "train":
        start(); open("/tmp/note", "w").write("from training"); save(checkpoint(numbers=(1.5, 2.5))); done()
    else:
        content = os.pread(fds[1], 1000, 0)
        assert array.array("f", content[-8:]).tolist() == [1.5, 2.5]
        assert not os.path.exists("/tmp/note") or not BOXED
        serve(honest)
    """
    assert judged(source.replace("BOXED", str(BOXED))).outcome is Outcome.OK


def test_unsandboxed_says_so() -> None:
    """Without a sandbox the measurement works and its record says that there was none."""
    got = judged(HONEST, boxed=False)
    assert (got.outcome, got.sandboxed) == (Outcome.OK, False)


def test_a_required_sandbox_that_is_missing_is_refused(tmp_path: Path) -> None:
    """Nothing runs, and the words say what to do."""
    bench = Bench(Cores.split(os.sched_getaffinity(0)), boxed=False, gpu=False, session=BYTES)
    with pytest.raises(SandboxError):
        measure(job(HONEST, Asked(sandbox="required")), bench, tmp_path, lambda *_: None)


def document(header: object, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype: object, shape: object, begin: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        b"\xff" * 100,
        (0).to_bytes(8, "little") + b"{}",
        document([1, 2], b""),
        document({"w": 3}, b""),
        document({"w": entry("F32", [1], 0, 4), "__metadata__": {"a": "b"}}, bytes(4)),
        document({"w": entry("I32", [1], 0, 4)}, bytes(4)),
        document({"w": entry("U8", [4], 0, 4)}, bytes(4)),
        document({"w": entry(["F32"], [1], 0, 4)}, bytes(4)),
        document({"w": entry("F32", [2], 0, 4)}, bytes(4)),
        document({"w": entry("F32", [-1], 0, -4)}, b""),
        document({"w": entry("F32", [1.0], 0, 4)}, bytes(4)),
        document({"w": entry("F32", [True], 0, 4)}, bytes(4)),
        document({"w": entry("F32", [1], 0, 4)}, bytes(8)),
        document({"w": entry("F32", [1], 4, 8)}, bytes(8)),
        document({"w": entry("F32", [1], 0, 4), "v": entry("F32", [1], 0, 4)}, bytes(4)),
        document({"w": entry("F32", [10**30], 0, 4 * 10**30)}, bytes(4)),
        (30).to_bytes(8, "little") + b"[" * 30,
    ],
)
def test_a_checkpoint_that_is_not_plain_float_tensors_is_refused(content: bytes) -> None:
    """Garbage, gaps, overlaps, integers, lies about sizes: invalid with the reason, never an exception of ours."""
    with pytest.raises(Failed, match="the checkpoint was refused") as caught:
        checked(frozen("checkpoint", content))
    assert caught.value.outcome is Outcome.INVALID


def test_a_checkpoint_that_is_too_large_is_refused() -> None:
    """The cap is on the file, whatever its header says."""
    fd = os.memfd_create("big", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 2**30 + 1)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, FROZEN)
    with pytest.raises(Failed, match="bytes, allowed are"):
        checked(fd)
    os.close(fd)


def test_a_checkpoint_that_can_still_be_changed_is_refused() -> None:
    """Sealed against resizing only is not sealed."""
    fd = os.memfd_create("open", os.MFD_ALLOW_SEALING)
    os.write(fd, document({"w": entry("F32", [1], 0, 4)}, bytes(4)))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, FROZEN & ~fcntl.F_SEAL_WRITE)
    with pytest.raises(Failed, match="not a sealed memory file"):
        checked(fd)
    os.close(fd)


def test_a_good_checkpoint_is_counted() -> None:
    """Several tensors of several types, one of them empty."""
    header = {"a": entry("F32", [2, 3], 0, 24), "b": entry("BF16", [4], 24, 32), "c": entry("F16", [0, 5], 32, 32)}
    assert checked(frozen("checkpoint", document(header, bytes(32)))) == 10


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_every_token_is_predicted_exactly_once_from_the_one_before_it(lengths: list[int], context: int) -> None:
    """Windows cover each document without overlap; padding is never scored."""
    documents = tuple((np.arange(n) % 13).astype(np.uint16) for n in lengths)
    pile = score.windows([HeldOut(tokens=documents, nbytes=1)], bos=14, context=context)
    assert pile.scored.sum() == sum(lengths)
    assert pile.targets[pile.scored].tolist() == [int(t) for d in documents for t in d]
    assert pile.inputs[pile.scored].tolist() == [t for d in documents for t in [14, *map(int, d[:-1])]]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_judge_normalises_as_the_textbook_does(seed: int) -> None:
    """Nats agree with scipy's log-sum-exp in float64 to float32's precision, also for large logits."""
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((3, 5, 50)) * random.choice([0.1, 10, 300])).astype(np.float32)
    targets = random.integers(0, 50, (3, 5)).astype(np.uint16)
    scored = np.arange(5) < random.integers(1, 6, (3, 1))
    exact = logsumexp(logits.astype(np.float64), axis=-1) - np.take_along_axis(logits, targets[..., None].astype(int), -1)[..., 0]
    got = bits.surprise(logits.copy(), targets, scored)
    assert got == pytest.approx(exact * scored, rel=1e-5, abs=1e-4)


def test_a_prefix_shows_the_true_tokens_up_to_its_cut_and_none_after() -> None:
    """What follows the cut is made up anew: it agrees with the text no more often than chance."""
    pile = score.windows([texts(3)], bos=BOS, context=CONTEXT)
    random = np.random.default_rng(0)
    sample = audit.draw(pile.scored, 256, random)
    shown = audit.prefixes(pile.inputs, sample, VOCAB, random)
    true = np.arange(CONTEXT) <= sample.cuts[:, None]
    assert len(set(sample.rows.tolist())) == len(sample.rows) == 256
    assert (shown == pile.inputs[sample.rows])[true].all()
    assert (shown == pile.inputs[sample.rows])[~true].mean() < 0.12
    assert pile.scored[sample.rows, sample.cuts].all()


@given(st.integers(2, 400))
@settings(max_examples=50, deadline=None)
def test_a_few_windows_are_asked_twice(count: int) -> None:
    """Every window is in the order; those that are in it twice are once in each half."""
    order, doubled = audit.twice(count, np.random.default_rng(count))
    assert sorted(order.tolist()) == sorted([*range(count), *doubled])
    assert len(doubled) == min(audit.REPEATS, count // 2)
    assert doubled <= set(order[: count // 2].tolist())
    assert doubled <= set(order[count // 2 :].tolist())


def test_lies_that_pay_are_looked_at() -> None:
    """Half of the prefixes go where there was most gain over the incumbent: one lie in a thousand tokens is hit by any few."""
    scored = np.ones((500, 20), dtype=bool)
    gain = np.random.default_rng(1).normal(0, 0.001, scored.shape)
    gain.ravel()[::1000] = 3.0
    hits = [gain[s.rows, s.cuts].max() for k in range(50) for s in [audit.draw_gains(gain, 10, np.random.default_rng(k))]]
    assert min(hits) == 3.0
    blind = [gain[s.rows, s.cuts].max() for k in range(50) for s in [audit.draw(scored, 20, np.random.default_rng(k))]]
    assert np.mean(np.array(blind) == 3.0) < 0.2


def test_gains_are_drawn_in_proportion_once_each_and_only_where_there_are_any() -> None:
    """Of two positions with weights 1 and 3 the second comes first in three of four cases; losses are never drawn."""
    gain = np.array([[1.0, -5.0, 0.0], [3.0, -1.0, 0.0]])
    draws = [audit.draw_gains(gain, 1, np.random.default_rng(k)).rows[0] for k in range(2000)]
    assert np.mean(draws) == pytest.approx(0.75, abs=0.04)
    all_of_them = audit.draw_gains(gain, 5, np.random.default_rng(0))
    assert sorted(zip(all_of_them.rows.tolist(), all_of_them.cuts.tolist(), strict=True)) == [(0, 0), (1, 0)]
    assert audit.draw_gains(-np.abs(gain), 5, np.random.default_rng(0)).rows.size == 0


def test_control_characters_are_taken_out_of_text_for_people() -> None:
    """Terminal sequences go whole; line ends and tabs stay."""
    assert inert("a\x1b[31mb\u202e\r\n\tc\x00") == "ab\n\tc"


TORCH = '''
import torch
from torch import nn
from trainer import session as contract

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = nn.Embedding(contract.VOCAB_SIZE, contract.VOCAB_SIZE)
    def forward(self, tokens):
        return self.logits(tokens)

def build():
    return Table()

def train(model, session):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    session.start()
    for x, y in session.batches(8, contract.CONTEXT):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        session.log(loss=loss.item(), depth=1)
    session.save(model)
'''
COUNTING = Prepared(
    vocab_size=VOCAB, context=CONTEXT, bos=BOS, digest="counting", folder=Path("/nowhere"),
    train=np.arange(5000, dtype=np.uint16) % VOCAB,
    public=HeldOut(tokens=(np.arange(999, dtype=np.uint16) % VOCAB,) * 3, nbytes=3 * 999), vault=texts(1),
)  # fmt: skip


def test_a_real_model_learns_inside_the_sandbox() -> None:
    """Real torch, real session, made-up text that counts: learned within two seconds, saved in time, audited."""
    got = judged(TORCH, data=COUNTING, session=SESSION, budget=2.0, startup=60.0)
    assert got.outcome is Outcome.OK, got
    assert got.val_bpb is not None
    assert got.val_bpb < 0.8  # 4 bits a token before
    assert got.params == VOCAB * VOCAB
    assert got.depth == 1
    assert got.steps > 10
    assert 0.2 < got.training_seconds <= 2.0
    assert got.peak_memory_mb > 100
    assert "torch 2" in got.fingerprint


def test_a_real_failure_reads_well() -> None:
    """More memory than the limit: out of memory, in torch's own words."""
    source = TORCH.replace("session.start()", "torch.empty(10**12)")
    got = judged(source, data=COUNTING, session=SESSION, budget=0.5, startup=60.0)
    assert (got.outcome, got.val_bpb) == (Outcome.OOM, None), got
    assert "can't allocate memory" in got.reason
    assert "torch.empty(10**12)" in got.log_tail


def test_the_session_refuses_mistakes_with_words_that_help() -> None:
    """No data before the clock, one start, only float tensors, both functions there."""
    torch = pytest.importorskip("torch")
    from trainer import session

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given = session.Session(session.Line(theirs.fileno()), seed=1, seconds=9.0)
    with pytest.raises(RuntimeError, match=r"before session\.batches"):
        next(given.batches(1, 1))
    tokens = frozen("tokens", np.array([1, 60000, 3], dtype=np.uint16).tobytes())
    socket.send_fds(ours, [json.dumps({"do": "go", "seconds": 5.0}).encode()], [tokens])
    given.start()
    x, y = next(given.batches(4, 2))
    assert (x[0].tolist(), y[0].tolist(), x.dtype) == ([1, 60000], [60000, 3], torch.int64)
    assert 4.0 < given.remaining() <= 5.0
    with pytest.raises(RuntimeError, match="called twice"):
        given.start()
    with pytest.raises(ValueError, match="do not fit"):
        next(given.batches(1, 3))
    with pytest.raises(ValueError, match=r"n is torch\.int64: a checkpoint holds only"):
        session.pack({"n": torch.zeros(2, dtype=torch.long)})
    order = {"vocab_size": 16, "context": 8, "device": "cpu", "seed": 1}
    with pytest.raises(AttributeError, match=r"train.py has no function build\(\)"):
        session._load(order, frozen("train.py", b"def train(model, session): pass"))
    given._line._socket.detach()
    for end in (ours, theirs):
        end.close()


def test_checkpoints_hold_what_was_packed() -> None:
    """The session's writer, the judge's reader and the session's reader agree, for all three types and an empty tensor."""
    torch = pytest.importorskip("torch")
    from trainer.session import pack, unpack

    state = {"a": torch.randn(3, 5), "b": torch.randn(7).bfloat16(), "c": torch.randn(2, 2).half(), "e": torch.empty(0, 4)}
    fd = pack(state)
    assert checked(fd) == 15 + 7 + 4
    again = unpack(fd)
    assert all(torch.equal(state[name], again[name]) and state[name].dtype == again[name].dtype for name in state)
    os.close(fd)


def test_a_float_array_is_four_bytes_here() -> None:
    """The byte candidates write C floats; on a machine where that is not float32 they prove nothing."""
    assert array.array("f").itemsize == 4
