"""Does the prompt hold the rejection that matters? The digest of the history against recency, on a long log of real experiments.

    python benchmarks/memory.py [--data ../shared/data]            # 20 draws of 20 probes -> benchmarks/results/memory.json
    python benchmarks/memory.py --quick                            # one draw, on the screen only

The log has 1,000 rows in random order: the experiments of thirteen public runs (results.tsv of karpathy/autoresearch, branch
exp/H100/mar8, and twelve traces of EdwardOptimization/Bilevel-Autoresearch, paper_ablation/run2_results; neither is shipped), and
as distractors copies of them with all numbers changed. A probe (see _probes.py) asks for something that one of them has tried;
right is the row of that rejection, not a copy. Goal: it is in the prompt for at least 19 of 20, in BUDGET tokens.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from _probes import FRESH, PARAPHRASED, REPEATED
from _record import ROOT, write

from bot.propose.counting import tokens
from bot.propose.digest import digest, full, recency
from bot.propose.tried import Tried

ROWS, PROBES, DRAWS = 1_000, 20, 20
BUDGET = 6_000
ENDINGS = {"keep": "merged", "discard": "worse", "crash": "crash"}


@dataclass(frozen=True)
class Probe:
    """`right` are the keys of the rows of which one must be there."""

    text: str
    right: tuple[str, ...]


def history(data: Path) -> dict[str, Tried]:
    """The real rows by key: a commit, or trace and position. Baselines are none of them."""
    rows, best = {}, float("inf")
    with (data / "autoresearch-h100-mar8.tsv").open(newline="") as file:
        for line in csv.DictReader(file, delimiter="\t"):
            score = float(line["val_bpb"])
            gain = best - score if score and best < 10 else None
            rows[line["commit"]] = Tried(n=0, title=line["description"], ending=ENDINGS[line["status"]], gain=gain)
            best = min(best, score) if line["status"] == "keep" else best
    rows.pop("baseline")
    for path in sorted((data / "bilevel").glob("*.json")):
        trace = json.loads(path.read_text())["trace"]
        for i, line in enumerate(trace):
            if line["desc"] != "baseline":
                rows[f"{path.stem}/{i}"] = Tried(n=0, title="", hypothesis=line["desc"], ending=ENDINGS[line["status"]])
    return rows


def changed(row: Tried, luck: random.Random) -> Tried:
    """The same words with other numbers."""

    def other(match: re.Match[str]) -> str:
        return f"{float(match[0]) * luck.uniform(1.2, 3):.4g}" if float(match[0]) else match[0]

    number = r"\d+\.\d+|\d+"
    return replace(row, title=re.sub(number, other, row.title), hypothesis=re.sub(number, other, row.hypothesis))


def build(real: dict[str, Tried], luck: random.Random) -> tuple[dict[str, Tried], list[Tried]]:
    """(real rows by key, all rows) in random order, numbered; without the proposals that are asked as probes."""
    asked = {f"{trace}/{places[-1]}" for trace, places, _ in REPEATED}
    keys = [key for key in real if key not in asked]
    copies: list[Tried] = []
    while len(keys) + len(copies) < ROWS:
        key = luck.choice(keys)
        copy = changed(real[key], luck)
        copies += [copy] if copy != real[key] else []
    mixed: list[tuple[str, Tried]] = [(key, real[key]) for key in keys] + [("", copy) for copy in copies]
    luck.shuffle(mixed)
    numbered = [(key, replace(row, n=n)) for n, (key, row) in enumerate(mixed, 1)]
    return {key: row for key, row in numbered if key}, [row for _, row in numbered]


def probes(real: dict[str, Tried], luck: random.Random) -> list[Probe]:
    """Half paraphrases of people, half repeats of a model."""
    said = [Probe(text, alike(real, commit)) for commit, text in (PARAPHRASED | FRESH).items()]
    again = [
        Probe(real[f"{trace}/{places[-1]}"].hypothesis, tuple(f"{trace}/{place}" for place in places[:-1]))
        for trace, places, _ in REPEATED
    ]
    return luck.sample(said, PROBES // 2) + luck.sample(again, PROBES // 2)


def alike(real: dict[str, Tried], key: str) -> tuple[str, ...]:
    """The rows that say the very same: some were tried twice."""
    return tuple(other for other, row in real.items() if row.title == real[key].title)


def fresh(real: dict[str, Tried]) -> int:
    """How many of the probes that came after the ranking find their rejection."""
    by_key, rows = build(real, random.Random(DRAWS))
    texts = {key: digest(rows, text, BUDGET, tokens) for key, text in FRESH.items()}
    return sum(any(f"[{by_key[other].n}]" in text for other in alike(real, key)) for key, text in texts.items())


def draw(real: dict[str, Tried], seed: int) -> dict[str, int]:
    """How many of 20 probes find their rejection: in the digest at all and in full, and with the newest rows only."""
    luck = random.Random(seed)
    by_key, rows = build(real, luck)
    found = {"digest": 0, "digest_in_full": 0, "recency": 0}
    late = recency(rows, BUDGET, tokens)
    for probe in probes(real, luck):
        text = digest(rows, probe.text, BUDGET, tokens)
        assert tokens(text) <= BUDGET
        right = [by_key[key] for key in probe.right]
        found["digest"] += any(f"[{row.n}]" in text for row in right)
        found["digest_in_full"] += any(full(row) in text for row in right)
        found["recency"] += any(f"[{row.n}]" in late for row in right)
        if not any(f"[{row.n}]" in text for row in right):
            print(f"draw {seed}: not found: {probe.text[:100]}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one draw, nothing written")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with the records")
    asked = parser.parse_args()
    if not (asked.data / "autoresearch-h100-mar8.tsv").exists():
        sys.exit(f"memory: no records in {asked.data}: say --data FOLDER; the docstring says what they are")
    real = history(asked.data)
    draws = [draw(real, seed) for seed in range(1 if asked.quick else DRAWS)]
    figures = {
        "rows": ROWS,
        "real_rows": len(real),
        "budget_tokens": BUDGET,
        "probes": PROBES,
        "draws": len(draws),
        **{f"{name}_mean": round(sum(x[name] for x in draws) / len(draws), 2) for name in draws[0]},
        **{f"{name}_worst": min(x[name] for x in draws) for name in draws[0]},
    }
    figures |= {"fresh_probes": len(FRESH), "fresh_found": fresh(real)}
    print(json.dumps(figures, indent=1))
    if not asked.quick:
        write("memory", "python benchmarks/memory.py", figures, n=len(draws) * PROBES)


if __name__ == "__main__":
    main()
