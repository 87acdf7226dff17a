"""GitHub Actions, as far as a bot asks for it: workflow files of the default branch, dispatches, runs, runners, variables.

No workflow runs here. A dispatch is written down in `Repository.dispatches`, and becomes a queued run that a test may move on.
"""

from __future__ import annotations

import re

from tests.double import shapes
from tests.double.commits import HERE
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route, text
from tests.double.shapes import Json, stamp
from tests.double.state import Hub, Repository

ACTIONS = HERE + "/actions"
FOLDER = ".github/workflows/"
INPUTS, KEYS = 25, 10
RUN_NAME = re.compile(r"^run-name: \$\{\{ inputs\.(\w+) && format\('([^']*)', inputs\.\1\) \|\| '([^']*)' \}\}$", re.MULTILINE)


def _workflows(repo: Repository) -> list[str]:
    tip = repo.tip(repo.default_branch)
    return [path for path in repo.bare.paths(tip) if path.startswith(FOLDER)] if tip else []


def _shown(hub: Hub, repo: Repository, path: str) -> Json:
    number = 1 + sum(map(ord, path))
    url = f"{shapes.home(hub, repo)}/actions/workflows/{number}"
    page = f"{hub.url}/{repo.full_name}"
    pages = {"html_url": f"{page}/blob/{repo.default_branch}/{path}", "badge_url": f"{page}/badge.svg"}
    times = dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00Z")
    return {"id": number, "node_id": shapes.node("W", number), "name": path.removeprefix(FOLDER), "path": path, "state": "active",
            "url": url, **pages, **times}  # fmt: skip


def _workflow(call: Call) -> Json:
    """By the name of its file, or its number."""
    name = call.args["workflow_id"]
    shown = [_shown(call.hub, call.repo, path) for path in _workflows(call.repo)]
    found = next((it for it in shown if name in (str(it["id"]), it["path"], it["path"].removeprefix(FOLDER))), None)
    if found is None:
        raise Refused("not found")
    return found


@route("GET", ACTIONS + "/workflows")
def list_workflows(call: Call) -> Answer:
    return paged(call, [_shown(call.hub, call.repo, path) for path in _workflows(call.repo)], wrap="workflows")


@route("GET", ACTIONS + "/workflows/{workflow_id}")
def get_workflow(call: Call) -> Answer:
    return Answer(200, _workflow(call))


@route("POST", ACTIONS + "/workflows/{workflow_id}/dispatches", needs="actions", role="write")
def dispatch(call: Call) -> Answer:
    workflow, ref, inputs = _workflow(call), text(call, "ref") or "", call.body.get("inputs") or {}
    branch = ref.removeprefix("refs/heads/")
    if (tip := call.repo.tip(branch)) is None:
        raise Refused("no ref found", ref=ref)
    if "workflow_dispatch" not in (call.repo.bare.read(tip, workflow["path"]) or ""):
        raise Refused("no trigger")
    if len(inputs) > INPUTS:
        raise Refused("many inputs")
    call.repo.dispatches.append({"workflow": workflow["path"], "ref": ref, "inputs": inputs})
    run = _run(call, workflow, branch, tip, _title(call.repo.bare.read(tip, workflow["path"]) or "", workflow["name"], inputs))
    call.repo.runs.append(run)
    if not call.body.get("return_run_details"):
        return Answer(204)
    return Answer(200, {"workflow_run_id": run["id"], "run_url": run["url"], "html_url": run["html_url"]})


def _title(source: str, name: str, inputs: Json) -> str:
    """What `run-name` makes of the inputs, for the one form of it that we use; else the workflow's name, as on GitHub."""
    form = RUN_NAME.search(source)
    if form is None:
        return name
    return form[2].replace("{0}", str(inputs[form[1]])) if inputs.get(form[1]) else form[3]


