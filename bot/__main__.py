"""The command line: `autoresearch`, or `python -m bot`. The only reader of argv and of the environment; wires everything up.

Exit status: 0 done; 1 told you why; 3 a bug of ours, with a log file; 130 interrupted (Ctrl-C or a polite kill).
Not here: what the commands do. What they print goes to standard output, what went wrong to standard error.
"""

from __future__ import annotations

import argparse
import io
import os
import secrets
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from bot import box, campaign, commands, demo, installed
from bot.commands import DONE, TOLD, say
from bot.forge import ForgeError
from bot.git import GitError
from bot.log import LogDamaged
from bot.minds import Server
from bot.platform import Platform
from bot.remote import Busy
from bot.screen import Screen
from bot.workspace import Machine, Told, blame
from runners.local import RunnerError, SandboxError, available

BUG, INTERRUPTED = 3, 130
TELLABLE = (Told, Busy, GitError, ForgeError, LogDamaged, RunnerError, SandboxError)
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
        return say(str(error), INTERRUPTED)
    except KeyboardInterrupt:
        return say("interrupted; nothing that was written down is lost", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
        return TOLD
    except TELLABLE as error:
        return say(str(error), TOLD)
    except OSError as error:
        return say(sentence, TOLD) if (sentence := blame(error)) else _bug(machine.cache, asked)
    except Exception:  # noqa: BLE001  the last resort: it is told, with all that is known, in a file
        return _bug(machine.cache, asked)


def _run(asked: list[str], machine: Machine) -> int:
    options = _parser()[0].parse_args(asked or ["help"])
    return COMMANDS[options.command][0](options, machine, Screen(sys.stdout))


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
        return say(f"this is a bug of ours, not a mistake of yours. Please report it with {path}; nothing written is lost", BUG)
    return say(f"this is a bug of ours, and no log could be written: {traceback.format_exc().splitlines()[-1]}", BUG)


def this_machine() -> Machine:
    """The computer and the call as they are."""
    environ = os.environ
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Machine(
        cache=Path(environ.get("AUTORESEARCH_CACHE") or Path(base) / "autoresearch").absolute(),
        who=environ.get("USER") or environ.get("LOGNAME") or "a person at this machine",
        command=_command(sys.argv[0]), runners=installed.RUNNERS, proposers=installed.PROPOSERS, now=time.time, sleep=time.sleep,
        token=partial(secrets.token_hex, 16), seed=partial(secrets.randbits, 62), torch=installed.torch, sandbox=available,
        prepare=installed.prepare, platform=partial(_platform, environ), event=environ.get("GITHUB_EVENT_NAME", ""),
        server=Server(base_url=environ.get("OPENAI_BASE_URL", "").strip(), key=environ.get("OPENAI_API_KEY", "").strip()),
        event_file=environ.get("GITHUB_EVENT_PATH", ""), slack_token=environ.get("SLACK_BOT_TOKEN", ""),
        slack_webhook=environ.get("SLACK_WEBHOOK_URL", ""), slack_api=environ.get("SLACK_API_URL") or Machine.slack_api,
        look=partial(box.look, tuple(environ), Path.home()), name=environ.get("RUNNER_NAME", ""),
    )  # fmt: skip


def _platform(environ: Mapping[str, str]) -> Platform:
    """The repository on GitHub that the environment names, as workflows set it. Raises Told."""
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    name = environ.get("GITHUB_REPOSITORY", "")
    if not token or name.count("/") != 1:
        raise Told("set GITHUB_TOKEN to a token and GITHUB_REPOSITORY to owner/name; in a workflow both are there")
    return Platform(
        name=name, token=token, api=environ.get("GITHUB_API_URL") or Platform.api,
        server=environ.get("GITHUB_SERVER_URL") or Platform.server,
    )  # fmt: skip


def _command(program: str) -> str:
    """How a person can call us again from any folder."""
    path = Path(program)
    if path.name != "autoresearch":
        return f"{sys.executable} -m bot"
    found = shutil.which("autoresearch")
    return "autoresearch" if found and Path(found).samefile(path) else str(path.absolute())


def _help(options: argparse.Namespace, machine: Machine, screen: Screen) -> int:
    parser, commands = _parser()
    if options.about is None:
        screen.raw(parser.format_help().rstrip())
    elif options.about in commands:
        screen.raw(commands[options.about].format_help().rstrip())
    else:
        raise Told(f"there is no command {options.about!r}: `autoresearch help` lists them")
    return DONE


COMMANDS: dict[str, tuple[commands.Command, str, str]] = commands.COMMANDS | {
    "help": (_help, "this list, or what one command takes", "")
}


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
    made["run"].add_argument("--usd", metavar="X", help="spend at most so many US dollars on models")
    made["run"].add_argument("--model", metavar="NAME", help="the model that proposes")
    made["propose"].add_argument("--dry-run", action="store_true", help="only show it")
    made["propose"].add_argument("--offline", action="store_true", help="ask nobody")
    made["propose"].add_argument("--model", metavar="NAME", help="the model that proposes")
    made["pr"].add_argument("n", nargs="?", type=_positive, metavar="N", help="the number of a pull request")
    made["pr"].add_argument("--close", action="store_true", help="your veto: it is closed, whatever it measures")
    made["measure"].add_argument("path", nargs="?", type=Path, default=Path(), metavar="PATH", help="default: of the checkout")
    made["measure"].add_argument("--seed", type=_natural, help="default: a fresh one")
    made["measure"].add_argument("--seeds", type=_positive, default=1, metavar="N", help="N runs with as many seeds: mean, sigma")
    _online(made)
    made["help"].add_argument("about", nargs="?", metavar="COMMAND", help="one command")
    return parser, made


def _online(made: dict[str, Parser]) -> None:
    """What commands take that work with GitHub."""
    made["hear"].add_argument("--event", type=Path, metavar="FILE", help="the payload (default: GITHUB_EVENT_PATH)")
    made["hear"].add_argument(
        "--name", help="of the event, such as issue_comment (default: GITHUB_EVENT_NAME, or what it looks like)"
    )
    made["hear"].add_argument("--ring", action="store_true", help="ring the loop when something was written down")
    made["hear"].add_argument("--dry-run", action="store_true", help="only print what it would do; needs no token")
    made["settle"].add_argument("--run", default="", help="the run that a job has measured")
    made["settle"].add_argument("--result", type=Path, metavar="FILE", help="what it left; it may not be there")
    made["job"].add_argument("run", metavar="RUN", help="its name, as the log has it")
    made["job"].add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    made["measure"].add_argument("--job", type=Path, metavar="FILE", help="what `job` wrote; nothing is done without the file")
    made["measure"].add_argument("--out", type=Path, metavar="FILE", help="where the result of that job goes")
    made["init"].add_argument("--app-id", type=_positive, default=0, metavar="N", help="the number of the App that is the bot")
    about = made["doctor"].add_mutually_exclusive_group()
    about.add_argument("--github", action="store_true", help="look at the repository there, and its limits, instead")
    about.add_argument("--runner", action="store_true", help="look at this machine as one that only measures, for a repository")
    made["doctor"].add_argument("--out", type=Path, metavar="FILE", help="with --runner: where the reason goes if it is not fit")
    made["report"].add_argument("to", choices=("slack",), help="where it goes")
    made["report"].add_argument("--dry-run", action="store_true", help="only show what would be sent; needs no Slack")


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
