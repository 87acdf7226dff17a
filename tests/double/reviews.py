"""Reviews of pull requests, and comments on changed lines, with the reactions to them."""

from __future__ import annotations

from tests.double import shapes
from tests.double.issues import emit, fits, react, reactions_in, said
from tests.double.merging import do_auto_merges
from tests.double.pulls import ONE, PULLS
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route, text
from tests.double.state import Event, Hub, Issue, LineComment, Repository, Review, User

VERDICTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
LINE = PULLS + "/comments/{comment_id}"


def add_review(hub: Hub, repo: Repository, issue: Issue, who: User, *, event: str, body: str) -> tuple[Review, Event]:
    assert issue.pull is not None, "only pull requests are reviewed"
    made = Review(next(hub.ids), who, VERDICTS[event], body, issue.pull.head_sha, hub.now())
    issue.pull.reviews.append(made)
    told = shapes.review(hub, repo, issue.number, made)
    told["state"] = told["state"].lower()  # in a webhook, unlike in REST
    shape = shapes.pull_in_list(hub, repo, issue, issue.pull)
    sent = emit(hub, repo, "pull_request_review", "submitted", who, review=told, pull_request=shape)
    do_auto_merges(hub, repo)
    return made, sent


@route("POST", ONE + "/reviews", needs="pull_requests", creates=True)
def create_review(call: Call) -> Answer:
    issue, _ = call.pull()
    event, body = text(call, "event") or "", text(call, "body") or ""
    if event not in VERDICTS:
        raise Refused("bad review")
    if event != "COMMENT" and issue.user is call.user:
        raise Refused("own pull", verb="approve" if event == "APPROVE" else "request changes on")
    if event != "APPROVE" and not body.strip():
        raise Refused("blank review")
    fits(None, body)
    made, _ = add_review(call.hub, call.repo, issue, call.user, event=event, body=body)
    return Answer(200, shapes.review(call.hub, call.repo, issue.number, made))


@route("GET", ONE + "/reviews")
def list_reviews(call: Call) -> Answer:
    issue, pull = call.pull()
    return paged(call, [shapes.review(call.hub, call.repo, issue.number, it) for it in pull.reviews])


@route("PUT", ONE + "/reviews/{review_id}/dismissals", needs="pull_requests", role="write")
def dismiss(call: Call) -> Answer:
    issue, pull = call.pull()
    found = next((it for it in pull.reviews if it.id == int(call.args["review_id"])), None)
    if found is None:
        raise Refused("not found")
    found.state = "DISMISSED"
    do_auto_merges(call.hub, call.repo)
    return Answer(200, shapes.review(call.hub, call.repo, issue.number, found))


# comments on changed lines


def add_line_comment(
    hub: Hub, repo: Repository, issue: Issue, who: User, body: str, *, path: str, line: int, to: int | None = None
) -> tuple[LineComment, Event]:
    """`to` is the comment that it answers."""
    assert issue.pull is not None, "only pull requests have changed lines"
    made = LineComment(next(hub.ids), issue.number, who, body, hub.now(), hub.now(), path, line, issue.pull.head_sha, to)
    repo.line_comments[made.id] = made
    shape = {"comment": shapes.line_comment(hub, repo, made), "pull_request": shapes.pull_in_list(hub, repo, issue, issue.pull)}
    return made, emit(hub, repo, "pull_request_review_comment", "created", who, **shape)


def _there(call: Call) -> LineComment:
    found = call.repo.line_comments.get(int(call.args["comment_id"]))
    if found is None:
        raise Refused("not found")
    return found


@route("GET", ONE + "/comments")
def list_line_comments(call: Call) -> Answer:
    number = call.pull()[0].number
    found = [it for it in call.repo.line_comments.values() if it.number == number]
    return paged(call, [shapes.line_comment(call.hub, call.repo, it) for it in found])


@route("POST", ONE + "/comments/{comment_id}/replies", needs="pull_requests", creates=True)
def reply(call: Call) -> Answer:
    first, issue = _there(call), call.pull()[0]
    where = {"path": first.path, "line": first.line, "to": first.id}
    made, _ = add_line_comment(call.hub, call.repo, issue, call.user, said(call), **where)  # type: ignore[arg-type]
    return Answer(201, shapes.line_comment(call.hub, call.repo, made))


@route("GET", LINE)
def get_line_comment(call: Call) -> Answer:
    return Answer(200, shapes.line_comment(call.hub, call.repo, _there(call)))


@route("POST", LINE + "/reactions", needs="pull_requests")
def react_to_line_comment(call: Call) -> Answer:
    return react(call, _there(call).reactions)


@route("GET", LINE + "/reactions")
def reactions_of_line_comment(call: Call) -> Answer:
    return reactions_in(call, _there(call).reactions)
