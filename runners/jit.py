"""The keeper of one machine with a GPU: asks GitHub for a runner that does one job, hands it over, and begins again.

    python3 jit.py --repo you/yours --token-file token -- ssh -T gpu-box

It runs on another machine than the GPU's, because the token may register runners (repository permission "Administration: write")
and must never be where candidates train. What is handed over, by the command after `--`, is an encoded configuration: good for
one runner, one job. The other side is one-job.sh: it says `ready`, is given one line, and says `over` when the job has ended.

Only the standard library: it is copied to where it runs. Schema-checked against GitHub's description, run against doubles of both
sides; not run against GitHub.
https://docs.github.com/en/rest/actions/self-hosted-runners#create-configuration-for-a-just-in-time-runner-for-a-repository
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

API = "https://api.github.com"
LABELS = ("self-hosted", "gpu")  # what loop.yml asks for
GROUP = 1  # "Default", the only group that a repository of its own has
ANSWER_SECONDS = 60.0
SOON, LATE = 5.0, 300.0  # seconds until the next job is asked for; doubled after each failure
SHORT = 30.0  # seconds: no job ends that fast, but the runner's program ends with 0 also when it could not begin


class Failed(Exception):
    """No job was run; says whose fault it was."""


def configuration(api: str, repo: str, token: str, name: str) -> str:
    """An encoded configuration for a runner of that name. Raises Failed."""
    body = {"name": name, "runner_group_id": GROUP, "labels": list(LABELS), "work_folder": "_work"}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json", "Content-Type": "application/json",
               "X-GitHub-Api-Version": "2022-11-28"}  # fmt: skip
    asked = urllib.request.Request(  # noqa: S310  the address is the caller's
        f"{api}/repos/{repo}/actions/runners/generate-jitconfig", json.dumps(body).encode(), headers, method="POST"
    )
    try:
        with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return str(json.loads(answer.read())["encoded_jit_config"])
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            raise Failed(f"GitHub says {error.code}: its token must live, and have Administration: write on {repo}") from None
        raise Failed(f"GitHub says {error.code}: {error.read(300).decode(errors='replace')}") from None
    except (OSError, ValueError, LookupError) as error:
        raise Failed(f"GitHub gave no configuration: {error!r}") from None


def one(reach: Sequence[str], ask: Callable[[], str], now: Callable[[], float]) -> str:
    """Have one job run on the machine that `reach` leads to; what it said in the end. Raises Failed.

    Nothing is asked for before the machine is ready: a configuration that nobody takes stays there as a runner that is offline.
    """
    said = ""
    with subprocess.Popen(reach, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as box:
        assert box.stdin is not None and box.stdout is not None
        try:
            if box.stdout.readline() != "ready\n":
                raise Failed("the machine is not ready: it cannot be reached, or still runs a job; its journal says more")
            box.stdin.write(ask() + "\n")
            began = now()
            box.stdin.flush()
            said, lasted = box.stdout.readline().strip(), now() - began
        except BrokenPipeError:
            pass
        except BaseException:
            box.kill()
            raise
    if not said.startswith("over "):
        raise Failed("the connection ended before the job did")
    if said != "over 0" or lasted < SHORT:
        raise Failed(f"`{said}` after {lasted:.0f} s: the runner's program there did no job; its journal says why")
    return said


def secret(path: Path) -> str:
    """The token, read anew for each job: who renews the file need not start this again. (By the unit it is systemd's copy,
    made when the unit started.) Raises Failed.

    The group's bits do not count: where systemd hands out a credential by an ACL they are the ACL's mask.
    """
    try:
        if path.stat().st_mode & 0o007:
            raise Failed(f"others may read {path}: chmod 600 {path}")
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None


def main(
    arguments: Sequence[str] | None = None, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
) -> int:
    parser = argparse.ArgumentParser(prog="jit.py", description="Keeps one machine with a GPU supplied with jobs.")
    parser.add_argument("--repo", required=True, metavar="OWNER/NAME")
    parser.add_argument("--token-file", required=True, type=Path, metavar="FILE", help="holds a token; mode 600")
    parser.add_argument("--api", default=API, metavar="URL", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="end after so many jobs (default: never)")
    parser.add_argument("reach", nargs="+", metavar="COMMAND", help="after --: what leads to one-job.sh there")
    asked = parser.parse_args(arguments)
    done, pause = 0, SOON
    while not asked.jobs or done < asked.jobs:
        name = f"autoresearch-{secrets.token_hex(6)}"
        try:
            said = one(asked.reach, lambda: configuration(asked.api, asked.repo, secret(asked.token_file), name), now)  # noqa: B023
        except Failed as error:
            print(f"jit: {error}; next try in {pause:.0f} s", file=sys.stderr, flush=True)
            sleep(pause)
            pause = min(2 * pause, LATE)
            continue
        print(f"jit: {name}: {said}", flush=True)
        done, pause = done + 1, SOON
        sleep(SOON)
    return 0


if __name__ == "__main__":
    sys.exit(main())
