"""The shape of the project as rules over its source: which way imports point, who may touch what, how large things grow.

Each rule is a function from sources to offenders ("path:line: what is wrong"). One test holds it over the repository, and
`BAD` shows for each rule a made-up source that it catches. What the code does is not tested here.
"""

from __future__ import annotations

import ast
import fnmatch
import graphlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("bot", "evaluator", "runners", "trainer", "examples", "benchmarks", "tests")
OURS = frozenset(FOLDERS)

# Inside bot/ a module imports lower levels and the contract (`__init__`) of its own folder; never its own level or above.
LEVELS = [
    ("bot", "bot.event", "bot.frontmatter", "bot.spending", "bot.spoken", "bot.static", "bot.widths", "bot.fitness"),
    ("bot.proposals", "bot.settings", "bot.aside", "bot.landscape"),
    ("bot.events", "bot.surface"),
    ("bot.candidate", "bot.program", "bot.command", "bot.lines"),
    ("bot.hearing",),
    ("bot.state",),
    ("bot.actions", "bot.ideas", "bot.scores"),
    ("bot.stacking", "bot.fold"),
    ("bot.proof",),
    ("bot.decide",),
    (
        "bot.git",
        "bot.remote",
        "bot.forge",
        "bot.forge.*",
        "bot.propose",
        "bot.propose.*",
        "bot.report",
        "bot.report.*",
        "bot.log",
    ),
    ("bot.world", "bot.answer", "bot.minds", "bot.platform", "bot.rulesets"),
    ("bot.briefing", "bot.runs"),
    ("bot.learning", "bot.machines", "bot.proposing"),
    ("bot.act",),
    ("bot.loop",),
    ("bot.simulate", "bot.interrupts", "bot.words", "bot.slackline"),
    ("bot.workspace", "bot.screen", "bot.hear", "bot.slack"),
    ("bot.preflight", "bot.summary", "bot.installed", "bot.box"),
    ("bot.campaign", "bot.looks", "bot.measuring", "bot.doctor", "bot.rehearsal", "bot.online"),
    ("bot.demo", "bot.premises", "bot.reporting"),
    ("bot.nightly",),
    ("bot.commands",),
    ("bot.__main__",),
]
# The exceptions on one level: who may import whom.
PEERS = [
    ("bot.log", "bot.git"),
    ("bot.log", "bot.remote"),
    ("bot.remote", "bot.git"),
    ("bot.forge.*", "bot.remote"),
    ("bot.forge.github", "bot.forge.rest"),
    ("bot.forge.github", "bot.forge.threads"),
    ("bot.forge.threads", "bot.forge.rest"),
    ("bot.forge.threads", "bot.forge.labels"),
    ("bot.forge.fleet", "bot.forge.rest"),
    ("bot.forge.*", "bot.git"),
    ("bot.forge.local", "bot.forge.book"),
    ("bot.forge.*", "bot.forge.limits"),
    ("bot.report.*", "bot.forge"),
    ("bot.report.*", "bot.report.quoting"),
    ("bot.report.*", "bot.report.claims"),
    ("bot.report.*", "bot.report.bills"),
    ("bot.report.bills", "bot.propose"),
    ("bot.report.bills", "bot.propose.money"),
    ("bot.report.page", "bot.report.chart"),
    ("bot.report.plot", "bot.report.chart"),
    ("bot.report.slack", "bot.report.status"),
    ("bot.propose.tpe", "bot.propose.mutate"),
    ("bot.propose.ahead", "bot.propose.gaming"),
    ("bot.propose.review", "bot.propose.gaming"),
    ("bot.propose.review", "bot.propose.ahead"),
    ("bot.propose.review", "bot.propose.proposal"),
    ("bot.propose.review", "bot.propose.verdict"),
    ("bot.propose.verdict", "bot.propose.proposal"),
    ("bot.propose.llm", "bot.propose.*"),
    ("bot.propose.wire", "bot.propose.replies"),
    ("bot.propose.*", "bot.propose.money"),
    ("bot.propose.proposal", "bot.propose.patch"),
    ("bot.propose.*", "bot.propose.changes"),
    ("bot.propose.*", "bot.propose.literals"),
    ("bot.propose.digest", "bot.propose.terms"),
    ("bot.propose.*", "bot.propose.tried"),
    ("bot.propose.*", "bot.report"),
    ("bot.propose.*", "bot.report.quoting"),
]
# What may be imported across folders. A trainer is a program in a sandbox: nothing imports it, it knows only its contract.
ARROWS = [
    ("bot*", "runners*"),
    ("bot*", "evaluator.gate"),
    ("bot*", "evaluator.stack"),
    ("bot*", "evaluator.simpler"),
    ("evaluator*", "evaluator*"),
    ("evaluator*", "runners"),
    ("evaluator*", "runners.local"),
    ("runners*", "runners*"),
    ("trainer.train", "trainer.session"),
    ("examples.cpu.train", "trainer.session"),
    ("benchmarks*", "*"),
    ("tests*", "*"),
]
PURE = (
    "event", "events", "proposals", "lines", "static", "candidate", "state", "ideas", "scores", "fold", "actions", "stacking",
    "proof", "decide", "command", "settings", "program", "frontmatter", "hearing", "rulesets", "spending", "spoken", "widths",
    "fitness", "landscape", "propose.money", "propose.patch", "propose.prompt", "propose.proposal", "propose.replies",
    "propose.changes", "propose.digest", "propose.facts", "propose.knowledge", "propose.literals", "propose.near",
    "propose.notes", "propose.terms", "propose.tried",
    "propose.ahead", "propose.crossover", "propose.gaming", "propose.mix", "propose.review",
    "propose.verdict",
)  # fmt: skip
PURE_MODULES = (*(f"bot.{name}" for name in PURE), "evaluator.gate", "evaluator.stack", "evaluator.simpler", "runners")
IMPURE = {"asyncio", "ctypes", "github", "glob", "http", "httpx", "importlib", "io", "multiprocessing", "openai", "os", "random"}
IMPURE |= {"requests", "secrets", "shutil", "signal", "slack_sdk", "socket", "subprocess", "sys", "tempfile", "threading", "time"}
IMPURE |= {"urllib", "urllib3"}
# Who reads argv or the environment, and why it cannot be handed in.
READS_ENVIRONMENT = {
    "bot/__main__.py": "the command line",
    "bot/git.py": "takes GIT_* out of what git inherits",
    "evaluator/measure.py": "a program: python -m evaluator.measure",
    "evaluator/prepare.py": "a program: python -m evaluator.prepare",
    "trainer/session.py": "a program inside the sandbox",
    "runners/enter.py": "a program: the step into the sandbox",
    "runners/install.py": "a program: it gets ours onto a machine of Actions",
    "runners/local.py": "hands a few named variables on to the supervisor that it starts",
}
EXEMPT = ("trainer/train.py", "examples/cpu/train.py")  # the things under study
MODULE_LINES, TEST_MODULE_LINES, FUNCTION_LINES = 320, 600, 40
NAMES = frozenset({"utils.py", "helpers.py", "common.py"})


