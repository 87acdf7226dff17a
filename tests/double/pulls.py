"""Pull requests, their files, and the merge button. Heads are branches of the same repository; there are no forks."""

from __future__ import annotations

from tests.double import shapes
from tests.double.commits import HERE, files, fork_point, shas, short_commit
from tests.double.issues import emit, fits, free_number, set_state
from tests.double.merging import check_merge, land, mergeable, settle
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route, text
from tests.double.shapes import Json
from tests.double.state import Hub, Issue, Pull, Repository, User

PULLS = HERE + "/pulls"
ONE = PULLS + "/{pull_number}"


def full(hub: Hub, repo: Repository, issue: Issue, pull: Pull) -> Json:
    """A pull request as its own endpoint shows it."""
    fork = fork_point(repo, pull.base_sha, pull.head_sha)
    changed = files(hub, repo, fork, pull.head_sha)
    able, state = mergeable(repo, issue, pull)
    return shapes.pull_in_list(hub, repo, issue, pull) | {
        "merged": pull.merged_at is not None,
        "mergeable": able,
        "rebaseable": able,
        "mergeable_state": state,
        "merged_by": shapes.user(hub, pull.merged_by) if pull.merged_by else None,
        "comments": sum(comment.number == issue.number for comment in repo.comments.values()),
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": len(shas(repo, pull.head_sha, without=fork)),
        "additions": sum(it["additions"] for it in changed),
        "deletions": sum(it["deletions"] for it in changed),
        "changed_files": len(changed),
    }


def open_pull(
    hub: Hub, repo: Repository, who: User, *, head: str, base: str, title: str, body: str | None, app: int = 0
) -> Issue:
    """Open one, or refuse: branches that are not there, nothing new, a second one of the branch."""
    head_sha, base_sha = repo.tip(head), repo.tip(base)
    if head_sha is None or base_sha is None:
        raise Refused("bad head" if head_sha is None else "bad base")
    if any(issue.state == "open" and (pull.head, pull.base) == (head, base) for issue, pull in repo.pulls()):
        raise Refused("pull exists", head=f"{repo.owner}:{head}")
    if repo.bare.is_ancestor(head_sha, base_sha):
        raise Refused("no commits", base=base, head=head)
    at = hub.now()
    pull = Pull(next(hub.ids), base, base_sha, head, head_sha, polls=hub.lazy, onto=base_sha)
    issue = Issue(next(hub.ids), free_number(repo), who, title, body, at, at, app, pull=pull)
    repo.issues[issue.number] = issue
    repo.bare.set_ref(f"refs/pull/{issue.number}/head", head_sha)
    emit(hub, repo, "pull_request", "opened", who, number=issue.number, pull_request=shapes.pull_in_list(hub, repo, issue, pull))
    return issue


@route("POST", PULLS, needs="pull_requests", creates=True)
def create_pull(call: Call) -> Answer:
    title, head, base = (text(call, name) or "" for name in ("title", "head", "base"))
    if not title:
        raise Refused("no title")
    fits(title, text(call, "body"))
    branch = head.removeprefix(f"{call.repo.owner}:")
    made = open_pull(call.hub, call.repo, call.user, head=branch, base=base, title=title, body=text(call, "body"), app=call.app)
    assert made.pull is not None
    made.pull.draft = bool(call.body.get("draft"))
    return Answer(201, full(call.hub, call.repo, made, made.pull))


@route("GET", PULLS)
def list_pulls(call: Call) -> Answer:
    """`head` filters only as `owner:branch`; without the owner GitHub ignores it, and so does this."""
    state, base = call.query.get("state", "open"), call.query.get("base")
    owner, colon, branch = call.query.get("head", "").partition(":")
    found = [
        shapes.pull_in_list(call.hub, call.repo, issue, pull)
        for issue, pull in call.repo.pulls()
        if state in ("all", issue.state) and base in (None, pull.base)
        if not colon or (owner.lower(), branch) == (call.repo.owner.lower(), pull.head)
    ]
    key = "updated_at" if call.query.get("sort") == "updated" else "created_at"
    down = call.query.get("direction", "asc" if call.query.get("sort") in ("updated", "popularity") else "desc") == "desc"
    return paged(call, sorted(found, key=lambda it: (it[key], it["number"]), reverse=down))


