"""Text from people, models and logs is data: how to show it on GitHub so that nothing in it comes alive.

On a page it stands in code spans and fences, where no @mention, link, HTML or hidden marker works. Commit messages and titles
have no such thing; there its triggers are broken by an invisible character. Not here: HTML pages, which escape by html.escape.
"""

from __future__ import annotations

import re
import unicodedata

RUN = 32  # backticks in a row that a fence can still outdo at a reasonable length
LINE = 300  # characters of a reason or a name


def fence(text: str, limit: int, info: str = "", where: str = "") -> str:
    """A fenced block that its content cannot end, with at most `limit` characters of it. `where` says how to see the rest."""
    clean = re.sub(f"`{{{RUN},}}", lambda m: f"`...({len(m[0])} backticks)", visible(text))
    mark = "`" * max(3, 1 + longest(clean))
    note = f"\n\nCut after {limit} of {len(clean)} characters{f'; all of it: `{where}`' if where else ''}."
    return f"{mark}{info}\n{clean[:limit].rstrip()}\n{mark}{note if len(clean) > limit else ''}"


def span(text: str, limit: int = LINE) -> str:
    """One line as a code span that its content cannot end; nothing for nothing."""
    clean = one_line(text, limit)
    if not clean:
        return ""
    mark = "`" * (1 + longest(clean))
    return f"{mark} {clean} {mark}" if "`" in clean else f"{mark}{clean}{mark}"


def longest(text: str) -> int:
    """How many backticks stand in a row at most."""
    return max((len(run) for run in re.findall("`+", text)), default=0)


def cell(text: str) -> str:
    """A span inside a table, where even in code a pipe would end the cell."""
    return span(text.replace("|", "¦"), 120)


def quiet(text: str, limit: int) -> str:
    """One line for where there is no code span: commit messages and titles. What GitHub would act on (mentions, references that
    link or close, links, [skip ci], tags, should a title be put on a page) is broken by a zero-width space."""
    triggers = r"[@#](?=\w)|<(?=[\w/!?])|://(?=\w)|www\.(?=\w)|\bGH-(?=\d)|\[(?=(?:skip|no|ci|actions)[ -])"
    return re.sub(triggers, lambda m: m[0] + "\u200b", one_line(text, limit), flags=re.IGNORECASE)


def one_line(text: str, limit: int) -> str:
    clean = " ".join(visible(text).split())
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def visible(text: str) -> str:
    """Without terminal colours; other control, direction and invisible characters as escapes; no start of an HTML comment."""
    plain = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text.replace("\r\n", "\n")).replace("\r", "\n")
    shown = (line if line.isprintable() else "".join(map(_shown, line)) for line in plain.split("\n"))
    return "\n".join(shown).replace("<!--", "<! --")


def _shown(char: str) -> str:
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char != "\t"
    return f"\\u{ord(char):04x}" if hidden else char
