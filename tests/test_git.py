"""git.py on real repositories: what each verb promises, and that every trouble is one sentence. Not: what the bot does."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot import git
from bot.git import GitError, Repo

MAIN = "refs/heads/main"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return git.init_bare(tmp_path / "r.git", "main")


@pytest.fixture
def base(repo: Repo) -> str:
    commit = repo.commit_file(None, "trainer/train.py", "X = 1\n", "first", when=1000)
    commit = repo.commit_file(commit, "README.md", "read me\n", "second\n\nwith a body", when=1001)
    assert repo.update_ref(MAIN, commit, None)
    return commit


def shell(cwd: Path, *args: str) -> str:
    """What a person would type."""
    identity = ["-c", "user.name=P", "-c", "user.email=p@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(repo: Repo, base: str, tmp_path: Path) -> Path:
    shell(tmp_path, "clone", "-q", str(repo.path), "work")
    return tmp_path / "work"


def test_the_same_inputs_make_the_same_commit(repo: Repo, base: str) -> None:
    """commit_file depends on nothing but its arguments: not on the clock, and not on fractions of a second."""
    made = {repo.commit_file(base, "trainer/train.py", "X = 2\n", "two", when=when) for when in (1700000000.1, 1700000000.9)}
    assert len(made) == 1
    assert repo.time_of(made.pop()) == 1700000000


def test_commit_file_changes_that_file_and_nothing_else(repo: Repo, base: str) -> None:
    """Other files, their modes and folders stay as they are, whatever depth the new file is at."""
    new = repo.commit_file(base, "trainer/a/b.txt", "grüße\r\n", "deep", when=1)
    newer = repo.commit_file(new, "trainer/train.py", "X = 3\n", "edit", when=1)
    assert repo.paths(newer) == ["README.md", "trainer/a/b.txt", "trainer/train.py"]
    assert [repo.read(newer, path) for path in repo.paths(newer)] == ["read me\n", "grüße\r\n", "X = 3\n"]
    assert repo.diff(new, newer).splitlines()[-2:] == ["-X = 1", "+X = 3"]
    shell(repo.path, "fsck", "--strict")


def test_executable_files_links_and_submodules_survive_an_edit_beside_them(checkout: Path) -> None:
    """The tree is rewritten entry by entry with the modes it had."""
    (checkout / "run").write_text("#!/bin/sh\n")
    (checkout / "run").chmod(0o755)
    (checkout / "link").symlink_to("run")
    shell(checkout, "add", "-A")
    shell(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    shell(checkout, "commit", "-qm", "modes")
    repo = Repo(checkout)
    new = repo.commit_file(repo.head(), "note", "x", "note", when=1)
    was = shell(checkout, "ls-tree", "HEAD").splitlines()
    assert [line for line in shell(checkout, "ls-tree", new).splitlines() if "\tnote" not in line] == was


def test_what_is_not_there_is_none_or_an_error(repo: Repo, base: str) -> None:
    """A missing file or ref is None; a missing commit is an error, never mistaken for a missing file."""
    assert repo.read(base, "none") is None
    assert repo.read(base, "trainer") is None
    assert repo.resolve("refs/heads/none") is None
    assert repo.resolve("1" * 40) is None
    for verb in (lambda: repo.read("1" * 40, "README.md"), lambda: repo.guard_of("1" * 40), lambda: repo.tree_of("--all")):
        with pytest.raises(GitError, match=r"has no commit|not a tree"):
            verb()


def test_the_guard_sees_what_a_measurement_depends_on_and_nothing_else(repo: Repo, base: str) -> None:
    """Any change under GUARDED changes the guard, a change elsewhere does not; a commit and its tree have the same."""
    assert repo.guard_of(base) == repo.guard_of(repo.tree_of(base))
    other = repo.commit_file(base, "docs/x.md", "x", "x", when=1)
    assert repo.guard_of(other) == repo.guard_of(base)
    paths = ("trainer/train.py", "evaluator/new/deep.py", "pyproject.toml", "requirements.lock")
    changed = [repo.guard_of(repo.commit_file(base, path, "changed", "x", when=1)) for path in paths]
    assert len({*changed, repo.guard_of(base)}) == len(paths) + 1


def test_update_ref_is_compare_and_swap(repo: Repo, base: str) -> None:
    """Of two writers that saw the same ref only the first moves it; None means that it must not be there."""
    a, b = (repo.commit_file(base, "x", text, "x", when=1) for text in "ab")
    assert repo.update_ref(MAIN, a, base)
    assert not repo.update_ref(MAIN, b, base)
    assert not repo.update_ref(MAIN, b, None)
    assert not repo.update_ref("refs/heads/none", b, base)
    assert repo.resolve(MAIN) == a
    repo.set_ref(MAIN, b)
    repo.delete_ref("refs/heads/none")
    assert repo.refs("refs/heads") == {MAIN: b}
    repo.delete_ref(MAIN)
    assert repo.refs("refs") == {}


def test_a_merge_keeps_both_sides_or_conflicts(repo: Repo, base: str) -> None:
    """Changes of different files merge; two changes of one line do not."""
    a, b = (repo.commit_file(base, "trainer/train.py", text, "x", when=1) for text in ("X = 2\n", "X = 3\n"))
    c = repo.commit_file(base, "README.md", "new\n", "x", when=1)
    tree = repo.merge_tree(a, c)
    assert tree is not None
    merged = repo.commit_tree(tree, [a, c], "merge", when=1)
    assert (repo.read(merged, "trainer/train.py"), repo.read(merged, "README.md")) == ("X = 2\n", "new\n")
    assert repo.merge_tree(a, b) is None


def test_the_log_of_a_branch(repo: Repo, base: str) -> None:
    """Newest first, whole messages, bounded by number and by a commit."""
    new = repo.commit_file(base, "x", "x", "third\n\nPull: 4\nHead: abc", when=1002)
    assert repo.log(new, limit=2) == [(new, "third\n\nPull: 4\nHead: abc"), (base, "second\n\nwith a body")]
    assert repo.log(new, limit=9, since=base) == [(new, "third\n\nPull: 4\nHead: abc")]
    assert repo.is_ancestor(base, new)
    assert not repo.is_ancestor(new, base)


def test_fetch_push_and_fast_forward(checkout: Path, repo: Repo, base: str) -> None:
    """Commits travel between a checkout and a bare repository; what would lose somebody's commit or change answers False."""
    here = Repo(checkout)
    tip = repo.commit_file(base, "trainer/train.py", "X = 2\n", "two", when=1)
    repo.set_ref(MAIN, tip)
    here.fetch(repo.path, "+refs/heads/main:refs/autoresearch/tip")
    (checkout / "trainer/train.py").write_text("X = 9\n")
    assert here.changes() == ["trainer/train.py"]
    assert not here.fast_forward(tip)
    shell(checkout, "checkout", "-q", "--", ".")
    assert not here.is_dirty()
    assert here.fast_forward(tip)
    assert (checkout / "trainer/train.py").read_text() == "X = 2\n"
    repo.set_ref(MAIN, repo.commit_file(base, "y", "y", "elsewhere", when=1))
    assert not here.push(repo.path, "HEAD:refs/heads/main")
    assert not here.fast_forward(here.commit_file(base, "z", "z", "beside", when=1))
    assert here.push(repo.path, "+HEAD:refs/heads/main")
    assert repo.resolve(MAIN) == tip


