"""Issues, their comments and reactions. A pull request is an issue too: all of this works on its number.

`open_issue`, `add_comment`, `edit_issue` are the deeds; people.py does the same deeds without HTTP.
"""

from __future__ import annotations

from typing import Any

from tests.double import shapes
from tests.double.labels import named
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route, text
from tests.double.state import REACTIONS, Comment, Event, Hub, Issue, Reaction, Repository, User

TITLE, BODY = 256, 65_536  # characters
HERE = "/repos/{owner}/{repo}/issues"


def emit(hub: Hub, repo: Repository, name: str, action: str, sender: User, **more: Any) -> Event:
    """Remember what a webhook would be sent."""
    payload = {"action": action, **more, "repository": shapes.repository(hub, repo), "sender": shapes.user(hub, sender)}
    event = Event(name, action, payload, triggers=sender.login != "github-actions[bot]")
    hub.events.append(event)
    return event


def fits(title: str | None, body: str | None) -> None:
    """Refuse what is longer than GitHub stores."""
    if title is not None and len(title) > TITLE:
        raise Refused("long title")
    if body is not None and len(body) > BODY:
        raise Refused("long body")


def free_number(repo: Repository) -> int:
    return max(repo.issues, default=0) + 1


def open_issue(hub: Hub, repo: Repository, who: User, title: str, body: str | None, *, app: int = 0) -> Issue:
    at = hub.now()
    made = Issue(next(hub.ids), free_number(repo), who, title, body, at, at, app)
    repo.issues[made.number] = made
    emit(hub, repo, "issues", "opened", who, issue=shapes.issue(hub, repo, made))
    return made


def set_state(hub: Hub, repo: Repository, issue: Issue, state: str, by: User, reason: str | None = None) -> None:
    """Close or reopen; a pull request's own event is in pulls.py's shape."""
    if issue.state == state:
        return
    issue.state, issue.updated = state, hub.now()
    issue.closed, issue.closed_by = (hub.now(), by) if state == "closed" else (None, None)
    issue.reason = None if issue.pull else (reason or "completed") if state == "closed" else "reopened"
    action = "closed" if state == "closed" else "reopened"
    if issue.pull:
        merged = {"merged": issue.pull.merged_at is not None, "merged_by": None}
        shape = shapes.pull_in_list(hub, repo, issue, issue.pull) | merged
        emit(hub, repo, "pull_request", action, by, number=issue.number, pull_request=shape)
    else:
        emit(hub, repo, "issues", action, by, issue=shapes.issue(hub, repo, issue))


@route("POST", HERE, needs="issues", creates=True)
def create_issue(call: Call) -> Answer:
    if not call.repo.has_issues:
        raise Refused("no issues")
    title = text(call, "title")
    if not title:
        raise Refused("no title")
    fits(title, text(call, "body"))
    issue = open_issue(call.hub, call.repo, call.user, title, text(call, "body"), app=call.app)
    if call.may("triage"):  # from anybody else GitHub drops labels silently
        issue.labels = named(call, call.body.get("labels") or [])
    return Answer(201, shapes.issue(call.hub, call.repo, issue))


@route("GET", HERE)
def list_issues(call: Call) -> Answer:
    wanted, labels = call.query.get("state", "open"), [name for name in call.query.get("labels", "").split(",") if name]
    found = [
        shapes.issue(call.hub, call.repo, issue)
        for issue in sorted(call.repo.issues.values(), key=lambda issue: issue.number)
        if wanted in ("all", issue.state) and all(name in issue.labels for name in labels)
    ]
    shown = [shape for shape in found if shape["updated_at"] >= call.query.get("since", "")]
    return paged(call, shown if call.query.get("direction") == "asc" else shown[::-1])


@route("GET", HERE + "/{issue_number}")
def get_issue(call: Call) -> Answer:
    return Answer(200, shapes.issue(call.hub, call.repo, call.issue()))


@route("PATCH", HERE + "/{issue_number}", needs="thread")
def patch_issue(call: Call) -> Answer:
    issue = call.issue()
    if issue.user is not call.user:  # the author may edit and close it, whatever the role
        call.require("triage")
    fits(text(call, "title"), text(call, "body"))
    state = text(call, "state")
    if state not in (None, "open", "closed"):
        raise Refused("bad state")
    if issue.pull and issue.state == "closed" and state == "open" and call.repo.tip(issue.pull.head) is None:
        raise Refused("cannot reopen", head=issue.pull.head)
    if "labels" in call.body and call.may("triage"):
        issue.labels = named(call, call.body["labels"] or [])
    issue.title = text(call, "title") or issue.title
    issue.body = text(call, "body") if "body" in call.body else issue.body
    issue.updated = call.hub.now()
    if state and not (issue.pull and issue.pull.merged_at):
        set_state(call.hub, call.repo, issue, state, call.user, text(call, "state_reason"))
    return Answer(200, shapes.issue(call.hub, call.repo, issue))


