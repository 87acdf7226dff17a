"""Ways in which a model's code can see tokens that come later, or remember what it was shown: the score would mean nothing.

Looked at are the functions that run while a model is scored: the roots (`forward`), and what they call by name. As in gaming.py
the form of the code decides, so that a model that looks ahead in another form passes here; the judge compares answers for whole
windows with answers for their beginnings, and sees it. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from bot.propose.gaming import Code, Found, at, last

ATTENTION = frozenset(
    {"scaled_dot_product_attention", "varlen_attn", "flash_attn_func", "flash_attn_varlen_func", "flex_attention"}
)
MASKS = frozenset({"tril", "triu", "tril_", "triu_", "create_block_mask"})
ACROSS = re.compile(
    r"^(torch\.nn\.)?(BatchNorm[123]d|SyncBatchNorm|InstanceNorm[123]d|LazyBatchNorm[123]d)$|\.(batch|instance)_norm$"
)
POSITION = re.compile(r"(distance|position|row|col|column|query|key|idx|pos)s?(_|$)")
GROWS = frozenset({"add", "append", "appendleft", "clear", "extend", "insert", "pop", "setdefault", "update"})
SHAPE = frozenset(
    {"shape", "size", "device", "dtype", "ndim", "dim", "numel", "is_cuda", "new_zeros", "new_ones", "new_full", "new_empty"}
)


def found(tree: ast.Module, given: frozenset[str], roots: frozenset[str]) -> list[Found]:
    """All of it, by line."""
    code = Code.of(tree, given)
    scored = functions(code, roots)
    inside = [one for function in scored for rule in RULES for one in rule(code, function)]
    return sorted([*inside, *_layers(code)], key=lambda one: one.line)


def lost(before: ast.Module, after: ast.Module, given: frozenset[str], roots: frozenset[str]) -> list[Found]:
    """A causal mask that was there and is gone, with nothing in its place, while there is still attention."""
    old, new = Code.of(before, given), Code.of(after, given)
    had, has = masks(old, roots), masks(new, roots)
    gone = had - has
    attends = _attends(new)
    if not gone or has - had or attends is None or (gone == {"is_causal"} and has):  # then see _bare_attention
        return []
    return [at(attends, f"attends without the causal mask that was there ({', '.join(sorted(gone))})")]


def masks(code: Code, roots: frozenset[str]) -> set[str]:
    """What holds attention back in the functions that run while a model is scored, by kind."""
    scored = functions(code, roots)
    kinds = {last(dotted) for function in scored for _, dotted in code.calls(function)} & MASKS
    for node in (node for function in scored for node in ast.walk(function)):
        if isinstance(node, ast.keyword) and node.arg in ("is_causal", "causal") and not _is(node.value, False):
            kinds.add("is_causal")
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.GtE | ast.LtE | ast.Gt | ast.Lt):
            names = [getattr(x, "id", getattr(x, "attr", "")) for x in ast.walk(node) if isinstance(x, ast.Name | ast.Attribute)]
            positions = [name for name in names if POSITION.match(name)]
            if positions and not any("window" in name for name in names):
                kinds.add("a comparison of positions")
    return kinds


def functions(code: Code, roots: frozenset[str]) -> list[ast.FunctionDef]:
    """Those that run while a model is scored, by name: the roots and what they call."""
    by_name: dict[str, list[ast.FunctionDef]] = {}
    for node in code.nodes:
        if isinstance(node, ast.FunctionDef):
            by_name.setdefault(node.name, []).append(node)
    todo, seen = sorted(roots & by_name.keys()), set(roots)
    chosen = []
    while todo:
        for function in by_name[todo.pop()]:
            chosen.append(function)
            called = {last(dotted) for _, dotted in code.calls(function)} & by_name.keys() - seen
            seen |= called
            todo += sorted(called)
    return chosen


def _is(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _attends(code: Code) -> ast.Call | None:
    """A call that is attention: by its name, or a softmax in a function that multiplies matrices."""
    for function in code.functions():
        calls = list(code.calls(function))
        product = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) for node in ast.walk(function))
        product = product or any(last(dotted) in ("matmul", "bmm", "baddbmm", "einsum") for _, dotted in calls)
        for node, dotted in calls:
            if last(dotted) in ATTENTION or (product and last(dotted) == "softmax"):
                return node
    return None


def _whole_number(node: ast.AST | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _whole_number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _argument(call: ast.Call, place: int, *names: str) -> ast.expr | None:
    """By name, or by its place among the positional ones."""
    named = next((word.value for word in call.keywords if word.arg in names), None)
    return named if named is not None else call.args[place] if 0 <= place < len(call.args) else None


def _flat(node: ast.AST | None) -> list[ast.AST]:
    return [] if node is None else list(node.elts) if isinstance(node, ast.Tuple | ast.List) else [node]


def _bare_attention(code: Code, function: ast.FunctionDef) -> Iterator[Found]:
    for node, dotted in code.calls(function):
        if last(dotted) == "scaled_dot_product_attention":
            mask, causal = _argument(node, 3, "attn_mask"), _argument(node, 5, "is_causal")
            if (mask is None or _is(mask, None)) and (causal is None or _is(causal, False)):
                yield at(node, "attends without a causal mask")
        if last(dotted) in ATTENTION and (span := _argument(node, -1, "window_size")) is not None:
            spans = _values(function, span) if isinstance(span, ast.Name) else [span]
            pairs = [x for one in spans for x in ast.walk(one) if isinstance(x, ast.Tuple) and len(x.elts) == 2]
            if any(_whole_number(pair.elts[1]) != 0 for pair in pairs):
                yield at(node, "attends to tokens on the right")


def _values(function: ast.FunctionDef, name: ast.Name) -> list[ast.expr]:
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return [node.value for node in assigned if any(isinstance(x, ast.Name) and x.id == name.id for x in node.targets)]


def _moved(code: Code, function: ast.FunctionDef) -> Iterator[Found]:
    """Later tokens rolled, turned or cut to the front."""
    for node, dotted in code.calls(function):
        method = 0 if dotted.startswith("torch.") else -1  # torch.roll(x, -1) or x.roll(-1)
        if last(dotted) == "roll":
            shifts = [_whole_number(x) for x in _flat(_argument(node, 1 + method, "shifts"))]
            if any(shift is not None and shift < 0 for shift in shifts):
                yield at(node, "rolls later positions to the front")
        if last(dotted) in ("flip", "fliplr"):
            axes = [_whole_number(x) for arg in [*node.args[1 + method :], *(w.value for w in node.keywords)] for x in _flat(arg)]
            if last(dotted) == "fliplr" or any(axis in (1, -2) for axis in axes):
                yield at(node, "turns the order of positions round")
        if last(dotted) in ("cat", "concat", "concatenate", "hstack") and node.args:
            parts = _flat(node.args[0])
            if len(parts) > 1 and _from_later(parts[0]) and _wants_time(node):
                yield at(node, "puts later positions first")
        if last(dotted) == "pad" and len(node.args) > 1 and _from_later(node.args[0]):
            pads = [_whole_number(x) or 0 for x in _flat(node.args[1])]
            if any(pad > 0 for pad in pads[1::2]):
                yield at(node, "cuts the first positions off and fills up behind")


def _from_later(node: ast.AST) -> bool:
    """x[:, 1:], whose second or third axis begins at a later place."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return False
    places = [x for x in node.slice.elts[1:3] if isinstance(x, ast.Slice)]
    return any((_whole_number(x.lower) or 0) > 0 and x.upper is None for x in places)


