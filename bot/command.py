"""The text of a comment becomes a command, or a reply that says what would be one, or nothing.

    /autoresearch 50 --target 0.97

A command stands alone in the first line that the writer says (bot/spoken.py knows what that is); the rest of the line are its
arguments, and what follows is prose, but for a hint, which may go on. Silence is for what is not addressed to us: other text,
near names such as /autoresearchers, other bots. Who may command, and where N is capped, is decided elsewhere.

Two literal tables, VERBS and OPTIONS, are the grammar; reading, the replies and `help_text` are all made from them. Here
values are checked for their shape, in program.py for their range. Pure; no text makes it raise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bot.frontmatter import show
from bot.spoken import Line, plain, spoken

NAME = "/autoresearch"
LARGEST = 1_000_000  # experiments; far more than a year of them, and short enough to be read as a number at all
LONGEST_HINT = 4_000  # characters; every proposal reads every hint


@dataclass(frozen=True)
class Run:
    """`overrides`: values for SETTINGS of program.py by dotted name. The caller caps the number at stop.experiments."""

    experiments: int
    overrides: dict[str, object]


@dataclass(frozen=True)
class Stop: ...


@dataclass(frozen=True)
class Pause: ...


@dataclass(frozen=True)
class Resume: ...


@dataclass(frozen=True)
class Status: ...


@dataclass(frozen=True)
class Hint:
    """Text from a person, at most LONGEST_HINT characters, all of them printable, tabs or line ends."""

    text: str


@dataclass(frozen=True)
class Undo: ...


@dataclass(frozen=True)
class Help: ...


@dataclass(frozen=True)
class Explain: ...


@dataclass(frozen=True)
class Veto: ...


@dataclass(frozen=True)
class Misuse:
    """Meant for us, but it makes no sense. `reply`, Markdown, says what is wrong and what would be right."""

    reply: str


Command = Run | Stop | Pause | Resume | Status | Hint | Undo | Help | Explain | Veto | Misuse


@dataclass(frozen=True)
class Verb:
    """`takes` names the text that must follow, "" for nothing; `on_pull`: it is for the pull request of a candidate only."""

    name: str
    make: Callable[..., Command]
    meaning: str
    takes: str = ""
    on_pull: bool = False

    @property
    def usage(self) -> str:
        return " ".join(filter(None, (NAME, self.name, self.takes)))


VERBS: tuple[Verb, ...] = (
    Verb("status", Status, "Say where the campaign stands."),
    Verb("stop", Stop, "Stop the campaign; what is merged stays."),
    Verb("pause", Pause, "Start nothing new until `resume`."),
    Verb("resume", Resume, "Go on after a pause."),
    Verb("hint", Hint, "Tell the proposer something; more lines may follow.", takes="TEXT"),
    Verb("undo", Undo, "Open one pull request that takes back what the campaign merged."),
    Verb("explain", Explain, "Say what was measured of this candidate, and why it was judged so.", on_pull=True),
    Verb("veto", Veto, "Close this candidate: it will not be merged.", on_pull=True),
    Verb("help", Help, "Show this."),
)


@dataclass(frozen=True)
class Option:
    """Of the command that starts a campaign. `setting` is a name in SETTINGS of program.py, `takes` one in _SHAPES."""

    name: str
    setting: str
    takes: str
    meaning: str


OPTIONS: tuple[Option, ...] = (
    Option("target", "stop.target", "number", "Stop when the metric is this or better."),
    Option("hours", "stop.hours", "number", "Stop after so many hours."),
    Option("usd", "money.usd", "number", "Spend at most so many US dollars on models."),
    Option("model", "model.proposer", "name", "The model that proposes."),
    Option("parallel", "parallel", "whole", "Measurements at the same time."),
)


@dataclass(frozen=True)
class Shape:
    """How a value is written, what it becomes, and both in words."""

    pattern: re.Pattern[str]
    make: Callable[[str], object]
    letter: str
    words: str


_WHOLE = re.compile(r"[-+]?[0-9]{1,9}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,9}(\.[0-9]{0,12})?|\.[0-9]{1,12})([eE][-+]?[0-9]{1,2})?")
_NAME = re.compile(r"[\w][\w./:@+-]{0,199}", re.ASCII)
_SHAPES: Mapping[str, Shape] = {
    "number": Shape(_NUMBER, float, "X", "a number"),
    "name": Shape(_NAME, str, "NAME", "a model's name"),
    "whole": Shape(_WHOLE, int, "K", "a whole number"),
}
_VERB = {verb.name: verb for verb in VERBS} | dict.fromkeys(("--help", "-h", "?"), VERBS[-1])
_OPTION = {option.name: option for option in OPTIONS}
_OURS = re.compile(r"<!--\s*autoresearch:", re.IGNORECASE)  # what we wrote ourselves never commands us: finos/cla-bot#87
_CALL = re.compile(rf"{NAME}(?: +(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)  # near names are not ours: fullsend-ai/fullsend#614
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_WRITTEN = re.compile(r"(?P<dash>--?|[—–])?(?P<name>[^\W\d_][^=]*)(?P<value>=.*)?")  # telephones make a dash of --
_COUNT = re.compile(r"[0-9]{1,7}")


def read(text: str, *, on_pull: bool) -> Command | None:
    """The command of a comment; None: it is not for us. `on_pull`: it was written on a pull request."""
    if _OURS.search(text):
        return None
    lines = spoken(text)
    first = next((line for line in lines if not line.code and plain(line.text).strip()), None)
    call = _CALL.fullmatch(plain(first.text).replace("\t", " ").strip(" ")) if first else None
    if call is None:
        return None
    rest = call["rest"] or ""
    if _CONTROL.search(rest):
        return _misuse("there is a control character in the line", "write it again, by hand")
    return _understand(rest, lines, on_pull) if rest else Help()


def _understand(rest: str, more: Iterable[Line], on_pull: bool) -> Command:
    words = rest.split()
    verb = _VERB.get(words[0].lower())
    if verb is None:
        return _run(words) if _counts(words[0]) or _is_option(words[0]) else _unknown(words, on_pull)
    if verb.on_pull and not on_pull:
        return _misuse(f"`{verb.name}` is about one candidate", "write it on the pull request of that candidate")
    if verb.make is Hint:
        return _hint("\n".join([rest.partition(" ")[2], *(plain(line.text) for line in more)]))
    if words[1:]:
        return _misuse(f"{_code(words[1])} is too much", f"write `{verb.usage}` alone in the line")
    return verb.make()


def _hint(text: str) -> Command:
    clean = "".join(char for char in text if char.isprintable() or char in "\n\t").strip()
    if not clean:
        return _misuse("the hint is empty", f"write `{_VERB['hint'].usage}`")
    if len(clean) > LONGEST_HINT:
        return _misuse(f"the hint has {len(clean)} characters", f"at most {LONGEST_HINT} are read by each proposal: shorten it")
    return Hint(clean)


def _unknown(words: list[str], on_pull: bool) -> Misuse:
    names = [verb.name for verb in VERBS if on_pull or not verb.on_pull]
    near = difflib.get_close_matches(words[0].lower()[:60], names, 1, 0.6)
    if len(words) > 1 and _COUNT.fullmatch(words[1]):
        near = [words[1]]  # "run 50"
    guess = f"did you mean `{NAME} {near[0]}`? Else " if near else ""
    listed = ", ".join(f"`{name}`" for name in ["N", *names])
    return _misuse(f"{_code(words[0])} is no command", f"{guess}one of {listed} may follow `{NAME}`")


def _run(words: list[str]) -> Command:
    loose: list[str] = []
    overrides: dict[str, object] = {}
    queue = iter(words)
    for word in queue:
        if not _is_option(word):
            loose.append(word)
            continue
        option, text = _option(word, queue)
        if option is None:
            return _no_option(word)
        shape = _SHAPES[option.takes]
        if option.setting in overrides:
            return _misuse(f"`--{option.name}` stands there twice", "give it once")
        if not shape.pattern.fullmatch(text):
            found = f"is {_code(text)}" if text else "has no value"
            return _misuse(f"`--{option.name}` {found}", f"write `--{option.name} {shape.letter}`, {shape.letter} {shape.words}")
        overrides[option.setting] = shape.make(text)
    return _counted(loose, overrides)


def _counted(loose: list[str], overrides: dict[str, object]) -> Command:
    """The words that belong to no option: there must be one, N."""
    right = f"write `{NAME} N`, N a whole number from 1 to {LARGEST} in the digits 0 to 9"
    if not loose:
        return _misuse("the number of experiments is missing", right)
    if not _COUNT.fullmatch(loose[0]) or not 1 <= int(loose[0]) <= LARGEST:
        return _misuse(f"{_code(loose[0])} is no number of experiments", right)
    if loose[1:]:
        meant = _OPTION.get(loose[1].lower())
        right = f"did you mean `--{meant.name}`?" if meant else f"write one number; {_options()}"
        return _misuse(f"{_code(loose[1])} is too much", right)
    return Run(int(loose[0]), overrides)


def _option(word: str, queue: Iterator[str]) -> tuple[Option | None, str]:
    """What a word names, and its value: behind an equals sign or the next word, which is taken; "" if there is none."""
    written = _WRITTEN.fullmatch(word)
    option = _OPTION.get(written["name"].lower()) if written else None
    if option is None or written is None:
        return None, ""
    text = written["value"][1:] if written["value"] else next(queue, "")
    return option, text


def _no_option(word: str) -> Misuse:
    name = word.lstrip("-—–").partition("=")[0]
    near = difflib.get_close_matches(name.lower()[:60], _OPTION, 1, 0.6)
    right = f"did you mean `--{near[0]}`?" if near else _options()
    return _misuse(f"{_code(word)} is no option", right)


def _options() -> str:
    return f"the options are {', '.join(f'`--{name}`' for name in _OPTION)}"


def _counts(word: str) -> bool:
    """Whether it may be meant as N: also -5, 1e9, ５０."""
    return any(map(str.isnumeric, word))


def _is_option(word: str) -> bool:
    written = _WRITTEN.fullmatch(word)
    return bool(written and (written["dash"] or written["value"]))


def _misuse(found: str, right: str) -> Misuse:
    """Begins with a word of ours or in a code span, so that the reply can never be read as a command."""
    return Misuse(f"{found[0].upper()}{found[1:]}: {right}{'' if right.endswith('?') else '.'} `{NAME} help` explains all.")


def _code(word: str) -> str:
    """A word of the user in a code span that it cannot end."""
    return f"`{show(word.replace('`', chr(39)))}`"


def help_text(cap: int, on_pull: bool) -> str:
    """All commands that make sense there, in Markdown. `cap`: the stop.experiments of program.md."""
    first = (f"{NAME} N", f"Try N experiments, at most {cap} (`stop.experiments` in program.md).")
    verbs = [(verb.usage, verb.meaning) for verb in VERBS if on_pull or not verb.on_pull]
    options = [(f"--{option.name} {_SHAPES[option.takes].letter}", option.meaning) for option in OPTIONS]
    elsewhere = " and ".join(f"`{verb.name}`" for verb in VERBS if verb.on_pull)
    parts = [
        "One command a comment, alone in its first line. A new comment is a new command; edits are not read.",
        _table("command", [first, *verbs]),
        _table(f"option of `{NAME} N`", options),
    ]
    return "\n\n".join(parts if on_pull else [*parts, f"On the pull request of a candidate also {elsewhere}."]) + "\n"


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    return "\n".join([f"| {head} | what it does |", "|---|---|", *(f"| `{usage}` | {meaning} |" for usage, meaning in rows)])
