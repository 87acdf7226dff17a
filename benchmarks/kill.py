"""Kill the bot with `kill -9` around and inside every deed, start it again, and compare with the run that nobody disturbed.

    python benchmarks/kill.py --kills 200

Real git, the real local forge, the real log, loop and proposer; only the measurements are scripted and the clock stands still,
so that the log of a campaign is the same to the last byte whenever it is made. Each victim is a process of its own that is
killed before a deed, between the deed and its event, or ahead of one of the git processes within it. When a campaign has
ended its log, its refs and its pull requests are compared with those of the undisturbed one: a lost or a doubled line, branch,
pull request, check or comment is a difference.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _record import write

from bot import events as e
from bot.act import act
from bot.actions import Action
from bot.forge.local import LocalForge
from bot.git import Repo, init_bare
from bot.log import GitLog
from bot.loop import View, refresh, run
from bot.propose import mutate
from bot.state import Campaign
from bot.world import World
from runners import Job, Outcome
from runners.scripted import Result, ScriptedRunner, landscape, measurement

ROOT = Path(__file__).resolve().parent.parent
NOW = 1_700_000_000.0
PROGRAM = """---
corpus: austen
gate: {mode: MODE, baseline_runs: 2, prior_sd: 0.01, prior_df: 20, verdict_pairs: 2, ablation: 8}
sandbox: none
---
Scripted.
"""
MODES = ("pairs", "stack")  # campaigns take turns
EXPERIMENTS = 8
SEED = 3


def script(job: Job) -> Result:
    """The scripted landscape, with one run that is void three times, so that the campaign pauses and is resumed."""
    run, attempt = job.run.rsplit(".", 1)
    if run == "1-5" and int(attempt) <= 3:
        return measurement(job, outcome=Outcome.VOID, reason="scripted")
    return landscape(job)


def make(folder: Path) -> World:
    """The world in that folder; made when it is not there."""
    killer = Killer()
    fresh = not (folder / "forge.git" / "HEAD").exists()
    repo = init_bare(folder / "forge.git", "main")
    if fresh or repo.resolve("refs/heads/main") is None:
        source = (ROOT / "examples/cpu/train.py").read_text()
        first = repo.commit_file(None, "trainer/train.py", source, "first", when=NOW)
        repo.set_ref("refs/heads/main", first)
    repo = Repo(folder / "forge.git", before=killer.before_git)
    return World(
        log=GitLog(repo), code=repo, forge=LocalForge(repo, folder / "forge.json", "main"), runner=ScriptedRunner(script),
        proposer=mutate, now=lambda: NOW, sleep=lambda seconds: None, token=lambda: "nonce",
    )  # fmt: skip


class Killer:
    """Kills this process ahead of the git process that it was told to; disarmed until a deed arms it."""

    left = -1

    def before_git(self, verb: str) -> None:
        if Killer.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        Killer.left -= 1


def victim(folder: Path, kind: str, when: str) -> None:
    """Run the campaign in `folder`; die in the next deed of that kind: `before` it, `after` it, or ahead of its n-th git."""
    world = make(folder)

    def deed(world: World, c: Campaign, action: Action) -> e.Event | None:
        mine = type(action).__name__ == kind
        if mine and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if mine and when.isdigit():
            Killer.left = int(when)
        event = act(world, c, action)
        Killer.left = -1
        if mine and event is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return event

    view = View()
    start(world, view, folder.name.partition("-")[0])
    while (c := run(world, view, deed)) is not None and c.ended is None:
        world.log.append(e.Resumed(campaign=c.name, at=NOW, by="a person"), view.position)


def start(world: World, view: View, mode: str) -> None:
    if not refresh(world, view).campaigns:
        event = e.CampaignStarted(
            campaign="1", at=NOW, experiments=EXPERIMENTS, issue=0, title="", body="", by="a person",
            program=PROGRAM.replace("MODE", mode), settings={}, seed=SEED, branch="main",
        )  # fmt: skip
        world.log.append(event, view.position)


def spawn(folder: Path, kind: str, when: str) -> int:
    argv = [sys.executable, __file__, "--victim", str(folder), "--deed", kind, "--when", when]
    return subprocess.run(argv, check=False).returncode


Left = tuple[list[object], list[object], list[object]]  # events, refs, pull requests


def outcome(folder: Path) -> Left:
    """All that the campaign left: events, refs, pull requests with their checks and comments."""
    world = make(folder)
    repo = Repo(folder / "forge.git")
    refs = [ref for ref in repo.refs("refs/heads").items() if ref[0] != "refs/heads/autoresearch/log"]
    return list(world.log.read()[0]), list(refs), list(world.forge.pulls())  # type: ignore[attr-defined]


def plan(kinds: list[str], round_: int) -> list[tuple[str, str]]:
    """Where to die in one campaign: twice in each kind of deed, in the order in which they first come, at other moments each
    round."""
    moments = ["before", "after", *map(str, range(12))]
    return [(kind, moments[(2 * round_ + i + turn) % len(moments)]) for i, kind in enumerate(kinds) for turn in (0, 1)]


def campaign(folder: Path, moments: list[tuple[str, str]], killed: Counter[str], most: int) -> None:
    """One campaign: a kill for each moment that comes, then to the end."""
    for kind, when in moments:
        if sum(killed.values()) >= most:
            break
        if spawn(folder, kind, when) == -signal.SIGKILL:
            killed[kind] += 1
    if spawn(folder, "", "never") != 0:
        raise SystemExit(f"the campaign in {folder} did not end")


def main() -> int:
    """Print the counts; exit 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="20 kills")
    parser.add_argument("--victim", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deed", default="", help=argparse.SUPPRESS)
    parser.add_argument("--when", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victim:
        victim(options.victim, options.deed, options.when)
        return 0
    return compare(20 if options.quick else options.kills)


def compare(kills: int) -> int:
    killed: Counter[str] = Counter()
    differences: list[str] = []
    rounds = 0
    with tempfile.TemporaryDirectory() as scratch:
        expected = {}
        for mode in MODES:
            campaign(Path(scratch, f"{mode}-calm"), [], killed, 0)
            expected[mode] = outcome(Path(scratch, f"{mode}-calm"))
        while sum(killed.values()) < kills and rounds < kills:
            mode = MODES[rounds % len(MODES)]
            folder = Path(scratch, f"{mode}-{rounds}")
            campaign(folder, plan(deeds(expected[mode][0]), rounds // len(MODES)), killed, kills)
            differences += [f"round {rounds}: {text}" for text in differing(expected[mode], outcome(folder))]
            rounds += 1
            print(f"campaign {rounds} ({mode}): {sum(killed.values())} kills so far, {len(differences)} differences", flush=True)
    return report(kills, killed, rounds, [len(left[0]) for left in expected.values()], differences)


MADE_BY = {
    e.BaseSeen: "Look", e.Proposed: "Propose", e.Opened: "Open", e.Rebased: "Rebase", e.MeasureStarted: "StartRun",
    e.Measured: "Poll", e.CheckPosted: "PostCheck", e.Adopted: "Adopt", e.Merged: "Merge", e.Closed: "Close", e.Said: "Say",
    e.Paused: "Pause", e.Accepted: "Accept", e.ComparisonOpened: "OpenComparison", e.Compared: "Compare", e.Ending: "BeginEnd",
    e.CampaignEnded: "End",
}  # fmt: skip


def deeds(happened: list[object]) -> list[str]:
    """The kinds of action that the undisturbed campaign needed, in the order in which they first came."""
    return list(dict.fromkeys(MADE_BY[type(event)] for event in happened if type(event) in MADE_BY))


def differing(a: Left, b: Left) -> list[str]:
    found = []
    for name, x, y in zip(("events", "refs", "pull requests"), a, b, strict=True):
        if x != y:
            only = [str(item) for item in [*x, *y] if item not in x or item not in y]
            found.append(f"{name}: {len(x)} and {len(y)}; only in one: {only[:2]}")
    return found


def report(kills: int, killed: Counter[str], rounds: int, lines: list[int], differences: list[str]) -> int:
    for kind, count in sorted(killed.items()):
        print(f"  {kind:10} {count:4} kills")
    verdict = "\n".join(differences) or "no difference: 0 lost, 0 doubled"
    print(f"{sum(killed.values())} kills in {rounds} campaigns of {lines} events\n{verdict}")
    if kills >= 200:
        figures = {"campaigns": rounds, "events": lines, "differences": len(differences), "kills_by_deed": dict(killed)}
        write("kill", f"python benchmarks/kill.py --kills {kills}", figures, n=sum(killed.values()))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
