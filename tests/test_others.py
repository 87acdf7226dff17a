"""Our client against GitHub as other people have rebuilt it (tests/contract/others.py), each asked what it does like GitHub.

Every call passes GitHub's own description on its way: a test here fails when the client sends what is not in it. Neither double
speaks git, so `Blind` stands in for our clone: what the platform itself says of a merge is then all that is tested.
"""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import github
import pytest

from bot.forge import CHECK, Check, Landed, NotMerged, PullState
from bot.forge.github import GitHubForge
from bot.forge.labels import COLOURS
from bot.forge.rest import Pace, Rest
from bot.forge.threads import Threads
from bot.remote import Busy, Remote
from tests.contract.others import OWNER, Missing, Place, emulate, myworld

BRANCH = "autoresearch/7.1/1"
GATE = "autoresearch/val_bpb"


class Blind:
    """A clone that sees only where branches are, and takes what would land for what was measured."""

    def __init__(self, place: Place) -> None:
        self.place, self.repo = place, self

    def fetch(self, *refspecs: str) -> None:
        """Nothing is kept here."""

    def resolve(self, ref: str) -> str:
        if re.fullmatch("[0-9a-f]{40}", ref):
            return ref
        branch = ref.removeprefix("refs/remotes/origin/")
        return str(self.place.ask("GET", f"/repos/{self.place.name}/git/ref/heads/{branch}")["object"]["sha"])

    def merge_tree(self, ours: str, theirs: str) -> str:
        return "tree"

    def guard_of(self, tree: str) -> str:
        return "guard"

    def delete(self, branch: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError):  # it is gone
            self.place.ask("DELETE", f"/repos/{self.place.name}/git/refs/heads/{branch}")


def forge_of(place: Place) -> GitHubForge:
    rest = Rest(api=place.url, token=place.token, name=place.name, sleep=lambda _: None, pace=Pace(requests=0.0, writes=0.0))
    return GitHubForge(threads=Threads(rest=rest, me=OWNER), remote=cast(Remote, Blind(place)), branch="main")


def commit(place: Place, branch: str, text: str) -> str:
    """A person's commit of train.py on a branch; its sha."""
    content = base64.b64encode(text.encode()).decode()
    path = f"/repos/{place.name}/contents/train.py"
    try:
        there = {"sha": place.ask("GET", f"{path}?ref={branch}")["sha"]}
    except urllib.error.HTTPError:
        there = {}
    made = place.ask("PUT", path, {"message": "by hand", "content": content, "branch": branch} | there)
    return str(made["commit"]["sha"])


def candidate(place: Place, forge: GitHubForge) -> str:
    """A branch of ours with one commit; its head."""
    place.ask("POST", f"/repos/{place.name}/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": forge.tip()})
    return commit(place, BRANCH, "lr = 2\n")


@pytest.fixture(scope="module")
def emulated() -> Iterator[Callable[[], Place]]:
    try:
        with emulate() as place:
            yield place
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[Mapping[str, Any]], Place]]:
    with myworld() as place:
        yield place


@pytest.fixture
def there(emulated: Callable[[], Place]) -> Iterator[Place]:
    """A repository with a README on `emulate`. What the client sent must have been in GitHub's description."""
    place = emulated()
    yield place
    assert place.checked.calls
    assert place.checked.violations == []


@pytest.fixture
def world(worlds: Callable[[Mapping[str, Any]], Place]) -> Iterator[Callable[..., Place]]:
    """Makes a repository on `myworld` with a candidate's branch. What the client sent must have been in GitHub's description."""
    made: list[Place] = []

    def make(**more: Any) -> Place:
        branches = {BRANCH: {"files": {"train.py": "lr = 2\n"}, "author": OWNER}}
        made.append(worlds({"files": {"train.py": "lr = 1\n"}, "branches": branches, "issues": [{"title": "faster"}], **more}))
        return made[-1]

    yield make
    for place in made:
        assert place.checked.calls
        assert place.checked.violations == []


def comments(place: Place, issue: int) -> list[str]:
    return [comment["body"] for comment in place.ask("GET", f"/repos/{place.name}/issues/{issue}/comments")]


def test_without_node_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without node skips these tests with the reason, and what would help."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match="needs node 20 or newer and npm"), emulate():
        pass


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_without_a_registry_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that cannot reach npm's registry skips these tests with the reason, and nothing half-made is left."""
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    with pytest.raises(Missing, match="is the registry reachable"), emulate(tmp_path / "cache"):
        pass
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_call_that_github_does_not_know_is_seen(worlds: Callable[[Mapping[str, Any]], Place]) -> None:
    """What stands between client and double tells each wrong call: without this, the fixtures below would prove nothing."""
    place = worlds({"issues": [{"title": "faster"}]})
    rest = forge_of(place).rest
    rest.write("POST", f"{rest.repo}/issues/1/comments", {"body": "x", "text": "y"})
    assert place.checked.violations == ["issues/create-comment: Additional properties are not allowed ('text' was unexpected)"]


