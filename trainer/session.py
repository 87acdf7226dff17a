"""The contract of train.py, and the program that runs it inside the sandbox: `python session.py FD ROLE`.

train.py defines two functions and finds three values here (`from trainer import session as contract`):

    build() -> nn.Module            tokens [B, T] int64 -> logits [B, T, VOCAB_SIZE]; called again, elsewhere, for scoring
    train(model, session) -> None   may compile and warm up on made-up tokens, then calls session.start(): the clock runs
                                    and there is data; what session.save() handed over last before the end is the result
    VOCAB_SIZE, CONTEXT, DEVICE     tokens in the vocabulary; longest T that scoring uses; "cpu" or "cuda"

It is not the judge. All of this lives in the same process as train.py, so nothing that it says is trusted: the supervisor
(evaluator/measure.py) at the other end of socket FD has its own clock, its own data and its own arithmetic. One process, one
order ("train" or "score"), one use. Packets are JSON, bulk data comes and goes as sealed memory files.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import math
import mmap
import os
import socket
import sys
import tempfile
import time
import traceback
import types
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

VOCAB_SIZE = 0
CONTEXT = 0
DEVICE = "cpu"

PACKET = 65536  # bytes, the most in one packet
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
STEP_MARGIN = 1.25  # a step may take this many times the slowest of the recent ones
SAVE_SECONDS = 0.15  # kept for handing over a checkpoint, beside its bytes
SAVE_RATE = 300e6  # bytes a second
LOG_EVERY = 0.5  # seconds between two progress packets


class Line:
    """Our end of the socket to the supervisor."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def say(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        socket.send_fds(self._socket, [json.dumps(message).encode()[:PACKET]], list(fds))

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        """The next order with its files. The supervisor gone means that we are not wanted any more."""
        data, fds, _, _ = socket.recv_fds(self._socket, PACKET, 8)
        if not data:
            os._exit(0)
        message: dict[str, Any] = json.loads(data)
        return message, fds


