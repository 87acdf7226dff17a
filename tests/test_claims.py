"""What reports say of a whole campaign, held against its log: the proof and not the claim, and only runs that were run.

Campaigns are real ones in memory, with scripted luck (worlds.py).
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterator
from statistics import fmean
from xml.etree import ElementTree

import pytest

from bot import events as e
from bot import looks, summary, words
from bot.decide import verdict_of
from bot.fold import fold
from bot.loop import run, step
from bot.report import certification, chart, claims, compare, markdown, measured, page, standing, status, tally, tsv, word
from bot.screen import Screen
from bot.state import Campaign, Kind, State
from bot.world import World
from evaluator import gate
from runners import Job, Running
from runners.scripted import Result
from tests.test_loop import better, ended, of, same, take_time
from tests.worlds import SOURCE, memory_world, start


def finished(n: int, mode: str = "pairs", world: World | None = None) -> World:
    world = world or memory_world(better)
    run(world, start(world, n, mode=mode))
    return world


def lucky_once() -> World:
    """All code is equal, but the first run of every candidate looks much better."""
    world, seen = memory_world(same), set()
    plain = world.runner.script  # type: ignore[attr-defined]

    def script(job: Job) -> Result:
        found = plain(job)
        if isinstance(found, Running) or job.source == SOURCE or job.commit in seen:
            return found  # type: ignore[no-any-return]
        seen.add(job.commit)
        return dataclasses.replace(found, val_bpb=1.9)  # type: ignore[type-var]

    world.runner.script = script  # type: ignore[attr-defined]
    return world


def worse_at_the_end() -> World:
    """What is merged turns out to be much worse than the base as soon as the private split is scored."""
    world, begun = memory_world(better), []
    plain = world.runner.script  # type: ignore[attr-defined]

    def script(job: Job) -> Result:
        begun.extend([job] if job.vault else [])
        found = plain(job)
        if not begun or isinstance(found, Running) or job.source == SOURCE:
            return found  # type: ignore[no-any-return]
        return dataclasses.replace(found, val_bpb=3.5 + job.seed % 100 * 1e-5)

    world.runner.script = script  # type: ignore[attr-defined]
    return world


def as_it_went(world: World) -> Iterator[Campaign]:
    """The campaign after each event."""
    state = State()
    for event in world.log.read()[0]:
        state = fold([event], state)
        yield state.campaigns[event.campaign]


def table(c: Campaign) -> str:
    """What is printed at the end."""
    out = io.StringIO()
    summary.show(Screen(out, terminal=False), c)
    return out.getvalue()


def reports(c: Campaign) -> dict[str, str]:
    return {"status": status.render(c), "page": page.render(c, {}), "table": table(c), "json": json.dumps(looks.record(c))}


def rows(text: str) -> list[str]:
    """The candidates that a page lists, by number."""
    part = text[text.index("<h2>Candidates") : text.index("<h2>Ideas")]
    return re.findall(r'<tr class="[a-z]+"><td class="n">(\d+)</td>', part)


def test_the_proof_heads_every_report() -> None:
    """The gain measured head to head, with interval, stands first in status, page and table, before what was claimed."""
    c = ended(finished(3))
    v = c.verdict
    assert v is not None and v.gain is not None
    change = -100 * v.gain / fmean(before for before, _ in c.candidates[c.duel].pairs)
    for name, text in reports(c).items():
        assert f"{v.gain:+.6f} bpb (val_bpb {change:+.1f} %), 95 % interval {v.low:+.6f} to {v.high:+.6f}, 2 pairs" in text, name
    assert status.render(c).index("head to head on fresh seeds") < status.render(c).index("| start |")
    assert table(c).splitlines()[1].startswith("total gain")
    assert "claimed" in table(c) and "Claimed" in status.render(c) and "not measured" not in "".join(reports(c).values())
    assert looks.record(c)["verdict"]["gain"] == v.gain


def test_the_claim_is_from_before_the_proof() -> None:
    """Runs that base and tip had head to head are no part of what was claimed, else the two would agree by construction."""
    world = finished(1, world=worse_at_the_end())
    c = ended(world)
    told = of(world, e.ComparisonOpened)[0].n
    seen: dict[int, list[float]] = {0: [], 1: []}
    begun = {x.run: x.subject for x in of(world, e.MeasureStarted)}
    for x in of(world, e.Measured):
        if x.n < told:
            seen[begun[x.run]].append(x.val_bpb)
    assert claims.claimed(c) == pytest.approx(fmean(seen[0]) - fmean(seen[1]))
    assert (claims.claimed(c) or 0) > 0 > (c.verdict.gain if c.verdict and c.verdict.gain else 0)


def test_what_was_not_measured_is_said_with_its_reason() -> None:
    """Nothing merged, not there yet, under way, stopped, and switched off each read differently, and none shows a number."""
    assert claims.unproven(ended(finished(2, world=memory_world(same)))) == "nothing was merged"
    world = memory_world(better)
    take_time(world, 5)
    view = start(world, 2)
    said = []
    while not of(world, e.ComparisonOpened):
        if not step(world, view):
            world.sleep(0.2)
        said += [claims.total(ended(world))]
    assert said[0].startswith("not measured: nothing is merged yet")
    assert any(text.startswith("not measured: base and tip are run head to head at the end. Claimed") for text in said)
    assert claims.unproven(ended(world)) == "under way, 0 of 2 pairs so far"
    assert "base and tip are run head to head (0 of 2 pairs so far)" in status.render(ended(world))
    world.log.append(e.StopRequested(campaign="1", at=world.now(), by="a person"), world.log.read()[1])
    run(world, view)
    assert all("not measured" in text for text in reports(ended(world)).values())
    assert claims.unproven(ended(world)) == "the comparison was given up: stopped"
    off = [dataclasses.replace(x, settings={"gate.verdict_pairs": 0}) if isinstance(x, e.CampaignStarted) else x
           for x in world.log.read()[0]]  # fmt: skip
    assert claims.unproven(fold(off).campaigns["1"]) == "switched off (gate.verdict_pairs: 0)"


def test_the_private_split_is_beside() -> None:
    """Its gain and interval are told where it was scored, and its absence where it was not."""
    c = ended(finished(2))
    assert claims.private(c) == "private split not scored" and any("private" in line for line in page.unknowns(c))
    duel = c.candidates[c.duel]
    assert duel.compared is not None
    duel.compared = dataclasses.replace(duel.compared, vault_gain=0.19, vault_low=0.17, vault_high=0.21)
    assert all("private split +0.190000 bpb, +0.170000 to +0.210000" in text for text in reports(c).values())
    assert not any("private" in line for line in page.unknowns(c))


def test_an_interval_around_nothing_is_called_so() -> None:
    """When the interval holds 0 the reports say that nothing is shown, whatever the gain."""
    c = ended(finished(1))
    duel = c.candidates[c.duel]
    assert duel.compared is not None and claims.meaning(c) == ""
    duel.compared = dataclasses.replace(duel.compared, gain=0.01, low=-0.02, high=0.04)
    assert all("not shown" in text for text in reports(c).values())


def test_each_edit_has_its_worth() -> None:
    """An ablation is told from the side of the edit: what the tip loses without it, as a gain, with its interval mirrored."""
    c = ended(finished(3))
    found = claims.worths(c)
    assert [x.candidate.n for x in found] == [1, 2]
    for worth in found:
        said = next(x.compared for x in c.candidates.values() if x.of == worth.candidate.n)
        assert said is not None and said.gain is not None and said.low is not None and worth.seen is not None
        assert (worth.seen.gain, worth.seen.high) == (-said.gain, -said.low)
        assert worth.seen.low < 0.1 < worth.seen.high
        assert f"| {worth.seen.gain:+.6f} | {worth.seen.low:+.6f} to {worth.seen.high:+.6f} | 2 |" in status.render(c)
        assert f"{worth.seen.gain:+.4f}<small>" in page.render(c, {})
    assert looks.record(c)["worth"][0]["n"] == 1


def test_a_comparison_is_no_candidate() -> None:
    """Pages list edits, the chart and results.tsv code; the duel and the ablations of a campaign are in none of these lists."""
    c = ended(finished(3))
    assert {x.kind for x in c.candidates.values()} == {Kind.BASE, Kind.EDIT, Kind.DUEL, Kind.ABLATION}
    assert rows(page.render(c, {})) == ["1", "2", "3"]
    assert len(tsv.results(c).splitlines()) == 1 + 4
    assert chart.svg(c).count("<circle") == 4 and ">4</text>" not in chart.svg(c)
    assert [line.split(" ")[1] for line in status.render(c).splitlines() if re.match(r"\| \d+ \| #", line)] == ["3", "2", "1"]


def test_a_revert_is_told_and_not_counted() -> None:
    """A tip that is worse is called so, with who took it back; the revert has its row, and N still counts edits alone."""
    c = ended(finished(2, world=worse_at_the_end()))
    revert = c.candidates[c.reverted]
    for name, text in reports(c).items():
        assert f"The tip is worse than the base: candidate {revert.n}, a revert, took it back" in text, name
    assert "**Campaign 1: 2 of 2 experiments done.**" in status.render(c) and "2 done = 2 kept." in status.render(c)
    assert f"`revert: {revert.title}`" in status.render(c) and rows(page.render(c, {})) == ["1", "2", str(revert.n)]
    assert "Nobody proposed this" in markdown.pull_body(c, revert, "") and ">3</text>" not in chart.svg(c)
    assert standing(c).candidate is revert


def test_provisional_is_beside_until_it_is_certified() -> None:
    """At every moment of a stack the outcomes add up to the experiments done, and what is only accepted is counted beside."""
    world, seen = finished(5, "stack", memory_world(lambda source: better(source) * 0.3 + 2.1)), 0
    for c in as_it_went(world):
        assert sum(tally(c).values()) == c.settled
        if c.tip < 0 or not c.candidates[0].why:
            continue
        added = next(line for line in status.render(c).splitlines() if " done = " in line)
        assert sum(map(int, re.findall(r"(\d+) [a-z]", added.split("=")[1].split(".")[0]))) == c.settled
        assert (f"Beside: {len(c.accepted)} provisional" in added) == bool(c.accepted)
        assert standing(c).candidate is c.candidates[c.landed] and "by hand" not in status.render(c)
        assert all(word(c, x) == "provisional" for x in c.accepted)
        seen = max(seen, len(c.accepted))
    assert seen > 1
    c = ended(world)
    assert {word(c, x) for x in c.merged} == {"certified"} and "5 done = 5 certified." in status.render(c)
    assert "5 of 5 = 5 certified" in table(c) and ">certified</b>" in page.render(c, {})
    assert looks.record(c)["certified"] == [x.n for x in c.merged]


def check_runs(world: World, c: Campaign) -> None:
    """Against the log: what counts as a run of some code was one. The first run of what was accepted only chose it."""
    begun = {x.run: x.subject for x in of(world, e.MeasureStarted)}
    for x in c.candidates.values():
        runs = [y.val_bpb for y in of(world, e.Measured) if begun[y.run] == x.n and y.val_bpb is not None]
        assert measured(x) == runs[1 if x.predicted else 0 :]


def test_a_prediction_is_never_counted_as_a_run() -> None:
    """In a stack every mean and every count of runs comes from the log's measurements, though the gate assumes some."""
    world = finished(5, "stack")
    c = ended(world)
    check_runs(world, c)
    tip = c.candidates[c.tip]
    assert standing(c).best == pytest.approx(fmean(measured(tip)), abs=1e-12) == tip.mean
    assert any(x.assumed for x in c.candidates.values())
    assert f"candidate {tip.n}, {len(measured(tip))} runs |" in status.render(c)
    assert f"{standing(c).best:.6f}" in tsv.results(c) and f"{standing(c).best:.6f}" in chart.svg(c)


