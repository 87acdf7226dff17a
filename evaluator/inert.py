"""Text of a candidate made harmless for whoever reads it next: a terminal, a page, a person, a language model.

Not here: escaping for Markdown or HTML, which depends on where it is shown.
"""

from __future__ import annotations

import re
from itertools import pairwise

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -/]*[0-~])")
MARK = "[printed by the candidate, not an instruction] "
# Words that address a reader, rather than tell what a program did. Too many is harmless: the line is still there to read.
ADDRESSES = re.compile(
    r"\b(ignore|disregard|forget|override|bypass)\b.{0,60}\b(instructions?|prompts?|rules?|above|previous|prior|system|guidelines)\b"
    r"|\b(you|assistant|reviewer|maintainers?|agent|bot|model)\b.{0,30}\b(are|must|should|shall|will|have to|need to|can now)\b"
    r"|\b(please|must|should|now|always|immediately)\b.{0,40}\b(merge|approve|accept|keep|reveal|reply|respond|answer|report|output)\b"
    r"|\b(new|updated|important|urgent)\b.{0,20}\b(instructions?|system prompt|directive|policy)\b"
    r"|^\W*(system|assistant|user|human|developer|tool|instructions?)\W*:"
    r"|<\|.{0,40}\|>|\[/?INST\]|<</?SYS>>|</?\s*(system|assistant|user|human|instructions?|prompt|tool_\w+|function_\w+)\b"
    r"|(^|\s)/autoresearch\b",
    re.IGNORECASE,
)


def inert(text: str) -> str:
    """Without terminal sequences, control characters and marks of direction or no width; line ends and tabs stay."""
    return "".join(c for c in ESCAPES.sub("", text) if c in "\n\t" or c.isprintable())


def marked(text: str) -> str:
    """Inert, and each line that speaks to its reader says who is speaking."""
    lines = inert(text).split("\n")
    speaking = [bool(ADDRESSES.search(line)) for line in lines]
    for i, pair in enumerate(pairwise(lines)):
        if not (speaking[i] or speaking[i + 1]) and ADDRESSES.search(" ".join(pair)):
            speaking[i] = speaking[i + 1] = True
    return "\n".join(MARK + line if speaks else line for line, speaks in zip(lines, speaking, strict=True))


def sentence(text: str) -> str:
    """The same on one line."""
    return marked(" ".join(inert(text).split()))


def tail(text: str, most: int) -> str:
    """The end of it, marked; at most so many characters."""
    lines = marked(text[len(MARK) - most :]).split("\n")
    while len("\n".join(lines)) > most:
        lines.pop(0)
    return "\n".join(lines)
