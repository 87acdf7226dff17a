"""A small GPT for one CPU thread and a ten second budget: the plain starting point of the demo and of the tests.

This is the sibling of `trainer/train.py`, kept small and deliberately untuned, so that simple edits still show a gain.
It is run by the judge inside a sandbox: `build()` makes the model (again in the scoring process, which loads the saved
weights), `train()` spends the budget. It does not read data, seed a generator, or measure the number that counts.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer import session as contract

# Model
DEPTH = 2  # transformer blocks
DIM = 128  # width of the residual stream
HEAD_DIM = 64  # width of one attention head
MLP_RATIO = 4  # hidden width of the MLP, in multiples of DIM
ACTIVATION = "relu2"  # of the MLP: "relu2" (squared ReLU) or "gelu"
WINDOW = "SSSL"  # attention span by layer, repeated: S looks back half of SEQ_LEN, L all of it; the last layer is always L
ROPE_BASE = 10_000  # base of the rotary frequencies
SOFTCAP = 15  # logits are squashed smoothly into +-SOFTCAP; 0 = off
VALUE_EMBEDDINGS = True  # every second layer mixes a per-token embedding into its attention values
BIGRAM_BUCKETS = 0  # rows of a hashed (previous token, token) embedding added to the input, for example 4096; 0 = off
X0_LAMBDA_INIT = 0.1  # how much of the input embedding each layer adds again, at the start

# Batch
SEQ_LEN = 128  # tokens of one training window
BATCH = 16  # windows of one step

# Optimizer
MATRIX_OPTIMIZER = "muon"  # of the matrices inside the blocks: "muon" or "adamw"
MATRIX_LR = 0.04  # learning rate of the matrices inside the blocks
EMBEDDING_LR = 0.6  # learning rate of all embeddings, at width 768
UNEMBEDDING_LR = 0.004  # learning rate of the output matrix, at width 768
SCALAR_LR = 0.5  # learning rate of the x0 scalars; the residual scalars take a hundredth
WEIGHT_DECAY = 0.2  # of the matrices inside the blocks, falling to 0 with the time left
ADAM_BETA1 = 0.8  # decay of AdamW's mean of gradients
ADAM_BETA2 = 0.95  # decay of AdamW's mean of squared gradients
MUON_MOMENTUM = 0.95  # Nesterov momentum of Muon once warm
MUON_MOMENTUM_STEPS = 300  # steps over which it rises there from 0.85
NS_STEPS = 5  # Newton-Schulz iterations that make an update orthogonal

# Schedule, in fractions of the time budget
WARMUP = 0.0  # the learning rate rises from 0
WARMDOWN = 0.5  # and falls to FINAL_LR at the end
FINAL_LR = 0.0  # last learning rate as a fraction of the full one


def norm(x: Tensor) -> Tensor:
    """Scale the last axis to root mean square 1; no learned gain."""
    return F.rms_norm(x, (x.size(-1),))


def rotary_tables(length: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, head_dim / 2] of the rotary embedding (Su et al. 2021, arXiv 2104.09864)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.outer(torch.arange(length).float(), frequency)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of channels of x [B, H, T, D] by the angle of its position."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)


def windows() -> list[int]:
    """How many tokens each layer sees, itself included. Never more than SEQ_LEN, the longest distance seen in training."""
    spans = {"S": max(1, SEQ_LEN // 2), "L": SEQ_LEN}
    return [spans[WINDOW[i % len(WINDOW)]] for i in range(DEPTH - 1)] + [SEQ_LEN]


def has_value_embedding(layer: int) -> bool:
    """Every second layer, counted so that the last one has it."""
    return VALUE_EMBEDDINGS and layer % 2 == (DEPTH - 1) % 2


class Attention(nn.Module):
    """Causal attention over the last `window` tokens, with normalised queries and keys."""

    def __init__(self, layer: int, window: int) -> None:
        super().__init__()
        self.heads = max(1, DIM // HEAD_DIM)
        self.window = window
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.gate_width = min(32, DIM)
        self.gate = nn.Linear(self.gate_width, self.heads, bias=False) if has_value_embedding(layer) else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, value: Tensor | None) -> Tensor:
        """x [B, T, DIM], value [B, T, DIM] or None -> [B, T, DIM]."""
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.gate is not None and value is not None:
            gate = 2 * torch.sigmoid(self.gate(x[..., : self.gate_width]))  # 1 at the start, by head
            v = v + gate.transpose(1, 2).unsqueeze(-1) * value.view(b, t, self.heads, -1).transpose(1, 2)
        q, k = norm(rotate(q, cos, sin)), norm(rotate(k, cos, sin))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(t, x.device), is_causal=self.window >= t)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))

    def mask(self, t: int, device: torch.device) -> Tensor | None:
        """True where row may look at column [t, t]; None where the plain causal mask does."""
        if self.window >= t:
            return None
        position = torch.arange(t, device=device)
        distance = position[:, None] - position[None, :]
        return (distance >= 0) & (distance < self.window)


class MLP(nn.Module):
    """Two matrices with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(DIM, int(MLP_RATIO * DIM), bias=False)
        self.down = nn.Linear(int(MLP_RATIO * DIM), DIM, bias=False)

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
        self.residual = nn.Parameter(torch.ones(DEPTH))
        self.x0 = nn.Parameter(torch.full((DEPTH,), float(X0_LAMBDA_INIT)))
        self.head = nn.Linear(DIM, vocab, bias=False)
        cos, sin = rotary_tables(max(contract.CONTEXT, SEQ_LEN), DIM // max(1, DIM // HEAD_DIM))
        self.register_buffer("cos", cos, persistent=False)  # not weights: the checkpoint holds none of it
        self.register_buffer("sin", sin, persistent=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Each block starts as nothing added (its last matrices are 0) and the logits start near 0."""
        bound = math.sqrt(3 / DIM)
        for name, parameter in self.named_parameters():
            if name == "wte.weight":
                nn.init.normal_(parameter)
            elif name == "head.weight":
                nn.init.normal_(parameter, std=0.001)
            elif name.endswith(("out.weight", "down.weight", "gate.weight", "bigram.weight")):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(self, tokens: Tensor) -> Tensor:
        """int64 [B, T] with T <= CONTEXT -> float logits [B, T, VOCAB_SIZE]."""
        t = tokens.size(1)
        cos, sin = self.cos[:t], self.sin[:t]
        x = self.wte(tokens)
        if self.bigram is not None:
            x = x + self.bigram(pair_bucket(tokens))
        x = start = norm(x)
        for i, block in enumerate(self.blocks):
            x = self.residual[i] * x + self.x0[i] * start
            value = self.values[str(i)](tokens) if has_value_embedding(i) else None
            x = block(x, cos, sin, value)
        logits: Tensor = self.head(norm(x)).float()
        return SOFTCAP * torch.tanh(logits / SOFTCAP) if SOFTCAP else logits


def pair_bucket(tokens: Tensor) -> Tensor:
    """A bucket in [0, BIGRAM_BUCKETS) for each (previous token, token); the first token's previous one is 0. [B, T] -> [B, T]"""
    previous = F.pad(tokens[:, :-1], (1, 0))
    return (previous * 36_313 ^ tokens * 27_191) % BIGRAM_BUCKETS


def orthogonal(g: Tensor) -> Tensor:
    """The nearest matrix with all singular values about 1, for each of g [N, rows, columns], by Newton-Schulz.

    Coefficients from Keller Jordan's Muon (kellerjordan.github.io/posts/muon). In float32: most CPUs only emulate bfloat16.
    """
    tall = g.size(-2) > g.size(-1)
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NS_STEPS):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon:
    """Momentum, made orthogonal, made even over rows; matrices of one shape go through it together."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        shapes = sorted({tuple(p.shape) for p in parameters})
        self.groups = [[p for p in parameters if tuple(p.shape) == shape] for shape in shapes]
        self.momentum = [torch.zeros_like(torch.stack(g)) for g in self.groups]
        self.variance = [torch.zeros_like(m[..., :1]) for m in self.momentum]

    @torch.no_grad()
    def step(self, lr: float, momentum: float, decay: float) -> None:
        """One update of every group. `decay` only pulls where it agrees with the gradient (arXiv 2510.12402)."""
        for group, mean, variance in zip(self.groups, self.momentum, self.variance, strict=True):
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            mean.lerp_(gradient, 1 - momentum)
            update = even_rows(orthogonal(gradient.lerp(mean, momentum)), variance)
            scale = lr * max(1.0, update.size(-2) / update.size(-1)) ** 0.5
            for p, u in zip(group, update, strict=True):
                p.sub_(u + decay * p * (u * p >= 0), alpha=scale)


def even_rows(update: Tensor, variance: Tensor) -> Tensor:
    """Divide each row by its running root mean square, keeping each matrix's norm (NorMuon, arXiv 2510.05491)."""
    size = update.norm(dim=(-2, -1), keepdim=True)
    variance.lerp_(update.square().mean(dim=-1, keepdim=True), 0.05)
    update = update * variance.clamp_min(1e-10).rsqrt()
    return update * (size / update.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-10))


