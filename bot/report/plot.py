"""The progress of a campaign as a PNG picture, for where a drawing that is SVG (chart.py) is not shown, such as a chat.

Discarded grey, kept marked and numbered, the running best as a step line with the noise of one run around it. It shows the
points of chart.py on its scale, so that the two cannot differ. Needs matplotlib, from the extra `report`. It draws on a canvas
of its own: neither pyplot nor any setting of the process is touched, and no text of others is in it, which matplotlib would
read as mathematics.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from bot.report import count, outcomes
from bot.report.chart import KEPT, Point, points_of, scale_of
from bot.state import Campaign
from evaluator import gate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, DPI = 1600, 900, 100  # pixels, and pixels an inch
MARGIN = 0.2  # inches around it
INK, SOFT, FAINT, GOOD, BAD, PAPER = "#1c2024", "#5d666f", "#e3e6e9", "#0b7a4b", "#b3261e", "#fdfdfc"
GREY = "#9aa3ab"
NUMBERED = 12  # kept candidates that have their number beside them: more would cover each other
EDGE = 0.03  # of the height: where a mark stands that is off the scale, or has no number


class NoPicture(Exception):
    """matplotlib is not installed; the message says how to get it."""


def render(c: Campaign) -> bytes:
    """The picture, also for a campaign without a number. Raises NoPicture."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Blank
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise NoPicture(f"no plot: {error}. `pip install 'autoresearch-bot[report]'` brings matplotlib") from error
    figure = Blank(
        figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER, layout=ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN)
    )
    FigureCanvasAgg(figure)
    _draw(c, figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})  # the same campaign gives the same bytes
    return out.getvalue()


def described(c: Campaign) -> str:
    """The picture in words, for those who cannot see it."""
    return f"val_bpb of campaign {c.name} over {count(c.settled, 'experiment')}, with the best so far as a step line"


def _draw(c: Campaign, figure: Figure) -> None:
    axes = figure.add_subplot()
    points = list(points_of(c))
    scale = scale_of(points)
    room = max(0.5, 0.02 * scale.last)
    axes.set_xlim(-room, max(1, scale.last) + room)
    axes.set_ylim(scale.low, scale.high)
    _dress(c, axes)
    _line(c, points, axes.get_xlim()[1], axes)
    _marks(points, scale.low, scale.high, axes)
    if points:
        figure.legend(loc="outside lower center", ncols=3, fontsize=16, frameon=False, labelcolor=INK)
    if not any(p.score is not None for p in points):
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no number yet", transform=axes.transAxes, ha="center", fontsize=22, color=SOFT)


def _dress(c: Campaign, axes: Axes) -> None:
    """Title, axes and grid."""
    from matplotlib.ticker import MaxNLocator

    issue = f" on issue {c.started.issue}" if c.started.issue else ""
    done = f"{c.settled} of {c.started.experiments} done{f' = {what}' if (what := outcomes(c)) else ''}"
    axes.set_title(f"Campaign {c.name}{issue}: {done}", fontsize=21, color=INK, loc="left", pad=16)
    axes.set_xlabel("experiments, in the order of their verdicts (0 = the base)", fontsize=17, color=SOFT)
    axes.set_ylabel("val_bpb, bits per byte (lower is better)", fontsize=17, color=SOFT)
    axes.tick_params(labelsize=15, colors=SOFT)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_facecolor(PAPER)
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(SOFT)


def _line(c: Campaign, points: list[Point], end: float, axes: Axes) -> None:
    """Where the default branch stood, from the first base to now, and one sigma to each side of it."""
    held = [(p.x, p.score) for p in points if p.score is not None and p.holds]
    if not held:
        return
    xs, ys = [float(x) for x, _ in held], [y for _, y in held]
    xs, ys = [*xs, end], [*ys, ys[-1]]
    sigma, df = gate.sigma(c.ss, c.df, c.settings.gate)
    if df:
        low, high = [y - sigma for y in ys], [y + sigma for y in ys]
        label = f"noise: ± one sd of a run ({sigma:.2g})"
        axes.fill_between(xs, low, high, step="post", color=GOOD, alpha=0.13, linewidth=0, label=label)
    axes.step(xs, ys, where="post", color=GOOD, linewidth=3, label=f"best so far ({ys[-1]:.6f})")


def _marks(points: list[Point], low: float, high: float, axes: Axes) -> None:
    """Every point once, in the groups that the legend names; what is off the scale or has no number stands at the edge."""
    scored = [(p.x, p.score, p) for p in points if p.score is not None]
    kept = [(x, y, p) for x, y, p in scored if p.candidate.why in KEPT]
    rest = [(x, y) for x, y, p in scored if p.candidate.why not in KEPT]
    top, bottom = high - EDGE * (high - low), low + EDGE * (high - low)
    groups = (
        ([(x, y) for x, y in rest if y <= high], "o", 90, GREY, "discarded"),
        ([(x, top) for x, y in rest if y > high], "^", 110, GREY, "discarded, worse than shown"),
        ([(p.x, bottom) for p in points if p.score is None], "x", 110, BAD, "no number (crashed, diverged ...)"),
        ([(x, y) for x, y, _ in kept], "o", 200, GOOD, "kept, and the base"),
    )
    for places, marker, size, colour, label in groups:
        if places:
            xs, ys = zip(*places, strict=True)
            ring = {"linewidths": 3} if marker == "x" else {"edgecolors": PAPER, "linewidths": 1.5}
            axes.scatter(xs, ys, s=size, marker=marker, c=colour, label=label, zorder=3, clip_on=False, **ring)
    for x, y, p in [(x, y, p) for x, y, p in kept if not p.candidate.base][-NUMBERED:]:
        axes.annotate(
            f"#{p.candidate.n}", (x, y), (0, -14), textcoords="offset points", ha="center", va="top", fontsize=15,
            color=GOOD, fontweight="bold",
        )  # fmt: skip
