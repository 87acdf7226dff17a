"""Write the generated parts of README.md, and docs/best-so-far.svg, from a real campaign's log and from the code.

    autoresearch log --json > docs/demo.jsonl      in the folder of a demo
    python docs/make.py                            then this; --check only says whether anything would change

Generated are: the picture, the table of the last three merges, eight lines of the demo's output, and the machine's diagram.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bot import events as e  # noqa: E402  the checkout is not installed everywhere
from bot.fold import fold  # noqa: E402
from bot.lines import GENESIS, digest, from_line  # noqa: E402
from bot.report import chart, compare  # noqa: E402
from bot.screen import Screen  # noqa: E402
from bot.state import Campaign, mermaid  # noqa: E402

LINES = 8  # of output shown


def demo() -> tuple[Campaign, list[e.Event]]:
    """The campaign of docs/demo.jsonl, as far as it is one, and its events."""
    happened, prev = [], GENESIS
    for line in (ROOT / "docs" / "demo.jsonl").read_text("utf-8").splitlines():
        happened.append(from_line(line, prev))
        prev = digest(line)
    return next(iter(fold(happened).campaigns.values())), happened


def merges(c: Campaign) -> str:
    """The last three merges as a table."""
    rows = ["| # | val_bpb | gain | what | pull |", "|---|---|---|---|---|"]
    for x in c.merged[-3:]:
        seen = compare(c, x)
        assert seen is not None and seen.interval is not None
        rows.append(f"| {x.n} | {seen.after:.4f} | {seen.gain:+.4f} ± {seen.interval[1] - seen.gain:.4f} | {x.title} | #{x.pull} |")
    return "\n".join(rows)


def output(happened: list[e.Event]) -> str:
    """What the demo prints, the lines that tell most: its first two, then proposals and verdicts, then the end."""
    out = io.StringIO()
    screen = Screen(out, terminal=False)
    for event in happened:
        if isinstance(event, e.CampaignStarted | e.BaseSeen | e.Adopted | e.Merged | e.Closed | e.Compared | e.CampaignEnded):
            screen.happened(event)
    lines = out.getvalue().splitlines()
    return "\n".join(["```", *(line if len(line) <= 118 else f"{line[:117]}…" for line in [*lines[: LINES - 2], *lines[-2:]]), "```"])


def parts() -> dict[str, str]:
    c, happened = demo()
    return {"merges": merges(c), "demo": output(happened), "machine": f"```mermaid\n{mermaid()}\n```"}


def filled(text: str) -> str:
    """The README with every generated part between its marks."""
    for name, part in parts().items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"README.md must have {begin} and {end} once each")
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{part}\n{end}", text, flags=re.DOTALL)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    wanted = {ROOT / "README.md": filled((ROOT / "README.md").read_text("utf-8"))}
    wanted[ROOT / "docs" / "best-so-far.svg"] = chart.svg(demo()[0]) + "\n"
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if parser.parse_args().check:
        print("\n".join(f"{path.relative_to(ROOT)} is not what docs/make.py writes" for path in stale) or "all up to date")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], "utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
