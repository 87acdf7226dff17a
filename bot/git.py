"""The only module that runs git: verbs on one repository, by plumbing. It knows nothing of candidates, pull requests or the log.

Every call is shielded from its surroundings: no GIT_* variable of the caller, no hook, no signing, no pager, no question on
a terminal, no background gc; and from a Ctrl-C in the terminal, which would leave lock files behind. No identity need be set.
A work tree is touched by `fast_forward` alone. Texts are UTF-8; a sha is 40 hex digits; `when` is an epoch second.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OLDEST = (2, 38)  # the first with `merge-tree --write-tree`
NAME, EMAIL = "autoresearch", "autoresearch@users.noreply.github.com"
GUARDED = ("trainer", "evaluator", "pyproject.toml", "requirements.lock")

_SETTINGS = (
    *("gc.auto=0", "maintenance.auto=false", "commit.gpgsign=false", "core.hooksPath=/dev/null", "core.fsmonitor=false"),
    *("log.showSignature=false", "i18n.commitEncoding=UTF-8", "core.filesRefLockTimeout=2000"),
    "safe.bareRepository=all",  # a person may have forbidden them for shells; ours is named on purpose
)
_SHIELD = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"} | {
    "GIT_OPTIONAL_LOCKS": "0",  # `status` must not write into a person's checkout
    **{f"GIT_{who}_NAME": NAME for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": EMAIL for who in ("AUTHOR", "COMMITTER")},
}
_BLAME = (
    (r"No space left|Disk quota|File too large", "the disk that holds {path} is full: free some space, then do it again"),
    (r"Read-only file system", "{path} is on a read-only disk: make it writable or use another folder"),
    (r"Permission denied|insufficient permission", "you may not write in {path}: change its owner or use another folder"),
    (r"not a git repository|must be run in a work tree", "{path} is not in a git checkout: run in a clone, or `git init` first"),
    (r"dubious ownership", "{path} is another user's: run as that user, or `git config --global --add safe.directory {path}`"),
    (r"\.lock': File exists", "another git is at work in {path}, or died there: wait, or remove the lock file ({why})"),
    (r"loose object|bad object|corrupt|unable to read", "{path} is damaged: run `git fsck` there, or take a fresh clone ({why})"),
)


class GitError(Exception):
    """git could not do what it was asked; the message is a sentence that says why and what to do."""


@dataclass(frozen=True)
class _Done:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace").strip()


@cache
def _check_version(git: str) -> None:
    try:
        out = subprocess.run([git, "version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        raise GitError(f"git is not installed, or not on the PATH: install git {OLDEST[0]}.{OLDEST[1]} or newer") from None
    found = re.search(r"(\d+)\.(\d+)", out)
    if found is None or tuple(map(int, found.groups())) < OLDEST:
        raise GitError(f"{out.strip() or git} is too old: install git {OLDEST[0]}.{OLDEST[1]} or newer")


def _environment(path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | _SHIELD | {"GIT_CEILING_DIRECTORIES": str(path.parent)}


def _explain(path: Path, verb: str, err: str) -> GitError:
    lines = [line for line in err.splitlines() if line.strip()] or ["it gave no reason"]
    why = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
    for pattern, sentence in _BLAME:
        if re.search(pattern, err):
            return GitError(sentence.format(path=path, why=why))
    return GitError(f"git {verb} failed in {path}: {why}")


def top_level(path: Path, *, git: str = "git") -> Path:
    """The root of the checkout that `path` lies in. GitError when it lies in none."""
    here = Repo(path, git=git)
    return Path(here.ask("rev-parse", "--show-toplevel", env={"GIT_CEILING_DIRECTORIES": ""}).text)


def init_bare(path: Path, branch: str, *, git: str = "git", before: Callable[[str], object] = str) -> Repo:
    """An empty bare repository whose default branch is `branch`; one that is there already is left as it is."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explain(path, "init", str(error)) from None
    repo = Repo(path, git=git, before=before)
    repo.ask("init", "--bare", "--quiet", "--template=", f"--initial-branch={branch}", str(repo.path))
    return repo


