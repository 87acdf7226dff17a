"""What a model answers, as a proposal: read from JSON or from a strict text form, and held against the file that it is for.

Every fault comes back as a sentence from which the model can repair what it wrote. Read are the forms that models really
give: JSON in a fence, prose around it, thinking before it, trailing commas, line ends within a string. Nothing is guessed: an
edit that is found twice, a diff, half a file are faults. And nothing but these fields is read: no answer can change a setting,
name a file or run a command.

    TITLE: a narrower model            <<<<<<< SEARCH
    HYPOTHESIS: ...                    DIM = 512
    EXPECTED: ...                      =======
    TAGS: width, speed                 DIM = 384
                                       >>>>>>> REPLACE

Pure: text in, values or words out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bot import static
from bot.events import Edit
from bot.propose import apply, patch
from bot.report.quoting import one_line

TITLE, WORDS, TAG, TAGS, EDITS = 100, 2_000, 40, 8, 40  # characters of a title, a text, a tag; tags and edits of a proposal
STARTS = 8  # braces at which an object is looked for
# What a model thought before it spoke. Some servers cut the opening tag off; a closing one then ends its line.
PAIR = re.compile(r"\A\s*<(think(?:ing)?|thought|reasoning)>.*?</\1>", re.DOTALL)
THOUGHT = re.compile(rf"{PAIR.pattern}|\A.*?</think(?:ing)?>[ \t]*(?:\n|\Z)", re.DOTALL)

# Strict mode takes no optional field: an empty text stands for what is not there.
# https://platform.openai.com/docs/guides/structured-outputs
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title", "hypothesis", "expected_effect", "tags", "edits", "whole_file"],
    "properties": {
        "title": {"type": "string", "description": "what the edit does, in at most ten words"},
        "hypothesis": {"type": "string", "description": "why it should lower the number"},
        "expected_effect": {"type": "string", "description": "by how much, and what one would see if you are wrong"},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "what it touches, for example optimizer, width"},
        "edits": {
            "type": "array",
            "description": "empty if whole_file is given",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["search", "replace"],
                "properties": {
                    "search": {"type": "string", "description": "whole lines, exactly as in the file, found there once"},
                    "replace": {"type": "string", "description": "what stands there instead"},
                },
            },
        },
        "whole_file": {"type": "string", "description": "the whole new file, only for a rewrite of most of it; else empty"},
    },
}

FORM = """Answer in exactly this form, without a word before or after it:

TITLE: what the edit does, in at most ten words
HYPOTHESIS: why it should lower the number
EXPECTED: by how much, and what one would see if you are wrong
TAGS: what it touches, separated by commas
<<<<<<< SEARCH
whole lines, exactly as in the file, found there once
=======
what stands there instead
>>>>>>> REPLACE

Give as many SEARCH blocks as the change needs. Only for a rewrite of most of the file, write in their place WHOLE FILE on a
line of its own, and below it the whole new file in a fence of three backticks."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """As the model wrote it: not yet held against a file. `blocks` are (search, replace)."""

    title: str
    hypothesis: str
    expected_effect: str = ""
    tags: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    whole_file: str = ""


def parse(text: str) -> Proposal | str:
    """The proposal, or what is wrong with the form of the answer."""
    text = spoken(text)
    if START.search(text) or WHOLE.search(text):
        found: Proposal | str = _from_text(text)
    elif (record := _json(text)) is not None:
        found = _from_json(record)
    else:
        return _no_form(text)
    return found if isinstance(found, str) else _complete(found)


def spoken(text: str) -> str:
    """An answer without the thinking before it, and with unix line ends."""
    return THOUGHT.sub("", text.replace("\r\n", "\n"), count=1)


def edits_of(source: str, proposal: Proposal, tried: frozenset[str]) -> tuple[Edit, ...] | str:
    """Its edits, which apply to the source and pass every check that needs no run; or what is wrong, in a sentence."""
    edits = patch.resolve(source, proposal.blocks)
    if isinstance(edits, str):
        return edits
    edited = _one_end(proposal.whole_file) if proposal.whole_file else apply(source, edits)
    assert edited is not None  # every edit was made once already
    return static.fault(source, edited, tried) or contract_fault(edited) or edits or patch.between(source, edited)


def contract_fault(edited: str) -> str | None:
    """What a train.py has lost of its contract: build() and train(model, session) at the top level. Raises SyntaxError."""
    there = {node.name: node.args for node in ast.parse(edited).body if isinstance(node, ast.FunctionDef)}
    for name, form, given in (("build", "build()", 0), ("train", "train(model, session)", 2)):
        if name not in there:
            return f"the contract is lost: the file has no function {form} at its top level"
        args = there[name]
        most = len(args.posonlyargs) + len(args.args)
        needed = most - len(args.defaults) + sum(default is None for default in args.kw_defaults)
        if needed > given or (most < given and not args.vararg):
            return f"the contract is lost: {name} at line {_line(edited, name)} cannot be called as {form}"
    return None


def _line(source: str, name: str) -> int:
    return next(n.lineno for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name)


# The text form

START = re.compile(r"^[ \t]*<{5,9} ?SEARCH[ \t]*$", re.MULTILINE)
MIDDLE, END = re.compile(r"[ \t]*={5,9}[ \t]*"), re.compile(r"[ \t]*>{5,9} ?REPLACE[ \t]*")
WHOLE = re.compile(r"^[ \t*#]*WHOLE FILE[ \t*:]*$", re.MULTILINE)
FIELD = re.compile(r"^[ \t*#]*(TITLE|HYPOTHESIS|EXPECTED|TAGS)[*]*[ \t]*[:：][*]*[ \t]*", re.MULTILINE | re.IGNORECASE)


def _from_text(text: str) -> Proposal | str:
    starts = [found.start() for found in (START.search(text), WHOLE.search(text)) if found]
    fields = _fields(re.sub(r"```\w*\s*\Z", "", text[: min(starts)]))
    blocks = _blocks(text)
    if blocks is None:
        return "a block is not complete: each has the lines <<<<<<< SEARCH, =======, >>>>>>> REPLACE, in this order"
    whole = "" if blocks else _fenced(text[WHOLE.search(text).end() :])  # type: ignore[union-attr]
    if not blocks and not whole:
        return "below WHOLE FILE stands no complete fence of three backticks with the file in it"
    return Proposal(
        title=fields.get("TITLE", ""), hypothesis=fields.get("HYPOTHESIS", ""), expected_effect=fields.get("EXPECTED", ""),
        tags=tuple(fields.get("TAGS", "").split(",")), blocks=blocks, whole_file=whole,
    )  # fmt: skip


def _blocks(text: str) -> tuple[tuple[str, str], ...] | None:
    """All SEARCH blocks; None when one of them is not complete."""
    blocks: list[tuple[str, str]] = []
    inside: list[list[str]] = []  # the lines of the search text, then those of the replacement
    for line in text.split("\n"):
        if START.fullmatch(line):
            if inside:
                return None
            inside = [[]]
        elif len(inside) == 1 and MIDDLE.fullmatch(line):
            inside.append([])
        elif len(inside) == 2 and END.fullmatch(line):
            blocks.append(("\n".join(inside[0]), "\n".join(inside[1])))
            inside = []
        elif inside:
            inside[-1].append(line)
    return None if inside else tuple(blocks)


def _fields(head: str) -> dict[str, str]:
    marks = list(FIELD.finditer(head))
    ends = [mark.start() for mark in marks[1:]] + [len(head)]
    return {mark[1].upper(): head[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)}


def _fenced(text: str) -> str:
    """What stands in the first fence; its last line closes it, since a file may hold backticks itself."""
    match = re.match(r"\s*^(?P<mark>`{3,})\w*[ \t]*\n(?P<body>.*)^(?P=mark)[ \t]*$", text, re.MULTILINE | re.DOTALL)
    return match["body"] if match else ""


# The JSON form


def _json(text: str) -> dict[str, Any] | None:
    """The first JSON object in the text that has a field of ours."""
    ours = {"title", "hypothesis", "edits", "whole_file"}
    return next((record for record in objects(text) if record.keys() & ours), None)


def objects(text: str, most: int = STARTS) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, whatever stands around them, those within others too: of each of the first braces with a
    quote behind it."""
    for match, _ in zip(re.finditer(r'\{\s*"', text), range(most), strict=False):
        for written in (text[match.start() :], _without_trailing_commas(text[match.start() :])):
            try:
                record, _ = json.JSONDecoder(strict=False).raw_decode(written)
            except (ValueError, RecursionError):
                continue
            yield record
            break


