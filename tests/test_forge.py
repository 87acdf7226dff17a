"""The forge contract, held by the local forge (real git, one file), by its double in memory and by the one on GitHub (on a
double of GitHub); and, for the local one, kills at every step and damage to its file. What the loop makes of the answers is
tested elsewhere."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot import git
from bot.forge import Check, ForgeError, Landed, NotMerged, PullState
from bot.forge.limits import BODY, TITLE
from bot.forge.local import LocalForge
from bot.forge.memory import MemoryForge, MemoryRepo
from tests.github_place import Clone, Seen, forge_of, started

MAIN, TRAIN = "refs/heads/main", "trainer/train.py"
BRANCH = "autoresearch/1/1"
FILES = {TRAIN: "A = 1\n", "README.md": "hello\n", "evaluator/gate.py": "G = 1\n"}


@dataclass(frozen=True)
class Place:
    """A repository with a default branch, one candidate on a pushed branch, and its forge."""

    repo: Any  # git.Repo or MemoryRepo: the same verbs
    forge: Any  # LocalForge or MemoryForge: the contract and what a person may do
    base: str
    head: str

    def open(self, **changes: Any) -> int:
        return self.forge.open_pull(**{"branch": BRANCH, "title": "A to 2", "body": "why", "labels": ("a",)} | changes)

    def merge(self, number: int, **changes: Any) -> Landed | NotMerged:
        asked = {"head": self.head, "onto": self.base, "guard": self.repo.guard_of(self.head), "message": "A to 2"}
        return self.forge.merge(number, **asked | changes)

    def person_pushes(self, path: str, text: str) -> str:
        sha = self.repo.commit_file(self.forge.tip(), path, text, "by hand", when=5)
        self.repo.set_ref(MAIN, sha)
        return sha


def settle(repo: Any, forge: Any) -> Place:
    base = None
    for path, text in FILES.items():
        base = repo.commit_file(base, path, text, f"add {path}", when=1)
    assert base is not None
    repo.set_ref(MAIN, base)
    head = repo.commit_file(base, TRAIN, "A = 2\n", "A to 2", when=2)
    forge.push(BRANCH, head)
    return Place(repo, forge, base, head)


@pytest.fixture(scope="session")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Made once and copied, because twenty git processes for each test would be most of its time."""
    folder = tmp_path_factory.mktemp("settled")
    repo = git.init_bare(folder / "forge.git", "main")
    return settle(repo, LocalForge(repo, folder / "forge.json", "main"))


def at(tmp: Path, place: Place) -> Place:
    """The same place, in another folder."""
    repo = git.Repo(tmp / "forge.git")
    return Place(repo, LocalForge(repo, tmp / "forge.json", "main"), place.base, place.head)


@pytest.fixture
def local(settled: Place, tmp_path: Path) -> Place:
    shutil.copytree(settled.repo.path.parent, tmp_path, dirs_exist_ok=True)
    return at(tmp_path, settled)


@pytest.fixture
def memory() -> Place:
    repo = MemoryRepo()
    return settle(repo, MemoryForge(repo, "main"))


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Place]:
    with started(tmp_path, files={"CODEOWNERS": "* @alice\n"}) as double:
        forge = forge_of(double, tmp_path)
        yield settle(Clone(double, forge), Seen(double, forge))
        assert double.violations == [] and double.unknown == []


@pytest.fixture(params=["local", "memory", "github"])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.getfixturevalue(request.param)
    return made


def check(head: str, title: str = "1.0 better") -> Check:
    return Check(head=head, conclusion="success", title=title, summary="s", text="t")


def test_a_pull_request_is_what_was_asked_for(place: Place) -> None:
    """An opened pull request shows its branch, head, texts and labels, once however often it is opened."""
    number = place.open()
    assert place.open(title="another") == number
    pull = place.forge.pull(number)
    assert (pull.branch, pull.head, pull.title, pull.body) == (BRANCH, place.head, "A to 2", "why")
    assert (pull.state, pull.labels, pull.comments, pull.merged, pull.closed_by) == (PullState.OPEN, ("a",), (), None, None)
    assert place.forge.pulls() == [pull]


def test_each_branch_has_its_own_number(place: Place) -> None:
    """Numbers count up and are never used again, also after a pull request is closed."""
    first = place.open()
    place.forge.close_pull(first, comment="worse", labels=())
    other = place.repo.commit_file(place.base, TRAIN, "A = 3\n", "A to 3", when=3)
    place.forge.push("autoresearch/1/2", other)
    assert place.open(branch="autoresearch/1/2") == first + 1
    place.forge.push(BRANCH, place.head)
    assert place.open() == first
    assert place.forge.pull(first).state is PullState.CLOSED


