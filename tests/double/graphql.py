"""The part of GitHub's GraphQL that a bot needs: auto-merge on and off, and reading a pull request and its repository.

The text is parsed by graphql-core and answered by walking its selections over plain dicts; a value that is a function is called
with the field's arguments. Whether a query fits GitHub's own schema is the business of the contract tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphql import GraphQLError, OperationType, language, parse, value_from_ast_untyped

from tests.double import shapes
from tests.double.merging import do_auto_merges, mergeable, standing, verdicts
from tests.double.refusals import Refused
from tests.double.routes import Call, accepted, granted, visible
from tests.double.state import AutoMerge, Issue, Pull, Repository, User

Fields = Mapping[str, Any]
METHODS = ("MERGE", "SQUASH", "REBASE")


def answer(call: Call) -> dict[str, Any]:
    """The body of the response; errors are in it, and the status is 200."""
    try:
        document = parse(str(call.body.get("query", "")))
    except GraphQLError as error:
        return {"errors": [{"message": Refused("graphql syntax", why=error.message).words}]}
    operation = next(it for it in document.definitions if isinstance(it, language.OperationDefinitionNode))
    fragments = {it.name.value: it for it in document.definitions if isinstance(it, language.FragmentDefinitionNode)}
    mutates = operation.operation is OperationType.MUTATION
    root: Fields = _mutations(call) if mutates else _queries(call)
    walk = _Walk(fragments, call.body.get("variables") or {})
    try:
        return {"data": walk.select(root, operation.selection_set, ("Mutation" if mutates else "Query",))}
    except Refused as refused:
        kinds = {"graphql node": "NOT_FOUND", "not found": "NOT_FOUND", "integration": "FORBIDDEN", "person": "FORBIDDEN"}
        said = {"message": refused.words, "locations": [{"line": 1, "column": 1}]}
        if refused.key == "graphql field":
            return {"errors": [said]}
        fields = [it for it in operation.selection_set.selections if isinstance(it, language.FieldNode)]
        names = [it.alias.value if it.alias else it.name.value for it in fields]
        said |= {"type": kinds.get(refused.key, "UNPROCESSABLE"), "path": names[:1]}
        return {"data": dict.fromkeys(names), "errors": [said]}


class _Walk:
    """One document: its fragments and variables."""

    def __init__(self, fragments: Mapping[str, language.FragmentDefinitionNode], variables: dict[str, Any]) -> None:
        self._fragments, self._variables = fragments, variables

    def select(self, there: Any, selection: language.SelectionSetNode | None, kind: tuple[str, ...]) -> Any:
        """What the selection leaves of a value."""
        if there is None or selection is None:
            return there
        if isinstance(there, list):
            return [self.select(it, selection, kind) for it in there]
        found: dict[str, Any] = {}
        for part in selection.selections:
            if isinstance(part, language.FieldNode):
                name = part.name.value
                found[part.alias.value if part.alias else name] = self._field(there, part, kind)
            elif isinstance(part, language.InlineFragmentNode):
                found |= self.select(there, part.selection_set, kind)
            elif isinstance(part, language.FragmentSpreadNode):
                found |= self.select(there, self._fragments[part.name.value].selection_set, kind)
        return found

    def _field(self, there: Fields, part: language.FieldNode, kind: tuple[str, ...]) -> Any:
        name = part.name.value
        if name not in there:
            raise Refused("graphql field", field=name, kind=there.get("__typename", kind[-1]))
        arguments = {it.name.value: value_from_ast_untyped(it.value, self._variables) for it in part.arguments}
        value = there[name](arguments) if callable(there[name]) else there[name]
        return self.select(value, part.selection_set, (*kind, name))


def _queries(call: Call) -> Fields:
    def node(arguments: Fields) -> Fields:
        repo, issue = _by_id(call, str(arguments.get("id")))
        return _pull(call, repo, issue)

    def repository(arguments: Fields) -> Fields:
        repo = call.hub.repository(f"{arguments.get('owner')}/{arguments.get('name')}")
        if repo is None or not visible(repo, call.who):
            raise Refused("not found")
        return _repository(call, repo)

    return {"__typename": "Query", "node": node, "repository": repository, "viewer": _actor(call.user)}


def _by_id(call: Call, wanted: str) -> tuple[Repository, Issue]:
    for repo in call.hub.repositories.values():
        for issue, _ in repo.pulls():
            if shapes.node("PR", issue.id) == wanted and visible(repo, call.who):
                return repo, issue
    raise Refused("graphql node", node=wanted)


def _actor(who: User | None) -> Fields | None:
    if who is None:
        return None
    urls = {"resourcePath": f"/{who.login}", "url": f"/{who.login}", "avatarUrl": f"/avatars/{who.id}"}
    login = who.login.removesuffix("[bot]")  # unlike in REST
    return {"__typename": who.type, "login": login, "id": f"U_{who.id}", "databaseId": who.id, **urls}


def _repository(call: Call, repo: Repository) -> Fields:
    def pull_request(arguments: Fields) -> Fields:
        issue = repo.issues.get(int(arguments["number"]))
        if issue is None or issue.pull is None:
            raise Refused("not found")
        return _pull(call, repo, issue)

    return {
        "__typename": "Repository",
        "id": shapes.node("R", repo.id),
        "databaseId": repo.id,
        "name": repo.name,
        "nameWithOwner": repo.full_name,
        "isArchived": repo.archived,
        "isPrivate": repo.private,
        "autoMergeAllowed": repo.allow_auto_merge,
        "deleteBranchOnMerge": repo.delete_branch_on_merge,
        "squashMergeAllowed": repo.allow_squash_merge,
        "defaultBranchRef": {"name": repo.default_branch, "target": {"oid": repo.tip(repo.default_branch)}},
        "pullRequest": pull_request,
    }


def _pull(call: Call, repo: Repository, issue: Issue) -> Fields:
    pull = issue.pull
    assert pull is not None, "only pull requests get here"
    auto = pull.auto
    able = {True: "MERGEABLE", False: "CONFLICTING", None: "UNKNOWN"}
    return {
        "__typename": "PullRequest",
        "id": shapes.node("PR", issue.id),
        "databaseId": pull.id,
        "number": issue.number,
        "title": issue.title,
        "body": issue.body or "",
        "url": f"{call.hub.url}/{repo.full_name}/pull/{issue.number}",
        "state": "MERGED" if pull.merged_at else issue.state.upper(),
        "closed": issue.state == "closed",
        "merged": pull.merged_at is not None,
        "mergedAt": shapes.stamp(pull.merged_at),
        "mergedBy": _actor(pull.merged_by),
        "mergeCommit": {"oid": pull.merge_sha} if pull.merge_sha else None,
        "mergeable": lambda _: able[mergeable(repo, issue, pull)[0]],
        "mergeStateStatus": lambda _: mergeable(repo, issue, pull)[1].upper(),
        "isDraft": pull.draft,
        "author": _actor(issue.user),
        "headRefName": pull.head,
        "headRefOid": pull.head_sha,
        "baseRefName": pull.base,
        "baseRefOid": pull.base_sha,
        "reviewDecision": _decision(repo, pull),
        "labels": lambda _: {"nodes": [{"name": name} for name in issue.labels], "totalCount": len(issue.labels)},
        "reviews": lambda _: {"nodes": [{"state": it.state, "body": it.body, "author": _actor(it.user)} for it in pull.reviews]},
        "autoMergeRequest": None
        if auto is None
        else {
            "enabledBy": _actor(auto.by),
            "mergeMethod": auto.method.upper(),
            "commitHeadline": auto.title,
            "commitBody": auto.message,
        },
    }


def _decision(repo: Repository, pull: Pull) -> str | None:
    """None where no review is required, as on GitHub."""
    rules, said = repo.protection.get(pull.base), list(verdicts(repo, pull).values())
    if rules is None or not rules.reviews:
        return None
    if "CHANGES_REQUESTED" in said:
        return "CHANGES_REQUESTED"
    return "APPROVED" if said.count("APPROVED") >= rules.reviews else "REVIEW_REQUIRED"


def _mutations(call: Call) -> Fields:
    def about(deed: Callable[[Call, Repository, Issue, Pull, Fields], None]) -> Callable[[Fields], Fields]:
        def run(arguments: Fields) -> Fields:
            asked = arguments["input"]
            repo, issue = _by_id(call, str(asked.get("pullRequestId")))
            _authorise(call, repo)
            assert issue.pull is not None
            deed(call, repo, issue, issue.pull, asked)
            shown = _pull(call, repo, issue)
            do_auto_merges(call.hub, repo)
            return {"actor": _actor(call.user), "pullRequest": shown, "clientMutationId": asked.get("clientMutationId")}

        return run

    deeds = {"enablePullRequestAutoMerge": about(_enable), "disablePullRequestAutoMerge": about(_disable)}
    return {"__typename": "Mutation", **deeds}


def _authorise(call: Call, repo: Repository) -> None:
    """Writers only; an app needs both permissions."""
    assert call.who is not None, "the server lets no anonymous query in"
    if call.who.is_app and not all(granted(call.who, name, "write") for name in ("pull_requests", "contents")):
        raise Refused("integration", headers=accepted("pull_requests"))
    if not call.who.is_app and repo.role(call.user.login) not in ("write", "maintain", "admin"):
        raise Refused("person")
    if repo.archived:
        raise Refused("archived")


def _enable(call: Call, repo: Repository, issue: Issue, pull: Pull, asked: Fields) -> None:
    if issue.state == "closed":
        raise Refused("auto closed")
    if not repo.allow_auto_merge:
        raise Refused("auto not allowed")
    if (expected := asked.get("expectedHeadOid")) not in (None, pull.head_sha):
        raise Refused("auto head", expected=expected, head=pull.head_sha)
    if pull.base not in repo.protection:
        raise Refused("auto unprotected")
    if (status := standing(repo, pull)) in ("clean", "unstable"):
        raise Refused("auto not needed", status=status)
    method = str(asked.get("mergeMethod") or "MERGE").lower()
    pull.auto = AutoMerge(call.user, method, asked.get("commitHeadline") or "", asked.get("commitBody") or "")


def _disable(call: Call, repo: Repository, issue: Issue, pull: Pull, asked: Fields) -> None:
    if pull.auto is None:
        raise Refused("auto not on")
    pull.auto = None
