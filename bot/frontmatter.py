"""The front matter of a Markdown file: which known names are written there, in which line, and every fault of the writing.

It knows names, not what they mean: types and ranges are checked in program.py. YAML is read strictly, because YAML 1.1 gives
some harmless-looking values a meaning that few people expect. So anchors, tags and repeated keys are faults here, and each
value comes as the text that stands in the file, with how YAML reads it said in words.

Pure: text in, values out.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import yaml

LONGEST = 256_000  # characters; a program has some thousands, and YAML takes seconds for a megabyte
DEEPEST = 4  # a value is at most a list in a group in the front matter
_WORDS = {
    "bool": "which YAML reads as true or false",
    "null": "nothing",
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
}


@dataclass(frozen=True)
class Problem:
    """One mistake. Line 0: it is not in the file but in a flag of the command, which `found` names."""

    line: int
    found: str
    right: str

    def __str__(self) -> str:
        return f"{f'line {self.line}: ' if self.line else ''}{self.found}; {self.right}"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A value as it stands there. `reads` is how YAML reads it; `items`: of a list; `flag`: it came with the command."""

    name: str
    line: int
    text: str
    reads: str
    items: tuple[str, ...] | None = None
    flag: bool = False


@dataclass(frozen=True, kw_only=True)
class Halves:
    """What was found in both parts of the file, faults included."""

    written: tuple[Written | Problem, ...]
    body: str


def read(text: str, known: Collection[str]) -> Halves:
    """The values of the `known` names ("a", "group.b") in the front matter, and the text after it."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if len(text) > LONGEST:
        return _nothing(f"the file has {len(text)} characters", f"at most {LONGEST} are read")
    if lines[0].rstrip() != "---":
        advice = "start the file with a line ---, then the settings, then another line ---"
        return _nothing(f"there is no front matter: the first line is {show(lines[0]) or 'empty'}", advice)
    close = next((k for k, line in enumerate(lines) if k and line.rstrip() == "---"), None)
    if close is None:
        return _nothing("the front matter that starts here does not end", "put a line --- after the last setting")
    return Halves(written=tuple(_values("\n".join(lines[1:close]), known)), body="\n".join(lines[close + 1 :]))


def _nothing(found: str, right: str) -> Halves:
    return Halves(written=(Problem(1, found, right),), body="")


def _values(front: str, known: Collection[str]) -> list[Written | Problem]:
    try:
        tricks = list(_tricks(front))
        root = None if tricks else yaml.compose(front, Loader=yaml.SafeLoader)
        return [*tricks, *_group(root, "", known)]
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: PyYAML on the escape "\UFFFFFFFF"
        return [_syntax(error, front)]


def _tricks(front: str) -> Iterator[Problem]:
    """What has no place in settings. Reads events, not values, so that an alias bomb or deep nesting costs nothing."""
    depth = 0
    for event in yaml.parse(front, Loader=yaml.SafeLoader):
        line = _line(event)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            yield Problem(line, "brackets or groups are nested too deep", "settings have one level of groups")
            return
        if anchor := getattr(event, "anchor", None):
            yield Problem(line, f"there is a YAML anchor or alias ({show(anchor)})", "write the value itself")
        elif tag := getattr(event, "tag", None):
            yield Problem(line, f"there is a YAML tag ({show(tag)})", "write the plain value")


def _syntax(error: Exception, front: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = mark.line if mark else front[: getattr(error, "position", 0)].count("\n")
    what = getattr(error, "problem", None) or "there is a character that YAML does not know"
    advice = (
        "indent with spaces, not tabs" if "'\\t'" in what else "write one `name: value` a line, groups indented by two spaces"
    )
    return Problem(at + 2, f"this is not YAML: {what}", advice)


def _line(part: yaml.Node | yaml.Event) -> int:
    """In the file: the front matter starts in its second line, and YAML counts from 0."""
    return part.start_mark.line + 2 if part.start_mark else 0


def _group(node: yaml.Node | None, prefix: str, known: Collection[str]) -> Iterator[Written | Problem]:
    """The values of one mapping. An empty one is fine: people comment lines out."""
    if node is None or (prefix and isinstance(node, yaml.ScalarNode) and _reads(node) == "nothing"):
        return
    if not isinstance(node, yaml.MappingNode):
        yield _no_group(_line(node), prefix.rstrip("."), known)
        return
    first: dict[str, int] = {}
    for key, value in node.value:
        name, line = prefix + (key.value if isinstance(key, yaml.ScalarNode) else "?"), _line(key)
        if name in first:
            yield Problem(line, f"{show(name)} stands here again", f"keep this one or the one in line {first[name]}")
        elif not prefix and any(other.startswith(name + ".") for other in known):
            yield from _group(value, name + ".", known)
        elif name in known and bool(prefix) == ("." in name):
            yield _written(name, value)
        else:
            yield unknown(name, line, known)
        first.setdefault(name, line)


def _no_group(line: int, name: str, known: Collection[str]) -> Problem:
    if not name:
        return Problem(line, "the front matter holds no settings", "write `name: value`, with a space after the colon")
    inside = next(other for other in known if other.startswith(name + ".")).partition(".")[2]
    return Problem(
        line, f"{name} is a group of settings, not a value", f"write {name}: and, indented below it, {inside}: and its value"
    )


def unknown(name: str, line: int, known: Collection[str]) -> Problem:
    """Finds `secnds` in a group as well as `target` outside: people forget the group as often as they misspell."""
    if name in known:
        group, inside = name.split(".")
        return Problem(line, f"{name} stands in one word", f"write {group}: and, indented below it, {inside}: and its value")
    full = {other.rpartition(".")[2]: other for other in known}
    full |= {other.partition(".")[0]: other.partition(".")[0] for other in known} | {other: other for other in known}
    attempts = (name.lower(), name.lower().rpartition(".")[2])
    close = [match for attempt in attempts for match in difflib.get_close_matches(attempt[:60], full, 1, 0.7)]
    right = f"did you mean {full[close[0]]}?" if close else "docs/program.md lists all settings"
    return Problem(line, f"{'' if line else '--'}{show(name)} is no setting", right)


def _written(name: str, node: yaml.Node) -> Written:
    if isinstance(node, yaml.SequenceNode):
        items = tuple(item.value if isinstance(item, yaml.ScalarNode) else "?" for item in node.value)
        return Written(name=name, line=_line(node), text=f"[{', '.join(items)}]", reads="a list", items=items)
    if isinstance(node, yaml.ScalarNode):
        return Written(name=name, line=_line(node), text=node.value, reads=_reads(node))
    return Written(name=name, line=_line(node), text="{...}", reads="a group")


def _reads(node: yaml.ScalarNode) -> str:
    """What YAML 1.1 makes of this value, in words."""
    return "text in quotes" if node.style in ("'", '"') else _WORDS.get(node.tag.rpartition(":")[2], "text")


def show(text: str) -> str:
    """Short and on one line, whatever it holds: it goes to terminals and comments."""
    short = text if len(text) <= 60 else text[:57] + "..."
    return short if short.isprintable() else ascii(short)
