"""One function a command: (options, machine, screen) -> exit status. What stands between argv and the modules that do it.

Not here: reading argv (__main__.py), anything that decides or acts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from bot import campaign, demo, doctor, looks, measuring, nightly, online, premises, rehearsal, reporting, summary
from bot.fitness import unfit
from bot.git import GitError
from bot.report.quoting import visible
from bot.screen import Screen
from bot.state import Campaign
from bot.workspace import Machine, Told, Workspace, find
from runners.actions import to_lost
from runners.local import leave

Command = Callable[[argparse.Namespace, Machine, Screen], int]
DONE, TOLD = 0, 1
NEEDS_A_PERSON = ("base", "crashes", "refusals")  # a campaign that ended like this did not end well


def say(sentence: str, status: int) -> int:
    print(f"autoresearch: {visible(sentence)}", file=sys.stderr, flush=True)
    return status


def run_demo(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    n = demo.experiments(options.asked)
    folder = demo.place(Path.cwd(), options.dir)
    ws, c = demo.run(replace(machine, command=f"cd {folder} && {machine.command}"), screen, folder, n, options.seed)
    return _finish(machine, screen, ws, c)


def run_campaign(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    flags = {
        "stop.target": options.target, "stop.hours": options.hours, "money.usd": options.usd, "model.proposer": options.model
    }  # fmt: skip
    overrides = {name: value for name, value in flags.items() if value is not None}
    ws = find(Path.cwd())
    if options.n is None and overrides:
        raise Told("options belong to a new campaign: give the number of experiments too")
    c = campaign.resume(ws, machine, screen) if options.n is None else campaign.begin(ws, machine, screen, options.n, overrides)
    return _finish(machine, screen, ws, c)


def _finish(machine: Machine, screen: Screen, ws: Workspace, c: Campaign) -> int:
    """Show what came of it; the status says whether a person is needed."""
    summary.show(screen, c)
    summary.show_next(screen, ws, c, machine.command, Path.cwd())
    if c.ended is None:
        raise Told(f"the campaign is paused: {c.paused}. Once that is mended, `{machine.command} run` in {ws.top} goes on")
    return TOLD if c.ended.why in NEEDS_A_PERSON else DONE


def propose(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    if not options.dry_run:
        raise Told("what is proposed is measured: `autoresearch run 1` does both. With --dry-run you only see it")
    overrides = {"model.proposer": options.model} if options.model else {}
    rehearsal.rehearse(find(Path.cwd()), machine, screen, overrides, offline=options.offline)
    return DONE


def stop(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    ws = find(Path.cwd())
    c = campaign.stop(ws, machine, screen)
    screen.line(f"campaign {c.name} has ended: {c.ended.reason if c.ended else 'it is winding down'}")
    return DONE


def status(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    (looks.status_json if options.json else looks.status)(find(Path.cwd()), screen)
    return DONE


def pr(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    ws = find(Path.cwd())
    if options.close:
        if options.n is None:
            raise Told("say which one to close: `autoresearch pr N --close`")
        looks.veto(ws, machine, screen, options.n)
    elif options.n is None:
        looks.pulls(ws, screen, as_json=options.json)
    else:
        looks.pull(ws, screen, options.n, as_json=options.json)
    return DONE


def log(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    looks.log(find(Path.cwd()), screen, as_json=options.json)
    return DONE


def results(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    looks.results(find(Path.cwd()), screen)
    return DONE


def measure(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    if options.job or options.out:
        return online.measure_job(options, machine, screen)
    try:
        top = find(options.path if options.path.is_dir() else options.path.parent).top
    except GitError:
        top = None  # a file outside of any checkout can be measured as well
    file = measuring.source_file(options.path, top)
    settings, where = measuring.settings_for(file, top)
    if top and find(top).driver():
        say("note: a campaign is running in this checkout; the two share the device and disturb each other", DONE)
    if not options.json:
        times = f" {options.seeds} times" if options.seeds > 1 else ""
        screen.line(f"measuring {file} for {settings.budget.seconds:g} s{times}, settings: {where}")
    runs = measuring.measure(machine, screen, file, settings, options.seed, options.seeds)
    measuring.show(screen, runs, as_json=options.json)
    for m in runs:
        if m.val_bpb is None:
            raise Told(f"no number: the run with seed {m.seed} ended as {m.outcome}: {m.reason}")
    return DONE


def examine(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    if options.github:
        return premises.examine(options, machine, screen)
    if options.out and not options.runner:
        raise Told("--out belongs to --runner: the file in which a job leaves why it did not measure")
    here, looks = Path.cwd(), doctor.LOOKS if options.out else 1
    rows = doctor.runner(machine, here, looks) if options.runner else doctor.examine(machine, here)
    if options.out and (why := unfit(rows)):
        leave(options.out, to_lost(f"{machine.name}: {why}" if machine.name else why))
    if options.json:
        screen.raw(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        screen.table(("what", "state", "found"), [(row.name, row.state, row.found) for row in rows])
        for row in rows:
            if row.fix:
                screen.line(f"\n{row.name}: {row.fix}", "yellow")
    return TOLD if any(row.state == "missing" for row in rows) else DONE


def page(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    ws = find(Path.cwd())
    looks.campaign_of(ws)
    for c in ws.state().campaigns.values():
        screen.raw(str(summary.write_page(ws, c)))
    return DONE


# name -> (what it does, one line for `help`, what its own help adds)
COMMANDS: dict[str, tuple[Command, str, str]] = {
    "demo": (run_demo, "a real campaign in a scratch repository", "Takes about a minute an experiment. No account, key or GPU."),
    "run": (run_campaign, "N experiments on this checkout; without N, go on with what was interrupted or paused",
            "Winners land on the branch that is checked out. Ctrl-C at any time: nothing is lost. Settings are in program.md."),
    "status": (status, "where the campaign stands", "Works beside a running `autoresearch run`."),
    "propose": (propose, "show what a proposer reads, what that costs, and what it would propose",
                "Nothing is opened or written down. With a key a model is asked once; --offline only shows the prompt."),
    "pr": (pr, "pull requests: the list, or one with its diff, check and verdict", "They live in .git/autoresearch."),
    "log": (log, "everything that happened, oldest first", "With --json the very lines of the log."),
    "results": (results, "results.tsv with the original's five columns", "commit, val_bpb, memory_gb, status, description."),
    "measure": (measure, "measure one train.py, once or with several fresh seeds",
                "Settings come from the nearest program.md. Prints the summary block of the original; n/a: not measured here."),
    "stop": (stop, "end the campaign that is under way", "Its candidates in flight are closed without a verdict."),
    "init": (premises.init, "make a repository on GitHub ready for the bot, and say what is left to click",
             "With an administrator's token in GITHUB_TOKEN, and GITHUB_REPOSITORY. Doing it again is free."),
    "hear": (online.listen, "do what a webhook of GitHub says: commands, reviews, closings",
             "For workflows: GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_EVENT_PATH and GITHUB_EVENT_NAME are set there."),
    "ring": (online.ring, "ask for one wake-up of the loop on GitHub", "For workflows, and for a person who thinks it sleeps."),
    "nightly": (nightly.nightly, "what happens each night: the report, and the campaign that program.md schedules",
                "For workflows. It may run more than once: what is done already is not done again."),
    "report": (reporting.report, "send what happened since the last report to Slack, or show it",
               f"What it takes: {reporting.NOBODY}."),
    "settle": (online.settle, "one wake-up of the loop on GitHub: post, merge, propose, ask for the next run",
               "For workflows. With --run it first takes what the job of that run has left."),
    "job": (online.job, "write down what a run is to measure", "For workflows; `measure --job` then needs no token."),
    "doctor": (examine, "what this machine has and lacks, with the fix", "Exit status 1 when nothing can be measured here."),
    "page": (page, "write a static page for each campaign", "Prints their paths. One is also written when a campaign ends."),
}  # fmt: skip
