"""One static page per campaign: headline, running best, all candidates with their diffs, and what is not known yet.

Self-contained: no script, no file beside it, nothing loaded from anywhere; light or dark as the reader's system is. Everything
that is not ours is escaped. Not here: reading diffs or writing files; both are handed in and out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape

from bot.report import WORDS, compare, standing, tally, unsandboxed
from bot.report.chart import svg
from bot.report.quoting import visible
from bot.state import Campaign, Candidate, Stage
from evaluator import gate

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5d666f; --faint: #e3e6e9; --paper: #fdfdfc; --card: #f4f5f5;
  --good: #0b7a4b; --bad: #b3261e; --add: #e2f4e9; --del: #fbe6e4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa3ab; --faint: #33393f; --paper: #15181b;
  --card: #1d2125; --good: #4cc38a; --bad: #ff8a80; --add: #15301f; --del: #3a1d1b; } }
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
svg { display: block; width: 100%; min-width: 34rem; height: auto; font-size: 12px; }
svg text { fill: var(--soft); } svg .number { fill: var(--good); text-anchor: middle; font-weight: 600; }
.axis { stroke: var(--soft); } .grid { stroke: var(--faint); } .best { fill: none; stroke: var(--good); stroke-width: 2; }
.kept { fill: var(--good); stroke: var(--paper); stroke-width: 1.5; } .discarded { fill: var(--soft); opacity: .55; }
.failed { stroke: var(--bad); stroke-width: 2; }
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
CAPTION = (
    "val_bpb, lower is better. The line is the default branch, a green point a kept candidate, a grey one a discarded one "
    "(&#9650; worse than the chart shows), &#215; one that failed and has no number."
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser holds what the text above promises


def render(c: Campaign, diffs: Mapping[int, str]) -> str:
    """The page. `diffs` has the unified diff of each candidate by its number; one that is missing is said to be."""
    name = f"Campaign {c.name}"
    experiments = [x for x in c.candidates.values() if not x.base and not x.comparison]
    parts = [
        f"<h1>{_html(c.started.title) or name}</h1>",
        f'<p class="soft">{name}, {_where(c)}</p>',
        _tiles(c),
        f'<figure><div class="wide">{svg(c)}</div><figcaption>{CAPTION}</figcaption></figure>',
        "<h2>What is not known yet</h2>",
        f"<ul>{''.join(f'<li>{_html(line)}</li>' for line in unknowns(c))}</ul>",
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
    s = standing(c)
    if s.candidate and not s.candidate.base:
        yield (
            "The total gain was not measured head to head: start and best are means of runs at different times, and those of the "
            "best include the runs that it was chosen for, which flatters it a little."
        )
    if sum(x.base for x in c.candidates.values()) > 1:
        yield "The base was changed by hand in between; the total gain includes that change."
    if s.candidate is None or s.candidate.result.get("vault_bpb") is None:
        yield "The private held-out text was not scored: how much of the gain is only on the public one is not known."


def _about_noise(c: Campaign) -> Iterator[str]:
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    if df == 0:
        yield "How much one run differs from the next by chance is not known yet."
        return
    earlier = f" and {c.settings.gate.prior_df} earlier ones" if c.settings.gate.prior_df else ""
    yield (
        f"One run differs from the next by chance: standard deviation about {sigma:.3g} bits per byte, from {c.df} "
        f"repeat(s) of a run{earlier}. A real gain below about {gate.detectable(sigma, df, c.settings.gate):.2g} is often missed."
    )
    kept = [len(x.pairs) for x in c.merged]
    if kept:
        pairs = str(min(kept)) if min(kept) == max(kept) else f"{min(kept)} to {max(kept)}"
        yield f"What was kept rests on {pairs} pair(s) of runs each; the intervals are not corrected for having stopped early."
    once = sum(x.why == "worse" and not x.pairs for x in c.candidates.values())
    if once:
        yield f"{once} closed as not better had one run only; some of them may be better than they looked."


def _about_the_rest(c: Campaign) -> Iterator[str]:
    running = [x for x in c.live.values() if not x.base and not x.comparison]
    if running:
        yield f"{len(running)} candidate(s) are not judged yet."
    if c.ended is None and c.started.experiments > c.settled:
        yield f"{c.started.experiments - c.settled} of {c.started.experiments} experiments are still to come."
    if any(unsandboxed(x) for x in c.candidates.values()):
        yield "Some numbers were measured unsandboxed: the code could have reached outside."
    yield f"The numbers hold for {c.settings.budget.seconds:g} s of training on this machine; longer training may rank otherwise."


def _where(c: Campaign) -> str:
    began = f"begun {_day(c.started.at)} by {_html(c.started.by)}"
    if c.ended:
        return f"{began}. Ended {_day(c.ended.at)}: {_html(c.ended.reason)}."
    return f"{began}. {'Paused: ' + _html(c.paused) if c.paused else 'Going on'}, as of {_day(c.at)}."


def _tiles(c: Campaign) -> str:
    s = standing(c)
    counts = ", ".join(f"{count} {WORDS[why]}" for why, count in tally(c).items() if count) or "no verdict yet"
    gain = f"{100 * s.gain / s.start:+.2f} %" if s.gain is not None and s.start else "&#8211;"
    whose = "" if s.candidate is None else "the base itself" if s.candidate.base else f"candidate {s.candidate.n}"
    beside = f"beside these {c.withdrawn} withdrawn without a verdict, {c.refused} refused unrun"
    tiles = [
        ("Start", _number(s.start), "val_bpb of the base"),
        ("Best so far", _number(s.best), f"val_bpb of {whose}, lower is better" if whose else "not measured"),
        ("Total gain", gain, "from start to best, not head to head"),
        ("Experiments", f"{c.settled} of {c.started.experiments}", f"{counts}; {beside}"),
        ("Cost", f"{sum(x.runs for x in c.candidates.values())} runs", f"{c.seconds / 60:.1f} minutes of machine time"),
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


def _row(c: Campaign, x: Candidate) -> str:
    numbers = compare(c, x)
    gain = ""
    if numbers:
        low_high = f"{numbers.interval[0]:+.4f} to {numbers.interval[1]:+.4f}" if numbers.interval else "one run"
        gain = f"{numbers.gain:+.4f}<small>{low_high}</small>"
    cells = (
        f'<td class="n">{x.n}</td><td class="what"><a href="#c{x.n}">{_html(x.title)}</a></td><td><b>{_stage(x)}</b></td>'
        f'<td class="n">{_number(numbers.after if numbers else None)}</td><td class="n">{gain}</td><td class="n">{x.runs}</td>'
        f'<td class="why">{_html(x.reason)}</td>'
    )
    return f'<tr class="{_class(x)}">{cells}</tr>\n'


def _stage(x: Candidate) -> str:
    return _html(str(x.stage) if x.live else WORDS.get(x.why, x.why))


def _class(x: Candidate) -> str:
    if x.live or x.stage is Stage.MERGED:
        return str(x.stage)
    return {"worse": "worse", "stale": "withdrawn", "vetoed": "withdrawn", "stopped": "withdrawn"}.get(x.why, "failing")


def _details(c: Campaign, x: Candidate, diff: str | None) -> str:
    facts = [f"proposed by {x.proposer}"] if x.proposer else []
    facts += [f"changes {'the base' if c.candidates[x.parent].base else f'#{x.parent}'}"]
    facts += [f"pull request {x.pull}"] if x.pull is not None else []
    facts += [f"commit {(x.sha or x.head)[:12]}"] if x.head else []
    facts += ["unsandboxed"] if unsandboxed(x) else []
    return (
        f'<details id="c{x.n}"><summary>#{x.n} {_html(x.title)} <span class="soft">{_stage(x)}</span></summary>'
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
