"""Clone, fetch and push: git's own `http-backend` over the bare repository, behind the checks that GitHub makes first.

A protected branch and workflow files are guarded by an `update` hook, so that git itself tells the client which ref was refused.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Mapping

from bot import git
from tests.double.merging import settle
from tests.double.refusals import REFUSALS, Refused
from tests.double.routes import Answer, granted, visible
from tests.double.state import Hub, Identity, Repository

PATH = re.compile(r"/([^/]+/[^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)$")
_CONFIG = """[http]
	receivepack = true
[receive]
	hideRefs = refs/pull
	autogc = false
[gc]
	auto = 0
[uploadpack]
	allowAnySHA1InWant = true
	allowFilter = true
"""
# $1 is the ref, $2 the old and $3 the new commit; a deletion has a $3 of zeros
_HOOK = f"""#!/bin/sh
case " $DOUBLE_PROTECTED " in *" $1 "*)
	echo "error: {REFUSALS["push protected"].message.format(ref="$1")}" >&2
	echo "error: Changes must be made through a pull request." >&2
	exit 1 ;;
esac
case "$3" in *[!0]*) ;; *) exit 0 ;; esac
if [ -n "$DOUBLE_NO_WORKFLOWS" ]; then
	base=$(git merge-base HEAD "$3") || base=$(git hash-object -t tree /dev/null)
	path=$(git diff --name-only "$base" "$3" -- .github/workflows | head -n 1)
	if [ -n "$path" ]; then
		echo "error: {REFUSALS["push workflow"].message.format(path="$path").replace("`", chr(92) + "`")}" >&2
		exit 1
	fi
fi
"""


def prepare(repo: git.Repo) -> None:
    """Make a bare repository fit to be served."""
    with (repo.path / "config").open("a") as config:
        config.write(_CONFIG)
    hook = repo.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_HOOK)
    hook.chmod(0o755)


def identify(hub: Hub, header: str) -> Identity | None:
    """Who a Basic header stands for (the token is its password); None without one."""
    kind, _, value = header.partition(" ")
    if not header:
        return None
    token = base64.b64decode(value).decode("utf-8", "replace").partition(":")[2] if kind == "Basic" else value
    if token not in hub.tokens:
        raise Refused("git bad token")
    return hub.tokens[token]


def serve(hub: Hub, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Answer one request of a git client, or raise Refused."""
    match = PATH.match(path)
    if match is None:
        raise Refused("git not found")
    repo = hub.repository(match[1])
    if repo is None:
        moved = hub.repositories.get(hub.moved.get(match[1].lower(), 0))
        if moved is None:
            raise Refused("git not found")
        raise Refused("moved", headers={"Location": f"{hub.url}/{moved.full_name}.git/{match[2]}{'?' + query if query else ''}"})
    who = identify(hub, headers.get("Authorization", ""))
    pushing = match[2] == "git-receive-pack" or "service=git-receive-pack" in query
    _authorise(repo, who, pushing=pushing)
    answer = _backend(repo, who, method, f"/{match[2]}", query, headers, body)
    if match[2] == "git-receive-pack" and who is not None:
        settle(hub, repo, who.user)
    return answer


def _authorise(repo: Repository, who: Identity | None, *, pushing: bool) -> None:
    if who is None and (pushing or repo.private):
        raise Refused("git anonymous", headers={"WWW-Authenticate": 'Basic realm="GitHub"'})
    if not visible(repo, who):
        raise Refused("git not found")
    if not pushing or who is None:
        return
    writes = granted(who, "contents", "write") if who.is_app else repo.role(who.user.login) in ("write", "maintain", "admin")
    if not writes:
        raise Refused("git forbidden", repo=repo.full_name, login=who.user.login)
    if repo.archived:
        raise Refused("git archived")


def _backend(
    repo: Repository, who: Identity | None, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> Answer:
    """Run the CGI program once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    lacks = who is not None and who.is_app and not granted(who, "workflows", "write")
    env = kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROJECT_ROOT": str(repo.bare.path),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "CONTENT_TYPE": headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
        "REMOTE_USER": who.user.login if who else "",
        "REMOTE_ADDR": "127.0.0.1",
        "DOUBLE_PROTECTED": " ".join(f"refs/heads/{branch}" for branch in repo.protection),
        "DOUBLE_NO_WORKFLOWS": "yes" if lacks else "",
    }
    done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, check=False, env=env)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
    return Answer(int(fields.pop("Status", "200").split()[0]), None, fields, rest)
