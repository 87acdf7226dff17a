"""The literals of Python source: what they are worth, and a statement with all of them taken out. Pure.

2**19 is worth 524288
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

Literal = bool | int | float | complex | str | bytes | None

BLANK = "_"  # what stands for a literal in a statement
LARGEST = 1e100  # of numbers that are computed here: 9**9**9 stays as it is written


def literal(node: ast.AST) -> tuple[Literal] | None:
    """The value of a literal, or of arithmetic on numbers alone; None when it is neither. In a tuple, since None is a literal."""
    if isinstance(node, ast.Constant):
        return None if node.value is Ellipsis else (node.value,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else (-inner,)
    if isinstance(node, ast.BinOp):
        a, b = _number(node.left), _number(node.right)
        value = None if a is None or b is None else _computed(node.op, a, b)
        return None if value is None else (value,)
    return None


def _number(node: ast.AST) -> int | float | None:
    value = literal(node)
    return value[0] if value and isinstance(value[0], int | float) and not isinstance(value[0], bool) else None


def _computed(op: ast.operator, a: float, b: float) -> int | float | None:
    """None when the result is no plain number of a reasonable size."""
    try:
        if isinstance(op, ast.Pow | ast.LShift) and abs(b) * math.log10(max(abs(a), 10)) > 100:
            return None
        value = _ARITHMETIC[type(op)](a, b)
    except (KeyError, ArithmeticError, ValueError, TypeError):
        return None
    return value if isinstance(value, int | float) and abs(value) < LARGEST else None


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


def show(value: Literal) -> str:
    """A literal in few characters."""
    text = f"{value:.6g}" if type(value) is float else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Blanker(ast.NodeTransformer):
    """Takes the literals out of a statement, and remembers each with its keyword, if it has one."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Literal]] = []
        self._word = ""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (value := literal(node)):
            self.found.append((self._word, value[0]))
            return ast.Name(BLANK, ast.Load())
        return super().visit(node)  # type: ignore[no-any-return]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        callee = ast.unparse(node.func)
        node.func = self.visit(node.func)  # type: ignore[assignment]
        node.args = [self._under("", arg) for arg in node.args]
        for keyword in node.keywords:
            keyword.value = self._under(f"{callee}({keyword.arg})" if keyword.arg else "", keyword.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        words = [ast.unparse(key) if key else "" for key in node.keys]
        node.values = [self._under(word, value) for word, value in zip(words, node.values, strict=True)]
        return node

    def _under(self, word: str, node: ast.expr) -> ast.expr:
        before, self._word = self._word, word
        try:
            return self.visit(node)  # type: ignore[return-value]
        finally:
            self._word = before
