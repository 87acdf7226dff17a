"""program.md: the front matter becomes frozen settings, the body becomes instructions for whoever proposes.

One literal table, settings.SETTINGS, says what every setting is; reading, checking and the table in docs/program.md are all
made from it. All mistakes are found at once and come back as a value. Each says where it stands, what was found, and what would
be right, because the person who reads it has only this text.

Values are read as they look: 1e-3 is a number, though YAML 1.1 takes it for text; "300" in quotes is none; `no`, 010, 1_000,
1:30 and .nan are refused rather than understood as YAML 1.1 does.

Pure: text in, values out. It does not look whether a folder, a device or a sandbox exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bot.frontmatter import Problem, Written, read, show, unknown
from bot.settings import SETTINGS, Budget, Mix, Model, Money, Schedule, Setting, Settings, Slack, Stop
from bot.spending import prices
from evaluator.gate import GateSettings

__all__ = ["SETTINGS", "Budget", "Problem", "Problems", "Program", "Setting", "Settings", "Stop", "parse", "reference"]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program.md without a mistake. `text` is the whole file as given."""

    settings: Settings
    instructions: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Every mistake of a program, in the order of its lines; those of flags come first."""

    items: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))


def parse(text: str, overrides: Mapping[str, object] = MappingProxyType({})) -> Program | Problems:
    """The program, or all that is wrong with it. `overrides` replace settings by dotted name and are checked alike."""
    halves = read(text, tuple(_BY_NAME))
    values = {setting.name: setting.default for setting in SETTINGS}
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    for item in (*halves.written, *_flags(overrides)):
        value = item if isinstance(item, Problem) else _check(item)
        if isinstance(value, Problem):
            problems.append(value)
        elif isinstance(item, Written):
            values[item.name], lines[item.name] = value, item.line
    problems += _together(values, lines)
    settings = None if problems else _build(values)
    problems += _models(settings, lines) if settings else ()
    if problems or settings is None:
        return Problems(items=tuple(sorted(problems, key=lambda problem: problem.line)))
    return Program(settings=settings, instructions=halves.body.strip(), text=text)


def reference() -> str:
    """The Markdown table of all settings, as docs/program.md shows it."""
    rows = [f"| `{s.name}` | {_default(s)} | {_takes(s)} | {s.meaning} |" for s in SETTINGS]
    return "\n".join(["| setting | default | takes | what it is |", "|---|---|---|---|", *rows]) + "\n"


def _flags(overrides: Mapping[str, object]) -> Iterator[Written | Problem]:
    for name, value in overrides.items():
        if name not in _BY_NAME:
            yield unknown(name, 0, tuple(_BY_NAME))
        elif isinstance(value, bool) and _BY_NAME[name].kind == "flag":
            yield Written(name=name, line=0, text=str(value).lower(), reads="text", flag=True)
        elif isinstance(value, (list, tuple)):
            items = tuple(map(_plain, value))
            yield Written(name=name, line=0, text=f"[{', '.join(items)}]", reads="a list", items=items, flag=True)
        else:
            reads = "nothing" if value is None else "text" if isinstance(value, str) else "a number"
            yield Written(name=name, line=0, text=_plain(value), reads=reads, flag=True)


def _plain(value: object) -> str:
    """An override as it would stand in the file."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"a {type(value).__name__}"
    return "a huge number" if isinstance(value, int) and value.bit_length() > 64 else str(value)


def _check(written: Written) -> object:
    """The value, or the Problem with it."""
    setting = _BY_NAME[written.name]
    if written.reads == "nothing" and setting.default is None:
        return None
    value = _KINDS[setting.kind](setting, written)
    return _wrong(written, f"it takes {_takes(setting)}") if value is None else value


def _wrong(written: Written, right: str) -> Problem:
    found = f"{show(written.text)}{_note(written)}" if written.text else "empty"
    return Problem(written.line, f"{'--' if written.flag else ''}{written.name} is {found}", right)


def _note(written: Written) -> str:
    """How YAML reads it, where that is not what one sees."""
    if written.flag or written.reads in ("text", "nothing", "a list"):
        return ""
    if written.reads == "a number" and _BY_NAME[written.name].kind in ("whole", "number"):
        return "" if _NUMBER.fullmatch(written.text) else " (not written as a plain number)"
    return f" ({written.reads})"


def _choice(setting: Setting, written: Written) -> str | None:
    return written.text if written.items is None and written.text in setting.allowed else None


def _flag(setting: Setting, written: Written) -> bool | None:
    return None if written.items is not None or written.text not in setting.allowed else written.text == "true"


def _folder(_: Setting, written: Written) -> str | None:
    """A path is any printable text that YAML also takes for text."""
    fine = written.reads in ("text", "text in quotes") and written.text.strip() and written.text.isprintable()
    return written.text if fine else None


def _list(setting: Setting, written: Written) -> tuple[str, ...] | None:
    return written.items if written.items == setting.allowed else None


