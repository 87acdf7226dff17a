"""The command line as a person meets it: exit statuses, sentences, help, JSON, interrupts; measurements are scripted.

Every test that ends badly on purpose also holds that no traceback is shown. Which mistakes stop a campaign before it begins is
in test_workspace.py.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot import demo, git, measuring, words
from bot.__main__ import COMMANDS, main
from bot.events import Event
from bot.interrupts import Interrupts
from bot.screen import Screen
from bot.workspace import Told, find
from runners import Job, Measurement, Outcome
from runners.scripted import ScriptedRunner, measurement
from tests.laptop import Slow, autoresearch, better, copied, environment, machine, project


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which a campaign of two experiments has ended."""
    folder = project(tmp_path_factory.mktemp("ended") / "project")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["run", "2"], machine(folder.parent)) == 0
    finally:
        os.chdir(before)
    return folder


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on standard error: one sentence of ours, no traceback."""
    said = capsys.readouterr().err
    assert said.startswith("autoresearch: ") and "Traceback" not in said
    return said


# help


def test_every_command_is_in_help_and_has_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`help` lists each command with a line, and `help COMMAND` says what it takes."""
    assert main(["help"], machine(tmp_path)) == 0
    overview = capsys.readouterr().out
    for name, (_, line, _) in COMMANDS.items():
        assert re.search(rf"^    {name} +{re.escape(line[:30])}", overview, re.MULTILINE), name
        assert main(["help", name], machine(tmp_path)) == 0
        assert f"usage: autoresearch {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "asked", [["bogus"], ["run", "0"], ["run", "-3"], ["run", "x"], ["run", "--bogus"], ["help", "bogus"], ["pr", "x"]]
)
def test_a_wrong_command_line_is_told(asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake on the command line is told in a sentence that points to the help, with exit status 1."""
    assert main(asked, machine(tmp_path)) == 1
    assert "help" in told(capsys)


# what can be looked at


def test_a_campaign_ends_with_a_table_that_adds_up(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The outcomes in the table at the end add up to N, the winners are in the checkout, the page has a real path."""
    folder = copied(ended, tmp_path / "again")
    monkeypatch.chdir(folder)
    assert main(["run", "2"], machine(tmp_path)) == 0
    out = capsys.readouterr().out
    row = re.search(r"^experiments +2 of 2 = (.+)$", out, re.MULTILINE)
    assert row and sum(int(n) for n in re.findall(r"(\d+) [a-z]", row[1])) == 2
    assert re.search(r"^total gain +([+-]0\.\d{6} bpb .*, 95 % interval |not measured head to head: nothing)", out, re.MULTILINE)
    ws = find(folder)
    assert ws.checkout.head() == ws.forge("main").tip() and not ws.checkout.is_dirty()
    page = re.search(r"^(\S+/2\.html)", out, re.MULTILINE)
    assert page and Path(page[1]).read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("asked", "keys"),
    [(["status"], {"campaign", "settled", "best"}), (["pr"], {"number", "state"}), (["pr", "1"], {"diff", "verdict", "body"})],
)
def test_json_is_for_programs(
    asked: list[str], keys: set[str], ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json nothing but one JSON document is printed."""
    monkeypatch.chdir(ended)
    assert main([*asked, "--json"], machine(ended.parent)) == 0
    record: Any = json.loads(capsys.readouterr().out)
    assert keys <= set(record[0] if isinstance(record, list) else record)


def test_the_log_is_shown_whole(ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`log --json` prints the lines that the branch holds, and `log` one line of words for each."""
    monkeypatch.chdir(ended)
    assert main(["log", "--json"], machine(ended.parent)) == 0
    lines = capsys.readouterr().out
    repo = find(ended).repo
    assert lines == repo.read("refs/heads/autoresearch/log", "000/000000.jsonl")
    assert main(["log"], machine(ended.parent)) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(lines.splitlines())


def test_a_pull_request_is_shown(ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`pr` lists all, and `pr N` shows description, diff, check and verdict."""
    monkeypatch.chdir(ended)
    assert main(["pr"], machine(ended.parent)) == 0
    assert len(re.findall(r"^#\d", capsys.readouterr().out, re.MULTILINE)) == 2
    assert main(["pr", "2"], machine(ended.parent)) == 0
    out = capsys.readouterr().out
    assert "```diff" in out and "Hypothesis" in out and re.search(r"^Check: (success|failure): 2\.\d", out, re.MULTILINE)
    assert re.search(r"^Verdict: (kept|not better): ", out, re.MULTILINE)
    assert main(["pr", "77"], machine(ended.parent)) == 1
    assert "`autoresearch pr` lists them" in told(capsys)


def test_a_commit_of_a_pull_request_can_be_checked_out(ended: Path, tmp_path: Path) -> None:
    """What a pull request tells a person to check out is in the checkout, also when it was closed."""
    folder = copied(ended, tmp_path / "again")
    for pull in find(folder).forge("main").pulls():
        git.Repo(folder).ask("checkout", "-q", pull.head)


def test_results_and_pages(ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`results` prints the original's five columns, `page` writes a page and prints its path, `status` says where it stands."""
    monkeypatch.chdir(ended)
    assert main(["results"], machine(ended.parent)) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["commit", "val_bpb", "memory_gb", "status", "description"] and {len(row) for row in table} == {5}
    assert len(table) == 4
    assert main(["page"], machine(ended.parent)) == 0
    assert Path(capsys.readouterr().out.strip()).read_text().startswith("<!doctype html>")
    assert main(["status"], machine(ended.parent)) == 0
    assert "2 of 2 experiments done" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [["status"], ["pr"], ["log"], ["results"], ["page"], ["stop"], ["run"]])
def test_before_the_first_campaign(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no campaign was begun every command says so, and makes nothing."""
    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(asked, machine(tmp_path)) == 1
    assert "no campaign" in told(capsys)
    assert not find(Path.cwd()).store.exists()


def test_text_by_others_is_only_text(tmp_path: Path) -> None:
    """What stands in titles and reasons is never taken for markup, and no terminal obeys it."""
    with (tmp_path / "out").open("w") as out:
        screen = Screen(out, terminal=True)
        screen.line("a [bold]title[/bold] \x1b[31mred\x1b[0m \x07 :smile:")
        screen.table((), [("[link=x]a[/link]", "b\x1b]0;owned\x07")])
    said = (tmp_path / "out").read_text()
    assert "[bold]title[/bold]" in said and "[link=x]a[/link]" in said and ":smile:" in said
    assert "\x07" not in said and "\x1b[31m" not in said and "\x1b]" not in said


def test_every_event_has_words() -> None:
    """Whatever can stand in the log can be said in one line."""
    assert set(Event.kinds.values()) == set(words._WORDS)


# measure and doctor


def test_measure_prints_the_summary_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine lines with the original's names and column; what was not measured here is n/a."""
    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(["measure", "--seed", "7"], machine(tmp_path)) == 0
    out = capsys.readouterr().out
    block = out.partition("---\n")[2].splitlines()[:9]
    names = ["val_bpb", "training_seconds", "total_seconds", "peak_vram_mb", "mfu_percent", "total_tokens_M", "num_steps"]
    assert [line.partition(":")[0] for line in block] == [*names, "num_params_M", "depth"]
    assert {line[17] for line in block} == {" "}
    assert block[0] == "val_bpb:          2.100070" and block[4] == "mfu_percent:      n/a" and "UNSANDBOXED" in out
    assert main(["measure", "trainer/train.py", "--json", "--seed", "7"], machine(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["val_bpb"] == 2.10007


def test_measure_with_several_seeds_says_mean_and_sigma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three seeds are three runs: their mean, the sigma of one run, what was audited and on what it was measured."""
    monkeypatch.chdir(project(tmp_path / "project"))
    spread = machine(tmp_path, lambda job: replace(measurement(job, val_bpb=2.0 + 0.01 * (job.seed - 7)), audit="256 prefixes"))
    assert main(["measure", "--seed", "7", "--seeds", "3"], spread) == 0
    out = capsys.readouterr().out
    assert "mean         2.010000  (3 of 3 runs)" in out and "sigma        0.010000  (0.50 % of the mean)" in out
    assert out.count("256 prefixes") == 3 and "fingerprint  scripted" in out and "unsandboxed" in out
    assert main(["measure", "--seeds", "2", "--json"], machine(tmp_path)) == 0
    seeds = [m["seed"] for m in json.loads(capsys.readouterr().out)]
    assert len(seeds) == 2


def test_measure_does_a_void_run_again_with_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice at most; a machine that stays busy is told, and the seed never changes."""
    monkeypatch.chdir(project(tmp_path / "project"))
    seen: list[int] = []

    def script(job: Job) -> Measurement:
        seen.append(job.seed)
        void = len(seen) < 3 or job.seed == 8
        return measurement(job, outcome=Outcome.VOID, reason="void, busy") if void else measurement(job, val_bpb=2.0)

    assert main(["measure", "--seed", "7"], machine(tmp_path, script)) == 0
    assert seen == [7, 7, 7]
    assert main(["measure", "--seed", "8"], machine(tmp_path, script)) == 1
    assert seen == [7] * 3 + [8] * 3
    assert "3 times with seed 8: wait until the machine is quiet" in told(capsys)


def test_measure_says_why_there_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A train.py that crashes, or is not there, is told with exit status 1."""
    monkeypatch.chdir(project(tmp_path / "project"))
    crash = machine(tmp_path, lambda job: measurement(job, outcome=Outcome.CRASH, reason="ValueError: no"))
    assert main(["measure"], crash) == 1
    assert "crash: ValueError: no" in told(capsys)
    assert main(["measure", "elsewhere.py"], machine(tmp_path)) == 1
    assert "there is no train.py at elsewhere.py" in told(capsys)


def test_measure_takes_the_nearest_program(tmp_path: Path) -> None:
    """Settings come from the program.md nearest above the file, and are the defaults where there is none."""
    folder = project(tmp_path / "project")
    inner = folder / "examples"
    inner.mkdir()
    (inner / "program.md").write_text("---\nbudget: {seconds: 3}\n---\n")
    assert measuring.settings_for(inner / "train.py", folder)[0].budget.seconds == 3
    assert measuring.settings_for(folder / "trainer" / "train.py", folder)[0].budget.seconds == 1
    (folder / "program.md").unlink()
    assert measuring.settings_for(folder / "trainer" / "train.py", folder)[0].budget.seconds == 300


def test_the_doctor_tells_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row has a state, whatever is not well has a fix, and exit status 1 means that something required is missing."""
    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(["doctor", "--json"], machine(tmp_path)) == 0
    rows = json.loads(capsys.readouterr().out)
    names = {row["name"] for row in rows}
    assert {"Python", "git", "torch", "sandbox", "disk, here", "GPU", "cores", "corpus"} <= names
    assert all(row["state"] == "ok" or row["fix"] for row in rows)
    assert main(["doctor"], machine(tmp_path, torch=lambda: "run pip")) == 1
    assert re.search(r"^torch: run pip$", capsys.readouterr().out, re.MULTILINE)


# errors of ours, and damage


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(errno.ENOSPC, 1, "no space is left on the disk"), (errno.EROFS, 1, "/there cannot be written"), (errno.EIO, 3, "bug")],
)
def test_what_the_disk_says(
    number: int, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that is full or read-only is told wherever it strikes; any other error of the disk is for us to look at."""

    def prepare(*_: object) -> str:
        raise OSError(number, os.strerror(number), "/there")

    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(["run", "1"], machine(tmp_path, prepare=prepare)) == status
    assert said in told(capsys)


def test_a_bug_of_ours_has_a_log_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error that is ours ends with status 3 and the path of a file with all that is known, never with a bare traceback."""
    monkeypatch.chdir(project(tmp_path / "project"))
    assert main(["run", "1"], machine(tmp_path, lambda job: 1 // 0)) == 3  # type: ignore[arg-type, return-value]
    path = re.search(r"/\S+\.log", told(capsys))
    assert path and "ZeroDivisionError" in Path(path[0]).read_text()
    assert main(["run"], machine(tmp_path)) == 0, "and nothing is lost"


@pytest.mark.parametrize("asked", [["status"], ["run", "1"], ["pr"], ["stop"]])
def test_a_damaged_log_is_told(
    asked: list[str], ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of the log that was changed by hand is named, with the way out, and nothing goes on."""
    folder = copied(ended, tmp_path / "again")
    repo = find(folder).repo
    ref = "refs/heads/autoresearch/log"
    text = (repo.read(ref, "000/000000.jsonl") or "").replace('"experiments":2', '"experiments":4')
    repo.set_ref(ref, repo.commit_file(repo.resolve(ref), "000/000000.jsonl", text, "by hand", when=1.0))
    monkeypatch.chdir(folder)
    assert main(asked, machine(tmp_path)) == 1
    assert re.search(r"damaged: .*line 2.*git log", told(capsys))


def test_a_damaged_forge_is_told(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged file of the local forge is named, with what to do."""
    folder = copied(ended, tmp_path / "again")
    (find(folder).store / "forge.json").write_text('{"version": 1, "pulls":')
    monkeypatch.chdir(folder)
    assert main(["pr"], machine(tmp_path)) == 1
    assert "forge.json" in (said := told(capsys)) and "before" in said


# two processes


def start(folder: Path, *asked: str, **more: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(autoresearch(*asked), cwd=folder, env=environment(**more), stdout=pipe, stderr=pipe, text=True)


def wait_for_a_run(folder: Path) -> None:
    """Until a measurement of a candidate, not of the base, is in flight."""
    until = time.monotonic() + 60
    ws = find(folder)
    while time.monotonic() < until:
        c = ws.state().active
        if c and any(x.flight and not x.base for x in c.live.values()):
            return
        time.sleep(0.05)
    raise AssertionError("no candidate was ever measured")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_goes_on(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C or a polite kill in the middle of a run ends with status 130 and says how to go on; `run` then ends with N."""
    folder = project(tmp_path / "project")
    process = start(folder, "run", "1", SECONDS="0.3")
    wait_for_a_run(folder)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and re.search(r"`.* run` goes on from here", err) and "Traceback" not in err
    assert find(folder).driver() is None
    monkeypatch.chdir(folder)
    assert main(["run", "1"], machine(tmp_path)) == 1
    assert "`autoresearch run` goes on with it, `autoresearch stop` ends it" in told(capsys)
    assert main(["run"], machine(tmp_path)) == 0
    c = find(folder).state().campaigns["1"]
    assert c.ended and c.ended.why == "done" and c.settled == 1 and c.withdrawn == 0


def test_two_at_once_and_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A second `run` is told who is at work, `status` looks on, and `stop` from there ends the first within seconds."""
    folder = project(tmp_path / "project")
    process = start(folder, "run", "9", SECONDS="30")
    until = time.monotonic() + 60
    while not ((c := find(folder).state().active) and any(x.flight for x in c.live.values())):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    monkeypatch.chdir(folder)
    for asked in (["run", "1"], ["run"]):
        assert main(asked, machine(tmp_path)) == 1
        assert f"(process {process.pid}) is at work" in told(capsys)
    assert main(["status", "--json"], machine(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["driver"] == str(process.pid)
    assert main(["stop"], machine(tmp_path)) == 0
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and "stopped by a tester" in out
    assert find(folder).state().campaigns["1"].ended


def test_stop_with_nobody_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt ends the measurement in flight, and the campaign can then be stopped for good, without a verdict."""
    monkeypatch.chdir(project(tmp_path / "project"))
    interrupts, runner = Interrupts(), ScriptedRunner(Slow(1e9))
    local = {"local": lambda home, cache: runner}
    ours = machine(tmp_path, runners=local, interrupts=interrupts, sleep=lambda seconds: signal.raise_signal(signal.SIGINT))
    old = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    interrupts.install()
    try:
        assert main(["run", "2"], ours) == 130
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), old, strict=True):
            signal.signal(number, handler)
    assert runner.cancelled == {"1-0.1"}
    assert main(["stop"], machine(tmp_path)) == 0
    c = find(Path.cwd()).state().campaigns["1"]
    assert c.ended and c.ended.why == "stopped" and c.settled == 0 and not c.live


def test_a_persons_veto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pr N --close` beside a running campaign closes that candidate as not wanted, and another one takes its place in N."""
    monkeypatch.chdir(project(tmp_path / "project"))
    answers: list[int] = []

    def script(job: Job) -> Any:
        if not answers and job.run.startswith("1-1."):
            answers.append(main(["pr", "1", "--close"], machine(tmp_path)))
        return better(job)

    assert main(["run", "2"], machine(tmp_path, script)) == 0
    c = find(Path.cwd()).state().campaigns["1"]
    assert answers == [0] and c.counts["vetoed"] == 1 and c.settled == 2
    assert [x.reason for x in c.candidates.values() if x.why == "vetoed"] == ["not wanted by a tester"]
    assert main(["pr", "1", "--close"], machine(tmp_path)) == 1


def test_an_interrupt_waits_for_the_deed() -> None:
    """While held, a signal raises only at `check`; otherwise it raises where it strikes."""
    interrupts = Interrupts()
    old = signal.getsignal(signal.SIGHUP)
    interrupts.install()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts.held():
            interrupts.check()
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, old)


def test_a_closed_pipe_is_no_bug(ended: Path) -> None:
    """`autoresearch log | head -1` ends quietly."""
    command = f"{' '.join(autoresearch('log'))} | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ended, env=environment(), capture_output=True, text=True, check=False)
    assert "campaign 1: 2 experiments" in done.stdout and done.stderr == ""


# the demo


@pytest.mark.parametrize(("asked", "n"), [("/autoresearch 6", 6), (" 3 ", 3), ("/autoresearch  12", 12)])
def test_what_the_demo_takes(asked: str, n: int) -> None:
    """The demo takes the comment of the first line of the README, or a plain number."""
    assert demo.experiments(asked) == n


@pytest.mark.parametrize("asked", ["/autoresearch", "/autoresearch 0", "six", "/autoresearch 6 --usd 5", ""])
def test_what_the_demo_does_not_take(asked: str) -> None:
    """Anything else is told."""
    with pytest.raises(Told, match="/autoresearch N"):
        demo.experiments(asked)


def test_the_demo_makes_a_folder_of_its_own(tmp_path: Path) -> None:
    """It takes the first free name, or the wanted one, never a folder with something in it."""
    assert demo.place(tmp_path, None).name == "demo"
    (tmp_path / "demo").mkdir()
    assert demo.place(tmp_path, None).name == "demo-2"
    (tmp_path / "demo" / "mine").touch()
    with pytest.raises(Told, match="not empty"):
        demo.place(tmp_path, tmp_path / "demo")


def test_the_demo_runs_a_campaign_and_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo says what is real and what is not, is loud about a missing sandbox, and the same seed proposes the same."""
    monkeypatch.chdir(tmp_path)
    titles = []
    for _ in range(2):
        assert main(["demo", "/autoresearch 1", "--seed", "3"], machine(tmp_path, sandbox=lambda: "there is no bwrap")) == 0
        out = capsys.readouterr().out
        assert "draws from a list of known moves" in out and "no model" in out and "UNSANDBOXED: " in out
        titles.append(re.findall(r"^candidate 1: (.*)$", out, re.MULTILINE)[0])
    assert titles[0] == titles[1] and (tmp_path / "demo-2" / "trainer" / "train.py").exists()
    assert f"cd {tmp_path / 'demo-2'} && " in out


def test_a_real_campaign(tmp_path: Path) -> None:
    """The whole, with nothing scripted: a tiny model is trained for two seconds, twice, scored, and judged (15 to 40 s)."""
    pytest.importorskip("torch")
    program, source = ((demo.EXAMPLE / name).read_text() for name in ("program.md", "train.py"))
    gate = "baseline_runs: 1\n  max_pairs: 1"
    for old, new in (("seconds: 10", "seconds: 2"), ("verdict_pairs: 2", "verdict_pairs: 0"), ("baseline_runs: 3", gate)):
        program = program.replace(old, new)
    for old, new in (("DEPTH = 2 ", "DEPTH = 1 "), ("DIM = 128 ", "DIM = 32 "), ("BATCH = 16 ", "BATCH = 4 ")):
        source = source.replace(old, new)
    folder = project(tmp_path / "project", source=source, program=program)
    command = [sys.executable, "-m", "bot", "run", "1"]
    more = environment(AUTORESEARCH_CACHE=str(tmp_path / "cache"))
    done = subprocess.run(command, cwd=folder, env=more, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    c = find(folder).state().campaigns["1"]
    base = c.candidates[0]
    assert c.settled == 1 and base.mean and 2 < base.mean < 7 and base.result["steps"] and base.result["device"] == "cpu"