@dataclass(frozen=True)
class Source:
    """One file of ours: its path from the root, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def at(self, node: ast.AST, what: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {what}"


@cache
def repository() -> list[Source]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def product(sources: Iterable[Source]) -> list[Source]:
    """What is installed; tests and benchmarks are programs of ours that stand outside and look in."""
    return [source for source in sources if not source.path.startswith(("tests/", "benchmarks/"))]


def imports(source: Source, known: frozenset[str]) -> Iterator[tuple[ast.AST, str]]:
    """Every module that a source imports, anywhere in it. `from a import b` is a.b if there is such a module."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = source.module.split(".")[: None if source.path.endswith("__init__.py") else -1]
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node, full if full in known else base


def arrow(sources: list[Source], allowed: Callable[[str, str], bool]) -> list[str]:
    known = frozenset(source.module for source in sources)
    found = [
        source.at(node, f"{source.module} must not import {target}")
        for source in sources
        for node, target in imports(source, known)
        if target.split(".")[0] in OURS and not allowed(source.module, target)
    ]
    return list(dict.fromkeys(found))


def listed(pairs: list[tuple[str, str]], source: str, target: str) -> bool:
    return any(fnmatch.fnmatchcase(source, a) and fnmatch.fnmatchcase(target, b) for a, b in pairs)


