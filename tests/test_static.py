"""What is refused before any GPU time, and that nothing honest is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.static import MAX_BYTES, fault, hash_of

BASE = '''"""The thing under study."""

import torch

LR = 0.1  # rate
SEED = 42  # as the original has it


def train(model, session):
    """Train it."""
    torch.manual_seed(session.seed)
    return LR
'''


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("", "", "nothing but comments"),
        ("# rate", "# learning rate", "nothing but comments"),
        ("    return LR", "\n\n    return LR", "nothing but comments"),
        ('"""Train it."""', '"""Train it well."""', "nothing but comments"),
        ("LR = 0.1", "LR = 1e-1", "nothing but comments"),
        ("SEED = 42", "SEED = 137", "seed"),
        ("manual_seed(session.seed)", "manual_seed(1234)", "seed"),
        ("manual_seed(session.seed)", "manual_seed(int('77'))", "seed"),
        ("manual_seed(session.seed)", "manual_seed(session.seed + 1)", "seed"),
        ("return LR", "torch.Generator().manual_seed(7)\n    return LR", "seed"),
        ("return LR", "rng = dict(seed=3)\n    return LR", "seed"),
        ("LR = 0.1", "LR = 0.1\nrandom_seed = 5", "seed"),
        ("return LR", "return (LR", "does not parse: line"),
        ("LR = 0.1", "LR = 0.1\0", "does not parse"),
        ("return LR", "LR = 1\n    global LR", "does not parse: line 13: name 'LR' is assigned to before global declaration"),
        ("(model, session)", "(model, model)", "duplicate argument"),
        ("LR = 0.1", "return 0.1", "outside function"),
        ("LR = 0.1", f"LR = {'-' * 20_000}1", "nested too deeply"),
        ("LR = 0.1", f"LR = {'-' * 2_000}1", "nested too deeply"),
        ("# rate", f"# {'x' * MAX_BYTES}", "bytes"),
        ("LR = 0.1", "LR = '\ud800'", "UTF-8"),
    ],
)
def test_what_is_refused(old: str, new: str, word: str) -> None:
    """A change of layout, comments or a seed alone, a syntax error, or too much text is refused with its reason (A1, A12, B9)."""
    reason = fault(BASE, BASE.replace(old, new) if old else BASE, frozenset())
    assert reason is not None and word in reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LR = 0.1", "LR = 0.2"),
        ("return LR", "return LR * 2"),
        ("import torch", "import math\nimport torch"),
        ("return LR", "proceeds = 5\n    return LR + proceeds"),
        ("return LR", "assert (LR, 'a tuple is always true')\n    return LR"),
    ],
)
def test_what_is_not(old: str, new: str) -> None:
    """An honest change may be run, also one whose words only look like a seed."""
    assert fault(BASE, BASE.replace(old, new), frozenset()) is None


def test_a_repeat_is_one_whatever_its_layout() -> None:
    """The same code with other comments counts as tried on this base."""
    first = BASE.replace("LR = 0.1", "LR = 0.2")
    again = first.replace("# rate", "# another comment")
    assert hash_of(first) == hash_of(again) != hash_of(BASE)
    assert "tried" in str(fault(BASE, again, frozenset({hash_of(first)})))


def test_an_edit_that_does_not_apply_and_an_empty_file() -> None:
    """Both are told for what they are."""
    assert "does not apply" in str(fault(BASE, None, frozenset()))
    assert "empty" in str(fault(BASE, " \n", frozenset()))


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(text: str) -> None:
    """Whatever a proposer writes, there is an answer and no exception, and every text has a name."""
    assert fault(BASE, text, frozenset()) is None or isinstance(fault(BASE, text, frozenset()), str)
    assert len(hash_of(text)) == 64
