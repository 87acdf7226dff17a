"""What happens when a campaign is over: the claim is measured again, and taken back when it was luck."""

from __future__ import annotations

from collections import Counter

import pytest

from bot import events as e
from bot.fold import fold
from bot.loop import run
from bot.state import Kind
from runners import Job, Running
from runners.scripted import Result
from tests.test_loop import better, ended, of, take_time
from tests.test_machine import check_history, finish
from tests.worlds import SOURCE, TRAIN, memory_world, push, start, until


def test_base_and_tip_are_run_head_to_head() -> None:
    """After the last experiment base and tip run on fresh seeds, interleaved, and the gain has an interval around the truth."""
    world = memory_world(better)
    run(world, start(world, 3))
    c = ended(world)
    assert c.verdict is not None and c.verdict.pairs == 2 and c.ended is not None and c.ended.why == "done"
    assert c.verdict.gain == pytest.approx(0.3, abs=0.02)
    assert c.verdict.low is not None and c.verdict.high is not None and c.verdict.low < 0.3 < c.verdict.high
    runs = [x for x in of(world, e.MeasureStarted) if x.n == c.duel]
    assert [x.subject for x in runs] == [c.tip, 0, 0, c.tip], "interleaved ABBA"
    seeds = [x.seed for x in of(world, e.MeasureStarted)]
    assert len(set(seeds)) == len(seeds) and all(x.vault for x in runs)


def test_the_private_split_is_scored_for_the_comparison_alone() -> None:
    """Vault numbers come with the head-to-head runs, never with those that choose; their gain is reported beside."""
    world = memory_world(better)
    plain = world.runner.script  # type: ignore[attr-defined]
    asked = []

    def script(job: Job) -> Result:
        found = plain(job)
        asked.append(job.vault)
        if job.vault and not isinstance(found, Running):
            return type(found)(**found.__dict__ | {"vault_bpb": found.val_bpb + 0.5})  # type: ignore[union-attr]
        return found  # type: ignore[no-any-return]

    world.runner.script = script  # type: ignore[attr-defined]
    run(world, start(world, 2))
    c = ended(world)
    assert c.verdict is not None and c.verdict.vault_gain == pytest.approx(c.verdict.gain or 0)
    assert sum(asked) == 4


def test_nothing_merged_nothing_to_prove() -> None:
    """A campaign without a merge ends without a further run."""
    world = memory_world(lambda source: 2.0 if source == SOURCE else 2.3)
    run(world, start(world, 2))
    c = ended(world)
    assert c.verdict is None and c.duel < 0 and not of(world, e.ComparisonOpened)


def test_each_merged_edit_is_taken_out_where_there_is_budget() -> None:
    """With a budget of 8 runs two of three merged edits are taken out of the tip, and each costs what it had brought."""
    world = memory_world(better)
    run(world, start(world, 3))
    c = ended(world)
    said = [x for x in of(world, e.Compared) if c.candidates[x.n].kind is Kind.ABLATION]
    assert len(said) == 2 and all(x.gain == pytest.approx(-0.1, abs=0.02) for x in said)
    assert not world.code.refs("refs/heads/autoresearch")  # type: ignore[attr-defined]
    check_history(world, 3, 1)



def test_a_tip_that_is_worse_is_taken_back() -> None:
    """A tip that is worse head to head opens a revert, judged like any candidate, and merged; it is none of the N."""
    world = memory_world(better)
    plain = world.runner.script  # type: ignore[attr-defined]
    duel = {"begun": False}

    def script(job: Job) -> Result:
        duel["begun"] |= job.vault
        found = plain(job)
        if duel["begun"] and not isinstance(found, Running) and job.source != SOURCE:
            return type(found)(**found.__dict__ | {"val_bpb": 3.5 + job.seed % 100 * 1e-5})
        return found  # type: ignore[no-any-return]

    world.runner.script = script  # type: ignore[attr-defined]
    run(world, start(world, 2))
    c = ended(world)
    assert c.verdict is not None and c.verdict.high is not None and c.verdict.high < 0
    revert = c.candidates[c.reverted]
    assert revert.why == "merged" and c.counts == {"merged": 2} and c.settled == 2
    assert world.code.read(world.forge.tip(), TRAIN) == SOURCE
    assert revert.pull is not None and "worse" in world.forge.pull(revert.pull).body
    check_history(world, 2, 1)


def test_a_stop_during_the_proof_ends_it_at_once() -> None:
    """`stop` while base and tip run head to head closes the comparison; the campaign still ended as done, without a verdict."""
    world = memory_world(better)
    take_time(world, 5)
    view = start(world, 2)
    until(world, view, e.ComparisonOpened)
    world.log.append(e.StopRequested(campaign="1", at=world.now(), by="a person"), world.log.read()[1])
    run(world, view)
    c = ended(world)
    assert c.ended is not None and c.ended.why == "done" and c.verdict is None and c.candidates[c.duel].why == "stopped"


def test_a_push_during_the_proof_ends_it() -> None:
    """When a person changes what is measured meanwhile, the comparison of the old tip is given up and nothing hangs."""
    world = memory_world(better)
    take_time(world, 5)
    view = start(world, 2)
    until(world, view, e.ComparisonOpened)
    push(world, TRAIN, (world.code.read(world.forge.tip(), TRAIN) or "") + "EXTRA = 0  # by a person\n")
    finish(world, view)
    c = ended(world)
    assert c.ended is not None and Counter(x.why for x in c.candidates.values() if x.edit) == {"merged": 2}


def test_a_target_once_reached_stays_reached() -> None:
    """Later runs of the tip may be worse than the target again; the campaign that has begun to end does not go back to work."""
    world = memory_world(better)
    view = start(world, 50, rule="target: 2.895")
    run(world, view)
    c = ended(world)
    assert c.ended is not None and c.ended.why == "target" and len(of(world, e.Ending)) == 1 and c.settled < 3


def test_the_next_campaign_knows_the_device_and_its_base() -> None:
    """A base that was measured before needs one fresh run in the next campaign, which begins with the noise that is known."""
    world = memory_world(better)
    run(world, start(world, 2))
    run(world, start(world, 1))
    second = fold(world.log.read()[0]).campaigns["2"]
    runs = [x for x in of(world, e.MeasureStarted) if x.campaign == "2" and x.n == 0]
    assert len(runs) == 1 and len(second.candidates[0].own) > 1 and second.counts == {"merged": 1}
    assert second.df > 5


def test_a_machine_that_has_changed_is_measured_anew() -> None:
    """When the first fresh run does not agree with the earlier ones, the base gets a whole baseline again."""
    world = memory_world(better)
    run(world, start(world, 2))
    world.runner.script.quality = lambda source: better(source) + 0.5  # type: ignore[attr-defined]
    run(world, start(world, 1))
    runs = [x for x in of(world, e.MeasureStarted) if x.campaign == "2" and x.n == 0]
    assert len(runs) == 2