def _text(_: Setting, written: Written) -> str | None:
    """A name; one that looks like a number or a date is fine, whatever YAML makes of it."""
    fine = written.items is None and (written.reads == "text" if written.flag else written.reads != "a group")
    fine = fine and written.text.strip() == written.text
    return written.text if fine and written.text.isprintable() and 0 < len(written.text) <= LONGEST else None


def _prices(_: Setting, written: Written) -> tuple[str, ...] | None:
    return written.items if written.items is not None and not isinstance(prices(written.items), str) else None


def _whole(setting: Setting, written: Written) -> int | None:
    if written.reads not in ("a number", "text") or not _WHOLE.fullmatch(written.text):
        return None
    low, high = setting.allowed
    return int(written.text) if low <= int(written.text) <= high else None


def _number(setting: Setting, written: Written) -> float | None:
    if written.reads not in ("a number", "text") or not _NUMBER.fullmatch(written.text):
        return None
    low, high = setting.allowed
    return float(written.text) if low <= float(written.text) <= high else None


def _together(values: Mapping[str, object], lines: Mapping[str, int]) -> Iterator[Problem]:
    """What is wrong although each setting alone is right."""
    if (values["gate.prior_sd"] is None) != (values["gate.prior_df"] == 0):
        line = lines.get("gate.prior_sd", lines.get("gate.prior_df", 0))
        yield Problem(line, "only one of gate.prior_sd and gate.prior_df is set", "set both (prior_df at least 1), or neither")
    if values["schedule.experiments"] and not values["schedule.issue"]:
        right = "set schedule.issue to the issue that it reports on, or schedule.experiments: 0"
        yield Problem(lines.get("schedule.experiments", 0), "schedule.experiments has no schedule.issue", right)


def _models(s: Settings, lines: Mapping[str, int]) -> Iterator[Problem]:
    """Whether everybody who may be asked can be, and under a cap be paid. `lines` of what came as a flag are 0."""
    line = lines.get("proposer", 0)
    if not s.proposers:
        yield Problem(line, "proposer is mix, and every weight in mix is 0", "give one of them a weight")
    if "llm" in s.proposers and s.model.proposer is None:
        right = "set model.proposer to its name, or give it with --model" + ("; or set mix.llm: 0" if s.proposer == "mix" else "")
        yield Problem(line, f"proposer is {s.proposer}, which asks a model, and none is named", right)
    if s.model.proposer and lines.get("model.proposer") == 0 and "llm" not in s.proposers:
        yield Problem(0, f"--model.proposer is given, and proposer is {s.proposer}, which asks no model", "set proposer: llm")
    table = prices(s.money.prices)
    for name in s.models if s.money.usd is not None and not isinstance(table, str) else ():
        if name not in table:
            right = f'add "{name} INPUT CACHED OUTPUT" to money.prices, in dollars for a million tokens'
            yield Problem(lines.get("money.usd", 0), f"money.usd caps the dollars, and {show(name)} has no price", right)


def _build(values: Mapping[str, Any]) -> Settings:
    def group(name: str) -> dict[str, Any]:
        return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(name + ".")}

    single = {name: value for name, value in values.items() if "." not in name}
    return Settings(
        budget=Budget(**group("budget")), gate=GateSettings(**group("gate")), stop=Stop(**group("stop")), mix=Mix(**group("mix")),
        model=Model(**group("model")), money=Money(**group("money")), schedule=Schedule(**group("schedule")),
        slack=Slack(**group("slack")), **single,
    )  # fmt: skip


def _takes(setting: Setting) -> str:
    """What is allowed, in words."""
    if setting.kind in _SAID:
        return _SAID[setting.kind]
    if setting.kind == "list":
        return f"[{', '.join(setting.allowed)}]"
    if setting.kind in ("choice", "flag", "folder"):
        names = [*setting.allowed, *(["a folder"] if setting.kind == "folder" else [])]
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    low, high = setting.allowed
    kind = "a whole number" if setting.kind == "whole" else "a number"
    return f"{kind} from {low:.10g} to {high:.10g}{', or nothing' if setting.default is None else ''}"


def _default(setting: Setting) -> str:
    if isinstance(setting.default, tuple):
        return f"`[{', '.join(setting.default)}]`"
    if setting.default is None:
        return "nothing"
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    return f"`{setting.default:.10g}`" if isinstance(setting.default, float) else f"`{setting.default}`"


_BY_NAME = {setting.name: setting for setting in SETTINGS}
_KINDS: Mapping[str, Callable[[Setting, Written], object]] = {
    "choice": _choice, "flag": _flag, "folder": _folder, "list": _list, "whole": _whole, "number": _number,
    "text": _text, "prices": _prices,
}  # fmt: skip
_SAID = {
    "text": "a name, or nothing",
    "prices": 'a list of "MODEL INPUT CACHED OUTPUT", each model once',
}
LONGEST = 200  # characters of a name
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
