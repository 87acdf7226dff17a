"""program.md: the front matter becomes frozen settings, the body becomes instructions for whoever proposes.

One literal table, SETTINGS, says what every setting is; reading, checking and the table in docs/program.md are all made
from it. All mistakes are found at once and come back as a value. Each says where it stands, what was found, and what would
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
from evaluator.gate import GateSettings

__all__ = ["SETTINGS", "Budget", "Problem", "Problems", "Program", "Setting", "Settings", "Stop", "parse", "reference"]


@dataclass(frozen=True)
class Setting:
    """One row of the table. `allowed` holds the choices, or the lowest and the highest number, both included.

    Kinds: choice, flag, folder (a choice or a path), list (all of `allowed`), whole, number. One whose default is None may be
    empty.
    """

    name: str
    kind: str
    default: object
    allowed: tuple[Any, ...]
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting("metric", "choice", "val_bpb", ("val_bpb",), "What is measured: bits per byte of held-out text."),
    Setting("direction", "choice", "lower", ("lower",), "Which way the metric is better."),
    Setting("editable", "list", ("trainer/train.py",), ("trainer/train.py",), "The files that a candidate may change."),
    Setting(
        "corpus", "folder", "climbmix", ("climbmix", "austen"), "The text: a known one, or a folder of text or parquet files."
    ),
    Setting("device", "choice", "auto", ("auto", "cpu", "cuda"), "Where a candidate trains; auto takes the GPU if there is one."),
    Setting("budget.seconds", "number", 300.0, (0.1, 86_400), "Training time of one run, in seconds of wall clock."),
    Setting("budget.startup_seconds", "number", 600.0, (1, 86_400), "How long a run may build and compile before it sees data."),
    Setting("budget.scoring_seconds", "number", 300.0, (1, 86_400), "How long one run may be scored and audited, in all."),
    Setting("gate.mode", "choice", "pairs", ("pairs", "stack"), "What must be proven before a merge: each edit, or a stack."),
    Setting("gate.alpha", "number", 0.004, (1e-6, 0.25), "Chance that a candidate which is not better passes its pairs."),
    Setting("gate.floor", "number", 1.1, (0, 10), "Smallest gain worth confirming, in standard deviations of one run."),
    Setting("gate.max_pairs", "whole", 7, (1, 100), "Pairs after which a candidate that is not proven better is closed."),
    Setting("gate.baseline_runs", "whole", 5, (1, 100), "Runs of the base before the first candidate."),
    Setting("gate.refresh_runs", "whole", 20, (1, 10_000), "The base is run again after so many runs without one of it."),
    Setting("gate.resolution", "number", 1e-6, (1e-12, 1), "Smallest difference that means anything, in bits per byte."),
    Setting("gate.prior_sd", "number", None, (1e-9, 10), "Standard deviation of one run known from earlier, in bits per byte."),
    Setting("gate.prior_df", "whole", 0, (0, 1000), "How many degrees of freedom gate.prior_sd is worth; 0 = it is not used."),
    Setting("gate.verdict_pairs", "whole", 3, (0, 100), "Fresh pairs of base and tip when a campaign ends; 0 = not measured."),
    Setting("gate.ablation", "whole", 0, (0, 10_000), "Runs to spend on taking single merged edits out of the tip at the end."),
    Setting("gate.simpler", "flag", False, ("true", "false"), "Keep what is shorter and worse by less than gate.margin, too."),
    Setting("gate.margin", "number", 0.001, (1e-6, 10), "How much worse a shorter train.py may be, in bits per byte."),
    Setting("stop.experiments", "whole", 200, (1, 100_000), "Most experiments that one command may ask for."),
    Setting("stop.target", "number", None, (0.001, 100), "Stop when the metric of the tip is this or better, in bits per byte."),
    Setting("stop.hours", "number", None, (0.001, 8760), "Stop after so many hours."),
    Setting("stop.patience", "whole", None, (1, 100_000), "Stop after so many settled candidates in a row without a merge."),
    Setting("stop.crashes", "whole", 5, (1, 100_000), "Stop after so many candidates in a row whose run failed."),
    Setting("stop.refusals", "whole", 20, (1, 100_000), "Stop after so many proposals in a row that were refused unrun."),
    Setting("parallel", "whole", 1, (1, 64), "Measurements at the same time."),
    Setting("runner", "choice", "local", ("local",), "Where measurements run."),
    Setting("sandbox", "choice", "required", ("required", "if-available", "none"), "Whether a run without a sandbox is refused."),
    Setting("proposer", "choice", "mutate", ("mutate",), "Who proposes: mutate draws from known moves, offline."),
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Seconds of wall clock for the three parts of one run."""

    seconds: float
    startup_seconds: float
    scoring_seconds: float


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a campaign ends by itself. None: this rule is off."""

    experiments: int
    target: float | None
    hours: float | None
    patience: int | None
    crashes: int
    refusals: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of SETTINGS as values; the table says what each one means."""

    metric: str
    direction: str
    editable: tuple[str, ...]
    corpus: str
    device: str
    budget: Budget
    gate: GateSettings
    stop: Stop
    parallel: int
    runner: str
    sandbox: str
    proposer: str


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
    if problems:
        return Problems(items=tuple(sorted(problems, key=lambda problem: problem.line)))
    return Program(settings=_build(values), instructions=halves.body.strip(), text=text)


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


def _build(values: Mapping[str, Any]) -> Settings:
    def group(name: str) -> dict[str, Any]:
        return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(name + ".")}

    single = {name: value for name, value in values.items() if "." not in name}
    return Settings(budget=Budget(**group("budget")), gate=GateSettings(**group("gate")), stop=Stop(**group("stop")), **single)


def _takes(setting: Setting) -> str:
    """What is allowed, in words."""
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
}  # fmt: skip
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
