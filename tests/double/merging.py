"""What keeps a pull request from being merged, the merge itself, and what follows when a branch has moved.

`settle` is called after everything that moves or deletes a branch: heads are followed, pull requests of deleted branches closed,
those whose commits came in by a push marked as merged, and auto-merges that wait for nothing more are done.
"""

from __future__ import annotations

import re
from typing import Any

from tests.double import shapes
from tests.double.issues import emit, set_state
from tests.double.refusals import Refused
from tests.double.state import ROLES, Hub, Issue, Pull, Repository, User

PASSES = ("success", "neutral", "skipped")
CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#([0-9]+)", re.IGNORECASE)
Obstacle = tuple[str, dict[str, Any]]


def merged_tree(repo: Repository, pull: Pull) -> str | None:
    """The tree of merging it now; None when that conflicts or the base is gone."""
    base = repo.tip(pull.base)
    if base is None:
        return None
    key = ("tree", base, pull.head_sha)
    if key not in repo.memo:
        repo.memo[key] = repo.bare.merge_tree(base, pull.head_sha)
    tree: str | None = repo.memo[key]
    return tree


def verdicts(repo: Repository, pull: Pull) -> dict[str, str]:
    """login -> APPROVED or CHANGES_REQUESTED, the last one of each reviewer with write access."""
    writers = ROLES[ROLES.index("write") :]
    said = [it for it in pull.reviews if it.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")]
    last = {it.user.login: it.state for it in said if repo.role(it.user.login) in writers}
    return {login: state for login, state in last.items() if state != "DISMISSED"}


def obstacle(repo: Repository, pull: Pull) -> Obstacle | None:
    """The first rule of the base branch that is not met: a key of REFUSALS and what completes its words."""
    rules = repo.protection.get(pull.base)
    if rules is None:
        return None
    said = list(verdicts(repo, pull).values())
    if rules.reviews and "CHANGES_REQUESTED" in said:
        return "changes requested", {}
    if said.count("APPROVED") < rules.reviews:
        return "review missing", {"count": rules.reviews}
    for name in rules.checks:
        runs = [run for run in repo.checks_of(pull.head_sha) if run.name == name and rules.app in (0, run.app)]
        run = runs[0] if runs else None
        if run is None or run.conclusion not in PASSES:
            key = "check expected" if run is None else "check failing" if run.conclusion else "check pending"
            return key, {"name": name}
    if rules.strict and not _is_ahead(repo, pull):
        return "behind", {}
    return None


def _is_ahead(repo: Repository, pull: Pull) -> bool:
    base = repo.tip(pull.base)
    return base is not None and repo.bare.is_ancestor(base, pull.head_sha)


def standing(repo: Repository, pull: Pull) -> str:
    """`mergeable_state` of an open pull request, once it is computed."""
    if pull.draft:
        return "draft"
    if merged_tree(repo, pull) is None:
        return "dirty"
    if found := obstacle(repo, pull):
        return "behind" if found[0] == "behind" else "blocked"
    newest = {run.name: run for run in reversed(repo.checks_of(pull.head_sha))}
    return "clean" if all(run.conclusion in PASSES for run in newest.values()) else "unstable"


def mergeable(repo: Repository, issue: Issue, pull: Pull) -> tuple[bool | None, str]:
    """`mergeable` and `mergeable_state`. The first `Hub.lazy` looks after each change find it not computed yet."""
    if issue.state == "closed":
        return None, "unknown"
    if pull.polls > 0:
        pull.polls -= 1
        return None, "unknown"
    state = standing(repo, pull)
    return state != "dirty", state


# merging


def check_merge(repo: Repository, issue: Issue, pull: Pull, sha: str | None) -> None:
    """Refuse what GitHub would not merge."""
    if issue.state == "closed":
        raise Refused("not mergeable")
    if pull.draft:
        raise Refused("draft")
    if sha is not None and sha != pull.head_sha:
        raise Refused("head modified")
    if found := obstacle(repo, pull):
        raise Refused(found[0], **found[1])
    if merged_tree(repo, pull) is None:
        raise Refused("not mergeable")


def land(hub: Hub, repo: Repository, issue: Issue, by: User, *, method: str, title: str | None, message: str | None) -> str:
    """Merge it, whatever the rules say; the merge commit."""
    pull = issue.pull
    assert pull is not None, "only pull requests are merged"
    base, tree = repo.tip(pull.base), merged_tree(repo, pull)
    if base is None or tree is None:
        raise Refused("not mergeable")
    sha = repo.bare.commit_tree(
        tree,
        [base] if method == "squash" else [base, pull.head_sha],
        _message(repo, issue, pull, method, title, message),
        when=hub.now(),
    )
    if not repo.bare.update_ref(f"refs/heads/{pull.base}", sha, base):
        raise Refused("base modified")
    _is_merged(hub, repo, issue, pull, by, sha)
    if repo.delete_branch_on_merge:
        repo.bare.delete_ref(f"refs/heads/{pull.head}")
    settle(hub, repo, by)
    return sha


def _message(repo: Repository, issue: Issue, pull: Pull, method: str, title: str | None, message: str | None) -> str:
    if method == "squash":
        title = title or f"{issue.title} (#{issue.number})"
        message = message if message is not None else ""
    else:
        title = title or f"Merge pull request #{issue.number} from {repo.owner}/{pull.head}"
        message = message if message is not None else issue.title
    return f"{title}\n\n{message}".rstrip()


def _is_merged(hub: Hub, repo: Repository, issue: Issue, pull: Pull, by: User, sha: str) -> None:
    """Write down a merge, and close the issues that its words close."""
    pull.merged_at, pull.merged_by, pull.merge_sha, pull.auto = hub.now(), by, sha, None
    repo.bare.set_ref(f"refs/pull/{issue.number}/head", pull.head_sha)
    set_state(hub, repo, issue, "closed", by)
    hub.events[-1].payload["pull_request"] |= {"merged": True, "merged_by": shapes.user(hub, by)}
    if pull.base != repo.default_branch:
        return
    for number in map(int, CLOSES.findall(issue.body or "")):
        if number in repo.issues and repo.issues[number].pull is None:
            set_state(hub, repo, repo.issues[number], "closed", by)


# after a branch has moved


def settle(hub: Hub, repo: Repository, by: User) -> None:
    heads = repo.bare.refs("refs/heads")
    for issue, pull in list(repo.pulls()):
        if issue.state == "open":
            _follow(hub, repo, issue, pull, heads, by)
    do_auto_merges(hub, repo)


def _follow(hub: Hub, repo: Repository, issue: Issue, pull: Pull, heads: dict[str, str], by: User) -> None:
    head, base = heads.get(f"refs/heads/{pull.head}"), heads.get(f"refs/heads/{pull.base}")
    if head is None:
        set_state(hub, repo, issue, "closed", by)
        return
    if head != pull.head_sha:
        before, pull.head_sha, pull.polls = pull.head_sha, head, hub.lazy
        pull.base_sha = base or pull.base_sha
        repo.bare.set_ref(f"refs/pull/{issue.number}/head", head)
        if pull.auto and by.type == "User" and ROLES.index(repo.role(by.login)) < ROLES.index("write"):
            pull.auto = None
        shape = shapes.pull_in_list(hub, repo, issue, pull)
        emit(hub, repo, "pull_request", "synchronize", by, number=issue.number, pull_request=shape, before=before, after=head)
    if base and base != pull.onto:
        pull.onto, pull.polls = base, hub.lazy
        if repo.bare.is_ancestor(pull.head_sha, base):
            _is_merged(hub, repo, issue, pull, by, pull.head_sha)


def do_auto_merges(hub: Hub, repo: Repository) -> None:
    """Merge what is armed and waits for nothing more, one at a time: each merge moves the base of the others."""
    for issue, pull in list(repo.pulls()):
        auto = pull.auto
        if auto and issue.state == "open" and not pull.draft and not obstacle(repo, pull) and merged_tree(repo, pull):
            land(hub, repo, issue, auto.by, method=auto.method, title=auto.title, message=auto.message)
            return  # land() settles, which comes back here
