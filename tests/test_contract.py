"""The oracles made from GitHub's own descriptions (tests/contract): what they must catch, and what they must let pass.

What our client sends is looked at where it is sent: by the double, and in tests/test_others.py.
"""

from __future__ import annotations

import json
import lzma
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.contract import Checked, check, check_answer, check_call, check_query, operation, prune

ISSUE = "/repos/o/r/issues/7"
PULL = "/repos/o/r/pulls/7"
CHECKS = "/repos/o/r/check-runs"
DISPATCH = "/repos/o/r/actions/workflows/loop.yml/dispatches"
HEAD = "0123456789abcdef0123456789abcdef01234567"
NOTE = {"path": "trainer/train.py", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}
MERGE = "mutation($input: EnablePullRequestAutoMergeInput!) { enablePullRequestAutoMerge(input: $input) { %s } }"
INPUT = {"pullRequestId": "PR_1", "expectedHeadOid": HEAD, "mergeMethod": "SQUASH"}


def run(**output: Any) -> dict[str, Any]:
    """The body of a check run."""
    return {"name": "autoresearch/val_bpb", "head_sha": HEAD, "output": {"title": "t", "summary": "s", **output}}


def complaints(method: str, path: str, body: Any = None) -> list[str]:
    path, _, query = path.partition("?")
    return check_call(method, path, query, body=b"" if body is None else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/rate_limit", None),
        ("GET", "/repos/o/r", None),
        ("GET", "/repos/o/r/git/ref/heads/autoresearch/12.3/1", None),
        ("GET", "/repos/o/r/git/ref/heads%2Fmain", None),
        ("GET", "/repos/o/r/commits/autoresearch/12.3/1/check-runs?check_name=x&per_page=100", None),
        ("GET", "/repos/o/r/contents/trainer/train.py?ref=main", None),
        ("GET", "/repos/o/r/compare/main...autoresearch/12.3/1", None),
        ("GET", "/repos/o/r/branches/release/1/protection", None),
        ("GET", "/repos/o/r/collaborators/ann/permission", None),
        ("GET", "/repos/o/r/pulls?state=all&head=o:autoresearch/12.3/1&per_page=100&page=2", None),
        ("POST", f"{ISSUE}/comments", {"body": "x" * 70_000}),
        ("PATCH", "/repos/o/r/issues/comments/1", {"body": "x"}),
        ("POST", "/repos/o/r/issues/comments/1/reactions", {"content": "eyes"}),
        ("POST", f"{ISSUE}/labels", {"labels": ["autoresearch: settled"]}),
        ("POST", f"{ISSUE}/labels", ["autoresearch: settled"]),
        ("PUT", f"{ISSUE}/labels", []),
        ("DELETE", f"{ISSUE}/labels/autoresearch%3A%20settled", None),
        ("POST", "/repos/o/r/labels", {"name": "autoresearch", "color": "1d76db", "description": ""}),
        ("POST", "/repos/o/r/pulls", {"title": "t", "head": "b", "base": "main", "body": "", "draft": False}),
        ("PATCH", PULL, {"state": "closed"}),
        ("PUT", f"{PULL}/merge", {"sha": HEAD, "merge_method": "squash", "commit_title": "t"}),
        ("POST", CHECKS, run(annotations=[NOTE] * 50, text="x" * 65_535) | {"status": "completed", "conclusion": "timed_out"}),
        ("PATCH", f"{CHECKS}/1", {"output": {"title": "t", "summary": "s"}}),
        ("POST", DISPATCH, {"ref": "main", "inputs": {str(k): "x" for k in range(25)}, "return_run_details": True}),
        ("POST", "/repos/o/r/dispatches", {"event_type": "again", "client_payload": {"campaign": "12.3"}}),
        ("POST", "/repos/o/r/git/refs", {"ref": "refs/heads/autoresearch/log", "sha": HEAD}),
        ("DELETE", "/repos/o/r/git/refs/heads/autoresearch/12.3/1", None),
        ("POST", "/repos/o/r/rulesets", {"name": "ours", "enforcement": "active", "rules": [{"type": "deletion"}]}),
    ],
)
def test_a_right_call_passes(method: str, path: str, body: Any) -> None:
    """Everything that a bot like ours asks of GitHub is known, branches and files with slashes included."""
    assert complaints(method, path, body) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", f"{ISSUE}/comments", {"body": 5}, "issues/create-comment: body: 5 is not of type 'string'"),
        ("POST", f"{ISSUE}/comments", {}, "'body' is a required property"),
        ("POST", f"{ISSUE}/comments", {"body": "x", "bdy": "y"}, "'bdy' was unexpected"),
        ("POST", "/repos/o/r/issues/comments/1/reactions", {"content": "eyez"}, "content: 'eyez' is not one of"),
        ("POST", f"{ISSUE}/labels", [1], "issues/add-labels"),
        ("POST", CHECKS, run() | {"conclusion": "stalled"}, "conclusion: 'stalled' is not one of"),
        ("POST", CHECKS, run(annotations=[NOTE] * 51), "output.annotations"),
        ("POST", CHECKS, run(annotations=[NOTE | {"annotation_level": "info"}]), "annotation_level: 'info' is not one of"),
        ("POST", CHECKS, run(summary="s" * 65_536), "is too long"),
        ("POST", CHECKS, run(text="s" * 65_536), "is too long"),
        ("POST", CHECKS, run(titel="t"), "output: Additional properties are not allowed ('titel' was unexpected)"),
        ("POST", CHECKS, run() | {"started_at": "yesterday"}, "started_at: 'yesterday' is not a 'date-time'"),
        ("PATCH", f"{CHECKS}/1", {"status": "completed"}, "checks/update"),
        ("PUT", f"{PULL}/merge", {"sha": HEAD, "merge_method": "sqash"}, "merge_method: 'sqash' is not one of"),
        ("POST", DISPATCH, {"ref": "main", "inputs": {str(k): "x" for k in range(26)}}, "has too many properties"),
        ("POST", DISPATCH, {"inputs": {}}, "'ref' is a required property"),
        ("POST", "/repos/o/r/dispatches", {"event_type": "x" * 101}, "is too long"),
        ("POST", "/repos/o/r/rulesets", {"name": "x", "enforcement": "on"}, "enforcement: 'on' is not one of"),
        ("GET", "/repos/o/r/pulls?state=merged", None, "'merged' is not one of ['open', 'closed', 'all']"),
        ("GET", "/repos/o/r/pulls?per_page=all", None, "Failed to cast value to integer type: all"),
        ("GET", "/repos/o/r/pulls?label=x", None, "pulls/list: no query parameter label"),
        ("GET", "/repos/o/r/pulls?state=open", {"state": "open"}, "pulls/list: takes no body"),
        ("GET", "/repos/o/r/merged", None, "GET /repos/o/r/merged: not an operation"),
        ("PUT", f"{ISSUE}/comments", {"body": "x"}, "not an operation"),
        ("GET", "/api/v3/repos/o/r", None, "not an operation"),
    ],
)
def test_a_wrong_call_is_told(method: str, path: str, body: Any, said: str) -> None:
    """A wrong type, value, size, count, name or route is named, once, in a short sentence."""
    found = complaints(method, path, body)
    assert len(found) == 1
    assert said in found[0]
    assert len(found[0]) < 250


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/json"}, b'{"body": '),
        ({"Content-Type": "text/plain"}, b'{"body": "x"}'),
        ({}, b'{"body": "x"}'),
    ],
)
def test_a_body_that_is_no_json_is_told(headers: dict[str, str], body: bytes) -> None:
    """A body cut short, or sent as something else, is a complaint and no exception."""
    assert len(check_call("POST", f"{ISSUE}/comments", "", headers, body)) == 1


