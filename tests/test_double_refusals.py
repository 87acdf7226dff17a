"""Each row of the double's table of refusals, reached by a real request, so none is a wish and none without a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.contract import Checked
from tests.double import Double
from tests.double.asking import BRANCH, DISABLE, ENABLE, TRAIN, Place
from tests.double.refusals import REFUSALS

FLOW = ".github/workflows/loop.yml"
FILES = {"README.md": "hello\n", TRAIN: "A = 1\n", FLOW: "on: workflow_dispatch\n", ".github/workflows/ci.yml": "on: push\n"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Double(tmp_path, files=FILES, watcher=Checked()) as double, requests.Session() as http:
        yield Place(double, http)


REACH: dict[str, Callable[[Place], requests.Response | str]] = {}


def reaches(key: str) -> Callable[[Callable[[Place], Any]], Callable[[Place], Any]]:
    def enter(way: Callable[[Place], Any]) -> Callable[[Place], Any]:
        REACH[key] = way
        return way

    return enter


def simple(key: str, line: str, by: str = "app", /, **body: Any) -> None:
    """A refusal that a single request to a fresh repository meets."""
    REACH[key] = lambda place: place.ask(line, by, **body)


LONG = "x" * 65_537
simple("anonymous", "POST /issues", "", title="x")
simple("no app", "GET ~/app")
simple("only apps", "POST /check-runs", "alice", name="x", head_sha="0" * 40)
simple("no push access", "GET /collaborators/bob/permission", "dave")
simple("not a user", "GET /collaborators/nobody/permission")
simple("not found", "GET /issues/99")
simple("no route", "GET /stargazers")
simple("no title", "POST /issues", body="x")
simple("long title", "POST /issues", title="x" * 257)
simple("long body", "POST /issues", title="x", body=LONG)
simple("label exists", "POST /labels", name="Lost")
simple("bad colour", "POST /labels", name="x", color="#ff0000")
simple("long label", "POST /labels", name="x" * 51)
simple("long label text", "POST /labels", name="x", description="x" * 101)
simple("bad head", "POST /pulls", title="x", head="nowhere", base="main")
simple("bad base", "POST /pulls", title="x", head="main", base="nowhere")
simple("no commits", "POST /pulls", title="x", head="main", base="main")
simple("ref exists", "POST /git/refs", ref="refs/heads/main", sha="main")
simple("no object", "POST /git/refs", ref="refs/heads/x", sha="0" * 40)
simple("bad ref", "POST /git/refs", ref="heads/x", sha="0" * 40)
simple("no ref", "DELETE /git/refs/heads/nowhere")
simple("protected ref", "DELETE /git/refs/heads/main")
simple("not protected", "GET /branches/main/protection", "octo")
simple("no ref found", "POST /actions/workflows/loop.yml/dispatches", ref="nowhere")
simple("no trigger", "POST /actions/workflows/ci.yml/dispatches", ref="main")
simple("many inputs", "POST /actions/workflows/loop.yml/dispatches", ref="main", inputs={f"k{k}": "" for k in range(26)})
simple("many keys", "POST /dispatches", event_type="x", client_payload={f"k{k}": "" for k in range(11)})
simple("missing", "POST /check-runs", name="val_bpb")
simple("no commit", "POST /check-runs", name="val_bpb", head_sha="0" * 40)
simple("not a member", "POST /check-runs", name="x", head_sha="0" * 40, conclusion="good")
simple("too many", "POST /check-runs", name="x", head_sha="0" * 40, output={"title": "", "summary": "", "annotations": [{}] * 51})
simple("too long", "POST /check-runs", name="x", head_sha="0" * 40, output={"title": "", "summary": "x" * 65_536})
REACH["not json"] = lambda place: place.ask("POST /issues", raw="{")
REACH["not an object"] = lambda place: place.ask("POST /issues", raw="[1]")
REACH["graphql syntax"] = lambda place: place.query("{")
REACH["graphql field"] = lambda place: place.query("{ viewer { mood } }")
REACH["graphql node"] = lambda place: place.query(ENABLE, pullRequestId="PR_0")
REACH["blank comment"] = lambda place: place.ask(f"POST /issues/{place.issue()}/comments", body=" \n")
REACH["long comment"] = lambda place: place.ask(f"POST /issues/{place.issue()}/comments", body=LONG)
REACH["bad reaction"] = lambda place: place.ask(f"POST /issues/{place.issue()}/reactions", content="eyez")
REACH["bad state"] = lambda place: place.ask(f"PATCH /issues/{place.issue()}", state="done")
REACH["no label"] = lambda place: place.ask(f"DELETE /issues/{place.issue()}/labels/none")
REACH["person"] = lambda place: place.ask(f"POST /issues/{place.issue()}/labels", "dave", labels=["Lost"])
REACH["git anonymous"] = lambda place: place.http.get(f"{place.double.git_url}/info/refs?service=git-receive-pack", timeout=20)
REACH["git forbidden"] = lambda place: place.http.get(
    f"{place.double.git_url_of('dave')}/info/refs?service=git-receive-pack", timeout=20
)
REACH["git not found"] = lambda place: place.http.get(f"{place.double.url}/octo/none.git/info/refs", timeout=20)
REACH["pull exists"] = lambda place: place.ask("POST /pulls", title="x", head=place.pull() and BRANCH, base="main")
REACH["bad method"] = lambda place: place.ask(f"PUT /pulls/{place.pull()}/merge", merge_method="octopus")
REACH["method"] = lambda place: place.ask(f"PUT /pulls/{place.pull()}/merge", merge_method="rebase")
REACH["head modified"] = lambda place: place.ask(f"PUT /pulls/{place.pull()}/merge", sha="0" * 40)
REACH["draft"] = lambda place: place.ask(f"PUT /pulls/{place.pull(draft=True)}/merge")
REACH["head sha"] = lambda place: place.ask(f"PUT /pulls/{place.pull()}/update-branch", expected_head_sha="0" * 40)
REACH["own pull"] = lambda place: place.ask(f"POST /pulls/{place.pull()}/reviews", event="APPROVE")
REACH["blank review"] = lambda place: place.ask(f"POST /pulls/{place.pull()}/reviews", "bob", event="REQUEST_CHANGES")
REACH["bad review"] = lambda place: place.ask(f"POST /pulls/{place.pull()}/reviews", "bob", event="MAYBE")


@reaches("bad credentials")
def _(place: Place) -> requests.Response:
    return place.http.get(f"{place.double.url}/repos/octo/lab", headers={"Authorization": "token who"}, timeout=20)


@reaches("git bad token")
def _(place: Place) -> requests.Response:
    return place.http.get(f"{place.double.git_url}/info/refs", auth=("x-access-token", "who"), timeout=20)


@reaches("integration")
def _(place: Place) -> requests.Response:
    del place.double.identity("app").permissions["pull_requests"]
    return place.ask(f"POST /issues/{place.pull(by='alice')}/comments", body="x")


@reaches("other app")
def _(place: Place) -> requests.Response:
    run = place.run(place.double.bare.resolve("main") or "").json()["id"]
    return place.ask(f"PATCH /check-runs/{run}", "github_token", conclusion="success")


def moved(place: Place, method: str) -> requests.Response:
    place.double.rename("octo/laboratory")
    return place.ask(f"{method} ~/repos/octo/lab")


REACH["moved"] = lambda place: moved(place, "GET")
REACH["moved for now"] = lambda place: moved(place, "PATCH")


@reaches("archived")
def _(place: Place) -> requests.Response:
    place.double.archive()
    return place.ask("POST /issues", title="x")


@reaches("git archived")
def _(place: Place) -> requests.Response:
    place.double.archive()
    return place.http.get(f"{place.double.git_url_of('alice')}/info/refs?service=git-receive-pack", timeout=20)


@reaches("no issues")
def _(place: Place) -> requests.Response:
    place.double.home.has_issues = False
    return place.ask("POST /issues", title="x")


@reaches("locked")
def _(place: Place) -> requests.Response:
    place.double.lock(number := place.issue())
    return place.ask(f"POST /issues/{number}/comments", body="x")


@reaches("primary limit")
def _(place: Place) -> requests.Response:
    place.double.limits.hourly["app"] = 1
    place.ask("GET /labels")
    return place.ask("GET /labels")


def hurried(place: Place, status: int) -> requests.Response:
    limits = place.double.limits
    limits.secondary, limits.creations, limits.status = True, 1, status
    place.ask("POST /issues", title="x")
    return place.ask("POST /issues", title="x")


REACH["secondary limit"] = lambda place: hurried(place, 403)
REACH["secondary limit 429"] = lambda place: hurried(place, 429)


def faulty(place: Place, kind: str) -> requests.Response:
    place.double.fail(with_=kind)
    return place.ask("GET /labels")


REACH["invalid"] = lambda place: faulty(place, "422")
REACH["base modified"] = lambda place: faulty(place, "405 base modified")


@reaches("cannot reopen")
def _(place: Place) -> requests.Response:
    number = place.pull()
    place.double.delete_branch(BRANCH)
    return place.ask(f"PATCH /pulls/{number}", state="open")


@reaches("not mergeable")
def _(place: Place) -> requests.Response:
    number = place.pull()
    place.double.push("main", {TRAIN: "A = 3\n"})
    return place.ask(f"PUT /pulls/{number}/merge", merge_method="squash")


@reaches("update conflict")
def _(place: Place) -> requests.Response:
    number = place.pull()
    place.double.push("main", {TRAIN: "A = 3\n"})
    return place.ask(f"PUT /pulls/{number}/update-branch")


def checked(place: Place, **run: Any) -> requests.Response:
    place.double.protect(checks=("val_bpb",))
    number = place.pull()
    if run:
        place.run(place.head(number), **run)
    return place.ask(f"PUT /pulls/{number}/merge", merge_method="squash")


REACH["check expected"] = checked
REACH["check pending"] = lambda place: checked(place, status="in_progress")
REACH["check failing"] = lambda place: checked(place, conclusion="timed_out")


@reaches("behind")
def _(place: Place) -> requests.Response:
    place.double.protect(strict=True)
    number = place.pull()
    place.double.push("main", {"README.md": "news\n"})
    return place.ask(f"PUT /pulls/{number}/merge", merge_method="squash")


def reviewed(place: Place, state: str) -> requests.Response:
    place.double.protect(reviews=1)
    number = place.pull()
    place.double.review(number, "bob", state, "no")
    return place.ask(f"PUT /pulls/{number}/merge", merge_method="squash")


REACH["review missing"] = lambda place: reviewed(place, "COMMENTED")
REACH["changes requested"] = lambda place: reviewed(place, "CHANGES_REQUESTED")


@reaches("not ahead")
def _(place: Place) -> requests.Response:
    old = place.double.bare.resolve("main")
    place.double.push("side", {"README.md": "news\n"})
    return place.ask("PATCH /git/refs/heads/side", sha=old)


@reaches("variable exists")
def _(place: Place) -> requests.Response:
    place.double.identity("app").permissions["variables"] = "write"
    place.ask("POST /actions/variables", name="PAUSE", value="1")
    return place.ask("POST /actions/variables", name="pause", value="1")


def armed(place: Place, text: str = ENABLE, *, allow: bool = True, protect: tuple[str, ...] = ("val_bpb",), **given: Any) -> Any:
    place.double.home.allow_auto_merge = allow
    if protect:
        place.double.protect(checks=protect)
    number = place.pull()
    return place.query(text, pullRequestId=place.ask(f"GET /pulls/{number}").json()["node_id"], **given)


REACH["auto not allowed"] = lambda place: armed(place, allow=False)
REACH["auto unprotected"] = lambda place: armed(place, protect=())
REACH["auto head"] = lambda place: armed(place, expectedHeadOid="0" * 40)
REACH["auto not on"] = lambda place: armed(place, DISABLE)


@reaches("auto not needed")
def _(place: Place) -> requests.Response:
    place.double.home.allow_auto_merge = True
    place.double.protect(checks=("val_bpb",))
    number = place.pull()
    place.run(place.head(number), conclusion="success")
    return place.query(ENABLE, pullRequestId=place.ask(f"GET /pulls/{number}").json()["node_id"])


@reaches("auto closed")
def _(place: Place) -> requests.Response:
    number = place.pull()
    place.double.close(number, "alice")
    return place.query(ENABLE, pullRequestId=place.ask(f"GET /pulls/{number}").json()["node_id"])


@reaches("push protected")
def _(place: Place) -> str:
    place.double.protect()
    return place.push("alice", "HEAD:main")


@reaches("push workflow")
def _(place: Place) -> str:
    return place.push("github_token", "HEAD:refs/heads/new", ".github/workflows/new.yml")


# GitHub's description of these operations lists no such status, but clients meet it.
UNLISTED = {"checks/create 422", "actions/create-workflow-dispatch 422", "actions/create-repo-variable 409"}


def undescribed(complaints: list[str]) -> list[str]:
    """The complaints about an answer (the requests are wrong on purpose), but for UNLISTED and for null where GitHub's text says
    `nullable` beside an enum: it sends null there, and by the letter of OpenAPI 3.0 must not."""
    found = [it for it in complaints if re.search(r": (GitHub lists no )?answer \d", it) and ": None is not " not in it]
    return [it for it in found if re.sub(r": GitHub lists no answer (\d+) here$", r" \1", it) not in UNLISTED]


def pattern(message: str) -> str:
    """The words of a row with anything in its holes."""
    return re.sub(r"\\\{\w+\\\}", ".*", re.escape(message))


@pytest.mark.parametrize("key", sorted(REFUSALS))
def test_each_refusal_is_reached(place: Place, key: str) -> None:
    """A real request meets the row: its status, which GitHub lists for that operation, its words, and in JSON its source."""
    place.ask("POST /labels", name="Lost")
    refusal, met = REFUSALS[key], REACH[key](place)
    assert undescribed(place.double.violations) == []
    if isinstance(met, str):
        assert re.search(pattern(refusal.message), met)
        return
    assert met.status_code == refusal.status, met.text
    if "application/json" not in met.headers["Content-Type"]:
        assert re.fullmatch(pattern(refusal.message), met.text.strip())
        return
    body = met.json()
    said = [body.get("message", "")] + [str(it.get("message", it)) for it in body.get("errors", [])]
    if refusal.error:
        resource, field, code = refusal.error
        assert body["message"] == "Validation Failed"
        assert {"resource": resource, "field": field, "code": code}.items() <= body["errors"][0].items()
    if refusal.error is None or refusal.error[2] != "invalid":
        assert any(re.fullmatch(pattern(refusal.message), it, re.DOTALL) for it in said), said
    assert refusal.status == 200 or body["documentation_url"] == refusal.source


def test_every_way_leads_to_a_row() -> None:
    """The ways of this file and the rows of the table are the same."""
    assert set(REACH) == set(REFUSALS)


@pytest.mark.parametrize("key", sorted(REFUSALS))
def test_each_refusal_has_a_public_source(key: str) -> None:
    """A page of GitHub's documentation, or a public thread where the words were reported; and it says when it comes."""
    refusal = REFUSALS[key]
    assert re.match(r"https://(docs\.github\.com/en/|github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+$)", refusal.source)
    assert refusal.when
