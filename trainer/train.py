"""The thing under study: a GPT pretrained for a fixed time, judged by the bits per byte it needs for unseen text.

This is the one file that a candidate edits. The judge runs it in a sandbox: `build()` makes the model (and once more in
the scoring process, which loads the saved weights), `train()` spends the budget. It is written for one recent NVIDIA GPU
(Ampere or later); on a CPU the same code runs in float32, uncompiled and slowly. It does not read data, seed a generator,
or measure the number that counts. Where it starts from: the edits kept in a public 8 H100-hour run of Karpathy's
autoresearch (github.com/karpathy/autoresearch, 8 March 2026), 0.9979 to 0.9697 bits per byte there.
"""

from __future__ import annotations

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from trainer import session as contract

# Model
DEPTH = 9  # transformer blocks
DIM = 512  # width of the residual stream
HEAD_DIM = 128  # width of one attention head
MLP_RATIO = 4  # hidden width of the MLP, in multiples of DIM
ACTIVATION = "relu2"  # of the MLP: "relu2" (squared ReLU) or "gelu"
WINDOW = "SSSSL"  # attention span by layer, repeated: S = SHORT_WINDOW, L = SEQ_LEN; the last layer is always L
SHORT_WINDOW = 256  # tokens that an S layer looks back, itself included
ROPE_BASE = 200_000  # base of the rotary frequencies
SOFTCAP = 15  # logits are squashed smoothly into +-SOFTCAP; 0 = off
VALUE_EMBEDDINGS = True  # every second layer mixes a per-token embedding into its attention values
VALUE_GATE_WIDTH = 32  # channels that decide, by head, how much of it
BIGRAM_BUCKETS = 0  # rows of a hashed (previous token, token) embedding added to the input, for example 65536; 0 = off
RESIDUAL_INIT = 1.0  # how much of the stream each layer carries on, at the start
X0_LAMBDA_INIT = 0.05  # how much of the input embedding each layer adds again, at the start
INIT_SCALE = 0.68  # of the uniform initial matrices, in multiples of 1 / sqrt(DIM) standard deviation
HEAD_INIT = 0.001  # standard deviation of the initial output matrix

# Batch
SEQ_LEN = 2048  # tokens of one training window, at most the contract's CONTEXT
BATCH = 128  # windows of one step: 2^18 tokens
DEVICE_BATCH = 64  # windows that go through the GPU at once; the gradients of BATCH / DEVICE_BATCH such parts are summed
CPU_BATCH = 8  # windows of one step on a CPU, where a full batch would take minutes

# Optimizer
MATRIX_OPTIMIZER = "muon"  # of the matrices inside the blocks: "muon" or "adamw"
MATRIX_LR = 0.04  # learning rate of the matrices inside the blocks
EMBEDDING_LR = 0.9  # learning rate of all embeddings, at width 768
UNEMBEDDING_LR = 0.005  # learning rate of the output matrix, at width 768
SCALAR_LR = 0.5  # learning rate of the x0 scalars
RESIDUAL_LR = 0.005  # learning rate of the residual scalars
WEIGHT_DECAY = 0.2  # of the matrices inside the blocks, falling to 0 with the time left
EMBEDDING_DECAY = 0.001  # weight decay of the token embeddings
VALUE_DECAY = 0.003  # weight decay of the value embeddings
HEAD_DECAY = 0.01  # weight decay of the output matrix
ADAM_BETA1 = 0.8  # decay of AdamW's mean of gradients
ADAM_BETA2 = 0.95  # decay of AdamW's mean of squared gradients
X0_BETA1 = 0.96  # decay of AdamW's mean of gradients, for the x0 scalars
ADAM_EPS = 1e-10  # added to AdamW's denominator
MUON_MOMENTUM = 0.95  # Nesterov momentum of Muon once warm
MUON_MOMENTUM_START = 0.85  # and at the first step
MUON_MOMENTUM_STEPS = 200  # steps over which it rises
MUON_BETA2 = 0.95  # decay of Muon's mean of squared updates by row or column
NS_STEPS = 5  # iterations that make an update orthogonal

