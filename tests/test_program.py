"""program.md: what is read, what is refused, and in which words. Pure, so nothing here touches more than the shipped files."""

from __future__ import annotations

import time
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.program import SETTINGS, Problems, Program, Setting, Settings, parse, reference

ROOT = Path(__file__).resolve().parents[1]
NAMES = [setting.name for setting in SETTINGS]


def problems(text: str, overrides: dict[str, object] | None = None) -> list[str]:
    found = parse(text, overrides or {})
    assert isinstance(found, Problems)
    return str(found).splitlines()


def program(text: str, overrides: dict[str, object] | None = None) -> Program:
    found = parse(text, overrides or {})
    assert isinstance(found, Program), str(found)
    return found


def flat(settings: Settings) -> dict[str, object]:
    """By dotted name."""
    values: dict[str, object] = {}
    for field in fields(settings):
        value: Any = getattr(settings, field.name)
        if is_dataclass(value):
            values |= {f"{field.name}.{inner.name}": getattr(value, inner.name) for inner in fields(value)}
        else:
            values[field.name] = value
    return values


def test_the_table_is_the_settings() -> None:
    """Every field of the settings is a row of the table and back, and an empty front matter gives the table's defaults."""
    assert flat(program("---\n---\n").settings) == {setting.name: setting.default for setting in SETTINGS}


def test_the_reference_is_made_from_the_table() -> None:
    """docs/program.md shows every setting with its default, its range and its meaning, as the code has them."""
    assert reference() in (ROOT / "docs" / "program.md").read_text("utf-8")
    assert all(f"| `{name}` |" in reference() for name in NAMES)


def test_the_messages_in_the_docs_are_real() -> None:
    """The two messages that docs/program.md shows are what such a file gets."""
    shown = problems("---\nbudget:\n  secnds: 60\nstop:\n  target: soon\n---\n")
    assert "\n".join(shown) in (ROOT / "docs" / "program.md").read_text("utf-8")


@pytest.mark.parametrize("path", ["program.md", "examples/cpu/program.md"])
def test_the_shipped_programs_are_right(path: str) -> None:
    """Both programs that ship are without a mistake and give instructions."""
    assert len(program((ROOT / path).read_text("utf-8")).instructions) > 300


def test_the_demo_program_is_small() -> None:
    """The demo trains for ten seconds on a CPU on the corpus that is in the repository, and goes on without a sandbox."""
    s = program((ROOT / "examples" / "cpu" / "program.md").read_text("utf-8")).settings
    assert (s.corpus, s.device, s.budget.seconds, s.budget.startup_seconds) == ("austen", "cpu", 10.0, 60.0)
    assert (s.gate.baseline_runs, s.sandbox, s.proposer) == (3, "if-available", "mutate")


RANGE = "it takes a number from 0.1 to 86400"
LIST = "write `name: value`, with a space after the colon"

