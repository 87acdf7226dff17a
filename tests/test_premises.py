"""`autoresearch init` and `doctor --github` on the double: a repository is made ready, looked at, and so are its limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import machines
from bot.__main__ import main
from bot.forge import CHECK
from bot.forge.labels import COLOURS
from bot.log import BRANCH
from bot.rulesets import ACTIONS, branches, holds, merges
from bot.settings import Budget
from bot.widths import REQUESTS, kind, widths
from tests.hosted import Actions, opened
from tests.test_workflows import repository

LABEL = {"id": 1, "name": "gpu", "type": "custom"}
GPU = {"id": 1, "name": "box", "os": "linux", "status": "online", "busy": False, "labels": [LABEL]}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Actions]:
    here = opened(tmp_path)
    with here.lab.double:
        here.lab.double.open_issue("alice", "Smaller")
        yield here
        assert here.lab.double.violations == []


def ask(place: Actions, *argv: str, who: str = "octo") -> int:
    """As the owner of the repository, unless somebody else is named."""
    return main(argv, place.machine(platform=lambda: place.lab.platform(who)))


def rows(place: Actions, capsys: pytest.CaptureFixture[str], who: str = "octo") -> dict[str, tuple[str, str]]:
    capsys.readouterr()
    ask(place, "doctor", "--github", "--json", who=who)
    out, err = capsys.readouterr()
    assert not err, err
    return {row["name"]: (row["state"], row["found"]) for row in json.loads(out)["rows"]}


def test_init_makes_what_it_can_and_says_the_rest(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels, log, settings and both rulesets are made; a machine, a click and an owner are asked for, with the way to each."""
    assert ask(place, "init", "--app-id", "1") == 1
    out, home = capsys.readouterr().out, place.lab.double.home
    assert {label.name for label in home.labels.values()} >= set(COLOURS) and home.tip(BRANCH)
    assert home.allow_auto_merge and [it["name"].split(":")[0] for it in home.rulesets] == ["autoresearch"] * 2
    protection = home.protection["main"]
    assert (protection.checks, protection.app, protection.strict) == ([CHECK], 1, True)
    assert out.count(" made ") == 5
    assert "register one with the label gpu" in out and "Allow GitHub Actions to create" in out and "@YOUR-ORG/" in out