# Schedule, in fractions of the time budget
WARMUP = 0.0  # the learning rate rises from 0
WARMDOWN = 0.75  # and falls to FINAL_LR at the end
FINAL_LR = 0.05  # last learning rate as a fraction of the full one

# Report
LOSS_MEMORY = 0.9  # decay of the smoothed loss that is logged
PEAK_FLOPS = 989.5e12  # dense bfloat16 peak of an H100 SXM: half of the 1,979 teraFLOPS (sparse) in NVIDIA's data sheet


def compute_dtype() -> torch.dtype:
    """What activations are made of; parameters stay float32. Most CPUs only emulate bfloat16."""
    return torch.bfloat16 if contract.DEVICE == "cuda" else torch.float32


def heads() -> int:
    """Attention heads of a layer."""
    return max(1, DIM // HEAD_DIM)


def windows() -> list[int]:
    """How many tokens each layer sees, itself included. Never more than SEQ_LEN, the longest distance seen in training."""
    spans = {"S": min(SHORT_WINDOW, SEQ_LEN), "L": SEQ_LEN}
    return [spans[WINDOW[i % len(WINDOW)]] for i in range(DEPTH - 1)] + [SEQ_LEN]


def has_value_embedding(layer: int) -> bool:
    """Every second layer, counted so that the last one has it."""
    return VALUE_EMBEDDINGS and layer % 2 == (DEPTH - 1) % 2


# --- model ---


def norm(x: Tensor) -> Tensor:
    """Scale the last axis to root mean square 1; no learned gain."""
    return F.rms_norm(x, (x.size(-1),))


def rotary_tables(length: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, 1, head_dim / 2] of the rotary embedding (Su et al. 2021, arXiv 2104.09864)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.outer(torch.arange(length).float(), frequency)[:, None, :]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of channels of x [B, T, H, D] by the angle of its position."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)


def attend(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Causal attention over the last `window` tokens: q, k, v [B, T, H, D] -> [B, T, H, D].

    On a GPU the flash kernel skips what lies outside the window; on a CPU the plain one masks it.
    """
    b, t, h, d = q.shape
    if q.is_cuda:
        starts = torch.arange(0, (b + 1) * t, t, dtype=torch.int32, device=q.device)
        span = (-1, 0) if window >= t else (window - 1, 0)  # the kernel counts tokens before this one; -1 = all
        q, k, v = (x.reshape(b * t, h, d) for x in (q, k, v))
        return varlen_attn(q, k, v, starts, starts, t, t, window_size=span).view(b, t, h, d)
    position = torch.arange(t, device=q.device)
    distance = position[:, None] - position[None, :]
    mask = (distance >= 0) & (distance < window)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


class Linear(nn.Linear):
    """A matrix without bias, kept in float32 and applied in the type of its input."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]."""
        return F.linear(x, self.weight.to(x.dtype))


class Attention(nn.Module):
    """Causal windowed attention with normalised queries and keys and gated value embeddings."""

    def __init__(self, layer: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.q = Linear(DIM, DIM)
        self.k = Linear(DIM, DIM)
        self.v = Linear(DIM, DIM)
        self.out = Linear(DIM, DIM)
        self.gate = Linear(min(VALUE_GATE_WIDTH, DIM), heads()) if has_value_embedding(layer) else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, value: Tensor | None) -> Tensor:
        """x [B, T, DIM], value [B, T, DIM] or None -> [B, T, DIM]."""
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, heads(), -1) for f in (self.q, self.k, self.v))
        if self.gate is not None and value is not None:
            gate = 2 * torch.sigmoid(self.gate(x[..., : self.gate.in_features]))  # 1 at the start
            v = v + gate.unsqueeze(-1) * value.view(b, t, heads(), -1)
        q, k = norm(rotate(q, cos, sin)), norm(rotate(k, cos, sin))
        return self.out(attend(q, k, v, self.window).reshape(b, t, DIM))


class MLP(nn.Module):
    """Two matrices with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = Linear(DIM, int(MLP_RATIO * DIM))
        self.down = Linear(int(MLP_RATIO * DIM), DIM)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, DIM] -> [B, T, DIM]."""
        hidden = self.up(x)
        return self.down(F.gelu(hidden) if ACTIVATION == "gelu" else F.relu(hidden).square())