WHOLE = [
    ("", "line 1: there is no front matter: the first line is empty; start the file with a line ---, then the settings"),
    ("# Hello\n", "line 1: there is no front matter: the first line is # Hello; start the file with"),
    ("---\nparallel: 2\n", "line 1: the front matter that starts here does not end; put a line --- after the last setting"),
    ("---\n--- a\n--- b\n---\n", "this is not YAML: but found another document; write one `name: value` a line"),
    ("x" * 300_000, "line 1: the file has 300000 characters; at most 256000 are read"),
]
BAD = [
    ("paralel: 2", "line 2: paralel is no setting; did you mean parallel?"),
    ("budget:\n  secnds: 60", "line 3: budget.secnds is no setting; did you mean budget.seconds?"),
    ("target: 0.9", "line 2: target is no setting; did you mean stop.target?"),
    ("budget:\n  target: 0.9", "line 3: budget.target is no setting; did you mean stop.target?"),
    ("Budget:\n  seconds: 60", "line 2: Budget is no setting; did you mean budget?"),
    ("xyzzy: 1", "line 2: xyzzy is no setting; docs/program.md lists all settings"),
    ("? [a]\n: 1", "line 2: ? is no setting; docs/program.md lists all settings"),
    ("budget.seconds: 60", "line 2: budget.seconds stands in one word; write budget: and, indented below it, seconds:"),
    ("budget: 60", "line 2: budget is a group of settings, not a value; write budget: and, indented below it, seconds:"),
    ("parallel:4", f"line 2: the front matter holds no settings; {LIST}"),
    ("- parallel", f"line 2: the front matter holds no settings; {LIST}"),
    ("parallel: 1\nmetric: val_bpb\nparallel: 2", "line 4: parallel stands here again; keep this one or the one in line 2"),
    ("stop:\n  hours: 1\nstop:\n  hours: 2", "line 4: stop stands here again; keep this one or the one in line 2"),
    ("budget:\n  seconds: soon", f"line 3: budget.seconds is soon; {RANGE}"),
    ("budget:\n  seconds: 0", f"line 3: budget.seconds is 0; {RANGE}"),
    ("budget:\n  seconds: -5", f"line 3: budget.seconds is -5; {RANGE}"),
    ("budget:\n  seconds: 1e99", f"line 3: budget.seconds is 1e99; {RANGE}"),
    ("budget:\n  seconds: 1e999", f"line 3: budget.seconds is 1e999; {RANGE}"),
    ("budget:\n  seconds: .inf", f"line 3: budget.seconds is .inf (not written as a plain number); {RANGE}"),
    ("budget:\n  seconds: .nan", f"line 3: budget.seconds is .nan (not written as a plain number); {RANGE}"),
    ("budget:\n  seconds: nan", f"line 3: budget.seconds is nan; {RANGE}"),
    ("budget:\n  seconds: 1:30", f"line 3: budget.seconds is 1:30 (not written as a plain number); {RANGE}"),
    ("budget:\n  seconds: 010", f"line 3: budget.seconds is 010 (not written as a plain number); {RANGE}"),
    ("budget:\n  seconds: 1_000", f"line 3: budget.seconds is 1_000 (not written as a plain number); {RANGE}"),
    ("budget:\n  seconds: '300'", f"line 3: budget.seconds is 300 (text in quotes); {RANGE}"),
    ("budget:\n  seconds: 2026-01-01", f"line 3: budget.seconds is 2026-01-01 (a date); {RANGE}"),
    ("budget:\n  seconds: yes", f"line 3: budget.seconds is yes (which YAML reads as true or false); {RANGE}"),
    ("budget:\n  seconds: [300]", f"line 3: budget.seconds is [300]; {RANGE}"),
    ("budget:\n  seconds: {a: 1}", f"line 3: budget.seconds is {{...}} (a group); {RANGE}"),
    ("budget:\n  seconds:", f"line 3: budget.seconds is empty; {RANGE}"),
    ("parallel: 1.5", "line 2: parallel is 1.5; it takes a whole number from 1 to 64"),
    (f"parallel: {'9' * 5000}", f"line 2: parallel is {'9' * 57}...; it takes a whole number from 1 to 64"),
    ("parallel: ٣", "line 2: parallel is ٣; it takes a whole number from 1 to 64"),
    ("sandbox: no", "line 2: sandbox is no (which YAML reads as true or false); it takes required, if-available or none"),
    ("sandbox: optional", "line 2: sandbox is optional; it takes required, if-available or none"),
    ("sandbox: [none]", "line 2: sandbox is [none]; it takes required, if-available or none"),
    ("corpus: 2024", "line 2: corpus is 2024 (a number); it takes climbmix, austen or a folder"),
    ("corpus: ''", "line 2: corpus is empty; it takes climbmix, austen or a folder"),
    ('corpus: "a\\x1b[31m"', "line 2: corpus is 'a\\x1b[31m' (text in quotes); it takes climbmix, austen or a folder"),
    ('corpus: "\\ud800"', "line 2: corpus is '\\ud800' (text in quotes); it takes climbmix, austen or a folder"),
    ("editable: trainer/train.py", "line 2: editable is trainer/train.py; it takes [trainer/train.py]"),
    ("editable: [evaluator/gate.py]", "line 2: editable is [evaluator/gate.py]; it takes [trainer/train.py]"),
    ("editable: []", "line 2: editable is []; it takes [trainer/train.py]"),
    ("model:\n  proposer: [a]", "line 3: model.proposer is [a]; it takes a name, or nothing"),
    ("model:\n  proposer: ' a'", "line 3: model.proposer is  a (text in quotes); it takes a name, or nothing"),
    ("money:\n  prices: m 1 1 1", 'line 3: money.prices is m 1 1 1; it takes a list of "MODEL INPUT CACHED OUTPUT"'),
    ("money:\n  prices: [m 1 1]", 'line 3: money.prices is [m 1 1]; it takes a list of "MODEL INPUT CACHED OUTPUT"'),
    ("money:\n  prices: [m 1 1 1, m 2 2 2]", "line 3: money.prices is [m 1 1 1, m 2 2 2]; it takes a list of"),
    ("proposer: llm", "line 2: proposer is llm, which asks a model, and none is named; set model.proposer to its name"),
    ("proposer: mix", "line 2: proposer is mix, which asks a model, and none is named; set model.proposer to its name"),
    ("proposer: mix\nmix: {llm: 0, mutate: 0, crossover: 0}", "line 2: proposer is mix, and every weight in mix is 0; give"),
    (
        "proposer: llm\nmodel: {proposer: m}\nmoney: {usd: 5}",
        'line 4: money.usd caps the dollars, and m has no price; add "m INPUT CACHED OUTPUT" to money.prices',
    ),
    ("gate:\n  prior_sd: 0.01", "line 3: only one of gate.prior_sd and gate.prior_df is set; set both (prior_df at least 1)"),
    ("schedule:\n  experiments: 9", "line 3: schedule.experiments has no schedule.issue; set schedule.issue to the issue"),
    ("gate:\n  prior_df: 6", "line 3: only one of gate.prior_sd and gate.prior_df is set; set both (prior_df at least 1)"),
    ("corpus: &a austen\ndevice: *a", "line 2: there is a YAML anchor or alias (a); write the value itself"),
    ("corpus: !!python/name:os.system", "line 2: there is a YAML tag (tag:yaml.org,2002:python/name:os.system); write"),
    ("parallel: !!int '3'", "line 2: there is a YAML tag (tag:yaml.org,2002:int); write the plain value"),
    ("stop:\n\thours: 3", "line 3: this is not YAML: found character '\\t' that cannot start any token; indent with spaces"),
    ("stop:\n  hours: 3\n patience: 4", "line 4: this is not YAML: expected <block end>, but found"),
    ("corpus: [a\nparallel: 3", "line 3: this is not YAML: expected ',' or ']', but got ':'; write one `name: value` a line"),
    ("corpus: 'a", "this is not YAML: found unexpected end of stream; write one `name: value` a line"),
    ("parallel: 1\ncorpus: \x00", "line 3: this is not YAML: there is a character that YAML does not know"),
    ('corpus: "\\UFFFFFFFF"', "this is not YAML: there is a character that YAML does not know"),
    ("parallel: " + "[" * 20_000, "line 2: brackets or groups are nested too deep; settings have one level of groups"),
]


