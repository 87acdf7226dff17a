"""The command line: `autoresearch`, or `python -m bot`. The only reader of argv and of the environment; wires everything up.

Exit status: 0 done; 1 told you why; 3 a bug of ours, with a log file; 130 interrupted (Ctrl-C or a polite kill).
Not here: what the commands do. What they print goes to standard output, what went wrong to standard error.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import secrets
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from bot import campaign, demo, doctor, installed, looks, measuring, summary
from bot.forge import ForgeError
from bot.git import GitError
from bot.log import LogDamaged
from bot.report.quoting import visible
from bot.screen import Screen
from bot.state import Campaign
from bot.workspace import Machine, Told, Workspace, blame, find
from runners.local import RunnerError, SandboxError, available

DONE, TOLD, BUG, INTERRUPTED = 0, 1, 3, 130
TELLABLE = (Told, GitError, ForgeError, LogDamaged, RunnerError, SandboxError)
NEEDS_A_PERSON = ("base", "crashes", "refusals")  # a campaign that ended like this did not end well
DESCRIPTION = "Let a robot search for a better train.py: each idea a pull request, each one measured, the better ones merged."


class Parser(argparse.ArgumentParser):
    """Mistakes are told like all others, with exit status 1."""

    def error(self, message: str) -> NoReturn:
        raise Told(f"{message}. `{self.prog} --help` shows what it takes")


def main(arguments: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Run one command; the exit status. A test hands in a machine with other runners."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    if machine is None:
        machine = this_machine()
        machine.interrupts.install()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? for what it lacks
    try:
        return _run(asked, machine)
    except campaign.Interrupted as error:
        return _say(str(error), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("interrupted; nothing that was written down is lost", INTERRUPTED)
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
    options = _parser()[0].parse_args(asked or ["help"])
    return COMMANDS[options.command][0](options, machine, Screen(sys.stdout))


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
    return Machine(
        cache=Path(environ.get("AUTORESEARCH_CACHE") or Path(base) / "autoresearch").absolute(),
        who=environ.get("USER") or environ.get("LOGNAME") or "a person at this machine",
        command=_command(sys.argv[0]), runners=installed.RUNNERS, proposers=installed.PROPOSERS, now=time.time, sleep=time.sleep,
        token=partial(secrets.token_hex, 16), seed=partial(secrets.randbits, 62), torch=installed.torch, sandbox=available,
        prepare=installed.prepare,
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
    ws, c = demo.run(replace(machine, command=f"cd {folder} && {machine.command}"), screen, folder, n, options.seed)
    return _finish(machine, screen, ws, c)


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
        raise Told(f"the campaign is paused: {c.paused}. Once that is mended, `{machine.command} run` in {ws.top} goes on")
    return TOLD if c.ended.why in NEEDS_A_PERSON else DONE


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
    if top and find(top).driver():
        _say("note: a campaign is running in this checkout; the two share the device and disturb each other", DONE)
    if not options.json:
        times = f" {options.seeds} times" if options.seeds > 1 else ""
        screen.line(f"measuring {file} for {settings.budget.seconds:g} s{times}, settings: {where}")
    runs = measuring.measure(machine, screen, file, settings, options.seed, options.seeds)
    measuring.show(screen, runs, as_json=options.json)
    for m in runs:
        if m.val_bpb is None:
            raise Told(f"no number: the run with seed {m.seed} ended as {m.outcome}: {m.reason}")
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


def _help(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    parser, commands = _parser()
    if options.about is None:
        screen.raw(parser.format_help().rstrip())
    elif options.about in commands:
        screen.raw(commands[options.about].format_help().rstrip())
    else:
        raise Told(f"there is no command {options.about!r}: `autoresearch help` lists them")
    return DONE


# name -> (what it does, one line for `help`, what its own help adds)
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace, Machine, Screen], int], str, str]] = {
    "demo": (_demo, "a real campaign in a scratch repository", "Takes about a minute an experiment. No account, key or GPU."),
    "run": (_campaign, "N experiments on this checkout; without N, go on with what was interrupted or paused",
            "Winners land on the branch that is checked out. Ctrl-C at any time: nothing is lost. Settings are in program.md."),
    "status": (_status, "where the campaign stands", "Works beside a running `autoresearch run`."),
    "pr": (_pr, "pull requests: the list, or one with its diff, check and verdict", "They live in .git/autoresearch."),
    "log": (_log, "everything that happened, oldest first", "With --json the very lines of the log."),
    "results": (_results, "results.tsv with the original's five columns", "commit, val_bpb, memory_gb, status, description."),
    "measure": (_measure, "measure one train.py, once or with several fresh seeds",
                "Settings come from the nearest program.md. Prints the summary block of the original; n/a: not measured here."),
    "stop": (_stop, "end the campaign that is under way", "Its candidates in flight are closed without a verdict."),
    "doctor": (_doctor, "what this machine has and lacks, with the fix", "Exit status 1 when nothing can be measured here."),
    "page": (_page, "write a static page for each campaign", "Prints their paths. One is also written when a campaign ends."),
    "help": (_help, "this list, or what one command takes", ""),
}  # fmt: skip


def _parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each command."""
    parser = Parser(prog="autoresearch", description=DESCRIPTION)
    several = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made = {name: several.add_parser(name, help=line, description=f"{_sentence(line)} {more}".strip())
            for name, (_, line, more) in COMMANDS.items()}  # fmt: skip
    for name in ("status", "pr", "log", "measure", "doctor"):
        made[name].add_argument("--json", action="store_true", help="for programs")
    made["demo"].add_argument("asked", nargs="?", default=f"/autoresearch {demo.EXPERIMENTS}", help="default: %(default)s")
    made["demo"].add_argument("--dir", type=Path, help="the folder to make (default: demo, demo-2 ...)")
    made["demo"].add_argument("--seed", type=_natural, help="fixes proposals and seeds of runs; timing still differs")
    made["run"].add_argument("n", nargs="?", type=_positive, metavar="N", help="experiments; each gets a verdict")
    made["run"].add_argument("--target", metavar="X", help="stop when val_bpb of the best is X or lower")
    made["run"].add_argument("--hours", metavar="H", help="stop after H hours")
    made["pr"].add_argument("n", nargs="?", type=_positive, metavar="N", help="the number of a pull request")
    made["pr"].add_argument("--close", action="store_true", help="your veto: it is closed, whatever it measures")
    made["measure"].add_argument("path", nargs="?", type=Path, default=Path(), metavar="PATH", help="default: of the checkout")
    made["measure"].add_argument("--seed", type=_natural, help="default: a fresh one")
    made["measure"].add_argument("--seeds", type=_positive, default=1, metavar="N", help="N runs with as many seeds: mean, sigma")
    made["help"].add_argument("about", nargs="?", metavar="COMMAND", help="one command")
    return parser, made


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text[:20]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text[:20])


def _natural(text: str) -> int:
    if not text.isdecimal() or int(text[:20]) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**31 - 1}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
