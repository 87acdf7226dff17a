"""Whether a machine is fit to measure: facts to rows, what is read of this very machine, and `doctor --runner` as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot import box, doctor
from bot.__main__ import main
from bot.fitness import Clock, Facts, Gpu, Torch, findings, unfit
from runners.actions import lost
from tests.laptop import PROGRAM, WELL, environment, machine, project
from tests.test_workflows import repository

CARD = Gpu(name="NVIDIA H100", driver="570.86", total=81559, used=4)
CPU = Torch(version="2.13.0+cpu", cuda="", sees=0)


def gpu(**changes: Any) -> Facts:
    return replace(WELL, gpus=(replace(CARD, **changes),))


# name, device in program.md, facts, state, words of what was found, words of what to do
CASES: list[tuple[str, str, Facts, str, str, str]] = [
    ("GPU", "auto", WELL, "ok", "H100, driver 570.86, 81555 of 81559 MiB free", ""),
    ("GPU", "auto", replace(WELL, gpus=(CARD, CARD)), "ok", "1 more, which are not used", ""),
    ("GPU", "auto", replace(WELL, gpus="there is no nvidia-smi", card=False), "missing", "there is no GPU here", "device: cpu"),
    ("GPU", "cuda", replace(WELL, gpus=(), card=False), "missing", "the driver lists none", "runners/README.md"),
    ("GPU", "auto", replace(WELL, gpus="nvidia-smi does not answer: hangs"), "missing", "does not answer", "install the driver"),
    ("GPU", "cpu", replace(WELL, gpus="there is no nvidia-smi", card=False), "ok", "none is needed", ""),
    ("GPU, others", "auto", WELL, "ok", "nobody", ""),
    ("GPU, others", "auto", gpu(others=("process 7 (python) with 900 MiB",)), "missing", "process 7", "end them"),
    ("GPU, others", "cpu", gpu(others=("process 7 (python) with 900 MiB",)), "warn", "process 7", "end them"),
    ("GPU, others", "auto", gpu(used=1024), "ok", "nobody", ""),
    ("GPU, others", "auto", gpu(used=1025), "missing", "1025 MiB of its memory are held", "dead processes"),
    ("torch, GPU", "auto", WELL, "ok", "torch 2.13.0+cu128, built for CUDA 12.8, sees 1 GPU", ""),
    ("torch, GPU", "auto", replace(WELL, torch=CPU), "missing", "cannot use the GPU", "a build with CUDA"),
    ("torch, GPU", "cpu", replace(WELL, torch=CPU), "ok", "sees 0 GPUs", ""),
    ("torch, GPU", "auto", replace(WELL, torch=CPU, gpus=(), card=False), "ok", "without CUDA", ""),
    ("torch, GPU", "auto", replace(WELL, torch=Torch(version="2", cuda="12.8", sees=0)), "missing", "no GPU", "must be new"),
    ("torch, GPU", "auto", replace(WELL, torch=Torch(version="2", cuda="13.0", sees=0)), "missing", "no GPU", "580 or newer"),
    ("torch, GPU", "auto", replace(WELL, pinned="2.14.0"), "warn", "requirements.lock says 2.14.0", "runners/install.py"),
    ("torch, GPU", "auto", replace(WELL, pinned=""), "ok", "torch 2.13.0", ""),
    ("torch, GPU", "auto", replace(WELL, torch="torch does not answer"), "unknown", "does not answer", "import torch"),
    ("clock", "auto", WELL, "ok", "at most 4 ms off", ""),
    ("clock", "auto", replace(WELL, clock=Clock(kept=False)), "warn", "nothing keeps it", "time service"),
    ("clock", "auto", replace(WELL, clock=Clock(kept=None)), "unknown", "does not say", "date -u"),
    ("clock", "auto", replace(WELL, clock=Clock(kept=True, jump=-0.2)), "warn", "moved by -0.20 s", "jumps"),
    ("control groups", "auto", WELL, "ok", "delegated", ""),
    ("control groups", "auto", replace(WELL, groups=False), "warn", "five times a second", "Delegate=yes"),
    ("cores", "auto", WELL, "ok", "2, busy now: 0: 50 %, 1: 0 %", ""),
    ("cores", "auto", replace(WELL, busy={3: 0.0}), "warn", "1, busy", "two or more"),
    ("cores", "auto", replace(WELL, busy={0: 0.0, 1: 0.3}), "warn", "1: 30 %", "core 1"),
    ("secrets", "auto", WELL, "ok", "none that we know", ""),
    (
        "secrets",
        "auto",
        replace(WELL, names=("OPENAI_API_KEY", "~/.netrc")),
        "warn",
        "OPENAI_API_KEY, ~/.netrc",
        "take them away",
    ),
    ("user", "auto", WELL, "ok", "not root", ""),
    ("user", "auto", replace(WELL, root=True), "warn", "root", "make a user"),
    ("user", "auto", replace(WELL, member=("docker", "runner")), "warn", "a member of docker", "gpasswd -d USER docker"),
]


@pytest.mark.parametrize(
    ("name", "device", "facts", "state", "found", "fix"), CASES, ids=lambda it: it if type(it) is str else ""
)
def test_what_a_fact_means(name: str, device: str, facts: Facts, state: str, found: str, fix: str) -> None:
    """Each fact has its row, and whatever is not ok comes with what to do; only what is missing makes a machine unfit."""
    row = next(row for row in findings(facts, device) if row.name == name)
    assert (row.state, found in row.found, fix in row.fix) == (state, True, True), row
    assert bool(row.fix) == (state != "ok")
    assert (row.found in unfit(findings(facts, device))) == (state == "missing")


def test_a_machine_that_is_well_is_well() -> None:
    """No row of a good machine is anything but ok, whatever program.md trains on."""
    for device in ("auto", "cuda", "cpu"):
        assert {row.state for row in findings(WELL, device)} == {"ok"} and unfit(findings(WELL, device)) == ""


def test_an_unfit_machine_leaves_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --out the reason is where a result would be, in the form that the loop reads; a fit machine leaves nothing."""
    monkeypatch.chdir(project(tmp_path / "project"))
    out = tmp_path / "result.json"
    assert main(["doctor", "--runner", "--out", str(out)], machine(tmp_path)) == 0 and not out.exists()
    broken = machine(
        tmp_path, look=lambda: gpu(others=("process 7 (python) with 900 MiB",)), name="gpu-box", sleep=lambda seconds: None
    )
    assert main(["doctor", "--runner", "--out", str(out)], broken) == 1
    seen = lost(out.read_text())
    assert seen is not None and "measure: gpu-box: GPU, others: process 7 (python)" in seen.reason and "end them" in seen.reason


