"""The progress plot, by its pixels: what is kept, discarded and failed is where it belongs, and the same campaign gives the same
bytes. Campaigns are real ones in memory, with scripted luck (worlds.py).
"""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from collections import Counter

import matplotlib
import numpy
import pytest
from PIL import Image, ImageColor

from bot import events as e
from bot.fold import fold
from bot.loop import run
from bot.report import plot
from bot.state import Campaign
from runners import Outcome
from tests.test_loop import better, ended
from tests.worlds import SOURCE, memory_world, start, until

Colour = tuple[int, int, int]
AXES = (130, 60, 1580, 690)  # pixels: what is drawn, without title, numbers and legend


def colour(name: str) -> Colour:
    return ImageColor.getrgb(name)[:3]


def drawn(c: Campaign) -> Image.Image:
    return Image.open(io.BytesIO(plot.render(c))).convert("RGB")


def counted(picture: Image.Image) -> Counter[Colour]:
    """How many pixels have each colour."""
    return Counter({tuple(rgb): n for n, rgb in picture.getcolors(1 << 24)})  # type: ignore[arg-type, union-attr]


def mixed(source: str) -> float | Outcome:
    """The first step of each knob helps, but for two: one crashes, one is far worse."""
    ups = [int(line.split()[2]) for line in source.splitlines()]
    if ups[4]:
        return Outcome.CRASH
    return 30.0 if ups[5] else 3.0 - 0.1 * sum(ups[:2]) + 0.05 * sum(ups[2:4])


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    world = memory_world(mixed)
    run(world, start(world, 12))
    c = ended(world)
    assert set(c.counts) == {"merged", "worse", "crash"}, "the world is to show all of them"
    return c


def test_it_is_a_png_of_the_promised_size(campaign: Campaign) -> None:
    """What comes back decodes as a PNG of 1600 x 900."""
    data = plot.render(campaign)
    picture = Image.open(io.BytesIO(data))
    picture.verify()
    assert picture.format == "PNG" and picture.size == (1600, 900) and len(data) < 1_000_000


def test_kept_discarded_and_failed_have_their_colours(campaign: Campaign) -> None:
    """Green, grey and red are all there, beside what the legend shows of them."""
    base = dataclasses.replace(campaign, candidates={0: campaign.candidates[0]})
    seen, few = counted(drawn(campaign).crop(AXES)), counted(drawn(base))
    assert seen[colour(plot.GOOD)] > 3_000 and seen[colour(plot.GREY)] > 60 and seen[colour(plot.BAD)] > 60
    assert few[colour(plot.GREY)] == few[colour(plot.BAD)] == 0, "a campaign with nothing but a base has neither"


def test_the_line_goes_down_in_steps() -> None:
    """When all that is tried helps, the green line begins high on the left and ends low on the right."""
    world = memory_world(better)
    run(world, start(world, 4))
    picture = drawn(ended(world)).crop(AXES)
    green = colour(plot.GOOD)
    ys, xs = numpy.nonzero((numpy.asarray(picture) == green).all(axis=2))
    beside_the_base = ys[xs == xs.min() + 60]
    assert beside_the_base.max() < 100 and ys[xs == xs.max()].max() > 450, "first level, then down"
    assert xs.max() > 1_400, "it goes on to the right edge"


def test_the_noise_is_a_band_about_the_line() -> None:
    """With a large noise the band is a large part of the picture; while nothing is known of the noise there is none."""
    world = memory_world(better)
    run(world, start(world, 2))
    c = ended(world)

    def band(df: int) -> int:
        gate = dataclasses.replace(c.settings.gate, prior_df=0, prior_sd=None)
        noisy = dataclasses.replace(c, ss=0.05**2 * df, df=df, settings=dataclasses.replace(c.settings, gate=gate))
        return sum(n for rgb, n in counted(drawn(noisy)).items() if rgb[1] > rgb[0] + 10 and min(rgb) > 200)

    assert band(1_000) > 50_000 and band(0) < 1_000


def test_the_same_campaign_gives_the_same_bytes(campaign: Campaign) -> None:
    """Nothing of the clock, of luck or of the version of a library is in it; another campaign gives another picture."""
    assert plot.render(campaign) == plot.render(campaign)
    assert plot.render(campaign) != plot.render(dataclasses.replace(campaign, candidates={0: campaign.candidates[0]}))


def test_every_moment_of_a_campaign_can_be_drawn() -> None:
    """From the first event on there is a picture: without a number, with a base alone, when all crashed."""
    world = memory_world(lambda source: 2.0 if source == SOURCE else Outcome.NAN)
    view = start(world, 2)
    happened = world.log.read()[0]
    for kind in (e.Measured, e.Adopted, e.Closed):
        assert drawn(fold(happened).campaigns["1"]).size == (1600, 900)
        until(world, view, kind)
        happened = world.log.read()[0]
    assert counted(drawn(fold(happened).campaigns["1"]))[colour(plot.BAD)] > 100


def test_words_of_others_are_not_in_it(campaign: Campaign) -> None:
    """A title that matplotlib would read as mathematics changes nothing."""
    hostile = {n: dataclasses.replace(x, title=r"$\frac{$ \undefined 你好") for n, x in campaign.candidates.items()}
    started = dataclasses.replace(campaign.started, title=r"$\sum^")
    assert plot.render(dataclasses.replace(campaign, candidates=hostile, started=started)) == plot.render(campaign)


def test_it_leaves_the_process_as_it_was(campaign: Campaign) -> None:
    """Neither pyplot nor a setting of matplotlib is touched, so that a host that plots is not disturbed."""

    def settings() -> dict[str, object]:
        """Without the backend: who asks which it is has one picked."""
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before, loaded = settings(), set(sys.modules)
    plot.render(campaign)
    assert settings() == before and "matplotlib.pyplot" not in set(sys.modules) - loaded


def test_without_matplotlib_it_says_how_to_get_it() -> None:
    """On a machine that lacks it the reason is told as NoPicture, with the command; importing the module needs nothing."""
    program = (
        "import sys; sys.modules['matplotlib'] = None\nfrom bot.report import plot\n"
        "try: plot.render(None)\nexcept plot.NoPicture as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'autoresearch-bot[report]'" in done.stdout
