"""The workflow runs that measure, as GitHub knows them: asked for, listed, ended. A `runners.actions.Fleet`.

https://docs.github.com/en/rest/actions/workflows and /workflow-runs. The name of a run stands in the title of its workflow run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.forge.rest import Refused, Rest, told

WORKFLOW = "loop.yml"
TITLE = "measure "
LISTED, PAGES = 100, 3  # the newest, and more pages of them while most of one are under way


@dataclass(kw_only=True)
class Workflows:
    """Those of one repository; `branch` is the one whose workflow file and judge are used: the default branch."""

    rest: Rest
    branch: str
    _ids: dict[str, int] = field(default_factory=dict)

    def dispatch(self, run: str) -> None:
        """An empty `run` only rings: the loop is looked at, nothing is measured."""
        path = f"{self.rest.repo}/actions/workflows/{WORKFLOW}/dispatches"
        try:
            self.rest.write("POST", path, {"ref": self.branch, "inputs": {"run": run}})
        except Refused as refusal:
            raise told(self.rest.name, f"start {WORKFLOW} (it takes `actions: write`)", refusal) from None

    def known(self) -> Mapping[str, str]:
        try:
            listed = self._listed()
        except Refused as refusal:
            raise told(self.rest.name, f"list the runs of {WORKFLOW} (it takes `actions: read`)", refusal) from None
        found: dict[str, str] = {}
        for entry in reversed(listed):  # newest first: the newest of a name counts
            name = str(entry.get("display_title") or entry.get("name") or "")
            if name.startswith(TITLE):
                run = name.removeprefix(TITLE)
                found[run] = str(entry["status"])
                self._ids[run] = int(entry["id"])
        return found

    def _listed(self) -> list[dict[str, Any]]:
        """A run that is older than all of these has long met its deadline, since they are taken up in their order."""
        path, listed = f"{self.rest.repo}/actions/workflows/{WORKFLOW}/runs", list[dict[str, Any]]()
        for page in range(1, PAGES + 1):
            more = self.rest.get(path, event="workflow_dispatch", per_page=LISTED, page=page)["workflow_runs"]
            listed += more
            if sum(entry["status"] != "completed" for entry in more) <= LISTED // 2:
                break
        return listed

    def cancel(self, run: str) -> None:
        if run not in self._ids:
            self.known()
        if run in self._ids:
            try:
                self.rest.write("POST", f"{self.rest.repo}/actions/runs/{self._ids[run]}/cancel")
            except Refused as refusal:
                if refusal.status != 409:  # it has ended already
                    raise told(self.rest.name, f"cancel the workflow run of {run}", refusal) from None
