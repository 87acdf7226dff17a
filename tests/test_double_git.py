"""The double's git side: real clones and pushes over HTTP, what they do to pull requests, renames, and files read by REST."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.double import Double
from tests.double.asking import BRANCH, TRAIN, Place, client

FILES = {"README.md": "hello\n", TRAIN: "A = 1\n"}
CHECK = "autoresearch/val_bpb"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Double(tmp_path, files=FILES) as double, requests.Session() as http:
        yield Place(double, http)


def git(*words: str, at: Path) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "credential.helper=")
    done = subprocess.run(["git", "-C", str(at), *identity, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def cloned(double: Double, tmp: Path, by: str = "alice") -> Path:
    work = tmp / "clone"
    git("clone", "-q", double.git_url_of(by), str(work), at=tmp)
    return work


def test_clone_push_and_fetch_are_real(place: Place, tmp_path: Path) -> None:
    """A push moves the head of the pull request, and its commits can be fetched by number and by sha."""
    work = cloned(place.double, tmp_path)
    (work / TRAIN).write_text("A = 5\n")
    git("commit", "-qam", "five", at=work)
    git("push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}", at=work)
    number = place.ask("POST /pulls", title="x", head=BRANCH, base="main").json()["number"]
    (work / TRAIN).write_text("A = 6\n")
    git("commit", "-qam", "six", at=work)
    git("push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}", at=work)
    sha = git("rev-parse", "HEAD", at=work)
    assert [(it.name, it.action) for it in place.double.events] == [("pull_request", "opened"), ("pull_request", "synchronize")]
    assert place.double.events[-1].payload["pull_request"]["head"]["sha"] == sha
    git("fetch", "-q", "origin", f"refs/pull/{number}/head", at=work)
    assert git("rev-parse", "FETCH_HEAD", at=work) == sha
    git("fetch", "-q", "origin", sha, at=work)


def test_deleting_the_branch_closes_the_pull_request(place: Place, tmp_path: Path) -> None:
    """By git as by REST; and the pull request knows who did it."""
    number = place.pull()
    git("push", "-q", "origin", f":refs/heads/{BRANCH}", at=cloned(place.double, tmp_path))
    closed = place.ask(f"GET /issues/{number}").json()
    assert (closed["state"], closed["closed_by"]["login"], closed["pull_request"]["merged_at"]) == ("closed", "alice", None)


def test_commits_that_come_in_by_a_push_are_merged(place: Place) -> None:
    """A person pushes the head to the default branch: GitHub calls that a merge."""
    number = place.pull()
    place.double.force_push("main", place.head(number), by="bob")
    shown = place.ask(f"GET /pulls/{number}").json()
    assert (shown["merged"], shown["merge_commit_sha"], shown["merged_by"]["login"]) == (True, place.head(number), "bob")


def test_nobody_pushes_to_pull_refs(place: Place, tmp_path: Path) -> None:
    """refs/pull is GitHub's own: hidden from pushes."""
    with pytest.raises(AssertionError, match="hidden ref"):
        git("push", "-q", "origin", "HEAD:refs/pull/1/head", at=cloned(place.double, tmp_path))


def test_a_large_push_comes_in_chunks(place: Place, tmp_path: Path) -> None:
    """git switches to chunked encoding above a megabyte; nothing is lost."""
    work = cloned(place.double, tmp_path)
    (work / "big").write_bytes(bytes(range(256)) * 8000 + threading.get_ident().to_bytes(8))
    git("add", ".", at=work)
    git("commit", "-qm", "big", at=work)
    git("-c", "core.compression=0", "-c", "http.postBuffer=65536", "push", "-q", "origin", "HEAD:refs/heads/big", at=work)
    assert place.double.bare.resolve("refs/heads/big") == git("rev-parse", "HEAD", at=work)


def test_git_meets_faults_too(place: Place, tmp_path: Path) -> None:
    """A push that was answered by 504 after the deed has moved the branch; one that was dropped before has not."""
    work = cloned(place.double, tmp_path)
    tip = git("rev-parse", "HEAD", at=work)
    # twice, because curl tries again by itself when a connection that it had kept is closed without an answer
    for kind, times, branch, found in (("504 after", 1, "after", tip), ("drop", 2, "before", None)):
        place.double.fail(with_=kind, times=times, path="git-receive-pack", method="POST")
        with pytest.raises(AssertionError, match=r"RPC failed|the remote end hung up"):
            git("push", "-q", "origin", f"HEAD:refs/heads/{branch}", at=work)
        assert place.double.bare.resolve(f"refs/heads/{branch}") == found


# renamed repositories and branches; files


def test_a_renamed_repository_redirects(place: Place, tmp_path: Path) -> None:
    """301 for reading, which PyGithub and git follow, 307 for writing; the new name works at once."""
    work = cloned(place.double, tmp_path)
    place.double.rename("octo/laboratory")
    assert place.ask("GET ~/repos/octo/lab/labels").headers["Location"].endswith(f"/repositories/{place.double.home.id}/labels")
    assert place.ask("POST ~/repos/octo/lab/issues", title="x").status_code == 307
    with client(place.double) as github:
        assert github.get_repo("octo/lab").full_name == "octo/laboratory"
    git("fetch", "-q", "origin", at=work)
    assert place.ask("POST /issues", title="x").status_code == 201


def test_a_renamed_default_branch_takes_everything_along(place: Place) -> None:
    """Pull requests and rules follow, and the old name is gone."""
    place.double.protect(checks=(CHECK,))
    number = place.pull()
    place.double.rename_branch("main", "trunk")
    assert place.ask("GET ").json()["default_branch"] == "trunk"
    shown = place.ask(f"GET /pulls/{number}").json()
    assert (shown["state"], shown["base"]["ref"], shown["mergeable_state"]) == ("open", "trunk", "blocked")
    assert place.ask("GET /git/ref/heads/main").status_code == 404


def test_files_and_comparisons_are_read_from_git(place: Place) -> None:
    """Contents at a ref, in base64 and raw; a comparison with its status and patch."""
    tip = place.double.push("side", {TRAIN: "A = 2\n"})
    shown = place.ask(f"GET /contents/{TRAIN}?ref=side").json()
    assert base64.b64decode(shown["content"]) == b"A = 2\n"
    assert (shown["path"], shown["size"]) == (TRAIN, 6)
    raw = {"Accept": "application/vnd.github.raw+json", "Authorization": "token app-token"}
    assert place.http.get(shown["url"], headers=raw, timeout=9).content == b"A = 2\n"
    assert [it["name"] for it in place.ask("GET /contents/trainer").json()] == ["train.py"]
    between = place.ask("GET /compare/main...side").json()
    assert (between["status"], between["ahead_by"], between["behind_by"]) == ("ahead", 1, 0)
    assert between["files"][0]["patch"] == "@@ -1 +1 @@\n-A = 1\n+A = 2"
    statuses = [place.ask(f"GET /compare/{it}").json()["status"] for it in ("side...main", "main...main")]
    assert statuses == ["behind", "identical"]
    assert place.ask(f"GET /commits/{tip}").json()["stats"] == {"additions": 1, "deletions": 1, "total": 2}
