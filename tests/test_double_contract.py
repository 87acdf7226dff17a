"""The double against GitHub's own description of its interface (tests/contract): every endpoint is one of GitHub's, and every
answer, payload and refusal has only fields that GitHub knows, of its types, and a status that it lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bot.rulesets import branches, merges
from tests.contract import Checked, operation
from tests.double import Double
from tests.double.asking import BRANCH, DISABLE, ENABLE, TRAIN, Place
from tests.double.routes import DIGITS, ROUTES, Route

FILES = {TRAIN: "A = 1\n", ".github/workflows/loop.yml": "on: workflow_dispatch\n"}
UNLISTED = {"/repos/{owner}/{repo}/git/refs"}  # GitHub still answers it and PyGithub asks for it; documented is matching-refs


ALL = """query($owner: String!, $name: String!, $number: Int!, $id: ID!) {
  viewer { login databaseId id avatarUrl url resourcePath }
  repository(owner: $owner, name: $name) {
    id databaseId name nameWithOwner isArchived isPrivate autoMergeAllowed deleteBranchOnMerge squashMergeAllowed
    defaultBranchRef { name target { oid } }
    pullRequest(number: $number) {
      __typename id number title body url state closed merged mergedAt mergeable mergeStateStatus isDraft headRefName headRefOid
      baseRefName baseRefOid reviewDecision mergeCommit { oid } mergedBy { login } author { login }
      labels(first: 9) { totalCount nodes { name } } reviews(first: 9) { nodes { state body author { login } } }
      autoMergeRequest { mergeMethod commitHeadline commitBody enabledBy { login } } } }
  node(id: $id) { ... on PullRequest { number } } }"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Double(tmp_path, files=FILES, watcher=Checked()) as double, requests.Session() as http:
        double.identity("app").permissions |= {"administration": "write", "secrets": "read", "variables": "write"}
        yield Place(double, http)


def filled(template: str) -> str:
    values = {"basehead": "main...x", "ref": "heads/main", "path": TRAIN}
    return re.sub(r"\{(\w+)\}", lambda hole: "7" if hole[1] in DIGITS else values.get(hole[1], "x"), template)


@pytest.mark.parametrize("route", ROUTES, ids=lambda it: f"{it.method} {it.template}")
def test_each_route_is_githubs(route: Route) -> None:
    """Method and template are those of an operation that GitHub describes."""
    known = operation(route.method, filled(route.template))
    if route.method == "GET" and route.template in UNLISTED:
        assert known is None
        return
    assert known is not None
    assert known.template == route.template


def walk(place: Place) -> None:
    """Every route once, where it succeeds."""
    double, issue = place.double, place.issue()
    for line in ("GET ~/user", "GET ~/users/bob"):
        place.ask(line, "alice")
    place.ask("GET ~/app", "jwt")
    for line in ("", "/branches", "/branches/main", "/rules/branches/main", "/collaborators/bob/permission", "/labels",
                 "/commits", f"/contents/{TRAIN}", "/contents/trainer", "/git/ref/heads/main", "/git/matching-refs/heads/m",
                 "/commits/main", "/actions/workflows", "/actions/workflows/loop.yml", "/actions/runners",
                 "/issues/comments"):  # fmt: skip
        place.ask(f"GET {line}")
    place.ask("GET ~/rate_limit")
    place.ask("GET ~/installation/repositories")
    talk(place, issue)
    label(place, issue)
    review(place)
    check(place)
    act(place)
    checks, reviews = {"strict": True, "contexts": ["x"]}, {"required_approving_review_count": 1}
    rules = "PUT /branches/main/protection"
    place.ask(rules, enforce_admins=True, restrictions=None, required_status_checks=checks, required_pull_request_reviews=reviews)
    place.ask("GET /branches/main/protection")
    place.ask("GET /branches/main")
    place.ask("DELETE /branches/main/protection")
    place.ask("PATCH ", allow_auto_merge=True)
    assert double.unknown == []


def talk(place: Place, issue: int) -> None:
    place.ask("POST /issues", title="x", labels=["a"])
    comment = place.ask(f"POST /issues/{issue}/comments", body="x").json()["id"]
    for path in (f"/issues/{issue}", f"/issues/comments/{comment}"):
        reaction = place.ask(f"POST {path}/reactions", content="eyes").json()["id"]
        place.ask(f"POST {path}/reactions", content="eyes")
        place.ask(f"GET {path}/reactions")
        place.ask(f"GET {path}")
    place.ask(f"DELETE /issues/comments/{comment}/reactions/{reaction}")
    place.ask(f"PATCH /issues/comments/{comment}", body="y")
    place.ask(f"GET /issues/{issue}/comments")
    place.ask(f"DELETE /issues/comments/{comment}")
    place.ask(f"PATCH /issues/{issue}", title="y", state="closed", state_reason="completed", labels=["b"])
    place.ask("GET /issues?state=all")


def label(place: Place, issue: int) -> None:
    place.ask("POST /labels", name="won", color="00ff00", description="it won")
    place.ask("GET /labels/won")
    place.ask("PATCH /labels/won", new_name="lost", color="ff0000")
    on = f"/issues/{issue}/labels"
    place.ask(f"POST {on}", labels=["lost"])
    place.ask(f"PUT {on}", labels=["lost", "a"])
    place.ask(f"GET {on}")
    place.ask(f"DELETE {on}/a")
    place.ask(f"DELETE {on}")
    place.ask("DELETE /labels/lost")