def test_pygithub_works_on_emulate(there: Place) -> None:
    """The double starts and keeps what PyGithub itself writes: without this, the tests below would prove nothing."""
    hub = github.Github(auth=github.Auth.Token(there.token), base_url=there.url, retry=None, seconds_between_writes=0)
    repo = hub.get_repo(there.name)
    issue = repo.create_issue("faster", body="please")
    issue.create_comment("one\r\ntwo")
    repo.create_label("fast", "0e8a16")
    issue.add_to_labels("fast")
    head = repo.get_branch(repo.default_branch).commit
    run = repo.create_check_run("gate", head.sha, status="completed", conclusion="success", output={"title": "t", "summary": "s"})
    assert [comment.body for comment in issue.get_comments()] == ["one\r\ntwo"]
    assert [label.name for label in repo.get_issue(issue.number).labels] == ["fast"]
    assert [found.id for found in head.get_check_runs()] == [run.id]
    hub.close()


def test_a_comment_stands_there_once_and_is_edited(there: Place) -> None:
    """Saying it again changes nothing, saying something else edits it, and a client that has forgotten finds it again."""
    number = there.ask("POST", f"/repos/{there.name}/issues", {"title": "faster"})["number"]
    there.ask("POST", f"/repos/{there.name}/issues/{number}/comments", {"body": "a person"})
    forge = forge_of(there)
    for text in ("1 of 50", "1 of 50", "2 of 50"):
        forge.say(number, "status", text)
    forge_of(there).say(number, "status", "3 of 50")
    forge_of(there).say(number, "status", "3 of 50")
    person, ours = comments(there, number)
    assert person == "a person"
    assert ours.endswith("3 of 50")


def test_labels_come_with_their_colours(there: Place) -> None:
    """A label that is missing is made with its colour before it is used; one that is there is left alone."""
    there.ask("POST", f"/repos/{there.name}/labels", {"name": "autoresearch", "color": "ffffff"})
    wanted = ("autoresearch", "autoresearch: settled")
    for forge in (forge_of(there), forge_of(there)):
        assert forge.threads.known(wanted) == list(wanted)
    colours = {label["name"]: label["color"] for label in there.ask("GET", f"/repos/{there.name}/labels?per_page=100")}
    assert [colours[name] for name in wanted] == ["ffffff", COLOURS["autoresearch: settled"]]


def test_a_check_is_posted_once(there: Place) -> None:
    """A check reaches its conclusion with title, summary, text and annotations; the same one again posts nothing."""
    forge = forge_of(there)
    head = candidate(there, forge)
    check = Check(head=head, conclusion="failure", title="1.9 (-1 %)", summary="s", text="log", lines=(("train.py", 1, 1),))
    for poster in (forge, forge, forge_of(there)):
        poster.post_check(check)
    runs = there.ask("GET", f"/repos/{there.name}/commits/{head}/check-runs")["check_runs"]
    assert [(run["name"], run["status"], run["conclusion"]) for run in runs] == [(CHECK, "completed", "failure")]
    assert (runs[0]["output"]["title"], runs[0]["output"]["annotations_count"]) == ("1.9 (-1 %)", 1)


def test_a_pull_request_that_is_there_is_found(there: Place) -> None:
    """One that an earlier run of ours opened is taken, not doubled; a branch without one has none."""
    candidate(there, forge_of(there))
    assert forge_of(there).pull_of(BRANCH) is None
    opened = there.ask("POST", f"/repos/{there.name}/pulls", {"title": "t", "head": BRANCH, "base": "main"})["number"]
    assert forge_of(there).open_pull(branch=BRANCH, title="t", body="b", labels=()) == opened
    assert len(there.ask("GET", f"/repos/{there.name}/pulls?state=all")) == 1