@pytest.mark.parametrize(("text", "said"), WHOLE, ids=[said[:60] for _, said in WHOLE])
def test_a_file_without_front_matter_is_told_so(text: str, said: str) -> None:
    """A file whose front matter is missing, open, or not YAML as a whole says that, and how it should start."""
    assert [line for line in problems(text) if said in line], problems(text)


@pytest.mark.parametrize(("front", "said"), BAD, ids=[said[:60] for _, said in BAD])
def test_a_bad_program_is_told_what_would_be_right(front: str, said: str) -> None:
    """Each mistake is told with its line, what was found and what would be right."""
    found = problems(f"---\n{front}\n---\n")
    assert [line for line in found if said in line], found


def test_all_mistakes_are_told_at_once() -> None:
    """Several mistakes of several kinds, flags included, are told together, in the order of their lines."""
    text = "---\nparalel: 2\nbudget:\n  seconds: yes\nstop:\n  hours: -1\n  hours: 2\nsandbox: maybe\n---\n"
    flags, lines = problems(text, {"stop.target": "low", "xyzzy": 5})[:2], problems(text)
    assert flags == [
        "--stop.target is low; it takes a number from 0.001 to 100, or nothing",
        "--xyzzy is no setting; docs/program.md lists all settings",
    ]
    assert [line.split(":")[0] for line in lines] == ["line 2", "line 4", "line 6", "line 7", "line 8"]


