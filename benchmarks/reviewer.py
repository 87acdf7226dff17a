"""What the rule-based reviewer catches and what it refuses wrongly: on tests/cheats, on the honest set there, and on our edits.

    python benchmarks/reviewer.py             # seconds -> benchmarks/results/reviewer.json
    python benchmarks/reviewer.py --quick     # the same, on the screen only

Nothing is run or trained: a reviewer reads. Its rules were written with these tables in sight, so the counts say what it covers,
not how it does on cheats that nobody has thought of; for those there is the judge's audit. The cheats of tests/cheats speak
the protocol of a session without torch (tests/byte_session.py), so there the names of that session are given and its scored
functions are `model` and `choose`.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from _record import write  # noqa: E402

from bot.propose import apply  # noqa: E402
from bot.propose.mutate import constants, moves  # noqa: E402
from bot.propose.review import TRAINER, Rejected, Rules, diff_of, review  # noqa: E402
from tests import reviewed  # noqa: E402
from tests.cheats import test_honest  # noqa: E402
from tests.cheats.table import CHEATS  # noqa: E402
from tests.cheats.toy import candidate  # noqa: E402

SMALL = (ROOT / "examples" / "cpu" / "train.py").read_text("utf-8")
LARGE = (ROOT / "trainer" / "train.py").read_text("utf-8")


def toy_rules() -> Rules:
    """Of the session without torch: what it defines and imports is there for a candidate."""
    tree = ast.parse((ROOT / "tests" / "byte_session.py").read_text("utf-8"))
    names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names |= {"SEALS", "line", "order", "fds"}
    return Rules(contract="", given=frozenset(names), roots=frozenset({"model", "choose"}))


def cheats() -> Iterable[tuple[str, str, str, Rules]]:
    """Name, before, after and rules of every dishonest candidate."""
    rules, base = toy_rules(), candidate("")
    for cheat in CHEATS:
        code = cheat.code.replace("[HELDOUT]", str([k % 16 for k in range(20_000)])).replace("LUCKY", "7").replace("LUCK", "7")
        yield f"{cheat.kind} {cheat.name}", base, candidate(code), rules
    for name, source in (("looks ahead", test_honest.AHEAD), ("replaces the loss", test_honest.REPLACED)):
        yield name, SMALL, test_honest.IMPORTS + source + test_honest.TRAIN, TRAINER


def honest() -> Iterable[tuple[str, str, str, Rules]]:
    rules, base = toy_rules(), candidate("")
    for name, code in test_honest.TOYS.items():
        yield name, base, candidate(code), rules
    for name, code in test_honest.MODELS.items():
        plain = "" if "def build" in code else "def build(): return Net()\n"
        yield name, SMALL, test_honest.IMPORTS + code + plain + test_honest.TRAIN, TRAINER


def edits(table: Mapping[str, reviewed.Edits]) -> Iterable[tuple[str, str, str, Rules]]:
    for name, pairs in table.items():
        after = SMALL
        for old, new in pairs:
            after = after.replace(old, new)
        yield name, SMALL, after, TRAINER


def known_moves() -> Iterable[tuple[str, str, str, Rules]]:
    for source in (SMALL, LARGE):
        for move in moves(constants(source)):
            yield move.title, source, apply(source, (move.edit,)) or "", TRAINER
    yield "trainer/train.py for examples/cpu/train.py", SMALL, LARGE, TRAINER
    yield "examples/cpu/train.py for trainer/train.py", LARGE, SMALL, TRAINER


def counted(rows: Iterable[tuple[str, str, str, Rules]], *, refuse: bool) -> dict[str, object]:
    """How many there are, how many were refused, and which did not go as they should."""
    total, wrong = 0, []
    for name, before, after, rules in rows:
        got = review(before, after, diff_of(before, after), rules)
        total += 1
        if isinstance(got, Rejected) != refuse:
            wrong.append(f"{name}: {got.reasons[0]}" if isinstance(got, Rejected) else name)
    return {"of": total, "refused": total - len(wrong) if refuse else len(wrong), "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="nothing is written")
    args = parser.parse_args()
    figures = {
        "cheats": counted(cheats(), refuse=True),
        "honest": counted(honest(), refuse=False),
        "dishonest_edits": counted(edits(reviewed.CHEATS), refuse=True),
        "honest_edits": counted(edits(reviewed.HONEST), refuse=False),
        "known_moves": counted(known_moves(), refuse=False),
    }
    for name, row in figures.items():
        print(f"{name:16} {row['refused']:>4} of {row['of']:>4} refused", *(f"\n{'':16} {what}" for what in row["wrong"]))  # type: ignore[attr-defined]
    if not args.quick:
        total = sum(int(str(row["of"])) for row in figures.values())
        write("reviewer", "python benchmarks/reviewer.py", figures, n=total)


if __name__ == "__main__":
    main()
