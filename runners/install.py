"""Get `autoresearch` onto a machine of GitHub Actions: `python3 runners/install.py [EXTRA ...]`, from a checkout, with any Python
from 3.11 on and nothing installed.

The virtual environment lies outside of the checkout, which is cleaned before every job, in the runner's own tool folder. Its name
is a hash of all that it was made from, so a machine that stays makes it once and then only looks; a hosted one makes it each
time. Nothing of it is shared between machines or through a cache. Versions are those of requirements.lock. What was not used
for 30 days is removed: with torch each environment has gigabytes.

Only the standard library: this runs before anything of ours is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
MADE_FROM = ("pyproject.toml", "requirements.lock")
OLDEST = (3, 11)
DONE = ".complete"  # written last: an environment without it was interrupted; its date is that of the last use
UNUSED_SECONDS = 30 * 86400.0
Run = Callable[[Sequence[str]], None]


def place(folder: Path, extras: Sequence[str], project: Path = PROJECT) -> Path:
    """Where the environment of that checkout with these extras lies in `folder`."""
    about = [sys.version, str(project), ",".join(sorted(extras))]
    parts = [*(text.encode() for text in about), *((project / name).read_bytes() for name in MADE_FROM)]
    return folder / f"autoresearch-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}"


def install(folder: Path, extras: Sequence[str], run: Run, project: Path = PROJECT) -> Path:
    """The folder of programs of an environment that holds the project. Raises subprocess.CalledProcessError."""
    there = place(folder, extras, project)
    if not (there / DONE).exists():
        shutil.rmtree(there, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(there)])
        what = f"{project}[{','.join(extras)}]" if extras else str(project)
        pip = (str(there / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run([*pip, "--constraint", str(project / "requirements.lock"), "--editable", what])
        (there / DONE).touch()
    tidy(there)
    return there / "bin"


def tidy(there: Path) -> None:
    """Mark that environment as used now, and remove others beside it that were not used for long."""
    with suppress(OSError):  # it may only be read here, or another job tidies as well
        (there / DONE).touch()
        now = (there / DONE).stat().st_mtime
        for other in there.parent.glob("autoresearch-*"):
            mark = other / DONE if (other / DONE).exists() else other
            if now - mark.stat().st_mtime > UNUSED_SECONDS:
                (other / DONE).unlink(missing_ok=True)  # first: half of one is none
                shutil.rmtree(other, ignore_errors=True)


def _run(argv: Sequence[str]) -> None:
    subprocess.run(argv, check=True)


def main() -> int:
    if sys.version_info < OLDEST:
        print("install: this machine's python3 is older than 3.11: install a newer one and put it on the PATH", file=sys.stderr)
        return 1
    tools = os.environ.get("RUNNER_TOOL_CACHE") or Path.home() / ".cache" / "autoresearch-tools"
    try:
        programs = install(Path(tools), sys.argv[1:], _run)
    except subprocess.CalledProcessError as error:
        print(f"install: `{' '.join(error.cmd)}` ended with {error.returncode}; what it said stands above", file=sys.stderr)
        return 1
    if path_file := os.environ.get("GITHUB_PATH"):  # what stands there is on the PATH of the steps that follow
        with Path(path_file).open("a", encoding="utf-8") as file:
            file.write(f"{programs}\n")
    print(programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
