"""What is refused before any run: an edit that is too large, does not parse, changes nothing, or only hunts for luck.

    fault("A = 1\n", "A = 1  # one\n", frozenset())  ->  "it changes nothing but comments or white space"

Compared is the syntax tree, so that layout and comments count for nothing. Not here: whether an edit is any good.
Pure: text in, words out.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from functools import lru_cache

MAX_BYTES = 64 * 1024  # of train.py: bounds how much text of the held-out split it could carry along
SEEDS = re.compile(r"(^|_)seeds?(_|$)|^manual_seed|^set_seed$|^seed_all$", re.IGNORECASE)


@lru_cache(maxsize=64)
def hash_of(source: str) -> str:
    """What names a version of train.py in the log and in `Brief.tried`: equal for sources that differ in layout alone."""
    try:
        return hashlib.sha256(_shape(source).encode()).hexdigest()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def fault(source: str, edited: str | None, tried: frozenset[str]) -> str | None:
    """Why an edit is refused, for the one who proposed it; None when it may be run. `edited` None: it did not apply."""
    if edited is None:
        return "an edit does not apply: its text does not occur exactly once in train.py"
    if size := _too_large(edited):
        return size
    try:
        return _tree_fault(source, edited, tried)
    except SyntaxError as error:
        return f"the edited train.py does not parse: line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return "the edited train.py does not parse: it is nested too deeply"
    except ValueError as error:
        return f"the edited train.py does not parse: {error}"


def unchecked(error: Exception) -> str:
    """What is told of code at which a check itself broke."""
    return f"the bot could not check it: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def size(source: str) -> int:
    """Nodes of the syntax tree: how much code there is, whatever its layout. Raises SyntaxError."""
    return sum(1 for _ in ast.walk(ast.parse(source)))


def _too_large(edited: str) -> str | None:
    try:
        size = len(edited.encode())
    except UnicodeEncodeError:
        return "the edited train.py is not text that UTF-8 can hold"
    if size > MAX_BYTES:
        return f"train.py would have {size:,} bytes, {MAX_BYTES:,} are allowed"
    return None if edited.strip() else "train.py would be empty"


def _tree_fault(source: str, edited: str, tried: frozenset[str]) -> str | None:
    after = _shape(edited)
    _compile(edited)
    if after == _shape(source):
        return "it changes nothing but comments or white space"
    if new := sorted(_fixed_seeds(edited) - _fixed_seeds(source)):
        return f"it fixes a seed ({new[0]}): seeds come from the session, and a lucky one is no improvement"
    if _shape(edited, seedless=True) == _shape(source, seedless=True):
        return "it changes nothing but a seed, and a lucky one is no improvement"
    return "the same code was tried on this base already" if hash_of(edited) in tried else None


@lru_cache(maxsize=8)
def _compile(source: str) -> None:
    """Raises what code that parses and still is no program raises: two arguments of one name, a `global` that comes too late."""
    with warnings.catch_warnings(action="ignore"):  # doubtful code may run
        compile(source, "train.py", "exec", dont_inherit=True)


@lru_cache(maxsize=8)  # one proposal is looked at several times, and each look at a file of 64 KB takes a tenth of a second
def _shape(source: str, *, seedless: bool = False) -> str:
    """The syntax tree without layout, comments and docstrings; without the numbers of seeds too, if asked."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(_Seedless().visit(tree) if seedless else tree)


class _Seedless(ast.NodeTransformer):
    """Takes the values out of everything that is called a seed."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(_is_seed(target) for target in node.targets):
            node.value = ast.Constant(0)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_seed(node.func):
            node.args, node.keywords = [], []
        node.keywords = [word for word in node.keywords if not SEEDS.search(word.arg or "")]
        return self.generic_visit(node)


def _fixed_seeds(source: str) -> set[str]:
    """Every place where a literal number becomes a seed, as source text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _is_seed(node.func) and any(_is_number(word) for word in node.args):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Call):
            found |= {ast.unparse(word) for word in node.keywords if SEEDS.search(word.arg or "") and _is_number(word.value)}
        if isinstance(node, ast.Assign) and any(map(_is_seed, node.targets)) and _is_number(node.value):
            found.add(ast.unparse(node))
    return found


def _is_seed(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(SEEDS.search(name))


def _is_number(node: ast.AST) -> bool:
    """A literal, or arithmetic on literals only."""
    inner = list(ast.walk(node))
    literal = any(isinstance(x, ast.Constant) and isinstance(x.value, int | float | str | bytes) for x in inner)
    return literal and not any(isinstance(x, ast.Name | ast.Attribute | ast.Call) for x in inner)
