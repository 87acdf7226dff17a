"""Commits, comparisons, branches and files, read from the bare repository; and refs, which are the only thing written here."""

from __future__ import annotations

import base64
import re
from typing import Any

from bot import git
from tests.double import shapes
from tests.double.merging import settle
from tests.double.refusals import Refused
from tests.double.routes import Answer, Call, paged, route, text
from tests.double.shapes import Json, home
from tests.double.state import Hub, Repository

HERE = "/repos/{owner}/{repo}"
_STATUS = {"A": "added", "M": "modified", "D": "removed", "T": "changed"}


def known(repo: Repository, name: str) -> str:
    """The commit that a sha, branch or full ref names. 404 when there is none (a bad sha too)."""
    tries = (name,) if re.fullmatch("[0-9a-f]{40}", name) else (f"refs/heads/{name}", f"refs/{name}", name)
    found = next((sha for sha in map(repo.bare.resolve, tries) if sha), None)
    if found is None:
        raise Refused("not found")
    return found


def files(hub: Hub, repo: Repository, old: str, new: str) -> list[Json]:
    """What changed between two commits, a file each, with its patch."""
    key = ("files", old, new)
    if key not in repo.memo:
        repo.memo[key] = _files(hub, repo, old, new)
    found: list[Json] = repo.memo[key]
    return found


def _files(hub: Hub, repo: Repository, old: str, new: str) -> list[Json]:
    raw = repo.bare.ask("diff-tree", "-r", "--raw", "--no-abbrev", old, new).text.splitlines()
    counts = repo.bare.ask("diff-tree", "-r", "--numstat", old, new).text.splitlines()
    patches = re.split(r"^diff --git .*\n", repo.bare.diff(old, new), flags=re.MULTILINE)[1:]
    found, page = [], f"{hub.url}/{repo.full_name}"
    for line, count, patch in zip(raw, counts, patches, strict=True):
        head, _, path = line.partition("\t")
        *_, gone, blob, status = head.split()
        added, removed = (int(it) if it.isdecimal() else 0 for it in count.split("\t")[:2])
        found.append({
            "sha": gone if status == "D" else blob, "filename": path, "status": _STATUS[status],
            "additions": added, "deletions": removed, "changes": added + removed,
            "blob_url": f"{page}/blob/{new}/{path}", "raw_url": f"{page}/raw/{new}/{path}",
            "contents_url": f"{home(hub, repo)}/contents/{path}?ref={new}", "patch": patch[patch.find("@@") :].rstrip("\n"),
        })  # fmt: skip
    return found


def fork_point(repo: Repository, base: str, head: str) -> str:
    """The newest commit that both have; the head itself when they have none."""
    return repo.bare.ask("merge-base", base, head, ok=(0, 1)).text or head


def short_commit(hub: Hub, repo: Repository, sha: str) -> Json:
    fields = repo.bare.ask("log", "-1", "--format=%T%x00%P%x00%an%x00%ae%x00%ct%x00%B", sha, "--").text.split("\0")
    tree, parents, name, mail, at, message = fields
    url, page = f"{home(hub, repo)}/commits", f"{hub.url}/{repo.full_name}/commit"
    bot = hub.users.get("autoresearch[bot]") if mail == git.EMAIL else None  # GitHub finds accounts by their address
    account = shapes.user(hub, bot) if bot else None
    person = {"name": name, "email": mail, "date": shapes.stamp(int(at))}
    return {
        "sha": sha, "node_id": f"C_{sha}", "url": f"{url}/{sha}", "html_url": f"{page}/{sha}",
        "comments_url": f"{url}/{sha}/comments", "author": account, "committer": account,
        "parents": [{"sha": it, "url": f"{url}/{it}", "html_url": f"{page}/{it}"} for it in parents.split()],
        "commit": {
            "url": f"{home(hub, repo)}/git/commits/{sha}", "author": person, "committer": person, "message": message.rstrip("\n"),
            "tree": {"sha": tree, "url": f"{home(hub, repo)}/git/trees/{tree}"}, "comment_count": 0,
            "verification": {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None},
        },
    }  # fmt: skip


def shas(repo: Repository, tip: str, *, without: str = "", limit: int = 250) -> list[str]:
    """Commits that can be reached from `tip`, newest first, at most `limit`."""
    hidden = [f"^{without}"] if without else []
    return repo.bare.ask("rev-list", f"--max-count={limit}", tip, *hidden, "--").text.split()


@route("GET", HERE + "/commits")
def list_commits(call: Call) -> Answer:
    tip = known(call.repo, call.query.get("sha") or call.repo.default_branch)
    return paged(call, [short_commit(call.hub, call.repo, sha) for sha in shas(call.repo, tip, limit=100)])


@route("GET", HERE + "/commits/{ref}")
def get_commit(call: Call) -> Answer:
    try:
        sha = known(call.repo, call.args["ref"])
    except Refused:
        raise Refused("no commit", sha=call.args["ref"]) from None
    shape = short_commit(call.hub, call.repo, sha)
    changed = files(call.hub, call.repo, shape["parents"][0]["sha"], sha) if shape["parents"] else []
    added, removed = (sum(it[name] for it in changed) for name in ("additions", "deletions"))
    return Answer(200, shape | {"files": changed, "stats": {"additions": added, "deletions": removed, "total": added + removed}})