def test_a_pull_request_follows_its_branch(place: Place) -> None:
    """After a push the head is the new commit, and the checks are those of the new commit."""
    number = place.open()
    place.forge.post_check(check(place.head))
    newer = place.repo.commit_file(place.base, TRAIN, "A = 4\n", "A to 4", when=3)
    place.forge.push(BRANCH, newer)
    assert (place.forge.pull(number).head, place.forge.pull(number).checks) == (newer, ())


def test_what_cannot_be_opened_or_found_is_said(place: Place) -> None:
    """No branch, nothing new on it, a branch of a person, a commit or number that is not there: each is a ForgeError."""
    place.forge.push("autoresearch/1/9", place.base)
    asked: list[Callable[[], object]] = [
        lambda: place.open(branch="autoresearch/1/8"),
        lambda: place.open(branch="autoresearch/1/9"),
        lambda: place.forge.push("main", place.head),
        lambda: place.forge.push("autoresearch/1/7", "1" * 40),
        lambda: place.forge.post_check(check("1" * 40)),
        lambda: place.forge.pull(7),
        lambda: place.forge.edit_pull(7, title="t", body="b", labels=()),
        lambda: place.forge.close_pull(7, comment="", labels=()),
        lambda: place.forge.close_as(7, "ann"),
        lambda: place.merge(7),
    ]
    for verb in asked:
        with pytest.raises(ForgeError):
            verb()
    assert place.forge.pulls() == []
    assert place.forge.tip() == place.base


def test_editing_replaces_texts_and_labels(place: Place) -> None:
    """Title, body and labels become these, and stay so when it is done again."""
    number = place.open()
    for _ in range(2):
        place.forge.edit_pull(number, title="new", body="text", labels=("x", "y", "x"))
    pull = place.forge.pull(number)
    assert (pull.title, pull.body, pull.labels) == ("new", "text", ("x", "y"))


def test_the_newest_check_is_the_one_posted_last(place: Place) -> None:
    """Posting the same twice adds nothing; posting another makes that the newest; going back to the first too."""
    number = place.open()
    first, second = check(place.head), check(place.head, "again")
    for posted in (first, first, second, first):
        place.forge.post_check(posted)
    assert place.forge.pull(number).checks == (first, second, first)


def test_long_texts_are_cut_as_a_forge_would(place: Place) -> None:
    """A title is one line of 256 characters, a body 65,536, and what was cut says where the whole is."""
    number = place.open(title="a\nb " + "x" * 300, body="ü" * (BODY + 1))
    place.forge.close_pull(number, comment="c" * (BODY - 99), labels=())
    place.forge.post_check(check(place.head, "t" * 999))
    place.forge.say(3, "status", "s" * (BODY + 9))
    pull = place.forge.pull(number)
    assert (len(pull.title), pull.title[:4], pull.title[-1]) == (TITLE, "a b ", "…")
    assert len(pull.body) == BODY
    assert pull.body.endswith("(`autoresearch log`)._\n")
    assert pull.comments == ("c" * (BODY - 99),)
    assert len(pull.checks[0].title) == TITLE
    assert BODY - 99 < len(place.forge.said(3)["status"]) <= BODY  # a hidden tag takes some room


def test_a_merge_lands_what_was_judged(place: Place) -> None:
    """The default branch gets one commit on top of it with the candidate's tree, and the pull request says which."""
    number = place.open()
    landed = place.merge(number, message="A to 2\n\nBecause.")
    assert isinstance(landed, Landed)
    assert place.forge.tip() == landed.sha
    assert place.repo.tree_of(landed.sha) == place.repo.tree_of(place.head)
    ((sha, message),) = place.repo.log(MAIN, limit=9, since=place.base)
    if isinstance(place.forge, Seen):
        assert (sha, message) == (landed.sha, "A to 2\n\nBecause.")
    else:
        assert (sha, message) == (landed.sha, f"A to 2\n\nBecause.\n\nPull: {number}\nHead: {place.head}")
        assert place.repo.time_of(sha) == place.repo.time_of(place.head)  # so that done again it is the same commit
    pull = place.forge.pull(number)
    assert (pull.state, pull.merged, pull.head) == (PullState.MERGED, landed.sha, place.head)


