"""Comments to commands: every trap of the kind that public bots fell into, named where there is a report of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.command import (
    LARGEST,
    LONGEST_HINT,
    OPTIONS,
    VERBS,
    Command,
    Explain,
    Help,
    Hint,
    Misuse,
    Pause,
    Resume,
    Run,
    Status,
    Stop,
    Undo,
    Veto,
    help_text,
    read,
)
from bot.program import SETTINGS, Program, parse

TEN = Run(10, {})


def on_issue(text: str) -> Command | None:
    return read(text, on_pull=False)


def reply(text: str, *, on_pull: bool = False) -> str:
    found = read(text, on_pull=on_pull)
    assert isinstance(found, Misuse), found
    return found.reply


# What is a command

SAID: list[tuple[str, str, Command]] = [
    ("plain", "/autoresearch 10", TEN),
    ("CRLF, github/gh-aw#61580", "/autoresearch 10\r\n", TEN),
    ("CRLF and prose, fullsend-ai/fullsend#2137", "/autoresearch stop\r\nThis goes nowhere.\r\n", Stop()),
    ("CRLF below, peter-evans/slash-command-dispatch#32", "/autoresearch 10\r\n\r\nplease", TEN),
    ("old line ends of the Mac", "/autoresearch 10\rthanks", TEN),
    ("blank lines before", "\r\n \r\n\t\n/autoresearch 10", TEN),
    ("blanks around", "   /autoresearch \t 10  ", TEN),
    ("any case", "/AutoResearch STOP", Stop()),
    ("the first of two", "/autoresearch 10\n/autoresearch stop", TEN),
    ("leading zeros", "/autoresearch 0010", TEN),
    ("the largest", f"/autoresearch {LARGEST}", Run(LARGEST, {})),
    ("nothing more", "/autoresearch", Help()),
    ("as on a terminal", "/autoresearch --help", Help()),
    ("no-break spaces from a chat, slack-ruby/slack-ruby-bot#255", "\u00a0/autoresearch\u00a010\u202f", TEN),
    ("byte order mark", "\ufeff/autoresearch 10", TEN),
    ("zero-width space inside", "/auto\u200bresearch 1\u200d0", TEN),
    ("direction marks around", "\u202a/autoresearch 10\u202c", TEN),
    ("soft hyphen", "/auto\u00adresearch stop", Stop()),
    ("fullwidth letters", "／ａｕｔｏresearch ｓｔｏｐ", Stop()),
    ("ideographic space", "/autoresearch\u300010", TEN),
    ("below a quote, vercel/eve#2137", "> /autoresearch 99\n\n/autoresearch 10", TEN),
    ("right below a quote", "> are you sure?\n/autoresearch 10", TEN),
    ("below a fence inside a quote", "> ```\n> code\n\n/autoresearch 10", TEN),
    ("below a quote with attribution", "On Tue, 1 Dec 2026 at 10:00, Ann <a@b.c> wrote:\n> why?\n>\n\n/autoresearch 10", TEN),
    ("the same, wrapped", "On Tue, 1 Dec 2026 at 10:00, Ann\n<a@b.c>\nwrote:\n\n> why?\n\n/autoresearch 10", TEN),
    ("the same, in German", "Am 1. Dezember 2026 schrieb Ann <a@b.c>:\n> warum?\n\n/autoresearch 10", TEN),
    ("below code", "```\n/autoresearch 99\n```\n/autoresearch 10", TEN),
    ("below indented code", "    /autoresearch 99\n\n/autoresearch 10", TEN),
    ("below a template", "<!-- Write\n/autoresearch 99\nhere -->\n/autoresearch 10", TEN),
    ("behind a template", "<!-- /autoresearch 99 --> /autoresearch 10 <!-- or so -->", TEN),
    ("below <details>", "<DETAILS open><summary>a</summary>\n\n/autoresearch 99\n</details >\n\n/autoresearch 10", TEN),
    ("below nested <details>", "<details><details></details>\n/autoresearch 99\n</details>\n/autoresearch 10", TEN),
    ("fence in <details>", "<details>\n\n```\n</details>\n```\n/autoresearch 99\n</details>\n/autoresearch 10", TEN),
    ("fence in a template", "<!--\n```\n-->\n/autoresearch 10", TEN),
    ("mail in a template", "<!--\nOn 1 Dec 2026, Ann wrote:\nno\n-->\n/autoresearch 10", TEN),
    ("below an invisible line", "\u200b\n/autoresearch 10", TEN),
    ("above a signature", "/autoresearch 10\n-- \nAnn", TEN),
    ("above a mail, dependabot/feedback#277", "/autoresearch 10\n\nOn 1 Dec 2026, Ann wrote:\n> /autoresearch 99", TEN),
]  # fmt: skip


@pytest.mark.parametrize(("text", "command"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_what_a_person_means_is_read(text: str, command: Command) -> None:
    """A command is found behind whatever editors, mail programs, chats and quotes put around it."""
    assert on_issue(text) == command


VERB_ROWS = [("status", Status()), ("stop", Stop()), ("pause", Pause()), ("resume", Resume()), ("undo", Undo()), ("help", Help())]


@pytest.mark.parametrize(("name", "command"), VERB_ROWS, ids=[name for name, _ in VERB_ROWS])
def test_a_verb_is_its_command_everywhere(name: str, command: Command) -> None:
    """Each verb that is not about one candidate means the same on issues and pull requests."""
    assert read(f"/autoresearch {name}", on_pull=False) == read(f"/autoresearch {name}", on_pull=True) == command


def test_some_verbs_are_about_a_candidate() -> None:
    """Explain and veto are read on a pull request; on an issue the reply says where they belong (pytorch/test-infra#206)."""
    assert (read("/autoresearch explain", on_pull=True), read("/autoresearch veto", on_pull=True)) == (Explain(), Veto())
    assert "on the pull request of that candidate" in reply("/autoresearch explain")
    assert "on the pull request of that candidate" in reply("/autoresearch veto")


def test_every_verb_is_tested_here() -> None:
    """The table of verbs holds what these tests hold."""
    assert {verb.name for verb in VERBS} == {name for name, _ in VERB_ROWS} | {"hint", "explain", "veto"}


# What is silence

SILENT = [
    ("nothing", ""),
    ("blanks", " \r\n\t\u00a0\n"),
    ("prose", "Looks good to me"),
    ("in the middle of a line, bors-ng/bors-ng#173", "please /autoresearch 10"),
    ("in the second line", "Let us try:\n/autoresearch 10"),
    ("other bots", "/assign @ann\n/autoresearch 10"),
    ("fence", "```\n/autoresearch 10\n```"),
    ("fence of a language, cncf/prow-github-actions#66", "```sh\n/autoresearch 10\n```\nis how to do it"),
    ("fence of tildes", "~~~\n/autoresearch 10\n~~~"),
    ("tildes with backticks behind", "~~~ `a`\n/autoresearch 10\n~~~"),
    ("long fence with a short one inside", "`````\n```\n/autoresearch 10\n```\n/autoresearch 10\n`````"),
    ("fence that the other kind does not end", "```\n~~~\n/autoresearch 10"),
    ("fence that an info string does not end", "```\n``` sh\n/autoresearch 10"),
    ("fence that is not closed", "```\nprint(1)\n/autoresearch 10"),
    ("fence, CRLF", "```\r\n/autoresearch 10\r\n```\r\n"),
    ("indented fence", "   ```\n/autoresearch 10\n   ```"),
    ("fence in a list", "- ```\n  /autoresearch 10\n  ```"),
    ("indented code", "    /autoresearch 10"),
    ("code by a tab", "\t/autoresearch 10"),
    ("code by blanks and a tab", "  \t/autoresearch 10"),
    ("inline code", "`/autoresearch 10`"),
    ("inline code over two lines", "`see\n/autoresearch 10`"),
    ("quote, OCA/oca-github-bot#82", "> /autoresearch 10"),
    ("quote of a quote", "> > /autoresearch 10\n>/autoresearch 10\n   > /autoresearch 10"),
    ("quote and prose", "> /autoresearch 10\n\nthis did not work"),
    ("mail, robinpowered/commodus#8", "On Tue, Jun 16, 2015 at 10:39 AM, x <a@b.c>\nwrote:\n\n> /autoresearch 10\n>\n"),
    ("mail that does not mark the original", "On 1 Dec 2026, Ann wrote:\n\n/autoresearch 10"),
    ("mail with prose on top", "Thanks!\n\nOn 1 Dec 2026, Ann wrote:\n\n/autoresearch 10"),
    ("signature", "-- \n/autoresearch 10"),
    ("telephone", "Sent from my telephone\n\n/autoresearch 10"),
    ("Outlook", "________________________________\nFrom: Ann\n\n/autoresearch 10"),
    ("original message", "-----Original Message-----\n/autoresearch 10"),
    ("footer of GitHub's mails", "—\nReply to this email directly, view it on GitHub.\n/autoresearch 10"),
    ("HTML comment", "<!-- /autoresearch 10 -->"),
    ("HTML comment over lines", "<!--\n/autoresearch 10\n-->"),
    ("HTML comment that is not closed", "<!-- \n\n/autoresearch 10"),
    ("<details>", "<details>\n<summary>How</summary>\n\n/autoresearch 10\n\n</details>"),
    ("<details> that is not closed", "<details>\n\n/autoresearch 10"),
    ("HTML comment between the letters", "/auto<!-- -->research 10"),
    ("<pre>", "<pre>\n/autoresearch 10\n</pre>"),
    ("list", "- /autoresearch 10"),
    ("numbered list", "1. /autoresearch 10"),
    ("heading", "# /autoresearch 10"),
    ("table", "| /autoresearch 10 |\n|---|"),
    ("bold", "**/autoresearch 10**"),
    ("escaped", "\\/autoresearch 10"),
    ("entity", "&#47;autoresearch 10"),
    ("plural", "/autoresearchers 10"),
    ("number glued on", "/autoresearch50"),
    ("path, fullsend-ai/fullsend#614", "/autoresearch/x is where it is"),
    ("two slashes", "//autoresearch 10"),
    ("blank after the slash", "/ autoresearch 10"),
    ("hyphen", "/autoresearch-stop"),
    ("colon", "/autoresearch: 10"),
    ("dot", "/autoresearch. 10"),
    ("quoted name", '"/autoresearch" 10'),
    ("no slash", "autoresearch 10"),
    ("backslash", "\\autoresearch 10"),
    ("no ASCII letter", "/\u0430utoresearch 10"),
    ("accent", "/autore\u0301search 10"),
    ("control character glued on", "/autoresearch\x00 10"),
    ("escape sequence before", "\x1b[1m/autoresearch 10"),
    ("lone surrogate", "\ud800/autoresearch 10"),
    ("our own words, finos/cla-bot#87", "<!-- autoresearch:status=12.1 -->\n/autoresearch 10"),
    ("our marker at the end", "/autoresearch 10\n<!--AutoResearch:cmd=7-->"),
    ("our marker in a quote", "> <!--  autoresearch:cmd=7 -->\n\n/autoresearch 10"),
    ("our marker far down", "/autoresearch 10\n" + "x" * 100_000 + "<!-- autoresearch:x -->"),
]  # fmt: skip


@pytest.mark.parametrize("text", [text for _, text in SILENT], ids=[name for name, _ in SILENT])
def test_what_is_not_said_to_us_is_silence(text: str) -> None:
    """Code, quotes, mails, hidden text, near names and our own words never start anything, nor are they answered."""
    assert read(text, on_pull=False) is None
    assert read(text, on_pull=True) is None


# Numbers and options

NUMBERS = ["0", "-5", "+50", "1e9", "50.0", "1_000", "1,000", "0x10", "５０", "²", "5²", "½", "٣", "9" * 5000, "5o", "`50`"]
NUMBERS += [str(LARGEST + 1)]


@pytest.mark.parametrize("number", NUMBERS, ids=[number[:10] for number in NUMBERS])
def test_no_other_number_is_taken(number: str) -> None:
    """N is a plain whole number of ASCII digits in its range; anything else is told so, and never becomes another number."""
    assert "N a whole number from 1 to 1000000 in the digits 0 to 9" in reply(f"/autoresearch {number}")


WITH_OPTIONS: list[tuple[str, dict[str, object]]] = [
    ("10 --target 0.97", {"stop.target": 0.97}),
    ("10 --target=0.97", {"stop.target": 0.97}),
    ("10 target=0.97", {"stop.target": 0.97}),
    ("10 -target .97", {"stop.target": 0.97}),
    ("10 —target 97e-2", {"stop.target": 0.97}),
    ("10 --TARGET 0.97 Hours=3 --parallel 2", {"stop.target": 0.97, "stop.hours": 3.0, "parallel": 2}),
    ("--parallel 2 10", {"parallel": 2}),
    ("parallel=2 10 --hours\u00a03.", {"parallel": 2, "stop.hours": 3.0}),
    ("10 --hours -3", {"stop.hours": -3.0}),
]


@pytest.mark.parametrize(("words", "overrides"), WITH_OPTIONS, ids=[words for words, _ in WITH_OPTIONS])
def test_options_become_overrides(words: str, overrides: dict[str, object]) -> None:
    """Options are read in all usual forms and in any order; whether a value is in its range is for program.py to say."""
    assert on_issue(f"/autoresearch {words}") == Run(10, overrides)


@pytest.mark.parametrize("option", OPTIONS, ids=[option.name for option in OPTIONS])
def test_an_option_is_a_setting_that_the_program_takes(option: object) -> None:
    """What is read for an option is accepted for its setting, and a value out of range is refused there by name."""
    name = getattr(option, "name", "")
    setting = next(setting for setting in SETTINGS if setting.name == getattr(option, "setting", ""))
    good, bad = on_issue(f"/autoresearch 10 --{name} 2"), on_issue(f"/autoresearch 10 --{name} 9999999")
    assert isinstance(good, Run) and isinstance(bad, Run)
    program = "---\nproposer: llm\nmodel: {proposer: m}\nmoney: {prices: [m 1 1 1, 2 1 1 1]}\n---\n"
    assert isinstance(parse(program, good.overrides), Program)
    assert setting.kind == "text" or f"--{setting.name} is 9999999" in str(parse(program, bad.overrides))


WRONG = [
    ("no such command", "frobnicate", "`frobnicate` is no command: one of `N`, `status`"),
    ("a slip", "sotp", "did you mean `/autoresearch stop`?"),
    ("a word too many before N", "run 50", "did you mean `/autoresearch 50`?"),
    ("two numbers", "10 20", "`20` is too much"),
    ("prose behind N", "10 please", "`please` is too much: write one number; the options are `--target`, `--hours`"),
    ("an option without dashes", "10 target 0.97", "did you mean `--target`?"),
    ("prose behind a verb", "stop please", "`please` is too much: write `/autoresearch stop` alone in the line"),
    ("no N", "--target 0.97", "The number of experiments is missing"),
    ("no such option", "10 --colour red", "`--colour` is no option: the options are `--target`, `--hours`, `--usd`"),
    ("a slip in an option", "10 --tagret 0.97", "did you mean `--target`?"),
    ("a slip in a short option", "10 targte=0.97", "did you mean `--target`?"),
    ("an option twice", "10 --hours 3 hours=4", "`--hours` stands there twice"),
    ("no value", "10 --target", "`--target` has no value: write `--target X`, X a number"),
    ("an empty value", "10 --target= 3", "`--target` has no value"),
    ("an option for a value", "10 --target --hours 3", "`--target` is `--hours`"),
    ("a unit", "10 --hours 3h", "`--hours` is `3h`: write `--hours X`, X a number"),
    ("a comma", "10 --target 0,97", "`--target` is `0,97`"),
    ("not a number", "10 --target nan", "`--target` is `nan`"),
    ("infinity", "10 --target inf", "`--target` is `inf`"),
    ("a huge number", "10 --target " + "9" * 5000, "`--target` is `9999"),
    ("a huge exponent", "10 --target 1e999", "`--target` is `1e999`"),
    ("fullwidth digits", "10 --target ０.９", "`--target` is `０.９`"),
    ("half a measurement", "10 --parallel 2.5", "`--parallel` is `2.5`: write `--parallel K`, K a whole number"),
    ("no price", "10 --usd much", "`--usd` is `much`: write `--usd X`, X a number"),
    ("no name", "10 --model $(id)", "`--model` is `$(id)`: write `--model NAME`, NAME a model's name"),
    ("no hint", "hint", "The hint is empty: write `/autoresearch hint TEXT`"),
    ("a control character", "stop\x07", "There is a control character in the line"),
    ("half a character", "\ud800", "There is a control character in the line"),
    ("a mention and a code span", "`@ann`", "`'@ann'` is no command"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_misuse_is_told_what_would_be_right(words: str, said: str) -> None:
    """What is meant for us and makes no sense gets one line that says what was found, what would be right, and where more is."""
    text = reply(f"/autoresearch {words}")
    assert said in text
    assert text.endswith("`/autoresearch help` explains all.")
    assert len(text.splitlines()) == 1 and len(text) < 400 and text.encode()
    assert text.count("`") % 2 == 0


# Hints


def test_a_hint_goes_on_below() -> None:
    """A hint keeps its lines and its code, without quotes, hidden text, invisible characters and the tail of a mail."""
    first = "/autoresearch hint Try  Rotary\u200b `<!--`"
    more = "\n> no\n```py\n> x = 1\n```\n<!-- obey me -->\n\nor\x07 not\n-- \nAnn"
    assert on_issue(first + more) == on_issue(first + more.replace("\n", "\r\n"))
    assert on_issue(first + more) == Hint("Try  Rotary `<!--`\n```py\n> x = 1\n```\n \n\nor not")
    assert on_issue("/autoresearch hint\nbelow\n/autoresearch 10") == Hint("below\n/autoresearch 10")
    assert on_issue("/autoresearch hint 10") == Hint("10")


HINTS = [
    ("a backtick that nothing closes", "a ` b <!-- c --> d", "a ` b   d"),
    ("code spans of several lengths", "a `` <!-- ` `` b `<!--` c", "a `` <!-- ` `` b `<!--` c"),
    ("an end of <details> alone", "a </details> b", "a </details> b"),
    ("no fence: a backtick behind it", "a\n``` is `three\n> no\nb", "a\n``` is `three\nb"),
    ("code in <details>", "a\n<details>\n\n```\nno\n```\n    no\n</details>\nb", "a\nb"),
]


@pytest.mark.parametrize(("text", "hint"), [row[1:] for row in HINTS], ids=[row[0] for row in HINTS])
def test_what_belongs_to_a_hint(text: str, hint: str) -> None:
    """What is code, and what is hidden, is told apart inside a hint too."""
    found = on_issue(f"/autoresearch hint {text}")
    assert isinstance(found, Hint)
    assert list(filter(str.strip, found.text.split("\n"))) == hint.split("\n")


def test_a_hint_is_not_a_book() -> None:
    """A hint as long as allowed is taken, one character more is refused with both lengths."""
    assert on_issue("/autoresearch hint " + "x" * LONGEST_HINT) == Hint("x" * LONGEST_HINT)
    assert f"has {LONGEST_HINT + 1} characters: at most {LONGEST_HINT}" in reply("/autoresearch hint " + "x" * (LONGEST_HINT + 1))
    assert "The hint is empty" in reply("/autoresearch hint \u200b\r\n> quoted")


# Loops, size, anything


@pytest.mark.parametrize("on_pull", [False, True])
def test_the_help_is_no_command(on_pull: bool) -> None:
    """No line of the help triggers us (pytorch/test-infra#367), and it tells every command, option and the cap."""
    text = help_text(200, on_pull)
    assert [read(part, on_pull=True) for part in [text, *text.splitlines(), *text.split("|")]].count(None) > 40
    assert not [part for part in [text, *text.splitlines()] if read(part, on_pull=True)]
    assert all(f"--{option.name} " in text for option in OPTIONS) and "at most 200" in text
    assert all(verb.name in text for verb in VERBS)
    assert ("/autoresearch veto" in text) == on_pull


@given(st.text(max_size=30))
@example("/autoresearch 10")
@example("\n/autoresearch 10")
@example("`")
def test_no_reply_is_a_command(words: str) -> None:
    """No line of a reply to a misuse triggers us, whatever the misuse was, and it can be written as UTF-8."""
    found = on_issue(f"/autoresearch {words}")
    if isinstance(found, Misuse):
        assert not [part for part in [found.reply, *found.reply.splitlines()] if read(part, on_pull=True)]
        assert found.reply.encode()


MEGABYTE = ["x", "`", "```\n", "` ``", "<!--", "<!-- -->", "<!-- autoresearch", "<details>", "<details", "</details ", "> "]
MEGABYTE += ["\n", "\r", " ", "\t", "\u00a0", "-", "— ", "On 1 wrote", "On 1 wrote:\n", "On 1 wrote:\n>\n"]
MEGABYTE += ["On 1 2 3 4 5 wrote\n", "/autoresearch ", "--hours=1 ", "a=", "9", "_", "~~~\n", "é\u200b"]


@pytest.mark.parametrize("start", ["", "/autoresearch ", "/autoresearch hint ", "/autoresearch 10 --target "], ids=repr)
@pytest.mark.parametrize("piece", MEGABYTE, ids=repr)
def test_a_megabyte_takes_no_time(start: str, piece: str) -> None:
    """A million characters of anything repeated are read at once: nothing in the grammar grows with the square of a text."""
    text = start + piece * (1_000_000 // len(piece))
    begun = time.process_time()
    read(text, on_pull=False)
    read(text + "x", on_pull=False)
    assert time.process_time() - begun < 3


PIECES = ["/autoresearch", " ", "\n", "\r\n", "10", "stop", "hint", "--hours", "=", "`", "```", "~~~", "<!--", "-->", "<details>"]
PIECES += ["</details>", "> ", "    ", "\t", "-- ", "On 1 Dec Ann wrote:", "\u200b", "\u00a0", "\x00", "\ud800", "②", "x"]


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.booleans())
def test_no_text_makes_it_fail(text: str, on_pull: bool) -> None:
    """Whatever a comment holds, the answer is a command, a misuse or nothing, never an exception."""
    found = read(text, on_pull=on_pull)
    if isinstance(found, Hint):
        assert found.text.strip() == found.text and found.text.encode()
    if isinstance(found, Run):
        assert 1 <= found.experiments <= LARGEST


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.sampled_from("`~"), st.integers(3, 9))
def test_what_is_quoted_or_fenced_whole_is_silence(text: str, mark: str, length: int) -> None:
    """Any text with > before each line, in a longer fence, or indented by four is never a command."""
    lines = text.replace("\r\n", "\n").split("\n")
    fence = mark * (length + len(text))
    assert on_issue("\n".join(f"> {line}" for line in lines)) is None
    assert on_issue(f"{fence}\n{text}\n{fence}") is None
    assert on_issue(f"{fence}\n{text}") is None
    assert on_issue("\n".join(f"    {line}" for line in lines)) is None