def level(module: str) -> int | None:
    return next((k for k, row in enumerate(LEVELS) if any(fnmatch.fnmatchcase(module, name) for name in row)), None)


def arrows_between_folders(sources: list[Source]) -> list[str]:
    return arrow(sources, lambda a, b: a.split(".")[0] == b.split(".")[0] == "bot" or listed(ARROWS, a, b))


def arrows_inside_bot(sources: list[Source]) -> list[str]:
    bot = [source for source in sources if source.module.split(".")[0] == "bot"]
    homeless = [source.at(source.tree, "has no place in LEVELS") for source in bot if level(source.module) is None]

    def allowed(a: str, b: str) -> bool:
        high, low = level(a), level(b)
        seam = b == a.rpartition(".")[0]
        return not b.startswith("bot") or seam or listed(PEERS, a, b) or (high is not None and low is not None and low < high)

    return homeless + arrow(bot, allowed)


def circles(sources: list[Source]) -> list[str]:
    known = frozenset(source.module for source in sources)
    graph = {source.module: {target for _, target in imports(source, known)} & known for source in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [f"{error.args[1][0].replace('.', '/')}.py:1: imports in a circle: {' <- '.join(error.args[1])}"]
    return []


def hidden_imports(sources: list[Source]) -> list[str]:
    hidden = {"__import__", "import_module"}
    return [
        source.at(node, "imports by a call, which no rule sees")
        for source in product(sources)
        for node in source.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in hidden
    ]


def impure(sources: list[Source]) -> list[str]:
    pure = [source for source in sources if source.module in PURE_MODULES]
    found = []
    for source in pure:
        for node, target in imports(source, frozenset()):
            if target.split(".")[0] in IMPURE or target.startswith(("runners.", "bot.git", "bot.forge.", "bot.log")):
                found.append(source.at(node, f"a pure module must not import {target}"))
        for node in source.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}:
                found.append(source.at(node, f"a pure module must not call {node.func.id}"))
            if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
                found.append(source.at(node, "a pure module is given the time"))
    return found


def runs_git(sources: list[Source]) -> list[str]:
    starts = re.compile(r"(^|\.)(system|popen|run|Popen|call|check_call|check_output|getoutput)$")

    def first_word(node: ast.AST) -> str:
        """Of an argv, or of a command line that is handed to a call which starts processes."""
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            node = node.elts[0]
        elif isinstance(node, ast.Call) and node.args and starts.search(ast.unparse(node.func)):
            node = node.args[0]
        else:
            return ""
        if isinstance(node, ast.JoinedStr) and node.values:
            node = node.values[0]
        return str(node.value).strip() if isinstance(node, ast.Constant) else ""

    return [
        source.at(node, "only bot/git.py runs git")
        for source in product(sources)
        if source.path != "bot/git.py"
        for node in source.nodes
        if re.match(r"(/\S*/)?git($| )", first_word(node))
    ]


