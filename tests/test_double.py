"""The double of GitHub behaves as GitHub's documentation says, seen by PyGithub and by plain requests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from github import GithubException

from tests.double import Double
from tests.double.asking import BRANCH, DISABLE, ENABLE, TRAIN, Place, client
from tests.double.faults import KINDS, REFUSING, STATUS
from tests.double.shapes import stamp
from tests.worlds import Clock

FLOW = ".github/workflows/loop.yml"
FILES = {"README.md": "hello\n", TRAIN: "A = 1\n", FLOW: "on: workflow_dispatch\n"}
CHECK = "autoresearch/val_bpb"
READ = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
  id state merged headRefOid reviewDecision mergeCommit { oid } autoMergeRequest { mergeMethod enabledBy { login } } ...rest } } }
  fragment rest on PullRequest { stateNow: mergeStateStatus labels(first: 9) { nodes { name } } }"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def double(tmp_path: Path, clock: Clock) -> Iterator[Double]:
    with Double(tmp_path, files=FILES, now=clock) as it:
        yield it


@pytest.fixture
def place(double: Double) -> Iterator[Place]:
    with requests.Session() as http:
        yield Place(double, http)


# the walk of a bot


def test_pygithub_walks_a_whole_pull_request(double: Double) -> None:
    """From a comment to a squashed merge, every call of the library finds its route and every URL its host."""
    double.push(BRANCH, {TRAIN: "A = 2\n"})
    with client(double) as github:
        repo = github.get_repo(double.repo)
        issue = repo.create_issue("Faster", body="please", labels=["autoresearch"])
        comment = issue.create_comment("on it")
        comment.edit("done")
        comment.create_reaction("rocket")
        pull = repo.create_pull(base=repo.default_branch, head=BRANCH, title="A to 2", body=f"Fixes #{issue.number}")
        pull.add_to_labels("won")
        run = repo.create_check_run(CHECK, pull.head.sha, status="in_progress")
        run.edit(conclusion="success", output={"title": "0.9", "summary": "better"})
        assert (pull.mergeable, pull.mergeable_state, [it.filename for it in pull.get_files()]) == (True, "clean", [TRAIN])
        landed = pull.merge(sha=pull.head.sha, merge_method="squash", commit_title="A to 2", commit_message="why")
        repo.get_git_ref(f"heads/{BRANCH}").delete()
        pull.update()
        assert (pull.merged, pull.state, pull.merge_commit_sha, pull.merged_by.login) == (
            True,
            "closed",
            landed.sha,
            "autoresearch[bot]",
        )
        assert [it.body for it in issue.get_comments()] == ["done"]
        assert [it.name for it in issue.labels] == ["autoresearch"]
        assert issue.update() and issue.state == "closed", "the pull request said Fixes"
        assert {label.name: label.color for label in repo.get_labels()} == {"autoresearch": "ededed", "won": "ededed"}
    assert double.bare.read("main", TRAIN) == "A = 2\n"
    assert double.bare.log("main", limit=1)[0][1] == "A to 2\n\nwhy"
    assert double.unknown == []


def test_each_request_is_on_the_record(place: Place) -> None:
    """Method, GitHub's template, status, whether it writes and creates, and whose token it was."""
    number = place.issue()
    place.ask(f"POST /issues/{number}/comments", body="x")
    place.ask("GET /labels", "alice")
    place.ask("GET /nothing")
    first, second, third = place.double.requests
    assert (first.method, first.template, first.status) == ("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments", 201)
    assert (first.creates, first.writes, first.kind, first.login) == (True, True, "app", "autoresearch[bot]")
    assert (second.creates, second.writes, second.kind, second.login) == (False, False, "pat", "alice")
    assert (third.status, place.double.unknown) == (404, ["GET /repos/octo/lab/nothing"])