@route("GET", ONE)
def get_pull(call: Call) -> Answer:
    return Answer(200, full(call.hub, call.repo, *call.pull()))


@route("PATCH", ONE, needs="pull_requests")
def patch_pull(call: Call) -> Answer:
    issue, pull = call.pull()
    if issue.user is not call.user:
        call.require("write")
    title, body, state, base = (text(call, name) for name in ("title", "body", "state", "base"))
    fits(title, body)
    if state not in (None, "open", "closed"):
        raise Refused("bad state")
    if base is not None and call.repo.tip(base) is None:
        raise Refused("bad base")
    if state == "open" and issue.state == "closed" and call.repo.tip(pull.head) is None:
        raise Refused("cannot reopen", head=pull.head)
    issue.title, issue.updated, pull.base = title or issue.title, call.hub.now(), base or pull.base
    issue.body = body if "body" in call.body else issue.body
    if state and not pull.merged_at:
        set_state(call.hub, call.repo, issue, state, call.user)
    settle(call.hub, call.repo, call.user)
    return Answer(200, full(call.hub, call.repo, issue, pull))


@route("GET", ONE + "/files")
def list_files(call: Call) -> Answer:
    _, pull = call.pull()
    return paged(call, files(call.hub, call.repo, fork_point(call.repo, pull.base_sha, pull.head_sha), pull.head_sha))


@route("GET", ONE + "/commits")
def list_pull_commits(call: Call) -> Answer:
    _, pull = call.pull()
    fork = fork_point(call.repo, pull.base_sha, pull.head_sha)
    return paged(call, [short_commit(call.hub, call.repo, sha) for sha in reversed(shas(call.repo, pull.head_sha, without=fork))])


@route("GET", ONE + "/merge")
def is_merged(call: Call) -> Answer:
    if call.pull()[1].merged_at is None:
        raise Refused("not found")
    return Answer(204)


@route("PUT", ONE + "/merge", needs="contents", role="write")
def merge(call: Call) -> Answer:
    issue, pull = call.pull()
    method = text(call, "merge_method") or "merge"
    allowed = {name: getattr(call.repo, f"allow_{name}{suffix}") for name, suffix in
               (("merge", "_commit"), ("squash", "_merge"), ("rebase", "_merge"))}  # fmt: skip
    if method not in allowed:
        raise Refused("bad method")
    check_merge(call.repo, issue, pull, text(call, "sha"))
    if not allowed[method]:
        raise Refused("method", method={"merge": "Merge commit"}.get(method, method.capitalize()))
    title, message = text(call, "commit_title"), text(call, "commit_message")
    sha = land(call.hub, call.repo, issue, call.user, method=method, title=title, message=message)
    return Answer(200, {"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@route("PUT", ONE + "/update-branch", needs="pull_requests", role="write")
def update_branch(call: Call) -> Answer:
    """Merge the base into the head, as the button does."""
    issue, pull = call.pull()
    if (expected := text(call, "expected_head_sha")) not in (None, pull.head_sha):
        raise Refused("head sha", sha=expected)
    base, tree = call.repo.tip(pull.base), _back_merge(call.repo, pull)
    if base is None or tree is None:
        raise Refused("update conflict")
    message = f"Merge branch '{pull.base}' into {pull.head}"
    sha = call.repo.bare.commit_tree(tree, [pull.head_sha, base], message, when=call.hub.now())
    call.repo.bare.set_ref(f"refs/heads/{pull.head}", sha)
    settle(call.hub, call.repo, call.user)
    url = f"{shapes.home(call.hub, call.repo)}/pulls/{issue.number}"
    return Answer(202, {"message": "Updating pull request branch.", "url": url})


def _back_merge(repo: Repository, pull: Pull) -> str | None:
    return repo.bare.merge_tree(pull.head_sha, f"refs/heads/{pull.base}")
