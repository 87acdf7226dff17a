"""`autoresearch propose --dry-run` and `run` with a model, at the command line: prompt, cost, proposal, and a missing key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.__main__ import main
from bot.minds import Server as Models
from bot.workspace import find
from tests.laptop import PROGRAM, SOURCE, commit, machine, project
from tests.model_server import Reply, Server, chat, serving

MODEL = """proposer: llm
model: {proposer: m, stream: false}
money: {usd: 1, prices: [m 1 0.1 10]}
---
Make it better."""
CODE = f"""{SOURCE}

def build():
    return DEPTH, DIM, MLP_RATIO, SOFTCAP, ROPE_BASE


def train(model, session):
    session.save(model)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose program asks a model."""
    folder = project(tmp_path / "project", source=CODE, program=PROGRAM.replace("---\nMake it better.", MODEL))
    monkeypatch.chdir(folder)
    return folder


def edit(old: str, new: str) -> Reply:
    name, _, value, *_ = new.split()
    told = {"title": f"{name} is {value}", "hypothesis": "because\x1b[31m", "expected_effect": "0.2 lower", "tags": ["size"]}
    return chat(json.dumps(told | {"edits": [{"search": old, "replace": new}], "whole_file": ""}))


def test_without_a_key_the_prompt_is_shown_and_nobody_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every part with its tokens, the notes of people, the cost; it says how a proposal could be had, and nothing is begun."""
    commit(folder, notes__idea_md="Try a bigram table.\n")
    assert main(["propose", "--dry-run"], machine(folder.parent)) == 0
    out = capsys.readouterr().out
    for part in ("system", "program.md", "the issue", "train.py", "Notes of people", "question", "in all"):
        assert f"=== {part}: about " in out, part
    assert "Make it better." in out and "DEPTH = 2  # layers" in out and "| Try a bigram table." in out
    assert "1 experiment: about " in out and "about $0.0" in out and "50 experiments: about " in out
    assert "Nobody is asked: program.md asks the model m, and no key for it is there: set OPENAI_API_KEY" in out
    assert not find(folder).exists


def test_with_a_server_the_proposal_is_shown_as_a_diff(folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """What it is, whether it would be run, what it cost, and the diff; offline nobody is asked."""
    server.will(edit("DIM = 128  # width", "DIM = 64  # width"))
    there = machine(folder.parent, server=Models(base_url=server.url))
    assert main(["propose", "--dry-run", "--offline"], there) == 0
    assert "Nobody is asked: --offline" in capsys.readouterr().out and not server.asked
    assert main(["propose", "--dry-run"], there) == 0
    out = capsys.readouterr().out
    assert "proposed by llm: DIM is 64" in out and "hypothesis: because" in out and "\x1b" not in out
    assert "it: would be run; approved by rules" in out and "cost: 1 call, 1,000 tokens read, 100 written, $0.0020" in out
    assert "\n-DIM = 128  # width\n+DIM = 64  # width\n" in out
    read = server.asked[0]["messages"][1]["content"].split("\n\n")
    assert all(text in out for text in read) and not find(folder).exists


def test_a_proposal_that_would_be_refused_says_why(folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The reviewer's reasons are shown; a model without an answer that can be used is told with exit status 1."""
    server.will(edit("DEPTH = 2  # layers", "DEPTH = open('/etc/passwd')"), *[chat("Hm.")] * 3)
    there = machine(folder.parent, server=Models(base_url=server.url))
    assert main(["propose", "--dry-run"], there) == 0
    assert "it: would be refused: the reviewer (rules) refuses it: gaming: " in capsys.readouterr().out
    assert main(["propose", "--dry-run"], there) == 1
    said = capsys.readouterr()
    assert "cost: 3 calls" in said.out and "no proposal: the model's answer could not be used" in said.err


def test_without_dry_run_the_way_to_a_measured_proposal_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A proposal alone is not opened: the command says which one measures it."""
    assert main(["propose"], machine(folder.parent)) == 1
    assert "`autoresearch run 1`" in capsys.readouterr().err


def test_an_offline_proposer_is_rehearsed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It costs nothing, so it is always asked, and --model needs a proposer that asks one."""
    folder = project(tmp_path / "project")
    monkeypatch.chdir(folder)
    assert main(["propose", "--dry-run"], machine(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "no price in money.prices" in out and "proposed by mutate: " in out and "+++ b/trainer/train.py" in out
    assert main(["propose", "--dry-run", "--model", "m"], machine(tmp_path)) == 1
    assert "--model is given, and proposer is mutate, which asks no model" in capsys.readouterr().err


def test_a_missing_key_is_told_before_anything_begins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` says which model, which variable and which other way there is, and leaves no trace."""
    assert main(["run", "3"], machine(folder.parent)) == 1
    said = capsys.readouterr().err
    assert "the model m" in said and "set OPENAI_API_KEY" in said and "`proposer: mutate`" in said
    assert not find(folder).exists
    assert main(["run", "3", "--model", "other"], machine(folder.parent)) == 1
    said = capsys.readouterr().err
    assert 'money.usd caps the dollars, and other has no price; add "other INPUT CACHED OUTPUT"' in said


def test_the_doctor_knows_whether_the_model_can_be_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a key the row is missing, with the fix; with a server it is fine, and nobody is asked."""
    assert main(["doctor"], machine(folder.parent)) == 1
    out = capsys.readouterr().out
    assert "m cannot be asked" in out and "set OPENAI_API_KEY" in out
    main(["doctor"], machine(folder.parent, server=Models(base_url="http://127.0.0.1:9/v1")))
    assert "m at http://127.0.0.1:9/v1" in capsys.readouterr().out


def test_a_run_with_a_model_reports_tokens_and_dollars(folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Each proposal's cost is in its line, the campaign's in the table at the end, and --usd is the cap of this campaign."""
    server.will(edit("DIM = 128  # width", "DIM = 64  # width"), edit("DEPTH = 2  # layers", "DEPTH = 1  # layers"))
    assert main(["run", "2", "--usd", "0.5"], machine(folder.parent, server=Models(base_url=server.url))) == 0
    out = capsys.readouterr().out
    assert "candidate 1: DIM is 64 (1 call, 1,000 tokens read, 100 written, $0.0020)" in out
    assert "2 calls, 2,000 tokens read, 200 written, $0.0040, $0.0020 a call; $0.4960 of $0.5000 left" in out
    assert main(["status"], machine(folder.parent)) == 0
    assert "**Models:** 2 calls" in capsys.readouterr().out