@route("GET", HERE + "/compare/{basehead}")
def compare(call: Call) -> Answer:
    base_name, _, head_name = call.args["basehead"].partition("...")
    base, head = (known(call.repo, name.rpartition(":")[2]) for name in (base_name, head_name))
    fork = fork_point(call.repo, base, head)
    ahead, behind = shas(call.repo, head, without=base), shas(call.repo, base, without=head)
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    page = f"{call.hub.url}/{call.repo.full_name}/compare/{call.args['basehead']}"
    return Answer(200, {
        "url": f"{home(call.hub, call.repo)}/compare/{call.args['basehead']}",
        "html_url": page, "permalink_url": page, "diff_url": f"{page}.diff", "patch_url": f"{page}.patch",
        "status": status, "ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead),
        "base_commit": short_commit(call.hub, call.repo, base), "merge_base_commit": short_commit(call.hub, call.repo, fork),
        "commits": [short_commit(call.hub, call.repo, sha) for sha in reversed(ahead)],
        "files": files(call.hub, call.repo, fork, head),
    })  # fmt: skip


@route("GET", HERE + "/contents/{path}", needs="contents")
def contents(call: Call) -> Answer:
    """A file, or the list of a folder, at `?ref=`; as it is with the raw media type."""
    sha, path = known(call.repo, call.query.get("ref") or call.repo.default_branch), call.args["path"]
    found = call.repo.bare.objects([f"{sha}:{path}"])[0]
    if found is None or found[0] not in ("blob", "tree"):
        raise Refused("not found")
    if found[0] == "tree":
        lines = call.repo.bare.ask("ls-tree", "-l", f"{sha}:{path}").text.splitlines()
        return Answer(200, [_entry(call, sha, path, line) for line in lines])
    if "raw" in call.headers.get("Accept", ""):
        return Answer(200, raw=found[1])
    entry = call.repo.bare.ask("ls-tree", "-l", sha, path).text.replace(path, path.rpartition("/")[2])
    shape = _entry(call, sha, path.rpartition("/")[0], entry)
    return Answer(200, shape | {"encoding": "base64", "content": base64.encodebytes(found[1]).decode()})


def _entry(call: Call, sha: str, folder: str, line: str) -> Json:
    head, _, name = line.partition("\t")
    _, kind, blob, size = head.split()
    path = f"{folder}/{name}".strip("/")
    urls: dict[str, Any] = {
        "url": f"{home(call.hub, call.repo)}/contents/{path}?ref={sha}",
        "html_url": f"{call.hub.url}/{call.repo.full_name}/blob/{sha}/{path}",
        "git_url": f"{home(call.hub, call.repo)}/git/blobs/{blob}",
    }
    return {
        "type": "dir" if kind == "tree" else "file", "name": name, "path": path, "sha": blob, "size": int(size.replace("-", "0")),
        "download_url": None, **urls, "_links": {"self": urls["url"], "git": urls["git_url"], "html": urls["html_url"]},
    }  # fmt: skip


# refs


def _shown(call: Call, ref: str, sha: str) -> Json:
    api = home(call.hub, call.repo)
    target = {"type": "commit", "sha": sha, "url": f"{api}/git/commits/{sha}"}
    return {"ref": ref, "node_id": f"REF_{ref}", "url": f"{api}/git/{ref}", "object": target}


def _guarded(call: Call, ref: str, *, deleting: bool = False) -> None:
    branch = ref.removeprefix("refs/heads/")
    if branch in call.repo.protection or (deleting and branch == call.repo.default_branch):
        raise Refused("protected ref")


@route("GET", HERE + "/git/ref/{ref}")
def get_ref(call: Call) -> Answer:
    ref = f"refs/{call.args['ref']}"
    if (sha := call.repo.bare.resolve(ref)) is None:
        raise Refused("not found")
    return Answer(200, _shown(call, ref, sha))


@route("GET", HERE + "/git/matching-refs/{ref}")
def matching_refs(call: Call) -> Answer:
    start = f"refs/{call.args['ref']}"
    return paged(call, [_shown(call, ref, sha) for ref, sha in call.repo.bare.refs("refs").items() if ref.startswith(start)])


@route("GET", HERE + "/git/refs")
def list_refs(call: Call) -> Answer:
    return paged(call, [_shown(call, ref, sha) for ref, sha in call.repo.bare.refs("refs").items()])


@route("POST", HERE + "/git/refs", needs="contents", role="write")
def create_ref(call: Call) -> Answer:
    ref, sha = text(call, "ref") or "", text(call, "sha") or ""
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise Refused("bad ref")
    if call.repo.bare.resolve(sha) is None:
        raise Refused("no object")
    if not call.repo.bare.update_ref(ref, sha, None):
        raise Refused("ref exists")
    settle(call.hub, call.repo, call.user)
    return Answer(201, _shown(call, ref, sha))


@route("PATCH", HERE + "/git/refs/{ref}", needs="contents", role="write")
def move_ref(call: Call) -> Answer:
    ref, sha = f"refs/{call.args['ref']}", text(call, "sha") or ""
    old = call.repo.bare.resolve(ref)
    if old is None:
        raise Refused("no ref")
    _guarded(call, ref)
    if call.repo.bare.resolve(sha) is None:
        raise Refused("no object")
    if not call.body.get("force") and not call.repo.bare.is_ancestor(old, sha):
        raise Refused("not ahead")
    call.repo.bare.set_ref(ref, sha)
    settle(call.hub, call.repo, call.user)
    return Answer(200, _shown(call, ref, sha))


@route("DELETE", HERE + "/git/refs/{ref}", needs="contents", role="write")
def delete_ref(call: Call) -> Answer:
    ref = f"refs/{call.args['ref']}"
    if call.repo.bare.resolve(ref) is None:
        raise Refused("no ref")
    _guarded(call, ref, deleting=True)
    call.repo.bare.delete_ref(ref)
    settle(call.hub, call.repo, call.user)
    return Answer(204)
