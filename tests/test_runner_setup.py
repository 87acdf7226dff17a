"""The files by which one machine with a GPU is set up: units, scripts, the keeper, and what runners/README.md says of them."""

from __future__ import annotations

import http.server
import itertools
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.machines import GPU
from runners import jit
from tests.contract import check_answer, check_call
from tests.test_workflows import ROOT, repository

FOLDER = ROOT / "runners"
PAGE = FOLDER / "README.md"
UNITS = sorted((FOLDER / "systemd").iterdir())
BREAKS = re.compile(  # seen with bubblewrap, or told in the unit: with one of these nothing could be measured
    r"^(RestrictNamespaces|PrivateUsers|ProtectKernelTunables|ProtectKernelLogs|ProcSubset|ProtectProc|ProtectControlGroups|"
    r"PrivateDevices|ProtectClock|DevicePolicy|MemoryDenyWriteExecute|PrivateNetwork)=",
    re.MULTILINE,
)
MACHINE = {"autoresearch-runner.service", "autoresearch-job@.service"}  # where candidates train


def verified(path: Path) -> list[str]:
    """What systemd has against a unit, but for programs that are not here and the one line that it may be too old for."""
    name = str(path).replace("@.", "@x.")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", name], capture_output=True, text=True, check=False, timeout=60
    )
    fine = ("is not executable: No such file", "Unknown key 'DelegateSubgroup'", "Unknown key name 'DelegateSubgroup'")
    return [line for line in done.stderr.splitlines() if path.stem.rstrip("@") in line and not any(it in line for it in fine)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_reads_the_units(path: Path, tmp_path: Path) -> None:
    """Each unit has only keys and values that systemd knows; a misspelt key would be told."""
    for unit in UNITS:
        shutil.copy(unit, tmp_path)
    assert verified(tmp_path / path.name) == []
    section = {".service": "Service", ".socket": "Socket"}[path.suffix]
    text = path.read_text("utf-8").replace(f"[{section}]\n", f"[{section}]\nProtectSytem=strict\n")
    (tmp_path / path.name).write_text(text)
    assert verified(tmp_path / path.name)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_units_hold_and_break_nothing(path: Path) -> None:
    """Where candidates train the control group is ours and no setting keeps a sandbox or a GPU away; nothing runs as root."""
    text = path.read_text("utf-8")
    if path.name in MACHINE:
        assert "\nDelegate=yes\n" in text and not BREAKS.search(text) and "\nUser=autoresearch\n" in text
        assert "\nProtectSystem=strict\n" in text and "token" not in text.lower()
        assert "\nRemoveIPC=yes\n" in text and {"169.254.0.0/16", "fd00:ec2::254"} <= set(text.split("IPAddressDeny=")[1].split())
    if path.suffix == ".service":
        assert re.search(r"^User=(?!root)\w+$", text, re.MULTILINE) and "\nNoNewPrivileges=yes\n" in text


def test_one_job_can_write_nothing_that_another_reads() -> None:
    """The one folder that a job may write is the one that is emptied; caches of data and programs are outside of it."""
    text = (FOLDER / "systemd" / "autoresearch-job@.service").read_text("utf-8")
    (writes,) = re.findall(r"^ReadWritePaths=(.*)$", text, re.MULTILINE)
    start = re.search(r"^ExecStart=\S+ \S+ (\S+)$", text, re.MULTILINE)
    caches = re.findall(r"^Environment=(?:AUTORESEARCH_CACHE|RUNNER_TOOL_CACHE)=(\S+)$", text, re.MULTILINE)
    assert start is not None and writes == start[1] and len(caches) == 2
    assert not [cache for cache in caches if cache.startswith(writes)]


def test_the_labels_are_those_of_the_loop() -> None:
    """What the keeper registers, what the page says, and what `init` looks for are what loop.yml asks for."""
    asked = repository()["loop.yml"]["jobs"]["measure"]["runs-on"]
    assert list(jit.LABELS) == asked and GPU in asked
    (labels,) = re.findall(r"--labels (\S+)", PAGE.read_text("utf-8"))
    assert {"self-hosted", *labels.split(",")} == set(asked)  # the runner adds self-hosted by itself


def test_the_page_names_files_that_are_there() -> None:
    """Every file of ours on the page exists, and every unit and script is on the page; what was not run says so."""
    text = PAGE.read_text("utf-8")
    links = re.findall(r"\]\(([^):]+)\)", text)
    named = [FOLDER / link for link in links] + [ROOT / it for it in re.findall(r"(?<![\w./])runners/[\w./@-]*\w", text)]
    assert len(named) > 8 and not [path for path in named if not path.exists()]
    assert not [path.name for path in [*UNITS, FOLDER / "one-job.sh", FOLDER / "jit.py"] if path.name not in text]
    assert text.count("schema-checked, not run") >= 2
    for page in ("README.md", "docs/github.md"):
        assert "runners/README.md" in (ROOT / page).read_text("utf-8")


def test_every_recipe_of_the_page_parses(tmp_path: Path) -> None:
    """Bash reads each block of commands, and the script."""
    for text in (*blocks(), (FOLDER / "one-job.sh").read_text("utf-8")):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr + text
    assert len(blocks()) >= 4


def blocks() -> list[str]:
    return [
        re.sub(r"^ {4}", "", it, flags=re.MULTILINE)
        for it in re.findall(r"(?:^ {4}.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
    ]


def test_the_clone_for_the_caches_does_not_stay() -> None:
    """What root puts where a job runs is gone at the end of that block, or the job could not empty its folder; no path of it
    takes more rights than its shell has, or depends on who expands a star."""
    (block,) = [it.splitlines() for it in blocks() if "evaluator.prepare" in it]
    assert block[0] == "sudo -i" and block[-1] == "exit"
    clone = next(line.split()[-1] for line in block if line.startswith("git clone"))
    assert block[-2] == f"cd / && rm -rf {clone.removesuffix('/YOURS/YOURS')}" and clone.startswith("/var/lib/autoresearch/job/")
    assert not [line for line in block[1:] if "sudo" in line or "*" in line]


def test_a_shell_that_is_opened_is_left() -> None:
    """Whoever copies a block is themselves again at its end."""
    opened = [it for it in blocks() if re.search(r"^sudo (-i|.* bash)$", it, re.MULTILINE)]
    assert len(opened) == 3 and all(it.splitlines()[-1] == "exit" for it in opened)


def test_both_ways_install_what_the_runner_needs() -> None:
    """GitHub's own script for its libraries, before its program is used, with the folder of that way."""
    assert sorted(re.findall(r"sudo (\S+)/bin/installdependencies.sh", "".join(blocks()))) == [
        "/opt/actions-runner", "/var/lib/autoresearch/runner",
    ]  # fmt: skip


# the keeper and the other side


@dataclass
class GitHub:
    """Gives configurations, or an answer of its own; `asked` is what came."""

    status: int = 201
    asked: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def github() -> Iterator[GitHub]:
    there = GitHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            there.complaints += check_call("POST", self.path, headers=dict(self.headers), body=body)
            there.asked.append(json.loads(body) | {"token": self.headers["Authorization"]})
            runner = {"id": 1, "name": there.asked[-1]["name"], "os": "unknown", "status": "offline", "busy": False, "labels": []}
            answer = json.dumps(
                {"runner": runner, "encoded_jit_config": "c2VjcmV0"} if there.status == 201 else {"message": "No"}
            )
            there.complaints += check_answer("POST", self.path, there.status, answer.encode())
            self.send_response(there.status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        there.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield there
        server.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A token, and a runner that writes down what it was given, and one file where it stands."""
    (tmp_path / "token").write_text("github_pat_1\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "runner").mkdir()
    (tmp_path / "job" / "left over").mkdir(parents=True)
    run = tmp_path / "runner" / "run.sh"
    run.write_text(
        f"""#!/bin/bash
ls "{tmp_path}/job" > "{tmp_path}/found"
echo "$ACTIONS_RUNNER_INPUT_JITCONFIG" >> "{tmp_path}/ran"
touch _work
read line && exit 9
for k in 3 4; do {{ true >&$k; }} 2>/dev/null && exit 8; done
echo noise
"""
    )
    run.chmod(0o755)
    return tmp_path


def keep(there: GitHub, place: Path, *reach: str, jobs: int = 1, took: float = 60.0) -> list[float]:
    """How long it waited between jobs, if each `took` so many seconds."""
    waits: list[float] = []
    clock = itertools.count(0.0, took)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 4:
            raise KeyboardInterrupt

    reach = reach or (
        "bash",
        "-c",
        'exec "$@" 3>&1',
        "socket",
        "bash",
        str(FOLDER / "one-job.sh"),
        str(place / "runner"),
        str(place / "job"),
    )
    argv = ["--repo", "you/yours", "--api", there.url, "--token-file", str(place / "token"), "--jobs", str(jobs), "--", *reach]
    with suppress(KeyboardInterrupt):
        assert jit.main(argv, sleep, lambda: next(clock)) == 0
    return waits


def test_a_job_is_handed_over_and_leaves_nothing(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two jobs: each has a configuration of its own, asked for as GitHub's description has it, and a fresh copy of the runner in
    an empty folder; the token is nowhere on that side, and neither the runner's output nor the connection, which systemd also
    hands over as file 3, is open to what runs there."""
    with github() as there:
        assert keep(there, place, jobs=2) == [jit.SOON, jit.SOON]
    assert there.complaints == [] and len({it["name"] for it in there.asked}) == 2
    assert there.asked[0]["labels"] == ["self-hosted", "gpu"] and there.asked[0]["token"] == "Bearer github_pat_1"
    assert (place / "ran").read_text() == "c2VjcmV0\n" * 2 and (place / "found").read_text() == "run.sh\n"
    assert list((place / "job").iterdir()) == []
    said = capfd.readouterr()
    assert said.out.count(": over 0") == 2 and "noise" in said.err and "c2VjcmV0" not in said.out + said.err


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 500])
def test_a_refusal_of_github_is_told_and_waited_for(place: Path, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    """No configuration, no job: it says why, waits longer each time, and shows no token."""
    with github() as there:
        there.status = status
        assert keep(there, place) == [5, 10, 20, 40, 80]
    err = capfd.readouterr().err
    assert f"GitHub says {status}" in err and ("Administration: write" in err) == (status < 405) and "github_pat" not in err
    assert not (place / "ran").exists()


def test_nothing_is_asked_for_a_machine_that_is_not_ready(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A machine that cannot be reached, or is busy, costs GitHub no registration; one that breaks off is told, too."""
    with github() as there:
        keep(there, place, "false")
        keep(there, place, "echo", "busy")
        assert there.asked == [] and "the machine is not ready" in capfd.readouterr().err
        keep(there, place, "bash", "-c", "echo ready; read config; exit 1")
        assert len(there.asked) == 5 and "ended before the job did" in capfd.readouterr().err


@pytest.mark.parametrize(("end", "took"), [("exit 3", 60.0), ("exit 0", 20.0)])
def test_a_runner_that_cannot_begin_is_waited_for(place: Path, end: str, took: float, capfd: pytest.CaptureFixture[str]) -> None:
    """Its program ends with an error, or with 0 at once as GitHub's does: each try costs a registration, so they become rare."""
    (place / "runner" / "run.sh").write_text(f"#!/bin/bash\n{end}\n")
    with github() as there:
        assert keep(there, place, took=took) == [5, 10, 20, 40, 80] and len(there.asked) == 5
    assert f"`over {end[-1]}` after {took:.0f} s" in capfd.readouterr().err


@pytest.mark.parametrize(("mode", "used"), [(0o644, False), (0o604, False), (0o440, True), (0o400, True)])
def test_a_token_that_others_may_read_is_not_used(place: Path, mode: int, used: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """Its rights are looked at before it is sent anywhere; the group's bits are those of systemd's ACL on a credential."""
    (place / "token").chmod(mode)
    with github() as there:
        keep(there, place)
        assert bool(there.asked) == used and ("chmod 600" in capfd.readouterr().err) != used


def test_a_job_that_nobody_hands_over_ends(place: Path) -> None:
    """The connection closes without a configuration: no runner starts, and the folder is left empty."""
    argv = ["bash", str(FOLDER / "one-job.sh"), str(place / "runner"), str(place / "job")]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (1, "ready\n") and "nothing was handed over" in done.stderr
    assert not (place / "ran").exists() and list((place / "job").iterdir()) == []
