"""What the bot writes for people on the forge and in commits: render(state) -> text, within GitHub's limits.

Facts come from the diff and from the log; what a proposer, a person or a program says is shown as a quotation (quoting.py).
Not here: posting any of it, deciding anything; the comment of a whole campaign (status.py).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from bot.forge import Check
from bot.report import WORDS, amount, called, claims, compare, count, percent, unsandboxed
from bot.report.bills import bill
from bot.report.quoting import LINE, cell, fence, quiet, span
from bot.state import Campaign, Candidate, Kind, branch_of
from evaluator.gate import Call, Verdict

# Shares, in characters, of what GitHub takes: a title 256, a body 65,536, a check's summary and its text 65,535 each.
TITLE, DIFF, QUOTE, LOG = 200, 40_000, 6_000, 50_000
HUNKS = 10  # that a check points at
LABEL = "autoresearch"
REVERT = "Nobody proposed this: the campaign takes back what it merged. It is none of the experiments."
NO_MODEL = "No model proposed this: it is drawn from a list of known moves."


def commit_message(c: Campaign, x: Candidate) -> str:
    """Of the candidate's commit. Depends on nothing that changes later: the same candidate gives the same commit."""
    origin = _origin(x, quiet(x.proposer, 80))
    trailers = f"Campaign: {c.name}\nCandidate: {x.n}"
    return f"{quiet(x.title, 100) or 'untitled'}\n\n{_indented(x.hypothesis)}{origin}\n\n{trailers}\n"


def merge_message(c: Campaign, x: Candidate, verdict: Verdict) -> str:
    """Of the one commit on the default branch."""
    numbers, alone = compare(c, x), ", in its first run alone" if x.predicted else ""
    line = f"val_bpb {numbers.before:.6f} -> {numbers.after:.6f} ({percent(numbers.percent)}){alone}\n" if numbers else ""
    trailers = f"Campaign: {c.name}\nCandidate: {x.n}\nPull-Request: {x.pull}\nMeasured-Commit: {x.head}"
    head = quiet(x.title, 100) or "untitled"
    return f"{head}\n\n{line}{quiet(verdict.reason, LINE)}\n\n{_indented(x.hypothesis)}{trailers}\n"


def pull_title(x: Candidate) -> str:
    return f"Candidate {x.n}: {quiet(x.title, TITLE) or 'untitled'}"


def labels(x: Candidate, reason: str = "") -> tuple[str, ...]:
    """Of a pull request; `reason` is given once it is settled."""
    marks = ((f"{LABEL}: settled", bool(reason)), (f"{LABEL}: unsandboxed", unsandboxed(x)))
    return (LABEL, *(name for name, holds in marks if holds))


