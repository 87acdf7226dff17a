"""Landscapes: the file, the design of points, how trainings are collected, and the surface through them. No training is run.

The shipped landscape was made by benchmarks/landscape.py; what is collected here comes from a made-up measurement.
"""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bot.landscape import SHIPPED, BadLandscape, Landscape, read, write
from bot.propose.mutate import holds
from bot.propose.tpe import values_of
from runners import Job, Lost, Measurement, Outcome, Running
from runners.scripted import measurement

ROOT = Path(__file__).resolve().parents[1]
SOURCE = (ROOT / "examples" / "cpu" / "train.py").read_text("utf-8")
N = 340


@cache
def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


POINTS, BENCH = program("_points"), program("landscape")
BASE = values_of(SOURCE)


def empty(budget: float = 5.0) -> Landscape:
    return BENCH.empty(SOURCE, BENCH.settings(budget), "a test")  # type: ignore[no-any-return]


def job(seed: int) -> Job:
    return Job(run=f"r{seed}", commit="c", source="", seed=seed, nonce="n", budget_seconds=5, startup_seconds=9, deadline=9e9)


def made_up(ask: Any, seed: int) -> Measurement:
    """A bowl around a width of 48, noise from the seed; what is very wide takes too long."""
    point = BASE | ask.moved
    if float(point["DIM"]) > 300:
        return replace(measurement(job(seed), outcome=Outcome.TIMEOUT, reason="no checkpoint"), fingerprint="a device")
    wide, deep, pairs = float(point["DIM"]), float(point["DEPTH"]), bool(point["BIGRAM_BUCKETS"])
    score = 3 + 0.05 * math.log2(wide / 48) ** 2 + 0.05 * deep - 0.1 * pairs
    noise = random.Random(seed).gauss(0, 0.01)
    return replace(measurement(job(seed), val_bpb=score + noise), fingerprint="a device", scoring_cpu_seconds=0.6)


@cache
def collected(n: int = N) -> Landscape:
    found = empty()

    def keep(now: Landscape) -> None:
        nonlocal found
        found = now

    list(BENCH.collect(found, n, made_up, keep))
    return found


# The file


def test_a_landscape_survives_its_file() -> None:
    """What is written is read back, to the last field."""
    assert read(write(collected())) == collected()


def broken() -> Iterator[Any]:
    lines = write(collected(3)).splitlines()
    head, row = lines[:2]

    def case(name: str, said: str, *texts: str, end: str = "\n") -> Any:
        return pytest.param("\n".join(texts) + end, said, id=name)

    def other(line: str, **fields: object) -> str:
        return json.dumps(json.loads(line) | fields)

    yield case("nothing", "line 1 is not JSON", "")
    yield case("cut off", "line 4 has no end: the file was cut off there", *lines[:3], lines[3][:40], end="")
    yield case("cut off within, ended", "line 4 is not JSON", *lines[:3], lines[3][:40])
    yield case("no head", "line 1 is not the head of a landscape", row)
    yield case("another schema", "line 1 is not the head of a landscape of schema 1", other(head, schema=2))
    yield case("a head without a budget", "line 1: budget_seconds is None", other(head, budget_seconds=None))
    yield case("a head with more", "line 1 has unknown fields: colour", other(head, colour="red"))
    yield case("a base that is no number", "line 1: base DIM is [1]", other(head, base={"DIM": [1]}))
    yield case("a list", "line 2 is not a JSON object", head, "[]")
    yield case("no outcome", "line 2 lacks outcome", head, json.dumps({"why": "a", "seed": 1, "moved": {}}))
    yield case("unknown field", "line 2 has unknown fields: val_bbp", head, other(row, val_bbp=2))
    yield case("a number as text", "line 2: val_bpb is '2.1', not float", head, other(row, val_bpb="2.1"))
    yield case("a switch as number", "line 2: seed is True, not int", head, other(row, seed=True))
    yield case("NaN", "line 2 is not JSON: NaN is not a number", head, other(row, val_bpb=math.nan))
    yield case("impossible", "line 2: val_bpb -1.0 is no possible number", head, other(row, val_bpb=-1.0))
    yield case("void", "line 2: outcome 'void' is none of a finished training", head, other(row, outcome="void"))
    yield case("a crash with a number", "line 2: outcome crash with val_bpb", head, other(row, outcome="crash"))
    yield case("ok without", "line 2: outcome ok with val_bpb None", head, row.replace('"val_bpb":', '"steps":'))
    yield case("unknown constant", "line 2: the base has no WIDTH", head, other(row, moved={"WIDTH": 1}))