def test_a_pull_request_goes_its_way(world: Callable[..., Place]) -> None:
    """Opened once, edited, read back, closed with one comment and without its branch; doing it again changes nothing."""
    place = world(labels=["autoresearch", "autoresearch: worse"])
    forge = forge_of(place)
    number = forge.open_pull(branch=BRANCH, title="t", body="b", labels=())
    assert forge.open_pull(branch=BRANCH, title="t", body="b", labels=()) == number
    head = forge.remote.repo.resolve(BRANCH)
    forge.edit_pull(number, title="better", body="more", labels=("autoresearch",))
    pull = forge.pull(number)
    assert (pull.head, pull.branch, pull.title, pull.body, pull.state) == (head, BRANCH, "better", "more", PullState.OPEN)
    for closer in (forge, forge, forge_of(place)):
        closer.close_pull(number, comment="not better", labels=("autoresearch: worse",))
    pull = forge_of(place).pull(number)
    assert (pull.state, pull.labels) == (PullState.CLOSED, ("autoresearch", "autoresearch: worse"))
    assert [text.splitlines()[-1] for text in comments(place, number)] == ["not better"]
    with pytest.raises(urllib.error.HTTPError):
        place.ask("GET", f"/repos/{place.name}/git/ref/heads/{BRANCH}")


def open_and_merge(place: Place) -> tuple[GitHubForge, int, Callable[[], Landed | NotMerged]]:
    """A pull request of ours, and a try to merge it where it stands."""
    forge = forge_of(place)
    number = forge.open_pull(branch=BRANCH, title="t", body="b", labels=())

    def merge() -> Landed | NotMerged:
        return forge.merge(number, head=forge.pull(number).head, onto=forge.tip(), guard="guard", message="t\n\nb")

    return forge, number, merge


def test_a_merge_lands_once(world: Callable[..., Place]) -> None:
    """The squashed commit is what main points at, and merging again answers with the same commit."""
    place = world()
    forge, number, merge = open_and_merge(place)
    landed = merge()
    assert isinstance(landed, Landed)
    assert landed.sha == forge.tip()
    assert forge.merge(number, head=forge.pull(number).head, onto="", guard="guard", message="t") == landed
    assert forge.pull(number).state is PullState.MERGED


def test_a_conflict_is_told(world: Callable[..., Place]) -> None:
    """A person changed the same line on main: it is not merged, and the reason is a conflict."""
    place = world()
    commit(place, "main", "lr = 3\n")
    _, _, merge = open_and_merge(place)
    done = merge()
    assert isinstance(done, NotMerged)
    assert done.why == "conflict"


def test_a_required_check_holds_the_merge(world: Callable[..., Place]) -> None:
    """While a rule of the branch is not met it waits, and says what for and who can help; once it is met it lands."""
    place = world(protected={"main": {"required_checks": [GATE]}})
    forge, number, merge = open_and_merge(place)
    done = merge()
    assert isinstance(done, NotMerged)
    assert done.why == "waits"
    assert "a person must merge it" in done.detail
    assert "Auto merge is not allowed for this repository" in done.detail
    place.ask("POST", f"/repos/{place.name}/statuses/{forge.pull(number).head}", {"state": "success", "context": GATE})
    assert isinstance(merge(), Landed)


def test_a_comment_that_timed_out_is_not_doubled(world: Callable[..., Place]) -> None:
    """The answer was lost, the comment was not: we are told that it is unclear, and the next look leaves one comment."""
    place = world()
    forge = forge_of(place)
    place.control("PUT", "/faults", [{"tool": "github.issues.createComment", "kind": "timeout_after_commit"}])
    with pytest.raises(Busy):
        forge.say(1, "status", "1 of 50")
    forge.say(1, "status", "1 of 50")
    assert len(comments(place, 1)) == 1


@pytest.mark.parametrize("kind", ["server_error", "bad_gateway", "unavailable", "transport_error"])
def test_a_read_is_repeated_and_a_write_is_not(world: Callable[..., Place], kind: str) -> None:
    """After a 5xx a read is done again by itself; a write is told as unclear, and is there once when it is looked at again."""
    place = world()
    forge = forge_of(place)
    place.control("PUT", "/faults", [{"tool": "github.repos.get", "kind": kind}])
    assert forge.rest.get(forge.rest.repo)["default_branch"] == "main"
    place.control("PUT", "/faults", [{"tool": "github.issues.createComment", "kind": kind}])
    with pytest.raises(Busy):
        forge.say(1, "status", "1 of 50")
    assert comments(place, 1) == []
    forge.say(1, "status", "1 of 50")
    assert len(comments(place, 1)) == 1


def test_a_rate_limit_stops_everything_for_a_while(world: Callable[..., Place]) -> None:
    """After a refusal for a limit nothing more is sent: it is told how long, at once, without sleeping."""
    place = world()
    forge = forge_of(place)
    place.control("PUT", "/faults", [{"tool": "*", "kind": "rate_limit"}])
    with pytest.raises(Busy, match="rate limit"):
        forge.pull_of(BRANCH)
    sent = place.checked.calls
    with pytest.raises(Busy) as told:
        forge.say(1, "status", "1 of 50")
    assert told.value.seconds > 0
    assert place.checked.calls == sent