def pull_body(c: Campaign, x: Candidate, diff: str, reason: str = "", *, provisional: str = "", plain: str = "") -> str:
    """The description: what changes, says who, what was measured, what it cost, how to see it for oneself. `reason` is given
    once it is settled, `provisional` when it is only built upon, `plain` (Markdown) explains a winner."""
    now = f"**Settled:** {span(reason)}" if reason else "Not judged yet."
    if provisional:
        now = f"**Provisional:** what comes next builds on it, but it is not merged until it is certified. {span(provisional)}"
    parts = [
        f"Candidate {x.n} of campaign {c.name}. {_origin(x, span(x.proposer))}{_looked_at(x)} {now}",
        f"### In plain words\n\n{plain}" if plain else "",
        f"### What changes\n\n{_facts(diff)}\n\n{_fenced_diff(c, x, diff)}",
        f"### Hypothesis, in the proposer's words\n\n{fence(_hypothesis(x) or '(none given)', QUOTE)}",
        f"### Measured\n\n{_measured(c, x)}",
        f"### Cost\n\n{_cost(x)}",
        f"### See for yourself\n\n{_reproduce(c, x)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _hypothesis(x: Candidate) -> str:
    """What its proposer supposed, and hoped to see."""
    return _wrapped("\n\n".join(filter(str.strip, (x.hypothesis, x.expected_effect and f"Expected: {x.expected_effect}"))))


def undo_title(c: Campaign) -> str:
    return f"Take back what campaign {c.name} merged"


def undo_body(c: Campaign, by: str) -> str:
    """Of the pull request that a person asked for, to take back a whole campaign."""
    rows = [f"| {x.n} | {'' if x.pull is None else f'#{x.pull}'} | {cell(x.title)} |" for x in reversed(c.merged)]
    table = "\n".join(["| # | pull | what is taken back |", "|---|---|---|", *rows])
    return (
        f"{span(by)} asked for it. The edits of campaign {c.name} are taken out of {span(c.settings.editable[0])}, newest first; "
        f"what others changed stays. Nothing was measured: merge it if you want it.\n\n{table}\n\n"
        f"What the campaign claimed: {claims.total(c)}.\n"
    )


def check(c: Campaign, x: Candidate, verdict: Verdict | None, diff: str = "") -> Check:
    """The final check on the candidate's head, on the lines that `diff` changes. `verdict` is None when its own run failed.

    Green only for what is kept; never neutral, which a required check would take for green."""
    numbers = compare(c, x)
    if verdict is None or numbers is None:
        conclusion = "timed_out" if x.outcome == "timeout" else "failure"
        title = f"{WORDS.get(x.outcome, x.outcome)}: {quiet(x.fault, 150) or 'no reason given'}"
    else:
        assert verdict.call is not Call.AGAIN, "a check is posted when the verdict is final"
        kept = verdict.call is Call.KEEP
        conclusion = "success" if kept else "failure"
        title = f"{numbers.after:.6f} ({percent(numbers.percent)}): {'kept' if kept else 'not better'}"
        if kept and (stack := claims.stack_of(c, x)):
            title = f"{verdict.gain:+.6f} bpb for {claims.listed(stack.edits)} in {count(verdict.pairs, 'pair')}: certified"
    reason = verdict.reason if verdict else x.fault
    said = f"{span(reason)}\n\n" if reason else ""
    summary = f"{said}{_measured(c, x)}\n\n{_cost(x)}"
    return Check(
        head=x.head, conclusion=conclusion, title=_sandbox(x, title), summary=summary, text=_log(x), lines=changed_lines(diff)
    )  # fmt: skip


def changed_lines(diff: str) -> tuple[tuple[str, int, int], ...]:
    """(path, first, last) of each hunk that adds something, counted from 1 in the new file; at most HUNKS of them."""
    found, path = [], ""
    for line in diff.splitlines():
        if line.startswith("diff --git "):
            path = line.rpartition(" b/")[2]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found += [(path, max(1, first), max(1, first) + count - 1)] if count else []
    return tuple(found[:HUNKS])


def withdrawn_check(c: Campaign, x: Candidate, why: str, reason: str) -> Check:
    """Of a candidate that leaves without a verdict of its own: neither good nor bad, but red when its stack was rolled back."""
    back = bool(x.predicted) and why == "worse"
    title = f"{'not certified' if back else WORDS.get(why, why)}: {quiet(reason, 150)}"
    said = "It was provisional, and the stack that it was in is not better." if back else "Withdrawn without a verdict."
    summary = f"{said} {span(reason)}\n\n{_measured(c, x)}"
    conclusion = "failure" if back else "cancelled"
    return Check(head=x.head, conclusion=conclusion, title=_sandbox(x, title), summary=summary, text=_log(x))


def closing(c: Campaign, x: Candidate, why: str, reason: str) -> str:
    """The comment under a pull request that is closed."""
    meaning = {
        "worse": "It is not clearly better than the code it changes.",
        "stale": "The code it changes moved on, and it does not fit any more.",
        "vetoed": "A person does not want it. Its measurement, if one was under way, was ended.",
        "stopped": "The campaign ended before it was judged.",
    }
    said = meaning.get(why, "Its run gave no number, so there is nothing to compare.")
    ended = WORDS.get(why, why)
    if x.predicted and why == "worse":
        ended = "rolled back"
        said = "It looked better in its first run and was built upon, but fresh pairs did not certify the stack that it was in."
    return f"Closed as **{ended}**. {said}\n\n{span(reason)}\n\n{_measured(c, x)}\n"


def explanation(c: Campaign, x: Candidate) -> str:
    """Why a candidate was judged as it was, or what it still waits for."""
    ended = f"is not judged yet: {span(claims.doing(c, x))}"
    if x.why:
        ended = f"ended as **{WORDS.get(x.why, x.why)}**: {span(x.reason)}"
    rule = (
        "A first run only screens. What looks better is measured again in fresh interleaved pairs, and it is kept when their "
        f"mean gain is larger than chance explains (level {c.settings.gate.alpha:g} for each candidate)."
    )
    return f"Candidate {x.n} of campaign {c.name} {ended}.\n\n{_measured(c, x)}\n\n{_cost(x)}\n\n{rule}\n"


def _measured(c: Campaign, x: Candidate) -> str:
    """The numbers, or why there are none."""
    note = "\n\n**unsandboxed**: measured without a sandbox." if unsandboxed(x) else ""
    if x.outcome != "ok":
        return f"No number: the run ended as **{WORDS.get(x.outcome, x.outcome)}**.{note}"
    numbers = compare(c, x)
    if numbers is None:
        return "No number yet."
    low_high = "none from a single run"
    if numbers.interval:
        low_high = f"{numbers.interval[0]:+.6f} to {numbers.interval[1]:+.6f}"
    parent, fresh = c.candidates[x.parent], count(numbers.pairs, "fresh run")
    known = "its runs until then" + (", in part predicted and not run" if parent.assumed else "")
    old, new = (f"{fresh}, interleaved", fresh) if numbers.pairs else (known, "its first run")
    rows = [
        f"| {c.settings.metric} ({c.settings.direction} is better) | |",
        "|---|---|",
        f"| before: {called(parent)}, {old} | {numbers.before:.6f} |",
        f"| after: this candidate, {new} | {numbers.after:.6f} |",
        f"| gain | {numbers.gain:+.6f} ({percent(-numbers.percent)}) |",
        f"| 95 % interval of the gain | {low_high} |",
        f"| noise (sd of one run) | {numbers.sigma:.3g} |",
        *_certified(c, x),
    ]
    return "\n".join(rows) + note


def _certified(c: Campaign, x: Candidate) -> Iterator[str]:
    """Mode stack: what fresh pairs said of all that was stacked, which is more than this one."""
    stack = claims.stack_of(c, x)
    if stack and stack.seen:
        seen, how = stack.seen, "certified" if stack.kept else "not certified"
        yield f"| {how}: {claims.listed(stack.edits)} together, {count(seen.pairs, 'fresh pair')} | {seen.gain:+.6f} |"
        yield f"| 95 % interval of that | {seen.low:+.6f} to {seen.high:+.6f} |"


def _cost(x: Candidate) -> str:
    asked = [f"Models were asked for it: {bill(x.spent)}."] if x.spent.calls else []
    if not x.runs:
        return " ".join(["No run yet.", *asked])
    parts = [f"{count(x.runs, 'run')} to judge it; every run has a fresh seed that the bot draws."]
    if (total := amount(x.result, "total_seconds")) is not None:
        training = amount(x.result, "training_seconds") or 0.0
        seed = x.result.get("seed")
        parts.append(f"The last one of this code (seed {seed}) took {total:.1f} s, {training:.1f} s of it training.")
    if x.result.get("device"):
        parts.append(f"Device: {span(str(x.result['device']))}.")
    return " ".join([*parts, *asked])


def _reproduce(c: Campaign, x: Candidate) -> str:
    budget = c.settings.budget.seconds
    return (
        f"```sh\ngit checkout {x.head or branch_of(c.name, x.n)} && autoresearch measure\n```\n\n"
        f"The number above is from {budget:g} s of training. Another machine fits another number of steps into that time and "
        "gives another number: measure the code before the change there too."
    )


def _facts(diff: str) -> str:
    """Files and lines, read from the diff, whatever the proposer says."""
    added = removed = 0
    files, inside = [], False
    for line in diff.splitlines():
        if line.startswith("diff --git "):
            files.append(line.rpartition(" b/")[2])
            inside = False
        elif line.startswith("@@"):
            inside = True
        elif inside:
            added += line.startswith("+")
            removed += line.startswith("-")
    if not files:
        return "The diff is empty: nothing would change."
    names = ", ".join(span(name) for name in files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    return f"{names}: {count(added, 'line')} added, {removed} removed."


def _fenced_diff(c: Campaign, x: Candidate, diff: str) -> str:
    where = f"git diff {x.on[:12]} {x.head[:12]}" if x.head else f"see the branch {branch_of(c.name, x.n)}"
    return fence(diff, DIFF, "diff", where) if diff else ""


def _log(x: Candidate) -> str:
    """The end of what the candidate printed: it is at the end that a log says why."""
    tail = str(x.result.get("log_tail", ""))
    return f"The end of the run's own output, from which nothing is read:\n\n{fence(tail[-LOG:], LOG)}" if tail else ""


def _sandbox(x: Candidate, title: str) -> str:
    return f"{title}; unsandboxed" if unsandboxed(x) else title


def _origin(x: Candidate, proposer: str) -> str:
    if x.kind is Kind.REVERT:
        return REVERT
    return NO_MODEL if x.proposer.startswith("mutate") else f"Proposed by {proposer}."


def _looked_at(x: Candidate) -> str:
    """Who reviewed it before it was run, and how often it was mended after a crash."""
    review = f" Before any run: {span(x.review)}." if x.review else ""
    return review + (f" Mended {count(x.mended, 'time')} after a crash." if x.mended else "")


def _wrapped(text: str) -> str:
    """Prose at most 100 wide: a fence does not wrap."""
    return "\n".join(textwrap.fill(line, 100) for line in text.strip().splitlines())


def _indented(text: str) -> str:
    """A quotation inside a commit message: indented, no line of it can pass for a trailer."""
    lines = [quiet(line, 1000) for line in _wrapped(text[:QUOTE]).splitlines()]
    return textwrap.indent("\n".join(lines), "    ") + "\n\n" if lines else ""
