"""What a person says in a comment, without what they show: code, quotes, hidden text, the tail of an e-mail.

The structure is read from the text as it came, by the rules of CommonMark (spec.commonmark.org/0.31.2) as far as they matter
here: what GitHub shows as code is code. In doubt text is left out, since a bot that acts on an example does harm and one that
is silent does not. One exception: a line right below a quote is spoken, though CommonMark draws it into the quote, because
whoever answers there means it.

Not read: HTML other than comments and <details>. Its first line is no command, which is all that matters.
Pure, and linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 65_536  # characters of a comment on GitHub; what is beyond did not come from there
_ENDS = re.compile(r"\r\n|\n|\r")  # the web editor sends CRLF: github/gh-aw#61580
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CLOSE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")
_QUOTE = re.compile(r" {0,3}>")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*[^ \t]")
_TOKEN = re.compile(r"`+|<!--|-->|<details(?![\w-])|</details\s*>", re.IGNORECASE)
# Mail programs and GitHub's own mails; what follows is not by the sender: dependabot/feedback#277, robinpowered/commodus#8.
_TAIL = re.compile(
    r"(--|—|_{20,}) ?|(-+ ?Original Message|Begin forwarded message:|Sent from |Get Outlook for |Reply to this email directly).*"
)
_ON = ("On ", "Am ", "Le ", "El ", "Il ", "Op ", "Em ")
_WROTE = re.compile(r".{4,300}\b(wrote|schrieb|a écrit|escribió|ha scritto|schreef|escreveu)\b.{0,200}:")


@dataclass(frozen=True)
class Line:
    """One line of what is said. `code`: it stands in a code block, to be read but not obeyed."""

    text: str
    code: bool = False


def spoken(text: str) -> Iterator[Line]:
    """The lines that the writer says, in order, as they stand there; blank ones too."""
    lines = _ENDS.split(text[:LONGEST])
    fence, hidden, skip = "", (0, False), 0
    for k, line in enumerate(lines):
        if k < skip:
            continue
        if fence or (not hidden[1] and (_FENCE.match(line) or _INDENTED.match(line))):
            fence = _fence(line, fence)
            if not hidden[0]:
                yield Line(line, code=True)
        elif hidden[1] or not _QUOTE.match(line):
            shown, hidden = _uncover(line, hidden)
            if _TAIL.fullmatch(shown.strip()):
                return
            if shown.strip() and (skip := _attribution(lines, k)):
                if not _QUOTE.match(next(filter(str.strip, lines[skip:]), "")):
                    return  # the original follows without a mark of its own
                continue
            yield Line(shown)


def _fence(line: str, fence: str) -> str:
    """The fence that is open after a line of code, "" for none."""
    if not fence:
        opened = _FENCE.match(line)
        return opened[1] if opened else ""
    closed = _CLOSE.fullmatch(line)
    return "" if closed and closed[1].startswith(fence) else fence


def _uncover(line: str, hidden: tuple[int, bool]) -> tuple[str, tuple[int, bool]]:
    """What of a line stands outside <details> and HTML comments, a blank for what does not; `hidden` is how deep, and whether
    in a comment, after it as before it."""
    depth, comment = hidden
    tokens = list(_TOKEN.finditer(line))
    last = {token[0]: token.start() for token in tokens if token[0][0] == "`"}
    shown, at, code = [], 0, ""
    for token in tokens:
        what, before = token[0].lower(), (depth, comment)
        if comment:
            comment = what != "-->"
        elif code:
            code = "" if what == code else code
        elif what[0] == "`":
            code = what if last[what] > token.start() else ""  # a run that nothing closes is text
        elif what != "-->":
            depth, comment = max(0, depth + {"<details": 1, "<!--": 0}.get(what, -1)), what == "<!--"
        if (depth, comment) != before:
            shown += [] if any(before) else [line[at : token.start()], " "]
            at = token.end()
    shown += [] if depth or comment else [line[at:]]
    return "".join(shown), (depth, comment)


def _attribution(lines: Sequence[str], k: int) -> int:
    """The line after an "On ... wrote:" that begins in line k, which may be wrapped twice; 0 if there is none."""
    wrapped = range(k + 1, min(k + 4, len(lines) + 1)) if lines[k].lstrip().startswith(_ON) else ()
    for end in wrapped:
        words = " ".join(line.strip() for line in lines[k:end])
        if len(words) > 500 or not lines[end - 1].strip():
            return 0
        if any(map(str.isdigit, words)) and _WROTE.fullmatch(words):
            return end
    return 0


def plain(text: str) -> str:
    """For comparing: blanks of every kind as spaces, no invisible characters, compatible forms (fullwidth letters) as usual ones.

    Digits stay what they are, since "5²" is not 52. Control characters stay too, to be refused. Raises nothing, also for lone
    surrogates. Source: chat programs and copied pages bring such characters, as in slack-ruby/slack-ruby-bot#255.
    """
    return text if text.isascii() else "".join(map(_plain, text))


def _plain(char: str) -> str:
    kind = unicodedata.category(char)
    if kind in ("Zs", "Zl", "Zp"):
        return " "
    return "" if kind == "Cf" else char if char.isnumeric() else unicodedata.normalize("NFKC", char)
