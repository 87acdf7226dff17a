"""Everything that the double refuses, in one table: status, words, when, and GitHub's own page that says so.

No other module makes an error of its own: `Refused` takes a key of REFUSALS. A test reaches each row by a real request. Where
GitHub documents the status but not the words, the words are those that clients report in public (the source then names a thread).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REST = "https://docs.github.com/en/rest/"
LIMITS = REST + "using-the-rest-api/rate-limits-for-the-rest-api"
TROUBLE = REST + "using-the-rest-api/troubleshooting-the-rest-api"
ISSUES, COMMENTS, LABELS = REST + "issues/issues", REST + "issues/comments", REST + "issues/labels"
PULLS, REVIEWS, CHECKS, REFS = REST + "pulls/pulls", REST + "pulls/reviews", REST + "checks/runs", REST + "git/refs"
WORKFLOWS, PROTECTED = REST + "actions/workflows", REST + "branches/branch-protection"
GRAPHQL = "https://docs.github.com/en/graphql/"
ABOUT = "https://docs.github.com/en/repositories/configuring-branches-and-merges-in-your-repository/"
RULES = ABOUT + "managing-protected-branches/about-protected-branches"
ARCHIVED = "https://docs.github.com/en/repositories/archiving-a-github-repository/archiving-repositories"
GIT = "https://docs.github.com/en/get-started/git-basics/about-remote-repositories"
_FORMING = GRAPHQL + "guides/forming-calls-with-graphql"
_AUTO = ABOUT + "configuring-pull-request-merges/managing-auto-merge-for-pull-requests-in-your-repository"
_SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@dataclass(frozen=True)
class Refusal:
    """One answer of GitHub that is not a success. `error` is (resource, field, code) of a 422 that lists what is wrong; its
    words are then the message of that entry and the answer itself says "Validation Failed"."""

    status: int
    message: str
    when: str
    source: str
    error: tuple[str, str, str] | None = None


REFUSALS: dict[str, Refusal] = {
    # who, and may they
    "bad credentials": Refusal(401, "Bad credentials", "the token is unknown", TROUBLE),
    "anonymous": Refusal(401, "Requires authentication", "a write, or /user, without a token", TROUBLE),
    "no app": Refusal(401, "A JSON web token could not be decoded", "/app without an app's own token", REST + "apps/apps"),
    "integration": Refusal(403, "Resource not accessible by integration", "an app's token lacks the permission", TROUBLE),
    "person": Refusal(403, "Resource not accessible by personal access token", "the user's role is too low", TROUBLE),
    "only apps": Refusal(403, "You must authenticate via a GitHub App.", "a person writes a check run", CHECKS),
    "other app": Refusal(403, "Invalid app_id `{app}` - check run can only be modified by the GitHub App that created it.",
                         "a check run of another app is changed", CHECKS),
    "no push access": Refusal(403, "Must have push access to view collaborator permission.",
                              "a reader asks for somebody's permission", REST + "collaborators/collaborators"),
    "not a user": Refusal(404, "{login} is not a user", "the permission of nobody is asked for",
                          REST + "collaborators/collaborators"),
    # where
    "not found": Refusal(404, "Not Found", "there is no such thing, or it is not visible to you", TROUBLE),
    "no route": Refusal(404, "Not Found", "the double has no such endpoint; `Double.unknown` keeps them", TROUBLE),
    "moved": Refusal(301, "Moved Permanently", "the repository was renamed, and the request reads",
                     REST + "using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects"),
    "moved for now": Refusal(307, "Moved Permanently", "the repository was renamed, and the request writes",
                             REST + "using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects"),
    "archived": Refusal(403, "Repository was archived so is read-only.", "anything is written to an archived one", ARCHIVED),
    "no issues": Refusal(410, "Issues has been disabled in this repository.", "issues are switched off", ISSUES),
    "locked": Refusal(403, "Unable to create comment because issue is locked.",
                      "an app, or a user without write, comments on a locked conversation", COMMENTS),
    "not json": Refusal(400, "Problems parsing JSON", "the body is not JSON", TROUBLE),
    "not an object": Refusal(400, "Body should be a JSON object", "the body is JSON but no object", TROUBLE),
    # how much
    "primary limit": Refusal(403, "API rate limit exceeded for {whom}.", "all requests of the hour are used", LIMITS),
    "secondary limit": Refusal(403, _SECONDARY, "too much was written or created in a minute or an hour", LIMITS),
    "secondary limit 429": Refusal(429, _SECONDARY, "the same, as the other status that GitHub uses", LIMITS),
    "invalid": Refusal(422, "Validation Failed", "a reason that is GitHub's own (a fault brings it about)", TROUBLE),
    # issues, comments, reactions, labels
    "no title": Refusal(422, "title is missing", "an issue without a title", ISSUES, ("Issue", "title", "missing_field")),
    "long title": Refusal(422, "title is too long (maximum is 256 characters)", "over 256 characters", ISSUES,
                          ("Issue", "title", "custom")),
    "long body": Refusal(422, "body is too long (maximum is 65536 characters)", "over 65,536 characters", ISSUES,
                         ("Issue", "body", "custom")),
    "bad state": Refusal(422, "state is not open or closed", "another state", ISSUES, ("Issue", "state", "invalid")),
    "blank comment": Refusal(422, "Body cannot be blank", "a comment of nothing", COMMENTS,
                             ("IssueComment", "data", "unprocessable")),
    "long comment": Refusal(422, "Body is too long (maximum is 65536 characters)", "over 65,536 characters", COMMENTS,
                            ("IssueComment", "data", "unprocessable")),
    "bad reaction": Refusal(422, "content is not a reaction", "not one of the eight", REST + "reactions/reactions",
                            ("Reaction", "content", "invalid")),
    "label exists": Refusal(422, "name is taken", "two labels of one name, whatever the case", LABELS,
                            ("Label", "name", "already_exists")),
    "bad colour": Refusal(422, "color is not six hex digits", "#ff0000, or a word", LABELS, ("Label", "color", "invalid")),
    "long label": Refusal(422, "name is too long (maximum is 50 characters)", "a name over 50 characters", LABELS,
                          ("Label", "name", "custom")),
    "long label text": Refusal(422, "description is too long (maximum is 100 characters)", "over 100 characters", LABELS,
                               ("Label", "description", "custom")),
    "no label": Refusal(404, "Label does not exist", "a label is taken off that is not on", LABELS),
    # pull requests
    "bad head": Refusal(422, "head is no branch here", "the head is not a branch", PULLS, ("PullRequest", "head", "invalid")),
    "bad base": Refusal(422, "base is no branch here", "the base is not a branch", PULLS, ("PullRequest", "base", "invalid")),
    "no commits": Refusal(422, "No commits between {base} and {head}", "the head has nothing new", PULLS,
                          ("PullRequest", "base", "custom")),
    "pull exists": Refusal(422, "A pull request already exists for {head}.", "a second open one of the same branch", PULLS,
                           ("PullRequest", "head", "custom")),
    "cannot reopen": Refusal(422, "state cannot be changed. The {head} branch has been deleted.",
                             "a pull request without a branch is opened again", PULLS, ("PullRequest", "state", "custom")),
    "own pull": Refusal(422, "Can not {verb} your own pull request", "the author reviews with a verdict", REVIEWS),
    "blank review": Refusal(422, "Body can't be blank", "changes are requested without a word", REVIEWS),
    "bad review": Refusal(422, "event is not one of APPROVE, REQUEST_CHANGES, COMMENT", "another event", REVIEWS),
    # merging
    "head modified": Refusal(409, "Head branch was modified. Review and try the merge again.",
                             "`sha` is not the head of the pull request", PULLS + "#merge-a-pull-request"),
    "base modified": Refusal(405, "Base branch was modified. Review and try the merge again.",
                             "the base moves during the merge (a fault brings it about)", "https://github.com/cli/cli/issues/12748"),
    "not mergeable": Refusal(405, "Pull Request is not mergeable", "a conflict, or it is closed or merged already",
                             PULLS + "#merge-a-pull-request"),
    "draft": Refusal(405, "Pull Request is still a draft", "a draft is merged", PULLS + "#merge-a-pull-request"),
    "check expected": Refusal(405, 'Required status check "{name}" is expected.', "a required check has not reported", RULES),
    "check pending": Refusal(405, 'Required status check "{name}" is in progress.', "a required check is not completed", RULES),
    "check failing": Refusal(405, 'Required status check "{name}" is failing.', "a required check failed", RULES),
    "behind": Refusal(405, "Head branch is out of date. Update it with the base branch and try the merge again.",
                      "branches must be up to date, and this one is not", RULES),
    "review missing": Refusal(405, "At least {count} approving review is required by reviewers with write access.",
                              "too few approvals", RULES),
    "changes requested": Refusal(405, "Changes have been requested by a reviewer with write access.",
                                 "reviews are required and the last one of somebody requests changes", RULES),
    "head sha": Refusal(422, "expected head sha didn't match current head ref.", "the branch to update has moved",
                        PULLS + "#update-a-pull-request-branch"),
    "update conflict": Refusal(422, "merge conflict between base and head", "the base does not merge into the branch",
                               PULLS + "#update-a-pull-request-branch"),
    "method": Refusal(405, "{method} merges are not allowed on this repository.", "that merge method is switched off",
                      PULLS + "#merge-a-pull-request"),
    "bad method": Refusal(422, "merge_method is not one of merge, squash, rebase", "another method",
                          PULLS + "#merge-a-pull-request", ("PullRequest", "merge_method", "invalid")),
    # check runs: what GitHub's JSON schema refuses
    "missing": Refusal(422, 'Invalid request.\n\n"{field}" wasn\'t supplied.', "a required field is not there", CHECKS),
    "not a member": Refusal(422, "Invalid request.\n\n{value} is not a member of {members}.", "none of those words", CHECKS),
    "too many": Refusal(422, "Invalid request.\n\nNo more than {limit} items are allowed; {count} were supplied.",
                        "51 annotations or 4 actions", CHECKS),
    "too long": Refusal(422, "Invalid request.\n\nOnly {limit} characters are allowed; {count} were supplied.",
                        "a summary or text over 65,535 characters", CHECKS),
    "no commit": Refusal(422, "No commit found for SHA: {sha}", "the commit is not in the repository", CHECKS),
    # refs and contents
    "ref exists": Refusal(422, "Reference already exists", "a ref is created twice", REFS),
    "no object": Refusal(422, "Object does not exist", "a ref to a commit that is not there", REFS),
    "bad ref": Refusal(422, "Reference name must start with 'refs/' and contain at least two slashes", "heads/x alone", REFS),
    "no ref": Refusal(422, "Reference does not exist", "a ref is deleted or moved that is not there", REFS),
    "not ahead": Refusal(422, "Update is not a fast forward", "a ref is moved back without force", REFS),
    "protected ref": Refusal(422, "Cannot update this protected branch", "it is moved, or deleted (the default one too)", REFS),
    "not protected": Refusal(404, "Branch not protected", "the protection of a branch that has none", PROTECTED),
    # workflows
    "no ref found": Refusal(422, "No ref found for: {ref}", "a workflow is dispatched on a branch that is not there", WORKFLOWS),
    "no trigger": Refusal(422, "Workflow does not have 'workflow_dispatch' trigger", "its file does not say so", WORKFLOWS),
    "many inputs": Refusal(422, "you may only define up to 25 `inputs` for a `workflow_dispatch` event", "26 inputs", WORKFLOWS),
    "variable exists": Refusal(409, "Already exists - Variable already exists", "a variable is created twice",
                               REST + "actions/variables"),
    "many keys": Refusal(422, "No more than 10 properties are allowed; {count} were supplied.", "11 keys of client_payload",
                         REST + "repos/repos#create-a-repository-dispatch-event"),
    # GraphQL: status 200, the words are in `errors`
    "graphql syntax": Refusal(200, "Parse error: {why}", "the text is not GraphQL", _FORMING),
    "graphql field": Refusal(200, "Field '{field}' doesn't exist on type '{kind}'", "an unknown field", _FORMING),
    "graphql node": Refusal(200, "Could not resolve to a node with the global id of '{node}'", "an unknown id",
                            GRAPHQL + "guides/using-global-node-ids"),
    "auto not allowed": Refusal(200, "Pull request Auto merge is not allowed for this repository", "the setting is off", _AUTO),
    "auto unprotected": Refusal(200, "Pull request Protected branch rules not configured for this branch",
                                "the base has no protection rule", "https://github.com/iterative/cml/pull/955"),
    "auto not needed": Refusal(200, "Pull request Pull request is in {status} status", "it can be merged at once",
                               "https://github.com/peter-evans/enable-pull-request-automerge/issues/343"),
    "auto closed": Refusal(200, "Pull request Pull request is closed", "it is closed or merged",
                           GRAPHQL + "reference/mutations#enablepullrequestautomerge"),
    "auto head": Refusal(200, "Head sha mismatch: expected {expected}, is {head}", "expectedHeadOid is not the head",
                         GRAPHQL + "reference/input-objects#enablepullrequestautomergeinput"),
    "auto not on": Refusal(200, "Pull request Auto merge is not enabled", "it is switched off where it is not on",
                           GRAPHQL + "reference/mutations#disablepullrequestautomerge"),
    # git over HTTP: plain text
    "git anonymous": Refusal(401, "Authentication required", "a push, or a private repository, without a token", GIT),
    "git bad token": Refusal(401, "Invalid username or token.", "the token is unknown", GIT),
    "git forbidden": Refusal(403, "Permission to {repo}.git denied to {login}.", "a push without write", GIT),
    "git archived": Refusal(403, "This repository was archived so it is read-only.", "a push to an archived one", ARCHIVED),
    "push protected": Refusal(200, "GH006: Protected branch update failed for {ref}.",
                              "a protected branch is pushed to; git shows the words", RULES),
    "push workflow": Refusal(
        200, "refusing to allow a GitHub App to create or update workflow `{path}` without `workflows` permission",
        "a GITHUB_TOKEN, or an app without `workflows`, pushes a change of a workflow",
        "https://docs.github.com/en/actions/concepts/security/github_token"),
    "git not found": Refusal(404, "Repository not found.", "no such repository, or not visible to you", GIT),
}  # fmt: skip


class Refused(Exception):
    """A request is answered by that row; `fill` completes its words."""

    def __init__(self, key: str, *, headers: dict[str, str] | None = None, **fill: object) -> None:
        super().__init__(key)
        self.key, self.refusal, self.headers = key, REFUSALS[key], headers or {}
        self.words = self.refusal.message.format(**fill) if fill else self.refusal.message

    def body(self) -> dict[str, Any]:
        """The JSON that GitHub answers with."""
        said: dict[str, Any] = {"message": self.words}
        if self.refusal.error:
            resource, field, code = self.refusal.error
            entry = {"resource": resource, "field": field, "code": code}
            said = {"message": "Validation Failed", "errors": [entry | ({} if code == "invalid" else {"message": self.words})]}
        return said | {"documentation_url": self.refusal.source}
