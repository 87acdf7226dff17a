"""What the bot writes for people on the forge and in commits: render(state) -> text, within GitHub's limits.

Facts come from the diff and from the log; what a proposer, a person or a program says is shown as a quotation (quoting.py).
Not here: posting any of it, deciding anything.
"""

from __future__ import annotations

import textwrap

from bot.decide import stop_reason
from bot.forge import Check
from bot.report import WORDS, amount, compare, in_order, standing, tally, unsandboxed
from bot.report.quoting import LINE, cell, fence, quiet, span
from bot.state import Campaign, Candidate, branch_of
from evaluator.gate import Call, Verdict

# Shares, in characters, of what GitHub takes: a title 256, a body 65,536, a check's summary and its text 65,535 each.
TITLE, DIFF, QUOTE, LOG = 200, 40_000, 6_000, 50_000
LABEL = "autoresearch"
NO_MODEL = "No model proposed this: it is drawn from a list of known moves."


def commit_message(c: Campaign, x: Candidate) -> str:
    """Of the candidate's commit. Depends on nothing that changes later: the same candidate gives the same commit."""
    origin = NO_MODEL if _offline(x) else f"Proposed by {quiet(x.proposer, 80)}."
    trailers = f"Campaign: {c.name}\nCandidate: {x.n}"
    return f"{quiet(x.title, 100) or 'untitled'}\n\n{_indented(x.hypothesis)}{origin}\n\n{trailers}\n"


def merge_message(c: Campaign, x: Candidate, verdict: Verdict) -> str:
    """Of the one commit on the default branch."""
    numbers = compare(c, x)
    line = f"val_bpb {numbers.before:.6f} -> {numbers.after:.6f} ({percent(numbers.percent)})\n" if numbers else ""
    trailers = f"Campaign: {c.name}\nCandidate: {x.n}\nPull-Request: {x.pull}\nMeasured-Commit: {x.head}"
    head = quiet(x.title, 100) or "untitled"
    return f"{head}\n\n{line}{quiet(verdict.reason, LINE)}\n\n{_indented(x.hypothesis)}{trailers}\n"


def pull_title(x: Candidate) -> str:
    return f"Candidate {x.n}: {quiet(x.title, TITLE) or 'untitled'}"


def labels(x: Candidate, reason: str = "") -> tuple[str, ...]:
    """Of a pull request; `reason` is given once it is settled."""
    marks = ((f"{LABEL}: settled", bool(reason)), (f"{LABEL}: unsandboxed", unsandboxed(x)))
    return (LABEL, *(name for name, holds in marks if holds))


def pull_body(c: Campaign, x: Candidate, diff: str, reason: str = "") -> str:
    """The description: what changes, says who, what was measured, what it cost, how to see it for oneself."""
    origin = NO_MODEL if _offline(x) else f"Proposed by {span(x.proposer)}."
    parts = [
        f"Candidate {x.n} of campaign {c.name}. {origin} {'**Settled:** ' + span(reason) if reason else 'Not judged yet.'}",
        f"### What changes\n\n{_facts(diff)}\n\n{_fenced_diff(c, x, diff)}",
        f"### Hypothesis, in the proposer's words\n\n{fence(_wrapped(x.hypothesis) or '(none given)', QUOTE)}",
        f"### Measured\n\n{_measured(c, x)}",
        f"### Cost\n\n{_cost(x)}",
        f"### See for yourself\n\n{_reproduce(c, x)}",
    ]
    return "\n\n".join(parts) + "\n"


