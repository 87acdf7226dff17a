"""Ideas without a model: one constant of train.py gets another value, drawn by a seed from known moves.

For: the demo, tests, and a machine without a key or a network. Not for: research. It knows what kind of number a name stands
for, and a few moves that helped at the scale of the small CPU preset. It learns nothing, and its texts say so.

The module is the proposer: `name` and `propose`. A proposal is a function of the brief alone; luck is a hash of seed, source
and move. A move changes one literal of an upper-case constant at the top level of the file and leaves every other byte as it
is. Constants whose name says seed are left alone: a lucky seed is no improvement.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from bot.events import Edit
from bot.propose import Brief, Idea, NoIdea, apply
from bot.static import hash_of

name = "mutate"

Value = bool | int | float | str

OTHERS = 1.0  # weight of all moves together that are not in KNOWN
SEEN = 0.2  # times the weight of a move that the history names, there or back: it failed on an earlier base, or was merged

# (constant, from, to, weight, why), for models of at most SMALL width. Measured one by one at 10 s on one core; with these
# weights one of the first three is among six draws in 99 of 100 campaigns, and another move is first in about every second.
SMALL = 128
KNOWN: tuple[tuple[str, Value, Value, float, str], ...] = (
    ("BIGRAM_BUCKETS", 0, 4096, 0.5, "A table over pairs of tokens gives a short training what attention has no time to learn."),
    ("DIM", 128, 64, 0.5, "A narrower model takes more steps in the same time, and few steps are what holds it back."),
    ("DEPTH", 2, 1, 0.5, "One layer less takes more steps in the same time, and few steps are what holds it back."),
    ("SEQ_LEN", 128, 64, 0.1, "Shorter windows make a step cheaper; most of what a short training learns is local."),
    ("SOFTCAP", 15, 0, 0.1, "Squashing the logits costs time in every step, and small logits need no cap."),
    ("MLP_RATIO", 4, 2, 0.1, "A smaller MLP takes more steps in the same time."),
)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """NAME = literal. `line` is the source line without its end; the literal is its bytes start to end, `written` as there."""

    name: str
    value: Value
    line: str
    start: int
    end: int
    written: str


@dataclass(frozen=True, kw_only=True)
class Move:
    """Another value for a constant, how likely it is to be drawn among others, and why it might help."""

    constant: Constant
    value: Value
    weight: float
    why: str

    @property
    def literal(self) -> str:
        return _literal(self.constant.written, self.value)

    @property
    def title(self) -> str:
        return f"{self.constant.name} {self.constant.written} -> {self.literal}"

    @property
    def reverse(self) -> str:
        return f"{self.constant.name} {self.literal} -> {self.constant.written}"

    @property
    def edit(self) -> Edit:
        raw = self.constant.line.encode()
        new = raw[: self.constant.start] + self.literal.encode() + raw[self.constant.end :]
        return Edit(old=self.constant.line, new=new.decode())


def propose(brief: Brief) -> Idea | NoIdea:
    """A move that was not tried on this source and repeats nothing, or NoIdea (exhausted) when none is left."""
    try:
        known = moves(constants(brief.source))
    except (SyntaxError, ValueError) as error:
        return NoIdea(reason=f"train.py does not parse, so its constants cannot be found: {error}", exhausted=True)
    base = hash_of(brief.source)
    drawn = sorted(known, key=lambda move: _wait(brief, base, move))
    move = next((m for m in drawn if _is_new(brief, m)), None)
    if move is None:
        return NoIdea(reason=f"all {len(known)} known moves were tried on this base, or repeat what was tried", exhausted=True)
    return Idea(
        title=move.title,
        hypothesis=f"No model proposed this: it was drawn at random from a list of known moves. {move.why}",
        edits=(move.edit,),
        tags=(name, move.constant.name.lower()),
        proposer=name,
    )


def _is_new(brief: Brief, move: Move) -> bool:
    made = apply(brief.source, (move.edit,)) or brief.source
    return hash_of(made) not in brief.tried and not brief.refuses((move.edit,))


def _wait(brief: Brief, base: str, move: Move) -> float:
    """Exponential waiting times: the move with the shortest is a weighted draw, and so is the next one once it was tried.

    Source: Efraimidis and Spirakis 2006, weighted sampling without replacement.
    """
    text = f"{brief.seed}\0{base}\0{move.title}"
    luck = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") + 0.5) / 2**64
    seen = any(line.startswith((f"{move.title}:", f"{move.reverse}:")) for line in brief.history)
    return -math.log(luck) / (move.weight * (SEEN if seen else 1.0))


def constants(source: str) -> list[Constant]:
    """Those that a move may change: one literal, assigned once, on a line that occurs once. Raises SyntaxError, ValueError."""
    lines = source.split("\n")
    found = list(filter(None, (_constant(node, lines) for node in ast.parse(source).body)))
    often = Counter(constant.name for constant in found)
    return [constant for constant in found if often[constant.name] == 1 and source.count(constant.line) == 1]


def _constant(node: ast.stmt, lines: list[str]) -> Constant | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=named)], value=value):
            pass
        case ast.AnnAssign(target=ast.Name(id=named), value=ast.expr() as value):
            pass
        case _:
            return None
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", named) or value.end_lineno != node.lineno or value.end_col_offset is None:
        return None
    line = lines[node.lineno - 1]
    start, end = value.col_offset, value.end_col_offset  # in bytes of UTF-8
    written = line.encode()[start:end].decode(errors="replace")
    read = _read(value)
    if read is None or (isinstance(read, str) and written not in (f'"{read}"', f"'{read}'")):
        return None
    return Constant(name=named, value=read, line=line, start=start, end=end, written=written)


def _read(node: ast.expr) -> Value | None:
    """Of a literal, its negative, or a power of two like 2**18."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=ast.Constant(value=int() as power)) if 0 <= power < 64:
            return 1 << power
    return None


