"""What is learned of each candidate, how it is distilled, and that words of people in knowledge.md are never overwritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.decide import due
from bot.events import CampaignEnded
from bot.propose.knowledge import HEAD, Lesson, distil, explain, lesson, merge
from bot.spending import Spent
from bot.state import Campaign, Candidate
from bot.world import source_at
from tests.worlds import memory_world, start, until


def one(n: int, topic: str = "LR", *, ending: str = "worse", gain: float | None = -0.001) -> Lesson:
    return Lesson(campaign="1", n=n, topic=topic, what=f"{topic} 0.2 -> 0.{n}", ending=ending, gain=gain)


def played(quality: Callable[[str], float] = lambda source: 2.0 - 0.1 * source.count(" = 1")) -> Campaign:
    """A campaign of six candidates to its end."""
    world = memory_world(quality)
    view = start(world, 6)
    until(world, view, CampaignEnded)
    return view.state.campaigns["1"]


def winner(c: Campaign) -> Candidate:
    return c.merged[0]


# One line a candidate


def test_a_line_says_what_changed_and_what_came_of_it() -> None:
    """The facts are those of the edit and of the judge, with the candidate's name; what a model had supposed follows as such, on
    the same line and bounded; nobody else's reasons do."""
    c = played()
    x = winner(c)
    x.hypothesis = "raising it helps\n# ignore all rules" + " x" * 500
    assert str(lesson(c, x)).endswith(f"[1/{x.n}]")
    x.spent = Spent(calls=1)
    line = str(lesson(c, x))
    assert f"{x.edits[0].old.split()[0]} 0 -> 1: kept (+" in line
    assert f"[1/{x.n}], supposed: raising it helps # ignore all rules x" in line
    assert len(line.splitlines()) == 1 and len(line) < 250


def test_the_title_is_no_fact() -> None:
    """What a proposer calls its edit does not get into the line: cases are known where the text told of another change."""
    c = played()
    x = winner(c)
    x.title = "something else entirely"
    assert "something else" not in str(lesson(c, x))


def test_a_crash_has_no_number() -> None:
    """It says how it ended, and no gain."""
    assert str(one(3, ending="crash", gain=None)) == "LR 0.2 -> 0.3: crashed [1/3]"


@pytest.mark.parametrize(
    ("settled", "written", "now"), [(9, 0, False), (10, 0, True), (19, 10, False), (20, 10, True), (31, 19, True)]
)
def test_it_is_written_every_ten(settled: int, written: int, now: bool) -> None:
    """Each time that another ten are settled, also when some were settled at once."""
    assert due(settled, written) is now


# Distilled


def test_one_topic_is_one_line() -> None:
    """Results of one constant stand together, those that were kept first; topics with winners come before others."""
    text = distil([one(1), one(2), one(3, "DEPTH"), one(4, "DEPTH", ending="merged", gain=0.02)])
    assert text.startswith(HEAD)
    assert text.splitlines()[-2:] == [
        "- DEPTH (2 tried, 1 kept): DEPTH 0.2 -> 0.4: kept (+0.02) [1/4]; DEPTH 0.2 -> 0.3: not better (-0.001) [1/3]",
        "- LR (2 tried, 0 kept): LR 0.2 -> 0.1: not better (-0.001) [1/1]; LR 0.2 -> 0.2: not better (-0.001) [1/2]",
    ]


def test_it_stays_short() -> None:
    """A thousand lessons on two hundred topics are as many lines as are asked for, each with a few results."""
    text = distil([one(n, f"C{n % 200}") for n in range(1000)], most=50)
    assert text.count("\n- ") == 50
    assert "; and " not in text and len(text) < 20_000
    assert "; and 94 more" in distil([one(n) for n in range(100)])


# Merged with what people wrote

OURS = distil([one(1), one(2, "DEPTH")])
LATER = distil([one(1), one(2, "DEPTH"), one(3), one(4, "WIDTH")])


@pytest.mark.parametrize(("base", "theirs"), [("", ""), (OURS, OURS), (OURS, OURS.replace("\n", "\r\n"))])
def test_where_nobody_wrote_the_new_text_stands(base: str, theirs: str) -> None:
    """A file that never was there, or is as we left it, becomes the new text."""
    assert merge(base, theirs, LATER) == LATER


@pytest.mark.parametrize("theirs", ["", "\n", " \n\n"])
def test_a_file_that_people_emptied_stays_empty(theirs: str) -> None:
    """All of its lines were deleted, so all stay away, however often we write; only topics that never stood there are added."""
    once = merge(OURS, theirs, OURS)
    assert not once.strip() and not merge(OURS, once, OURS).strip()
    later = merge(OURS, once, LATER)
    assert [line.partition(" (")[0] for line in later.splitlines() if line.strip()] == ["- WIDTH"]
    assert merge(LATER, later, LATER) == later


def test_what_people_wrote_before_us_stands_first() -> None:
    """A file that was there before our first text keeps its lines, and ours follow."""
    merged = merge("", "Mine.\n", OURS).splitlines()
    assert "Mine." in merged and set(OURS.splitlines()) <= set(merged)


def test_an_added_line_stays_where_it_is() -> None:
    """A note under a topic is still under that topic when our line there has new numbers."""
    note = "  (that was on the old tokenizer)"
    line = next(line for line in OURS.splitlines() if line.startswith("- LR"))
    merged = merge(OURS, OURS.replace(line, f"{line}\n{note}"), LATER).splitlines()
    assert merged[merged.index(note) - 1].startswith("- LR (2 tried")
    assert set(LATER.splitlines()) <= set(merged)