def test_what_creates_content_is_what_github_counts(place: Place) -> None:
    """Issues, comments and their edits, pull requests, reviews and check runs; not labels, reactions, refs, merges."""
    number = place.pull()
    comment = place.ask(f"POST /issues/{number}/comments", body="x").json()["id"]
    place.ask(f"PATCH /issues/comments/{comment}", body="y")
    place.ask(f"POST /issues/{number}/reactions", content="eyes")
    place.ask(f"POST /issues/{number}/labels", labels=["a"])
    place.ask(f"POST /pulls/{number}/reviews", "bob", event="APPROVE")
    run = place.run(place.head(number)).json()["id"]
    place.ask(f"PATCH /check-runs/{run}", conclusion="success")
    place.ask(f"PUT /pulls/{number}/merge")
    place.ask(f"DELETE /git/refs/heads/{BRANCH}")
    made = [f"{it.method} {it.path}" for it in place.double.requests if it.creates]
    assert [it.rpartition("/")[2] for it in made] == ["pulls", "comments", str(comment), "reviews", "check-runs"]


# issues, comments, labels, permissions


def test_a_reaction_is_a_test_and_set(place: Place) -> None:
    """201 for the first, 200 for the same again by the same user, 201 for another user; eight at once have one winner."""
    number = place.issue()
    post = f"POST /issues/{number}/reactions"
    with ThreadPoolExecutor(8) as pool:
        codes = Counter(pool.map(lambda _: place.ask(post, content="eyes").status_code, range(8)))
    assert codes == {201: 1, 200: 7}
    assert place.ask(post, "alice", content="eyes").status_code == 201
    assert place.ask(f"GET /issues/{number}").json()["reactions"]["eyes"] == 2


@pytest.mark.parametrize(
    ("login", "legacy", "role"),
    [("octo", "admin", "admin"), ("bob", "write", "maintain"), ("alice", "write", "write"), ("carol", "read", "triage"),
     ("dave", "read", "read"), ("eve", "read", "read")],
)  # fmt: skip
def test_permission_has_a_legacy_word_and_a_true_role(place: Place, login: str, legacy: str, role: str) -> None:
    """maintain is shown as write and triage as read; role_name says what it is."""
    shown = place.ask(f"GET /collaborators/{login}/permission").json()
    assert (shown["permission"], shown["role_name"]) == (legacy, role)


def test_a_private_repository_is_not_there_for_strangers(place: Place) -> None:
    """404, not 403, for reading and for writing; and its own people and bots see it."""
    place.double.home.private = True
    codes = [place.ask(line, by).status_code for line in ("GET /labels", "POST /issues") for by in ("eve", "")]
    assert codes == [404] * 4
    assert [place.ask("GET /labels", by).status_code for by in ("dave", "app")] == [200, 200]
    assert place.ask("GET /collaborators/eve/permission").json()["permission"] == "none"


def test_lists_come_in_pages(place: Place, double: Double) -> None:
    """Thirty a page unless asked, at most a hundred; PyGithub follows the links to the end."""
    number = place.issue()
    for k in range(65):
        double.comment(number, "alice", str(k))
    first = place.ask(f"GET /issues/{number}/comments")
    assert len(first.json()) == 30
    assert set(first.links) == {"next", "last"}
    last = place.http.get(first.links["last"]["url"], timeout=9)
    assert (len(last.json()), set(last.links)) == (5, {"prev", "first"})
    assert len(place.ask(f"GET /issues/{number}/comments?per_page=500").json()) == 65
    with client(double) as github:
        assert [it.body for it in github.get_repo(double.repo).get_issue(number).get_comments()] == [str(k) for k in range(65)]


def test_who_may_do_what(place: Place) -> None:
    """A reader may comment and edit what is theirs; the labels they ask for are dropped; the rest is for those with a role."""
    mine = place.ask("POST /issues", "eve", title="x", labels=["a"]).json()
    assert mine["labels"] == []
    assert place.ask(f"PATCH /issues/{mine['number']}", "eve", state="closed").status_code == 200
    assert place.ask(f"PATCH /issues/{mine['number']}", "dave", title="y").status_code == 403
    assert place.ask(f"PATCH /issues/{mine['number']}", "carol", title="y").status_code == 200
    number = place.pull()
    assert [place.ask(f"PUT /pulls/{number}/merge", by).status_code for by in ("eve", "carol", "alice")] == [403, 403, 200]


def test_an_apps_refusal_names_the_permission(place: Place) -> None:
    """X-Accepted-GitHub-Permissions is that of what the conversation hangs on, whatever the URL says."""
    place.double.identity("app").permissions |= {"pull_requests": "read", "issues": "read"}
    number = place.pull(by="alice")
    for hangs_on, name in ((number, "pull_requests"), (place.issue(), "issues")):
        refused = place.ask(f"POST /issues/{hangs_on}/comments", body="x")
        assert (refused.status_code, refused.headers["X-Accepted-GitHub-Permissions"]) == (403, f"{name}=write")


