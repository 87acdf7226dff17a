"""What a train.py has no use for and a cheat has: reaching out of its process, patching others, waiting, data in the code.

    [found.what for found in gaming.found(ast.parse("import socket"), frozenset())]  ->  ["imports socket, ..."]

One rule is one function from a syntax tree to `Found`. Each looks at the form of the code alone, so that a cheat written in
another form passes here: this spares a run, it protects nothing. What protects is the sandbox and the judge's audit. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bot.static import SEEDS

# Modules by what they are for; a training needs none of them.
OUT = "asyncio atexit cffi ctypes fcntl ftplib glob http httpx multiprocessing pty requests resource shutil signal socket"
IN = "__main__ builtins gc importlib inspect sqlite3 bot evaluator runners"
PACKED = "base64 binascii bz2 codecs cloudpickle dill gzip joblib lzma marshal pickle shelve zlib"
BANNED = frozenset(f"{OUT} ssl subprocess urllib urllib3 {IN} {PACKED}".split())
OS_FINE = frozenset(
    {"fork", "wait", "waitpid", "pipe", "read", "write", "close", "_exit", "environ", "cpu_count", "path.join"}
)  # fork: see _children
SYS_FINE = frozenset({"stdout", "stderr", "version_info", "maxsize", "float_info"})
CONTRACT = frozenset({"VOCAB_SIZE", "CONTEXT", "DEVICE", "Session"})
BUILTINS = frozenset({"breakpoint", "compile", "eval", "exec", "globals", "input", "locals", "vars", "__import__"})
READS = re.compile(r"^(io\.open|(numpy|torch)\.(load|save|fromfile|from_file|memmap|loadtxt|genfromtxt)|pathlib\..*|mmap\..*)$")
METHODS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})
INSIDE = frozenset(
    {"__globals__", "__code__", "__dict__", "__subclasses__", "__builtins__", "__reduce__", "__self__", "__closure__", "f_back"}
)
SETTINGS = re.compile(r"^(torch\.backends|torch\._(dynamo|inductor|functorch)\.config|os\.environ)\b")  # made to be set
PATHS = re.compile(r"^/(dev|etc|home|proc|root|run|sys|tmp|usr|var)\b")
ORDERS = re.compile(
    r"\bignore (all|any|every|previous|prior|the)\b.*\b(instruction|rule)|^\W*(system|assistant|developer)\s*:"
    r"|\byou (are|must|should|will)\b.*\b(review|approv|merg)|\b(approve|merge) this\b",
    re.IGNORECASE | re.MULTILINE,
)
METRIC = "val_bpb"  # the judge's number: a candidate does not know it
CLAIMS = frozenset({METRIC, "steps", "tokens", "tokens_per_second"})
MOST_ITEMS = 64  # of one literal; the tables of coefficients in trainer/train.py have 15
MOST_TEXT = 400  # characters of one string that is no docstring
MOST_BITS = 128  # of one whole number


@dataclass(frozen=True, kw_only=True)
class Found:
    """Something in the code, said as what it does. Equal wherever it stands, so that what was there before can be taken out."""

    what: str
    code: str
    line: int = field(compare=False)

    def __str__(self) -> str:
        return f"line {self.line} {self.what}: {self.code}"


@dataclass(frozen=True, kw_only=True)
class Code:
    """A parsed source. `alias` maps a name to what it was imported as; `given` are names that are there without an import."""

    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    alias: dict[str, str]
    given: frozenset[str]

    @classmethod
    def of(cls, tree: ast.Module, given: frozenset[str]) -> Code:
        nodes = tuple(ast.walk(tree))
        alias = {name: name for name in given}
        for node in nodes:
            if isinstance(node, ast.Import):
                alias |= {
                    a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0] for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                alias |= {a.asname or a.name: f"{node.module or ''}.{a.name}" for a in node.names}
        return cls(tree=tree, nodes=nodes, alias=alias, given=given)

    def dotted(self, node: ast.AST) -> str:
        """`F.pad` as torch.nn.functional.pad; empty for what is no chain of names."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.alias.get(node.id, node.id), *reversed(parts)])

    def calls(self, within: ast.AST | None = None) -> Iterator[tuple[ast.Call, str]]:
        """Every call with the dotted name, or for a method of something else ".name"."""
        for node in self.nodes if within is None else ast.walk(within):
            if isinstance(node, ast.Call):
                dotted = self.dotted(node.func)
                yield node, dotted or (f".{node.func.attr}" if isinstance(node.func, ast.Attribute) else "")

    def functions(self) -> Iterator[ast.FunctionDef | ast.Module]:
        yield self.tree
        yield from (node for node in self.nodes if isinstance(node, ast.FunctionDef))