def test_a_merge_done_again_answers_the_same(place: Place) -> None:
    """Also when the message is another one, somebody pushed since, or the branch is gone; at another head it is refused."""
    number = place.open()
    landed = place.merge(number)
    assert place.merge(number, message="other words") == landed
    place.person_pushes("README.md", "later\n")
    place.repo.delete_ref(f"refs/heads/{BRANCH}")
    assert place.merge(number) == landed
    refused = place.merge(number, head=place.base)
    assert isinstance(refused, NotMerged)
    assert refused.why == "head"


def test_a_merge_on_top_of_a_harmless_push_keeps_both(place: Place) -> None:
    """When a person changed what no measurement depends on, the merge onto that commit holds both changes."""
    number = place.open()
    tip = place.person_pushes("README.md", "by a person\n")
    refused = place.merge(number)
    assert isinstance(refused, NotMerged)
    assert refused.why == "moved"
    landed = place.merge(number, onto=tip)
    assert isinstance(landed, Landed)
    assert (place.repo.read(landed.sha, "README.md"), place.repo.read(landed.sha, TRAIN)) == ("by a person\n", "A = 2\n")


def _other_head(place: Place) -> dict[str, str]:
    place.forge.push(BRANCH, place.repo.commit_file(place.base, TRAIN, "A = 5\n", "sneaky", when=3))
    return {}


def _deleted(place: Place) -> dict[str, str]:
    place.repo.delete_ref(f"refs/heads/{BRANCH}")
    return {}


def _pushed(place: Place) -> dict[str, str]:
    place.person_pushes("README.md", "x\n")
    return {}


def _closed(place: Place) -> dict[str, str]:
    place.forge.close_as(1, "ann")
    return {}


