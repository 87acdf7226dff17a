"""How many tokens a text has: counted by tiktoken, with a small vocabulary of our own (benchmarks/_vocabulary.py).

A model's own vocabulary would have to be downloaded, and most servers do not tell which it is. This one is learnt from Python and
English and has 8192 tokens, where GPT-4 has 100,000, so it should count rather too many. That was not held against a model's own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

VOCABULARY = Path(__file__).resolve().parent.parent / "data" / "vocabulary.txt"
# GPT-4's split: cl100k_base in https://github.com/openai/tiktoken/blob/main/tiktoken_ext/openai_public.py
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


@cache
def _encoding() -> tiktoken.Encoding:
    import tiktoken  # here: most commands count nothing

    ranks = {bytes.fromhex(line): rank for rank, line in enumerate(VOCABULARY.read_text("ascii").splitlines())}
    return tiktoken.Encoding(name="counting", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def tokens(text: str) -> int:
    """Of a whole text. A surrogate, which is no text, counts as what stands in for it."""
    return len(_encoding().encode_ordinary(text.encode("utf-8", "replace").decode()))
