"""Repeats beyond the letters: what an edit changes, when it is an earlier one again, and when a retry is honest."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.events import Edit
from bot.propose.changes import between, of, of_edits
from bot.propose.near import near, step
from bot.propose.tried import Tried

ROOT = Path(__file__).resolve().parents[1]
SOURCE = '''"""A made-up trainer."""
import torch
import torch.nn.functional as F

DEPTH = 4  # blocks
LR = 0.2  # learning rate
DECAY = 0.1  # of the weights
BETAS = (0.8, 0.95)
WINDOW = "SSL"
BATCH = 2**19
SCALE = DEPTH * 2


class Block:
    def forward(self, x):
        """Doc."""
        h = self.up(x)
        return self.down(F.relu(h).square())


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, eps=1e-8)


def train(model, session):
    for x, y in session.batches(BATCH):
        loss = model(x, y)
        loss.backward()
        model.step()
'''


def edit(old: str, new: str) -> tuple[Edit, ...]:
    assert SOURCE.count(old) == 1
    return (Edit(old=old, new=new),)


def past(old: str, new: str, *, ending: str = "worse", source: str = SOURCE, n: int = 7) -> Tried:
    return Tried(n=n, title="t", edits=edit(old, new), source=source, ending=ending, reason="gain too small", gain=-0.002)


def how(edits: tuple[Edit, ...], *rows: Tried, source: str = SOURCE) -> str:
    found = near(source, edits, rows)
    return found.how if found else ""


# What an edit changes


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("LR = 0.2  # learning rate", "LR = 0.1", "LR 0.2 -> 0.1"),
        ("BATCH = 2**19", "BATCH = 2 ** 20", "BATCH 524288 -> 1048576"),
        ("(0.8, 0.95)", "(0.8, 0.99)", "BETAS[1] 0.95 -> 0.99"),
        ('"SSL"', '"SSSL"', "WINDOW 'SSL' -> 'SSSL'"),
        ("eps=1e-8", "eps=1e-10", "optimizer: torch.optim.AdamW(eps) 1e-08 -> 1e-10"),
        ("DEPTH = 4  # blocks\n", "# fewer blocks\nDEPTH = -4\n", "DEPTH 4 -> -4"),
        ("F.relu(h)", "F.gelu(h)", "1 statements out and 1 in at Block.forward"),
        ("DEPTH * 2", "DEPTH * 3", "`SCALE = DEPTH * _` 2 -> 3"),
        ("        model.step()\n", "", "1 statements out and 0 in at train"),
        ("# learning rate", "# how fast", ""),
        ('"""Doc."""', '"""Other."""', ""),
    ],
)
def test_what_an_edit_changes_is_read_from_the_tree(old: str, new: str, said: str) -> None:
    """A literal is named with both values, a statement with its function; layout, comments and docstrings are nothing."""
    assert between(SOURCE, SOURCE.replace(old, new)).words() == said


def test_an_else_that_joins_the_statement_before_is_seen() -> None:
    """What does not parse alone, since it belongs to the statement above, is still compared."""
    before = "import a\nif a.b:\n    c = 1\nd = 2\n"
    changes = between(before, before.replace("d = 2", "else:\n    c = 2\nd = 2"))
    assert [text for _, text in changes.added] == ["orelse:", "c = 2"]


def test_edits_alone_tell_their_constants_too() -> None:
    """Without the file a whole statement still gives its values, and a piece of one gives its lines."""
    assert of_edits(edit("LR = 0.2  # learning rate", "LR = 0.3")).words() == "LR 0.2 -> 0.3"
    assert of_edits((Edit(old="        h = (1,", new="        h = (2,"),)).added == (("", "h = (2,"),)


@pytest.mark.parametrize("old", ["not there", "x"])
def test_what_does_not_apply_changes_nothing(old: str) -> None:
    """An edit whose text is not there exactly once, or leaves no program, has no changes to tell, and repeats nothing."""
    assert of(SOURCE, (Edit(old=old, new="y"),)) is None
    assert of(SOURCE, (Edit(old="DEPTH = 4", new="DEPTH = = 4"),)) is None
    assert near(SOURCE, (Edit(old=old, new="y"),), [past("LR = 0.2", "LR = 0.1")]) is None


@given(st.text(alphabet="ab=1\n :()#'\"\r\t+*", max_size=60), st.text(alphabet="ab=1\n :()#'\"\r\t+*", max_size=60))
def test_any_two_texts_are_compared_or_refused(a: str, b: str) -> None:
    """Whatever the texts are, there are changes or one of two errors, never another one; a text does not differ from itself."""
    for before, after in ((a, b), (a, a)):
        try:
            changes = between(before, after)
        except (SyntaxError, ValueError):
            continue
        assert before != after or changes.words() == ""


NEW = ["z = 1", "q = DEPTH", "def g():\n    return 3", "if z:\n    w = 4"]


@given(st.integers(0, 12), st.lists(st.sampled_from(NEW), max_size=3))
def test_a_short_look_sees_what_a_long_look_sees(where: int, lines: list[str]) -> None:
    """Comparing only the statements around a difference finds exactly what comparing whole files finds."""
    rows = SOURCE.splitlines()
    before = "\n".join(rows[: 10 + where % 3])
    after = "\n".join([*rows[:6], *lines, *rows[6 : 10 + where % 3]])
    whole = between(before + "\nif a:\n    b = 1", after + "\nif a:\n    b = 1\nelse:\n    b = 2")
    changes = between(before, after)
    assert sorted(text for _, text in changes.added) == sorted(t for _, t in whole.added if t not in ("orelse:", "b = 2"))


# Near repeats of values


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("0.1", "0.1", "same"),
        ("0.1", "1e-1", "same"),
        ("0.1", "0.105", "near"),
        ("0.1", "0.11", "near"),
        ("0.1", "0.12", ""),  # halfway is another idea
        ("0.1", "0.05", ""),
        ("0.1", "0.3", ""),  # the other direction
        ("0.3", "0.305", "near"),
        ("0.3", "0.4", ""),
        ("0.001", "0", ""),  # off is not a small value
        ("0", "0.0", "same"),
        ("True", "1", ""),
    ],
)
def test_nearly_the_same_value_is_a_repeat(first: str, second: str, same: str) -> None:
    """The same constant in the same direction by nearly the same step is refused; a step that tells something new is not."""
    assert how(edit("LR = 0.2", f"LR = {second}"), past("LR = 0.2", f"LR = {first}")) == same


@pytest.mark.parametrize("huge", [f"0x1{'0' * 400}", "1e999", "2**(10**400)", "2.5**1e308", "1 << 0x1" + "0" * 400])
def test_a_number_beyond_all_floats_is_compared_with_others(huge: str) -> None:
    """It repeats itself, is near to no other number, and breaks nothing."""
    assert how(edit("LR = 0.2", f"LR = {huge}"), past("LR = 0.2", f"LR = {huge}")) == "same"
    assert how(edit("LR = 0.2", f"LR = {huge}"), past("LR = 0.2", "LR = 0.1")) == ""
    assert how(edit("LR = 0.2", "LR = 0.1"), past("LR = 0.2", f"LR = {huge}")) == ""


@pytest.mark.parametrize(
    ("old", "first", "second", "same"),
    [
        ("0.95)", "0.96)", "0.97)", ""),  # four parts in a hundred less, and five: not so near as they look
        ("0.95)", "0.99)", "0.991)", "near"),
        ('"SSL"', '"SL"', '"SL"', "same"),
        ('"SSL"', '"SL"', '"SSSL"', ""),
        ("2**19", "2**18", "260_000", "near"),
        ("DEPTH = 4", "DEPTH = 5", "DEPTH = 6", ""),
    ],
)
def test_the_scale_suits_the_number(old: str, first: str, second: str, same: str) -> None:
    """What stands near 1 is measured by what is left of it, what is large by its factor, a text by being equal."""
    assert how(edit(old, second), past(old, first)) == same


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_steps_add_up(a: float, b: float, c: float) -> None:
    """On one scale the way from a to c is the way over b, so that directions and sizes are comparable."""
    among = (a, b, c)
    assert math.isclose(step(a, b, among) + step(b, c, among), step(a, c, among), abs_tol=1e-6)


def test_two_constants_are_not_one_of_them() -> None:
    """An edit repeats another only if it changes the same constants, all of them and no more."""
    both = (*edit("LR = 0.2", "LR = 0.1"), *edit("DECAY = 0.1", "DECAY = 0.2"))
    row = Tried(n=1, title="t", edits=both, source=SOURCE)
    assert how(edit("LR = 0.2", "LR = 0.1"), row) == ""
    assert how(both, past("LR = 0.2", "LR = 0.1")) == ""
    assert how(tuple(reversed(both)), row) == "same"


def test_other_constants_are_not_refused() -> None:
    """Each of many distinct moves passes against the history of all others."""
    moves = [("LR = 0.2", f"LR = {v}") for v in (0.05, 0.1, 0.15, 0.3, 0.4)]
    moves += [("DEPTH = 4", f"DEPTH = {v}") for v in (2, 3, 5, 6, 8)]
    moves += [('"SSL"', f'"{v}"') for v in ("L", "SL", "SSSL")] + [("F.relu(h)", f"F.{v}(h)") for v in ("gelu", "silu", "elu")]
    for i, move in enumerate(moves):
        assert how(edit(*move), *(past(*other) for j, other in enumerate(moves) if j != i)) == "", move


# Honest retries


@pytest.mark.parametrize(
    ("old", "new", "free"),
    [
        ("DECAY = 0.1", "DECAY = 0.05", True),  # the same function uses it
        ("eps=1e-8", "eps=1e-10", True),  # the function that uses it
        ("LR = 0.2", "LR = 0.25", True),  # where it starts from
        ("DEPTH = 4", "DEPTH = 5", False),
        ("h = self.up(x)", "h = self.up(x) * 2", False),
        ("# learning rate", "# lr", False),
    ],
)
def test_a_retry_is_free_once_what_it_depends_on_changed(old: str, new: str, free: bool) -> None:
    """On another base the same value may be tried again if, and only if, something around that constant differs there."""
    base = SOURCE.replace(old, new)
    line = next(line for line in base.splitlines() if line.startswith("LR"))
    found = near(base, (Edit(old=line, new="LR = 0.1"),), [past("LR = 0.2", "LR = 0.1")])
    assert (found is None) == free


def test_code_is_free_once_its_function_changed() -> None:
    """The same for code: its own function or a constant in it."""
    row = past("F.relu(h).square()", "F.gelu(h)")
    again = edit("F.relu(h).square()", "F.gelu(h)")
    assert how(again, row) == "same"
    assert how(again, row, source=SOURCE.replace("LR = 0.2", "LR = 0.3")) == "same"
    assert how(again, row, source=SOURCE.replace("self.up(x)", "self.up(2 * x)")) == ""


@pytest.mark.parametrize(
    ("ending", "value", "same"),
    [
        ("crash", "0.105", ""),  # that code failed, the idea was not judged
        ("crash", "0.1", "same"),
        ("oom", "0.105", "near"),
        ("timeout", "0.105", "near"),
        ("stale", "0.1", ""),
        ("stopped", "0.1", ""),
        ("refused", "0.1", ""),
        ("vetoed", "0.105", "near"),
        ("running", "0.105", "near"),
        ("accepted", "0.105", "near"),
    ],
)
def test_what_counts_depends_on_how_it_ended(ending: str, value: str, same: str) -> None:
    """What was never judged may be proposed again, what only crashed may be repaired, all else is known."""
    assert how(edit("LR = 0.2", f"LR = {value}"), past("LR = 0.2", "LR = 0.1", ending=ending)) == same


def test_an_idea_that_crashed_twice_is_not_tried_a_third_time() -> None:
    """One crash leaves a way open for nearly the same change, two do not; another step, or other code around it, is free."""
    one, two = past("LR = 0.2", "LR = 0.1", ending="crash", n=3), past("LR = 0.2", "LR = 0.105", ending="nan", n=5)
    third = edit("LR = 0.2", "LR = 0.102")
    assert near(SOURCE, third, [one]) is None and near(SOURCE, third, [one, past("DECAY = 0.1", "DECAY = 0.2")]) is None
    found = near(SOURCE, third, [one, two])
    assert found and "candidate 5" in found.words and "candidate 3 was of that kind, too: no third try" in found.words
    assert near(SOURCE, edit("LR = 0.2", "LR = 0.4"), [one, two]) is None
    moved = SOURCE.replace("eps=1e-8", "eps=1e-6")
    assert near(moved, third, [one, two]) is None



def test_a_veto_outlives_its_surroundings() -> None:
    """What a person did not want stays refused on another base."""
    base = SOURCE.replace("eps=1e-8", "eps=1e-10")
    assert how(edit("LR = 0.2", "LR = 0.1"), past("LR = 0.2", "LR = 0.1", ending="vetoed"), source=base) == "same"


def test_to_undo_a_winner_is_a_repeat() -> None:
    """Back from what was kept, or nearly: that comparison was made; on from there it was not."""
    row = past("LR = 0.2", "LR = 0.1", ending="merged")
    tip = SOURCE.replace("LR = 0.2", "LR = 0.1")
    for value, same in (("0.2", "undo"), ("0.19", "undo"), ("0.05", ""), ("0.4", "")):
        assert how((Edit(old="LR = 0.1", new=f"LR = {value}"),), row, source=tip) == same, value
    changed = tip.replace("eps=1e-8", "eps=1e-10")
    assert how((Edit(old="LR = 0.1", new="LR = 0.2"),), row, source=changed) == ""


# Similar code

CLIP = "        loss.backward()\n        limit = 1.0\n        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)\n"


@pytest.mark.parametrize(
    ("again", "same"),
    [
        (CLIP.replace("limit", "largest"), "similar"),  # another name for the same thing
        (CLIP.replace("1.0", "1.05"), "similar"),
        (CLIP.replace("1.0", "0.1"), ""),
        (CLIP.replace("clip_grad_norm_", "clip_grad_value_"), ""),
        (CLIP.replace("        limit = 1.0\n", "").replace("limit)", "1.0)"), ""),
        (f"# clip\n{CLIP}", "same"),
    ],
)
def test_similar_code_is_a_repeat(again: str, same: str) -> None:
    """Made-up names and small changes of numbers hide nothing; another function or another size is another idea."""
    old = "        loss.backward()\n"
    assert how(edit(old, again), past(old, CLIP)) == same


def test_the_same_code_elsewhere_is_another_idea() -> None:
    """The same statement in another function is no repeat."""
    row = past("        h = self.up(x)\n", "        h = self.up(x)\n        torch.cuda.synchronize()\n")
    assert how(edit("        loss.backward()\n", "        loss.backward()\n        torch.cuda.synchronize()\n"), row) == ""


# Words, and the whole


def test_the_model_is_told_what_came_of_it() -> None:
    """The words name the candidate, both changes, the number and why it was closed; of another campaign, that too."""
    found = near(SOURCE, edit("LR = 0.2", "LR = 0.105"), [past("LR = 0.2", "LR = 0.1")])
    assert found is not None
    for part in ("candidate 7", "LR 0.2 -> 0.1", "LR 0.2 -> 0.105", "not better, gain -0.002000 bpb", "gain too small"):
        assert part in found.words
    running = near(SOURCE, edit("LR = 0.2", "LR = 0.1"), [past("LR = 0.2", "LR = 0.1", ending="running")])
    assert running is not None and "being measured now" in running.words
    assert past("LR = 0.2", "LR = 0.1").called("2") == "candidate 7"


def test_the_newest_is_named() -> None:
    """Of several the last one is told."""
    rows = [past("LR = 0.2", "LR = 0.1", n=1), past("LR = 0.2", "LR = 0.1", n=2)]
    found = near(SOURCE, edit("LR = 0.2", "LR = 0.1"), rows)
    assert found is not None and found.of.n == 2


def test_a_row_without_its_source_is_passed_over() -> None:
    """Without the file there is nothing to compare, and no error."""
    assert how(edit("LR = 0.2", "LR = 0.1"), past("LR = 0.2", "LR = 0.1", source="")) == ""


def test_a_long_history_is_looked_through_in_seconds() -> None:
    """A thousand candidates on fifty bases of the real trainer."""
    source = (ROOT / "trainer" / "train.py").read_text()
    names = [line for line in source.splitlines() if line[:1].isupper() and " = " in line]
    rows = []
    for k in range(1000):
        line = names[k % len(names)]
        new = f"{line.split(' = ')[0]} = {k + 3}.5"
        rows.append(Tried(n=k, title="", edits=(Edit(old=line, new=new),), source=f"{source}\n# base {k // 20}\n"))
    start = time.process_time()
    assert near(source, rows[3].edits, rows[:3] + rows[4:]) is None
    assert near(source, rows[3].edits, rows) is not None
    assert time.process_time() - start < 20


def test_the_loops_of_a_real_model_are_cut_short() -> None:
    """Of the proposals of three public traces every repeat is refused, and no distinct idea."""
    program = [sys.executable, "benchmarks/repeats.py", "--quick"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    figures = json.loads(done.stdout)
    assert (figures["precision"], figures["recall"]) == (1.0, 1.0), figures["wrong"]
    assert figures["longest_row_without_a_gain"]["A1"] == 27
    assert figures["longest_row_then"]["A1"] <= 2