REFUSED: dict[str, tuple[str, Callable[[Place], dict[str, str]]]] = {
    "the branch moved": ("head", _other_head),
    "the branch was deleted": ("closed", _deleted),
    "the default branch moved": ("moved", _pushed),
    "the judge changed": ("guard", lambda place: {"onto": place.person_pushes("evaluator/gate.py", "G = 2\n")}),
    "a file was added to the judge": ("guard", lambda place: {"onto": place.person_pushes("evaluator/new.py", "N = 1\n")}),
    "another tree was measured": ("guard", lambda place: {"guard": place.repo.guard_of(place.base)}),
    "the same line changed": ("conflict", lambda place: {"onto": place.person_pushes(TRAIN, "A = 9\n")}),
    "a person closed it": ("closed", _closed),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_merge_is_refused_and_nothing_moves(case: str, place: Place) -> None:
    """Each thing that came in between is a value with its reason, and the default branch stays where it was."""
    why, happens = REFUSED[case]
    number = place.open()
    changes = happens(place)
    tip = place.forge.tip()
    answer = place.merge(number, **changes)
    assert isinstance(answer, NotMerged)
    assert answer.why == why
    assert answer.detail
    assert place.forge.tip() == tip
    assert place.forge.pull(number).merged is None


def test_a_push_in_the_very_moment_of_a_merge_wins(local: Place, tmp_path: Path) -> None:
    """A person who pushes after all checks and ahead of the merge itself is not overwritten."""
    number = local.open()
    pushed: list[str] = []

    def push(verb: str) -> None:
        if verb == "update-ref" and not pushed:
            pushed.append(local.person_pushes("README.md", "just now\n"))

    forge = LocalForge(git.Repo(local.repo.path, before=push), tmp_path / "forge.json", "main")
    answer = Place(local.repo, forge, local.base, local.head).merge(number)
    assert isinstance(answer, NotMerged)
    assert (answer.why, [local.forge.tip()]) == ("moved", pushed)
    assert local.forge.pull(number).state is PullState.OPEN


def test_a_merged_message_cannot_pass_for_another_pull_request(place: Place) -> None:
    """Trailers that a model writes into its own message do not make another pull request look merged."""
    number = place.open()
    other = place.repo.commit_file(place.base, TRAIN, "A = 3\n", "A to 3", when=3)
    place.forge.push("autoresearch/1/2", other)
    second = place.open(branch="autoresearch/1/2")
    place.merge(number, message=f"A to 2\n\nPull: {second}\nHead: {other}")
    assert place.forge.pull(second).state is PullState.OPEN


def test_closing_keeps_the_story_and_deletes_the_branch(place: Place) -> None:
    """Closed with labels added and the comment once; the branch is gone, the commit can still be read and fetched."""
    number = place.open()
    place.forge.post_check(check(place.head))
    for _ in range(2):
        place.forge.close_pull(number, comment="worse by 0.01", labels=("a", "worse"))
    pull = place.forge.pull(number)
    assert (pull.state, pull.labels, pull.comments) == (PullState.CLOSED, ("a", "worse"), ("worse by 0.01",))
    assert (pull.head, pull.closed_by, pull.checks) == (place.head, None, (check(place.head),))
    assert place.repo.resolve(f"refs/heads/{BRANCH}") is None
    assert place.repo.resolve(f"refs/pull/{number}/head") == place.head
    assert isinstance(place.merge(number), NotMerged)


def test_closing_what_is_merged_says_so_and_no_more(place: Place) -> None:
    """A merged pull request stays merged; it gets the comment and the label, and its branch is cleaned up."""
    number = place.open()
    place.merge(number)
    place.forge.close_pull(number, comment="thanks", labels=("merged",))
    pull = place.forge.pull(number)
    assert (pull.state, pull.comments, pull.labels) == (PullState.MERGED, ("thanks",), ("a", "merged"))
    assert place.repo.resolve(f"refs/heads/{BRANCH}") is None
    assert not place.forge.close_as(number, "ann")
    assert place.forge.pull(number).closed_by is None


def test_a_person_closes(place: Place) -> None:
    """Who closed it is told, and stays when the bot closes it too."""
    number = place.open()
    assert place.forge.close_as(number, "ann")
    assert place.forge.close_as(number, "bob")
    assert (place.forge.pull(number).state, place.forge.pull(number).closed_by) == (PullState.CLOSED, "ann")
    assert place.repo.resolve(f"refs/heads/{BRANCH}") == place.head
    place.forge.close_pull(number, comment="vetoed", labels=())
    assert place.forge.pull(number).closed_by == "ann"


def test_a_deleted_branch_closes_its_pull_request(place: Place) -> None:
    """As on GitHub: somebody who deletes the branch has closed it, and it counts as a person's doing."""
    number = place.open()
    place.repo.delete_ref(f"refs/heads/{BRANCH}")
    pull = place.forge.pull(number)
    assert (pull.state, pull.head) == (PullState.CLOSED, place.head)
    assert pull.closed_by
    place.forge.close_pull(number, comment="vetoed", labels=())
    assert place.forge.pull(number).comments == ("vetoed",)


def test_saying_replaces_the_comment_of_that_tag(place: Place) -> None:
    """One comment for each tag on each issue, whatever is said how often."""
    for text in ("one", "two"):
        place.forge.say(3, "1", text)
    place.forge.say(3, "2", "other")
    assert place.forge.said(3) == {"1": "two", "2": "other"}
    assert place.forge.said(4) == {}


VERBS: dict[str, Callable[[Place], object]] = {
    "open": lambda place: place.open(branch="autoresearch/1/2"),
    "push": lambda place: place.forge.push(BRANCH, place.base),
    "edit": lambda place: place.forge.edit_pull(1, title="new", body="text", labels=("x",)),
    "check": lambda place: place.forge.post_check(check(place.head)),
    "merge": lambda place: place.merge(1),
    "merge with other words": lambda place: place.merge(1, message=f"at {os.getpid()}"),
    "close": lambda place: place.forge.close_pull(1, comment="worse", labels=("worse",)),
    "close as a person": lambda place: place.forge.close_as(1, "ann"),
    "say": lambda place: place.forge.say(3, "1", "text"),
}


def story(tmp: Path, place: Place) -> tuple[object, ...]:
    """All that can be seen of a local forge: refs, the trees and first parents of the default branch, the file."""
    page = json.loads((tmp / "forge.json").read_text("utf-8"))
    refs = {ref: sha for ref, sha in place.repo.refs("refs").items() if ref != MAIN}
    landed = [place.repo.tree_of(sha) for sha, _ in place.repo.log(MAIN, limit=9)]
    for pull in page["pulls"].values():
        pull["merged"] = pull["merged"] and place.repo.tree_of(pull["merged"])
    return refs, landed, page


def killed_at(step: int, tmp: Path, place: Place, verb: Callable[[Place], object]) -> bool:
    """Do the verb in another process that dies ahead of its step number `step`. False when it got to its end."""
    pid = os.fork()
    if pid == 0:
        left = itertools.count(-step)

        def die(_what: str) -> None:
            if next(left) == 0:
                os._exit(9)

        repo = git.Repo(tmp / "forge.git", before=die)
        verb(Place(repo, LocalForge(repo, tmp / "forge.json", "main", before=die), place.base, place.head))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


@pytest.mark.parametrize("name", VERBS)
def test_a_kill_at_any_step_is_healed_by_doing_it_again(name: str, settled: Place, tmp_path: Path) -> None:
    """Killed ahead of each git process and each step of writing the file in turn, the verb done again gives what an
    undisturbed one gives."""
    undisturbed, template = tmp_path / "undisturbed", tmp_path / "template"
    shutil.copytree(settled.repo.path.parent, template)
    first = at(template, settled)
    first.forge.push("autoresearch/1/2", first.repo.commit_file(first.base, TRAIN, "A = 3\n", "A to 3", when=3))
    first.open()
    verb = VERBS[name]
    shutil.copytree(template, undisturbed)
    wanted_answer = verb(at(undisturbed, first))
    wanted = story(undisturbed, at(undisturbed, first))
    for step in itertools.count():
        again = tmp_path / f"killed-{step}"
        shutil.copytree(template, again)
        if not killed_at(step, again, first, verb):
            break
        place = at(again, first)
        place.forge.pulls()
        answer = verb(place)
        assert type(answer) is type(wanted_answer)
        assert story(again, place) == wanted, f"killed ahead of step {step}"
        assert verb(place) == answer
    assert step >= 2


def test_a_merge_that_a_kill_left_unwritten_is_seen_by_others(local: Place, tmp_path: Path) -> None:
    """Between the branch and the file, a reader already sees it merged, and a person cannot close it any more."""
    number = local.open()
    book = (tmp_path / "forge.json").read_text("utf-8")
    landed = local.merge(number)
    (tmp_path / "forge.json").write_text(book, "utf-8")
    assert local.forge.pull(number).merged == landed.sha
    assert not local.forge.close_as(number, "ann")
    local.forge.close_pull(number, comment="c", labels=())
    assert local.forge.pull(number).state is PullState.MERGED


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"version": 2, "pulls": {}}', '{"version": 1, "pulls": {"1": {"title": 3}}}', "\udcff"]
)
def test_a_damaged_file_is_named_and_kept(damage: str, local: Place, tmp_path: Path) -> None:
    """Reading or writing says which file, what to do, and changes nothing; the version before the last change stands beside."""
    file = tmp_path / "forge.json"
    local.forge.say(3, "1", "before")
    before = file.read_text("utf-8")
    number = local.open()
    file.write_text(damage, "utf-8", "surrogateescape")
    for verb in (local.forge.pulls, lambda: local.forge.say(3, "1", "x"), lambda: local.forge.pull(number)):
        with pytest.raises(ForgeError, match=r"forge\.json, which holds .* is damaged .* forge\.json\.before beside it"):
            verb()
    assert file.read_text("utf-8", "surrogateescape") == damage
    (tmp_path / "forge.json.before").replace(file)
    assert file.read_text("utf-8") == before
    assert local.open() == number