def test_a_stacked_candidate_is_shown_as_it_was_judged() -> None:
    """Long after, its screening reads as on the day it was accepted, and beside it stands what fresh pairs said of the whole."""
    world = finished(5, "stack")
    c = ended(world)
    for event in of(world, e.Accepted):
        x = c.candidates[event.n]
        numbers, asked = compare(c, x), certification(c, x)
        assert numbers is not None and numbers.interval is None and numbers.gain == pytest.approx(2 * event.predicted)
        assert asked is not None and asked.compared is not None and asked.compared.keep and asked.n > x.n
        body = markdown.pull_body(c, x, "", x.reason)
        assert f"| gain | {numbers.gain:+.6f} " in body and "its first run |" in body
        assert f"fresh pair{'s' * (asked.compared.pairs != 1)} | {asked.compared.gain:+.6f} |" in body
        check = world.forge.pull(x.pull).checks[-1]  # type: ignore[arg-type]
        assert check.conclusion == "success" and ": certified" in check.title and f"{asked.compared.gain:+.6f}" in check.title
    line = claims.stacks(c)[-1]
    assert line.kept and line.edits[-1] is c.candidates[c.tip] and "certified and merged" in status.render(c)


def test_a_provisional_pull_request_says_that_it_is_one() -> None:
    """Once accepted, its description says provisional and not settled, and it has no green check yet."""
    world = memory_world(lambda source: better(source) * 0.3 + 2.1)
    view = start(world, 4, mode="stack")
    while not of(world, e.Accepted):
        step(world, view)
    x = ended(world).accepted[0]
    assert x.pull is not None
    pull = world.forge.pull(x.pull)
    assert "**Provisional:**" in pull.body and "Settled" not in pull.body and "autoresearch: settled" not in pull.labels
    assert not any(check.conclusion == "success" for check in pull.checks)


