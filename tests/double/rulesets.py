"""Rulesets, names of secrets, and what GITHUB_TOKEN may: what an administrator sets up.

A ruleset that asks for checks on the default branch is kept like its protection; other rules are only remembered.
"""

from __future__ import annotations

from tests.double import shapes
from tests.double.actions import ACTIONS
from tests.double.commits import HERE
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route
from tests.double.shapes import Json
from tests.double.state import Protection

FIELDS = ("name", "target", "enforcement", "bypass_actors", "conditions", "rules")


@route("GET", HERE + "/rulesets")
def list_rulesets(call: Call) -> Answer:
    return paged(call, [{name: it[name] for name in it if name not in ("rules", "conditions", "bypass_actors")}
                        for it in call.repo.rulesets])  # fmt: skip


def _there(call: Call) -> Json:
    found = next((it for it in call.repo.rulesets if it["id"] == int(call.args["ruleset_id"])), None)
    if found is None:
        raise Refused("not found")
    return found


@route("GET", HERE + "/rulesets/{ruleset_id}")
def get_ruleset(call: Call) -> Answer:
    return Answer(200, _there(call))


@route("POST", HERE + "/rulesets", needs="administration", role="admin")
def create_ruleset(call: Call) -> Answer:
    number = next(call.hub.ids)
    made = {"id": number, "node_id": shapes.node("RRS", number), "source_type": "Repository", "source": call.repo.full_name}
    call.repo.rulesets.append(made)
    return Answer(201, _changed(call, made))


@route("PUT", HERE + "/rulesets/{ruleset_id}", needs="administration", role="admin")
def update_ruleset(call: Call) -> Answer:
    return Answer(200, _changed(call, _there(call)))


def _changed(call: Call, ruleset: Json) -> Json:
    ruleset |= {name: call.body[name] for name in FIELDS if name in call.body}
    if "~DEFAULT_BRANCH" in ruleset["conditions"]["ref_name"]["include"]:
        for rule in (it for it in ruleset["rules"] if it["type"] == "required_status_checks"):
            checks = rule["parameters"]["required_status_checks"]
            app = next((it["integration_id"] for it in checks if it.get("integration_id")), 0)
            strict = rule["parameters"]["strict_required_status_checks_policy"]
            call.repo.protection[call.repo.default_branch] = Protection([it["context"] for it in checks], app, 0, strict)
    return ruleset


@route("GET", ACTIONS + "/secrets", needs="secrets", role="write", always=True)
def list_secrets(call: Call) -> Answer:
    times = dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00Z")
    return paged(call, [{"name": name, **times} for name in call.repo.secrets], wrap="secrets")


@route("GET", ACTIONS + "/permissions/workflow", needs="administration", role="admin", always=True)
def workflow_permissions(call: Call) -> Answer:
    may = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": call.repo.can_approve}
    return Answer(200, may)