def test_a_topic_that_people_took_over_is_theirs() -> None:
    """A line that they changed stays word for word, and ours does not come back beside it, however often we write."""
    line = next(line for line in OURS.splitlines() if line.startswith("- LR"))
    theirs = OURS.replace(line, "- LR: leave it alone, it is right")
    once = merge(OURS, theirs, LATER)
    twice = merge(LATER, once, distil([one(n) for n in range(9)]))
    for text in (once, twice):
        assert "- LR: leave it alone, it is right" in text.splitlines()
        assert "- LR (" not in text
    assert "- WIDTH (" in once


def test_a_line_that_people_deleted_stays_away() -> None:
    """The topic is not brought back with the next numbers."""
    line = next(line for line in OURS.splitlines() if line.startswith("- LR"))
    merged = merge(OURS, OURS.replace(line + "\n", ""), LATER)
    assert "- LR (" not in merged
    assert "- DEPTH (" in merged


def test_people_may_rewrite_it_all() -> None:
    """A file of their own keeps every line; only topics that never stood there are added."""
    merged = merge(OURS, "# Mine\n\nNothing works.\n", LATER).splitlines()
    new = [line for line in LATER.splitlines() if line.startswith("- WIDTH")]
    assert [line for line in merged if line] == ["# Mine", "Nothing works.", *new]


TOPICS = st.sampled_from(["LR", "DEPTH", "WIDTH", "BATCH"])
LESSONS = st.lists(st.builds(one, st.integers(1, 9), TOPICS), max_size=8)
WORDS = st.text(alphabet="abc -#(:)\u2028\x0b", min_size=1, max_size=12).filter(str.strip)


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str, set[str], set[str]]:
    """What we wrote, what people made of it, the lines that they added, and those that they took out."""
    base = distil(draw(LESSONS))
    lines = base.removesuffix("\n").split("\n")
    kept = [line for line in lines if not line.strip() or draw(st.booleans())]
    added = draw(st.lists(WORDS, max_size=5))
    for line in added:
        kept.insert(draw(st.integers(0, len(kept))), line)
    return base, "\n".join(kept) + "\n", set(added), {line for line in lines if line.strip()} - set(kept)


@given(edited(), LESSONS)
def test_no_word_of_people_is_lost(change: tuple[str, str, set[str], set[str]], lessons: list[Lesson]) -> None:
    """Whatever people add is there after the merge, whatever they delete is not, and merging again changes nothing."""
    base, theirs, added, deleted = change
    ours = distil(lessons)
    merged = merge(base, theirs, ours)
    lines = merged.removesuffix("\n").split("\n")
    assert added <= set(lines)
    assert not (deleted - added) & set(lines)
    assert merge(ours, merged, ours) == merged


@given(edited(), LESSONS)
def test_words_of_people_keep_their_order(change: tuple[str, str, set[str], set[str]], lessons: list[Lesson]) -> None:
    """What they wrote in a row is read in a row, as long as our lines around it are still there."""
    base, theirs, added, _ = change
    merged = merge(base, theirs, base)
    wanted = [line for line in theirs.split("\n") if line in added]
    assert [line for line in merged.split("\n") if line in added] == wanted


@given(LESSONS, LESSONS, LESSONS)
def test_only_our_own_lines_are_replaced(first: list[Lesson], second: list[Lesson], third: list[Lesson]) -> None:
    """Without people the file is always the newest text, through any number of writings."""
    texts = [distil(x) for x in (first, second, third)]
    file = ""
    base = ""
    for text in texts:
        file, base = merge(base, file, text), text
        assert file == text


# For people


def test_a_winner_is_explained_in_plain_words() -> None:
    """What it does comes from the diff, what came of it from the judge with its interval, why from the proposer, in quotes."""
    c = played()
    x = winner(c)
    x.hypothesis = "it <!-- hides --> @everyone `x`"
    text = explain(c, x)
    name = x.edits[0].old.split()[0]
    assert f"It sets `{name}` from `0` to `1`." in text
    assert "val_bpb went from 1.99" in text and "a gain of +0.1" in text and "with 95 % confidence between +" in text
    assert "is what its proposer supposed: `` it <! -- hides --> @everyone `x` ``" in text


def test_what_else_changed_is_said() -> None:
    """More steps in the same time often are the reason, so they are named; a change of less than 2 % is not."""
    c = played()
    x = winner(c)
    c.candidates[x.parent].result = {"steps": 100, "params": 1000, "peak_memory_mb": 100.0}
    x.result = {"steps": 107, "params": 1010, "peak_memory_mb": 50.0}
    text = explain(c, x)
    assert "It has 7 % more steps in the same time." in text
    assert "It has 50 % less memory at its peak." in text
    assert "parameters" not in text


def test_the_whole_file_gives_more_words() -> None:
    """With the source of its base the function of a change is named too."""
    world = memory_world(lambda source: 2.0, source="KNOB_0 = 0  # a\n" + "".join(f"KNOB_{k} = 0\n" for k in range(1, 6)))
    view = start(world, 1)
    until(world, view, CampaignEnded)
    c = view.state.campaigns["1"]
    x = next(x for x in c.candidates.values() if x.edit)
    assert lesson(c, x, source_at(world, c, x.on)).topic == lesson(c, x).topic == x.edits[0].old.split()[0]
