"""Before a campaign and after it: every mistake is told before anything is changed, and commits go both ways without force.

Real git in temporary folders. A read-only or small disk is a mount made by bubblewrap, and skipped where that cannot run.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot import git, installed
from bot.__main__ import main
from bot.campaign import begin
from bot.preflight import plan
from bot.screen import Screen
from bot.workspace import Relation, Told, find
from runners.sandbox import bwrap, kind
from tests.laptop import PROGRAM, SOURCE, autoresearch, commit, copied, environment, machine, project

BOXED = pytest.mark.skipif(kind() != "bubblewrap", reason="needs bubblewrap to make a small or read-only disk")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("pristine") / "project")


@pytest.fixture
def checkout(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that is fit for a campaign, and where we are."""
    folder = copied(pristine, tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a checkout with its content, .git included but for the index, which git refreshes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "index"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused(folder: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...] = ("run", "2"), **others: Any) -> str:
    """Ask for a campaign that must not begin; what is said of it. Holds that nothing was changed."""
    before = everything(folder)
    assert main(list(asked), machine(folder.parent, **others)) == 1
    said = capsys.readouterr().err
    assert said.startswith("autoresearch: ") and "Traceback" not in said
    assert everything(folder) == before
    return said


# mistakes, each with a word of what is wrong and one of what to do


def detach(folder: Path) -> None:
    git.Repo(folder).ask("checkout", "-q", "--detach")


def remove(folder: Path) -> None:
    git.Repo(folder).ask("rm", "-q", "program.md")
    git.Repo(folder).ask("commit", "-q", "-m", "without")


def uncommit(folder: Path) -> None:
    remove(folder)
    (folder / "program.md").write_text(PROGRAM)


def untrain(folder: Path) -> None:
    git.Repo(folder).ask("rm", "-q", "-r", "trainer")
    git.Repo(folder).ask("commit", "-q", "-m", "without")


def garble(folder: Path) -> None:
    (folder / "program.md").write_bytes(b"---\ncorpus: \xff\xfe\n---\n")
    commit(folder)


MISTAKES: list[tuple[Callable[[Path], object], str, str]] = [
    (detach, "HEAD is detached", "git switch -c"),
    (lambda f: (f / "trainer/train.py").write_text("x = 1\n"), "not committed (trainer/train.py)", "git stash"),
    (remove, "there is no program.md", "examples/cpu/program.md"),
    (uncommit, "program.md is there but not committed", "git add program.md"),
    (garble, "program.md at", "save it as UTF-8"),
    (untrain, "there is no trainer/train.py", "the file that a campaign works on"),
    (lambda f: commit(f, trainer__train_py="DEPTH = 2\ndef f(:\n"), "train.py does not parse, line 2", "Mend and commit"),
    (lambda f: commit(f, trainer__train_py="a = 'b\0c'\n"), "trainer/train.py", "Mend and commit"),
    (lambda f: commit(f, program_md="no front matter\n"), "program.md has a mistake", "line 1"),
]