def test_a_rolled_back_stack_is_told() -> None:
    """Luck that was stacked is called rolled back in every report, with red checks, and no lucky number becomes the best."""
    world = finished(3, "stack", lucky_once())
    c = ended(world)
    check_runs(world, c)
    assert "3 done = 3 rolled back." in status.render(c) and "**rolled back**" in status.render(c)
    assert "rolled back" in table(c) and "3 of 3 = 3 rolled back" in table(c) and ">rolled back</b>" in page.render(c, {})
    assert standing(c).candidate is c.candidates[0] and standing(c).gain == 0
    for x in (x for x in c.candidates.values() if x.edit):
        pull = world.forge.pull(x.pull)  # type: ignore[arg-type]
        assert [check.conclusion for check in pull.checks] == ["failure"] and pull.checks[0].title.startswith("not certified")
        assert "Closed as **rolled back**" in pull.comments[-1] and "Provisional" not in pull.body


def test_a_screened_candidate_of_a_stack_is_shown_as_judged() -> None:
    """Until it is decided it shows the gain of its verdict, also when the head was run more often for its sake."""
    seen = set()
    for c in as_it_went(finished(2, "stack")):
        for x in c.live.values():
            if x.edit and x.screen is not None and x.stage == "measured" and (verdict := verdict_of(c, x)):
                numbers = compare(c, x)
                assert numbers is not None and numbers.gain == pytest.approx(verdict.gain)
                seen.add(x.runs)
    assert len(seen) > 3