GOOD = [
    ("budget:\n  seconds: 1e-1", "budget.seconds", 0.1),
    ("budget:\n  seconds: 5.", "budget.seconds", 5.0),
    ("gate:\n  alpha: .01  # a comment", "gate.alpha", 0.01),
    ("stop:\n  target: ~", "stop.target", None),
    ("stop:\n  target:", "stop.target", None),
    ("stop:\n  # hours: 3\nparallel: 2", "parallel", 2),
    ("sandbox: none", "sandbox", "none"),
    ("corpus: '2024'", "corpus", "2024"),
    ("corpus: /data/my texts", "corpus", "/data/my texts"),
    ("editable:\n  - trainer/train.py", "editable", ("trainer/train.py",)),
    ("{parallel: 3, stop: {patience: 4}}", "stop.patience", 4),
    ("model:\n  proposer: llama3.1:8b", "model.proposer", "llama3.1:8b"),
    ("model:\n  proposer: 4.1", "model.proposer", "4.1"),
    ("money:\n  prices:\n    - m 0.25 0.025 2\n    - org/n 1 1 1", "money.prices", ("m 0.25 0.025 2", "org/n 1 1 1")),
    ("proposer: mix\nmix: {llm: 0}", "proposer", "mix"),
]


@pytest.mark.parametrize(("front", "name", "value"), GOOD, ids=[front for front, _, _ in GOOD])
def test_values_are_read_as_they_look(front: str, name: str, value: object) -> None:
    """Numbers, empty values, quotes, lists, comments and groups without a line mean what they look like."""
    found = flat(program(f"---\n{front}\n---\n").settings)[name]
    assert (found, type(found)) == (value, type(value))


def test_an_editor_of_windows_is_fine() -> None:
    """A byte order mark, CRLF line ends and blanks after --- change nothing, and the text is kept as it came."""
    text = "\ufeff---  \r\nparallel: 3\r\nstop:\r\n  hours: 2\r\n---\r\nBe brief.\r\nBe kind.\r\n"
    found = program(text)
    assert (found.settings.parallel, found.settings.stop.hours) == (3, 2.0)
    assert (found.instructions, found.text) == ("Be brief.\nBe kind.", text)


def test_a_rule_in_the_body_is_text() -> None:
    """Only the first two lines --- are fences; a later one belongs to the instructions."""
    assert program("---\n---\nOne\n---\nTwo\n").instructions == "One\n---\nTwo"


def test_a_bomb_costs_nothing() -> None:
    """Aliases that would grow to 10^9 values, or 100,000 brackets, are refused at once."""
    steps = zip("abcdefghi", "bcdefghij", strict=True)
    bomb = "a: &a [x, x, x]\n" + "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in steps)
    begun = time.process_time()
    assert len(problems(f"---\n{bomb}---\n")) > 50
    assert problems(f"---\nparallel: {'{a: ' * 60_000}\n---\n")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("stop.target", "low", "--stop.target is low; it takes a number from 0.001 to 100, or nothing"),
        ("stop.target", float("nan"), "--stop.target is nan; it takes"),
        ("parallel", True, "--parallel is a bool; it takes"),
        ("parallel", 10**4000, "--parallel is a huge number; it takes"),
        ("parallel", None, "--parallel is empty; it takes"),
        ("parallel", {}, "--parallel is a dict; it takes"),
        ("targte", 1, "--targte is no setting; did you mean stop.target?"),
        ("corpus", 7, "--corpus is 7; it takes climbmix, austen or a folder"),
        ("editable", ["a", 3], "--editable is [a, 3]; it takes [trainer/train.py]"),
        ("gate.prior_df", 3, "only one of gate.prior_sd and gate.prior_df is set"),
        ("model.proposer", {}, "--model.proposer is a dict; it takes a name, or nothing"),
        ("model.proposer", "m", "--model.proposer is given, and proposer is mutate, which asks no model; set proposer: llm"),
    ],
)
def test_a_bad_flag_is_named(name: str, value: object, said: str) -> None:
    """A mistake in an override names the flag instead of a line."""
    assert [line for line in problems("---\n---\n", {name: value}) if line.startswith(said)]