def review(place: Place) -> None:
    number = place.pull()
    one = f"/pulls/{number}"
    said = place.ask(f"POST {one}/reviews", "bob", event="REQUEST_CHANGES", body="no").json()["id"]
    place.ask(f"PUT {one}/reviews/{said}/dismissals", message="never mind")
    line = place.double.comment_on_line(number, "bob", "why?", path=TRAIN).payload["comment"]["id"]
    place.ask(f"POST {one}/comments/{line}/replies", body="because")
    place.ask(f"POST /pulls/comments/{line}/reactions", content="eyes")
    for path in (f"/pulls/comments/{line}", f"/pulls/comments/{line}/reactions"):
        place.ask(f"GET {path}")
    for line in ("", "/files", "/commits", "/reviews", "/comments", "/merge"):
        place.ask(f"GET {one}{line}")
    place.ask("GET /pulls?state=all&head=octo:x&sort=updated&direction=asc")
    place.ask(f"PATCH {one}", title="y", body="z")
    place.double.push("main", {"README.md": "news\n"})
    place.ask(f"PUT {one}/update-branch", expected_head_sha=place.head(number))
    node = place.ask(f"GET {one}").json()["node_id"]
    place.double.home.allow_auto_merge = True
    place.double.protect(reviews=1)
    place.query(ENABLE, pullRequestId=node, mergeMethod="SQUASH", expectedHeadOid=place.head(number))
    place.ask(f"GET {one}")
    asked = {"owner": "octo", "name": "lab", "number": number, "id": node}
    assert "errors" not in place.ask("POST ~/graphql", query=ALL, variables=asked).json()
    place.query(DISABLE, pullRequestId=node)
    place.double.home.protection.clear()
    place.ask(f"PUT {one}/merge", merge_method="squash", sha=place.head(number), commit_title="t", commit_message="m")
    for line in ("", "/merge"):
        place.ask(f"GET {one}{line}")
    place.ask(f"GET /compare/main...{BRANCH}")
    place.ask(f"DELETE /git/refs/heads/{BRANCH}")


def check(place: Place) -> None:
    number = place.pull("autoresearch/1/2")
    head = place.head(number)
    note = {"path": TRAIN, "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "here"}
    run = place.run(head, status="in_progress", external_id="1", details_url="https://example.org").json()["id"]
    output = {"title": "t", "summary": "s", "text": "x", "annotations": [note]}
    place.ask(f"PATCH /check-runs/{run}", conclusion="success", output=output)
    for line in (
        f"/check-runs/{run}",
        f"/check-runs/{run}/annotations",
        f"/commits/{head}/check-runs?check_name=x&filter=all",
    ):
        place.ask(f"GET {line}")
    place.ask("POST /git/refs", ref="refs/heads/side", sha=head)
    place.ask("PATCH /git/refs/heads/side", sha=place.double.bare.resolve("main"), force=True)


def act(place: Place) -> None:
    dispatch = "POST /actions/workflows/loop.yml/dispatches"
    place.ask(dispatch, ref="main", inputs={"n": "4"})
    run = place.ask(dispatch, ref="main", return_run_details=True).json()["workflow_run_id"]
    place.ask("GET /actions/runs?status=queued")
    place.ask("GET /actions/workflows/loop.yml/runs?event=workflow_dispatch")
    place.ask(f"GET /actions/runs/{run}")
    place.ask(f"POST /actions/runs/{run}/cancel")
    place.ask("POST /dispatches", event_type="x", client_payload={"n": 1})
    place.ask("POST /actions/variables", name="PAUSE", value="1")
    place.ask("PATCH /actions/variables/PAUSE", value="2")
    place.ask("GET /actions/variables/PAUSE")
    for line in ("secrets", "permissions/workflow"):
        place.ask(f"GET /actions/{line}")
    number = place.ask("POST /rulesets", **merges(1)).json()["id"]
    place.ask(f"PUT /rulesets/{number}", **branches(1))
    place.ask("GET /rulesets")
    place.ask(f"GET /rulesets/{number}")
    place.ask("GET /actions/variables")


def test_every_answer_is_one_that_github_describes(place: Place) -> None:
    """A walk over all routes: every request and every answer fits, and no route is left out."""
    walk(place)
    # "nullable" beside an enum or an anyOf without null: GitHub sends null there, and by the letter of OpenAPI 3.0 must not
    wrong = [it for it in place.double.violations if not re.search(r": None is not (one of|valid under any)", it)]
    assert wrong == []
    failed = [f"{it.method} {it.template} {it.status}" for it in place.double.requests if it.status >= 400]
    assert failed == ["GET /repos/{owner}/{repo}/pulls/{pull_number}/merge 404"], "not merged yet"
    walked = {(it.method, it.template) for it in place.double.requests}
    missing = {(it.method, it.template) for it in ROUTES} - walked - {("GET", path) for path in UNLISTED}
    assert missing == set()
