"""What people do in a browser or a terminal, for tests: the same deeds as over REST, with nobody's permission asked.

Each returns the event that GitHub would send to a webhook, if it sends one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.double import shapes
from tests.double.issues import add_comment, emit, set_state
from tests.double.merging import land, settle
from tests.double.reviews import VERDICTS, add_line_comment, add_review
from tests.double.state import Event, Hub, Repository, User


def comment(hub: Hub, repo: Repository, number: int, who: User, body: str) -> Event:
    return add_comment(hub, repo, repo.issues[number], who, body)[1]


def edit_comment(hub: Hub, repo: Repository, number: int, who: User, body: str) -> Event:
    """`number` is that of the comment; `who` may be another than its author."""
    there = repo.comments[number]
    changes = {"body": {"from": there.body}}
    there.body, there.updated = body, hub.now()
    issue = shapes.issue(hub, repo, repo.issues[there.number])
    return emit(hub, repo, "issue_comment", "edited", who, changes=changes, issue=issue, comment=shapes.comment(hub, repo, there))


def review(hub: Hub, repo: Repository, number: int, who: User, state: str, body: str) -> Event:
    """`state` is APPROVED, CHANGES_REQUESTED or COMMENTED."""
    event = {shown: asked for asked, shown in VERDICTS.items()}[state]
    return add_review(hub, repo, repo.issues[number], who, event=event, body=body)[1]


def comment_on_line(hub: Hub, repo: Repository, number: int, who: User, body: str, path: str, line: int) -> Event:
    return add_line_comment(hub, repo, repo.issues[number], who, body, path=path, line=line)[1]


def set_open(hub: Hub, repo: Repository, number: int, who: User, state: str) -> Event:
    """Close or reopen an issue or pull request."""
    set_state(hub, repo, repo.issues[number], state, who, "completed")
    return hub.events[-1]


def merge(hub: Hub, repo: Repository, number: int, who: User) -> str:
    """The squash button, whatever the rules say; the merge commit."""
    return land(hub, repo, repo.issues[number], who, method="squash", title=None, message=None)


def push(hub: Hub, repo: Repository, branch: str, who: User, files: Mapping[str, str], message: str) -> str:
    """One commit for each file on top of the branch (a new one starts at the default branch); the new tip."""
    tip = repo.tip(branch) or repo.tip(repo.default_branch)
    for path, text in files.items():
        tip = repo.bare.commit_file(tip, path, text, message, when=hub.now())
    assert tip is not None, "a repository has a default branch"
    return move(hub, repo, branch, who, tip)


def move(hub: Hub, repo: Repository, branch: str, who: User, sha: str) -> str:
    """A push by force: the branch is at that commit now."""
    repo.bare.set_ref(f"refs/heads/{branch}", sha)
    settle(hub, repo, who)
    return sha


def delete_branch(hub: Hub, repo: Repository, branch: str, who: User) -> None:
    repo.bare.delete_ref(f"refs/heads/{branch}")
    settle(hub, repo, who)


def rename(hub: Hub, repo: Repository, full_name: str) -> None:
    """The old name redirects from now on."""
    hub.moved[repo.full_name.lower()] = repo.id
    repo.owner, _, repo.name = full_name.partition("/")
    hub.moved.pop(full_name.lower(), None)


def rename_branch(hub: Hub, repo: Repository, old: str, new: str) -> None:
    """As in the settings: rules and pull requests follow, and nothing is closed."""
    tip = repo.tip(old)
    assert tip is not None, f"there is no branch {old}"
    repo.bare.set_ref(f"refs/heads/{new}", tip)
    if repo.default_branch == old:
        repo.default_branch = new
        repo.bare.ask("symbolic-ref", "HEAD", f"refs/heads/{new}")
    for _, pull in repo.pulls():
        pull.base, pull.head = (new if it == old else it for it in (pull.base, pull.head))
    if old in repo.protection:
        repo.protection[new] = repo.protection.pop(old)
    repo.bare.delete_ref(f"refs/heads/{old}")