def test_what_is_ready_to_be_sent_is_looked_at() -> None:
    """The requests of both clients that we know are read, whatever the host."""
    url, wrong = f"http://127.0.0.1:4100{ISSUE}/comments", {"body": 5}
    said = ["issues/create-comment: body: 5 is not of type 'string'"]
    assert check(requests.Request("POST", url, json={"body": "x"}).prepare()) == []
    assert check(requests.Request("POST", url, json=wrong).prepare()) == said
    json_body = {"Content-Type": "application/json"}
    assert check(urllib.request.Request(url, json.dumps(wrong).encode(), json_body)) == said
    assert check(requests.Request("GET", "https://api.github.com/repos/o/r/pulls", params={"stat": "all"}).prepare())


def test_an_operation_has_a_page_to_cite() -> None:
    """A path that several templates fit is that of the most particular one, with its page in the docs."""
    found = operation("get", "/repos/o/r/commits/heads/a/b/check-runs")
    assert found is not None
    assert (found.id, found.template) == ("checks/list-for-ref", "/repos/{owner}/{repo}/commits/{ref}/check-runs")
    assert found.url == "https://docs.github.com/rest/checks/runs#list-check-runs-for-a-git-reference"
    assert operation("GET", "/nowhere") is None


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("POST", f"{ISSUE}/comments", 201, {"id": 1, "body": "x", "user": {"login": "ann", "type": "User"}}),
        ("GET", "/repos/o/r", 200, {"name": "r", "default_branch": "main", "permissions": {"push": True}}),
        ("GET", PULL, 200, {"number": 7, "mergeable": None, "mergeable_state": "blocked", "head": {"sha": HEAD}}),
        ("GET", "/repos/o/r/contents/trainer", 200, [{"type": "file", "name": "train.py"}]),
        ("GET", "/repos/o/r/contents/trainer/train.py", 200, {"type": "file", "content": "", "encoding": "base64"}),
        ("PUT", f"{PULL}/merge", 409, {"message": "Head branch was modified. Review and try the merge again."}),
        ("GET", PULL, 404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}),
        ("DELETE", "/repos/o/r/git/refs/heads/x", 204, None),
        ("POST", f"{ISSUE}/comments", 403, {"message": "You have exceeded a secondary rate limit."}),
        ("POST", f"{ISSUE}/comments", 502, "<html>Unicorn!</html>"),
    ],
)
def test_a_right_answer_passes(method: str, path: str, status: int, body: Any) -> None:
    """A part of an answer, an error that is listed, and one that any operation may give, are fine."""
    assert check_answer(method, path, status, b"" if body is None else json.dumps(body).encode()) == []


