"""Learn the vocabulary by which bot/propose/counting.py counts tokens: byte-level BPE of this Python's library and Jane Austen.

    python benchmarks/_vocabulary.py          # seconds -> bot/data/vocabulary.txt

Small on purpose: models have 12 to 25 times as many, so a text should have fewer of theirs than of these. What is shipped was
learnt from the library of Python 3.11.7; another one gives another vocabulary.
"""

from __future__ import annotations

import lzma
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import rustbpe
from _record import ROOT

from bot.propose.counting import PATTERN, VOCABULARY

SIZE = 8192
AUSTEN = ROOT / "evaluator" / "data" / "austen.txt.xz"


def texts() -> Iterator[str]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-s]*/*.py")):
        if "test" not in path.parts[-2] and "site-packages" not in path.parts:
            yield path.read_text("utf-8", "replace")
    yield lzma.decompress(AUSTEN.read_bytes()).decode()


if __name__ == "__main__":
    learner = rustbpe.Tokenizer()
    learner.train_from_iterator(texts(), vocab_size=SIZE, pattern=PATTERN)
    ranks = sorted((rank, bytes(token)) for token, rank in learner.get_mergeable_ranks())
    VOCABULARY.write_text("".join(f"{token.hex()}\n" for _, token in ranks), "ascii")
    print(f"{len(ranks)} tokens -> {VOCABULARY}")