def test_a_persons_checkout(checkout: Path, base: str) -> None:
    """Where it is, what is checked out, whether something is not committed; files that git does not know do not count."""
    here = Repo(checkout)
    assert git.top_level(checkout / "trainer") == checkout
    assert here.git_dir() == checkout / ".git"
    assert (here.current_branch(), here.head()) == ("main", base)
    (checkout / "unknown").write_text("x")
    assert not here.is_dirty()
    (checkout / "README.md").unlink()
    assert here.changes() == ["README.md"]
    shell(checkout, "checkout", "-q", "--detach")
    assert here.current_branch() is None


def test_nothing_of_the_surroundings_gets_in(tmp_path: Path, repo: Repo, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither GIT_* variables, nor a missing identity, nor hooks or signing in a person's settings change what is made."""
    expected = repo.commit_file(base, "x", "x", "x", when=1)
    theirs = ("commit.gpgsign = true", "core.hooksPath = /nowhere", "core.autocrlf = true", "safe.bareRepository = explicit")
    sections = [f"[{key.split('.')[0]}]\n\t{key.split('.')[1]}\n" for key in theirs]
    (tmp_path / ".gitconfig").write_text("".join(sections))
    around = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "GIT_AUTHOR_DATE": "1", "HOME": str(tmp_path)}
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    assert repo.commit_file(base, "x", "x", "x", when=1) == expected
    assert repo.resolve(MAIN) == base


def test_tidy_packs_and_loses_nothing(repo: Repo, base: str) -> None:
    """After tidying, the small files are one pack and every commit of a branch is still there."""
    repo.tidy()
    assert shell(repo.path, "count-objects") == "0 objects, 0 kilobytes"
    assert repo.read(base, "trainer/train.py") == "X = 1\n"