# comments


def add_comment(hub: Hub, repo: Repository, issue: Issue, who: User, body: str, *, app: int = 0) -> tuple[Comment, Event]:
    made = Comment(next(hub.ids), issue.number, who, body, hub.now(), hub.now(), app)
    repo.comments[made.id] = made
    issue.updated = hub.now()
    shape = {"issue": shapes.issue(hub, repo, issue), "comment": shapes.comment(hub, repo, made)}
    return made, emit(hub, repo, "issue_comment", "created", who, **shape)


def said(call: Call) -> str:
    """The body of a comment, if GitHub would take it."""
    body = text(call, "body") or ""
    if not body.strip():
        raise Refused("blank comment")
    if len(body) > BODY:
        raise Refused("long comment")
    return body


def _comment(call: Call) -> Comment:
    found = call.repo.comments.get(int(call.args["comment_id"]))
    if found is None:
        raise Refused("not found")
    return found


@route("POST", HERE + "/{issue_number}/comments", needs="thread", creates=True)
def create_comment(call: Call) -> Answer:
    issue, body = call.issue(), said(call)
    writer = call.who is not None and not call.who.is_app and call.may("write")
    if issue.locked and not writer:
        raise Refused("locked")
    made, _ = add_comment(call.hub, call.repo, issue, call.user, body, app=call.app)
    return Answer(201, shapes.comment(call.hub, call.repo, made))


@route("GET", HERE + "/{issue_number}/comments")
def list_comments(call: Call) -> Answer:
    number = call.issue().number
    found = [comment for comment in call.repo.comments.values() if comment.number == number]
    since = call.query.get("since", "")
    shown = [shapes.comment(call.hub, call.repo, comment) for comment in found]
    return paged(call, [shape for shape in shown if shape["updated_at"] >= since])


@route("GET", HERE + "/comments")
def list_all_comments(call: Call) -> Answer:
    since = call.query.get("since", "")
    shown = [shapes.comment(call.hub, call.repo, comment) for comment in call.repo.comments.values()]
    return paged(call, [shape for shape in shown if shape["updated_at"] >= since])


@route("GET", HERE + "/comments/{comment_id}")
def get_comment(call: Call) -> Answer:
    return Answer(200, shapes.comment(call.hub, call.repo, _comment(call)))


@route("PATCH", HERE + "/comments/{comment_id}", needs="thread", creates=True)
def patch_comment(call: Call) -> Answer:
    comment = _comment(call)
    if comment.user is not call.user:
        call.require("write")
    comment.body, comment.updated = said(call), call.hub.now()
    return Answer(200, shapes.comment(call.hub, call.repo, comment))


@route("DELETE", HERE + "/comments/{comment_id}", needs="thread")
def delete_comment(call: Call) -> Answer:
    comment = _comment(call)
    if comment.user is not call.user:
        call.require("write")
    del call.repo.comments[comment.id]
    return Answer(204)


# reactions: the same for an issue and a comment


def react(call: Call, there: list[Reaction]) -> Answer:
    """201 the first time, 200 when this user has it there already: so it is a test-and-set."""
    content = text(call, "content")
    if content not in REACTIONS:
        raise Refused("bad reaction")
    for reaction in there:
        if (reaction.user, reaction.content) == (call.user, content):
            return Answer(200, shapes.reaction(call.hub, reaction))
    there.append(Reaction(next(call.hub.ids), call.user, content, call.hub.now()))
    return Answer(201, shapes.reaction(call.hub, there[-1]))


def reactions_in(call: Call, there: list[Reaction]) -> Answer:
    content = call.query.get("content")
    return paged(call, [shapes.reaction(call.hub, it) for it in there if content in (None, it.content)])


@route("POST", HERE + "/{issue_number}/reactions", needs="thread")
def react_to_issue(call: Call) -> Answer:
    return react(call, call.issue().reactions)


@route("GET", HERE + "/{issue_number}/reactions")
def reactions_of_issue(call: Call) -> Answer:
    return reactions_in(call, call.issue().reactions)


@route("POST", HERE + "/comments/{comment_id}/reactions", needs="thread")
def react_to_comment(call: Call) -> Answer:
    return react(call, _comment(call).reactions)


@route("GET", HERE + "/comments/{comment_id}/reactions")
def reactions_of_comment(call: Call) -> Answer:
    return reactions_in(call, _comment(call).reactions)


@route("DELETE", HERE + "/comments/{comment_id}/reactions/{reaction_id}", needs="thread")
def take_back(call: Call) -> Answer:
    there = _comment(call).reactions
    mine = [it for it in there if str(it.id) == call.args["reaction_id"] and it.user is call.user]
    if not mine:
        raise Refused("not found")
    there.remove(mine[0])
    return Answer(204)
