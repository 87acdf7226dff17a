"""The one file of the local forge: what a repository cannot hold itself (texts, labels, comments, checks, states).

Written whole and atomically, under a lock, so that a loop and a person's command may both use it and a kill at any moment
leaves either the old or the new one. It knows nothing of git and decides nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bot.forge import Check, ForgeError, PullState

VERSION = 1


@dataclass(kw_only=True)
class Record:
    """A pull request. `base`: the default branch when it was opened; `head`: the last commit that its branch was seen at."""

    branch: str
    base: str
    head: str
    title: str
    body: str
    state: PullState = PullState.OPEN
    labels: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    merged: str | None = None
    closed_by: str | None = None


@dataclass(kw_only=True)
class Page:
    """All that the file holds: pull requests by number, checks by commit (newest last), comments by issue and tag."""

    pulls: dict[int, Record] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    said: dict[int, dict[str, str]] = field(default_factory=dict)


class Book:
    """The file. `before` is called with each step of a write (tests stop the world there)."""

    def __init__(self, file: Path, before: Callable[[str], object]) -> None:
        self.file = file
        self._before = before

    def read(self) -> Page:
        """As it stands; an empty page when there is no file yet. Raises ForgeError when it is damaged."""
        return self._parse(self._text())

    def _text(self) -> str:
        try:
            return self.file.read_text("utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise ForgeError(self._damaged(error)) from None
        except OSError as error:
            raise ForgeError(f"cannot read {self.file}: {error.strerror}; make it readable, then do it again") from None

    def _parse(self, text: str) -> Page:
        if not text and not self.file.exists():
            return Page()
        try:
            return _page(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ForgeError(self._damaged(error)) from None

    @contextmanager
    def editing(self) -> Iterator[Page]:
        """The page, to be changed in place: written when the block ends and something changed. Others wait."""
        try:
            with self.file.with_name(f"{self.file.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                was = self._text()
                page = self._parse(was)
                yield page
                if (text := _text(page)) != was:
                    self._write(text)
        except OSError as error:
            raise ForgeError(f"cannot write {self.file}: {error.strerror}; free or open up its disk, then do it again") from None

    def _write(self, text: str) -> None:
        new = self.file.with_name(f"{self.file.name}.new")
        self._before("write")
        with new.open("w", encoding="utf-8", errors="replace") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        self._before("keep")
        self._keep()
        self._before("rename")
        new.replace(self.file)
        self._before("written")

    def _keep(self) -> None:
        """Keep the version before, for a person whose disk or editor damages the newest."""
        link, kept = self.file.with_name(f"{self.file.name}.link"), self.file.with_name(f"{self.file.name}.before")
        link.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            link.hardlink_to(self.file)
            link.replace(kept)

    def _damaged(self, error: Exception) -> str:
        return (
            f"{self.file}, which holds the pull requests of this local forge, is damaged ({error}). Commits, branches and the "
            f"log are whole, and nothing was changed. {self.file.name}.before beside it is the version before the last change: "
            "look at it and move it into place, or restore a backup. The texts cannot be rebuilt from the repository."
        )


def _text(page: Page) -> str:
    return json.dumps({"version": VERSION} | asdict(page), indent=1, ensure_ascii=False)


def _page(raw: dict[str, Any]) -> Page:
    if raw["version"] != VERSION:
        raise ValueError(f"its version is {raw['version']}, this program writes {VERSION}: it was written by another version")
    return Page(
        pulls={int(number): Record(**record | {"state": PullState(record["state"])}) for number, record in raw["pulls"].items()},
        checks={head: [_check(check) for check in checks] for head, checks in raw["checks"].items()},
        said={int(issue): dict(comments) for issue, comments in raw["said"].items()},
    )


def _check(raw: dict[str, Any]) -> Check:
    lines = tuple((str(path), int(first), int(last)) for path, first, last in raw.pop("lines", ()))
    return Check(**raw, lines=lines)