def _without_trailing_commas(text: str) -> str:
    """Outside of strings: code in a string may well have one."""
    return re.sub(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', lambda m: m[0] if m[0] != "," else "", text, flags=re.DOTALL)


def _from_json(record: dict[str, Any]) -> Proposal | str:
    edits, tags = record.get("edits") or [], record.get("tags") or []
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return 'edits is not a list of objects {"search": ..., "replace": ...}'
    blocks = tuple((edit.get("search", edit.get("old")), edit.get("replace", edit.get("new"))) for edit in edits)
    if not all(isinstance(text, str) for block in blocks for text in block):
        return 'an edit lacks a text: each is {"search": ..., "replace": ...}'
    named = {key: record.get(key) or "" for key in ("title", "hypothesis", "expected_effect", "whole_file")}
    if wrong := [key for key, value in named.items() if not isinstance(value, str)]:
        return f"{wrong[0]} is no text"
    listed = tags.split(",") if isinstance(tags, str) else [tag for tag in tags if isinstance(tag, str)]
    return Proposal(**named, tags=tuple(listed), blocks=blocks)


def _complete(found: Proposal) -> Proposal | str:
    """Its texts at their lengths, or what is missing."""
    if not found.title.strip() or not found.hypothesis.strip():
        return f"the {'hypothesis' if found.title.strip() else 'title'} is missing"
    if bool(found.blocks) == bool(found.whole_file.strip()):
        return "it gives both edits and a whole file: give one of them" if found.blocks else "it has no edit at all"
    if len(found.blocks) > EDITS:
        return f"it has {len(found.blocks)} edits, {EDITS} are allowed; make one change, or give the whole file"
    tags = filter(None, (re.sub(r"[^\w-]+", "-", tag.lower()).strip("-")[:TAG] for tag in found.tags))
    return Proposal(
        title=one_line(found.title, TITLE), hypothesis=found.hypothesis.strip()[:WORDS],
        expected_effect=found.expected_effect.strip()[:WORDS], tags=tuple(dict.fromkeys(tags))[:TAGS], blocks=found.blocks,
        whole_file=found.whole_file,
    )  # fmt: skip


def _no_form(text: str) -> str:
    """No form of ours: what it looks like."""
    if re.search(r"^(@@ |--- \S|\+\+\+ \S|diff --git)", text, re.MULTILINE):
        return "it is a diff, which cannot be applied exactly; give search and replacement, each as whole lines of the file"
    if re.search(r"[{,]\s*[“”„]", text):
        return "it is JSON with typographic quotes, which is not JSON; use plain quotes"
    if re.search(r'\{\s*"', text):
        return "it is JSON that does not parse; check quotes, escapes and braces, and give the object only"
    return "it has no edit in the form that was asked for"


def _one_end(text: str) -> str:
    return patch.unix(text).rstrip("\n") + "\n"