def test_pull_requests_write_does_not_make_labels(place: Place) -> None:
    """A label that exists can be put on, one that does not cannot."""
    place.ask("POST /labels", name="Won", color="00FF00")
    place.double.identity("app").permissions["issues"] = "read"
    number = place.pull()
    put = [place.ask(f"POST /issues/{number}/labels", labels=[name]) for name in ("won", "new")]
    assert [it.status_code for it in put] == [200, 403]
    assert put[0].json()[0] | {"name": "Won", "color": "00ff00"} == put[0].json()[0]


def test_a_locked_conversation_is_open_to_writers(place: Place) -> None:
    """People with write access comment on; a bot and a stranger do not."""
    place.double.lock(number := place.issue())
    assert [place.ask(f"POST /issues/{number}/comments", by, body="x").status_code for by in ("alice", "eve", "app")] == [
        201,
        403,
        403,
    ]


# pull requests and merging


def test_siblings_merge_without_losing_each_other(place: Place) -> None:
    """Two pull requests from one base that touch different files both end up on the default branch."""
    place.double.push("one", {"one.txt": "1\n"})
    place.double.push("two", {"two.txt": "2\n"})
    for branch in ("one", "two"):
        number = place.ask("POST /pulls", title=branch, head=branch, base="main").json()["number"]
        assert place.ask(f"PUT /pulls/{number}/merge", merge_method="squash").json()["merged"]
    assert {"one.txt", "two.txt"} <= set(place.double.bare.paths("main"))
    assert len(place.double.bare.log("main", limit=9)) == 3, "one commit each"


def test_mergeable_is_null_until_it_is_computed(place: Place) -> None:
    """So many looks find null, again after each push; then it is a boolean with its state."""
    place.double.hub.lazy = 1
    number = place.pull()  # the answer to its creation is the first look
    states = [place.ask(f"GET /pulls/{number}").json() for _ in range(2)]
    place.double.push("main", {TRAIN: "A = 3\n"})
    states += [place.ask(f"GET /pulls/{number}").json() for _ in range(2)]
    shown = [(it["mergeable"], it["mergeable_state"]) for it in states]
    assert shown == [(True, "clean"), (True, "clean"), (None, "unknown"), (False, "dirty")]


@pytest.mark.parametrize(
    ("run", "state"),
    [({}, "blocked"), ({"conclusion": "skipped"}, "clean"), ({"conclusion": "neutral"}, "clean"),
     ({"conclusion": "cancelled"}, "blocked"), ({"status": "queued"}, "blocked"), ({"conclusion": "success"}, "clean")],
)  # fmt: skip
def test_a_required_check_passes_when_skipped(place: Place, run: dict[str, str], state: str) -> None:
    """skipped and neutral satisfy a required check as success does: a crash must never be reported as one of these."""
    place.double.protect(checks=(CHECK,))
    number = place.pull()
    if run:
        place.run(place.head(number), name=CHECK, **run)
    assert place.ask(f"GET /pulls/{number}").json()["mergeable_state"] == state


def test_a_required_check_may_be_bound_to_an_app(place: Place) -> None:
    """Then the same name from another app, such as a workflow's own token, does not satisfy it."""
    place.double.protect(checks=(CHECK,), app=1)
    number = place.pull()
    states = []
    for by in ("github_token", "app"):
        place.run(place.head(number), by, name=CHECK, conclusion="success")
        states.append(place.ask(f"GET /pulls/{number}").json()["mergeable_state"])
    assert states == ["blocked", "clean"]


def test_without_a_rule_a_red_check_is_only_unstable(place: Place) -> None:
    """Where no check is required a failed one does not keep anybody from merging."""
    number = place.pull()
    place.run(place.head(number), conclusion="failure")
    assert place.ask(f"GET /pulls/{number}").json()["mergeable_state"] == "unstable"
    assert place.ask(f"PUT /pulls/{number}/merge").status_code == 200


