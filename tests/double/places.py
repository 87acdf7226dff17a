"""Repositories as a whole, branches with their protection, users and apps, and who may do what."""

from __future__ import annotations

from tests.double import shapes
from tests.double.commits import HERE, short_commit
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route
from tests.double.shapes import Json
from tests.double.state import Protection, Repository

LEGACY = {"maintain": "write", "triage": "read"}  # `permission` knows neither; `role_name` does


def _role(call: Call, repo: Repository) -> str:
    """The role of who asks. An app's token gets what its permissions amount to."""
    if call.who is None:
        return "read"
    if call.who.is_app:
        return "write" if call.who.permissions.get("contents") == "write" else "read"
    return repo.role(call.who.user.login)


@route("GET", HERE)
def get_repository(call: Call) -> Answer:
    role = _role(call, call.repo)
    shape = shapes.repository(call.hub, call.repo, role)
    return Answer(200, shape | (shapes.settings(call.repo) if shape["permissions"]["push"] else {}))


@route("PATCH", HERE, needs="administration", role="admin")
def patch_repository(call: Call) -> Answer:
    for name in (*shapes.settings(call.repo), "default_branch", "archived", "has_issues", "private"):
        if name in call.body:
            setattr(call.repo, name, call.body[name])
    return get_repository(call)


@route("GET", HERE + "/collaborators/{username}/permission")
def permission(call: Call) -> Answer:
    login = call.args["username"]
    if call.who is None:
        raise Refused("anonymous")
    if not call.may("write"):
        raise Refused("no push access")
    found = next((it for it in call.hub.users.values() if it.login.lower() == login.lower() and it.type == "User"), None)
    if found is None:
        raise Refused("not a user", login=login)
    role = call.repo.role(found.login)
    shape = shapes.user(call.hub, found) | {"permissions": shapes.repository(call.hub, call.repo, role)["permissions"]}
    shape |= {"role_name": role}
    return Answer(200, {"permission": LEGACY.get(role, role), "role_name": role, "user": shape})


@route("GET", "/user")
def whoami(call: Call) -> Answer:
    if call.who is None:
        raise Refused("anonymous")
    if call.who.is_app:
        raise Refused("integration")
    return Answer(200, shapes.user(call.hub, call.who.user))


@route("GET", "/users/{username}")
def get_user(call: Call) -> Answer:
    found = next((it for it in call.hub.users.values() if it.login.lower() == call.args["username"].lower()), None)
    if found is None:
        raise Refused("not found")
    return Answer(200, shapes.user(call.hub, found))


@route("GET", "/app")
def get_app(call: Call) -> Answer:
    if call.who is None or call.who.kind != "jwt":
        raise Refused("no app")
    return Answer(200, shapes.app(call.hub, call.who.app))


@route("GET", "/installation/repositories")
def installed_on(call: Call) -> Answer:
    if call.who is None or not call.who.is_app:
        raise Refused("person" if call.who else "anonymous")
    found = [shapes.repository(call.hub, it, _role(call, it)) for it in call.hub.repositories.values()]
    return paged(call, found, wrap="repositories")


# branches


def _branch(call: Call, name: str, tip: str) -> Json:
    rules = call.repo.protection.get(name)
    checks = [{"context": it, "app_id": rules.app or None} for it in rules.checks] if rules else []
    level, names = "everyone" if checks else "off", [it["context"] for it in checks]
    status = {"enforcement_level": level, "contexts": names, "checks": checks}
    url = f"{shapes.home(call.hub, call.repo)}/branches/{name}"
    return {
        "name": name,
        "commit": {"sha": tip, "url": f"{shapes.home(call.hub, call.repo)}/commits/{tip}"},
        "protected": rules is not None,
        "protection": {"enabled": rules is not None, "required_status_checks": status},
        "protection_url": f"{url}/protection",
    }


@route("GET", HERE + "/branches")
def list_branches(call: Call) -> Answer:
    tips = call.repo.bare.refs("refs/heads").items()
    return paged(call, [_branch(call, ref.removeprefix("refs/heads/"), tip) for ref, tip in tips])


@route("GET", HERE + "/branches/{branch}")
def get_branch(call: Call) -> Answer:
    name = call.args["branch"]
    if (tip := call.repo.tip(name)) is None:
        raise Refused("not found")
    url = f"{shapes.home(call.hub, call.repo)}/branches/{name}"
    links = {"self": url, "html": f"{call.hub.url}/{call.repo.full_name}/tree/{name}"}
    return Answer(200, _branch(call, name, tip) | {"commit": short_commit(call.hub, call.repo, tip), "_links": links})


def _rules(call: Call, rules: Protection) -> Json:
    url = f"{shapes.home(call.hub, call.repo)}/branches/{call.args['branch']}/protection"
    shape: Json = {"url": url, "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": True}}
    if rules.checks or rules.strict:
        checks = [{"context": name, "app_id": rules.app or None} for name in rules.checks]
        url_checks = f"{url}/required_status_checks"
        shape["required_status_checks"] = {"url": url_checks, "strict": rules.strict, "contexts": rules.checks, "checks": checks,
                                           "contexts_url": f"{url_checks}/contexts"}  # fmt: skip
    if rules.reviews:
        shape["required_pull_request_reviews"] = {"url": f"{url}/required_pull_request_reviews", "dismiss_stale_reviews": False,
            "require_code_owner_reviews": False, "required_approving_review_count": rules.reviews}  # fmt: skip
    return shape


@route("GET", HERE + "/branches/{branch}/protection", needs="administration", role="admin", always=True)
def get_protection(call: Call) -> Answer:
    rules = call.repo.protection.get(call.args["branch"])
    if rules is None:
        raise Refused("not protected")
    return Answer(200, _rules(call, rules))


@route("PUT", HERE + "/branches/{branch}/protection", needs="administration", role="admin")
def put_protection(call: Call) -> Answer:
    checks, reviews = call.body.get("required_status_checks") or {}, call.body.get("required_pull_request_reviews") or {}
    names = checks.get("contexts") or [it["context"] for it in checks.get("checks") or []]
    bound = next((it["app_id"] for it in checks.get("checks") or [] if it.get("app_id")), 0)
    rules = Protection(list(names), bound, reviews.get("required_approving_review_count", 0), bool(checks.get("strict")))
    call.repo.protection[call.args["branch"]] = rules
    return Answer(200, _rules(call, rules))


@route("DELETE", HERE + "/branches/{branch}/protection", needs="administration", role="admin")
def delete_protection(call: Call) -> Answer:
    if call.repo.protection.pop(call.args["branch"], None) is None:
        raise Refused("not protected")
    return Answer(204)


@route("GET", HERE + "/rules/branches/{branch}")
def rules_of_branch(call: Call) -> Answer:
    """Rulesets only, and there are none: classic protection is not shown here, as on GitHub."""
    return paged(call, [])