def _literal(written: str, value: Value) -> str:
    """In the manner of the old one."""
    if isinstance(value, str):
        return written[0] + value + written[-1]
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    if "**" in written and value > 0 and value.bit_count() == 1:
        return re.sub(r"\w+$", str(value.bit_length() - 1), written)
    return f"{value:_}" if "_" in written else str(value)


def moves(found: Iterable[Constant]) -> list[Move]:
    """All moves on these constants that keep CONSTRAINTS, none of them twice."""
    values = {constant.name: constant.value for constant in found}
    small = isinstance(width := values.get("DIM"), int) and width <= SMALL
    best = {(which, old, new): (weight, why) for which, old, new, weight, why in KNOWN if small}
    typed = [(c, v, why) for c in found for v, why in _others(c, values) if holds(values | {c.name: v}, {c.name})]
    usual = OTHERS / max(1, sum((c.name, c.value, v) not in best for c, v, _ in typed))
    made = []
    for c, v, why in typed:
        weight, words = best.get((c.name, c.value, v), (usual, why))
        made.append(Move(constant=c, value=v, weight=weight, why=words))
    return made


def _others(constant: Constant, values: Mapping[str, Value]) -> Iterator[tuple[Value, str]]:
    """Other values of its kind, each once, with the reason in words."""
    value = constant.value
    if re.search(LEFT_ALONE, constant.name) or (not isinstance(value, str) and abs(value) > LARGEST):
        return
    if isinstance(value, bool):
        yield not value, "A part of the model or of the training that is switched on or off shows whether it earns its time."
    elif isinstance(value, str):
        yield from ((other, "Another way to do the same may suit this budget better.") for other in _words(constant, values))
    else:
        for pattern, kind, why in KINDS:
            if re.search(pattern, constant.name):
                rounded = (_round(other, value) for other in kind(value))
                yield from ((other, why) for other in dict.fromkeys(rounded) if other != value)
                return


def _words(constant: Constant, values: Mapping[str, Value]) -> list[str]:
    """Attention spans: patterns that differ within the depth. Else what the comment of the line names in quotes."""
    value = str(constant.value)
    depth = values.get("DEPTH", 8)
    if "WINDOW" in constant.name and value and set(value) <= set("SL") and isinstance(depth, int) and depth <= DEEPEST:
        inner = {pattern: "".join(pattern[k % len(pattern)] for k in range(depth - 1)) for pattern in (value, *PATTERNS)}
        return list({spans: pattern for pattern, spans in reversed(inner.items()) if spans != inner[value]}.values())
    named = re.findall(r'"(\w+)"', constant.line.encode()[constant.end :].decode())
    return [word for word in dict.fromkeys(named) if word != value] if value in named else []


def _round(new: float, old: float) -> float:
    """To three digits, whole numbers staying whole, without the noise of binary fractions."""
    if isinstance(new, int) or (isinstance(old, int) and abs(old) > 1):
        return round(new)
    return float(f"{new:.3g}")


def _rate(value: float) -> list[float]:
    return [value * factor for factor in (0.5, 0.7, 1.4, 2.0)]