def test_head_filters_only_with_its_owner(place: Place) -> None:
    """`head=branch` is ignored, as on GitHub; `head=owner:branch` finds the one."""
    place.pull("a")
    found = place.pull("b")
    asked = [place.ask(f"GET /pulls?state=all&head={head}").json() for head in ("b", "octo:b", "octo:c")]
    assert [len(it) for it in asked] == [2, 1, 0]
    assert asked[1][0]["number"] == found
    assert "mergeable" not in asked[1][0], "lists do not have it"


def test_a_pull_request_is_an_issue(place: Place) -> None:
    """Same number, shown among the issues with the mark that tells them apart."""
    number = place.pull()
    (only,) = place.ask("GET /issues").json()
    assert (only["number"], only["pull_request"]["merged_at"]) == (number, None)
    assert place.ask(f"GET /pulls/{place.issue()}").status_code == 404


def test_the_branch_may_go_with_the_merge(place: Place) -> None:
    """With delete_branch_on_merge a later deletion meets 422, not 404, and the commits stay at refs/pull/N/head."""
    place.double.home.delete_branch_on_merge = True
    number = place.pull()
    head = place.head(number)
    assert place.ask(f"PUT /pulls/{number}/merge", sha=head).status_code == 200
    assert place.ask(f"DELETE /git/refs/heads/{BRANCH}").status_code == 422
    assert place.double.bare.resolve(f"refs/pull/{number}/head") == head


def test_update_branch_makes_it_up_to_date(place: Place) -> None:
    """The base is merged into the head, after which a strict rule is met."""
    place.double.protect(strict=True)
    number = place.pull()
    place.double.push("main", {"README.md": "news\n"})
    assert place.ask(f"GET /pulls/{number}").json()["mergeable_state"] == "behind"
    assert place.ask(f"PUT /pulls/{number}/update-branch").status_code == 202
    assert place.ask(f"GET /pulls/{number}").json()["mergeable_state"] == "clean"


# auto-merge, by GraphQL


def armed(place: Place) -> tuple[int, str]:
    """A pull request that waits for its check, with auto-merge on."""
    place.double.home.allow_auto_merge = True
    place.double.protect(checks=(CHECK,))
    number = place.pull()
    node = place.ask(f"GET /pulls/{number}").json()["node_id"]
    asked = {"pullRequestId": node, "expectedHeadOid": place.head(number), "mergeMethod": "SQUASH", "commitHeadline": "by itself"}
    assert "errors" not in place.query(ENABLE, **asked).json()
    return number, node


def read(place: Place, number: int) -> dict[str, Any]:
    names = {"owner": "octo", "name": "lab", "number": number}
    body: dict[str, Any] = place.ask("POST ~/graphql", query=READ, variables=names).json()
    pull: dict[str, Any] = body["data"]["repository"]["pullRequest"]
    return pull


def test_auto_merge_merges_when_the_check_passes(place: Place) -> None:
    """Armed, red: nothing; green: merged by who armed it, with the given headline."""
    number, _ = armed(place)
    before = read(place, number)
    assert before["autoMergeRequest"] == {"mergeMethod": "SQUASH", "enabledBy": {"login": "autoresearch"}}
    assert (before["state"], before["stateNow"], before["mergeCommit"]) == ("OPEN", "BLOCKED", None)
    run = place.run(place.head(number), name=CHECK, conclusion="failure").json()["id"]
    assert read(place, number)["state"] == "OPEN"
    place.ask(f"PATCH /check-runs/{run}", conclusion="success")
    after = read(place, number)
    assert (after["state"], after["merged"], after["autoMergeRequest"]) == ("MERGED", True, None)
    assert place.double.bare.log("main", limit=1) == [(after["mergeCommit"]["oid"], "by itself")]


def test_auto_merge_can_be_switched_off(place: Place) -> None:
    """Then the green check merges nothing."""
    number, node = armed(place)
    place.query(DISABLE, pullRequestId=node)
    place.run(place.head(number), name=CHECK, conclusion="success")
    assert read(place, number)["state"] == "OPEN"


@pytest.mark.parametrize(("by", "stays"), [("alice", True), ("eve", False)])
def test_a_push_of_a_stranger_disarms(place: Place, by: str, stays: bool) -> None:
    """A head pushed by somebody without write access switches auto-merge off; a writer's does not."""
    number, _ = armed(place)
    place.double.push(BRANCH, {TRAIN: "A = 9\n"}, by=by)
    assert (read(place, number)["autoMergeRequest"] is not None) is stays