def last(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def at(node: ast.AST, what: str) -> Found:
    code = " ".join(ast.unparse(node).split())
    return Found(line=getattr(node, "lineno", 1), what=what, code=code if len(code) <= 120 else f"{code[:119]}…")


def found(tree: ast.Module, given: frozenset[str]) -> list[Found]:
    """All of it, by line. Comments are not in a tree: see `orders`."""
    code = Code.of(tree, given)
    return sorted((one for rule in RULES for one in rule(code)), key=lambda one: one.line)


def orders(text: str) -> bool:
    """Whether a text, of a comment for example, talks to whoever judges it."""
    return ORDERS.search(text) is not None


def _imports(code: Code) -> Iterator[Found]:
    for node in code.nodes:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.partition(".")[0] in BANNED:
                yield at(node, f"imports {name}, which a training has no use for")


def _reaches_out(code: Code) -> Iterator[Found]:
    """Out of its own process, or into the machinery that runs it."""
    for node in code.nodes:
        dotted = code.dotted(node) if isinstance(node, ast.Attribute | ast.Name) else ""
        root, _, rest = dotted.partition(".")
        fine = any(rest == name or rest.startswith(f"{name}.") for name in (OS_FINE if root == "os" else SYS_FINE))
        if root in ("os", "sys") and rest and not fine and not (rest == "path" and root == "os"):
            yield at(node, f"reaches out of the training by {dotted}")
        part = dotted.removeprefix("trainer.session.")
        if part != dotted and part.partition(".")[0] not in CONTRACT:
            yield at(node, "uses the session's own machinery, which is no part of the contract")
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr) and dotted.startswith("session."):
            yield at(node, "uses the session's own machinery, which is no part of the contract")
        if isinstance(node, ast.Attribute) and node.attr in INSIDE:
            yield at(node, "looks inside of Python's own objects")


def _runs_code_or_files(code: Code) -> Iterator[Found]:
    for node, dotted in code.calls():
        if dotted in BUILTINS:
            yield at(node, f"calls {dotted}, behind which a reader cannot see")
        if dotted in ("setattr", "delattr", "getattr") and node.args:
            known = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
            if code.dotted(node.args[0]) in code.alias.values() and (dotted != "getattr" or not known):
                yield at(node, "changes or searches a module that is not its own")
        temporary = any(name.startswith("tempfile.") for _, name in code.calls(node))
        if (dotted == "open" and not temporary) or READS.match(dotted) or last(dotted) in METHODS:
            yield at(node, "uses a file: data comes from the session, and a result goes to it")


def _patches(code: Code) -> Iterator[Found]:
    """Assignments to what belongs to a module, and to names that are given."""
    for node in code.nodes:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        for target in targets:
            whole: ast.AST = target
            while isinstance(whole, ast.Subscript):
                whole = whole.value
            dotted = code.dotted(whole) if isinstance(whole, ast.Attribute) else ""
            root: ast.AST = whole
            while isinstance(root, ast.Attribute):
                root = root.value
            if dotted and isinstance(root, ast.Name) and root.id in code.alias and not SETTINGS.match(dotted):
                yield at(node, f"replaces {dotted}, which is not its own")
    for node in code.tree.body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        names += [x.id for x in node.targets if isinstance(x, ast.Name)] if isinstance(node, ast.Assign) else []
        yield from (at(node, f"replaces {name}, which is given") for name in names if name in code.given)


def _texts(code: Code) -> Iterator[Found]:
    """In strings: paths of the machine, orders to a reader, the judge's number."""
    for node in code.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if PATHS.match(node.value):
                yield at(node, "names a path of the machine")
            if orders(node.value):
                yield at(node, "talks to whoever reads or judges it")
            if METRIC in node.value:
                yield at(node, "names the judge's number, which it cannot know")


