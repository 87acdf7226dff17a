"""GitHub's JSON of each thing, as api.github.com sends it. Every URL starts at the address that the double listens on, because
PyGithub refuses any other host. Fields that no client of ours reads are there when GitHub's OpenAPI description requires them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.double.addresses import REPO, USER
from tests.double.state import (
    REACTIONS,
    Comment,
    Hub,
    Issue,
    Label,
    LineComment,
    Pull,
    Reaction,
    Repository,
    Review,
    User,
)

Json = dict[str, Any]
APPS = {1: "autoresearch", 15368: "github-actions"}  # the second is the true id of GitHub Actions


def stamp(at: float | None) -> str | None:
    """An epoch second as GitHub writes it; None stays None."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(kind: str, number: int) -> str:
    """A global id: opaque to clients, readable in a failing test."""
    return f"{kind}_{number}"


def user(hub: Hub, who: User) -> Json:
    api = f"{hub.url}/users/{who.login}"
    return {
        "login": who.login,
        "id": who.id,
        "node_id": node("BOT" if who.type == "Bot" else "U", who.id),
        "avatar_url": f"{hub.url}/avatars/{who.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{hub.url}/{who.login}",
        "type": who.type,
        "user_view_type": "public",
        "site_admin": False,
    } | {key: f"{api}/{part}" for key, part in USER.items()}


def app(hub: Hub, number: int) -> Json | None:
    """The app that something was made through; None for people."""
    if not number:
        return None
    slug = APPS[number]
    return {
        "id": number,
        "client_id": f"Iv1.{number}",
        "slug": slug,
        "node_id": node("A", number),
        "owner": user(hub, next(iter(hub.users.values()))),
        "name": slug,
        "description": None,
        "external_url": f"{hub.url}/apps/{slug}",
        "html_url": f"{hub.url}/apps/{slug}",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "permissions": {"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write"},
        "events": ["issue_comment"],
    }


def home(hub: Hub, repo: Repository) -> str:
    """The API address of a repository."""
    return f"{hub.url}/repos/{repo.full_name}"