def test_init_again_changes_nothing(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """A second time nothing is made and nothing is written, and a log that has begun is left as it is."""
    ask(place, "init", "--app-id", "1")
    tip, sent = place.lab.double.home.tip(BRANCH), len(place.lab.double.requests)
    capsys.readouterr()
    ask(place, "init", "--app-id", "1")
    assert " made " not in capsys.readouterr().out and place.lab.double.home.tip(BRANCH) == tip
    assert {it.method for it in place.lab.double.requests[sent:] if it.surface == "rest"} == {"GET"}


def test_a_ruleset_that_somebody_weakened_is_put_right(place: Actions) -> None:
    """The check taken out of the ruleset by hand is back after another init, in the same ruleset."""
    ask(place, "init", "--app-id", "1")
    ruleset = place.lab.double.home.rulesets[0]
    ruleset["rules"] = [it for it in ruleset["rules"] if it["type"] != "required_status_checks"]
    ask(place, "init", "--app-id", "1")
    assert holds(place.lab.double.home.rulesets[0], merges(1)) and len(place.lab.double.home.rulesets) == 2


def test_a_repository_that_was_made_ready_works(place: Actions) -> None:
    """After init a campaign runs through under its own rules: strict check, protected branch, a log that began with a note."""
    ask(place, "init", "--app-id", "1")
    place.say(1, "/autoresearch 2")
    place.drain()
    c = place.lab.state().campaigns["1.1"]
    assert c.ended is not None and c.settled == 2 and len(c.merged) >= 1


def test_the_doctor_finds_everything_right(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """With an App, its key, a machine and owners every row is ok, and the exit status is 0."""
    ask(place, "init", "--app-id", "1")
    home = place.lab.double.home
    home.runners.append(GPU)
    home.variables["AUTORESEARCH_APP"] = "Iv1"
    home.secrets += ["AUTORESEARCH_APP_KEY", "SLACK_BOT_TOKEN"]
    home.private = True
    place.lab.double.push("main", {".github/CODEOWNERS": "* @octo\n"})
    found = rows(place, capsys)
    assert {state for state, _ in found.values()} == {"ok"} and len(found) == 14, found


def box(*labels: str, **changes: Any) -> dict[str, Any]:
    return GPU | {"labels": [{"id": k, "name": label, "type": "custom"} for k, label in enumerate(labels)]} | changes


HOSTS: list[tuple[str, list[dict[str, Any]], bool, str, str]] = [
    ("", [box("gpu")], False, "ok", "on GitHub's machines"),
    ("ubuntu-24.04-arm", [box("gpu")], False, "ok", "ubuntu-24.04-arm"),
    ("bot", [box("gpu"), box("self-hosted", "Bot", name="small")], True, "ok", "small"),
    ("bot", [box("gpu")], True, "warn", "no machine of this repository"),
    ("bot", [box("bot", name="small", status="offline")], True, "warn", "no machine of this repository"),
    ("bot", [box("bot", name="small")], False, "missing", "the repository is public"),
    ("bot", [box("bot", "gpu")], True, "missing", "may run on box"),
    *((label, [box("gpu")], True, "missing", "candidates train") for label in ("gpu", "GPU", "self-hosted", "Linux", "X64")),
]


@pytest.mark.parametrize(("label", "runners", "private", "state", "said"), HOSTS)
def test_the_bot_never_runs_where_candidates_train(
    label: str, runners: list[dict[str, Any]], private: bool, state: str, said: str
) -> None:
    """Its jobs hold the tokens: GitHub's machine, or one of its own in a private repository, by a label that no other has."""
    row = machines.host(label, runners, private=private)
    assert (row.state, said in row.found, bool(row.fix)) == (state, True, state != "ok"), row


@pytest.mark.parametrize(
    ("value", "seconds", "state"),
    [("", 300, "ok"), ("", 3600, "missing"), ("120", 3600, "ok"), ("60", 3600, "missing"), ("an hour", 300, "missing")],
)
def test_a_run_must_fit_into_its_job(value: str, seconds: float, state: str) -> None:
    """The limit of the job is compared with the budget of program.md, and the row says what would do."""
    budget = Budget(seconds=seconds, startup_seconds=300, scoring_seconds=300)
    row = machines.minutes(value, budget)
    assert row.state == state
    wanted = re.search(r"= (\d+)", row.fix)
    assert wanted is None or machines.minutes(wanted[1], budget).state == "ok"
    usual = repository()["loop.yml"]["jobs"]["measure"]["timeout-minutes"]
    assert usual == f"${{{{ fromJSON(vars.{machines.MINUTES} || '{machines.USUAL_MINUTES}') }}}}"


def test_a_second_gpu_is_told_of(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """Two machines online: numbers of the one do not compare with the other's. All pages of them are read."""
    place.lab.double.home.runners += [*(box(name=f"other-{k}") for k in range(120)), GPU, GPU | {"name": "second"}]
    assert rows(place, capsys)["machines"] == ("warn", "2 online with the label gpu: box, second")


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("where the bot runs", {"variables": {"AUTORESEARCH_RUNNER": "self-hosted"}}, "where candidates train"),
    ("time for a run", {"variables": {"AUTORESEARCH_MEASURE_MINUTES": "5"}}, "AUTORESEARCH_MEASURE_MINUTES is 5"),
    ("workflows", {}, "no command.yml, loop.yml, nightly.yml"),
    ("secrets", {}, "SLACK_BOT_TOKEN"),
    ("machines", {"runners": [GPU | {"status": "offline"}]}, "1 with the label gpu, none online"),
    ("who the bot is", {"variables": {"AUTORESEARCH_APP": "Iv1"}}, "its key is not there"),
    ("who the bot is", {}, "may not open pull requests"),
    ("settings", {}, "allow_auto_merge"),
    ("labels", {}, f"{len(COLOURS)} of"),
    ("log", {}, f"no branch {BRANCH}"),
]


@pytest.mark.parametrize(("name", "changes", "said"), CASES, ids=[f"{name}-{said[:12]}" for name, _, said in CASES])
def test_the_doctor_says_what_is_missing(
    place: Actions, capsys: pytest.CaptureFixture[str], name: str, changes: dict[str, Any], said: str
) -> None:
    """Each thing that is not there is told as missing, with what was found."""
    home = place.lab.double.home
    if name == "workflows":
        nothing = home.bare.ask("mktree", stdin=b"").text
        place.lab.double.force_push("main", home.bare.commit_tree(nothing, [], "nothing", when=0))
    home.runners += changes.get("runners", [])
    home.variables |= changes.get("variables", {})
    state, found = rows(place, capsys)[name]
    assert state == "missing" and said in found


def test_a_token_that_may_not_look_is_no_proof_of_anything(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer who is no administrator is told what could not be seen, and how to see it; nothing is called missing for that."""
    found = rows(place, capsys, who="alice")
    assert found["machines"][0] == "warn" and "may not look" in found["machines"][1]


def test_init_without_the_right_says_so(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer's token makes the labels and the log; the rest stays missing, with whose token it takes."""
    assert ask(place, "init", who="alice") == 1
    out = capsys.readouterr().out
    assert "GitHub would not change it" in out and "token of an administrator" in out
    assert place.lab.double.home.rulesets == [] and place.lab.double.home.tip(BRANCH)


# limits


def test_the_tightest_limit_comes_first() -> None:
    """GITHUB_TOKEN binds at its requests, an App at what may be created in an hour; a longer run allows more GPUs."""
    token, app = widths(1000, 300.0), widths(5000, 300.0)
    assert "1,000 requests" in token[0].limit and token[0].gpus == pytest.approx(1000 / REQUESTS / 12)
    assert "500 content-creating" in app[0].limit and app[0].gpus == pytest.approx(500 / 4 / 12)
    assert widths(5000, 600.0)[0].gpus == pytest.approx(2 * app[0].gpus)
    assert [width.gpus for width in app] == sorted(width.gpus for width in app)


@pytest.mark.parametrize(
    ("login", "primary", "said"), [("alice", 5000, "alice"), (None, 1000, "GITHUB_TOKEN"), (None, 5000, "a GitHub App")]
)
def test_the_token_is_named(login: str | None, primary: int, said: str) -> None:
    """A person's token, the workflow's own and an App's are told apart."""
    assert said in kind(login, primary)


def test_the_doctor_shows_the_limits_of_the_token_in_use(place: Actions, capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the token's own limit and the GPUs at which each limit binds, for the budget of program.md."""
    ask(place, "doctor", "--github", who="github_token")
    out = capsys.readouterr().out
    said = ("GITHUB_TOKEN: 1,000 an hour", "500 content-creating requests an hour", "at 10 s a run")
    assert all(it in out for it in said)


def test_a_ruleset_is_compared_whatever_is_beside() -> None:
    """Fields and order that GitHub adds do not matter; another App, a missing rule or a further way around does."""
    there = merges(ACTIONS)
    assert holds(there | {"id": 1, "rules": [{**it, "x": 1} for it in reversed(there["rules"])]}, there)
    assert not holds(merges(1), there) and not holds(branches(1), there) and not holds(there | {"rules": []}, there)
    assert not holds(there | {"bypass_actors": [*there["bypass_actors"], {"actor_id": 9}]}, there)