def check(c: Campaign, x: Candidate, verdict: Verdict | None) -> Check:
    """The final check on the candidate's head. `verdict` is None when its own run failed.

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
    reason = verdict.reason if verdict else x.fault
    said = f"{span(reason)}\n\n" if reason else ""
    summary = f"{said}{_measured(c, x)}\n\n{_cost(x)}"
    return Check(head=x.head, conclusion=conclusion, title=_sandbox(x, title), summary=summary, text=_log(x))


def withdrawn_check(c: Campaign, x: Candidate, why: str, reason: str) -> Check:
    """Of a candidate that leaves without a verdict: neither good nor bad."""
    title = f"{WORDS.get(why, why)}: {quiet(reason, 150)}"
    summary = f"Withdrawn without a verdict. {span(reason)}\n\n{_measured(c, x)}"
    return Check(head=x.head, conclusion="cancelled", title=_sandbox(x, title), summary=summary, text=_log(x))


def closing(c: Campaign, x: Candidate, why: str, reason: str) -> str:
    """The comment under a pull request that is closed."""
    meaning = {
        "worse": "It is not clearly better than the code it changes.",
        "stale": "The code it changes moved on, and it does not fit any more.",
        "vetoed": "A person does not want it. Its measurement, if one was under way, was ended.",
        "stopped": "The campaign ended before it was judged.",
    }
    said = meaning.get(why, "Its run gave no number, so there is nothing to compare.")
    return f"Closed as **{WORDS.get(why, why)}**. {said}\n\n{span(reason)}\n\n{_measured(c, x)}\n"


def status(c: Campaign) -> str:
    """The one comment of a campaign: where it began, where it is, what came of every experiment, what comes next."""
    counts = tally(c)
    sum_up = " + ".join(f"{count} {WORDS[why]}" for why, count in counts.items() if count) or "none yet"
    parts = [
        f"**Campaign {c.name}: {c.settled} of {c.started.experiments} experiments done.**",
        _standing(c),
        f"{c.settled} done = {sum_up}. Beside: {c.withdrawn} withdrawn without a verdict, {c.refused} refused before any run.",
        _last_results(c),
        f"**Next:** {_next(c)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _standing(c: Campaign) -> str:
    s = standing(c)
    if s.start is None:
        return "The base is not measured yet."
    if s.best is None or s.candidate is None:
        return f"Start: {s.start:.6f}. The base was changed by hand and is being measured."
    gain = s.start - s.best
    rows = [
        "| val_bpb | mean | of |",
        "|---|---|---|",
        f"| start | {s.start:.6f} | the base, {_count(len(c.candidates[0].own), 'run')} |",
        f"| best so far | {s.best:.6f} | {_name(s.candidate)}, {_count(len(s.candidate.own), 'run')} |",
        f"| total gain | {gain:+.6f} ({percent(100 * gain / s.start)}) | not measured head to head |",
    ]
    return "\n".join(rows)


def _last_results(c: Campaign) -> str:
    last = [x for x in in_order(c) if not x.base][-10:]
    if not last:
        return ""
    rows = ["| # | pull | what | val_bpb | gain | how it ended |", "|---|---|---|---|---|---|"]
    for x in reversed(last):
        numbers = compare(c, x)
        score, gain = (f"{numbers.after:.6f}", percent(-numbers.percent)) if numbers else ("", "")
        pull = "" if x.pull is None else f"#{x.pull}"
        rows.append(f"| {x.n} | {pull} | {cell(x.title)} | {score} | {gain} | {WORDS.get(x.why, x.why)} |")
    return "\n".join(rows)


def _next(c: Campaign) -> str:
    """What will happen without anybody's doing, as of the last event."""
    if c.ended:
        return f"nothing, it ended: {span(c.ended.reason)}"
    if c.tip >= 0 and (ending := stop_reason(c, c.at)):
        return f"it ends: {span(ending[1])}"
    if c.paused:
        return f"it is paused and waits for a person: {span(c.paused)}"
    left = c.started.experiments - c.settled
    live = [f"{_name(x)} is {x.stage} ({_count(x.runs, 'run')} so far)" for x in c.live.values()]
    return "; ".join([*live, f"{_count(left, 'experiment')} to go"])


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
    fresh = _count(numbers.pairs, "fresh run")
    old, new = (f"{fresh}, interleaved", fresh) if numbers.pairs else ("its runs until then", "its first run")
    rows = [
        f"| {c.settings.metric} ({c.settings.direction} is better) | |",
        "|---|---|",
        f"| before: {_name(c.candidates[x.parent])}, {old} | {numbers.before:.6f} |",
        f"| after: this candidate, {new} | {numbers.after:.6f} |",
        f"| gain | {numbers.gain:+.6f} ({percent(-numbers.percent)}) |",
        f"| 95 % interval of the gain | {low_high} |",
        f"| noise (sd of one run) | {numbers.sigma:.3g} |",
    ]
    return "\n".join(rows) + note


def _cost(x: Candidate) -> str:
    if not x.runs:
        return "No run yet."
    parts = [f"{_count(x.runs, 'run')} to judge it; every run has a fresh seed that the bot draws."]
    if (total := amount(x.result, "total_seconds")) is not None:
        training = amount(x.result, "training_seconds") or 0.0
        seed = x.result.get("seed")
        parts.append(f"The last one of this code (seed {seed}) took {total:.1f} s, {training:.1f} s of it training.")
    if x.result.get("device"):
        parts.append(f"Device: {span(str(x.result['device']))}.")
    return " ".join(parts)


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
    return f"{names}: {_count(added, 'line')} added, {removed} removed."


def _fenced_diff(c: Campaign, x: Candidate, diff: str) -> str:
    where = f"git diff {x.on[:12]} {x.head[:12]}" if x.head else f"see the branch {branch_of(c.name, x.n)}"
    return fence(diff, DIFF, "diff", where) if diff else ""


def _log(x: Candidate) -> str:
    """The end of what the candidate printed: it is at the end that a log says why."""
    tail = str(x.result.get("log_tail", ""))
    return f"The end of the run's own output, from which nothing is read:\n\n{fence(tail[-LOG:], LOG)}" if tail else ""


def _sandbox(x: Candidate, title: str) -> str:
    return f"{title}; unsandboxed" if unsandboxed(x) else title


def _offline(x: Candidate) -> bool:
    return x.proposer.startswith("mutate")


def _wrapped(text: str) -> str:
    """Prose at most 100 wide: a fence does not wrap."""
    return "\n".join(textwrap.fill(line, 100) for line in text.strip().splitlines())


def _indented(text: str) -> str:
    """A quotation inside a commit message: indented, no line of it can pass for a trailer."""
    lines = [quiet(line, 1000) for line in _wrapped(text[:QUOTE]).splitlines()]
    return textwrap.indent("\n".join(lines), "    ") + "\n\n" if lines else ""


def _name(x: Candidate) -> str:
    return "the base" if x.base else f"candidate {x.n}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def percent(value: float) -> str:
    return f"{value:+.1f} %" if abs(value) >= 1 else f"{value:+.2f} %"