def test_the_review_decision_follows_the_last_word_of_each(place: Place) -> None:
    """Null without a rule; else required, changes requested, approved; a reader's approval does not count."""
    number = place.pull()
    said = [read(place, number)["reviewDecision"]]
    place.double.protect(reviews=1)
    said.append(read(place, number)["reviewDecision"])
    for by, state in (("dave", "APPROVED"), ("bob", "CHANGES_REQUESTED"), ("bob", "COMMENTED"), ("bob", "APPROVED")):
        place.double.review(number, by, state, "hm")
        said.append(read(place, number)["reviewDecision"])
    assert said == [None, "REVIEW_REQUIRED", "REVIEW_REQUIRED", "CHANGES_REQUESTED", "CHANGES_REQUESTED", "APPROVED"]


def test_pygithub_speaks_to_graphql(place: Place) -> None:
    """Its own mutation and query texts are understood, and a refusal becomes its exception."""
    number = place.pull()
    with client(place.double) as github:
        pull = github.get_repo("octo/lab").get_pull(number)
        with pytest.raises(GithubException, match="Auto merge is not allowed"):
            pull.enable_automerge("SQUASH")
        place.double.home.allow_auto_merge = True
        place.double.protect(checks=(CHECK,))
        assert pull.enable_automerge("SQUASH", expected_head_oid=pull.head.sha)["actor"]["login"] == "autoresearch"
        pull.disable_automerge()
    assert place.double.unknown == []


# check runs


def test_the_latest_run_of_a_name_is_shown(place: Place) -> None:
    """filter=latest is the default and leaves one of each name; all shows all; check_name picks."""
    head = place.double.bare.resolve("main") or ""
    for name in ("a", "b", "a"):
        place.run(head, name=name)
    counts = [
        place.ask(f"GET /commits/{head}/check-runs{query}").json()["total_count"]
        for query in ("", "?filter=all", "?check_name=a")
    ]
    assert counts == [2, 3, 1]


