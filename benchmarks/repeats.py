"""How well repeats are told from new ideas, on what a real model proposed: three public traces, labelled by hand.

    python benchmarks/repeats.py             # some seconds -> benchmarks/results/repeats.json
    python benchmarks/repeats.py --quick     # the same, on the screen only

The traces (A1, A2 and B2 in paper_ablation/run2_results of github.com/EdwardOptimization/Bilevel-Autoresearch) tell in prose what
was proposed. `LABELS` says which constant that moves from what to what, and whether it was kept; `REPEATS` which of them, to a
person who reads the trace, bring nothing new: the move was made before from the same place, or it takes back what was kept.
Each is made as an edit of STAND_IN, where the constants meet in the same functions as in the trainer of the traces, and is
compared with those before it by bot/propose/near.py. Goal: loops are cut short, and no distinct idea is refused.
"""

from __future__ import annotations

import argparse
import json

from _record import write

from bot.events import Edit
from bot.propose import apply
from bot.propose.near import near
from bot.propose.tried import Tried

STAND_IN = """
TOTAL_BATCH_SIZE = 2**19
WEIGHT_DECAY = 0.2
EMBEDDING_LR = 0.6
UNEMBEDDING_LR = 0.004
MATRIX_LR = 0.04
SCALAR_LR = 0.5
HEAD_DIM = 128
WINDOW_PATTERN = "SSSL"
steps_of_accumulation = TOTAL_BATCH_SIZE // 2**17

def build(depth):
    return GPT(Config(depth, HEAD_DIM, WINDOW_PATTERN))

def optimizer(model):
    return model.setup(UNEMBEDDING_LR, EMBEDDING_LR, MATRIX_LR, SCALAR_LR, WEIGHT_DECAY)
"""
BATCH, DECAY, EMBED, UNEMBED = "TOTAL_BATCH_SIZE", "WEIGHT_DECAY", "EMBEDDING_LR", "UNEMBEDDING_LR"
MATRIX, SCALAR, HEAD, WINDOW = "MATRIX_LR", "SCALAR_LR", "HEAD_DIM", "WINDOW_PATTERN"
SHORT, LONG = '"SSSS"', '"SSSL"'

# (constant, new value, kept), from iteration 1 on. None: the text does not tell the value.
Label = tuple[str, str, bool] | None
LABELS: dict[str, list[Label]] = {
    "A1": [
        (DECAY, "0.1", True), (WINDOW, SHORT, True), (WINDOW, LONG, True), (WINDOW, '"SLSL"', False),
        *[(WINDOW, SHORT, False)] * 5, *[(DECAY, "0.05", False)] * 3, (WINDOW, SHORT, False), *[(DECAY, "0.05", False)] * 5,
        (WINDOW, SHORT, False), *[(DECAY, "0.05", False)] * 3, (WINDOW, SHORT, False), *[(DECAY, "0.05", False)] * 7,
    ],
    "A2": [
        (BATCH, "2**20", False), (DECAY, "0.1", True), *[(EMBED, "0.3", False)] * 2, (WINDOW, SHORT, False),
        *[(EMBED, "0.3", False)] * 2, (WINDOW, SHORT, False), (DECAY, "0.05", False), *[(WINDOW, SHORT, False)] * 9,
        (WINDOW, SHORT, True), *[(WINDOW, LONG, False)] * 11,
    ],
    "B2": [
        (BATCH, "2**20", False), (DECAY, "0.1", True), (EMBED, "0.8", False), (EMBED, "0.9", False), (EMBED, "0.5", False),
        (DECAY, "0.08", False), (DECAY, "0.12", True), (DECAY, "0.14", False), (DECAY, "0.13", False), (DECAY, "0.11", False),
        (MATRIX, "0.052", False), (MATRIX, "0.03", False), (MATRIX, "0.032", False), (MATRIX, "0.028", False),
        (MATRIX, "0.036", False), *[(SCALAR, "0.375", False)] * 2, (SCALAR, "0.625", False), None, (UNEMBED, "0.005", False),
        *[(HEAD, "96", False)] * 3, *[(HEAD, "160", False)] * 2, (DECAY, "0.24", False), (DECAY, "0.06", False),
        (DECAY, "0.03", False), (DECAY, "0.01", False), (DECAY, "0.005", False),
    ],
}  # fmt: skip
REPEATS = {
    "A1": {3, *range(5, 10), *range(11, 31)},
    "A2": {4, 6, 7, 8, *range(10, 31)},
    "B2": {17, 22, 23, 25},
}


def refused(labels: list[Label]) -> set[int]:
    """Iterations that are told to be repeats. The history goes on as in the trace, since that is what the model saw."""
    source, past, found = STAND_IN, list[Tried](), set[int]()
    for n, label in enumerate(labels, 1):
        if label is None:
            continue
        name, value, kept = label
        old = next(line for line in source.splitlines() if line.startswith(f"{name} = "))
        edits = (Edit(old=old, new=f"{name} = {value}"),)
        if near(source, edits, past):
            found.add(n)
        past.append(Tried(n=n, title=f"{name} to {value}", edits=edits, source=source, ending="merged" if kept else "worse"))
        source = (apply(source, edits) or source) if kept else source
    return found


def longest(labels: list[Label], told: set[int]) -> int:
    """Proposals in a row that were trained for nothing, of those that are not refused."""
    most = row = 0
    for n, label in enumerate(labels, 1):
        row = 0 if label and label[2] else row + (n not in told)
        most = max(most, row)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="nothing written")
    told = {trace: refused(labels) for trace, labels in LABELS.items()}
    hits = sum(len(told[trace] & REPEATS[trace]) for trace in LABELS)
    figures = {
        "proposals": sum(label is not None for labels in LABELS.values() for label in labels),
        "repeats": sum(map(len, REPEATS.values())),
        "refused": sum(map(len, told.values())),
        "precision": round(hits / sum(map(len, told.values())), 3),
        "recall": round(hits / sum(map(len, REPEATS.values())), 3),
        "longest_row_without_a_gain": {trace: longest(labels, set()) for trace, labels in LABELS.items()},
        "longest_row_then": {trace: longest(labels, told[trace]) for trace, labels in LABELS.items()},
        "wrong": {trace: sorted(told[trace] ^ REPEATS[trace]) for trace in LABELS},
    }
    print(json.dumps(figures, indent=1))
    if not parser.parse_args().quick:
        write("repeats", "python benchmarks/repeats.py", figures, n=int(str(figures["proposals"])))


if __name__ == "__main__":
    main()