def troubles(tmp: Path) -> dict[str, tuple[Callable[[], object], str]]:
    """What can be wrong -> how a person gets there, and what the sentence says."""
    bare = git.init_bare(tmp / "bare.git", "main")
    commit = bare.commit_file(None, "x", "x", "x", when=1)
    (tmp / "outer" / "inner").mkdir(parents=True)
    shell(tmp / "outer", "init", "-q")
    old, file, lock = tmp / "oldgit", tmp / "file", bare.path / "refs/heads/locked.lock"
    old.write_text("#!/bin/sh\necho git version 2.37.9\n")
    old.chmod(0o755)
    file.write_text("")
    lock.write_text("")
    latin = bare.ask("hash-object", "-w", "--stdin", stdin=b"\xff").text
    tree = bare.ask("mktree", stdin=f"100644 blob {latin}\tlatin\n".encode()).text
    return {
        "no git": (lambda: Repo(tmp, git="no-such-git"), "git is not installed"),
        "old git": (lambda: Repo(tmp, git=str(old)), r"git version 2.37.9 is too old: install git 2.38"),
        "no repository": (lambda: Repo(tmp).head(), "is not in a git checkout"),
        "folder of another repository": (lambda: Repo(tmp / "outer" / "inner").head(), "is not in a git checkout"),
        "no checkout": (lambda: git.top_level(tmp), "is not in a git checkout"),
        "no folder": (lambda: Repo(tmp / "none").head(), "No such file or directory"),
        "file in the way": (lambda: git.init_bare(file / "r.git", "main"), "Not a directory"),
        "lock": (lambda: bare.set_ref("refs/heads/locked", commit), "another git is at work .* remove the lock file"),
        "latin-1": (lambda: bare.read(bare.commit_tree(tree, [], "m", when=1), "latin"), "latin at .* is not UTF-8"),
        "half a character": (lambda: bare.commit_file(None, "x", "ab\ud800", "m", when=1), "broken character at 2"),
    }


TROUBLES = [
    "no git", "old git", "no repository", "folder of another repository", "no checkout", "no folder", "file in the way", "lock",
    "latin-1", "half a character",
]  # fmt: skip


@pytest.mark.parametrize("name", TROUBLES)
def test_every_trouble_is_one_sentence(name: str, tmp_path: Path) -> None:
    """What is wrong is said in one line, with what to do about it where that can be known."""
    found = troubles(tmp_path)
    assert sorted(found) == sorted(TROUBLES)
    deed, sentence = found[name]
    with pytest.raises(GitError, match=sentence) as caught:
        deed()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("err", "sentence"),
    [
        ("error: file write error: No space left on device\nfatal: unable to write loose object file", "the disk that holds"),
        ("fatal: could not open 'x': Read-only file system", "read-only disk"),
        ("error: insufficient permission for adding an object to repository database objects", "you may not write"),
        ("fatal: detected dubious ownership in repository at '/x'", "safe.directory"),
        ("error: object file objects/aa/bb is empty\nfatal: loose object aabb (stored in x) is corrupt", "git fsck"),
        ("", "it gave no reason"),
    ],
)
def test_what_git_says_is_turned_into_what_to_do(err: str, sentence: str, tmp_path: Path) -> None:
    """Troubles that a test cannot cause everywhere are known by git's own words."""
    fake = tmp_path / "git"
    fake.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo git version 2.40.0 && exit\necho "{err}" >&2\nexit 128\n')
    fake.chmod(0o755)
    with pytest.raises(GitError, match=sentence):
        Repo(tmp_path, git=str(fake)).head()


def test_a_kill_before_any_step_of_a_commit_changes_nothing(repo: Repo, base: str) -> None:
    """Whichever step a kill comes ahead of, no ref has moved, the repository is sound, and the same commit can be made after."""

    def deed(at: Repo) -> None:
        at.update_ref(MAIN, at.commit_file(base, "trainer/train.py", "X = 2\n", "two", when=1), base)

    for step in itertools.count():
        left = itertools.count(-step)
        pid = os.fork()
        if pid == 0:
            deed(Repo(repo.path, before=lambda verb, left=left: os._exit(9) if next(left) == 0 else None))  # type: ignore[misc]
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            break
        assert repo.resolve(MAIN) == base
    assert step == 6
    shell(repo.path, "fsck", "--strict")
    assert repo.read(MAIN, "trainer/train.py") == "X = 2\n"
