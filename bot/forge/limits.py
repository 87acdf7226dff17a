"""How much text a forge takes: what is longer is cut, and says so. The same on every forge, so that a laptop shows what GitHub
would. Sizes are characters, from https://docs.github.com/rest (422 "is too long") and GitHub's own error messages."""

from __future__ import annotations

from dataclasses import replace

from bot.forge import Check

TITLE = 256
BODY = 65_536  # of a pull request, a comment, a check's summary and its text
POINTER = "\n\n_Cut here: a forge takes no more. The whole is in the log (`autoresearch log`)._\n"


def fit_title(text: str) -> str:
    """One line of at most TITLE characters."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1]}…"


def fit_body(text: str) -> str:
    """At most BODY characters; when cut, the end points to the whole."""
    return text if len(text) <= BODY else text[: BODY - len(POINTER)] + POINTER


def fit_check(check: Check) -> Check:
    """The check within these sizes."""
    return replace(check, title=fit_title(check.title), summary=fit_body(check.summary), text=fit_body(check.text))
