"""What no further try heals pauses a campaign with a sentence for people, and it goes on once that is mended. Nothing is run
in the meantime that a model should have proposed or reviewed.

On a laptop and on GitHub, with models behind a real HTTP server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import events as e
from bot.__main__ import main
from bot.loop import View, run
from bot.minds import Server as Models
from bot.minds import lacking
from bot.program import Program, parse
from bot.state import Campaign
from bot.workspace import find
from bot.world import World
from runners import Job
from runners.scripted import Result, measurement
from tests.hosted import PROGRAM as HOSTED
from tests.hosted import Actions, opened
from tests.laptop import PROGRAM as LAPTOP
from tests.laptop import commit, machine, project
from tests.model_server import KEY, Server, chat, error, serving
from tests.test_rehearsal import CODE, MODEL
from tests.test_researcher import SOURCE, begin, campaign, edit, of, quality
from tests.worlds import memory_world

YES = chat('{"approve": true, "reasons": []}')
MODELS = MODEL.replace("model: {", "model: {max_output: 1000, ")
HALTS = {
    "nothing": (chat(""), "the model answered with nothing", 2),
    "no": (chat(None, refusal="I will not"), "(I will not): look at program.md and the issue", 2),
    "filtered": (chat("no", finish="content_filter"), "the model refuses to answer this (content filter)", 2),
    "half": (chat("half", finish="length"), "raise model.max_output", 2),
    "no key": (error(401, f"not {KEY}"), "set OPENAI_API_KEY", 1),
    "no credit": (error(402, "Insufficient Balance"), "add credit", 1),
    "no model": (error(404, "The model does not exist", code="model_not_found"), "correct the model's name", 1),
}  # fmt: skip
halts = pytest.mark.parametrize("halt", HALTS)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def resume(world: World, **more: Any) -> Campaign:
    """A person did what was asked for."""
    world.log.append(e.Resumed(campaign="1", at=world.now(), by="a person", **more), world.log.read()[1])
    run(world, View())
    return campaign(world)


@halts
def test_no_proposal_pauses_and_goes_on(server: Server, halt: str) -> None:
    """After a bounded number of calls: one pause in words, no refusal, nothing run; the same campaign is then seen through."""
    reply, said, calls = HALTS[halt]
    server.will(*[reply] * 9)
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(world, view)
    (paused,) = of(world, e.Paused)
    assert said in paused.reason and KEY not in paused.reason and len(server.asked) == calls
    assert campaign(world).paused and not of(world, e.ProposalRefused) and not of(world, e.Proposed)
    server.replies[:] = [edit("A = 1", "A = 2")]
    c = resume(world)
    assert (c.counts, c.refused, c.spent.calls) == ({"merged": 1}, 0, paused.spent.calls + 1)


@halts
def test_no_review_pauses_and_goes_on(server: Server, halt: str) -> None:
    """A reviewer that cannot be asked is named, what it should have seen is neither run nor refused, and its calls are paid."""
    reply, said, calls = HALTS[halt]
    server.will(edit("A = 1", "A = 3"), *[reply] * 9)
    world, view = begin(memory_world(quality, SOURCE), server.url, 1, model__reviewer="r")
    run(world, view)
    (paused,) = of(world, e.Paused)
    assert paused.reason.startswith("model.reviewer r: ") and said in paused.reason
    assert len(server.asked) == 1 + calls and campaign(world).spent == paused.spent and paused.spent.calls >= 1
    assert not of(world, e.ProposalRefused) and not of(world, e.Proposed)
    server.replies[:] = [edit("A = 1", "A = 2"), YES]
    assert resume(world).counts == {"merged": 1}


def test_a_review_that_could_break_the_cap_ends_the_proposals(server: Server) -> None:
    """It is not made, and what it should have seen is not run: the campaign ends, since its money is spent."""
    server.will(edit("A = 1", "A = 3"))
    dear = {"model__reviewer": "r", "money__usd": 0.5, "money__prices": ["m 1 0.1 10", "r 1 0.1 100"]}
    world, view = begin(memory_world(quality, SOURCE), server.url, 1, **dear)
    run(world, view)
    c = campaign(world)
    assert c.ended and c.ended.why == "money" and "model.reviewer r: the next call could break the cap" in c.ended.reason
    assert len(server.asked) == 1 and not of(world, e.Proposed) and c.spent.calls == 1


def test_a_mend_that_nobody_can_review_waits(server: Server) -> None:
    """A crash stays to be mended while the reviewer's key is wrong, and is mended after the pause."""
    server.will(edit("A = 1", "A = 1 // 0"), YES, edit("A = 1 // 0", "A = 2"), error(401, "gone"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1, model__reviewer="r")
    run(world, view)
    assert of(world, e.Paused)[0].spent.calls == 1 and not of(world, e.NotRepaired)
    server.will(edit("A = 1 // 0", "A = 2"), YES)
    c = resume(world)
    assert c.counts == {"merged": 1} and c.candidates[1].mended == 1


def test_an_answer_that_can_be_mended_is_a_refusal(server: Server) -> None:
    """An answer in a wrong form is the model's fault: told back, then refused, and no person is called."""
    server.will(*[chat("Hm.")] * 3, edit("A = 1", "A = 2"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(world, view)
    assert campaign(world).refused == 1 and not of(world, e.Paused) and campaign(world).counts == {"merged": 1}


def test_what_is_said_of_models_is_read_anew(server: Server) -> None:
    """The program.md with which a campaign is resumed decides who is asked and for how much, and nothing that is measured."""
    server.will(*[chat("half", finish="length")] * 2, edit("A = 1", "A = 2"))
    world, view = begin(memory_world(quality, SOURCE), server.url, 1)
    run(world, view)
    seconds = campaign(world).settings.budget.seconds
    program = "---\nbudget: {seconds: 77}\nmodel: {proposer: other, max_output: 20000}\nmoney: {usd: 3}\n---\nBe bold.\n"
    c = resume(world, program=program)
    assert (c.settings.model.max_output, c.settings.model.proposer, c.settings.money.usd) == (20_000, "m", 3.0)
    assert (c.settings.budget.seconds, c.instructions) == (seconds, "Make it better."), "the command named the model m"


def test_more_money_lets_a_campaign_go_on(server: Server) -> None:
    """Whoever resumes with another program.md has it asked anew; a resume alone changes nothing of why nobody was."""
    server.will(edit("A = 1", "A = 2"))
    world, _ = begin(memory_world(quality, SOURCE), server.url, 1)
    for event in (
        e.ProposalRefused(campaign="1", at=world.now(), title="no proposal", reason="the money is spent", broke=True),
        e.Paused(campaign="1", at=world.now(), reason="a person asked for it"),
        e.Resumed(campaign="1", at=world.now(), by="a person"),
    ):
        world.log.append(event, world.log.read()[1])
    assert campaign(world).dry
    assert resume(world, program="---\nmoney: {usd: 50}\n---\n").counts == {"merged": 1}


# On a laptop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = project(tmp_path / "project", source=CODE, program=LAPTOP.replace("---\nMake it better.", MODELS))
    monkeypatch.chdir(folder)
    return folder


def test_a_laptop_goes_on_with_what_was_mended(folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The pause says which setting; only once it is committed does `autoresearch run` go on with it."""
    there = machine(folder.parent, server=Models(base_url=server.url))
    server.will(*[chat("half", finish="length")] * 4)
    assert main(["run", "1"], there) == 1
    said = capsys.readouterr()
    assert "models: about $0.0" in said.out and "for 1 experiment, at most $1.00, the cap of money.usd" in said.out
    assert "the campaign is paused: " in said.err and "raise model.max_output" in said.err
    text = (folder / "program.md").read_text().replace("max_output: 1000", "max_output: 9000")
    (folder / "program.md").write_text(text)
    assert main(["run"], there) == 1
    assert "program.md has changes that are not committed" in capsys.readouterr().out
    commit(folder, program_md=text)
    server.will(edit("DIM = 128  # width", "DIM = 64  # width"))
    assert main(["run"], there) == 0
    assert [body["max_completion_tokens"] for body in server.asked] == [1000, 2000, 1000, 2000, 9000]


def test_a_laptop_does_not_go_on_with_a_broken_program(folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in the mended program.md is told with its line, and the campaign waits on."""
    there = machine(folder.parent, server=Models(base_url=server.url))
    server.will(error(401, "no"))
    assert main(["run", "1"], there) == 1
    commit(folder, program_md=(folder / "program.md").read_text().replace("max_output: 1000", "max_output: soon"))
    assert main(["run"], there) == 1
    assert "model.max_output is soon" in capsys.readouterr().err and find(folder).state().active is not None
    commit(folder, program_md="")
    assert main(["run"], there) == 1
    assert "there is no front matter" in capsys.readouterr().err and find(folder).state().active is not None


def test_a_stop_needs_no_model(folder: Path, server: Server) -> None:
    """Whatever is wrong with keys and addresses, a campaign that waits can be ended."""
    server.will(error(401, "no"))
    assert main(["run", "1"], machine(folder.parent, server=Models(base_url=server.url))) == 1
    assert main(["stop"], machine(folder.parent, server=Models(base_url="http://[::1/v1\n"))) == 0
    c = find(folder).state().campaigns["1"]
    assert c.ended and c.ended.why == "stopped"


def test_a_campaign_that_only_measures_its_end_needs_no_model(folder: Path, server: Server) -> None:
    """Interrupted while what it kept is held against the base, it is seen through without a key."""

    def script(job: Job) -> Result:
        c = find(folder).state().active
        if c and c.ending:
            raise KeyboardInterrupt
        return measurement(job, val_bpb=2.0 - 0.5 * ("DEPTH = 4" in job.source) + (job.seed % 100) * 1e-5)

    server.will(edit("DEPTH = 2  # layers", "DEPTH = 4  # layers"))
    assert main(["run", "1"], machine(folder.parent, script, server=Models(base_url=server.url))) == 130
    assert find(folder).state().campaigns["1"].ending
    assert main(["run"], machine(folder.parent)) == 0
    assert find(folder).state().campaigns["1"].ended


LOST = ["https://h/v1?api-version=1", "https://h/v1#x", "http://999.1.1.1/v1", "http://[v1.x]/v1"]
WRONG = [
    *LOST,
    "localhost:1/v1",
    "http://",
    "ftp://127.0.0.1/v1",
    "http://a b/v1",
    "http://a/v1\n",
    "http://[::1/v1",
    "http://a:x/v1",
]


@pytest.mark.parametrize("url", [*WRONG, "://", "host", "http://ü.org", "https://:443/v1", "file:///etc/passwd"])
def test_an_address_that_is_none_is_told_before_anything_begins(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the person's mistake: the variable, what it holds and what would be right, and no trace of a campaign."""
    assert main(["run", "1"], machine(folder.parent, server=Models(base_url=url, key=KEY))) == 1
    said = capsys.readouterr().err
    assert "OPENAI_BASE_URL is " in said and "Write it as https://HOST/v1" in said and "\n" not in said.rstrip("\n")
    assert not find(folder).exists


def settings() -> Any:
    program = parse(f"---\n{MODEL}")
    assert isinstance(program, Program)
    return program.settings


@pytest.mark.parametrize("key", ["sk-a b", "sk-a\n", "sk-\xfc", "\x00"])
def test_a_key_that_is_none_is_not_shown(key: str) -> None:
    """Characters that no header takes are told by the variable's name; nor is a password in an address shown."""
    said = lacking(settings(), Models(key=key)) or ""
    assert said.startswith("OPENAI_API_KEY holds characters that no key has") and key not in said
    for url in ("ftp://ada:secret@host/v1", "http://ada:se/cret@host:80/v1", "http://ada:cret?@h", "http://ada:cret@999.1.1.1"):
        assert "cret" not in (lacking(settings(), Models(base_url=url)) or "secret")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nothing://ada:secret@host"])
@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1/v1"])
def test_a_proxy_that_cannot_be_used_is_told(url: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reads it from the environment; it is the person's, and no bug of ours."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    said = lacking(settings(), Models(base_url=url, key=KEY)) or ""
    assert "proxy" in said and "secret" not in said


@pytest.mark.parametrize("url", ["http://localhost:11434/v1", "https://api.example.org/v1", "http://[::1]:8080", "HTTPS://h/v1/"])
def test_an_address_that_can_be_right_is_taken(url: str) -> None:
    """Whether somebody answers there is seen when asked."""
    assert lacking(settings(), Models(base_url=url)) is None


# On GitHub


@pytest.fixture
def actions(tmp_path: Path) -> Iterator[Actions]:
    here = opened(tmp_path, program=HOSTED.replace("---\nMake", f"{MODEL.partition('---')[0]}---\nMake"))
    with here.lab.double:
        here.lab.double.open_issue("alice", "Smaller", "Look at the width.")
        yield here
        assert here.lab.double.violations == []


def happened(actions: Actions, kind: type[e.Event]) -> list[Any]:
    return [event for event in actions.lab.events() if isinstance(event, kind)]


def test_a_missing_key_pauses_on_github_before_anything_is_run(actions: Actions, server: Server) -> None:
    """Once, with the sentence in the status comment, and without a run, a branch or a pull request; it goes on when mended."""
    actions.say(1, "/autoresearch 1")
    assert "1 experiment, at most $1.00, the cap of money.usd" in actions.lab.comments(1)[-1]
    actions.drain()
    for _ in range(2):
        actions.tick()
    (paused,) = happened(actions, e.Paused)
    assert "set OPENAI_API_KEY" in paused.reason and not happened(actions, e.MeasureStarted)
    assert not list(actions.lab.double.home.pulls()) and not happened(actions, e.ProposalRefused)
    (told,) = [text for text in actions.lab.comments(1) if "no key for it is there: set OPENAI_API_KEY" in text]
    assert "`/autoresearch resume` then goes on" in told
    actions.machines["server"] = Models(base_url=f"{server.url} x")
    actions.say(1, "/autoresearch resume")
    actions.drain()
    assert len(happened(actions, e.Paused)) == 2 and "OPENAI_BASE_URL is " in happened(actions, e.Paused)[1].reason
    server.will(edit("pass", "pass  # hm"))
    actions.machines["server"] = Models(base_url=server.url)
    actions.say(1, "/autoresearch resume")
    actions.drain()
    assert happened(actions, e.MeasureStarted) and server.asked
    assert {status for _, status in actions.ran} == {0}


def test_a_model_that_is_mended_on_github_is_asked_by_its_new_name(actions: Actions, server: Server) -> None:
    """program.md as it is at the resume counts; one with a mistake is told, and nothing is resumed."""
    actions.machines["server"] = Models(base_url=server.url)
    server.will(error(404, "no such model", code="model_not_found"))
    actions.say(1, "/autoresearch 1")
    actions.drain()
    assert "correct the model's name" in happened(actions, e.Paused)[0].reason
    text = actions.lab.double.bare.read("main", "program.md") or ""
    actions.lab.double.push("main", {"program.md": text.replace("proposer: m,", "proposer: [")})
    actions.say(1, "/autoresearch resume")
    assert not happened(actions, e.Resumed) and "is still paused" in actions.lab.comments(1)[-1]
    actions.lab.double.push("main", {"program.md": text.replace("proposer: m,", "proposer: n,").replace("[m 1", "[n 1")})
    actions.say(1, "/autoresearch resume")
    actions.drain()
    assert [body["model"] for body in server.asked][:2] == ["m", "n"]