@pytest.mark.parametrize(("busy", "others", "unfit_at_last"), [(3, {}, False), (99, {}, True), (99, {"torch": CPU}, True)])
def test_a_job_waits_some_minutes_for_others_on_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, others: dict[str, Any], unfit_at_last: bool
) -> None:
    """Their last step is no reason to lose a run: it is looked at again for five minutes; not where something else is missing,
    and not for a person who asks. The step of the workflow leaves time for the wait and for one slow look."""
    monkeypatch.chdir(project(tmp_path / "project"))
    waits, looks = list[float](), list[int]()

    def look() -> Facts:
        looks.append(1)
        return replace(gpu(others=("process 7 (python) with 900 MiB",)) if len(looks) <= busy else WELL, **others)

    there = machine(tmp_path, look=look, sleep=waits.append)
    assert main(["doctor", "--runner", "--out", str(tmp_path / "out")], there) == unfit_at_last
    assert len(waits) == len(looks) - 1 == (0 if others else min(busy, doctor.LOOKS - 1)) and sum(waits) <= 300
    step = next(it for it in repository()["loop.yml"]["jobs"]["measure"]["steps"] if "doctor" in str(it.get("run")))
    longest = doctor.PAUSE_SECONDS * (doctor.LOOKS - 1) + box.LOOK_SECONDS + 2 * box.GPU_SECONDS + box.TORCH_SECONDS
    assert 60 * step["timeout-minutes"] >= longest
    del looks[:], waits[:]
    assert main(["doctor", "--runner"], machine(tmp_path, look=look, sleep=waits.append)) == 1 and waits == []