def repository(hub: Hub, repo: Repository, role: str = "read") -> Json:
    api, page, rank = home(hub, repo), f"{hub.url}/{repo.full_name}", ("read", "triage", "write", "maintain", "admin")
    level = rank.index(role) if role in rank else -1
    names = ("pull", "triage", "push", "maintain", "admin")
    return {
        **{key: f"{api}/{part}" for key, part in REPO.items()},
        "id": repo.id,
        "node_id": node("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "visibility": "private" if repo.private else "public",
        "owner": user(hub, hub.users[repo.owner]),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": api,
        "git_url": f"git://{page.partition('://')[2]}.git",
        "ssh_url": f"git@{page.partition('://')[2]}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        "default_branch": repo.default_branch,
        "archived": repo.archived,
        "disabled": False,
        "is_template": False,
        "topics": [],
        "has_issues": repo.has_issues,
        **dict.fromkeys(("has_projects", "has_wiki", "has_pages", "has_downloads", "has_discussions", "allow_forking"), False),
        **dict.fromkeys(("forks", "forks_count", "watchers", "watchers_count", "stargazers_count", "size"), 0),
        "open_issues": (still := sum(issue.state == "open" for issue in repo.issues.values())),
        "open_issues_count": still,
        **dict.fromkeys(("pushed_at", "created_at", "updated_at"), "2026-01-01T00:00:00Z"),
        "permissions": {name: level >= k for k, name in enumerate(names)},
        "web_commit_signoff_required": False,
    }


def settings(repo: Repository) -> Json:
    """What only those with push access are shown, beside `repository`."""
    names = ("allow_auto_merge", "delete_branch_on_merge", "allow_squash_merge", "allow_merge_commit", "allow_rebase_merge")
    return {name: getattr(repo, name) for name in names}


def label(hub: Hub, repo: Repository, it: Label) -> Json:
    return {
        "id": it.id,
        "node_id": node("LA", it.id),
        "url": f"{home(hub, repo)}/labels/{it.name.replace(' ', '%20')}",
        "name": it.name,
        "color": it.color,
        "default": False,
        "description": it.description,
    }


def rollup(url: str, all_of_them: list[Reaction]) -> Json:
    counts = {name: sum(it.content == name for it in all_of_them) for name in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(all_of_them), **counts}


def reaction(hub: Hub, it: Reaction) -> Json:
    made = {"id": it.id, "node_id": node("REA", it.id), "content": it.content, "created_at": stamp(it.at)}
    return made | {"user": user(hub, it.user)}


def association(repo: Repository, who: User) -> str:
    """OWNER for the owner, COLLABORATOR for who has a role, else NONE. (GitHub's own is not to be trusted for rights.)"""
    return "OWNER" if who.login == repo.owner else "COLLABORATOR" if who.login in repo.roles else "NONE"


def issue(hub: Hub, repo: Repository, it: Issue) -> Json:
    url = f"{home(hub, repo)}/issues/{it.number}"
    page = f"{hub.url}/{repo.full_name}/{'pull' if it.pull else 'issues'}/{it.number}"
    said = {
        "url": url,
        "repository_url": home(hub, repo),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "timeline_url": f"{url}/timeline",
        "html_url": page,
        "id": it.id,
        "node_id": node("PR" if it.pull else "I", it.id),
        "number": it.number,
        "title": it.title,
        "user": user(hub, it.user),
        "labels": [label(hub, repo, repo.labels[name.lower()]) for name in it.labels],
        "state": it.state,
        "state_reason": it.reason,
        "locked": it.locked,
        "active_lock_reason": None,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": sum(comment.number == it.number for comment in repo.comments.values()),
        "created_at": stamp(it.created),
        "updated_at": stamp(it.updated),
        "closed_at": stamp(it.closed),
        "closed_by": user(hub, it.closed_by) if it.closed_by else None,
        "author_association": association(repo, it.user),
        "body": it.body,
        "reactions": rollup(url, it.reactions),
        "performed_via_github_app": app(hub, it.app),
    }
    if it.pull:
        api = f"{home(hub, repo)}/pulls/{it.number}"
        urls = {"url": api, "html_url": page, "diff_url": f"{page}.diff", "patch_url": f"{page}.patch"}
        said |= {"draft": it.pull.draft, "pull_request": urls | {"merged_at": stamp(it.pull.merged_at)}}
    return said


def comment(hub: Hub, repo: Repository, it: Comment) -> Json:
    url = f"{home(hub, repo)}/issues/comments/{it.id}"
    kind = "pull" if repo.issues[it.number].pull else "issues"
    return {
        "url": url,
        "html_url": f"{hub.url}/{repo.full_name}/{kind}/{it.number}#issuecomment-{it.id}",
        "issue_url": f"{home(hub, repo)}/issues/{it.number}",
        "id": it.id,
        "node_id": node("IC", it.id),
        "user": user(hub, it.user),
        "created_at": stamp(it.created),
        "updated_at": stamp(it.updated),
        "author_association": association(repo, it.user),
        "body": it.body,
        "reactions": rollup(url, it.reactions),
        "performed_via_github_app": app(hub, it.app),
    }


def _end(hub: Hub, repo: Repository, branch: str, sha: str) -> Json:
    owner = user(hub, hub.users[repo.owner])
    return {"label": f"{repo.owner}:{branch}", "ref": branch, "sha": sha, "user": owner, "repo": repository(hub, repo)}


def pull_in_list(hub: Hub, repo: Repository, it: Issue, pull: Pull) -> Json:
    """A pull request as lists and events have it: without `mergeable`, `merged` and the counts, as on GitHub."""
    api, page = f"{home(hub, repo)}/pulls/{it.number}", f"{hub.url}/{repo.full_name}/pull/{it.number}"
    base = issue(hub, repo, it)
    from_issue = ("id", "node_id", "number", "state", "locked", "title", "user", "body", "labels", "milestone", "assignee",
                  "assignees", "created_at", "updated_at", "closed_at", "active_lock_reason", "author_association")  # fmt: skip
    auto = pull.auto
    return {name: base[name] for name in from_issue} | {
        "url": api,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": base["url"],
        "commits_url": f"{api}/commits",
        "review_comments_url": f"{api}/comments",
        "review_comment_url": f"{home(hub, repo)}/pulls/comments{{/number}}",
        "comments_url": base["comments_url"],
        "statuses_url": f"{home(hub, repo)}/statuses/{pull.head_sha}",
        "merged_at": stamp(pull.merged_at),
        "merge_commit_sha": pull.merge_sha,
        "requested_reviewers": [],
        "requested_teams": [],
        "draft": pull.draft,
        "head": _end(hub, repo, pull.head, pull.head_sha),
        "base": _end(hub, repo, pull.base, pull.base_sha),
        "_links": {"self": {"href": api}, "html": {"href": page}, "issue": {"href": base["url"]}},
        "auto_merge": None
        if auto is None
        else {
            "enabled_by": user(hub, auto.by),
            "merge_method": auto.method,
            "commit_title": auto.title,
            "commit_message": auto.message,
        },
    }


def review(hub: Hub, repo: Repository, number: int, it: Review) -> Json:
    page, api = f"{hub.url}/{repo.full_name}/pull/{number}", f"{home(hub, repo)}/pulls/{number}"
    html = f"{page}#pullrequestreview-{it.id}"
    return {
        "id": it.id,
        "node_id": node("PRR", it.id),
        "user": user(hub, it.user),
        "body": it.body,
        "state": it.state,
        "html_url": html,
        "pull_request_url": api,
        "_links": {"html": {"href": html}, "pull_request": {"href": api}},
        "submitted_at": stamp(it.at),
        "commit_id": it.commit,
        "author_association": association(repo, it.user),
    }


def line_comment(hub: Hub, repo: Repository, it: LineComment) -> Json:
    url, pull = f"{home(hub, repo)}/pulls/comments/{it.id}", f"{home(hub, repo)}/pulls/{it.number}"
    html = f"{hub.url}/{repo.full_name}/pull/{it.number}#discussion_r{it.id}"
    return {
        "url": url, "html_url": html, "pull_request_url": pull, "id": it.id, "node_id": node("PRRC", it.id),
        "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull}},
        "user": user(hub, it.user), "body": it.body, "author_association": association(repo, it.user),
        "created_at": stamp(it.created), "updated_at": stamp(it.updated), "reactions": rollup(url, it.reactions),
        "path": it.path, "line": it.line, "original_line": it.line, "position": it.line, "original_position": it.line,
        "side": "RIGHT", "subject_type": "line", "diff_hunk": "@@", "pull_request_review_id": it.id,
        "commit_id": it.commit, "original_commit_id": it.commit, **({"in_reply_to_id": it.to} if it.to else {}),
    }  # fmt: skip