@pytest.mark.parametrize(("text", "said"), list(broken()))
def test_a_broken_file_is_refused_with_its_line(text: str, said: str) -> None:
    """Whatever is wrong with a file, the message says in which line and what."""
    with pytest.raises(BadLandscape) as refused:
        read(text)
    assert said in str(refused.value)


# The design


def test_the_design_stays_on_its_levels_and_keeps_what_must_hold() -> None:
    """Every point but the edges has values of LEVELS, or of an edge that was good, which offline proposers could have made."""
    known = {name: {*levels, *(edge.get(name) for edge in POINTS.EDGES)} for name, levels in POINTS.LEVELS.items()}
    for row in collected().rows:
        point = collected().point(row)
        if row.why == "edges":
            continue
        assert holds(point, set(point)), row
        off = {name for name, value in row.moved.items() if value not in known[name]}
        assert off <= {"WARMUP"}, row  # cut so that the schedule fits


def test_the_design_is_a_function_of_its_rows() -> None:
    """The same rows are followed by the same point, so that an interrupted landscape goes on as it would have."""
    rows = collected().rows
    for k in (0, 1, 20, 115, 135, 200, 300, 339):
        ask = POINTS.following(rows[:k], N, BASE)
        assert (ask.why, ask.moved) == (rows[k].why, rows[k].moved)
    assert POINTS.following(rows, N, BASE) is None


def test_each_part_of_the_design_is_there() -> None:
    """340 trainings hold each constant's levels alone, edges, mixtures, a dense region, and repeats of the base and of others."""
    counts = Counter(row.why for row in collected().rows)
    assert counts["base"] == N / POINTS.EVERY and counts["grid"] == len(POINTS.grid(tuple(BASE.items())))
    assert counts["repeats"] == POINTS.REPEATS * len(POINTS.QUANTILES)
    assert min(counts["pairs"], counts["climb"]) > 40 and counts["edges"] == len(POINTS.EDGES)
    alone = {name for row in collected().rows if row.why == "grid" for name in row.moved}
    assert alone >= set(POINTS.LEVELS) == set(BASE)


