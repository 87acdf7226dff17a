"""A real campaign in a scratch repository, for whoever wants to see the machine before trusting it with a project.

Everything is what `run` does on one's own checkout; only the repository is made here, from examples/cpu.
"""

from __future__ import annotations

import re
from pathlib import Path

from bot import campaign, git
from bot.screen import Screen
from bot.state import Campaign
from bot.workspace import Machine, Told, Workspace, find

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "cpu"
EXPERIMENTS = 6
INTRODUCTION = (
    "The training, the number, the git history and the merges below are real: a small GPT learns from real text on this CPU, and "
    "its bits per byte are measured on text that it never saw.\n"
    "The proposer is not research: it draws from a list of known moves, to show the machine, and no model thinks about them."
)
README = """# A scratch repository

`autoresearch demo` made it from its own examples/cpu. trainer/train.py is the file under study, program.md steers the campaign;
pull requests, measurements and the log are in .git/autoresearch. Delete it whenever you like.
"""


def experiments(asked: str) -> int:
    """N of `/autoresearch N`, or of a plain N. Raises Told."""
    found = re.fullmatch(r"\s*(?:/autoresearch\s+)?([1-9][0-9]{0,5})\s*", asked)
    if found is None:
        raise Told(f'the demo takes "/autoresearch N" with N from 1 on, such as "/autoresearch {EXPERIMENTS}", not {asked!r}')
    return int(found[1])


def place(cwd: Path, wanted: Path | None) -> Path:
    """The folder of the scratch repository: the wanted one, else the first of demo, demo-2 ... that is not there. Raises Told."""
    if wanted is not None:
        if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise Told(f"{wanted} is there and not empty: name a folder that is not there yet")
        return cwd / wanted
    names = ["demo", *(f"demo-{k}" for k in range(2, 1000))]
    return next(cwd / name for name in names if not (cwd / name).exists())


def make(folder: Path) -> Workspace:
    """A repository with one commit. Raises OSError, GitError."""
    if not EXAMPLE.is_dir():
        raise Told(f"{EXAMPLE} is not there: the demo needs the whole repository; clone it and run `make demo` in it")
    (folder / "trainer").mkdir(parents=True)
    files = {
        "trainer/train.py": (EXAMPLE / "train.py").read_text("utf-8"),
        "program.md": (EXAMPLE / "program.md").read_text("utf-8"),
        "README.md": README,
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    repo = git.Repo(folder)
    repo.ask("init", "--quiet", "--template=", "--initial-branch=main", str(repo.path))
    repo.ask("add", "--", *files)
    repo.ask("commit", "--quiet", "--no-verify", "-m", "A small GPT that is left plain on purpose")
    return find(folder)


def run(machine: Machine, screen: Screen, folder: Path, n: int, seed: int | None) -> tuple[Workspace, Campaign]:
    """Make the repository and run a campaign of n experiments in it. Raises as campaign.begin does."""
    screen.line(INTRODUCTION)
    ws = make(folder)
    screen.line(f"The scratch repository is {ws.top}\n")
    return ws, campaign.begin(ws, machine, screen, n, {}, seed=seed)
