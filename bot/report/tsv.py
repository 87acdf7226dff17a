"""results.tsv as the original keeps it: commit, val_bpb, memory_gb, status, description, one line an experiment.

One difference: where the original writes 0.000000 for a crash, the field is empty here, so that nothing can take it for the
best number ever. Withdrawn candidates have no verdict and no line; a revert has one, since it is code that was measured. For
programs; people have page.py.
"""

from __future__ import annotations

from bot.report import amount, in_order, mean
from bot.report.quoting import visible
from bot.state import WITHDRAWN, Campaign, Candidate

COLUMNS = ("commit", "val_bpb", "memory_gb", "status", "description")
_STATUS = {"merged": "keep", "adopted": "keep", "worse": "discard"}


def results(c: Campaign) -> str:
    """All lines with their heading. val_bpb is the mean over the runs of that code, memory the peak in GiB (of the GPU where
    one is used); status is keep, discard or crash. The base comes first, candidates follow in the order of settling."""
    rows = [_row(x) for x in in_order(c) if x.why not in WITHDRAWN]
    return "".join("\t".join(fields) + "\n" for fields in (COLUMNS, *rows))


def _row(x: Candidate) -> tuple[str, ...]:
    # A person's push moves the sha of a base that it leaves alone; what was measured is its head.
    commit = x.sha if x.why == "merged" else x.head
    score = "" if x.outcome != "ok" or (number := mean(x)) is None else f"{number:.6f}"
    description = " ".join(visible("baseline" if x.base else x.title).split())
    return commit[:7], score, _memory(x), _STATUS.get(x.why, "crash"), description


def _memory(x: Candidate) -> str:
    megabytes = amount(x.result, "peak_vram_mb") or amount(x.result, "peak_memory_mb")
    return "" if megabytes is None else f"{megabytes / 1024:.1f}"