class Block(nn.Module):
    """Attention, then MLP, each added to the stream."""

    def __init__(self, layer: int, window: int) -> None:
        super().__init__()
        self.attention = Attention(layer, window)
        self.mlp = MLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, value: Tensor | None) -> Tensor:
        """[B, T, DIM] -> [B, T, DIM]."""
        x = x + self.attention(norm(x), cos, sin, value)
        return x + self.mlp(norm(x))


class GPT(nn.Module):
    """Tokens in, logits out; a position sees itself and what came before it."""

    cos: Tensor
    sin: Tensor

    def __init__(self) -> None:
        super().__init__()
        vocab = contract.VOCAB_SIZE
        self.wte = nn.Embedding(vocab, DIM)
        self.bigram = nn.Embedding(BIGRAM_BUCKETS, DIM) if BIGRAM_BUCKETS else None
        self.blocks = nn.ModuleList(Block(i, window) for i, window in enumerate(windows()))
        self.values = nn.ModuleDict({str(i): nn.Embedding(vocab, DIM) for i in range(DEPTH) if has_value_embedding(i)})
        self.residual = nn.Parameter(torch.full((DEPTH,), float(RESIDUAL_INIT)))
        self.x0 = nn.Parameter(torch.full((DEPTH,), float(X0_LAMBDA_INIT)))
        self.head = Linear(DIM, vocab)
        cos, sin = rotary_tables(max(contract.CONTEXT, SEQ_LEN), DIM // heads())
        self.register_buffer("cos", cos.to(compute_dtype()), persistent=False)  # not weights: no part of the checkpoint
        self.register_buffer("sin", sin.to(compute_dtype()), persistent=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Each block starts as nothing added (its last matrices are 0) and the logits start near 0."""
        bound = INIT_SCALE * math.sqrt(3 / DIM)
        for name, parameter in self.named_parameters():
            if name == "wte.weight":
                nn.init.normal_(parameter)
            elif name == "head.weight":
                nn.init.normal_(parameter, std=HEAD_INIT)
            elif name.endswith(("out.weight", "down.weight", "gate.weight", "bigram.weight")):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(self, tokens: Tensor) -> Tensor:
        """int64 [B, T] with T <= CONTEXT -> float32 logits [B, T, VOCAB_SIZE]."""
        t = tokens.size(1)
        cos, sin = self.cos[:t], self.sin[:t]
        x = self.wte(tokens)
        if self.bigram is not None:
            x = x + self.bigram(pair_bucket(tokens))
        x = start = norm(x.to(compute_dtype()))
        for i, block in enumerate(self.blocks):
            x = self.residual[i] * x + self.x0[i] * start
            value = self.values[str(i)](tokens).to(x.dtype) if has_value_embedding(i) else None
            x = block(x, cos, sin, value)
        logits: Tensor = self.head(norm(x)).float()
        return SOFTCAP * torch.tanh(logits / SOFTCAP) if SOFTCAP else logits


def pair_bucket(tokens: Tensor) -> Tensor:
    """A bucket in [0, BIGRAM_BUCKETS) for each (previous token, token); the first token's previous one is 0. [B, T] -> [B, T]"""
    previous = F.pad(tokens[:, :-1], (1, 0))
    return (previous * 36_313 ^ tokens * 27_191) % BIGRAM_BUCKETS


def build() -> GPT:
    """The model on the contract's device: int64 [B, T] -> logits [B, T, VOCAB_SIZE]."""
    return GPT().to(contract.DEVICE)


def flops_per_token(model: GPT, length: int) -> float:
    """Floating point operations of one token forward and backward: 6 per weight of a matrix, 12 per channel and token seen
    (PaLM, arXiv 2204.02311, appendix B, with each layer's own window)."""
    weights = sum(p.numel() for p in model.blocks.parameters()) + model.head.weight.numel()
    return 6.0 * weights + sum(12.0 * DIM * min(window, length) for window in windows())


# --- optimizer ---

# Polar Express (Amsel et al. 2025, arXiv 2505.16932): the best odd quintic for each iteration in turn, not a setting.
POLAR = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def orthogonal(g: Tensor) -> Tensor:
    """The nearest matrix with all singular values about 1, for each of g [N, rows, columns], in the compute type."""
    x = g.to(compute_dtype())
    x = x.mT if (tall := g.size(-2) > g.size(-1)) else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.02 + 1e-6)
    for i in range(NS_STEPS):
        a, b, c = POLAR[min(i, len(POLAR) - 1)]
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(g.dtype)


def even(update: Tensor, variance: Tensor) -> Tensor:
    """Divide each row (each column of a wide matrix) by its running root mean square `variance`, which is brought up to date,
    keeping each matrix's norm (NorMuon, arXiv 2510.05491)."""
    size = update.norm(dim=(-2, -1), keepdim=True)
    variance.lerp_(update.square().mean(dim=short_side(update), keepdim=True), 1 - MUON_BETA2)
    update = update * variance.clamp_min(1e-10).rsqrt()
    return update * (size / update.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-10))