def test_annotations_add_up_and_a_conclusion_completes(place: Place) -> None:
    """Fifty a request, appended; a conclusion alone sets status and time."""
    note = {"path": TRAIN, "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "here"}
    output = {"title": "t", "summary": "s", "annotations": [note] * 50}
    run = place.run(place.double.bare.resolve("main") or "", output=output).json()
    assert (run["status"], run["conclusion"], run["completed_at"]) == ("queued", None, None)
    done = place.ask(f"PATCH /check-runs/{run['id']}", conclusion="success", output=output).json()
    assert (done["status"], done["output"]["annotations_count"]) == ("completed", 100)
    assert done["completed_at"] == stamp(place.double.now())


# budgets


def test_a_304_is_free(place: Place) -> None:
    """An unchanged answer costs nothing; a changed one is sent whole."""
    first = place.ask("GET /labels")
    tag = {"If-None-Match": first.headers["ETag"], "Authorization": "token app-token"}
    url = f"{place.double.url}/repos/octo/lab/labels"
    same = place.http.get(url, headers=tag, timeout=9)
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["X-RateLimit-Remaining"] == first.headers["X-RateLimit-Remaining"]
    place.ask("POST /labels", name="new")
    assert place.http.get(url, headers=tag, timeout=9).status_code == 200


@pytest.mark.parametrize(("by", "limit"), [("app", 5000), ("github_token", 1000), ("alice", 5000), ("", 60)])
def test_each_kind_of_token_has_its_hour(place: Place, clock: Clock, by: str, limit: int) -> None:
    """The headers count down; when all is used it is 403 until the hour is over; asking for the limits is free."""
    first = place.ask("GET /labels", by).headers
    assert (first["X-RateLimit-Limit"], first["X-RateLimit-Remaining"]) == (str(limit), str(limit - 1))
    assert int(first["X-RateLimit-Reset"]) == clock() + 3600
    place.double.limits.exhaust(place.double.identity(by) if by else None)
    assert place.ask("GET ~/rate_limit", by).json()["resources"]["core"]["remaining"] == 0
    assert place.ask("GET /labels", by).status_code == 403
    clock.sleep(3600)
    assert place.ask("GET /labels", by).status_code == 200


def test_pygithub_knows_an_exhausted_budget(place: Place) -> None:
    """It raises its own exception for it, which it finds by the words."""
    place.double.limits.exhaust(place.double.identity("app"))
    with client(place.double) as github, pytest.raises(GithubException) as refused:
        github.get_repo("octo/lab")
    assert type(refused.value).__name__ == "RateLimitExceededException"


def test_creations_are_counted_by_the_minute_and_the_hour(place: Place, clock: Clock) -> None:
    """Here three a minute and five an hour, on GitHub 80 and 500; what is refused does not count; retry-after says when."""
    limits = place.double.limits
    assert (limits.creations, limits.creations_hourly, limits.points) == (80, 500, 900)
    limits.secondary, limits.creations, limits.creations_hourly = True, 3, 5
    number, codes = place.issue(), []
    for wait in (0, 0, 0, 0, 60, 0, 0, 60, 3600):
        clock.sleep(wait)
        codes.append(place.ask(f"POST /issues/{number}/comments", body="x"))
    assert [it.status_code for it in codes] == [201, 201, 201, 403, 201, 201, 403, 403, 201]
    assert codes[3].headers["Retry-After"] == "60"


def test_a_write_costs_five_points_a_minute(place: Place, clock: Clock) -> None:
    """900 points are 180 writes; a minute later all is well."""
    place.double.limits.secondary, place.double.limits.points = True, 20
    number = place.issue()
    add = f"POST /issues/{number}/labels"
    assert [place.ask(add, labels=["a"]).status_code for _ in range(5)] == [200] * 4 + [403]
    clock.sleep(60)
    assert place.ask(add, labels=["a"]).status_code == 200


# faults


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_comes_before_or_after_the_deed(place: Place, kind: str) -> None:
    """`after` has done it and hides it, all others have not; each looks to the client as its name says."""
    place.double.desk.hold = 0.2
    number = place.issue()
    post = f"POST /issues/{number}/comments"
    place.double.fail(with_=kind, method="POST")
    if kind in REFUSING or kind in STATUS:
        answer = place.ask(post, body="x")
        assert kind.startswith((str(answer.status_code), "HTML"))
        assert (kind in STATUS) is answer.text.startswith("<!DOCTYPE html>")
    else:
        with pytest.raises(requests.ConnectionError):
            place.ask(post, body="x")
    assert len(place.double.home.comments) == int(kind.endswith("after"))
    assert place.ask(post, body="x").status_code == 201, "only that one request"
    assert place.double.desk.faults.hit == [f"{kind} POST /repos/octo/lab/issues/{number}/comments"]


def test_a_time_out_is_one(place: Place) -> None:
    """The line is held longer than the client waits; and the double stops all the same."""
    place.double.fail(with_="time-out")
    with pytest.raises(requests.ReadTimeout):
        place.http.get(place.double.url, timeout=0.1)


def test_a_fault_waits_for_its_turn(place: Place) -> None:
    """The nth fitting request, that many times; others do not count."""
    place.double.fail(with_="502", nth=2, times=2, method="GET", path="/labels")
    lines = ("GET /labels", "GET /issues", "GET /labels", "GET /labels", "GET /labels")
    assert [place.ask(line).status_code for line in lines] == [200, 200, 502, 502, 200]
    with pytest.raises(ValueError, match="no fault is called"):
        place.double.fail(with_="lightning")


def test_a_dispatch_is_written_down(place: Place) -> None:
    """204 without a word, or 200 with the run's id when asked; the run is queued and can be cancelled."""
    line = "POST /actions/workflows/loop.yml/dispatches"
    assert place.ask(line, ref="main", inputs={"n": "4"}).status_code == 204
    run = place.ask(line, ref="main", return_run_details=True).json()["workflow_run_id"]
    assert place.double.home.dispatches[0] == {"workflow": FLOW, "ref": "main", "inputs": {"n": "4"}}
    assert [it["status"] for it in place.ask("GET /actions/runs").json()["workflow_runs"]] == ["queued"] * 2
    place.ask(f"POST /actions/runs/{run}/cancel")
    assert place.ask(f"GET /actions/runs/{run}").json()["conclusion"] == "cancelled"


# what a webhook would be sent


def test_a_comment_has_the_payload_of_an_issue_comment(place: Place, double: Double) -> None:
    """The fields that a workflow reads; a pull request has its mark and no head sha."""
    said = double.payload_of(double.comment(place.issue(), "alice", "/autoresearch 5\r\n"))
    assert (said["action"], said["comment"]["body"], said["comment"]["user"]["type"]) == (
        "created",
        "/autoresearch 5\r\n",
        "User",
    )
    assert {"number", "state", "locked", "labels", "title", "body"} <= set(said["issue"])
    assert "pull_request" not in said["issue"]
    assert (said["repository"]["default_branch"], said["repository"]["archived"], said["sender"]["login"]) == (
        "main",
        False,
        "alice",
    )
    on_pull = double.payload_of(double.comment(place.pull(), "alice", "/autoresearch veto"))
    assert "head" not in on_pull["issue"]["pull_request"]


def test_an_edit_tells_what_it_was_and_who_did_it(place: Place, double: Double) -> None:
    """`comment.user` is the author, `sender` the editor, and `changes` has the old text."""
    first = double.payload_of(double.comment(place.issue(), "eve", "hello"))
    edited = double.payload_of(double.edit_comment(first["comment"]["id"], "alice", "/autoresearch 5"))
    assert (edited["action"], edited["changes"]) == ("edited", {"body": {"from": "hello"}})
    assert (edited["comment"]["user"]["login"], edited["sender"]["login"]) == ("eve", "alice")


def test_closing_and_reviewing_are_told(place: Place, double: Double) -> None:
    """A review's state is in small letters here; a closed pull request says that it was not merged."""
    number = place.pull()
    review = double.payload_of(double.review(number, "bob", "CHANGES_REQUESTED", "no"))
    assert (review["action"], review["review"]["state"], review["review"]["body"]) == ("submitted", "changes_requested", "no")
    closed = double.payload_of(double.close(number, "bob"))
    assert (closed["action"], closed["pull_request"]["merged"], closed["sender"]["login"]) == ("closed", False, "bob")
    issue = double.close(place.issue(), "alice")
    assert (issue.name, issue.payload["action"], issue.payload["issue"]["state"]) == ("issues", "closed", "closed")


def test_a_comment_on_a_changed_line_has_its_own_event(place: Place, double: Double) -> None:
    """It is no issue comment; it can be answered and reacted to under /pulls/comments."""
    number = place.pull()
    event = double.comment_on_line(number, "bob", "/autoresearch veto", path=TRAIN)
    assert (event.name, event.payload["action"], event.payload["pull_request"]["number"]) == (
        "pull_request_review_comment",
        "created",
        number,
    )
    comment = event.payload["comment"]["id"]
    assert place.ask(f"GET /issues/comments/{comment}").status_code == 404
    assert place.ask(f"POST /pulls/{number}/comments/{comment}/replies", body="as you like").json()["in_reply_to_id"] == comment
    assert [place.ask(f"POST /pulls/comments/{comment}/reactions", content="eyes").status_code for _ in range(2)] == [201, 200]


def test_a_workflows_own_token_triggers_nothing(place: Place) -> None:
    """Events of the GITHUB_TOKEN start no workflow, those of an app do."""
    number = place.issue()
    for by in ("github_token", "app"):
        place.ask(f"POST /issues/{number}/comments", by, body="x")
    assert [it.triggers for it in place.double.events[-2:]] == [False, True]


def test_it_stops_at_once_and_leaves_no_thread(tmp_path: Path) -> None:
    """Idle connections and a held time-out do not keep it; no thread is left behind."""
    before = threading.active_count()
    with Double(tmp_path) as double, requests.Session() as http:
        http.get(double.url, timeout=9)
        double.fail(with_="time-out")
        with pytest.raises(requests.ReadTimeout):
            requests.get(double.url, timeout=0.05)
    assert threading.active_count() == before


def test_a_fault_of_the_double_itself_is_not_hidden(tmp_path: Path) -> None:
    """The client gets a 500, and the test that used the double fails at its end with the traceback."""
    told = pytest.raises(AssertionError, match=r"the double broke: GET /repos/octo/lab/labels(.|\n)*invalid literal")
    with told, Double(tmp_path) as double:
        assert requests.get(f"{double.url}/repos/octo/lab/labels?per_page=x", timeout=9).status_code == 500
