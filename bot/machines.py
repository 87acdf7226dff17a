"""What a repository has of machines, and whether that will do: facts that GitHub tells in, rows for people out. Looks at nothing.

Not here: whether one machine is fit (fitness.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bot.fitness import GUIDE, Row
from bot.runs import allowed
from bot.settings import Budget

GPU = "gpu"  # the label that loop.yml asks for
HOST, MINUTES = "AUTORESEARCH_RUNNER", "AUTORESEARCH_MEASURE_MINUTES"  # variables of the repository that the workflows read
GIVEN = frozenset({"self-hosted", "linux", "windows", "macos", "x64", "x86", "arm", "arm64"})  # what runners have by themselves
HOSTED = ("ubuntu-", "windows-", "macos-")
USUAL_MINUTES = 60  # of the job `measure`, where nothing else is said
BESIDE_MINUTES = 15  # of that job, for what is not the run: look, read, hand over, install when something changed
VARIABLES = "Settings, Secrets and variables, Actions, Variables"


def labels(runner: Mapping[str, Any]) -> set[str]:
    """GitHub ignores their case."""
    return {str(label["name"]).lower() for label in runner["labels"]}


def gpus(runners: Sequence[Mapping[str, Any]]) -> Row:
    """Whether exactly one machine would take a measurement now."""
    ours = [it for it in runners if GPU in labels(it)]
    online = [str(it["name"]) for it in ours if it["status"] == "online"]
    found = f"{len(online)} online with the label {GPU}: {', '.join(online[:5])}"
    if not online:
        fix = f"Settings, Actions, Runners: register one with the label {GPU} ({GUIDE}); until then runs wait"
        return Row(name="machines", state="missing", found=f"{len(ours)} with the label {GPU}, none online", fix=fix)
    if len(online) > 1:
        fix = f"a campaign is measured on one GPU: a result of another one pauses it. Leave the label {GPU} to one of them"
        return Row(name="machines", state="warn", found=found, fix=fix)
    return Row(name="machines", state="ok", found=found)


def host(label: str, runners: Sequence[Mapping[str, Any]], *, private: bool) -> Row:
    """Where the jobs run that hold the tokens: never where a candidate trains, or where a stranger's code may come."""
    name, wanted = "where the bot runs", label.lower()
    if not label or wanted.startswith(HOSTED):
        return Row(name=name, state="ok", found=f"on GitHub's machines{': ' * bool(label)}{label}")
    ours = [it for it in runners if wanted in labels(it)]
    both = [str(it["name"]) for it in ours if GPU in labels(it)]
    found = f"{HOST} is {label}"
    if wanted == GPU or wanted in GIVEN or both:
        fix = f"its jobs hold the tokens: give them a machine of their own, by a label that only it has, as `bot` ({VARIABLES})"
        whose = ", ".join(both[:5]) or f"any machine with the label {GPU}"
        return Row(name=name, state="missing", found=f"{found}, so its jobs may run on {whose}, where candidates train", fix=fix)
    if not private:
        fix = f"take {HOST} away ({VARIABLES}): a pull request from a fork may ask for a machine of yours, where tokens were"
        return Row(name=name, state="missing", found=f"{found}, a machine of your own, and the repository is public", fix=fix)
    if not any(it["status"] == "online" for it in ours):
        fix = "without one its jobs wait; larger machines of GitHub's, and an organization's, are not seen here"
        return Row(name=name, state="warn", found=f"{found}, and no machine of this repository with it is online", fix=fix)
    return Row(name=name, state="ok", found=f"{found}: {', '.join(str(it['name']) for it in ours[:5])}")


def minutes(value: str, budget: Budget) -> Row:
    """Whether the job that measures may take as long as a run of that budget."""
    name, wanted = "time for a run", math.ceil(allowed(budget) / 60) + BESIDE_MINUTES
    given = (int(value) if value.isdecimal() else 0) if value else USUAL_MINUTES
    if given < wanted:
        found = f"{MINUTES} is {value or f'not set, so {USUAL_MINUTES}'}, and a run of this budget may take {wanted} with all"
        return Row(name=name, state="missing", found=found, fix=f"{VARIABLES}: {MINUTES} = {wanted}, or more")
    return Row(name=name, state="ok", found=f"{given} minutes, {wanted} may be needed")
