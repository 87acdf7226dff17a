"""What the bot needs of its repository on GitHub: each thing is looked at, and `autoresearch init` puts right what it can.

Doing it again changes nothing that is right. What only a person can do (register a machine, store a secret, click) is told with
the place where it is done. Most of it takes an administrator's token; what a token may not see is told as such, not guessed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from bot import machines, rulesets
from bot.answer import parse_default
from bot.fitness import Row
from bot.forge.labels import COLOURS
from bot.forge.rest import Refused
from bot.hear import PROGRAM
from bot.log import BRANCH
from bot.online import connected
from bot.platform import Connection
from bot.program import Problems, Settings, parse
from bot.screen import Screen
from bot.widths import kind, widths
from bot.workspace import Machine

WORKFLOWS = ("command.yml", "loop.yml", "nightly.yml")
OWNERS = ".github/CODEOWNERS"
PLACEHOLDER = "@YOUR-ORG/"
ADMIN = "do it with the token of an administrator: GITHUB_TOKEN=$(gh auth token) autoresearch init"
ABOUT = "This branch is the log of the autoresearch bot, one JSON line an event. Only the bot writes it: a hand edit breaks it.\n"
WANTED = {"allow_squash_merge": True, "allow_auto_merge": True}


@dataclass(frozen=True, kw_only=True)
class Site:
    """One repository. `app` is the number of the App that posts our check, 0: none was named."""

    there: Connection
    app: int
    settings: Settings | None
    about: dict[str, Any]
    variables: dict[str, str]
    secrets: frozenset[str]

    def get(self, path: str, **parameters: Any) -> Any:
        return self.there.threads.rest.get(f"{self.there.threads.rest.repo}{path}", **parameters)

    def write(self, verb: str, path: str, body: dict[str, Any]) -> Any:
        return self.there.threads.rest.write(verb, f"{self.there.threads.rest.repo}{path}", body)

    def file(self, path: str) -> str | None:
        return self.there.code.read(self.there.forge.tip(), path)

    @property
    def as_app(self) -> bool:
        return "AUTORESEARCH_APP" in self.variables


@dataclass(frozen=True, kw_only=True)
class Need:
    """`look` finds how it is; `mend`, where there is one, makes it right."""

    name: str
    look: Callable[[Site], Row]
    mend: Callable[[Site], object] | None = None


def init(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Put right what can be put right, and say what was done and what is left."""
    with connected(machine) as there:
        place = site(there, options.app_id)
        rows = [put_right(place, need) for need in needs(place)]
    show(screen, rows)
    return int(any(row.state == "missing" for row in rows))