def test_a_file_that_cannot_be_written_is_said(local: Place, tmp_path: Path) -> None:
    """A folder in the way, as a full or read-only disk, is a sentence; the refs stay as they were."""
    (tmp_path / "forge.json.new").mkdir()
    with pytest.raises(ForgeError, match=r"cannot write .*forge\.json: Is a directory"):
        local.open()


def test_two_processes_write_one_file(local: Place) -> None:
    """A loop and a person's command at once: nothing that either wrote is lost."""
    pids = []
    for tag in "ab":
        pids.append(os.fork())
        if pids[-1] == 0:
            for n in range(20):
                local.forge.say(n, tag, "text")
            os._exit(0)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
    assert [local.forge.said(n) for n in range(20)] == [{"a": "text", "b": "text"}] * 20


def test_only_our_refs_are_ever_written(local: Place) -> None:
    """Through the whole life of pull requests, a person's branches and tags stay; the default branch moves by the merge alone."""
    local.repo.set_ref("refs/heads/feature", local.head)
    subprocess.run(["git", "tag", "v1", local.base], cwd=local.repo.path, check=True)
    number = local.open()
    local.forge.post_check(check(local.head))
    assert local.forge.tip() == local.base
    landed = local.merge(number)
    local.forge.close_pull(number, comment="c", labels=())
    theirs = {"refs/heads/feature": local.head, "refs/tags/v1": local.base}
    assert local.repo.refs("refs") == {MAIN: landed.sha, f"refs/pull/{number}/head": local.head} | theirs


def test_a_title_in_any_script_survives(local: Place) -> None:
    """Text comes back as it was written, whatever the locale; half a character does not break the file."""
    local.open(title="größer ✓", body="漢\u2028\x00")
    local.forge.say(1, "t", "broken \ud800")
    assert (local.forge.pull(1).title, local.forge.pull(1).body) == ("größer ✓", "漢\u2028\x00")
    assert local.forge.said(1) == {"t": "broken ?"}