def short_side(matrix: Tensor) -> int:
    """The axis of [..., rows, columns] that is the shorter."""
    return -1 if matrix.size(-2) >= matrix.size(-1) else -2


class Muon:
    """Momentum, made orthogonal, made even; matrices of one shape go through it together (kellerjordan.github.io/posts/muon)."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        shapes = sorted({tuple(p.shape) for p in parameters})
        self.groups = [[p for p in parameters if tuple(p.shape) == shape] for shape in shapes]
        self.momentum = [torch.zeros_like(torch.stack(group)) for group in self.groups]
        self.variance = [torch.zeros_like(m.mean(dim=short_side(m), keepdim=True)) for m in self.momentum]

    @torch.no_grad()
    def step(self, lr: float, momentum: float, decay: float) -> None:
        """One update of every group. `decay` only pulls where it agrees with the update (arXiv 2510.12402)."""
        for group, mean, variance in zip(self.groups, self.momentum, self.variance, strict=True):
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            mean.lerp_(gradient, 1 - momentum)
            update = even(orthogonal(gradient.lerp_(mean, momentum)), variance)
            weights = torch.stack(group)
            update += decay * weights * (update * weights >= 0)
            scale = lr * max(1.0, update.size(-2) / update.size(-1)) ** 0.5
            torch._foreach_sub_(group, list(update.mul_(scale).unbind()))


class Optimizers:
    """Muon for the matrices inside the blocks, AdamW for the rest; one `step` for both."""

    def __init__(self, model: GPT) -> None:
        matrices = list(model.blocks.parameters())
        wide = (DIM / 768) ** -0.5  # the learning rates were found at width 768
        groups = [
            adam_group([model.wte.weight], EMBEDDING_LR * wide, decay=EMBEDDING_DECAY),
            adam_group([] if model.bigram is None else [model.bigram.weight], EMBEDDING_LR * wide, decay=EMBEDDING_DECAY),
            adam_group(list(model.values.parameters()), EMBEDDING_LR * wide, decay=VALUE_DECAY),
            adam_group([model.head.weight], UNEMBEDDING_LR * wide, decay=HEAD_DECAY),
            adam_group([model.residual], RESIDUAL_LR),
            adam_group([model.x0], SCALAR_LR, beta1=X0_BETA1),
            adam_group([] if MATRIX_OPTIMIZER == "muon" else matrices, MATRIX_LR),
        ]
        self.adam = torch.optim.AdamW([g for g in groups if g["params"]], eps=ADAM_EPS, fused=True)
        self.muon = Muon(matrices) if MATRIX_OPTIMIZER == "muon" else None

    def step(self, step: int, progress: float) -> None:
        """One update, number `step` from 0, at `progress` in [0, 1] of the budget."""
        factor = lr_factor(progress)
        for group in self.adam.param_groups:
            group["lr"] = group["full"] * factor
        self.adam.step()
        if self.muon is not None:
            warm = min(1.0, step / max(1, MUON_MOMENTUM_STEPS))
            momentum = MUON_MOMENTUM_START + warm * (MUON_MOMENTUM - MUON_MOMENTUM_START)
            self.muon.step(MATRIX_LR * factor, momentum, WEIGHT_DECAY * (1 - progress))


def adam_group(
    params: list[nn.Parameter], lr: float, *, decay: float = 0.0, beta1: float = ADAM_BETA1
) -> dict[str, object]:
    """One parameter group of AdamW; `full` keeps the learning rate that the schedule multiplies."""
    return {"params": params, "lr": lr, "full": lr, "weight_decay": decay, "betas": (beta1, ADAM_BETA2)}


def lr_factor(progress: float) -> float:
    """Multiplier of every learning rate: up over WARMUP, flat, down to FINAL_LR over WARMDOWN."""
    if progress < WARMUP:
        return progress / WARMUP
    left = min(1.0, (1 - progress) / WARMDOWN) if WARMDOWN else 1.0
    return FINAL_LR + left * (1 - FINAL_LR)


# --- training ---


def loss_of(model: GPT, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in nats of the next tokens y [B, T], given x [B, T]."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


class Step:
    """One whole update, the batch taken in parts that fit; compiled on a GPU."""

    def __init__(self, model: GPT) -> None:
        self.model = model
        self.optimizers = Optimizers(model)
        self.loss_of = torch.compile(loss_of, dynamic=False) if contract.DEVICE == "cuda" else loss_of

    def __call__(self, x: Tensor, y: Tensor, step: int, progress: float) -> Tensor:
        """Update on x, y [B, T] int64 and return the mean loss in nats, a scalar that the GPU may still be working on."""
        parts = max(1, x.size(0) // DEVICE_BATCH)
        total = torch.zeros((), device=x.device)
        for part_x, part_y in zip(x.chunk(parts), y.chunk(parts), strict=True):
            loss = self.loss_of(self.model, part_x.contiguous(), part_y.contiguous()) / parts
            loss.backward()
            total += loss.detach()
        self.optimizers.step(step, progress)
        self.model.zero_grad(set_to_none=True)
        return total

    def warm_up(self, batch: int, length: int) -> None:
        """Compile and allocate on made-up tokens, then put weights and optimizers back as they were."""
        before = {name: p.detach().clone() for name, p in self.model.state_dict().items()}
        tokens = torch.randint(contract.VOCAB_SIZE, (batch, length), device=contract.DEVICE)
        for _ in range(2):  # the second one shows the allocator the state that the first one left
            self(tokens, tokens, 0, 0.0)
        self.model.load_state_dict(before)
        self.optimizers = Optimizers(self.model)


class Report:
    """Numbers for people about each step. It lags a step behind, so that reading the loss does not leave the GPU idle."""

    def __init__(self, model: GPT, session: contract.Session, length: int) -> None:
        self.session = session
        self.flops = flops_per_token(model, length)
        self.began = time.monotonic()
        self.steps = 0
        self.smooth = 0.0

    def step(self, loss: float, tokens: int, progress: float) -> bool:
        """Log one step of `tokens` tokens with its loss in nats; False when that is not a finite number."""
        self.steps += 1
        self.smooth = LOSS_MEMORY * self.smooth + (1 - LOSS_MEMORY) * loss
        rate = self.steps * tokens / (time.monotonic() - self.began)
        shown = {"lr": MATRIX_LR * lr_factor(progress), "tokens_per_second": rate}
        if contract.DEVICE == "cuda":
            shown["mfu_percent"] = 100 * rate * self.flops / PEAK_FLOPS
        mean = self.smooth / (1 - LOSS_MEMORY**self.steps)
        self.session.log(step=self.steps, loss=mean, depth=DEPTH, **shown)
        return math.isfinite(loss)


def train(model: GPT, session: contract.Session) -> None:
    """Warm up outside the clock, spend the budget, save once."""
    length = min(SEQ_LEN, contract.CONTEXT)
    batch = BATCH if contract.DEVICE == "cuda" else CPU_BATCH
    update = Step(model)
    if contract.DEVICE == "cuda":
        update.warm_up(batch, length)
    session.start()
    report = Report(model, session, length)
    pending = None
    for step, (x, y) in enumerate(session.batches(batch, length)):
        progress = min(1.0, max(0.0, 1 - session.remaining() / session.seconds))
        previous, pending = pending, update(x, y, step, progress)
        if previous is not None and not report.step(previous.item(), x.numel(), progress):
            break  # the loss will not come back: let the judge see it now instead of at the deadline
    else:
        if pending is not None:
            report.step(pending.item(), x.numel(), progress)
    session.save(model)