@pytest.mark.parametrize(
    ("method", "path", "status", "body", "said"),
    [
        ("POST", f"{ISSUE}/comments", 200, {}, "issues/create-comment: GitHub lists no answer 200 here"),
        ("POST", f"{ISSUE}/comments", 201, {"id": "1"}, "answer 201: id: '1' is not of type 'integer'"),
        ("GET", PULL, 200, {"merged_by": "ann"}, "merged_by"),
        ("GET", PULL, 200, {"mergable": True}, "'mergable' was unexpected"),
        ("GET", f"{PULL}/files", 200, {"filename": "x"}, "is not of type 'array'"),
        ("GET", "/repos/o/r", 200, {"owner": {"logn": "o"}}, "'logn' was unexpected"),
        ("PUT", f"{PULL}/merge", 400, {"message": "no"}, "GitHub lists no answer 400 here"),
    ],
)
def test_a_wrong_answer_is_told(method: str, path: str, status: int, body: Any, said: str) -> None:
    """A double that answers what GitHub never would is caught: status, type and name."""
    found = check_answer(method, path, status, json.dumps(body).encode())
    assert len(found) == 1
    assert said in found[0]


def test_a_right_query_passes() -> None:
    """The mutation that switches auto-merge on, with the expected head, and a query of a pull request are in GitHub's schema."""
    assert check_query(MERGE % "clientMutationId pullRequest { number }", {"input": INPUT}) == []
    text = 'query { repository(owner: "o", name: "r") { pullRequest(number: 7) { id mergeStateStatus headRefOid } } }'
    assert check_query(text, {}) == []


