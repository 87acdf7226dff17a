"""Write the generated parts of README.md, and docs/best-so-far.svg, from a real campaign's log and from the code.

    autoresearch log --json > docs/demo.jsonl      in the folder of a demo
    python docs/make.py                            then this; --check only says whether anything would change

Generated are: the picture, the table of the last three merges, some lines of the demo's output, and the machine's diagram.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the checkout is not installed everywhere

from bot import events as e  # noqa: E402
from bot.fold import fold  # noqa: E402
from bot.lines import GENESIS, digest, from_line  # noqa: E402
from bot.report import chart, compare  # noqa: E402
from bot.report.diagram import mermaid  # noqa: E402
from bot.report.quoting import cell  # noqa: E402
from bot.screen import Screen  # noqa: E402
from bot.state import Campaign, State  # noqa: E402

DEMO = ROOT / "docs" / "demo.jsonl"
MERGES = 3  # in the table
VERDICTS = 3  # shown of the output, beside its beginning and its end
WIDTH = 118  # characters of a line of output


def demo(lines: list[str]) -> tuple[Campaign, list[e.Event]]:
    """The campaign of a log with one, and its events. Raises what from_line and fold raise for a log that was touched."""
    happened, prev = [], GENESIS
    for line in lines:
        happened.append(from_line(line, prev))
        prev = digest(line)
    return next(iter(fold(happened).campaigns.values())), happened


def merges(c: Campaign) -> str:
    """The last merges as a table."""
    rows = ["| # | val_bpb | gain | what | pull |", "|---|---|---|---|---|"]
    for x in c.merged[-MERGES:]:
        seen = compare(c, x)
        assert seen is not None, "what was merged has a number"
        plus_minus = f" ± {seen.interval[1] - seen.gain:.4f}" if seen.interval else " in one run"
        rows.append(f"| {x.n} | {seen.after:.4f} | {seen.gain:+.4f}{plus_minus} | {cell(x.title)} | #{x.pull} |")
    return "\n".join(rows)


def output(happened: list[e.Event]) -> str:
    """Lines that the demo printed: its beginning, the last verdicts (the last merge for sure), the proof and the end."""
    state, first, verdicts, last = State(), [], [], []
    merged = [event for event in happened if isinstance(event, e.Merged)]
    shown = [event for event in happened if isinstance(event, e.Merged | e.Closed)][-VERDICTS:]
    if merged and merged[-1] not in shown:
        shown = [merged[-1], *shown[1:]]
    for event in happened:
        c = state.campaigns.get(event.campaign)
        if isinstance(event, e.CampaignStarted | e.BaseSeen | e.Adopted):
            first += printed(event, c)
        elif event in shown:
            verdicts += printed(event, c)
        elif isinstance(event, e.CampaignEnded) or (isinstance(event, e.Compared) and c and event.n == c.duel):
            last += printed(event, c)
        state = fold([event], state)
    lines = [*first, "...", *verdicts, "...", *last]
    return "\n".join(["```", *(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines), "```"])


def printed(event: e.Event, c: Campaign | None) -> list[str]:
    """What the screen says of it, as at that time."""
    out = io.StringIO()
    Screen(out, terminal=False).happened(event, c)
    return out.getvalue().splitlines()


def filled(text: str, c: Campaign, happened: list[e.Event]) -> str:
    """The README with every generated part between its marks."""
    parts = {"merges": merges(c), "demo": output(happened), "machine": f"```mermaid\n{mermaid()}\n```"}
    for name, part in parts.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise SystemExit(f"README.md must have {begin} and then {end} once each")
        before, after = text[: text.index(begin)], text[text.index(end) :]
        text = f"{before}{begin}\n{part}\n{after}"
    return text


def stale() -> dict[Path, str]:
    """What would change: path -> the text that it must have."""
    c, happened = demo(DEMO.read_text("utf-8").splitlines())
    readme = ROOT / "README.md"
    wanted = {readme: filled(readme.read_text("utf-8"), c, happened), ROOT / "docs" / "best-so-far.svg": chart.alone(c)}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when anything would change")
    check = parser.parse_args().check
    if not DEMO.exists():
        raise SystemExit("docs/demo.jsonl is not there: `autoresearch log --json > docs/demo.jsonl` in the folder of a demo")
    wanted = stale()
    for path, text in wanted.items():
        if not check:
            path.write_text(text, "utf-8")
        print(f"{path.relative_to(ROOT)}{' is not what docs/make.py writes' if check else ''}")
    return 1 if check and wanted else 0


if __name__ == "__main__":
    sys.exit(main())
