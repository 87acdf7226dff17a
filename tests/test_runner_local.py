"""LocalRunner: real processes, started, polled, killed and found again. The candidates speak the protocol without torch."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from runners import BadResult, Job, Lost, Measurement, Outcome, Running
from runners.local import SUPERVISOR, LocalRunner, RunnerError, leave

PROJECT = Path(__file__).resolve().parent.parent
SCRIPTED = (*SUPERVISOR, "--session", str(Path(__file__).with_name("byte_session.py")))
# A run outlives its runner on purpose, of which Python warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:subprocess:ResourceWarning")
# Makes the kernel look like one without Landlock, to this process and all that it starts: its first call is refused.
NO_LANDLOCK = """
import ctypes, struct
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x0005005F), (0x06, 0, 0, 0x7FFF0000)]  # <linux/bpf_common.h>
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(program))), 0, 0) == 0
"""
QUICK = """
if order["do"] == "train":
    start(); save(steps=1); done()
else:
    serve(lambda windows: None)
"""
BUSY = """
start(); save()
import subprocess
subprocess.Popen([sys.executable, "-c", "while True: pass", "{marker}"], start_new_session=True)
while True: pass
"""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder of text."""
    folder = tmp_path_factory.mktemp("corpus")
    made_up = random.Random(1)
    words = ["".join(made_up.choices("abcdefghijklmnop", k=made_up.randint(2, 9))) for _ in range(800)]
    for number in range(30):
        (folder / f"{number:02}.txt").write_text(" ".join(made_up.choices(words, k=400)) + "\n")
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared data, shared by the tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def runner(tmp_path: Path, cache: Path) -> Iterator[LocalRunner]:
    """A runner on an empty folder of runs."""
    made = LocalRunner(tmp_path / "runs", cache, supervisor=SCRIPTED)
    yield made
    made.close()


@pytest.fixture
def job(corpus: Path) -> Job:
    """A run that ends in a moment."""
    return Job(
        run="1-c1-k1", commit="c0ffee", source=QUICK, seed=3, nonce="n0nce", budget_seconds=5.0, startup_seconds=5.0,
        deadline=time.time() + 60, corpus=str(corpus), sandbox="if-available",
    )  # fmt: skip


def busy(job: Job, marker: str) -> Job:
    return replace(job, source=BUSY.replace("{marker}", marker), budget_seconds=40.0)


def settled(runner: LocalRunner, job: Job, seconds: float = 40.0) -> Measurement | Lost:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = runner.poll(job)
        if not isinstance(state, Running):
            return state
        time.sleep(0.02)
    raise AssertionError(f"still {state}")


def in_phase(runner: LocalRunner, job: Job, phase: str) -> Running:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        state = runner.poll(job)
        assert isinstance(state, Running), state
        if state.phase == phase:
            return state
        time.sleep(0.02)
    raise AssertionError(f"never {phase}")