def _data(code: Code) -> Iterator[Found]:
    documented = ast.Module | ast.FunctionDef | ast.ClassDef
    docstrings = {
        id(n.body[0].value) for n in code.nodes if isinstance(n, documented) and n.body and isinstance(n.body[0], ast.Expr)
    }
    for node in code.nodes:
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            if sum(isinstance(x, ast.Constant) for x in ast.walk(node)) > MOST_ITEMS:
                yield at(node, f"holds a table of more than {MOST_ITEMS} values")
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            if isinstance(node.value, str | bytes) and len(node.value) > MOST_TEXT:
                yield at(node, f"holds a text of more than {MOST_TEXT} characters")
            if isinstance(node.value, int) and node.value.bit_length() > MOST_BITS:
                yield at(node, f"holds a number of more than {MOST_BITS} bits")


def _waits(code: Code) -> Iterator[Found]:
    """Time that trains nothing: it shifts when or how something is measured."""
    for function in code.functions():
        body = ast.Module(body=function.body, type_ignores=[])
        calls = [(node.lineno, node, last(dotted)) for node, dotted in code.calls(body)]
        saved = max((line for line, _, name in calls if name == "save"), default=0)
        yield from (at(node, "sleeps before it saves") for line, node, name in calls if name == "sleep" and line < saved)
    for node in code.nodes:
        if isinstance(node, ast.While) and all(isinstance(line, ast.Pass) for line in node.body):
            yield at(node, "waits busily")


def _children(code: Code) -> Iterator[Found]:
    """Processes and threads that are not waited for, or that do what only the training itself may."""
    names = {last(dotted) for _, dotted in code.calls()}
    joins = any(last(d) == "join" and not isinstance(getattr(n.func, "value", None), ast.Constant) for n, d in code.calls())
    for node, dotted in code.calls():
        if dotted == "os.fork" and not names & {"wait", "waitpid"}:
            yield at(node, "starts a process and does not wait for it")
        if dotted in ("threading.Thread", "threading.Timer") and not joins:
            yield at(node, "starts a thread and does not wait for it")
        if last(dotted) == "Thread" and any(word.arg == "daemon" for word in node.keywords):
            yield at(node, "starts a thread that may outlive it")
    for branch in (node for node in code.nodes if isinstance(node, ast.If)):
        if any(dotted == "os.fork" for _, dotted in code.calls(branch.test)):
            inner = {last(dotted) for _, dotted in code.calls(ast.Module(body=branch.body, type_ignores=[]))}
            if inner & {"save", "setsid", "fork", "sleep", "open"}:
                yield at(branch.test, "starts a process that does more than part of the work")


def _luck(code: Code) -> Iterator[Found]:
    """Decisions by the seed, which is the judge's, and answers that are no numbers."""
    for node in code.nodes:
        test = node.test if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) else None
        asked = node if isinstance(node, ast.Compare) else test
        if asked is not None and any(map(_names_seed, ast.walk(asked))):
            yield at(asked, "decides by the seed")
        if isinstance(node, ast.Call) and code.dotted(node.func) in ("torch.initial_seed", "torch.seed"):
            yield at(node, "asks for the seed")
        nan = isinstance(node, ast.Attribute) and re.match(r"^(math|torch|numpy)\.nan$", code.dotted(node))
        if nan or (isinstance(node, ast.Call) and ast.unparse(node).lower() in ("float('nan')", "torch.tensor(float('nan'))")):
            yield at(node, "makes something that is not a number")


def _names_seed(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    name = str(node.value) if isinstance(node, ast.Constant) else name
    return SEEDS.search(name) is not None


def _claims(code: Code) -> Iterator[Found]:
    for node, _ in code.calls():
        for word in node.keywords:
            numbers = [x.value for x in ast.walk(word.value) if isinstance(x, ast.Constant) and isinstance(x.value, int | float)]
            plain = not any(isinstance(x, ast.Name | ast.Call | ast.Attribute) for x in ast.walk(word.value))
            if word.arg in CLAIMS and plain and any(number > 0 for number in numbers):
                yield at(node, f"reports {word.arg} without having counted")


RULES: tuple[Callable[[Code], Iterator[Found]], ...] = (
    _imports, _reaches_out, _runs_code_or_files, _patches, _texts, _data, _waits, _children, _luck, _claims,
)  # fmt: skip