def _wants_time(call: ast.Call) -> bool:
    """Not along the last axis of three or more, which holds channels."""
    axis = _whole_number(_argument(call, 1, "dim", "axis"))
    first = _flat(call.args[0])[0]
    deep = isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Tuple) and len(first.slice.elts) > 2
    return not (axis == -1 and deep)


def _indexed(code: Code, function: ast.FunctionDef) -> Iterator[Found]:
    """w[i + 1] and w[i + 1:] of something that the function was given, and anything by a list of later positions."""
    given = _parameters(function)
    for node in ast.walk(function):
        later = [x for x in ast.walk(node.slice) if isinstance(x, ast.BinOp)] if isinstance(node, ast.Subscript) else []
        if any(isinstance(x.op, ast.Add) and (_whole_number(x.right) or 0) > 0 and _counts(code, x.left) for x in later):
            yield at(node, "looks at later positions")
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id not in given:
            continue
        for part in _flat(node.slice):
            place = part.lower if isinstance(part, ast.Slice) else part
            if isinstance(place, ast.BinOp) and _is_later(place) and isinstance(node.ctx, ast.Load):
                yield at(node, "looks at a later position")


def _is_later(place: ast.BinOp) -> bool:
    return isinstance(place.op, ast.Add) and isinstance(place.left, ast.Name) and (_whole_number(place.right) or 0) > 0


