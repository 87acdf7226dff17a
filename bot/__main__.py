"""The command line: `autoresearch`, or `python -m bot`. The only reader of argv and of the environment; wires everything up.

Exit status: 0 done; 1 told you why; 3 a bug of ours, with a log file; 130 interrupted (Ctrl-C or a polite kill).
Not here: what the commands do. What they print goes to standard output, what went wrong to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from bot import campaign, demo, doctor, installed, looks, measuring, summary
from bot.forge import ForgeError
from bot.git import GitError
from bot.interrupts import Interrupts
from bot.log import LogDamaged
from bot.report.quoting import visible
from bot.screen import Screen
from bot.state import Campaign
from bot.workspace import Machine, Told, Workspace, blame, find
from runners.local import RunnerError, SandboxError, available

DONE, TOLD, BUG, INTERRUPTED = 0, 1, 3, 130
TELLABLE = (Told, GitError, ForgeError, LogDamaged, RunnerError, SandboxError)
DESCRIPTION = "Let a robot search for a better train.py: each idea a pull request, each one measured, the better ones merged."


class Parser(argparse.ArgumentParser):
    """Mistakes are told like all others, with exit status 1."""

    def error(self, message: str) -> NoReturn:
        raise Told(f"{message}. `{self.prog} --help` shows what it takes")


def main(arguments: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Run one command; the exit status. A test hands in a machine with other runners."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    machine = machine or this_machine()
    machine.interrupts.install()
    try:
        return _run(asked, machine)
    except campaign.Interrupted as error:
        return _say(str(error), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("interrupted: nothing was begun, and nothing is lost", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
        return TOLD
    except TELLABLE as error:
        return _say(str(error), TOLD)
    except OSError as error:
        return _say(sentence, TOLD) if (sentence := blame(error)) else _bug(machine.cache, asked)
    except Exception:  # noqa: BLE001  the last resort: it is told, with all that is known, in a file
        return _bug(machine.cache, asked)


def _run(asked: list[str], machine: Machine) -> int:
    options = _parser().parse_args(asked)
    with_campaign: Callable[[argparse.Namespace, Machine, Screen], int] = options.do
    return with_campaign(options, machine, Screen(sys.stdout))


def _say(sentence: str, status: int) -> int:
    print(f"autoresearch: {visible(sentence)}", file=sys.stderr, flush=True)
    return status


def _bug(cache: Path, asked: list[str]) -> int:
    """Write down all that is known of an error that is ours, and say where."""
    report = f"autoresearch {' '.join(asked)}\nPython {sys.version}\n\n{traceback.format_exc()}"
    for folder in (cache, Path("/tmp"), Path.cwd()):
        path = folder / f"autoresearch-bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(report, "utf-8")
        except OSError:
            continue
        return _say(f"this is a bug of ours, not a mistake of yours. Please report it with {path}; nothing written is lost", BUG)
    return _say(f"this is a bug of ours, and no log could be written: {traceback.format_exc().splitlines()[-1]}", BUG)


def this_machine() -> Machine:
    """The computer and the call as they are."""
    environ = os.environ
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    interrupts = Interrupts()
    return Machine(
        cache=Path(environ.get("AUTORESEARCH_CACHE") or Path(base) / "autoresearch").absolute(),
        who=environ.get("USER") or environ.get("LOGNAME") or "a person at this machine",
        command=_command(sys.argv[0]), runners=installed.RUNNERS, proposers=installed.PROPOSERS, now=time.time, sleep=time.sleep,
        token=partial(secrets.token_hex, 16), seed=partial(secrets.randbits, 62), torch=installed.torch, sandbox=available,
        prepare=installed.prepare, interrupts=interrupts,
    )  # fmt: skip


def _command(program: str) -> str:
    """How a person can call us again from any folder."""
    path = Path(program)
    if path.name != "autoresearch":
        return f"{sys.executable} -m bot"
    found = shutil.which("autoresearch")
    return "autoresearch" if found and Path(found).samefile(path) else str(path.absolute())


# one function a command: (options, machine, screen) -> exit status


def _demo(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    n = demo.experiments(options.asked)
    folder = demo.place(Path.cwd(), options.dir)
    machine = replace(machine, command=f"cd {folder} && {machine.command}")
    ws, c = demo.run(machine, screen, folder, n, options.seed)
    return _finish(replace(machine, command=machine.command.rpartition(" && ")[2]), screen, ws, c)


def _campaign(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    flags = {"stop.target": options.target, "stop.hours": options.hours}
    overrides = {name: value for name, value in flags.items() if value is not None}
    ws = find(Path.cwd())
    if options.n is None and overrides:
        raise Told("--target and --hours belong to a new campaign: give the number of experiments too")
    c = campaign.resume(ws, machine, screen) if options.n is None else campaign.begin(ws, machine, screen, options.n, overrides)
    return _finish(machine, screen, ws, c)


def _finish(machine: Machine, screen: Screen, ws: Workspace, c: Campaign) -> int:
    """Show what came of it; the status says whether a person is needed."""
    summary.show(screen, c)
    summary.show_next(screen, ws, c, machine.command, Path.cwd())
    if c.ended is None:
        raise Told(f"the campaign is paused: {c.paused}. When that is mended, `{machine.command} run` goes on with it")
    return TOLD if c.ended.why in campaign.FAILED else DONE


def _stop(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    ws = find(Path.cwd())
    c = campaign.stop(ws, machine, screen)
    screen.line(f"campaign {c.name} has ended: {c.ended.reason if c.ended else 'it is winding down'}")
    return DONE


def _status(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    (looks.status_json if options.json else looks.status)(find(Path.cwd()), screen)
    return DONE


def _pr(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
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


def _log(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    looks.log(find(Path.cwd()), screen, as_json=options.json)
    return DONE


def _results(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    looks.results(find(Path.cwd()), screen)
    return DONE


def _measure(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    try:
        top = find(options.path if options.path.is_dir() else options.path.parent).top
    except GitError:
        top = None  # a file outside of any checkout can be measured as well
    file = measuring.source_file(options.path, top)
    settings, where = measuring.settings_for(file, top)
    if not options.json:
        screen.line(f"measuring {file} for {settings.budget.seconds:g} s, settings: {where}")
    result = measuring.measure(machine, screen, file, settings, options.seed)
    measuring.show(screen, result, as_json=options.json)
    if result.val_bpb is None:
        raise Told(f"no number: the run ended as {result.outcome}: {result.reason}")
    return DONE


def _doctor(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    rows = doctor.examine(machine, Path.cwd())
    if options.json:
        screen.raw(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        screen.table(("what", "state", "found"), [(row.name, row.state, row.found) for row in rows])
        for row in rows:
            if row.fix:
                screen.line(f"\n{row.name}: {row.fix}", "yellow")
    return TOLD if any(row.state == "missing" for row in rows) else DONE


def _page(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    ws = find(Path.cwd())
    looks.campaign_of(ws)
    for c in ws.state().campaigns.values():
        screen.raw(str(summary.write_page(ws, c)))
    return DONE
