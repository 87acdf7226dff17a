"""The README cannot lie about what can be checked: its generated parts, its commands, its files.

docs/make.py writes the generated parts from the log of a real demo and from the code.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from bot.__main__ import _parser
from bot.lines import GENESIS, BadLine, digest, to_line
from bot.loop import run
from bot.report.diagram import mermaid
from bot.world import World
from tests.test_loop import better
from tests.worlds import memory_world, start

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PLAIN = re.sub(r"```.*?```", "", README, flags=re.DOTALL)  # without output and diagrams
CODE = re.findall(r"`([^`\n]+)`", PLAIN) + re.findall(r"^ {4}(.+)$", PLAIN, re.MULTILINE)


def make() -> ModuleType:
    """docs/make.py, which is a program and no package."""
    spec = importlib.util.spec_from_file_location("readme_maker", ROOT / "docs" / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def log_of(world: World) -> list[str]:
    """As `autoresearch log --json` prints it."""
    lines, prev = [], GENESIS
    for event in world.log.read()[0]:
        lines.append(to_line(event, prev))
        prev = digest(lines[-1])
    return lines


def scripted(n: int, mode: str = "pairs") -> list[str]:
    world = memory_world(better)
    run(world, start(world, n, mode=mode))
    return log_of(world)


def test_the_readme_is_what_its_maker_writes() -> None:
    """Picture, table, output and diagram are those of the demo's log and of the code as they are now."""
    maker = make()
    if not maker.DEMO.exists():
        pytest.skip("docs/demo.jsonl, the log of a real demo, is not there yet: docs/make.py says how to make it")
    assert not [path.name for path in maker.stale()], "run docs/make.py"


@pytest.mark.parametrize("mode", ["pairs", "stack"])
def test_the_maker_fills_every_part(mode: str) -> None:
    """From any campaign's log: the last three merges, lines that the screen printed, the machine; twice is the same as once."""
    maker = make()
    c, happened = maker.demo(scripted(4, mode))
    text = maker.filled(README, c, happened)
    assert text == maker.filled(text, c, happened)
    assert mermaid() in text
    rows = re.findall(r"^\| (\d+) \| (\d\.\d{4}) \| \+\S+ (?:± \d\.\d{4}|in one run) \| `KNOB", text, re.MULTILINE)
    assert [int(n) for n, _ in rows] == [x.n for x in c.merged][-3:]
    shown = text[text.index("begin: demo") : text.index("end: demo")].splitlines()[2:-2]
    assert shown[0].startswith("campaign 1: 4 experiments") and shown[-1] == "campaign 1 ended: 4 experiments done"
    assert "the tip over the base" in shown[-2] and sum(": MERGED as " in line for line in shown) == 3
    assert max(map(len, shown)) <= maker.WIDTH and len(shown) <= 12


def test_the_maker_refuses_a_log_that_was_touched() -> None:
    """A number that somebody polished breaks the chain of hashes, and nothing is written from it."""
    lines = scripted(1)
    polished = [line.replace("2.9", "2.8", 1) if '"Measured"' in line else line for line in lines]
    assert polished != lines
    with pytest.raises(BadLine, match="by hand"):
        make().demo(polished)


def test_every_command_in_the_readme_exists() -> None:
    """`autoresearch x`, `make x` and `python x` are commands, targets and files of this checkout, with flags that they take."""
    commands = _parser()[1]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    wrong, seen = [], 0
    for line in CODE:
        for part in line.split("|"):
            program, *rest = part.split() or [""]
            if program == "autoresearch" and rest:
                seen += 1
                wrong += [] if rest[0] in commands and _takes(commands[rest[0]], rest[1:]) else [line]
            elif program == "make" and rest:
                seen += 1
                wrong += [] if rest[0] in targets else [line]
            elif program == "python" and rest[0] != "-m":
                seen += 1
                wrong += [] if (ROOT / rest[0]).is_file() else [line]
    assert seen > 5 and not wrong


def _takes(command: argparse.ArgumentParser, rest: list[str]) -> bool:
    known = {flag for action in command._actions for flag in action.option_strings}
    return all(word in known for word in rest if word.startswith("--"))


def test_bare_command_names_beside_are_commands_too() -> None:
    """In "`autoresearch status`, `pr`, `results`" the short ones exist as well."""
    commands = _parser()[1]
    found = re.findall(r"`autoresearch \w+`((?:,? (?:and )?`\w+`)+)", README)
    names = [name for text in found for name in re.findall(r"`(\w+)`", text)]
    assert names and set(names) <= set(commands)


def test_every_path_of_the_layout_exists() -> None:
    """What the tree and the table of surfaces name is there, and so is every file that a link goes to."""
    layout = README[README.index("## Layout") :]
    named = re.findall(r"^ {4}(\S+)", layout, re.MULTILINE)
    surfaces = README[README.index("## Who may change what") : README.index("## How a candidate moves")]
    named += [path for line in re.findall(r"^ {4}(\S+(?: \S+)*?) {2,}", surfaces, re.MULTILINE) for path in line.split()]
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    named += [link for link in links if link != "docs/best-so-far.svg" or (ROOT / "docs" / "demo.jsonl").exists()]
    missing = [path for path in named if not (ROOT / path).exists()]
    assert len(named) > 12 and not missing


def test_every_folder_of_the_project_is_in_the_layout() -> None:
    """Nobody finds a folder with Python of ours that the tree keeps quiet about."""
    layout = README[README.index("## Layout") :]
    folders = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("[a-z]*/*.py")}
    assert not [folder for folder in folders if not re.search(rf"^ {{4}}{folder}/", layout, re.MULTILINE)]