def _counts(code: Code, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and code.dotted(node.func) == "torch.arange"


def _remembers(code: Code, function: ast.FunctionDef) -> Iterator[Found]:
    """State that outlives a call: what one window was, the next one would know."""
    own = {x.id for x in ast.walk(function) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)} | _parameters(function)
    tainted = _tainted(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield at(node, "keeps something between calls")
        for target in _kept(code, node, tainted):
            if _outlives(code, own, target):
                yield at(node, "keeps something between calls")


def _kept(code: Code, node: ast.AST, tainted: set[str]) -> Iterator[ast.AST]:
    """What a statement writes into: a place of a table, an attribute that gets what was shown and is read again, an object by
    a method that changes it."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []:
        if isinstance(target, ast.Attribute) and isinstance(node, ast.Assign):
            if _read_again(code, target) and _holds(node, tainted):
                yield target
        elif isinstance(target, ast.Attribute | ast.Subscript):
            yield target
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changes = node.func.attr in GROWS or re.fullmatch(r"[a-z]\w*[a-z]_", node.func.attr)
        if changes and isinstance(node.func.value, ast.Name | ast.Attribute | ast.Subscript):
            yield node.func.value


def _outlives(code: Code, own: set[str], node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and (node.id == "self" or node.id not in own) and node.id not in code.alias


def _read_again(code: Code, target: ast.Attribute) -> bool:
    """Whether the class itself reads what it keeps. A loss that only the training adds up is not."""
    reads = (node for node in code.nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    return any(node.attr == target.attr and isinstance(node.value, ast.Name) and node.value.id == "self" for node in reads)


def _tainted(function: ast.FunctionDef) -> set[str]:
    """Names that hold what the function was given, or what was made of it; not its shape alone, as a table of positions does."""
    names = _parameters(function)
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign)]
    for _ in range(len(assigned)):
        targets = [x for node in assigned if _holds(node, names) for x in ast.walk(node) if isinstance(x, ast.Name)]
        more = {x.id for x in targets if isinstance(x.ctx, ast.Store)} - names
        if not more:
            break
        names |= more
    return names


def _holds(node: ast.AST, names: set[str]) -> bool:
    """Whether the value of an assignment has one of the names in it, and not its shape alone."""
    value = getattr(node, "value", node)
    shapes = {id(x.value) for x in ast.walk(value) if isinstance(x, ast.Attribute) and x.attr in SHAPE}
    return any(isinstance(x, ast.Name) and x.id in names and id(x) not in shapes for x in ast.walk(value))


def _sure(code: Code, function: ast.FunctionDef) -> Iterator[Found]:
    """Infinity as an answer. With a minus it is how a mask rules something out."""
    negative = {id(x.operand) for x in ast.walk(function) if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub)}
    for node in ast.walk(function):
        named = isinstance(node, ast.Attribute) and code.dotted(node) in ("math.inf", "torch.inf", "numpy.inf")
        if (named or (isinstance(node, ast.Call) and ast.unparse(node) == "float('inf')")) and id(node) not in negative:
            yield at(node, "answers with infinity")


def _parameters(function: ast.FunctionDef) -> set[str]:
    arguments = function.args
    return {x.arg for x in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self"}


def _layers(code: Code) -> Iterator[Found]:
    """Layers that mix positions or windows, wherever they are made."""
    for node, dotted in code.calls():
        if ACROSS.search(dotted):
            yield at(node, "normalises over positions and windows, later ones too")
        if re.search(r"(^|\.)(Conv1d|conv1d)$", dotted):
            kernel = _whole_number(_argument(node, 2 if last(dotted) == "Conv1d" else -1, "kernel_size"))
            padding = _argument(node, 4, "padding")
            width = _whole_number(padding)
            half = padding is not None and ("'same'" in ast.unparse(padding) or "// 2" in ast.unparse(padding))
            if half or (kernel is not None and width is not None and 0 < width < kernel - 1):
                yield at(node, "convolves over positions on both sides: pad by the kernel less one in front, and cut behind")


RULES: tuple[Callable[[Code, ast.FunctionDef], Iterator[Found]], ...] = (_bare_attention, _moved, _indexed, _remembers, _sure)