class Session:
    """What train() is given: the clock, the data, and where to leave the result."""

    def __init__(self, line: Line, *, seed: int, seconds: float) -> None:
        self.seconds = seconds  # the whole budget
        self._line = line
        self._deadline = math.inf
        self._tokens: torch.Tensor | None = None
        self._random = torch.Generator().manual_seed(seed)
        self._reserve = SAVE_SECONDS
        self._facts: dict[str, float] = {"steps": 0, "tokens": 0}
        self._told = 0.0

    def start(self) -> None:
        """Start the clock. The training text is here from now on, and was not before."""
        if self._tokens is not None:
            raise RuntimeError("session.start() was called twice: the clock starts once")
        self._line.say({"say": "start"})
        order, fds = self._line.hear()
        self._deadline = time.monotonic() + float(order["seconds"])
        self._tokens = torch.frombuffer(_mapped(fds[0], private=True), dtype=torch.int16)

    def remaining(self) -> float:
        """Seconds to the deadline; the whole budget before start()."""
        return min(self.seconds, self._deadline - time.monotonic())

    def batches(self, rows: int, length: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Random windows (x, y), int64 [rows, length] each on DEVICE, y one token ahead of x.

        Ends by itself when the time left is not enough for one more step as slow as the recent ones and a save.
        """
        if self._tokens is None:
            raise RuntimeError("call session.start() before session.batches(): there is no data before the clock runs")
        if not 0 < length < len(self._tokens):
            raise ValueError(f"windows of {length} tokens do not fit into {len(self._tokens)} tokens of training text")
        span = torch.arange(length + 1)
        recent: deque[float] = deque(maxlen=16)
        while self.remaining() > STEP_MARGIN * max(recent, default=0.0) + self._reserve:
            begun = time.monotonic()
            first = torch.randint(len(self._tokens) - length, (rows, 1), generator=self._random)
            window = (self._tokens[first + span].to(torch.int64) & 0xFFFF).to(DEVICE)  # stored as uint16
            yield window[:, :-1].contiguous(), window[:, 1:].contiguous()
            self._settle()
            recent.append(time.monotonic() - begun)
            self._facts["steps"] += 1
            self._facts["tokens"] += rows * length

    def _settle(self) -> None:
        """Near the end wait for the GPU's queue, so that the clock of a step is the time that it really takes."""
        if DEVICE == "cuda" and self.remaining() < 0.05 * self.seconds + self._reserve:
            torch.cuda.synchronize()

    def save(self, model: torch.nn.Module) -> None:
        """Hand over the model as it is; the last one that arrives inside the clock is the result.

        Only float32, bfloat16 and float16 tensors; a compiled model is saved under its plain names.
        """
        begun = time.monotonic()
        state = {_plain(name): tensor for name, tensor in model.state_dict().items()}
        fd = pack(state)
        self._line.say({"say": "save", "facts": self._all_facts()}, [fd])
        os.close(fd)
        self._reserve = max(self._reserve, SAVE_SECONDS + 1.5 * (time.monotonic() - begun))

    def log(self, **numbers: float) -> None:
        """Numbers for people (step, loss, lr, depth, mfu_percent ...); cheap enough for every step."""
        self._facts |= {name: float(value) for name, value in numbers.items()}
        if time.monotonic() - self._told >= LOG_EVERY:
            self._told = time.monotonic()
            print(" ".join(f"{name} {value:.6g}" for name, value in self._facts.items()), flush=True)
            self._line.say({"say": "log", "facts": self._all_facts()})

    def expect(self, model: torch.nn.Module) -> None:
        """Keep time for handing over a model of this size."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
        self._reserve = max(self._reserve, SAVE_SECONDS + size / SAVE_RATE)

    def _all_facts(self) -> dict[str, float]:
        if DEVICE == "cuda":
            self._facts["peak_vram_mb"] = torch.cuda.max_memory_allocated() / 2**20
        return {name: value for name, value in self._facts.items() if math.isfinite(value)}


def _plain(name: str) -> str:
    """Without what torch.compile adds, to the whole model or to parts of it."""
    return name.replace("_orig_mod.", "")


def pack(state: dict[str, torch.Tensor]) -> int:
    """A sealed memory file in the safetensors format: 8 bytes of header length, JSON header, the raw numbers.

    Format: https://github.com/huggingface/safetensors#format. Widest types first, so that every tensor is aligned.
    """
    order = sorted(state.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in order:
        if tensor.dtype not in DTYPES:
            raise ValueError(f"{name} is {tensor.dtype}: a checkpoint holds only float32, bfloat16 and float16 tensors")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    fd = os.memfd_create("checkpoint", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    _write(fd, memoryview(len(text).to_bytes(8, "little") + text))
    for _, tensor in order:
        _write(fd, tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def unpack(fd: int) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint."""
    blob = _mapped(fd, private=True)
    start = 8 + int.from_bytes(blob[:8], "little")
    kinds = {name: dtype for dtype, name in DTYPES.items()}
    state = {}
    for name, entry in json.loads(blob[8:start]).items():
        begin, end = entry["data_offsets"]
        dtype = kinds[entry["dtype"]]
        flat = torch.empty(0, dtype=dtype)
        if end > begin:
            flat = torch.frombuffer(blob, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        state[name] = flat.view(entry["shape"]).clone()
    return state


def _write(fd: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(fd, data) :]


def _mapped(fd: int, *, private: bool) -> mmap.mmap:
    """The file as memory. `private`: what is written stays here, which a read-only file allows."""
    return mmap.mmap(fd, 0, access=mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE)


def _load(order: dict[str, Any], source: int) -> types.ModuleType:
    """train.py as a module, from a real file so that tracebacks and compilers can show its lines."""
    global VOCAB_SIZE, CONTEXT, DEVICE
    VOCAB_SIZE, CONTEXT, DEVICE = order["vocab_size"], order["context"], order["device"]
    if DEVICE == "cpu":
        torch.set_num_threads(1)
    path = Path(tempfile.mkdtemp()) / "train.py"
    path.write_bytes(os.pread(source, os.fstat(source).st_size, 0))
    spec = importlib.util.spec_from_file_location("train", path)
    assert spec and spec.loader
    module = sys.modules["train"] = importlib.util.module_from_spec(spec)
    torch.manual_seed(order["seed"])
    spec.loader.exec_module(module)
    for name in ("build", "train"):
        if not callable(getattr(module, name, None)):
            raise AttributeError(f"train.py has no function {name}(): see trainer/session.py for what it must define")
    return module


def _build(module: types.ModuleType, seed: int) -> torch.nn.Module:
    """The same seed in every process, so that what build() draws and does not save is the same too."""
    torch.manual_seed(seed)
    model: torch.nn.Module = module.build().to(DEVICE)
    return model


def _train(line: Line, order: dict[str, Any], fds: list[int]) -> None:
    module = _load(order, fds[0])
    model = _build(module, order["seed"])
    session = Session(line, seed=order["seed"], seconds=order["seconds"])
    session.expect(model)
    module.train(model, session)
    line.say({"say": "done", "facts": session._all_facts()})


def _score(line: Line, order: dict[str, Any], fds: list[int]) -> None:
    """Answer batches of windows until we are killed; slots alternate, so that the judge can read one meanwhile.

    The last column of what is asked is, by the kind of answers: nothing; the last next token; the one position that is asked.
    """
    source, checkpoint, tokens, answers = fds
    model = _build(_load(order, source), order["seed"])
    names = {_plain(name): name for name in model.state_dict()}
    model.load_state_dict({names.get(name, name): tensor for name, tensor in unpack(checkpoint).items()})
    model.eval().requires_grad_(False)
    question = (order["slots"], order["rows"], CONTEXT + 1)
    each = {"distributions": (CONTEXT, VOCAB_SIZE), "numbers": (CONTEXT,), "ends": (VOCAB_SIZE,)}[order["answers"]]
    asked = torch.frombuffer(_mapped(tokens, private=False), dtype=torch.int32).view(question)
    answer = torch.frombuffer(_mapped(answers, private=False), dtype=torch.float32).view(*question[:2], *each)
    line.say({"say": "loaded"})
    while True:
        batch, _ = line.hear()
        slot = batch["slot"]
        with torch.no_grad():
            answer[slot].copy_(_answer(model, order["answers"], asked[slot].to(DEVICE, torch.int64)))
        line.say({"say": "scored", "slot": slot})


def _answer(model: torch.nn.Module, kind: str, asked: torch.Tensor) -> torch.Tensor:
    """Logits of all positions, log-probabilities of the next tokens, or logits of one position of each window."""
    inputs, last = asked[:, :-1].contiguous(), asked[:, -1:]
    out = model(inputs)
    if tuple(out.shape) != (*inputs.shape, VOCAB_SIZE):
        raise ValueError(f"the model returned {tuple(out.shape)} for {len(inputs)} windows of {CONTEXT} tokens, "
                         f"not {(*inputs.shape, VOCAB_SIZE)}")  # fmt: skip
    if kind == "distributions":
        return out  # type: ignore[no-any-return]
    if kind == "ends":
        return out.gather(1, last[:, :, None].expand(-1, -1, VOCAB_SIZE))[:, 0]  # type: ignore[no-any-return]
    targets = torch.cat((inputs[:, 1:], last), dim=1)
    loss = torch.nn.functional.cross_entropy(out.flatten(0, 1).float(), targets.flatten(), reduction="none")
    return -loss.view(targets.shape)


def _as_contract() -> None:
    """`from trainer import session` inside train.py means this running module, not a second copy."""
    package = types.ModuleType("trainer")
    package.session = sys.modules["trainer.session"] = sys.modules[__name__]  # type: ignore[attr-defined]
    sys.modules["trainer"] = package


def _warm_up(role: str) -> None:
    """Pay now for what torch does at first use: loading kernels, and the 1.8 s import behind the first optimizer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.ones(8, 8))
    loss = torch.nn.functional.cross_entropy(weight @ weight, torch.zeros(8, dtype=torch.int64))
    if role == "train":
        torch.autograd.backward(loss)
        torch.optim.AdamW([weight]).step()
    else:  # where malloc keeps what it has (evaluator/bench.py), a first batch of logits finds its pages there
        held = [torch.ones(2**22) for _ in range(4)]
        del held
    torch.set_num_threads(threads)


def main() -> None:
    """Say ready, take one order, do it, and wait to be killed."""
    line = Line(int(sys.argv[1]))
    _as_contract()
    _warm_up(sys.argv[2])
    line.say({"say": "ready", "torch": torch.__version__, "cuda": torch.cuda.is_available()})
    order, fds = line.hear()
    try:
        {"train": _train, "score": _score}[order["do"]](line, order, fds)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a candidate are its own too
        traceback.print_exc()
        sys.stderr.flush()
        line.say({"say": "failed", "error": f"{type(error).__name__}: {error}"[:2000]})
    line.hear()


if __name__ == "__main__":
    main()