def _run(call: Call, workflow: Json, branch: str, tip: str, title: str) -> Json:
    number, at = next(call.hub.ids), stamp(call.hub.now())
    url = f"{shapes.home(call.hub, call.repo)}/actions/runs/{number}"
    parts = ("jobs", "logs", "artifacts", "cancel", "rerun")
    return {
        "id": number, "node_id": shapes.node("WFR", number), "name": workflow["name"], "display_title": title,
        "path": workflow["path"], "workflow_id": workflow["id"], "workflow_url": workflow["url"], "event": "workflow_dispatch",
        "head_branch": branch, "head_sha": tip, "status": "queued", "conclusion": None, "run_number": len(call.repo.runs) + 1,
        "run_attempt": 1, "url": url, "html_url": f"{call.hub.url}/{call.repo.full_name}/actions/runs/{number}",
        "created_at": at, "updated_at": at, "run_started_at": at, "pull_requests": [], "check_suite_id": number,
        "actor": shapes.user(call.hub, call.user), "triggering_actor": shapes.user(call.hub, call.user),
        **{f"{part}_url": f"{url}/{part}" for part in parts}, "previous_attempt_url": None,
        "check_suite_url": f"{shapes.home(call.hub, call.repo)}/check-suites/{number}", "head_commit": None,
        "repository": shapes.repository(call.hub, call.repo), "head_repository": shapes.repository(call.hub, call.repo),
    }  # fmt: skip


@route("GET", ACTIONS + "/runs")
def list_runs(call: Call) -> Answer:
    return _listed(call, call.repo.runs)


@route("GET", ACTIONS + "/workflows/{workflow_id}/runs")
def list_runs_of(call: Call) -> Answer:
    number = _workflow(call)["id"]
    return _listed(call, [run for run in call.repo.runs if run["workflow_id"] == number])


def _listed(call: Call, runs: list[Json]) -> Answer:
    """Those that were asked for, newest first."""
    wanted = {name: call.query[name] for name in ("status", "event", "head_sha") if name in call.query}
    found = [run for run in reversed(runs) if all(run[name] == value for name, value in wanted.items())]
    return paged(call, found, wrap="workflow_runs")


def _there(call: Call) -> Json:
    found = next((run for run in call.repo.runs if run["id"] == int(call.args["run_id"])), None)
    if found is None:
        raise Refused("not found")
    return found


@route("GET", ACTIONS + "/runs/{run_id}")
def get_run(call: Call) -> Answer:
    return Answer(200, _there(call))


@route("POST", ACTIONS + "/runs/{run_id}/cancel", needs="actions", role="write")
def cancel_run(call: Call) -> Answer:
    _there(call).update(status="completed", conclusion="cancelled", updated_at=stamp(call.hub.now()))
    return Answer(202, {})


@route("POST", HERE + "/dispatches", needs="contents", role="write")
def repository_dispatch(call: Call) -> Answer:
    if not (kind := text(call, "event_type")):
        raise Refused("missing", field="event_type")
    load = call.body.get("client_payload") or {}
    if len(load) > KEYS:
        raise Refused("many keys", count=len(load))
    call.repo.dispatches.append({"event_type": kind, "client_payload": load})
    return Answer(204)


@route("GET", ACTIONS + "/runners", needs="administration", role="admin", always=True)
def list_runners(call: Call) -> Answer:
    return paged(call, call.repo.runners, wrap="runners")


# variables


def _variable(call: Call, name: str) -> Json:
    times = dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00Z")
    return {"name": name, "value": call.repo.variables[name], **times}


@route("GET", ACTIONS + "/variables", needs="variables", role="write", always=True)
def list_variables(call: Call) -> Answer:
    return paged(call, [_variable(call, name) for name in call.repo.variables], wrap="variables")


@route("GET", ACTIONS + "/variables/{name}", needs="variables", role="write", always=True)
def get_variable(call: Call) -> Answer:
    if call.args["name"].upper() not in call.repo.variables:
        raise Refused("not found")
    return Answer(200, _variable(call, call.args["name"].upper()))


@route("POST", ACTIONS + "/variables", needs="variables", role="write")
def create_variable(call: Call) -> Answer:
    name = (text(call, "name") or "").upper()
    if name in call.repo.variables:
        raise Refused("variable exists")
    call.repo.variables[name] = text(call, "value") or ""
    return Answer(201, {})


@route("PATCH", ACTIONS + "/variables/{name}", needs="variables", role="write")
def update_variable(call: Call) -> Answer:
    name = call.args["name"].upper()
    if name not in call.repo.variables:
        raise Refused("not found")
    call.repo.variables[name] = text(call, "value") or ""
    return Answer(204)
