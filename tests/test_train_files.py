"""The live train.py and the small example against their contract, on made-up tokens and with a step count for a clock.

Not about how well they learn: that is what a measurement says.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainer import session as contract

ROOT = Path(__file__).parent.parent
VOCAB = 96
LIVE = ROOT / "trainer" / "train.py"
EXAMPLE = ROOT / "examples" / "cpu" / "train.py"
BOTH = pytest.mark.parametrize("path", [LIVE, EXAMPLE], ids=["live", "example"])

CONTEXT = 32

# Both files with their sizes cut down until a step takes milliseconds.
TINY: dict[str, object] = {"DEPTH": 3, "DIM": 32, "HEAD_DIM": 16, "SEQ_LEN": 32}
SMALL: dict[Path, dict[str, object]] = {
    LIVE: TINY | {"SHORT_WINDOW": 8, "CPU_BATCH": 4, "VALUE_GATE_WIDTH": 8},
    EXAMPLE: TINY | {"BATCH": 4},
}

# Single edits that people and mutation tools make first; each has to run. (The two of MATRIX_OPTIMIZER are one edit.)
EDITS: list[dict[str, object]] = [
    {"BIGRAM_BUCKETS": 4096},
    {"DIM": 16},
    {"DIM": 48},
    {"DEPTH": 1},
    {"DEPTH": 4},
    {"SEQ_LEN": 16},
    {"HEAD_DIM": 128},
    {"SOFTCAP": 0},
    {"UNEMBEDDING_LR": 0.008},
    {"WEIGHT_DECAY": 0.0},
    {"ACTIVATION": "gelu"},
    {"MATRIX_LR": 0.08},
    {"WARMDOWN": 0.8},
    {"WARMDOWN": 0.0},
    {"WARMUP": 0.5},
    {"WINDOW": "L"},
    {"BATCH": 8},
    {"MLP_RATIO": 2},
    {"VALUE_EMBEDDINGS": False},
    {"NS_STEPS": 3},
    {"NS_STEPS": 8},
    {"MATRIX_OPTIMIZER": "adamw", "MATRIX_LR": 0.01},
]


class Session:
    """A clock that counts steps, and a text that repeats every seven tokens."""

    seconds = 10.0

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self.started = False
        self.saved: list[dict[str, Tensor]] = []
        self.logged: list[dict[str, float]] = []

    def start(self) -> None:
        assert not self.started
        self.started = True

    def remaining(self) -> float:
        return self.seconds * (1 - self.done / self.steps)

    def batches(self, rows: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
        assert self.started
        while self.done < self.steps:
            text = (torch.arange(length + 1) + torch.arange(rows)[:, None]) % 7
            yield text[:, :-1].contiguous(), text[:, 1:].contiguous()
            self.done += 1

    def save(self, model: nn.Module) -> None:
        self.saved.append({name: tensor.clone() for name, tensor in model.state_dict().items()})

    def log(self, **numbers: float) -> None:
        self.logged.append(numbers)


def edited(source: str, edits: dict[str, object]) -> str:
    """The source with constants of its top block replaced."""
    for name, value in edits.items():
        source, count = re.subn(rf"^{name} = .*?(?=  #)", f"{name} = {value!r}", source, flags=re.M)
        assert count == 1, f"{name} is not one constant with a comment"
    return source


Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Load(path, **edits): one of the files as a module, small, edited, under a contract that is put back afterwards."""
    before = contract.VOCAB_SIZE, contract.CONTEXT, contract.DEVICE
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the sandbox; at this size more threads only wait for each other

    def loader(path: Path, *, vocab: int = VOCAB, replace: str = "", **edits: object) -> ModuleType:
        contract.VOCAB_SIZE, contract.CONTEXT, contract.DEVICE = vocab, CONTEXT, "cpu"
        source = edited(path.read_text(), {**SMALL[path], **edits})
        file = tmp_path / "train.py"
        file.write_text(source.replace(replace, "True") if replace else source)
        spec = importlib.util.spec_from_file_location("candidate", file)
        assert spec and spec.loader
        module = sys.modules["candidate"] = importlib.util.module_from_spec(spec)
        torch.manual_seed(1)
        spec.loader.exec_module(module)
        return module

    yield loader
    sys.modules.pop("candidate", None)
    contract.VOCAB_SIZE, contract.CONTEXT, contract.DEVICE = before
    torch.set_num_threads(threads)


