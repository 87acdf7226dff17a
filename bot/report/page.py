"""One static page per campaign: headline, running best, all candidates with their diffs, and what is not known yet.

Self-contained: no script, no file beside it, nothing loaded from anywhere; light or dark as the reader's system is. Everything
that is not ours is escaped. Not here: reading diffs or writing files; both are handed in and out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape

from bot.report import bills, called, chart, claims, compare, count, outcomes, percent, standing, unsandboxed, word
from bot.report.quoting import visible
from bot.state import Campaign, Candidate, Kind, Stage
from evaluator import gate

OWN = """
:root { --card: #f4f5f5; --add: #e2f4e9; --del: #fbe6e4; }
@media (prefers-color-scheme: dark) { :root { --card: #1d2125; --add: #15301f; --del: #3a1d1b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem; }
p, li { max-width: 46rem; }
.soft { color: var(--soft); max-width: none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 1.5rem 0; padding: 0; }
.tiles div { background: var(--card); border-radius: .5rem; padding: .75rem .9rem; }
.tiles .broad { grid-column: span 2; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; white-space: nowrap; }
.tiles small { display: block; white-space: normal; color: var(--soft); font-size: .8rem; font-weight: 400; line-height: 1.35; }
.wide { overflow-x: auto; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .85rem; }
svg { display: block; width: 100%; min-width: 34rem; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--faint); }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; padding-right: 1.25rem; } td.what { min-width: 13rem; overflow-wrap: anywhere; }
td.why { min-width: 15rem; color: var(--soft); font-size: .85rem; overflow-wrap: anywhere; }
td small { display: block; color: var(--soft); }
a { color: inherit; text-underline-offset: .15em; } .merged b { color: var(--good); } .failing b { color: var(--bad); }
.withdrawn { color: var(--soft); } td b { font-weight: 600; white-space: nowrap; }
details { border-bottom: 1px solid var(--faint); padding: .5rem 0; } details:target { background: var(--card); }
summary { cursor: pointer; overflow-wrap: anywhere; }
blockquote { margin: .75rem 0; padding-left: 1rem; border-left: 3px solid var(--faint); white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre { background: var(--card); border-radius: .5rem; padding: .75rem 1rem; overflow-x: auto;
  font: .8rem/1.45 ui-monospace, monospace; }
pre span { display: inline-block; min-width: 100%; } .add { background: var(--add); } .del { background: var(--del); }
"""
STYLE = chart.COLOURS + chart.STYLE + OWN
CAPTION = (
    "val_bpb, lower is better. The line is the default branch, a green point a kept candidate, a grey one a discarded one "
    "(&#9650; worse than the chart shows), &#215; one that failed and has no number."
)
FEW = 5  # pairs head to head
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser holds what the text above promises


def render(c: Campaign, diffs: Mapping[int, str]) -> str:
    """The page. `diffs` has the unified diff of each candidate by its number; one that is missing is said to be."""
    name = f"Campaign {c.name}"
    experiments = [x for x in c.candidates.values() if x.edit or x.kind is Kind.REVERT]
    parts = [
        f"<h1>{_html(c.started.title) or name}</h1>",
        f'<p class="soft">{name}, {_where(c)}</p>',
        f"<p><b>Total gain, measured head to head on fresh seeds:</b> {_html(claims.total(c))}.</p>",
        _tiles(c),
        f'<figure><div class="wide">{chart.svg(c)}</div><figcaption>{CAPTION}</figcaption></figure>',
        "<h2>What is not known yet</h2>",
        f"<ul>{''.join(f'<li>{_html(line)}</li>' for line in unknowns(c))}</ul>",
        _worths(c),
        _stacks(c),
        "<h2>Candidates</h2>",
        _table(c, experiments) if experiments else '<p class="soft">None yet.</p>',
        "<h2>Ideas and diffs</h2>" if experiments else "",
        *(_details(c, x, diffs.get(x.n)) for x in experiments),
        "<h2>What was asked</h2>",
        _asked(c),
    ]
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: {_html(c.started.title)}</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    return head + "<body>\n<main>\n" + "\n".join(filter(None, parts)) + "\n</main>\n</body>\n</html>\n"


def unknowns(c: Campaign) -> list[str]:
    """What a reader must not take from this page, in sentences."""
    return [*_about_the_total(c), *_about_noise(c), *_about_the_rest(c)]


def _about_the_total(c: Campaign) -> Iterator[str]:
    s, seen = standing(c), claims.proven(c)
    if seen is None and s.candidate and not s.candidate.base:
        yield (
            f"The total gain was not measured head to head ({claims.unproven(c)}): start and best are means of runs at different "
            "times, and those of the best include the runs that it was chosen for, which flatters it a little."
        )
    if seen and seen.pairs < FEW:
        yield f"Head to head were {count(seen.pairs, 'pair')} only: the interval says how little that pins the gain down."
    if sum(x.base for x in c.candidates.values()) > 1:
        what = "what was claimed includes that change; head to head is since the last one" if seen else "it includes that change"
        yield f"The base was changed by hand in between: {what}."
    if c.verdict is None or c.verdict.vault_gain is None:
        yield "The private held-out text was not scored: how much of the gain is only on the public one is not known."


def _about_noise(c: Campaign) -> Iterator[str]:
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    if df == 0:
        yield "How much one run differs from the next by chance is not known yet."
        return
    earlier = f" and {c.settings.gate.prior_df} earlier ones" if c.settings.gate.prior_df else ""
    yield (
        f"One run differs from the next by chance: standard deviation about {sigma:.3g} bits per byte, from {c.df} "
        f"repeat(s) of a run{earlier}. Smaller gains than this are often missed: {claims.detectable(c)}."
    )
    kept = [len(x.pairs) for x in c.merged if x.pairs]
    if kept:
        pairs = str(min(kept)) if min(kept) == max(kept) else f"{min(kept)} to {max(kept)}"
        yield f"What was kept rests on {pairs} pair(s) of runs each; the intervals are not corrected for having stopped early."
    if any(x.predicted for x in c.merged):
        yield "What was certified was so as a whole: an edit in it rests on one run of its own and need not be better by itself."
    once = sum(x.edit and x.why == "worse" and not x.pairs and not x.predicted for x in c.candidates.values())
    if once:
        yield f"{once} closed as not better had one run only; some of them may be better than they looked."


def _about_the_rest(c: Campaign) -> Iterator[str]:
    if c.accepted:
        yield f"{claims.provisional(c)}: each looked better in one run."
    running = [x for x in c.live.values() if x.edit and x.stage is not Stage.ACCEPTED]
    if running:
        yield f"{len(running)} candidate(s) are not judged yet."
    if c.ended is None and c.ending is None and c.started.experiments > c.settled + len(c.accepted):
        yield f"{c.started.experiments - c.settled - len(c.accepted)} of {c.started.experiments} experiments are still to come."
    if any(unsandboxed(x) for x in c.candidates.values()):
        yield "Some numbers were measured unsandboxed: the code could have reached outside."
    yield f"The numbers hold for {c.settings.budget.seconds:g} s of training on this machine; longer training may rank otherwise."


def _where(c: Campaign) -> str:
    began = f"begun {_day(c.started.at)} by {_html(c.started.by)}"
    if c.ended:
        return f"{began}. Ended {_day(c.ended.at)}: {_html(c.ended.reason)}."
    return f"{began}. {'Paused: ' + _html(c.paused) if c.paused else 'Going on'}, as of {_day(c.at)}."


def _tiles(c: Campaign) -> str:
    s, seen, claim, smallest = standing(c), claims.proven(c), claims.claimed(c), claims.smallest(c)
    gain = percent(100 * seen.gain / seen.before) if seen else "&#8211;"
    promised = percent(100 * claim / s.start) if claim is not None and s.start else "&#8211;"
    whose = "" if s.candidate is None else "the base itself" if s.candidate.base else called(s.candidate)
    waiting = f"{len(c.accepted)} provisional, " if c.accepted else ""
    beside = f"beside these {waiting}{bills.beside(c)}"
    tiles = [
        ("Total gain", gain, f"head to head: {seen.low:+.4f} to {seen.high:+.4f} bpb" if seen else "not measured head to head"),
        ("Claimed", promised, "from runs at different times"),
        ("Start", _number(s.start), "val_bpb of the base"),
        ("Best so far", _number(s.best), f"val_bpb of {whose}, lower is better" if whose else "not measured"),
        ("Experiments", f"{c.settled} of {c.started.experiments}", f"{outcomes(c) or 'no verdict yet'}; {beside}"),
        ("Gain that is found", "&#8211;" if smallest is None else f"{smallest:.2g} bpb", "with 80 % chance, at this noise"),
        ("Cost", f"{sum(x.runs for x in c.candidates.values())} runs", f"{c.seconds / 60:.1f} minutes of machine time"),
        *([("Models", bills.dollars(c.spent), bills.of_campaign(c))] if c.spent.calls else []),
    ]
    return f'<dl class="tiles">{"".join(_tile(*tile) for tile in tiles)}</dl>'


def _tile(term: str, value: str, note: str) -> str:
    broad = ' class="broad"' if term == "Experiments" else ""  # it has the longest note
    return f"<div{broad}><dt>{term}</dt><dd>{value}<small>{_html(note)}</small></dd></div>"


def _table(c: Campaign, experiments: list[Candidate]) -> str:
    names = {"#": "n", "candidate": "", "stage": "", "val_bpb": "n", "gain, 95 % interval": "n", "runs": "n", "reason": ""}
    head = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in names.items())
    rows = "".join(_row(c, x) for x in experiments)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'


def _worths(c: Campaign) -> str:
    """What each edit is worth that was taken out of the tip."""
    rows = [
        f'<tr><td class="n">{worth.candidate.n}</td><td class="what">{_html(worth.candidate.title)}</td>'
        f"{_measured(worth.seen, worth.reason)}</tr>\n"
        for worth in claims.worths(c)
    ]
    note = "Each was taken out of the tip alone, and the tip run against the rest on fresh seeds. They need not add up."
    head = '<th class="n">#</th><th>candidate</th><th class="n">worth, 95 % interval</th><th class="n">pairs</th>'
    return _section("What each merged edit is worth", note, head, rows)


def _stacks(c: Campaign) -> str:
    """Mode stack: what was certified together, and what was rolled back."""
    rows = [
        f'<tr class="{"merged" if x.kept else "failing"}"><td class="what">{claims.listed(x.edits)}</td>'
        f"<td><b>{'certified' if x.kept else 'rolled back'}</b></td>{_measured(x.seen, x.reason)}</tr>\n"
        for x in claims.stacks(c)
    ]
    note = "What looked better in one run was built upon, then all of it was run against the default branch in fresh pairs."
    head = '<th>stack</th><th></th><th class="n">gain, 95 % interval</th><th class="n">pairs</th>'
    return _section("Certified, or rolled back", note, head, rows)


def _measured(seen: claims.Difference | None, reason: str) -> str:
    if seen is None:
        return f'<td class="why" colspan="2">{_html(reason)}</td>'
    gain = f"{seen.gain:+.4f}<small>{seen.low:+.4f} to {seen.high:+.4f}</small>"
    return f'<td class="n">{gain}</td><td class="n">{seen.pairs}</td>'


def _section(title: str, note: str, head: str, rows: list[str]) -> str:
    if not rows:
        return ""
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{"".join(rows)}</tbody></table></div>'
    return f'<h2>{title}</h2>\n<p class="soft">{note}</p>\n{table}'


def _row(c: Campaign, x: Candidate) -> str:
    numbers = compare(c, x)
    gain = ""
    if numbers:
        low_high = f"{numbers.interval[0]:+.4f} to {numbers.interval[1]:+.4f}" if numbers.interval else "one run"
        gain = f"{numbers.gain:+.4f}<small>{low_high}</small>"
    title = f'{"revert: " if x.kind is Kind.REVERT else ""}<a href="#c{x.n}">{_html(x.title)}</a>'
    cells = (
        f'<td class="n">{x.n}</td><td class="what">{title}</td><td><b>{_html(word(c, x))}</b></td>'
        f'<td class="n">{_number(numbers.after if numbers else None)}</td><td class="n">{gain}</td><td class="n">{x.runs}</td>'
        f'<td class="why">{_html(x.reason)}</td>'
    )
    return f'<tr class="{_class(x)}">{cells}</tr>\n'


def _class(x: Candidate) -> str:
    if x.live or x.stage is Stage.MERGED:
        return str(x.stage)
    return {"worse": "worse", "stale": "withdrawn", "vetoed": "withdrawn", "stopped": "withdrawn"}.get(x.why, "failing")


def _details(c: Campaign, x: Candidate, diff: str | None) -> str:
    facts = ["a revert, none of the experiments"] if x.kind is Kind.REVERT else []
    facts += [f"proposed by {x.proposer}"] if x.proposer and x.edit else []
    facts += [f"changes {called(c.candidates[x.parent])}"]
    if (stack := claims.stack_of(c, x)) and stack.seen:
        facts += [f"{claims.listed(stack.edits)} {'certified' if stack.kept else 'rolled back'} with {stack.seen}"]
    facts += [f"pull request {x.pull}"] if x.pull is not None else []
    facts += [f"commit {(x.sha or x.head)[:12]}"] if x.head else []
    facts += ["unsandboxed"] if unsandboxed(x) else []
    return (
        f'<details id="c{x.n}"><summary>#{x.n} {_html(x.title)} <span class="soft">{_html(word(c, x))}</span></summary>'
        f'<p class="soft">{_html(", ".join(facts))}</p><blockquote>{_html(x.hypothesis) or "No hypothesis given."}</blockquote>'
        f"{_diff(diff)}</details>"
    )


def _diff(diff: str | None) -> str:
    if not diff:
        return '<p class="soft">Its diff is not at hand.</p>'
    lines, inside = [], False
    for line in visible(diff).rstrip("\n").split("\n"):
        inside = line.startswith("@@") or (inside and not line.startswith("diff --git "))
        kind = {"+": ' class="add"', "-": ' class="del"'}.get(line[:1] if inside else "", "")
        lines.append(f"<span{kind}>{escape(line) or ' '}</span>")
    return f"<pre>{chr(10).join(lines)}</pre>"


def _asked(c: Campaign) -> str:
    body = f"<blockquote>{_html(c.started.body)}</blockquote>" if c.started.body else ""
    return f"{body}<details><summary>program.md, as it was then</summary><pre>{_html(c.started.program)}</pre></details>"


def _html(text: str) -> str:
    return escape(visible(text))


def _number(value: float | None) -> str:
    return "&#8211;" if value is None else f"{value:.6f}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