def _decay(value: float) -> list[float]:
    return [*_rate(value), 0.0] if value else [0.05, 0.2]


def _average(value: float) -> list[float]:
    """The memory of a running average is 1 / (1 - value) steps."""
    return [1 - (1 - value) * factor for factor in (0.5, 2.0) if 0 < 1 - (1 - value) * factor < 1]


def _fraction(value: float) -> list[float]:
    return [other for step in (-0.2, -0.1, -0.05, 0.05, 0.1, 0.2) if -1e-9 <= (other := value + step) <= 1 + 1e-9]


def _size(value: float) -> list[float]:
    """Powers of two: half and double. Neither for a number that is off or odd."""
    return [other for other in (value / 2, value * 2) if other >= 1 and other == int(other)]


def _width(value: float) -> list[float]:
    """Between half and double there are quarters, where the heads divide them."""
    return [other for other in (value / 2, value * 3 / 4, value * 5 / 4, value * 2) if other >= 1 and other == int(other)]


def _buckets(value: float) -> list[float]:
    return [value // 2, value * 2, 0] if value else [1024, 4096, 16384, 65536]


def _cap(value: float) -> list[float]:
    return [0, value * 2 / 3, value * 4 / 3, value * 2] if value else [15, 30]


def _count(value: float) -> list[float]:
    if value >= 20:
        return [value / 2, value * 2]
    return [other for other in (value - 1, value + 1) if other >= 1]


def _ratio(value: float) -> list[float]:
    return [other for other in (value / 2, value - 1, value + 1, value * 2) if other >= 1]


DEEPEST = 1000  # layers; a pattern is written out for all of them
LARGEST = 1e15  # beyond it a double is not exact, and no setting of a training is
PATTERNS = ("L", "SL", "SSL", "SSSL", "SSSSL")
LEFT_ALONE = r"SEED|FLOPS|VOCAB|^CPU_|(^|_)EPS$"  # luck, facts of a device, what the data prescribes, guards
KINDS: tuple[tuple[str, Callable[[float], list[float]], str], ...] = (
    (r"BETA\d?$|MOMENTUM(_START)?$", _average, "How far back an average looks should fit the number of steps in the budget."),
    (r"DECAY$", _decay, "How hard weights are pulled to zero should fit the length of the training."),
    (r"WARM|FRAC|FINAL", _fraction, "The shape of the schedule decides how much of the time is spent at which learning rate."),
    (r"(LR|BASE|INIT|STD|SCALE|LAMBDA)$", _rate, "The best value at this budget is not known; a large step shows the slope."),
    (r"CAP$", _cap, "The cap trades stability against the cost and the sharpness of the logits."),
    (r"BUCKETS$", _buckets, "A table over pairs of tokens is cheap to look up; its best size depends on the budget."),
    (r"(DEPTH|LAYERS|STEPS|HEADS)$", _count, "One more or one less trades the power of a step against the number of steps."),
    (r"RATIO$", _ratio, "The width of the MLP trades the power of a step against the number of steps."),
    (r"(?<!HEAD_)DIM$", _width, "The width of the model trades the power of a step against the number of steps."),
    (r"(BATCH|SIZE|DIM|WIDTH|WINDOW|LEN|TOKENS|CHANNELS)$", _size, "The size trades the power of a step against their number."),
)

# What must hold after a move on one of the named constants, where a file has them all.
CONSTRAINTS: tuple[tuple[tuple[str, ...], Callable[..., bool]], ...] = (
    (("DIM", "HEAD_DIM"), lambda dim, head: dim % head == 0),
    (("HEAD_DIM",), lambda head: head >= 8),  # rotary pairs, and room for a direction
    (("WARMUP", "WARMDOWN"), lambda up, down: up + down <= 1),
    (("BATCH", "DEVICE_BATCH"), lambda batch, rows: batch % rows == 0),
    (("SEQ_LEN",), lambda length: 16 <= length <= 2048),  # longer than what scoring shows is lost work
    (("SHORT_WINDOW", "SEQ_LEN"), lambda short, length: short < length),
)


def holds(values: Mapping[str, Value], moved: Set[str]) -> bool:
    """Whether CONSTRAINTS on what was moved hold. Those on a text or on a division by zero do not."""
    asked = [(names, rule) for names, rule in CONSTRAINTS if not moved.isdisjoint(names) and values.keys() >= set(names)]
    try:
        return all(rule(*(values[which] for which in names)) for names, rule in asked)
    except (ArithmeticError, TypeError):
        return False