def test_the_climb_goes_where_the_scores_are_better() -> None:
    """The dense part of the design is better than its other mixtures, and no two of it are equal."""
    rows = collected().rows
    score = {why: [row.val_bpb or 9.0 for row in rows if row.why == why] for why in ("pairs", "climb")}
    assert sorted(score["climb"])[len(score["climb"]) // 2] < sorted(score["pairs"])[len(score["pairs"]) // 8]
    climbed = [json.dumps(row.moved, sort_keys=True) for row in rows if row.why == "climb"]
    assert len(set(climbed)) == len(climbed)


# Collecting


@dataclass
class Machine:
    """A runner whose runs end as the script says, one after the other."""

    script: list[Outcome | str]
    begun: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def start(self, job: Job) -> None:
        self.begun.append(job.run)

    def poll(self, job: Job) -> Measurement | Running | Lost:
        ending = self.script.pop(0)
        if isinstance(ending, Outcome):
            return measurement(job, outcome=ending, val_bpb=2.5 if ending is Outcome.OK else None, reason="as scripted")
        if ending == "interrupt":
            raise KeyboardInterrupt
        return Running(phase="training") if ending == "running" else Lost(reason="its process died")

    def cancel(self, run: str) -> None:
        self.cancelled.append(run)

    def warm(self) -> None:
        pass

    def close(self) -> None:
        pass


def bench(machine: Machine, slept: list[float]) -> Callable[[Any, int], Measurement]:
    return BENCH.Bench(runner=machine, settings=BENCH.settings(5.0), source=SOURCE, sleep=slept.append)  # type: ignore[no-any-return]


def test_a_void_run_is_done_again_and_never_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """Two void runs and a lost one are repeated under other names with the same seed, a void one after a pause that is told."""
    machine, slept = Machine([Outcome.VOID, "running", Outcome.VOID, "lost", Outcome.OK]), list[float]()
    got = bench(machine, slept)(POINTS.Ask(why="base", moved={}), 1000)
    assert got.outcome is Outcome.OK and got.seed == 1000
    assert len(set(machine.begun)) == len(machine.begun) == 4
    assert slept.count(BENCH.PAUSE_SECONDS) == 2 and "void, 2 so far" in capsys.readouterr().err


def test_a_machine_that_loses_everything_is_given_up() -> None:
    """Lost runs in a row end the program with the reason and what to do."""
    with pytest.raises(SystemExit) as ended:
        bench(Machine(["lost"] * 9), [])(POINTS.Ask(why="base", moved={}), 1000)
    assert "its process died" in str(ended.value) and "autoresearch doctor" in str(ended.value)


def test_an_interrupt_ends_the_run_under_way() -> None:
    """The supervisor would outlive us, and disturb whatever is measured next."""
    machine = Machine(["running", "interrupt"])
    with pytest.raises(KeyboardInterrupt):
        bench(machine, [])(POINTS.Ask(why="base", moved={}), 1000)
    assert machine.cancelled == machine.begun


def test_an_interrupted_landscape_is_the_one_that_nobody_interrupted(tmp_path: Path) -> None:
    """Killed in the middle, and gone on from the file, it has the same rows; each row is in the file before the next one runs."""
    file, left = tmp_path / "landscape.jsonl", [37]

    def measure(ask: Any, seed: int) -> Measurement:
        assert seed == BENCH.FIRST_SEED or len(read(file.read_text()).rows) == seed - BENCH.FIRST_SEED
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return made_up(ask, seed)

    def go_on() -> None:
        list(BENCH.collect(BENCH.earlier(file, empty()), 60, measure, lambda now: BENCH.store(file, write(now))))

    with pytest.raises(KeyboardInterrupt):
        go_on()
    assert len(read(file.read_text()).rows) == 36
    go_on()
    assert read(file.read_text()).rows == collected(60).rows


def test_numbers_of_another_device_or_budget_are_not_mixed(tmp_path: Path) -> None:
    """A file from another device, or of another budget, is refused with what differs and the way out."""
    file = tmp_path / "landscape.jsonl"
    BENCH.store(file, write(collected()))
    with pytest.raises(BadLandscape, match=r"budget_seconds is 5\.0, now it is 3\.0: --again begins anew"):
        BENCH.earlier(file, empty(3.0))
    found = BENCH.earlier(file, empty())
    elsewhere: Callable[[Any, int], Measurement] = lambda ask, seed: replace(made_up(ask, seed), fingerprint="another device")
    with pytest.raises(BadLandscape, match="its rows are from a device, this is another device"):
        list(BENCH.collect(found, N + 1, elsewhere, lambda now: None))


def test_a_point_becomes_the_source_that_has_it() -> None:
    """The points of the design are written into train.py, and read back from there."""
    for row in collected().rows[::7]:
        assert values_of(BENCH.with_values(SOURCE, row.moved)) == collected().point(row)


def test_the_machine_is_not_named() -> None:
    """The device in the file lacks the mark of the single machine; budget, torch and corpus stay."""
    assert BENCH.device_of("cpu 0123456789ab / torch 2 / c0ffee / 5 s") == "cpu / torch 2 / c0ffee / 5 s"


# What is shipped


@pytest.mark.skipif(not SHIPPED.exists(), reason="not made yet")
def test_the_shipped_landscape_is_that_of_the_preset() -> None:
    """It reads, is small, holds failures too, and its base has the constants of examples/cpu/train.py."""
    text = SHIPPED.read_text("utf-8")
    found = read(text)
    assert found.base == BASE and len(text) < 150_000 and len(found.rows) >= 300
    assert {row.outcome for row in found.rows} > {Outcome.OK}
    assert len({row.seed for row in found.rows}) == len(found.rows)