@pytest.mark.parametrize(
    ("field", "variables", "said"),
    [
        ("clientMutationId", {}, "Variable '$input' of required type 'EnablePullRequestAutoMergeInput!' was not provided"),
        ("clientMutationId", {"input": INPUT | {"mergeMethod": "FAST"}}, "does not exist in 'PullRequestMergeMethod' enum"),
        ("clientMutationId", {"input": {"expectedHeadOid": HEAD}}, "'pullRequestId' of required type 'ID!' was not provided"),
        ("clientMutationId", {"input": INPUT, "head": HEAD}, "variable $head is not declared"),
        ("pullRequest { sha }", {"input": INPUT}, "Cannot query field 'sha' on type 'PullRequest'"),
        ("pullRequest", {"input": INPUT}, "must have a selection of subfields"),
        ("{", {"input": INPUT}, "Syntax Error"),
    ],
)
def test_a_wrong_query_is_told(field: str, variables: dict[str, Any], said: str) -> None:
    """An unknown field, value or variable, a missing input and a text that is no GraphQL are named."""
    found = check_query(MERGE % field, variables)
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("method", "body", "said"),
    [
        ("POST", b"", "not JSON"),
        ("POST", b"[]", "not an object with a query"),
        ("POST", b'{"query": "{ viewer { login } }", "variables": []}', ""),
        ("POST", b'{"query": "{ viewer { login } }", "variables": [1]}', "variables by name"),
        ("POST", b'{"query": "{ viewer { login } }", "variable": {}}', "no field variable"),
        ("PUT", b'{"query": "{ viewer { login } }"}', "PUT, not POST"),
        ("POST", b'{"query": "{ viewer { login } }"}', ""),
    ],
)
def test_graphql_is_looked_at_as_a_call_too(method: str, body: bytes, said: str) -> None:
    """What goes to /graphql is looked at as GraphQL, its envelope included."""
    found = check_call(method, "/graphql", "", {}, body)
    assert [line for line in found if said in line] if said else found == []


def test_a_server_can_have_all_its_traffic_looked_at() -> None:
    """Calls are counted; what was wrong with calls and answers is kept in order."""
    checked = Checked()
    json_body = {"Content-Type": "application/json"}
    checked.see("POST", f"{ISSUE}/comments", "", json_body, b'{"body": "x"}')
    checked.answer("POST", f"{ISSUE}/comments", 201, b'{"id": 1}')
    assert checked.violations == []
    checked.see("POST", f"{ISSUE}/comments", "", json_body, b"{}")
    checked.answer("POST", f"{ISSUE}/comments", 200, b"{}")
    assert checked.calls == 2
    assert ["required property" in checked.violations[0], "no answer 200" in checked.violations[1]] == [True, True]


def test_the_descriptions_are_the_ones_of_the_provenance() -> None:
    """What is committed is small, of the versions that are named, and their hashes stand in PROVENANCE.md."""
    told = (prune.HERE / "PROVENANCE.md").read_text("utf-8")
    assert all(name in told and f"sha512-{digest}" in told for name, digest in prune.INTEGRITY.items())
    version = json.loads(lzma.decompress(prune.OPENAPI.read_bytes()))["info"]["version"]
    assert f"octokit-openapi-{version}.tgz" in prune.INTEGRITY
    assert prune.OPENAPI.stat().st_size + prune.SCHEMA.stat().st_size < 150_000


def test_another_package_is_refused(tmp_path: Path) -> None:
    """The pruning program takes nothing but the packages whose hashes it holds, and says how to get them."""
    packages = [tmp_path / name for name in prune.INTEGRITY]
    for package in packages:
        package.write_bytes(b"not what npm published")
    with pytest.raises(SystemExit, match=r"is not one of .* get it with the commands above"):
        prune.main([str(package) for package in packages])


def test_pruning_takes_away_and_changes_nothing() -> None:
    """Of a description stay the listed paths with all that they refer to; prose goes, a property of that name stays."""
    schema = {"type": "object", "description": "prose", "properties": {"description": {"type": "string", "maxLength": 40}}}
    answer = {"description": "prose", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/label"}}}}
    known = {"operationId": "labels", "externalDocs": {"url": "https://docs.github.com"}, "summary": "prose"}
    whole = {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1", "license": {"name": "MIT"}},
        "paths": {"/repos/{owner}/{repo}/labels": {"get": known | {"responses": {"200": answer}}}, "/gists": {"get": {}}},
        "components": {"schemas": {"label": schema, "gist": schema}},
    }
    kept = prune.openapi(whole)
    assert list(kept["paths"]) == ["/repos/{owner}/{repo}/labels"]
    assert kept["components"] == {"schemas": {"label": {k: schema[k] for k in ("type", "properties")}}}
    answer_kept = kept["paths"]["/repos/{owner}/{repo}/labels"]["get"]["responses"]["200"]
    assert answer_kept == answer | {"description": ""}
