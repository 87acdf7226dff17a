"""What an edit changes, read from the syntax trees before and after it: facts, whatever its proposer says.

    between("A = 1\nB = 2\n", "A = 3\nB = 2\n").words()  ->  "A 1 -> 3"

A *value* is a literal that became another literal; arithmetic on numbers (2**19) counts as one. Everything else is statements
taken out and put in. Statements are compared scope by scope (a function, a class, the top level), so that a moved line is a
change and a moved function is none; layout, comments and docstrings count for nothing. Pure: text in, facts out.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from bot.events import Edit
from bot.propose import apply
from bot.propose.literals import Blanker, Literal, literal, show

NAME = 60  # characters of a place that has no name of its own
PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, kw_only=True)
class Value:
    """A literal that became another one. `scope` is the function or class around it, "" the top level."""

    scope: str
    place: str
    old: Literal
    new: Literal

    def __str__(self) -> str:
        return f"{self.scope + ': ' if self.scope else ''}{self.place} {show(self.old)} -> {show(self.new)}"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """All that an edit does. `removed` and `added` are (scope, statement as ast.unparse writes it)."""

    values: tuple[Value, ...] = ()
    removed: tuple[tuple[str, str], ...] = ()
    added: tuple[tuple[str, str], ...] = ()

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset([value.scope for value in self.values] + [scope for scope, _ in (*self.removed, *self.added)])

    def words(self, limit: int = 160) -> str:
        """On one line, in about so many characters."""
        parts = [str(value) for value in self.values]
        if self.removed or self.added:
            where = ", ".join(sorted({scope or "the top level" for scope, _ in (*self.removed, *self.added)}))
            parts.append(f"{len(self.removed)} statements out and {len(self.added)} in at {where}")
        said = "; ".join(parts)
        return said if len(said) <= limit else said[: limit - 1].rstrip() + "…"


@dataclass(frozen=True)
class Unit:
    """One statement without the statements inside it. `blank` has `_` in place of each literal."""

    scope: str
    depth: int
    blank: str
    text: str
    literals: tuple[tuple[str, Literal], ...]  # (place, value)


@lru_cache(maxsize=4096)
def of(source: str, edits: tuple[Edit, ...]) -> Changes | None:
    """What edits do to a train.py; None when they do not apply to it, or one of both does not parse."""
    after = apply(source, edits)
    try:
        return None if after is None else between(source, after)
    except (SyntaxError, ValueError):
        return None


def between(before: str, after: str) -> Changes:
    """What turns one train.py into the other. Raises SyntaxError or ValueError when one of them does not parse."""
    old, new = _differing(before, after)
    values: list[Value] = []
    removed: list[tuple[str, str]] = []
    added: list[tuple[str, str]] = []
    for scope in dict.fromkeys(unit.scope for unit in (*old, *new)):
        a, b = ([unit for unit in units if unit.scope == scope] for units in (old, new))
        matcher = SequenceMatcher(None, [(x.depth, x.blank) for x in a], [(x.depth, x.blank) for x in b], autojunk=False)
        for tag, a1, a2, b1, b2 in matcher.get_opcodes():
            if tag == "equal":
                values += [value for x, y in zip(a[a1:a2], b[b1:b2], strict=True) for value in _values(x, y)]
            else:
                removed += [(scope, unit.text) for unit in a[a1:a2]]
                added += [(scope, unit.text) for unit in b[b1:b2]]
    return Changes(values=tuple(values), removed=tuple(removed), added=tuple(added))


def of_edits(edits: Sequence[Edit]) -> Changes:
    """The same from the edits alone, where the file around them is not at hand: scopes are not known, and text that is no whole
    statement counts line by line."""
    found = [_of_edit(edit) for edit in edits]
    return Changes(
        values=tuple(value for x in found for value in x.values),
        removed=tuple(pair for x in found for pair in x.removed),
        added=tuple(pair for x in found for pair in x.added),
    )


def units(source: str) -> tuple[Unit, ...]:
    """Every statement, in the order of the text. Raises SyntaxError, ValueError."""
    try:
        return tuple(_units(ast.parse(source).body, "", 0))
    except (RecursionError, MemoryError) as error:
        raise ValueError("it is nested too deeply") from error


def _of_edit(edit: Edit) -> Changes:
    try:
        return between(textwrap.dedent(edit.old), textwrap.dedent(edit.new))
    except (SyntaxError, ValueError):
        old, new = (tuple(("", line.strip()) for line in text.splitlines() if line.strip()) for text in (edit.old, edit.new))
        return Changes(
            removed=tuple(line for line in old if line not in new), added=tuple(line for line in new if line not in old)
        )


def _differing(before: str, after: str) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """The units of those top-level statements that may differ. To parse two whole files for each row of a long history takes
    a hundred times as long."""
    if "\r" in before + after:  # a line end of its own to the parser
        return units(before), units(after)
    a, b = before.split("\n"), after.split("\n")
    same = min(len(a), len(b))
    head = next((i for i in range(same) if a[i] != b[i]), same)
    tail = next((i for i in range(same - head) if a[-1 - i] != b[-1 - i]), same - head)
    low, high = _widened(_spans(before), head, len(a) - tail)
    try:
        return units("\n".join(a[low:high])), units("\n".join(b[low : high + len(b) - len(a)]))
    except (SyntaxError, ValueError):  # what is new belongs to the statement before it, as an else does
        return units(before), units(after)


@lru_cache(maxsize=64)
def _spans(source: str) -> tuple[tuple[int, int], ...]:
    """Lines [first, last) of each top-level statement, decorators included."""
    try:
        body = ast.parse(source).body
    except (RecursionError, MemoryError) as error:
        raise ValueError("it is nested too deeply") from error
    return tuple(
        (min([node.lineno, *(x.lineno for x in getattr(node, "decorator_list", []))]) - 1, node.end_lineno or node.lineno)
        for node in body
    )


def _widened(spans: tuple[tuple[int, int], ...], low: int, high: int) -> tuple[int, int]:
    """Lines [low, high), grown to whole statements. A neighbour that touches is inside: the lines between may join it."""
    first = bisect_right(spans, low, key=lambda span: span[0]) - 1
    last = bisect_right(spans, max(low, high), key=lambda span: span[0])
    inside = spans[max(first, 0) : last]
    return (min(low, inside[0][0]), max(high, inside[-1][1])) if inside else (low, high)


def _values(old: Unit, new: Unit) -> Iterator[Value]:
    for (place, a), (_, b) in zip(old.literals, new.literals, strict=True):
        if (type(a), repr(a)) != (type(b), repr(b)):  # by text, since 1 == True and NaN is not itself
            yield Value(scope=old.scope, place=place, old=a, new=b)


def _units(body: Sequence[ast.AST], scope: str, depth: int) -> Iterator[Unit]:
    for node in body:
        if _is_docstring(node):
            continue
        yield _unit(node, scope, depth)
        inside, deeper = scope, depth + 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside, deeper = f"{scope}.{node.name}".lstrip("."), 0
        for part in PARTS:
            below = getattr(node, part, None)
            if isinstance(below, list) and below:
                if part != "body":
                    yield Unit(inside, depth, f"{part}:", f"{part}:", ())
                yield from _units(below, inside, deeper)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _unit(node: ast.AST, scope: str, depth: int) -> Unit:
    head = copy.copy(node)
    for part in PARTS:
        if isinstance(getattr(head, part, None), list):
            setattr(head, part, [])
    text, target = ast.unparse(head), _target(head)
    blanker = Blanker()
    blank = ast.unparse(blanker.visit(head))
    return Unit(scope, depth, blank, text, tuple(_named(target, blank, blanker.found)))


def _named(target: str, blank: str, found: list[tuple[str, Literal]]) -> Iterator[tuple[str, Literal]]:
    """A name for each literal: what is assigned (`target`, if all of it is literals), the keyword, or else the statement."""
    plain = blank if len(blank) <= NAME else blank[: NAME - 1] + "…"
    for i, (word, value) in enumerate(found):
        many = f"[{i}]" if len(found) > 1 else ""
        yield (target + many if target else word or f"`{plain}`{many}"), value


def _target(node: ast.AST) -> str:
    """The one name to which a statement assigns nothing but literals; empty when it does something else."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return ""
    parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else [node.value]
    return ast.unparse(target) if all(part and literal(part) for part in parts) else ""