def reads_environment(sources: list[Source], listed: Iterable[str] = READS_ENVIRONMENT) -> list[str]:
    names = {"sys.argv", "os.environ", "os.environb", "os.getenv", "os.getenvb"}

    def reads(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            return any(f"{node.module}.{alias.name}" in names for alias in node.names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            return node.func.attr == "parse_args"  # without arguments it takes sys.argv
        return isinstance(node, ast.Attribute) and ast.unparse(node) in names

    return [
        source.at(node, "reads argv or the environment; have it handed in, or give a reason in READS_ENVIRONMENT")
        for source in product(sources)
        if source.path not in listed
        for node in source.nodes
        if reads(node)
    ]


def vague_names(sources: list[Source]) -> list[str]:
    return [f"{source.path}:1: a name that says nothing" for source in sources if source.path.rpartition("/")[2] in NAMES]


def long_modules(sources: list[Source]) -> list[str]:
    found = []
    for source in sources:
        lines, limit = source.text.count("\n"), TEST_MODULE_LINES if source.path.startswith("tests/") else MODULE_LINES
        if source.path not in EXEMPT and lines > limit:
            found.append(f"{source.path}:1: {lines} lines, over {limit}")
    return found


def long_functions(sources: list[Source]) -> list[str]:
    """Lines of a function without its docstring: explaining is free."""
    found = []
    for source in sources:
        for node in source.nodes:
            if source.path in EXEMPT or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = node.body[0] if ast.get_docstring(node) else None
            lines = node.end_lineno - node.lineno + 1 - (text.end_lineno - text.lineno + 1 if text else 0)  # type: ignore[operator]
            if lines > FUNCTION_LINES:
                found.append(source.at(node, f"{node.name} has {lines} lines, over {FUNCTION_LINES}"))
    return found


def silent_modules(sources: list[Source]) -> list[str]:
    return [source.at(source.tree, "no docstring says what it is") for source in sources if not ast.get_docstring(source.tree)]


def silent_tests(sources: list[Source]) -> list[str]:
    return [
        source.at(node, f"{node.name} does not say what it claims: one sentence that ends in a full stop")
        for source in sources
        if source.path.startswith("tests/")
        for node in source.nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not (ast.get_docstring(node) or "").rstrip().endswith((".", "?"))
    ]


def patched_tests(sources: list[Source]) -> list[str]:
    def patches(node: ast.AST) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            return any(re.search(r"(^|\.)mock($|\.)|^(Magic|Async)?Mock$", name) for name in names)
        attribute = isinstance(node, ast.Attribute) and node.attr in {"setattr", "delattr", "MagicMock"}
        return attribute or (isinstance(node, ast.arg) and node.arg == "mocker")

    return [
        source.at(node, "patches code of ours; hand the replacement in as an argument")
        for source in sources
        if source.path.startswith("tests/")
        for node in source.nodes
        if patches(node)
    ]


def swallowed_errors(sources: list[Source]) -> list[str]:
    broad = {"", "Exception", "BaseException"}

    def swallows(node: ast.AST) -> bool:
        if isinstance(node, ast.ExceptHandler):
            caught = {part.strip("() ") for part in (ast.unparse(node.type) if node.type else "").split(",")}
            quiet = all(isinstance(line, ast.Pass | ast.Continue) or "..." in ast.unparse(line)[:3] for line in node.body)
            return quiet and bool(caught & broad)
        suppress = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress")
        return suppress and any(ast.unparse(arg) in broad for arg in node.args)  # type: ignore[attr-defined]

    return [source.at(node, "swallows every error") for source in sources for node in source.nodes if swallows(node)]


# rule, path of a made-up source, its text, what is said about it
BAD: list[tuple[Callable[[list[Source]], list[str]], str, str, str]] = [
    (arrows_between_folders, "bot/act.py", "from evaluator import measure\n", "bot.act must not import evaluator"),
    (arrows_between_folders, "runners/local.py", "def f():\n    import bot.git\n", "runners.local must not import bot.git"),
    (arrows_between_folders, "trainer/session.py", "from runners import Job\n", "trainer.session must not import runners"),
    (arrows_between_folders, "evaluator/measure.py", "import trainer.session\n", "must not import trainer.session"),
    (arrows_inside_bot, "bot/state.py", "from bot.decide import decide\n", "bot.state must not import bot.decide"),
    (arrows_inside_bot, "bot/forge/local.py", "from . import memory, Pull\nfrom .memory import A\n", "import bot.forge.memory"),
    (arrows_inside_bot, "bot/forge/local.py", "from ..loop import run\n", "bot.forge.local must not import bot.loop"),
    (arrows_inside_bot, "bot/events.py", "from bot import program\n", "bot.events must not import bot.program"),
    (arrows_inside_bot, "bot/engine.py", "'''new'''\n", "has no place in LEVELS"),
    (circles, "bot/program.py", "import bot.git\n", "imports in a circle: bot."),
    (hidden_imports, "bot/act.py", "import importlib\nimportlib.import_module('bot.loop')\n", "bot/act.py:2: imports by a call"),
    (impure, "bot/decide.py", "import math\nimport time\n", "bot/decide.py:2: a pure module must not import time"),
    (impure, "evaluator/gate.py", "def f():\n    from os import path\n", "must not import os"),
    (impure, "bot/fold.py", "def f(d):\n    return d.now()\n", "is given the time"),
    (impure, "bot/state.py", "open('x')\n", "must not call open"),
    (runs_git, "bot/act.py", "A = ('git', 'push')\n", "bot/act.py:1: only bot/git.py runs git"),
    (runs_git, "bot/act.py", "os.system(f'git push {x}')\n", "only bot/git.py"),
    (reads_environment, "bot/loop.py", "import os\nos.environ['HOME']\n", "bot/loop.py:2: reads argv or the environment"),
    (reads_environment, "evaluator/audit.py", "from sys import argv\n", "reads argv"),
    (reads_environment, "bot/act.py", "parser.parse_args()\n", "reads argv"),
    (vague_names, "bot/utils.py", "", "bot/utils.py:1"),
    (long_modules, "bot/act.py", "x = 1\n" * (MODULE_LINES + 1), "321 lines, over 320"),
    (long_functions, "bot/act.py", "def f():\n    '''Why.\n    '''\n" + "    x = 1\n" * FUNCTION_LINES, "f has 41 lines"),
    (silent_modules, "bot/act.py", "x = 1\n", "no docstring"),
    (silent_tests, "tests/test_a.py", "def test_a():\n    assert 1\n", "test_a does not say"),
    (patched_tests, "tests/test_a.py", "from unittest import mock\n", "tests/test_a.py:1: patches"),
    (patched_tests, "tests/test_a.py", "def test_a(monkeypatch):\n    monkeypatch.setattr('a.b', 1)\n", "test_a.py:2: patches"),
    (swallowed_errors, "bot/act.py", "try:\n    f()\nexcept Exception:\n    pass\n", "bot/act.py:3: swallows"),
    (swallowed_errors, "bot/act.py", "try:\n    f()\nexcept (OSError, Exception):\n    ...\n", "bot/act.py:3: swallows"),
    (swallowed_errors, "bot/act.py", "with contextlib.suppress(Exception):\n    f()\n", "swallows"),
]
RULES = list(dict.fromkeys(rule for rule, *_ in BAD))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_the_rule(rule: Callable[[list[Source]], list[str]]) -> None:
    """No file of the project offends against the rule."""
    offenders = rule(repository())
    assert not offenders, "\n" + "\n".join(offenders)


@pytest.mark.parametrize(("rule", "path", "text", "said"), BAD, ids=lambda value: getattr(value, "__name__", None))
def test_the_rule_catches_a_bad_source(rule: Callable[[list[Source]], list[str]], path: str, text: str, said: str) -> None:
    """Each rule names place and fault of a made-up source that breaks it."""
    beside = ("bot/__init__.py", "bot/program.py", "bot/forge/__init__.py", "bot/forge/memory.py")
    good = [Source(name, "'''Docstring.'''\n") for name in beside]
    good.append(Source("bot/git.py", "'''Docstring.'''\nfrom bot import program\n"))
    assert not rule(good)
    assert any(said in offender for offender in rule([source for source in good if source.path != path] + [Source(path, text)]))


def test_the_walk_sees_the_project() -> None:
    """The rules look at every folder of ours, not at an empty list."""
    seen = {source.path.split("/")[0] for source in repository()}
    assert seen == set(FOLDERS), f"no Python file under {sorted(set(FOLDERS) - seen)}"


def test_no_exception_is_stale() -> None:
    """Every file that may read argv or the environment does."""
    readers = {offender.split(":")[0] for offender in reads_environment(repository(), listed=())}
    assert set(READS_ENVIRONMENT) <= readers, f"take out of READS_ENVIRONMENT: {sorted(set(READS_ENVIRONMENT) - readers)}"
