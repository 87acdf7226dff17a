"""The running best of a campaign as an SVG drawing: one step line, every experiment a point. No script, no file beside it.

A failed run has no number: it is a cross on the axis and touches neither the scale nor the line. Light or dark as the reader's
system is. Not here: any text beside the drawing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from bot.report import called, in_order, mean, measured, word
from bot.report.quoting import visible
from bot.state import WITHDRAWN, Campaign, Candidate

KEPT = ("merged", "adopted")
WIDTH, HEIGHT = 760, 300  # of the drawing; LEFT to RIGHT and TOP to BOTTOM is the plot in it
LEFT, RIGHT, TOP, BOTTOM = 64, 740, 20, 238
COLOURS = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5d666f; --faint: #e3e6e9; --paper: #fdfdfc; --good: #0b7a4b;
  --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa3ab; --faint: #33393f; --paper: #15181b;
  --good: #4cc38a; --bad: #ff8a80; } }
"""
STYLE = """
svg { font-size: 12px; } svg text { fill: var(--soft); } svg .number { fill: var(--good); text-anchor: middle; font-weight: 600; }
.axis { stroke: var(--soft); } .grid { stroke: var(--faint); } .best { fill: none; stroke: var(--good); stroke-width: 2; }
.kept { fill: var(--good); stroke: var(--paper); stroke-width: 1.5; } .discarded { fill: var(--soft); opacity: .55; }
.failed { stroke: var(--bad); stroke-width: 2; }
"""
HEADROOM = 1.0  # of the range from best to start; worse points than that are drawn at the edge, or one bad run would flatten all


@dataclass(frozen=True, kw_only=True)
class Point:
    """One settled thing: `x` counts experiments, so a base stands where the experiments before it end."""

    x: int
    candidate: Candidate
    score: float | None
    words: str
    holds: bool  # the line goes through it: it was kept, and it was run on its own account


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From experiments and bits per byte to the drawing. Lower numbers are lower."""

    last: int
    low: float
    high: float

    def x(self, x: int) -> float:
        return LEFT + 12 + (RIGHT - LEFT - 24) * x / max(1, self.last)

    def y(self, score: float) -> float:
        return TOP + (BOTTOM - TOP) * (self.high - min(score, self.high)) / (self.high - self.low)


def alone(c: Campaign) -> str:
    """The drawing as a file: its own colours on its own ground, and no link, since a picture in a page has none."""
    drawn = re.sub(r"</?a\b[^>]*>", lambda tag: "</g>" if tag[0] == "</a>" else "<g>", svg(c))
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>'
    head = f"<style>{COLOURS}{STYLE}svg {{ font-family: system-ui, sans-serif; }}\n</style>\n{ground}"
    opened, rest = drawn.split(">", 1)
    return f'{opened} xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">\n{head}{rest}\n'


def svg(c: Campaign) -> str:
    """The drawing for a page that has COLOURS and STYLE; also for a campaign without a number, or whose first row is a crash."""
    points = list(points_of(c))
    scale = scale_of(points)
    numbers = sum(p.score is not None for p in points)
    label = f"val_bpb of {numbers} measured versions in the order of their verdicts, with the best so far as a step line"
    body = [*_axes(scale, bool(numbers)), _line(points, scale), *(_mark(p, scale) for p in sorted(points, key=_kept))]
    drawn = "\n".join(filter(None, body))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">\n{drawn}\n</svg>'


def _kept(point: Point) -> bool:
    return point.candidate.why in KEPT


def points_of(c: Campaign) -> Iterator[Point]:
    """All that has a verdict, in the order of the verdicts."""
    done = 0
    for candidate in in_order(c):
        if candidate.why in WITHDRAWN:
            continue
        done += candidate.edit
        score = mean(candidate) if candidate.outcome == "ok" else None
        holds = candidate.why in KEPT and bool(measured(candidate))
        yield Point(x=done, candidate=candidate, score=score, words=word(c, candidate), holds=holds)


def scale_of(points: list[Point]) -> Scale:
    """What the drawing shows: all that was kept, and of the rest what is not far worse."""
    scores = [p.score for p in points if p.score is not None]
    last = max((p.x for p in points), default=0)
    if not scores:
        return Scale(last=last, low=0.0, high=1.0)
    line = [p.score for p in points if p.score is not None and _kept(p)] or scores
    room = max(HEADROOM * (max(line) - min(scores)), 0.01 * max(line))
    low, high = min(scores), min(max(scores), max(line) + room)
    margin = 0.08 * max(high - low, 0.005 * high)
    return Scale(last=last, low=low - 2 * margin, high=high + margin)  # below the lowest point stands its number


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers inside the range, about as many as wanted."""
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axes(scale: Scale, numbered: bool) -> Iterator[str]:
    yield f'<line class="axis" x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}"/>'
    for value in ticks(scale.low, scale.high) if numbered else ():
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_short(value, scale)}</text>'
    for x in ticks(0, scale.last, 8) if scale.last else (0.0,):
        if x == int(x):
            yield f'<text x="{scale.x(int(x)):.1f}" y="{BOTTOM + 22}" text-anchor="middle">{int(x) or "base"}</text>'
    yield f'<text x="{RIGHT}" y="{BOTTOM + 44}" text-anchor="end">experiments, in the order of their verdicts</text>'
    if not numbered:
        yield f'<text x="{(LEFT + RIGHT) / 2}" y="{(TOP + BOTTOM) / 2}" text-anchor="middle">no number yet</text>'


def _short(value: float, scale: Scale) -> str:
    digits = max(2, 1 - math.floor(math.log10(scale.high - scale.low)))
    return f"{value:.{digits}f}"


def _line(points: list[Point], scale: Scale) -> str:
    """Where the default branch stood, from the first base to the last verdict."""
    held = [(scale.x(p.x), scale.y(p.score)) for p in points if p.score is not None and p.holds]
    if not held:
        return ""
    steps = "".join(f" H{x:.1f} V{y:.1f}" for x, y in held[1:])
    return f'<path class="best" d="M{held[0][0]:.1f} {held[0][1]:.1f}{steps} H{scale.x(scale.last):.1f}"/>'


def _mark(point: Point, scale: Scale) -> str:
    """A point with its words on hover, and a link to its details."""
    x, candidate = scale.x(point.x), point.candidate
    if point.score is None:
        shape = f'<path class="failed" d="M{x - 4:.1f} {BOTTOM - 4} l8 8 m0 -8 l-8 8"/>'
        said = "no number"
    else:
        shape, said = _shape(point, scale), f"{point.score:.6f}"
    name = called(candidate) if candidate.base else f"#{candidate.n} {candidate.title}"
    title = escape(visible(f"{name}: {said}, {point.words}"))
    drawn = f"<title>{title}</title>{shape}"
    return f"<g>{drawn}</g>" if candidate.base else f'<a href="#c{candidate.n}">{drawn}</a>'


def _shape(point: Point, scale: Scale) -> str:
    assert point.score is not None
    x, y = scale.x(point.x), scale.y(point.score)
    if point.score > scale.high:
        return f'<path class="discarded" d="M{x:.1f} {TOP - 6} l5 8 h-10 z"/>'
    if not _kept(point):
        return f'<circle class="discarded" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    number = "" if point.candidate.base else f'<text class="number" x="{x:.1f}" y="{y + 18:.1f}">#{point.candidate.n}</text>'
    return f'<circle class="kept" cx="{x:.1f}" cy="{y:.1f}" r="5"/>{number}'