def examine(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    """Look at all of it, and at the limits; nothing is changed."""
    with connected(machine) as there:
        place = site(there, 0)
        place = replace(place, app=_bound(place))
        rows = [seen(place, need) for need in needs(place)]
        rest = there.threads.rest
        primary = int(rest.get("/rate_limit")["resources"]["core"]["limit"])
    seconds = (place.settings or parse_default().settings).budget.seconds
    found = widths(primary, seconds)
    if options.json:
        screen.raw(json.dumps({"rows": [asdict(row) for row in rows], "widths": [asdict(width) for width in found]}, indent=1))
    else:
        show(screen, rows)
        screen.line(f"\nthe token in use: {kind(there.threads.me, primary)}")
        table = [(width.limit, f"{width.runs:.0f} runs an hour", f"{width.gpus:.1f}") for width in found]
        screen.table(("limit", "keeps up with", f"GPUs, at {seconds:g} s a run or more"), table)
    return int(any(row.state == "missing" for row in rows))


def show(screen: Screen, rows: list[Row]) -> None:
    screen.table(("what", "state", "found"), [(row.name, row.state, row.found) for row in rows])
    for row in rows:
        if row.fix:
            screen.line(f"\n{row.name}: {row.fix}", "yellow")


def site(there: Connection, app: int) -> Site:
    rest = there.threads.rest
    program = parse(there.code.read(there.forge.tip(), PROGRAM) or "")
    return Site(
        there=there, app=app, settings=None if isinstance(program, Problems) else program.settings, about=rest.get(rest.repo),
        variables=_named(there, "variables"), secrets=frozenset(_named(there, "secrets")),
    )  # fmt: skip


def _named(there: Connection, what: str) -> dict[str, str]:
    """Values by name; of secrets GitHub shows none. "?" when this token may not look."""
    try:
        found = there.threads.rest.pages(f"{there.threads.rest.repo}/actions/{what}")
    except Refused:
        return {"?": ""}
    return {str(it["name"]): str(it.get("value", "")) for it in found}


def needs(place: Site) -> Iterator[Need]:
    yield Need(name="program.md", look=_program)
    yield Need(name="workflows", look=_workflows)
    yield Need(name="labels", look=_labels, mend=lambda it: it.there.threads.known(tuple(COLOURS)))
    yield Need(name="log", look=_log, mend=_begin_log)
    yield Need(name="settings", look=_settings, mend=lambda it: it.write("PATCH", "", WANTED))
    yield _ruleset("ruleset: merges", rulesets.merges(place.app or rulesets.ACTIONS))
    if place.app:
        yield _ruleset("ruleset: branches", rulesets.branches(place.app))
    yield Need(name="who the bot is", look=_identity)
    yield Need(name="machines", look=lambda it: machines.gpus(_runners(it)))
    yield Need(name="where the bot runs", look=_host)
    yield Need(name="time for a run", look=_minutes)
    yield Need(name="secrets", look=_secrets)
    yield Need(name="owners", look=_owners)
    yield Need(name="who can see it", look=_public)


def seen(place: Site, need: Need) -> Row:
    try:
        return need.look(place)
    except Refused as refusal:
        return Row(name=need.name, state="warn", found=f"this token may not look ({refusal.words})", fix=ADMIN)


def put_right(place: Site, need: Need) -> Row:
    row = seen(place, need)
    if row.state != "missing" or need.mend is None:
        return row
    try:
        need.mend(place)
    except Refused as refusal:
        return replace(row, found=f"{row.found}; GitHub would not change it ({refusal.words})", fix=ADMIN)
    after = seen(place, need)
    return replace(after, state="made") if after.state == "ok" else after


# each thing


def _program(place: Site) -> Row:
    text = place.file(PROGRAM)
    if text is None:
        return Row(name="program.md", state="missing", found="not there", fix="commit one to the default branch: docs/program.md")
    program = parse(text)
    if isinstance(program, Problems):
        return Row(name="program.md", state="missing", found="it has mistakes", fix=str(program))
    return Row(name="program.md", state="ok", found=f"{program.settings.budget.seconds:g} s a run, {place.there.forge.branch}")


def _workflows(place: Site) -> Row:
    states = {str(it["path"]).rpartition("/")[2]: str(it["state"]) for it in place.get("/actions/workflows")["workflows"]}
    lacking = [name for name in WORKFLOWS if name not in states]
    asleep = [name for name in WORKFLOWS if states.get(name, "active") != "active"]
    if lacking:
        return Row(name="workflows", state="missing", found=f"no {', '.join(lacking)}", fix="copy .github/workflows from the bot")
    if asleep:  # GitHub switches schedules of public repositories off after 60 days without a push
        fix = "Actions, the workflow's name, Enable workflow"
        return Row(name="workflows", state="missing", found=f"switched off: {', '.join(asleep)}", fix=fix)
    return Row(name="workflows", state="ok", found=", ".join(WORKFLOWS))


def _labels(place: Site) -> Row:
    there = {label["name"] for label in place.there.threads.rest.pages(f"{place.there.threads.rest.repo}/labels")}
    lacking = sorted(set(COLOURS) - there)
    if lacking:
        return Row(name="labels", state="missing", found=f"{len(lacking)} of {len(COLOURS)} are not there", fix=ADMIN)
    return Row(name="labels", state="ok", found=f"{len(COLOURS)}, with their colours")


def _log(place: Site) -> Row:
    happened, position = place.there.log.read()
    if position.commit is None:
        return Row(name="log", state="missing", found=f"no branch {BRANCH}", fix="`autoresearch init` makes it")
    return Row(name="log", state="ok", found=f"{len(happened)} events on {BRANCH}, the chain is whole")


def _begin_log(place: Site) -> None:
    commit = place.there.code.commit_file(None, "README.md", ABOUT, "The log begins", when=0)
    place.there.forge.remote.push(f"{commit}:refs/heads/{BRANCH}")  # not by force: the first event may be there by now


def _settings(place: Site) -> Row:
    about = place.get("")
    lacking = [name for name in WANTED if about.get(name) is False]
    if lacking:
        return Row(name="settings", state="missing", found=f"off: {', '.join(lacking)}", fix="Settings, General, Pull Requests")
    return Row(name="settings", state="ok", found="squash merging and auto-merge are on")


def _ruleset(name: str, wanted: rulesets.Ruleset) -> Need:
    def there(place: Site) -> dict[str, Any] | None:
        number = next((it["id"] for it in place.get("/rulesets") if it["name"] == wanted["name"]), None)
        return place.get(f"/rulesets/{number}") if number else None

    def look(place: Site) -> Row:
        found = there(place)
        if found is None or not rulesets.holds(found, wanted):
            fix = "`autoresearch init` makes it, with --app-id N if an App is the bot"
            return Row(name=name, state="missing", found="it is another" if found else "not there", fix=fix)
        return Row(name=name, state="ok", found=wanted["name"].partition(": ")[2])

    def mend(place: Site) -> None:
        found = there(place)
        verb, path = ("PUT", f"/rulesets/{found['id']}") if found else ("POST", "/rulesets")
        place.write(verb, path, wanted)

    return Need(name=name, look=look, mend=mend)


def _bound(place: Site) -> int:
    """The App that the ruleset names already; 0 for the one of GITHUB_TOKEN, and when there is no ruleset or none to be seen."""
    wanted = rulesets.merges(rulesets.ACTIONS)["name"]
    with suppress(Refused):
        for number in (it["id"] for it in place.get("/rulesets") if it["name"] == wanted):
            app = rulesets.app_of(place.get(f"/rulesets/{number}"))
            return 0 if app == rulesets.ACTIONS else app
    return 0


def _identity(place: Site) -> Row:
    name = "who the bot is"
    if place.as_app and not {"AUTORESEARCH_APP_KEY", "?"} & place.secrets:
        fix = "Settings, Secrets and variables, Actions: the App's private key as secret AUTORESEARCH_APP_KEY"
        return Row(name=name, state="missing", found="the variable AUTORESEARCH_APP names an App, its key is not there", fix=fix)
    if place.as_app:
        return Row(name=name, state="ok", found="a GitHub App")
    if not place.get("/actions/permissions/workflow")["can_approve_pull_request_reviews"]:
        fix = "Settings, Actions, General: Allow GitHub Actions to create and approve pull requests; or docs/github.md: an App"
        return Row(name=name, state="missing", found="GITHUB_TOKEN, which may not open pull requests here", fix=fix)
    fix = "it will do: 1,000 requests an hour, and workflows on its pull requests wait for a click. docs/github.md: make an App"
    return Row(name=name, state="warn", found="GITHUB_TOKEN", fix=fix)


def _runners(place: Site) -> list[dict[str, Any]]:
    return place.there.threads.rest.pages(f"{place.there.threads.rest.repo}/actions/runners")


def _host(place: Site) -> Row:
    if "?" in place.variables:
        return Row(name="where the bot runs", state="warn", found="this token may not look", fix=ADMIN)
    return machines.host(place.variables.get(machines.HOST, ""), _runners(place), private=bool(place.about.get("private")))


def _minutes(place: Site) -> Row:
    if "?" in place.variables:
        return Row(name="time for a run", state="warn", found="this token may not look", fix=ADMIN)
    return machines.minutes(place.variables.get(machines.MINUTES, ""), (place.settings or parse_default().settings).budget)


def _secrets(place: Site) -> Row:
    wanted, s = set(), place.settings
    if s and s.models:
        wanted.add("OPENAI_API_KEY")
    if s and s.slack.channel:
        wanted.add("SLACK_BOT_TOKEN")
    if "?" in place.secrets:
        return Row(name="secrets", state="warn", found="this token may not look", fix=ADMIN)
    if lacking := sorted(wanted - place.secrets):
        fix = "Settings, Secrets and variables, Actions; program.md asks for what needs them"
        return Row(name="secrets", state="missing", found=f"not there: {', '.join(lacking)}", fix=fix)
    return Row(name="secrets", state="ok", found=", ".join(sorted(wanted)) or "program.md asks for none")


def _owners(place: Site) -> Row:
    text = place.file(OWNERS) or ""
    if not text or PLACEHOLDER in text:
        fix = f"put your own team or account in place of {PLACEHOLDER}... in {OWNERS}: until then GitHub skips its lines"
        return Row(name="owners", state="warn", found="nobody owns the judge and the workflows", fix=fix)
    return Row(name="owners", state="ok", found=OWNERS)


def _public(place: Site) -> Row:
    if place.about.get("private"):
        return Row(name="who can see it", state="ok", found="private")
    fix = "Settings, Actions, General: approval for all outside contributors; https://docs.github.com/actions/reference/security/secure-use"
    return Row(name="who can see it", state="warn", found="public, with machines of your own", fix=fix)