def test_a_machine_for_the_cpu_says_so_in_program_md(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU a checkout whose program.md says `device: cpu` is fine, and any other is not."""
    none = machine(tmp_path, look=lambda: replace(WELL, gpus="there is no nvidia-smi", card=False, torch=CPU))
    monkeypatch.chdir(project(tmp_path / "auto"))
    assert main(["doctor", "--runner"], none) == 1
    monkeypatch.chdir(project(tmp_path / "cpu", program=PROGRAM.replace("sandbox: none", "sandbox: none\ndevice: cpu")))
    assert main(["doctor", "--runner"], none) == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_cache_that_is_only_read_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prepared data that the runner's user may only read is no fault; an empty folder of that kind is."""
    monkeypatch.chdir(project(tmp_path / "project"))
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o500)
    assert main(["doctor", "--runner"], machine(tmp_path)) == 1
    cache.chmod(0o700)
    (cache / "vault.key").touch()
    cache.chmod(0o500)
    assert main(["doctor", "--runner"], machine(tmp_path)) == 0 and "is only read" in capsys.readouterr().out


def test_it_runs_here(tmp_path: Path) -> None:
    """The real program on this machine: every row is there, a GPU is found exactly if there is one, and a key is seen by name
    while its value is shown nowhere."""
    argv = [sys.executable, "-m", "bot", "doctor", "--runner", "--json"]
    env = environment(HOME=str(tmp_path), SLACK_BOT_TOKEN="xoxb-not-to-be-shown", AUTORESEARCH_CACHE=str(tmp_path / "cache"))
    (tmp_path / ".netrc").touch()
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert {"Python", "sandbox", "disk, here", "GPU", "torch, GPU", "clock", "control groups", "cores", "secrets", "user"} <= set(
        rows
    )
    assert all(row["state"] == "ok" or row["fix"] for row in rows.values())
    assert (rows["GPU"]["state"] == "ok") == Path("/dev/nvidiactl").exists(), rows["GPU"]
    assert rows["torch, GPU"]["found"].startswith("torch 2.")
    assert "SLACK_BOT_TOKEN" in rows["secrets"]["found"] and "~/.netrc" in rows["secrets"]["found"]
    assert "not-to-be-shown" not in done.stdout


@pytest.mark.parametrize("options", [["--runner", "--github"], ["--out", "x"]])
def test_options_that_do_not_go_together_are_told(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One looks here, the other there; --out is for a job on a runner."""
    assert main(["doctor", *options], machine(tmp_path)) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said and ("--runner" in said or "--github" in said)


SMI = """#!/bin/sh
case "$1" in
  *query-gpu*) echo "GPU-1, NVIDIA H100 80GB HBM3, 570.86.15, 81559, 1200"; echo "GPU-2, NVIDIA H100, 570.86.15, 81559, [N/A]" ;;
  *) echo "GPU-1, $PPID, ours, 300"; echo "GPU-1, 99999999, /home/alice/a,b --token=1, 900"; echo "GPU-2, 99999998, other, 5" ;;
esac
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nvidia-smi lies, for whoever looks it up."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    return tmp_path / "nvidia-smi"


def test_the_driver_is_read(smi: Path) -> None:
    """Memory is MiB, what the driver does not tell is 0, a name may have commas, and only others' processes are others',
    of which nothing is told but the name of the program."""
    smi.write_text(SMI)
    read = box._gpus()
    assert not isinstance(read, str), read
    first, second = read
    assert (first.name, first.driver, first.total, first.used) == ("NVIDIA H100 80GB HBM3", "570.86.15", 81559, 1200)
    assert first.others == ("process 99999999 (a,b) with 900 MiB",)
    assert second.used == 0 and len(second.others) == 1


def test_a_driver_that_is_gone_is_told_in_its_words(smi: Path) -> None:
    """nvidia-smi that fails is no GPU, with what it said."""
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    said = box._gpus()
    assert isinstance(said, str) and "Driver/library version mismatch" in said


def test_the_clock_is_that_of_the_kernel() -> None:
    """adjtimex answers, and its error is a number of seconds that can be."""
    kept, error = box._kept()
    assert kept in (True, False, None) and 0.0 <= error <= 3600.0