class Optimizers:
    """Muon for the matrices inside the blocks, AdamW for the rest; one `step` for both."""

    def __init__(self, model: GPT) -> None:
        matrices = list(model.blocks.parameters())
        embeddings = [model.wte.weight, *model.values.parameters()] + ([] if model.bigram is None else [model.bigram.weight])
        wide = (DIM / 768) ** -0.5  # the learning rates were found at width 768
        groups: list[tuple[list[nn.Parameter], float]] = [
            (embeddings, EMBEDDING_LR * wide),
            ([model.head.weight], UNEMBEDDING_LR * wide),
            ([model.residual], SCALAR_LR * 0.01),
            ([model.x0], SCALAR_LR),
            ([] if MATRIX_OPTIMIZER == "muon" else matrices, MATRIX_LR),
        ]
        self.muon = Muon(matrices) if MATRIX_OPTIMIZER == "muon" else None
        self.adam = torch.optim.AdamW(
            [{"params": params, "lr": lr, "full": lr} for params, lr in groups if params],
            betas=(ADAM_BETA1, ADAM_BETA2), eps=1e-10, weight_decay=0.0, fused=True,
        )  # fmt: skip

    def step(self, step: int, progress: float) -> None:
        """One update at `progress` in [0, 1] of the budget."""
        factor = lr_factor(progress)
        for group in self.adam.param_groups:
            group["lr"] = group["full"] * factor
        self.adam.step()
        if self.muon is not None:
            warm = min(1.0, step / max(1, MUON_MOMENTUM_STEPS))
            momentum = 0.85 + warm * (MUON_MOMENTUM - 0.85)
            self.muon.step(MATRIX_LR * factor, momentum, WEIGHT_DECAY * (1 - progress))


def lr_factor(progress: float) -> float:
    """Multiplier of every learning rate: up over WARMUP, flat, down to FINAL_LR over WARMDOWN."""
    if progress < WARMUP:
        return progress / WARMUP
    left = min(1.0, (1 - progress) / WARMDOWN) if WARMDOWN else 1.0
    return FINAL_LR + left * (1 - FINAL_LR)


def build() -> GPT:
    """The model on the contract's device: int64 [B, T] -> logits [B, T, VOCAB_SIZE]."""
    return GPT().to(contract.DEVICE)


def train(model: GPT, session: contract.Session) -> None:
    """Spend the budget, then save once."""
    optimizers = Optimizers(model)
    session.start()
    for step, (x, y) in enumerate(session.batches(BATCH, SEQ_LEN)):
        progress = min(1.0, max(0.0, 1 - session.remaining() / session.seconds))
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()
        optimizers.step(step, progress)
        session.log(step=step, loss=loss.item(), depth=DEPTH)
    session.save(model)