@pytest.mark.parametrize(("spoil", "wrong", "remedy"), MISTAKES)
def test_a_mistake_in_the_checkout(
    spoil: Callable[[Path], object], wrong: str, remedy: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with checkout, program.md or train.py is said in one sentence with the remedy; nothing is changed."""
    spoil(checkout)
    said = refused(checkout, capsys)
    assert wrong in said and remedy in said


def test_all_mistakes_of_a_program_are_shown_at_once(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mistake of program.md comes with its line, also those of the flags of the command."""
    commit(checkout, program_md=PROGRAM.replace("austen", "austen\nbogus: 1").replace("sandbox: none", "sandbox: maybe"))
    said = refused(checkout, capsys, ("run", "2", "--target", "-1"))
    assert "3 mistakes" in said and "line 3: " in said and "line 7: sandbox is maybe" in said and "--target is " in said


def test_not_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside of any checkout every command says so."""
    monkeypatch.chdir(tmp_path)
    for asked in ("run", "status", "log", "pr", "stop", "results", "page"):
        assert main([asked], machine(tmp_path)) == 1
        assert "is not in a git checkout" in capsys.readouterr().err


def test_no_commit_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout without a commit has nothing to begin from."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    git.Repo(Path.cwd()).ask("init", "-q")
    assert "has no commit yet" in refused(Path.cwd(), capsys)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"torch": lambda: "torch is missing: pip install"}, "torch is missing: pip install"),
        ({"sandbox": lambda: "no bwrap: apt install"}, "no bwrap: apt install. Or set `sandbox: none`"),
        ({"prepare": lambda corpus, cache, tell: f"the corpus {corpus} is cut: delete it"}, "the corpus austen is cut"),
    ],
)
def test_a_machine_that_cannot_measure(
    others: dict[str, Any], said: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing torch, a missing sandbox that is required, or a corpus that is not fit is told before anything begins."""
    commit(checkout, program_md=PROGRAM.replace("sandbox: none", "sandbox: required"))
    assert said in refused(checkout, capsys, **others)


def test_two_measurements_at_once_on_one_device(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than one measurement at a time is refused where they would share one device, before anything begins."""
    commit(checkout, program_md=PROGRAM.replace("sandbox: none", "sandbox: none\nparallel: 2"))
    assert "Set `parallel: 1`" in refused(checkout, capsys)


def test_more_experiments_than_the_program_allows(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cap of program.md is told with its number."""
    assert "at most 9 experiments" in refused(checkout, capsys, ("run", "10"))


def test_flags_belong_to_a_new_campaign(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target without a number of experiments is not taken for one of the campaign under way."""
    assert "give the number of experiments too" in refused(checkout, capsys, ("run", "--target", "2"))


@BOXED
def test_a_read_only_folder(checkout: Path, tmp_path: Path) -> None:
    """On a disk that cannot be written a campaign does not begin, and says why."""
    argv = [str(bwrap()), "--dev-bind", "/", "/", "--ro-bind", str(checkout), str(checkout), "--chdir", str(checkout)]
    more = environment(AUTORESEARCH_CACHE=str(tmp_path / "cache"))
    done = subprocess.run([*argv, "--", *autoresearch("run", "1")], capture_output=True, text=True, env=more, check=False)
    assert done.returncode == 1 and "cannot be written: change its rights" in done.stderr, done.stderr


@BOXED
def test_a_full_disk(checkout: Path, tmp_path: Path) -> None:
    """A disk that is nearly full stops a campaign before it begins. One that fills up in the middle ends it with a sentence, and
    with room again `run` goes on to N."""
    small = tmp_path / "small"
    small.mkdir()
    run, go_on = " ".join(autoresearch("run", "3")), " ".join(autoresearch("run"))
    script = f"""cp -r {checkout} {small}/p && cd {small}/p || exit 9
    head -c 60000000 /dev/zero > ../room; {run}; echo "first $?" >&2; rm ../room
    FILL={small}/filler {run}; echo "second $?" >&2; rm {small}/filler
    {go_on}; echo "third $?" >&2"""
    argv = [str(bwrap()), "--dev-bind", "/", "/", "--size", str(100 * 2**20), "--tmpfs", str(small), "--", "bash", "-c", script]
    more = environment(AUTORESEARCH_CACHE=str(tmp_path / "cache"))
    done = subprocess.run(argv, capture_output=True, text=True, env=more, check=False)
    first, _, rest = done.stderr.partition("first 1\n")
    second, _, third = rest.partition("second 1\n")
    assert "MB left" in first and "free some" in first, done.stderr
    assert "full" in second or "no space is left" in second, done.stderr
    assert third == "third 0\n" and "3 of 3 = " in done.stdout and "Traceback" not in done.stderr, done.stderr + done.stdout


# what must simply work


def test_untracked_files_and_no_identity_are_fine(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A campaign runs beside untracked files, for somebody whose git has no name, and never touches those files."""
    (checkout / "notes.txt").write_text("mine\n")
    assert main(["run", "1"], machine(checkout.parent)) == 0
    assert (checkout / "notes.txt").read_text() == "mine\n"
    made = git.Repo(checkout).ask("log", "-1", "--format=%an", find(checkout).forge("main").pull(1).head)
    assert made.text == git.NAME


def test_a_corpus_in_the_checkout(checkout: Path) -> None:
    """A corpus that is a folder of the checkout is handed on as an absolute path: measurements run elsewhere."""
    commit(checkout, program_md=PROGRAM.replace("austen", "texts"), texts__a_md="text\n")
    asked: list[str] = []
    ours = machine(checkout.parent, prepare=lambda corpus, cache, tell: asked.append(corpus))
    wanted = plan(find(checkout), ours, 1, {}, lambda stage, done: None)
    assert asked == [str(checkout / "texts")] == [wanted.program.settings.corpus] == [wanted.overrides["corpus"]]


def test_what_prepares_data_is_heard(tmp_path: Path) -> None:
    """The reason of the program that prepares a corpus comes through, and its progress too."""
    heard: list[tuple[str, float]] = []
    assert "the corpus bogus cannot be prepared: no corpus 'bogus'" in str(installed.prepare("bogus", tmp_path, lambda *_: None))
    assert installed.prepare("austen", tmp_path, lambda *said: heard.append(said)) is None
    assert heard and all(0 <= done <= 1 for _, done in heard)


# two clones of one project


def handed_over(folder: Path) -> str | None:
    ws = find(folder)
    ws.hand_over("main")
    return ws.repo.resolve("refs/heads/main")


def winner(folder: Path) -> str:
    """A commit that only the forge has."""
    repo = find(folder).repo
    sha = repo.commit_file(repo.resolve("refs/heads/main"), "trainer/train.py", SOURCE + "X = 1\n", "a winner", when=2e9)
    repo.set_ref("refs/heads/main", sha)
    return sha


def test_new_commits_go_to_the_forge(checkout: Path) -> None:
    """The first time the branch is made there, later it is fast-forwarded."""
    ws = find(checkout)
    assert ws.relation("main") is Relation.NEW and handed_over(checkout) == ws.checkout.head()
    assert ws.relation("main") is Relation.SAME
    new = commit(checkout, notes_md="hello\n")
    assert ws.relation("main") is Relation.AHEAD and handed_over(checkout) == new


def test_winners_come_home(checkout: Path) -> None:
    """What only the forge has is fast-forwarded to in a clean checkout before the next campaign begins."""
    handed_over(checkout)
    sha = winner(checkout)
    assert find(checkout).relation("main") is Relation.BEHIND
    assert handed_over(checkout) == sha == git.Repo(checkout).head()
    assert (checkout / "trainer/train.py").read_text().endswith("X = 1\n")


def test_winners_wait_for_a_dirty_checkout(checkout: Path) -> None:
    """A checkout with changes, or on another branch, is left alone; the command to do it by hand does it."""
    handed_over(checkout)
    sha = winner(checkout)
    (checkout / "program.md").write_text(PROGRAM + "More.\n")
    command = find(checkout).bring_home("main")
    assert command and git.Repo(checkout).head() != sha and (checkout / "program.md").read_text().endswith("More.\n")
    named = command.replace("git stash ", "git -c user.name=a -c user.email=b@c stash ")  # a stash is a commit
    subprocess.run(named, shell=True, cwd=checkout, check=True, capture_output=True)
    assert git.Repo(checkout).head() == sha and (checkout / "program.md").read_text().endswith("More.\n")


def test_winners_wait_for_their_branch(checkout: Path) -> None:
    """A person who went on to another branch stays there, and is told how to get the winners."""
    handed_over(checkout)
    sha = winner(checkout)
    git.Repo(checkout).ask("switch", "-q", "-c", "mine")
    command = find(checkout).bring_home("main")
    assert command and git.Repo(checkout).current_branch() == "mine"
    subprocess.run(command, shell=True, cwd=checkout, check=True, capture_output=True)
    assert git.Repo(checkout).head() == sha


def test_both_have_grown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When checkout and forge have both grown nothing is forced: both ways out are told, and each of them works."""
    handed_over(checkout)
    winner(checkout)
    commit(checkout, notes_md="hello\n")
    said = refused(checkout, capsys)
    rebase, force = (part for part in said.split("`") if part.startswith("git "))
    other = copied(checkout, checkout.parent / "other")
    for folder, command in ((checkout, rebase), (other, force.replace(str(checkout), str(other)))):
        named = command.replace("git ", "git -c user.name=a -c user.email=b@c ", 1)
        subprocess.run(named, shell=True, cwd=folder, check=True, capture_output=True)
        handed_over(folder)
        assert find(folder).relation("main") is Relation.SAME
    assert (checkout / "trainer/train.py").read_text() != (other / "trainer/train.py").read_text()


def test_a_linked_work_tree_has_the_same_store(checkout: Path) -> None:
    """Campaigns belong to the repository, from whichever of its work trees they are begun."""
    git.Repo(checkout).ask("worktree", "add", "-q", str(checkout.parent / "linked"), "-b", "other")
    assert find(checkout.parent / "linked").store == find(checkout).store
    with find(checkout).driving(), pytest.raises(Told, match="is at work"), find(checkout.parent / "linked").driving():
        pass


def test_a_shallow_clone_will_do(checkout: Path) -> None:
    """A campaign can begin from a clone without its history."""
    commit(checkout, notes_md="hello\n")
    shallow = checkout.parent / "shallow"
    git.Repo(checkout).ask("clone", "-q", "--depth", "1", checkout.as_uri(), str(shallow))
    assert handed_over(shallow) == git.Repo(shallow).head()
    commit(shallow, notes_md="hello again\n")
    assert handed_over(shallow) == git.Repo(shallow).head()


def test_a_branch_of_any_name(checkout: Path) -> None:
    """Winners land on the branch that is checked out, whatever its name, and no other one is touched."""
    git.Repo(checkout).ask("switch", "-q", "-c", "ideas/first")
    c = begin(find(checkout), machine(checkout.parent), Screen(io.StringIO()), 1, {})
    assert c.ended and c.started.branch == "ideas/first"
    assert not find(checkout).repo.refs("refs/heads/main")