def tokens(rows: int, length: int) -> Tensor:
    """Made-up tokens."""
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(5))


def stirred(model: Any) -> Any:
    """The model with every weight drawn anew: at its own start each block adds nothing, which would hide most mistakes."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 8)
    return model


def constants(path: Path) -> list[ast.Assign]:
    """The UPPER_CASE assignments before the first function or class."""
    block = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            break
        if isinstance(node, ast.Assign):
            block.append(node)
    return block


@BOTH
@torch.no_grad()
def test_the_model_answers_every_token_with_a_logit_for_each_word(load: Load, path: Path) -> None:
    """build() gives float32 logits [B, T, V], finite and within the soft cap."""
    logits = stirred(load(path).build())(tokens(3, CONTEXT))
    assert logits.shape == (3, CONTEXT, VOCAB)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()
    assert 0 < logits.abs().max() <= 15


@BOTH
def test_the_loss_falls_on_a_text_that_repeats(load: Load, path: Path) -> None:
    """A dozen steps on a text that repeats halve the loss, and the last weights are saved once."""
    train = load(path)
    session = Session(14)
    train.train(train.build(), session)
    losses = [entry["loss"] for entry in session.logged]
    assert losses[0] == pytest.approx(4.56, abs=0.05)  # ln 96: nothing known
    assert losses[-1] < losses[0] / 2
    assert session.logged[-1]["depth"] == train.DEPTH
    assert len(session.saved) == 1
    assert session.done == len(losses) == 14


@BOTH
@torch.no_grad()
@pytest.mark.parametrize("bigram", [0, 512])
def test_later_tokens_leave_earlier_logits_bit_identical(load: Load, path: Path, bigram: int) -> None:
    """Whatever follows a position, its logits are the same to the last bit; its own token does change them."""
    length = CONTEXT
    model = stirred(load(path, BIGRAM_BUCKETS=bigram).build())
    one = tokens(2, length)
    two = one.clone()
    two[:, length // 2 :] = (two[:, length // 2 :] + 1) % VOCAB
    before, after = model(one), model(two)
    assert torch.equal(before[:, : length // 2], after[:, : length // 2])
    assert (before[:, length // 2] != after[:, length // 2]).any(dim=-1).all()


@BOTH
@torch.no_grad()
def test_the_same_tokens_give_the_same_logits_again(load: Load, path: Path) -> None:
    """Scoring is deterministic: the same windows answer alike twice."""
    model = stirred(load(path).build())
    windows = tokens(2, CONTEXT)
    assert torch.equal(model(windows), model(windows))


@BOTH
@torch.no_grad()
def test_a_checkpoint_is_floats_only_and_enough(load: Load, path: Path) -> None:
    """The saved state is plain float tensors without rotary tables, and a fresh build() with it is the same model."""
    train = load(path)
    model = stirred(train.build())
    state = model.state_dict()
    assert all(tensor.dtype in (torch.float32, torch.bfloat16, torch.float16) for tensor in state.values())
    assert not {"cos", "sin"} & set(state)
    torch.manual_seed(2)
    again = train.build()
    again.load_state_dict(state)
    assert torch.equal(again(tokens(2, 16)), model(tokens(2, 16)))


@BOTH
@torch.no_grad()
@pytest.mark.parametrize("length", [1, 5, 0])
def test_scoring_may_use_any_length_up_to_the_context(load: Load, path: Path, length: int) -> None:
    """A window may be shorter than the training windows, or, when these are shorter than CONTEXT, longer."""
    length = length or CONTEXT
    model = stirred(load(path, SEQ_LEN=16).build())
    assert model(tokens(2, length)).shape == (2, length, VOCAB)


@BOTH
@torch.no_grad()
def test_a_short_layer_sees_its_window_and_no_further(load: Load, path: Path) -> None:
    """In an S layer a token moves the outputs of its window alone; in the last layer those of all that follow."""
    train = load(path)
    model = stirred(train.build())
    length = CONTEXT
    x = torch.randn(1, length, train.DIM, generator=torch.Generator().manual_seed(3))
    moved = x.clone()
    moved[:, 0] += 1
    for block, window in ((model.blocks[0], train.windows()[0]), (model.blocks[-1], length)):
        cos, sin = model.cos[:length], model.sin[:length]
        one, two = (block.attention(each, cos, sin, None) for each in (x, moved))
        changed = (one != two).any(dim=-1)[0].tolist()
        assert changed == [position < window for position in range(length)]
    assert train.windows()[0] < length


@BOTH
def test_every_constant_is_a_literal_with_a_comment(path: Path) -> None:
    """A mutation tool can move each constant of the top block, and a reader knows what it is."""
    lines = path.read_text().splitlines()
    block = constants(path)
    assert len(block) > 20
    for node in block:
        line = lines[node.lineno - 1]
        assert re.fullmatch(r"[A-Z][A-Z0-9_]+ = [^#]+?  # \S.*", line), line
        assert isinstance(ast.literal_eval(node.value), int | float | str), line


@BOTH
def test_no_seed_is_set_and_nothing_else_is_imported(path: Path) -> None:
    """The seed belongs to the judge; the file needs torch, the standard library and the contract only."""
    names, imported = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute | ast.Name):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert not [name for name in names if "seed" in name.lower()]
    assert imported <= {"torch", "trainer"} | sys.stdlib_module_names


@BOTH
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: "-".join(f"{k}={v}" for k, v in edit.items()))
def test_every_known_edit_runs(load: Load, path: Path, edit: dict[str, object]) -> None:
    """Each single edit builds, steps, learns something and scores."""
    if path == LIVE and "BATCH" in edit:
        edit = {"CPU_BATCH": 8}
    train = load(path, **edit)
    model = train.build()
    session = Session(8)
    train.train(model, session)
    losses = [entry["loss"] for entry in session.logged]
    assert losses[-1] < losses[0]
    assert model(tokens(1, CONTEXT)).isfinite().all()


@BOTH
def test_another_vocabulary_needs_no_edit(load: Load, path: Path) -> None:
    """The size of the vocabulary comes from the contract alone."""
    model = load(path, vocab=200).build()
    assert model(tokens(1, 8)).shape == (1, 8, 200)


@BOTH
def test_an_update_is_made_orthogonal(load: Load, path: Path) -> None:
    """The matrix step has singular values near one, whatever the shape and scale of the gradient."""
    train = load(path)
    for shape in ((2, 64, 16), (2, 16, 64)):
        values = torch.linalg.svdvals(train.orthogonal(1000 * torch.randn(shape)))
        assert 0.6 < values.min() <= values.max() < 1.3


@BOTH
def test_the_learning_rate_falls_to_its_end(load: Load, path: Path) -> None:
    """Full until the warmdown, then down in a line to FINAL_LR at the end of the budget."""
    train = load(path, WARMUP=0.1, WARMDOWN=0.5, FINAL_LR=0.2)
    factors = [train.lr_factor(progress) for progress in (0.0, 0.05, 0.1, 0.5, 0.75, 1.0)]
    assert factors == pytest.approx([0.0, 0.5, 1.0, 1.0, 0.6, 0.2])


def test_a_batch_in_parts_is_the_same_step(load: Load) -> None:
    """The gradients of a batch taken in parts sum to those of the whole batch."""
    steps = []
    for part in (4, 1):
        train = load(LIVE, DEVICE_BATCH=part)
        model = stirred(train.build())
        windows = tokens(4, 32)
        loss = train.Step(model)(windows, windows.roll(-1, 1), 0, 0.0)
        steps.append((loss, *model.parameters()))
    for whole, parts in zip(*steps, strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-3, atol=1e-4)


def test_warming_up_leaves_no_trace(load: Load) -> None:
    """After the warm-up on made-up tokens the weights are the initial ones and the next step is the same as without it."""
    results = []
    for warm in (False, True):
        train = load(LIVE)
        model = stirred(train.build())
        step = train.Step(model)
        if warm:
            step.warm_up(4, 32)
        windows = tokens(4, 32)
        step(windows, windows.roll(-1, 1), 0, 0.0)
        results.append(model.state_dict())
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_a_loss_that_is_lost_ends_the_run_early(load: Load) -> None:
    """Once the loss is not a number the live file stops and hands over what it has, so that the judge sees it at once."""
    train = load(LIVE, EMBEDDING_LR=1e38, SOFTCAP=0)
    session = Session(60)
    train.train(train.build(), session)
    assert session.done < 10
    assert len(session.saved) == 1


def test_the_gpu_branch_traces_in_bfloat16(load: Load) -> None:
    """On shape-only tensors the flash attention branch runs forward, backward and through Muon: float32 weights and logits."""
    train = load(LIVE, replace="q.is_cuda")
    contract.DEVICE = "cuda"
    with torch.device("meta"):
        model = train.GPT()
        windows = torch.zeros(4, 32, dtype=torch.int64)
        assert model.cos.dtype == torch.bfloat16
        train.loss_of(model, windows, windows).backward()
        assert {parameter.grad.dtype for parameter in model.parameters()} == {torch.float32}
        train.Muon(list(model.blocks.parameters())).step(0.1, 0.9, 0.1)
        assert model(windows).shape == (4, 32, VOCAB)
        assert model(windows).dtype == torch.float32


def test_half_precision_is_the_same_model(load: Load) -> None:
    """What a GPU computes with, bfloat16 activations over float32 weights, gives the float32 answer within its rounding."""
    train = load(LIVE)
    model = stirred(train.build())
    windows = tokens(4, 32)
    exact = model(windows).detach()
    contract.DEVICE = "cuda"  # only the type: these tensors are on the CPU
    half = train.GPT()
    half.load_state_dict(model.state_dict())
    train.loss_of(half, windows, windows).backward()
    train.Muon(list(half.blocks.parameters())).step(0.0, 0.9, 0.1)
    error = (half(windows) - exact).detach()
    assert 0 < error.square().mean().sqrt() < 0.05 * exact.square().mean().sqrt()


def test_the_live_file_starts_from_the_public_record() -> None:
    """The constants are those that the public H100 run kept, down to its last row."""
    kept = {"DEPTH": 9, "DIM": 512, "WINDOW": "SSSSL", "SHORT_WINDOW": 256, "ROPE_BASE": 200_000, "X0_LAMBDA_INIT": 0.05,
            "EMBEDDING_LR": 0.9, "UNEMBEDDING_LR": 0.005, "FINAL_LR": 0.05, "WARMDOWN": 0.75, "MUON_MOMENTUM_STEPS": 200,
            "HEAD_DECAY": 0.01, "INIT_SCALE": 0.68, "EMBEDDING_DECAY": 0.001, "VALUE_DECAY": 0.003}  # fmt: skip
    found = {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in constants(LIVE)}
    assert {name: found[name] for name in kept} == kept
    assert found["BATCH"] * found["SEQ_LEN"] == 2**18
    assert found["BATCH"] % found["DEVICE_BATCH"] == 0
