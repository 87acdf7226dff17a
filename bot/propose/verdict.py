"""What a reviewer's model said of a diff: a no, a yes, or neither.

    refusal(answer) -> its reasons; None where nothing in it is a no
    doubt(answer)   -> why it is no yes; None: it is one

Whoever wrote the diff may have put a verdict into it, and a model quotes what it complains of. So the two are not read alike. A
no counts wherever it stands and however it is broken, but for what the model thought before it spoke. A yes must be the answer:
the whole of it, or a line of its own beside nothing that could be a no.

Pure: text in, words out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bot.propose.proposal import PAIR, objects, spoken

QUOTED = 64  # objects that an answer may hold, its verdict among them
START = re.compile(r'\{\s*"')
FENCED = re.compile(r"\s*```\w*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
# A no whose object is broken, cut, or written as another language has it; and one in plain words, which may stand beside a yes.
NO = re.compile(r"""\bapproved?[\s"'”*_`\\]*[:=][\s"'“*_`\\]*(?:false|no)\b""", re.IGNORECASE)
WORDS = re.compile(r"\breject|\bcannot\s+approve|(?:\bnot|n['’]t)\s+approve", re.IGNORECASE)


def refusal(answer: str) -> list[str] | None:
    """The reasons of every no in it; the answer itself is the reason where no object holds one."""
    whole = _said(answer)
    refused = [one for one in objects(whole, QUOTED) if _is_no(one.get("approve"))]
    if refused:
        return [text for one in refused for text in _reasons(one)]
    if NO.search(whole) or (WORDS.search(whole) and not any(_approvals(whole))):
        return [whole]
    return None


def doubt(answer: str) -> str | None:
    """What it lacks of a yes. For answers without a refusal."""
    whole = _said(answer)
    if _is_yes(_alone(whole)):
        return None
    found = list(objects(whole, QUOTED))
    if not found:
        return "holds no JSON object"
    if not any(_is_yes(one) for one in found):
        return "lacks `approve` or `reasons`"
    if not any(_approvals(whole)) or len(found) < len(START.findall(whole)) or WORDS.search(whole):
        return "has a yes in it beside what may be a no"
    return None


def _said(answer: str) -> str:
    """Without thinking that is marked at both ends. Where the opening mark was cut off, nobody knows what was thought."""
    return PAIR.sub("", answer.replace("\r\n", "\n"), count=1)


def _alone(whole: str) -> object:
    """The one value that it all is, in a fence or not."""
    fenced = FENCED.fullmatch(whole)
    try:
        return json.loads(fenced[1] if fenced else whole, strict=False)
    except (ValueError, RecursionError):
        return None


def _approvals(whole: str) -> Iterator[bool]:
    """A yes that begins a line, after all thinking: what is quoted from a diff has a sign before it."""
    last = spoken(whole)
    for start in re.finditer(r'^[ \t]*(?=\{\s*")', last, re.MULTILINE):
        yield any(_is_yes(one) for one in objects(last[start.end() :], 1))


def _is_yes(one: object) -> bool:
    return isinstance(one, dict) and one.get("approve") is True and isinstance(one.get("reasons"), list)


def _is_no(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() in ("false", "no"))


def _reasons(one: dict[str, Any]) -> list[str]:
    told = one.get("reasons", one.get("reason"))
    listed = told if isinstance(told, list) else [told]
    return [text for text in listed if isinstance(text, str) and text.strip()]
