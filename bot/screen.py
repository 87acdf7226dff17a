"""What a person sees while something goes on: rich on a terminal, plain lines where there is none.

On a terminal what runs now has a bar with the time left, below the lines of what happened. Elsewhere there are only the lines.
Nothing that others wrote is taken for markup. Errors do not come here; they go to standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from bot import events as e
from bot import words
from bot.report import called, claims, standing
from bot.report.bills import usd
from bot.report.quoting import visible
from bot.state import Campaign
from runners import Running

STYLES: dict[type[e.Event], str] = {
    e.Merged: "bold green", e.Accepted: "green", e.Compared: "bold", e.Closed: "dim", e.Paused: "bold yellow",
    e.RunLost: "yellow",
}  # fmt: skip
SILENT = (e.Said, e.Learned, e.CheckPosted, e.Opened, e.MeasureStarted)  # a line for each of these would drown the others


class Screen:
    """One place to print to."""

    def __init__(self, out: TextIO, *, terminal: bool | None = None) -> None:
        self._console = Console(file=out, force_terminal=terminal, highlight=False, markup=False, emoji=False)
        self.terminal = self._console.is_terminal
        self._out = out
        self._bars: Progress | None = None
        self._known: dict[str, tuple[TaskID, str, float]] = {}  # run -> bar, phase, seconds that the phase takes

    def line(self, text: str, style: str = "") -> None:
        """One or more lines as they are."""
        if self.terminal:
            self._console.print(Text(visible(text), style=style), soft_wrap=True)
        else:
            print(visible(text), file=self._out, flush=True)

    def raw(self, text: str) -> None:
        """For programs: exactly this."""
        print(text, file=self._out, flush=True)

    def document(self, markdown: str) -> None:
        """A text that we wrote in Markdown."""
        if self.terminal:
            self._console.print(Markdown(visible(markdown)))
        else:
            self.line(markdown)

    def table(self, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table; without a heading a list of names and values."""
        cells = [[words.plain(cell) for cell in row] for row in rows]
        if not self.terminal:
            self._plain_table([list(heading), *cells] if heading else cells)
            return
        table = Table(*heading, box=None, show_header=bool(heading), pad_edge=False, header_style="dim")
        for row in cells:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def _plain_table(self, rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row in rows:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            print("  ".join(padded).rstrip(), file=self._out, flush=True)

    @contextmanager
    def stages(self, what: str) -> Iterator[Callable[[str, float], None]]:
        """A bar for something of several stages; the block is given tell(stage, done from 0 to 1)."""
        if not self.terminal:
            yield lambda stage, done: None
            return
        with self._progress() as bars:
            bar = bars.add_task(what, total=1.0, left="")
            begun = bars.get_time()

            def tell(stage: str, done: float) -> None:
                left = (bars.get_time() - begun) * (1 - done) / done if done > 0 else None
                bars.update(bar, description=f"{what}: {stage}", completed=done, left=_left(left))

            yield tell

    @contextmanager
    def live(self) -> Iterator[None]:
        """While the block runs, `running` and `happened` keep bars for the measurements in flight."""
        if not self.terminal:
            yield
            return
        with self._progress() as self._bars:
            try:
                yield
            finally:
                self._bars, self._known = None, {}

    def _progress(self) -> Progress:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}", markup=False),
        )
        return Progress(*columns, console=self._console, transient=True, refresh_per_second=4)  # it costs a core's time

    def happened(self, event: e.Event, c: Campaign | None = None) -> None:
        """A line for the event. `c` is the campaign as it was before: it knows whose code a measurement is of."""
        if not isinstance(event, SILENT):
            self.line(words.say(event, c) + _whose(event, c), STYLES.get(type(event), ""))
        if c and isinstance(event, e.Adopted):  # the first moment at which the noise is known
            self.line(claims.detectable(c), "dim")

    def running(self, c: Campaign, progress: Mapping[str, Running]) -> None:
        """Draw a bar for each run in flight, `progress` by the name of the run."""
        if self._bars is None:
            return
        for run in [run for run in self._known if run not in progress]:
            self._bars.remove_task(self._known.pop(run)[0])
        for x in c.live.values():
            if x.flight and (seen := progress.get(x.flight.run)):
                subject = c.candidates[x.flight.subject]
                title = "the base" if subject.base else f"candidate {subject.n}: {words.plain(subject.title, 50)}"
                what = f"head to head, {title}" if x.comparison else f"{title}, run {subject.runs + 1}"
                self.bar(x.flight.run, f"{_score(c)}  {what}", seen)

    def bar(self, run: str, title: str, seen: Running) -> None:
        """One measurement, as far as it is known how long it takes."""
        if self._bars is None:
            return
        if run not in self._known:
            self._known[run] = (self._bars.add_task(title, total=None, left=""), "", 0.0)
        task, phase, total = self._known[run]
        if phase != seen.phase or (seen.left or 0.0) > total:
            total = seen.left or 0.0
            self._known[run] = (task, seen.phase, total)
        done = 0.0 if seen.left is None else total - seen.left
        what = f"{title}: {seen.phase}"
        self._bars.update(task, description=what, total=total or None, completed=done, left=_left(seen.left))


def _whose(event: e.Event, c: Campaign | None) -> str:
    """Of a measurement beside a candidate: whose code it was."""
    if c is None or not isinstance(event, e.Measured):
        return ""
    flight = c.candidates[event.n].flight
    return "" if flight is None or flight.subject == event.n else f" (the code of {called(c.candidates[flight.subject])})"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{words.duration(seconds)} left"


def _score(c: Campaign) -> str:
    """How far the campaign is, and how well it does."""
    best = standing(c).best
    cost = f"  {usd(c.spent.usd)}" if c.spent.usd else ""
    return f"{c.settled}/{c.started.experiments}" + ("" if best is None else f"  best {best:.4f}") + cost
