"""Check runs: written by apps alone, and only by the app that made them. Strict where GitHub's JSON schema is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.double import shapes
from tests.double.commits import HERE, known
from tests.double.issues import emit
from tests.double.merging import do_auto_merges
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, accepted, paged, route, text
from tests.double.shapes import Json, stamp
from tests.double.state import CheckRun, Hub, Repository

RUNS = HERE + "/check-runs"
STATUSES = ("queued", "in_progress", "completed")
ACTIONS_APP, ACTIONS_STATUSES = 15368, (*STATUSES, "waiting", "requested", "pending")  # for GitHub Actions alone
CONCLUSIONS = ("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required")
LEVELS = ("notice", "warning", "failure")
ANNOTATIONS, ACTIONS, TEXT = 50, 3, 65_535  # a request; a run; characters


def shape(hub: Hub, repo: Repository, it: CheckRun) -> Json:
    """A check run as GitHub shows it, with the open pull requests whose head it is on."""
    url, page = f"{shapes.home(hub, repo)}/check-runs/{it.id}", f"{hub.url}/{repo.full_name}/runs/{it.id}"
    told = {name: it.output.get(name) for name in ("title", "summary", "text")}
    place = {"id": repo.id, "name": repo.name, "url": shapes.home(hub, repo)}
    pulls = [
        {
            "number": issue.number,
            "id": p.id,
            "url": f"{shapes.home(hub, repo)}/pulls/{issue.number}",
            "head": {"ref": p.head, "sha": p.head_sha, "repo": place},
            "base": {"ref": p.base, "sha": p.base_sha, "repo": place},
        }
        for issue, p in repo.pulls()
        if p.head_sha == it.head and issue.state == "open"
    ]
    return {
        "id": it.id,
        "name": it.name,
        "node_id": shapes.node("CR", it.id),
        "head_sha": it.head,
        "external_id": it.external,
        "url": url,
        "html_url": page,
        "details_url": it.details or page,
        "status": it.status,
        "conclusion": it.conclusion,
        "started_at": it.started,
        "completed_at": it.completed,
        "output": told | {"annotations_count": len(it.annotations), "annotations_url": f"{url}/annotations"},
        "check_suite": {"id": int(it.head[:8], 16)},
        "app": shapes.app(hub, it.app),
        "pull_requests": pulls,
    }


def _one_of(value: Any, members: Sequence[str]) -> None:
    if value is not None and value not in members:
        raise Refused("not a member", value=f'"{value}"', members=list(members))


def _supplied(there: Any, *names: str) -> None:
    for name in names:
        if there.get(name) is None:
            raise Refused("missing", field=name)


def _at_most(limit: int, items: Any, key: str = "too many") -> None:
    if items is not None and len(items) > limit:
        raise Refused(key, limit=limit, count=len(items))


def _checked(call: Call) -> None:
    """Refuse what the schema of create and update refuses."""
    if call.who is None or not call.who.is_app:
        raise Refused("only apps", headers=accepted("checks"))
    status, conclusion, output = text(call, "status"), text(call, "conclusion"), call.body.get("output")
    _one_of(status, ACTIONS_STATUSES if call.app == ACTIONS_APP else STATUSES)
    _one_of(conclusion, CONCLUSIONS)
    if status == "completed":
        _supplied(call.body, "conclusion")
    _at_most(ACTIONS, call.body.get("actions"))
    if output is None:
        return
    _supplied(output, *(("title", "summary") if call.method == "POST" else ("summary",)))
    for name in ("summary", "text"):
        _at_most(TEXT, output.get(name), "too long")
    _at_most(ANNOTATIONS, output.get("annotations"))
    for note in output.get("annotations") or []:
        _supplied(note, "path", "start_line", "end_line", "annotation_level", "message")
        _one_of(note["annotation_level"], LEVELS)


def _write(call: Call, run: CheckRun) -> None:
    """What create and update have in common. A conclusion completes the run; annotations are added to those that are there."""
    run.name = text(call, "name") or run.name
    run.external, run.details = text(call, "external_id") or run.external, text(call, "details_url") or run.details
    run.status = text(call, "status") or run.status
    if conclusion := text(call, "conclusion"):
        run.status, run.conclusion = "completed", conclusion
    elif run.status != "completed":
        run.conclusion = run.completed = None
    run.started = text(call, "started_at") or run.started or stamp(call.hub.now())
    if run.status == "completed":
        run.completed = text(call, "completed_at") or run.completed or stamp(call.hub.now())
    output = dict(call.body.get("output") or {})
    run.annotations += output.pop("annotations", None) or []
    run.output |= output


def _answer(call: Call, run: CheckRun, status: int) -> Answer:
    shown = shape(call.hub, call.repo, run)
    action = "completed" if run.status == "completed" else "created"
    emit(call.hub, call.repo, "check_run", action, call.user, check_run=shown)
    do_auto_merges(call.hub, call.repo)
    return Answer(status, shown)


def _there(call: Call) -> CheckRun:
    found = call.repo.checks.get(int(call.args["check_run_id"]))
    if found is None:
        raise Refused("not found")
    return found


@route("POST", RUNS, needs="checks", creates=True)
def create_run(call: Call) -> Answer:
    _checked(call)
    _supplied(call.body, "name", "head_sha")
    head = text(call, "head_sha") or ""
    if call.repo.bare.resolve(head) != head:
        raise Refused("no commit", sha=head)
    run = CheckRun(next(call.hub.ids), call.app, text(call, "name") or "", head)
    call.repo.checks[run.id] = run
    _write(call, run)
    return _answer(call, run, 201)


@route("PATCH", RUNS + "/{check_run_id}", needs="checks")
def update_run(call: Call) -> Answer:
    run = _there(call)
    _checked(call)
    if run.app != call.app:
        raise Refused("other app", app=call.app)
    _write(call, run)
    return _answer(call, run, 200)


@route("GET", RUNS + "/{check_run_id}")
def get_run(call: Call) -> Answer:
    return Answer(200, shape(call.hub, call.repo, _there(call)))


@route("GET", RUNS + "/{check_run_id}/annotations")
def list_annotations(call: Call) -> Answer:
    blank: Json = dict.fromkeys(("title", "raw_details", "start_column", "end_column"))
    run = _there(call)
    href = f"{shapes.home(call.hub, call.repo)}/contents/"
    return paged(call, [blank | {"blob_href": f"{href}{it['path']}?ref={run.head}"} | it for it in run.annotations])


@route("GET", HERE + "/commits/{ref}/check-runs")
def runs_of_commit(call: Call) -> Answer:
    """`filter=latest`, which is the default, leaves the newest of each name and app."""
    runs = call.repo.checks_of(known(call.repo, call.args["ref"]))
    wanted = {"check_name": "name", "status": "status", "app_id": "app"}
    for query, attribute in wanted.items():
        runs = [run for run in runs if call.query.get(query) in (None, str(getattr(run, attribute)))]
    if call.query.get("filter", "latest") == "latest":
        runs = list({(run.app, run.name): run for run in reversed(runs)}.values())[::-1]
    return paged(call, [shape(call.hub, call.repo, run) for run in runs], wrap="check_runs")