def test_a_flag_does_not_hide_a_mistake_in_the_file() -> None:
    """A value in the file that is wrong stays wrong when a flag replaces it: the next campaign would meet it."""
    assert problems("---\nparallel: 0\n---\n", {"parallel": 2}) == ["line 2: parallel is 0; it takes a whole number from 1 to 64"]


def values_of(setting: Setting) -> st.SearchStrategy[Any]:
    """Right values of a setting, limits included."""
    low, high = (setting.allowed * 2)[:2] or (0, 0)
    word = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=200)
    folder = word | st.just("a b: c # 'd'")
    price = st.tuples(word, *[st.floats(0, 1e6)] * 3).map(lambda row: " ".join(map(str, row)))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "choice": st.sampled_from(setting.allowed),
        "folder": st.sampled_from(setting.allowed) | folder,
        "list": st.just(setting.allowed),
        "flag": st.booleans(),
        "text": st.none() | folder,
        "prices": st.lists(price, unique_by=lambda row: row.split()[0], max_size=3).map(tuple),
    }
    if setting.kind in kinds:
        return kinds[setting.kind]
    number = st.integers(low, high) if setting.kind == "whole" else st.floats(low, high)
    edge = st.sampled_from([low, high])
    return number | edge if setting.default is not None else number | edge | st.none()


def fitting(values: dict[str, Any]) -> dict[str, Any]:
    """So that they are right together, too."""
    if not (values.get("gate.prior_sd") and values.get("gate.prior_df")):
        values |= {"gate.prior_sd": None, "gate.prior_df": 0}
    if values.get("schedule.experiments"):
        values |= {"schedule.issue": values.get("schedule.issue") or 1}
    if values.get("proposer") == "mix":
        values |= {"mix.mutate": 1.0, "mix.llm": 0.0}
    named = {"model.proposer": values.get("model.proposer") or "m"} if values.get("proposer") == "llm" else {}
    return values | (named or {"model.proposer": None}) | {"money.usd": None}


RIGHT = st.fixed_dictionaries({}, optional={setting.name: values_of(setting) for setting in SETTINGS}).map(fitting)


@given(RIGHT, st.text())
def test_what_is_written_is_read(values: dict[str, Any], body: str) -> None:
    """Any right values come back equal, whether they stand in the file or come as overrides, and so do the instructions."""
    front: dict[str, Any] = {}
    for name, value in values.items():
        group, _, inside = name.rpartition(".")
        (front.setdefault(group, {}) if group else front)[inside] = list(value) if isinstance(value, tuple) else value
    text = f"---\n{yaml.safe_dump(front, allow_unicode=True)}---\n{body}"
    expected = {setting.name: setting.default for setting in SETTINGS} | values
    found = program(text)
    assert flat(found.settings) == expected
    assert flat(program("---\n---\n", values).settings) == expected
    assert found.instructions == body.replace("\r\n", "\n").strip()


WORDS = "--- ... : - ? [ ] { } , & * ! | > ' \" % @ ` # \\ ~ null yes 1e3 .nan 0x1f 1:2 !!int &a *a << budget gate stop"
BLANKS = [" ", "  ", "\n", "\n  ", ": ", "\t", "\r", "\x85", "\\U", "\ufeff", "\x07"]
PIECE = st.sampled_from([*NAMES, *WORDS.split(" "), *BLANKS])
FRONT = st.lists(PIECE | st.text(max_size=3), max_size=30).map("".join)
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.binary()


@given(
    st.text() | FRONT.map(lambda front: f"---\n{front}\n---\n"),
    st.dictionaries(st.sampled_from(NAMES) | st.text(), ANYTHING, max_size=3),
)
def test_no_text_makes_it_fail(text: str, overrides: dict[str, object]) -> None:
    """Whatever the file and the flags hold, the answer is a program or problems with lines of the file, never an exception."""
    found = parse(text, overrides)
    if isinstance(found, Problems):
        assert found.items
        last = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
        assert all(0 <= problem.line <= last for problem in found.items)
        assert len(str(found).splitlines()) == len(found.items)
        assert all(problem.found and problem.right for problem in found.items)
