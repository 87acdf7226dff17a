"""bot/propose/counting.py: tokens are counted by tiktoken, offline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.propose.counting import tokens


@given(st.text())
def test_any_text_has_a_count(text: str) -> None:
    """Any string, a lone surrogate too, has at most as many tokens as bytes, and none has no token unless it is empty."""
    assert (text != "") <= tokens(text) <= len(text.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("hello world", 2, 4), ("learning_rate = 0.04", 6, 10), ("the the the the", 4, 4), ("return self.value\n", 4, 6)],
)
def test_english_and_code_are_counted_by_words_and_parts_of_words(text: str, least: int, most: int) -> None:
    """Common words and names are whole tokens or nearly so, not letters."""
    assert least <= tokens(text) <= most


def test_the_count_is_of_bpe_and_not_of_words() -> None:
    """A common long word is one token or two, and nonsense of the same length many."""
    assert tokens(" everything") <= 2 < tokens(" qzxvjkwpqy")