class Repo:
    """One repository, bare or a checkout. `before` is called with the verb ahead of each git process: tests kill there."""

    def __init__(self, path: Path, *, git: str = "git", before: Callable[[str], object] = str) -> None:
        _check_version(git)
        self.path = path.resolve()
        self._git = git
        self._before = before

    def ask(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,), env: dict[str, str] | None = None) -> _Done:
        """Run git once. GitError when the exit status is not in `ok`."""
        self._before(args[0])
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        done = subprocess.run(
            [self._git, "-C", str(self.path), *settings, *args],
            input=stdin,
            capture_output=True,
            check=False,
            env=_environment(self.path) | (env or {}),
            start_new_session=True,
        )
        result = _Done(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
        if result.code not in ok:
            raise _explain(self.path, args[0], result.err)
        return result

    def resolve(self, ref: str) -> str | None:
        """The commit that a ref or sha names; None when there is none."""
        done = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", ok=(0, 1))
        return done.text if done.code == 0 else None

    def refs(self, prefix: str) -> dict[str, str]:
        """Full ref name -> sha, of all refs under `prefix` (such as refs/heads/autoresearch)."""
        lines = self.ask("for-each-ref", "--format=%(refname) %(objectname)", prefix).text.splitlines()
        return dict(line.split(" ") for line in lines)

    def objects(self, names: Sequence[str]) -> list[tuple[str, bytes] | None]:
        """Kind and content of each object (a sha, or `commit:path`), in one process; None where it is not there."""
        pipe = io.BytesIO(self.ask("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()).out)
        return [_object(pipe) for _ in names]

    def paths(self, commit: str) -> list[str]:
        """All files of a commit."""
        out = self.ask("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).out
        return out.decode("utf-8", "replace").split("\0")[:-1]

    def read(self, commit: str, path: str) -> str | None:
        """The text of a file at a commit; None when that commit has no such file."""
        (found,) = self.objects([f"{commit}:{path}"])
        if found is None or found[0] != "blob":
            self.tree_of(commit)  # a commit that is not there is an error, not a missing file
            return None
        try:
            return found[1].decode("utf-8")
        except UnicodeDecodeError:
            raise GitError(f"{path} at {commit[:12]} is not UTF-8 text: save it as UTF-8 and commit that") from None

    def tree_of(self, commit: str) -> str:
        """The id of the tree of a commit."""
        done = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}", ok=(0, 1))
        if done.code:
            raise GitError(f"{self.path} has no commit {commit}: it was made elsewhere and not fetched, or it was pruned")
        return done.text

    def time_of(self, commit: str) -> int:
        """Committer time, epoch seconds."""
        return int(self.ask("log", "-1", "--format=%ct", commit, "--").text)

    def guard_of(self, treeish: str) -> str:
        """A hash over everything that a measurement depends on: the entries of GUARDED that exist in that commit or tree."""
        return hashlib.sha256(self.ask("ls-tree", "-z", "--full-tree", treeish, "--", *GUARDED).out).hexdigest()

    def diff(self, a: str, b: str) -> str:
        """The patch that leads from commit or tree `a` to `b`."""
        out = self.ask("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", a, b).out
        return out.decode("utf-8", "replace")

    def log(self, ref: str, *, limit: int, since: str | None = None) -> list[tuple[str, str]]:
        """(sha, message) newest first, at most `limit`; only what is not reachable from `since`, if given."""
        hidden = [f"^{since}"] if since else []
        out = self.ask("log", "-z", "--format=%H%n%B", f"--max-count={limit}", ref, *hidden, "--").out
        entries = [entry.partition("\n") for entry in out.decode("utf-8", "replace").split("\0") if entry]
        return [(sha, message.strip("\n")) for sha, _, message in entries]

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `old` is `new`, or can be reached from it."""
        return self.ask("merge-base", "--is-ancestor", old, new, ok=(0, 1)).code == 0

    # new objects, and what refs point at; no index and no work tree is touched

    def commit_file(self, base: str | None, path: str, text: str, message: str, *, when: float) -> str:
        """The commit on top of `base` (None: on nothing) with the text of one file replaced. Same inputs, same sha."""
        try:
            blob = self.ask("hash-object", "-w", "--stdin", stdin=text.encode()).text
        except UnicodeEncodeError as error:
            raise GitError(f"{path} would not be UTF-8: take out the broken character at {error.start}") from None
        return self.commit_tree(self._put(base, path, blob), [base] if base else [], message, when=when)

    def _put(self, base: str | None, path: str, blob: str) -> str:
        """The id of the tree of `base` with one entry replaced: each folder on the way is written anew, deepest first."""
        *folders, name = path.split("/")
        places = ["/".join(folders[:depth]) for depth in range(len(folders) + 1)]
        trees = self.objects([f"{base}:{place}" for place in places]) if base else [None] * len(places)
        mode, sha = b"100644", blob
        for tree, key in zip(reversed(trees), [name, *reversed(folders)], strict=True):
            entries = _entries(tree, len(blob) // 2) | {key.encode(): (mode, sha)}
            mode, sha = b"40000", self.ask("mktree", "-z", "--missing", stdin=_listing(entries)).text
        return sha

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, *, when: float) -> str:
        """A commit of that tree. Same inputs, same sha."""
        date = f"@{int(when)} +0000"
        chain = [word for parent in parents for word in ("-p", parent)]
        text = message.replace("\0", "").encode("utf-8", "replace")
        env = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        return self.ask("commit-tree", tree, *chain, "-F", "-", stdin=text, env=env).text

    def merge_tree(self, ours: str, theirs: str) -> str | None:
        """The tree of merging two commits; None when they conflict."""
        done = self.ask("merge-tree", "--write-tree", "--no-messages", "--allow-unrelated-histories", ours, theirs, ok=(0, 1))
        return done.text if done.code == 0 else None

    def update_ref(self, ref: str, new: str, old: str | None) -> bool:
        """Compare and swap: point `ref` at `new` if it is at `old` (None: if it is not there). False when it was not."""
        try:
            self.ask("update-ref", "--no-deref", ref, new, old or "")
        except GitError:
            if self.resolve(ref) != old:
                return False
            raise
        return True

    def set_ref(self, ref: str, new: str) -> None:
        """Point `ref` at `new`, wherever it was."""
        self.ask("update-ref", "--no-deref", ref, new)

    def delete_ref(self, ref: str) -> None:
        """Take `ref` away; one that is gone is fine."""
        self.ask("update-ref", "--no-deref", "-d", ref)

    # between two repositories on this machine; a refspec is `from:to`, with a + in front to force

    def fetch(self, source: Path, *refspecs: str) -> None:
        """Bring refs and their objects from `source` here."""
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
        self.ask("fetch", *quiet, "--", str(source.resolve()), *refspecs)

    def push(self, target: Path, *refspecs: str) -> bool:
        """Bring refs and their objects from here to `target`. False when a ref there holds what we do not have."""
        done = self.ask("push", "--quiet", "--no-verify", "--", str(target.resolve()), *refspecs, ok=(0, 1))
        if done.code and not re.search(r"non-fast-forward|fetch first|stale info", done.err):
            raise _explain(self.path, "push", done.err)
        return done.code == 0

    def tidy(self) -> None:
        """Put loose objects into a pack (each commit leaves a handful of small files). Nothing is thrown away."""
        self.ask("repack", "-d", "-l", "-q")

    # a person's checkout

    def git_dir(self) -> Path:
        """The .git folder of this checkout (its own one, for a linked work tree)."""
        return Path(self.ask("rev-parse", "--absolute-git-dir").text)

    def head(self) -> str | None:
        """The commit that is checked out; None before the first commit."""
        return self.resolve("HEAD")

    def current_branch(self) -> str | None:
        """The short name of the branch that is checked out; None when HEAD is detached."""
        done = self.ask("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1))
        return done.text if done.code == 0 else None

    def changes(self) -> list[str]:
        """Paths of tracked files that differ from HEAD, in the index or the work tree."""
        out = self.ask("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=none").out
        return [entry[3:] for entry in out.decode("utf-8", "replace").split("\0") if entry]

    def is_dirty(self) -> bool:
        """Whether a tracked file has changes that are not committed."""
        return bool(self.changes())

    def fast_forward(self, sha: str) -> bool:
        """Move the checked-out branch and its files on to `sha`. False when that would need a merge or overwrite changes."""
        done = self.ask("merge", "--ff-only", "--quiet", sha, ok=(0, 1, 2, 128))
        if done.code and not re.search(r"Not possible to fast-forward|would be overwritten|not uptodate", done.err):
            raise _explain(self.path, "merge", done.err)
        return done.code == 0


_KIND = {b"40000": b"tree", b"160000": b"commit"}


def _object(pipe: io.BytesIO) -> tuple[str, bytes] | None:
    """The next answer of `git cat-file --batch`: `<sha> <kind> <size>`, the content, a line end; or `<name> missing`."""
    words = pipe.readline().split()
    if words[-1:] == [b"missing"]:
        return None
    data = pipe.read(int(words[2]))
    pipe.read(1)
    return words[1].decode(), data


def _entries(tree: tuple[str, bytes] | None, width: int) -> dict[bytes, tuple[bytes, str]]:
    """name -> (mode, sha) of a raw tree: `<mode> <name> NUL <sha of width bytes>`, again and again."""
    entries: dict[bytes, tuple[bytes, str]] = {}
    rest = tree[1] if tree is not None and tree[0] == "tree" else b""
    while rest:
        head, _, rest = rest.partition(b"\0")
        mode, _, name = head.partition(b" ")
        entries[name] = (mode, rest[:width].hex())
        rest = rest[width:]
    return entries


def _listing(entries: dict[bytes, tuple[bytes, str]]) -> bytes:
    """What `git mktree -z` reads."""
    return b"".join(b"%s %s %s\t%s\0" % (m, _KIND.get(m, b"blob"), sha.encode(), name) for name, (m, sha) in entries.items())