@pytest.mark.parametrize("mode", ["pairs", "stack"])
def test_the_smallest_gain_that_is_found_is_told(mode: str) -> None:
    """As soon as the noise is known a campaign says on the screen, and then in every report, how small a gain it finds."""
    world = finished(2, mode)
    out, state = io.StringIO(), State()
    for event in world.log.read()[0]:
        Screen(out, terminal=False).happened(event, state.campaigns.get(event.campaign))
        state = fold([event], state)
    lines = out.getvalue().splitlines()
    assert next(k for k, line in enumerate(lines) if "with 80 % chance" in line) == 1 + lines.index("the base: has its baseline")
    c = ended(world)
    sigma, _ = gate.sigma(c.ss, c.df, c.settings.gate)
    expected = gate.detectable(sigma, c.df, c.settings.gate) if mode == "pairs" else 2 * sigma
    assert claims.smallest(c) == looks.record(c)["detectable"] == pytest.approx(expected)
    for name in ("status", "page", "table"):
        assert f" about {expected:.2g} bpb" in reports(c)[name], name
    assert "not known yet" in claims.detectable(dataclasses.replace(c, settings=_without_prior(c), ss=0.0, df=0))


def _without_prior(c: Campaign) -> object:
    return dataclasses.replace(c.settings, gate=dataclasses.replace(c.settings.gate, prior_sd=None, prior_df=0))


@pytest.mark.parametrize("made", [lucky_once, worse_at_the_end, lambda: memory_world(better)], ids=["luck", "worse", "better"])
@pytest.mark.parametrize("mode", ["pairs", "stack"])
def test_everything_that_happens_has_words(made: Callable[[], World], mode: str) -> None:
    """No event of any campaign is without a line, a comparison is never called a candidate in it, and all kinds have words."""
    world, state = finished(2, mode, made()), State()
    for event in world.log.read()[0]:
        c = state.campaigns.get(event.campaign)
        said = words.say(event, c)
        assert said and "\n" not in said
        if c and isinstance(event, e.Measured) and c.candidates[event.n].comparison:
            assert not said.startswith("candidate")
        state = fold([event], state)
    assert set(e.Event.kinds.values()) == set(words._WORDS)


def test_the_status_comment_is_as_late_as_the_last_proof() -> None:
    """Duel, ablations and a revert are told too: the comment on the forge has them when the campaign has ended."""
    for world in (finished(3), finished(2, world=worse_at_the_end())):
        c, said = ended(world), world.forge.said(0)["1"]  # type: ignore[attr-defined]
        assert claims.total(c) in said
        assert all(f"| {x.seen.gain:+.6f} |" in said for x in claims.worths(c) if x.seen)
        assert c.reverted < 0 or "revert: take back" in said


def test_the_picture_stands_alone() -> None:
    """As a file it is XML with its own colours for light and dark, no link and nothing from elsewhere."""
    text = chart.alone(ended(finished(2)))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    tags = {x.tag.rpartition("}")[2] for x in root.iter()}
    assert "style" in tags and "circle" in tags and not tags & {"a", "image", "use", "script"}
    assert "prefers-color-scheme: dark" in text and not re.search(r"href|url\(|@import", text)
    used = {name for x in root.iter() for name in x.get("class", "").split()}
    assert used and all(f".{name} " in text for name in used)
