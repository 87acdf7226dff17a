"""From what a model wrote to edits that apply exactly, or to a sentence from which it can repair what it wrote.

A search text must stand in the file once. One slip is mended here, because there is only one way to mean it: the same lines at
another indentation, or with other white space at their ends. Everything else is told. A whole file becomes the smallest edits
that make it, so that they still apply when another edit has been merged meanwhile.

Pure: text in, edits or words out.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable

from bot.events import Edit
from bot.propose import apply

SHOWN = 100  # characters of a line that are told back
TYPED = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-", "\u00a0": " "})


def resolve(source: str, blocks: Iterable[tuple[str, str]]) -> tuple[Edit, ...] | str:
    """The edits, each of which applies after those before it; or what is wrong with the first that does not."""
    edits: list[Edit] = []
    for number, (old, new) in enumerate(blocks, 1):
        found = _edit(source, unix(old), unix(new))
        if isinstance(found, str):
            return f"edit {number}: {found}"
        source = source.replace(found.old, found.new)
        edits.append(found)
    return tuple(edits)


def between(source: str, target: str) -> tuple[Edit, ...]:
    """The smallest edits in whole lines that make one text of the other, each with as much around it as makes it unique."""
    before, after = _lines(source), _lines(target)
    codes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    spans = _unique(source, before, [(a, b) for tag, a, b, _, _ in codes if tag != "equal"])
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for tag, a1, a2, b1, b2 in codes:
        for a, b in [(a1, b1), (a2, b2)] if tag != "equal" else [(a, a - a1 + b1) for a in range(a1, a2 + 1)]:
            first.setdefault(a, b)
            last[a] = b
    edits = tuple(Edit(old="".join(before[a:b]), new="".join(after[first[a] : last[b]])) for a, b in spans)
    return edits if apply(source, edits) == target else (Edit(old=source, new=target),)


def _unique(source: str, before: list[str], spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of lines widened until each occurs once, and joined where they touch."""
    while True:
        joined: list[tuple[int, int]] = []
        for a, b in sorted(spans):
            if joined and a <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(b, joined[-1][1]))
            else:
                joined.append((a, b))
        spans = [
            (a, b) if a < b and source.count("".join(before[a:b])) == 1 else (max(0, a - 1), min(len(before), b + 1))
            for a, b in joined
        ]
        if spans == joined:
            return spans


def _edit(source: str, old: str, new: str) -> Edit | str:
    """One block as an edit of the source, or its fault."""
    if not old.strip():
        return "its search text is empty; copy the lines that are to be replaced, or the line beside which new ones go"
    if old == new:
        return "search and replacement are equal: it changes nothing"
    times = source.count(old)
    if times == 1:
        return Edit(old=old, new=new)
    if times > 1:
        where = ", ".join(str(_line_of(source, at)) for at in _places(source, old)[:8])
        return f"its search text is found {times} times, at lines {where}; copy more lines around it, so that it is found once"
    return _shifted(source, old, new) or _missing(source, old)


def _shifted(source: str, old: str, new: str) -> Edit | None:
    """The edit that was meant, where the same lines stand there once at another indentation."""
    wanted, lines = _bare(old), source.split("\n")
    at = [k for k in range(len(lines) - len(wanted) + 1) if _bare("\n".join(lines[k : k + len(wanted)])) == wanted]
    if len(at) != 1:
        return None
    there = "\n".join(lines[at[0] : at[0] + len(wanted)])
    away, here = _margin(there), _margin(old)
    moved = [away + line[len(here) :] if line.startswith(here) and line.strip() else line for line in new.strip("\n").split("\n")]
    if not new.strip() and source.count(f"{there}\n") == 1:
        return Edit(old=f"{there}\n", new="")
    return Edit(old=there, new="\n".join(moved)) if source.count(there) == 1 and there != "\n".join(moved) else None


def _bare(text: str) -> list[str]:
    """Its lines without their common indentation and without white space at their ends."""
    return [line.rstrip() for line in textwrap.dedent(text.strip("\n")).split("\n")]


def _margin(text: str) -> str:
    """The common indentation of its lines."""
    first = next(line for line in text.split("\n") if line.strip())
    inner = next(line for line in textwrap.dedent(text).split("\n") if line.strip())
    return first[: len(first) - len(inner)]


def _missing(source: str, old: str) -> str:
    """What is there instead, as far as one can guess."""
    if source.count(old.translate(TYPED)) == 1:
        return "its search text has typographic quotes, dashes or spaces where the file has plain ones; copy it exactly"
    if re.search(r"^[+-]\S", old, re.MULTILINE) or old.startswith("@@"):
        return "its search text is not found; it looks like a diff: give the lines as they are in the file, without + and -"
    lines = source.split("\n")
    wanted = [line for line in old.split("\n") if line.strip()]
    lost = next((line for line in wanted if line not in lines), wanted[0])
    if lost in lines:
        return "its search text is not found: each of its lines is in the file, but not in this order; copy it exactly"
    near = difflib.get_close_matches(lost.strip(), [line.strip() for line in lines if line.strip()], n=1)
    where = next((k for k, line in enumerate(lines, 1) if near and line.strip() == near[0]), 0)
    hint = f"; the nearest is line {where}: {lines[where - 1][:SHOWN]}" if where else ""
    return f"its search text is not found: no line of the file reads {lost[:SHOWN]!r}{hint}; copy it exactly"


def _places(source: str, old: str) -> list[int]:
    """Where it begins, counted as str.count does."""
    return [match.start() for match in re.finditer(re.escape(old), source)]


def _line_of(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


def _lines(text: str) -> list[str]:
    """With their ends; only a line feed ends a line, as for the parser of Python."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def unix(text: str) -> str:
    """With the line ends of the file."""
    return text.replace("\r\n", "\n")