def running(marker: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def appeared(marker: str) -> None:
    until = time.monotonic() + 10
    while not running(marker):
        assert time.monotonic() < until, "never started"
        time.sleep(0.02)


def gone(marker: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while running(marker) and time.monotonic() < until:
        time.sleep(0.02)
    return not running(marker)


def test_a_run_is_started_polled_and_measured(runner: LocalRunner, job: Job) -> None:
    """From job to measurement, bound to commit, seed and nonce; a second start and poll change nothing."""
    runner.start(job)
    runner.start(job)
    got = settled(runner, job)
    assert isinstance(got, Measurement)
    assert (got.outcome, got.nonce, got.steps) == (Outcome.OK, "n0nce", 1)
    assert got.val_bpb is not None
    runner.start(job)
    assert runner.poll(job) == got


def test_progress_is_told_with_the_time_left(runner: LocalRunner, job: Job) -> None:
    """While it trains, poll says so and how long it will."""
    job = busy(job, f"marker-{os.getpid()}-progress")
    runner.start(job)
    state = in_phase(runner, job, "training")
    assert state.left is not None
    assert 20 < state.left <= 40
    runner.cancel(job.run)


def test_cancel_frees_the_machine_within_a_second(runner: LocalRunner, job: Job) -> None:
    """The supervisor, the sandbox and the candidate's own children are gone; the run is lost, and cancelling again is free."""
    marker = f"marker-{os.getpid()}-cancel"
    job = busy(job, marker)
    runner.start(job)
    in_phase(runner, job, "training")
    appeared(marker)
    begun = time.monotonic()
    runner.cancel(job.run)
    assert gone(marker, 1.0)
    assert time.monotonic() - begun < 1.0
    assert runner.poll(job) == Lost(reason="it was cancelled")
    runner.cancel(job.run)


def test_a_run_that_is_cancelled_before_it_began_never_begins(runner: LocalRunner, job: Job) -> None:
    """Whichever comes first, start or cancel: nothing runs."""
    runner.cancel(job.run)
    runner.start(job)
    assert settled(runner, job) == Lost(reason="it was cancelled")


def test_cancel_does_not_undo_a_result(runner: LocalRunner, job: Job) -> None:
    """A run that is over keeps its measurement."""
    runner.start(job)
    got = settled(runner, job)
    runner.cancel(job.run)
    assert runner.poll(job) == got


def test_a_run_outlives_the_bot_and_is_found_again(tmp_path: Path, cache: Path, job: Job) -> None:
    """kill -9 of the bot and its process group in the middle of a training: the next bot polls it to its end."""
    job = replace(job, source=QUICK.replace("save(steps=1)", "time.sleep(1.5); save(steps=1)"))
    (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
    code = textwrap.dedent(f"""
        import json, sys, time
        sys.path.insert(0, {str(PROJECT)!r})
        from pathlib import Path
        from runners import Job
        from runners.local import LocalRunner
        runner = LocalRunner(Path({str(tmp_path / "runs")!r}), Path({str(cache)!r}), supervisor={SCRIPTED!r})
        runner.warm()
        runner.start(Job(**json.load(open({str(tmp_path / "job.json")!r}))))
        runner.warm()
        print("started", flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as bot:
        assert bot.stdout is not None
        assert bot.stdout.readline() == b"started\n"
        os.killpg(bot.pid, signal.SIGKILL)
    runner = LocalRunner(tmp_path / "runs", cache, supervisor=SCRIPTED)
    assert isinstance(runner.poll(job), Running)
    got = settled(runner, job)
    assert isinstance(got, Measurement)
    assert got.outcome is Outcome.OK
    assert gone(str(tmp_path / "runs"), 3.0), "the warm one must die with the bot, the other one after its work"


def test_a_killed_supervisor_means_lost(runner: LocalRunner, job: Job) -> None:
    """kill -9 of the supervisor: its sandbox dies with it, and the run is lost rather than running for ever."""
    marker = f"marker-{os.getpid()}-lost"
    job = busy(job, marker)
    runner.start(job)
    in_phase(runner, job, "training")
    appeared(marker)
    home = runner._folder(job.run)
    os.kill(int((home / "pid").read_text()), signal.SIGKILL)
    got = settled(runner, job, 5.0)
    assert isinstance(got, Lost)
    assert "gone and left no result" in got.reason
    assert gone(marker, 2.0)


def test_a_reused_process_number_is_not_taken_for_the_run(runner: LocalRunner, job: Job) -> None:
    """The file of a dead run names a process that lives but is another: the run is lost, and cancel leaves that one alone."""
    folder = runner._folder(job.run)
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        (folder / "pid").write_text(str(bystander.pid))
        assert isinstance(runner.poll(job), Lost)
        runner.cancel(job.run)
        assert bystander.poll() is None
        bystander.kill()


def test_past_its_deadline_a_run_is_killed_and_lost(runner: LocalRunner, job: Job) -> None:
    """Whatever it says: the deadline of the job is the end, also when nobody polls."""
    marker = f"marker-{os.getpid()}-late"
    job = replace(busy(job, marker), deadline=time.time() + 2.5)
    runner.start(job)
    appeared(marker)
    assert gone(marker, 10.0)
    time.sleep(max(0.0, job.deadline - time.time() + 0.05))
    got = runner.poll(job)
    assert isinstance(got, Lost)
    assert "deadline" in got.reason


def test_what_was_never_started_is_lost(runner: LocalRunner, job: Job) -> None:
    """A run of which this machine knows nothing, for instance after its disk was replaced."""
    assert runner.poll(job) == Lost(reason="it was never started here")


def test_bad_data_are_said_once_and_then_the_run_is_lost(runner: LocalRunner, job: Job) -> None:
    """The sentence of the preparation reaches the bot; after that the run can be redone under another name."""
    job = replace(job, corpus="no-such-corpus")
    runner.start(job)
    with pytest.raises(RunnerError, match="no corpus 'no-such-corpus'"):
        settled(runner, job)
    assert isinstance(settled(runner, job), Lost)


def test_a_session_that_does_not_come_up_is_not_the_candidates_fault(tmp_path: Path, cache: Path, job: Job) -> None:
    """No torch, say: the error names it, and there is no outcome."""
    broken = tmp_path / "session.py"
    broken.write_text("import no_such_module")
    runner = LocalRunner(tmp_path / "runs", cache, supervisor=(*SUPERVISOR, "--session", str(broken)))
    runner.start(job)
    with pytest.raises(RunnerError, match="No module named 'no_such_module'"):
        settled(runner, job)


def test_a_result_that_is_not_of_this_job_is_refused(runner: LocalRunner, job: Job) -> None:
    """Another nonce, or no JSON: BadResult, never a number."""
    runner.start(job)
    settled(runner, job)
    with pytest.raises(BadResult, match="nonce"):
        runner.poll(replace(job, nonce="another"))
    (runner._folder(job.run) / "result.json").write_text("val_bpb: 0.9")
    with pytest.raises(BadResult):
        runner.poll(job)


def test_a_warm_process_is_used_once_and_replaced_when_it_is_dead(runner: LocalRunner, job: Job) -> None:
    """The run is made by the process that was warm; a warm one that died makes no difference."""
    runner.warm()
    assert runner._warm is not None
    warm = runner._warm.pid
    runner.start(job)
    assert isinstance(settled(runner, job), Measurement)
    assert (runner._folder(job.run) / "pid").read_text() == str(warm)
    runner.warm()
    assert runner._warm is not None
    assert runner._warm.pid != warm
    runner._warm.kill()
    runner._warm.wait()
    again = replace(job, run="1-c1-k2")
    runner.start(again)
    assert isinstance(settled(runner, again), Measurement)


def test_close_ends_what_was_warm_and_leaves_what_runs(runner: LocalRunner, job: Job) -> None:
    """Nothing idle stays behind; a run under way goes on to its measurement."""
    job = replace(job, source=QUICK.replace("save(steps=1)", "time.sleep(1); save(steps=1)"))
    runner.start(job)
    runner.warm()
    assert runner._warm is not None
    process = runner._warm
    runner.close()
    assert process.poll() is not None
    assert isinstance(settled(runner, job), Measurement)


def test_a_supervisor_holds_no_token(runner: LocalRunner, job: Job) -> None:
    """Of the bot's environment only what a GPU needs to be found goes along."""
    code = f"""
import os, sys
sys.path.insert(0, {str(PROJECT)!r})
from pathlib import Path
from runners.local import LocalRunner
runner = LocalRunner(Path({str(runner._home)!r}), Path({str(runner._cache)!r}), supervisor={SCRIPTED!r})
runner.warm()
while not (text := Path(f"/proc/{{runner._warm.pid}}/environ").read_text()):  # empty for an instant while it is made
    pass
print(text.replace("\\0", "\\n"))
runner.close()
"""
    environment = {"PATH": os.environ["PATH"], "GITHUB_TOKEN": "ghs_secret", "OPENAI_API_KEY": "sk-secret"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "PATH=" in done.stdout
    assert "secret" not in done.stdout


def test_a_missing_sandbox_is_refused_at_the_start(tmp_path: Path, cache: Path, job: Job) -> None:
    """Where bubblewrap and Landlock fail, a job that requires one is told so and what to do; another runs without."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'no namespaces' >&2\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
    code = f"""
import json, sys, time
sys.path.insert(0, {str(PROJECT)!r})
from dataclasses import replace
from pathlib import Path
from runners import Job, Running
from runners.local import LocalRunner, SandboxMissing
{NO_LANDLOCK}
runner = LocalRunner(Path({str(tmp_path / "runs")!r}), Path({str(cache)!r}), supervisor={SCRIPTED!r})
job = Job(**json.load(open({str(tmp_path / "job.json")!r})))
try:
    runner.start(replace(job, run="strict", sandbox="required"))
except SandboxMissing as error:
    print(error)
runner.start(job)
while isinstance(state := runner.poll(job), Running):
    time.sleep(0.02)
print(state.outcome, state.sandboxed)
"""
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    first, last = done.stdout.strip().splitlines()
    assert "no namespaces" in first
    assert "no Landlock" in first
    assert "sandbox: none" in first
    assert last == "ok False"


def test_sandbox_none_runs_without_one_and_says_so(runner: LocalRunner, job: Job) -> None:
    """The choice of the program holds also where a sandbox could be had."""
    job = replace(job, sandbox="none")
    runner.start(job)
    got = settled(runner, job)
    assert isinstance(got, Measurement)
    assert (got.outcome, got.sandboxed) == (Outcome.OK, False)


def test_the_name_of_a_run_cannot_leave_its_folder(runner: LocalRunner, job: Job) -> None:
    """`..` and slashes are refused before anything is touched."""
    for name in ("../x", "a/b", "", ".hidden"):
        with pytest.raises(ValueError, match="cannot be the name of a run"):
            runner.start(replace(job, run=name))


def test_what_does_not_fit_on_the_disk_is_not_there_at_all(tmp_path: Path) -> None:
    """A file that may not grow that far, as on a full disk: what was there before stays, and no part of the new one is left."""
    path, before = tmp_path / "result.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    leave(path, "old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError):  # noqa: PT011  its words are the system's
            leave(path, "new" * 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(it.name, it.read_text()) for it in tmp_path.iterdir()] == [("result.json", "old")]


def test_a_folder_that_cannot_be_written_is_said_in_words(tmp_path: Path, cache: Path, job: Job) -> None:
    """One sentence with the folder in it, no traceback of ours."""
    (tmp_path / "runs").write_text("a file where the folder should be")
    runner = LocalRunner(tmp_path / "runs", cache, supervisor=SCRIPTED)
    with pytest.raises(RunnerError, match="cannot start a measurement in"):
        runner.start(job)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_second_campaign_of_a_process_keeps_the_candidate_s_cpu(tmp_path: Path) -> None:
    """The process leaves the last CPU to candidates, and what measures gets it back, however many runners were made before."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom bot import installed\ngiven = os.sched_getaffinity(0)\n"
        "made = [installed.local(Path(sys.argv[1]), Path(sys.argv[1])) for _ in range(2)]\n"
        "assert os.sched_getaffinity(0) == given - {max(given)}\n"
        "assert {runner._argv[2] for runner in made} == {','.join(map(str, sorted(given)))}, made[1]._argv\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, cwd=PROJECT)
