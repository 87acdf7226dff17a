"""The log: what is appended is what is read, one writer at a time, and damage is healed or named. Real git; no campaign."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot import git
from bot.events import Event, Measured, Merged, StopRequested
from bot.lines import chain
from bot.log import BRANCH, LINES, GitLog, Log, LogDamaged, MemoryLog, Moved, Position, RemoteLog
from bot.remote import Busy, Remote

REF = f"refs/heads/{BRANCH}"


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    return git.init_bare(tmp_path / "r.git", "main")


def remote(repo: git.Repo, folder: Path) -> RemoteLog:
    """As another machine has it, with a clone of its own; no token is needed for a path."""
    return RemoteLog(Remote(repo=git.init_bare(folder, "main"), url=str(repo.path), token=""))


@pytest.fixture(params=["git", "remote", "memory"])
def log(request: pytest.FixtureRequest, repo: git.Repo, tmp_path: Path) -> Log:
    made: dict[str, Callable[[], Log]] = {
        "git": lambda: GitLog(repo), "remote": lambda: remote(repo, tmp_path / "clone.git"), "memory": MemoryLog,
    }  # fmt: skip
    return made[request.param]()


def event(n: int) -> Event:
    """Different each time, and with what breaks careless readers: quotes, line separators, other scripts."""
    return Measured(campaign="1", at=1e9 + n, n=n, run=f"r{n}", outcome="crash", val_bpb=None, reason='"\u2028\n\x85 ü 漢')


def segments(count: int) -> list[str]:
    """The texts of the segments that `count` events fill."""
    lines = chain(event(n) for n in range(count))
    return ["".join(f"{line}\n" for line in lines[start : start + LINES]) for start in range(0, count, LINES)]


def written(repo: git.Repo, texts: list[str]) -> git.Repo:
    """The log branch with these segments, as somebody's hand left them."""
    commit = None
    for number, text in enumerate(texts):
        commit = repo.commit_file(commit, f"000/{number:06}.jsonl", text, "by hand", when=number)
    assert commit is not None
    repo.set_ref(REF, commit)
    return repo


def test_what_is_appended_is_what_is_read(log: Log) -> None:
    """Events come back equal and in order; a log that was never written is empty."""
    events, position = log.read()
    assert events == []
    for n in range(3):
        position = log.append(event(n), position)
    assert log.read() == ([event(0), event(1), event(2)], position)


def test_a_reader_gets_only_what_is_new(log: Log) -> None:
    """events_since yields each event once, whoever wrote it."""
    _, mine = log.read()
    theirs = log.append(event(0), mine)
    new, mine = log.events_since(mine)
    assert (new, mine) == ([event(0)], theirs)
    assert log.events_since(mine) == ([], mine)
    log.append(event(1), mine)
    assert log.events_since(mine)[0] == [event(1)]


def test_the_second_of_two_writers_is_told(log: Log) -> None:
    """An append at a position that is no longer the end raises Moved and writes nothing."""
    _, start = log.read()
    end = log.append(event(0), start)
    for stale in (start, Position()):
        with pytest.raises(Moved):
            log.append(event(9), stale)
    log.append(event(1), end)
    with pytest.raises(Moved):
        log.append(event(9), end)
    assert log.read()[0] == [event(0), event(1)]


def test_segments_end_where_they_should(repo: git.Repo) -> None:
    """Around the end of a segment, appended and read agree to the byte, and a reader that stopped anywhere can go on."""
    log = GitLog(written(repo, segments(LINES - 1)))
    events, position = log.read()
    seen = [position]
    for n in range(LINES - 1, LINES + 2):
        seen.append(log.append(event(n), seen[-1]))
    assert [repo.read(REF, path) for path in repo.paths(REF)] == segments(LINES + 2)
    for stop in seen:
        new, position = log.events_since(stop)
        assert events[: stop.count] + [event(n) for n in range(LINES - 1, stop.count)] + new == log.read()[0]
        assert position == seen[-1]


def test_the_commit_says_the_event_in_words(repo: git.Repo) -> None:
    """`git log` of the branch reads like a diary, with the time of the events."""
    log = GitLog(repo)
    position = log.append(Merged(campaign="1", at=1e9, n=4, sha="c0ffee", reason=""), Position())
    log.append(StopRequested(campaign="12.3", at=1e9 + 5, by="ann"), position)
    assert [message for _, message in repo.log(REF, limit=9)] == ["12.3: StopRequested", "1: Merged 4"]
    assert repo.time_of(REF) == 1e9 + 5


WHOLE, KEPT = segments(3)[0].encode(), segments(2)[0].encode()
LAST = len(WHOLE) - len(KEPT) - 1  # bytes of the last line, without its end


@pytest.mark.parametrize("cut", [0, 1, 12, LAST // 2, WHOLE.rindex("漢".encode()) + 1 - len(KEPT), LAST - 1, LAST])
def test_a_cut_last_line_is_healed_wherever_it_was_cut(cut: int, repo: git.Repo) -> None:
    """Cut after any byte, the last line is left out and told, and the next append overwrites it; all before it is kept."""
    blob = repo.ask("hash-object", "-w", "--stdin", stdin=WHOLE[: len(KEPT) + cut]).text
    folder = repo.ask("mktree", stdin=f"100644 blob {blob}\t000000.jsonl\n".encode()).text
    tree = repo.ask("mktree", stdin=f"040000 tree {folder}\t000\n".encode()).text
    repo.set_ref(REF, repo.commit_tree(tree, [], "cut", when=1))
    events, position = GitLog(repo).read()
    complete = cut == LAST  # only the line end is missing: nothing is lost
    assert events == [event(n) for n in range(3 if complete else 2)]
    assert bool(position.healed) == (cut > 0 and not complete)
    after = GitLog(repo).append(event(len(events)), position)
    assert GitLog(repo).read() == ([*events, event(len(events))], after)
    assert repo.read(REF, "000/000000.jsonl") == segments(len(events) + 1)[0]


def test_a_cut_first_line_of_a_segment_is_healed(repo: git.Repo) -> None:
    """The cut line may be the only one of its segment; the message counts it over the whole log."""
    log = GitLog(written(repo, [*segments(LINES), '{"v":1,"pr']))
    events, position = log.read()
    assert len(events) == LINES
    assert position.healed.startswith(f"line {LINES + 1}, ")
    assert not log.append(event(LINES), position).healed
    assert [repo.read(REF, path) for path in repo.paths(REF)] == segments(LINES + 1)


def edit(texts: list[str], segment: int, old: str, new: str) -> list[str]:
    assert old in texts[segment]
    return [text.replace(old, new, 1) if number == segment else text for number, text in enumerate(texts)]


THREE = segments(2 * LINES + 5)
DAMAGE = {
    "changed": (edit(THREE, 1, '"n":142', '"n":999'), r"000/000001.jsonl, line 144: it does not follow"),
    "not JSON": (edit(THREE, 0, '{"v":1', '"v":1'), r"000/000000.jsonl, line 1: it is not JSON"),
    "newer": (edit(THREE, 0, '{"v":1', '{"v":2'), r"line 1: its schema version"),
    "last changed": (edit(THREE, 2, '"n":204', '"m":204'), r"000/000002.jsonl, line 205: Measured has no field m"),
    "last is rubbish": ([*THREE[:2], THREE[2] + "rubbish\n"], r"line 206: it is not JSON"),
    "line taken out": ([THREE[0], THREE[1].partition("\n")[2], THREE[2]], r"000/000001.jsonl has 99 lines instead of 100"),
    "line added": ([THREE[0] + "{}\n", *THREE[1:]], r"000/000000.jsonl has 101 lines instead of 100"),
    "cut in the middle": ([THREE[0], THREE[1][:-9], THREE[2]], r"000/000001.jsonl, line 200: it was cut"),
    "two rubbish lines": ([*THREE[:2], THREE[2] + '{"v":1\n{"v":1'], r"line 206: it is not JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_elsewhere_is_named(name: str, repo: git.Repo) -> None:
    """Any other damage is an error that names segment and line, says what is wrong, and leaves the log alone."""
    texts, sentence = DAMAGE[name]
    before = written(repo, texts).resolve(REF)
    with pytest.raises(LogDamaged, match=sentence) as caught:
        GitLog(repo).read()
    assert "point the branch at it" in str(caught.value)
    assert repo.resolve(REF) == before


def test_a_missing_segment_is_named(repo: git.Repo) -> None:
    """A segment that is gone is told with the lines that it held."""
    commit = repo.commit_file(None, "000/000000.jsonl", THREE[0], "x", when=1)
    repo.set_ref(REF, repo.commit_file(commit, "000/000002.jsonl", THREE[2], "x", when=1))
    with pytest.raises(LogDamaged, match=r"000/000001.jsonl is missing, with lines 101 to 200"):
        GitLog(repo).read()


def test_history_that_was_rewritten_under_a_reader_is_told(repo: git.Repo) -> None:
    """A reader that goes on from where it was sees that what it had read is gone or different."""
    log = GitLog(written(repo, segments(LINES)))
    _, position = log.read()
    for texts in (edit(segments(LINES), 0, '"n":98', '"n":97'), segments(LINES - 1)):
        written(repo, texts)
        with pytest.raises(LogDamaged, match="what was read before, up to line 100, is not there any more"):
            log.events_since(position)
    repo.delete_ref(REF)
    with pytest.raises(LogDamaged, match="the branch is gone, and with it 100 lines"):
        log.events_since(position)


def test_other_files_on_the_branch_are_left_alone(repo: git.Repo) -> None:
    """A README that somebody puts on the log branch does no harm and stays."""
    written(repo, segments(2))
    repo.set_ref(REF, repo.commit_file(repo.resolve(REF), "README.md", "hello", "note", when=1))
    events, position = GitLog(repo).read()
    GitLog(repo).append(event(2), position)
    assert len(events) == 2
    assert repo.read(REF, "README.md") == "hello"


def test_a_kill_before_any_step_leaves_all_or_nothing(repo: git.Repo) -> None:
    """A killed append has happened or has not; doing it again from what is read gives the log of an undisturbed one."""
    _, position = GitLog(written(repo, segments(2))).read()
    for step in itertools.count():
        left = itertools.count(-step)
        pid = os.fork()
        if pid == 0:
            dying = git.Repo(repo.path, before=lambda verb, left=left: os._exit(9) if next(left) == 0 else None)  # type: ignore[misc]
            GitLog(dying).append(event(2), position)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            break
        assert GitLog(repo).read()[1] == position
    assert step == 6
    assert GitLog(repo).read()[0] == [event(0), event(1), event(2)]


def test_an_append_touches_one_segment(repo: git.Repo) -> None:
    """However long the log is, an append runs the same few git processes and writes no other file."""
    calls: list[str] = []
    counted = GitLog(git.Repo(written(repo, segments(3 * LINES + 1)).path, before=calls.append))
    before = repo.resolve(REF)
    events, position = counted.read()
    assert len(events) == 3 * LINES + 1
    calls.clear()
    position = counted.append(event(3 * LINES + 1), position)
    assert calls == ["hash-object", "cat-file", "mktree", "mktree", "commit-tree", "update-ref"]
    assert repo.diff(str(before), str(position.commit)).count("diff --git") == 1


def test_machines_that_write_to_one_remote_log_lose_nothing(repo: git.Repo, tmp_path: Path) -> None:
    """Three clones append in turn, each told by the push itself when another was first; all read the same afterwards."""
    logs = [remote(repo, tmp_path / f"{k}.git") for k in range(3)]
    ends = [log.read()[1] for log in logs]
    written = lost = 0
    for k in (0, 1, 0, 2, 1, 1, 2, 0):
        try:
            ends[k] = logs[k].append(event(written), ends[k])
        except Moved:
            lost += 1
            ends[k] = logs[k].events_since(ends[k])[1]
            ends[k] = logs[k].append(event(written), ends[k])
        written += 1
    assert lost >= 5
    assert [log.read()[0] for log in logs] == [[event(n) for n in range(written)]] * 3


def test_a_remote_log_that_cannot_be_reached_is_busy_or_told(repo: git.Repo, tmp_path: Path) -> None:
    """Nobody answers: look again later. A repository that is not there: a sentence with what to do, and no token in it."""
    clone = git.init_bare(tmp_path / "clone.git", "main")
    with pytest.raises(Busy, match="did not answer"):
        RemoteLog(Remote(repo=clone, url="http://127.0.0.1:9/o/r.git", token="sesame")).read()
    with pytest.raises(git.GitError) as told:
        RemoteLog(Remote(repo=clone, url=str(tmp_path / "nowhere.git"), token="sesame")).read()
    assert "nowhere.git" in str(told.value) and "sesame" not in str(told.value)


def test_the_token_is_on_no_command_line_and_in_no_file(repo: git.Repo, tmp_path: Path) -> None:
    """It reaches git through the environment of that one process alone."""
    log = remote(repo, tmp_path / "clone.git")
    secret = Remote(repo=log._remote.repo, url=str(repo.path), token="open-sesame")
    secret.fetch()
    written = b"".join(path.read_bytes() for path in (tmp_path / "clone.git").rglob("*") if path.is_file())
    assert b"sesame" not in written and "sesame" not in repr(secret)


# Files beside the log


def test_files_beside_the_log_stand_apart(log: Log) -> None:
    """They are read as they were kept, also in their next version, and neither they nor the events disturb each other."""
    assert log.beside("knowledge.md") == ""
    end = log.append(event(0), Position())
    log.keep({"knowledge.md": "one\n", "other.md": "x\n"}, "why", when=1.0)
    happened, end = log.events_since(end)
    assert happened == []
    log.append(event(1), end)
    log.keep({"knowledge.md": "two ü\n"}, "why", when=2.0)
    assert (log.beside("knowledge.md"), log.beside("other.md")) == ("two ü\n", "x\n")
    assert log.read()[0] == [event(0), event(1)]


def test_a_file_that_is_like_that_already_is_no_commit(repo: git.Repo) -> None:
    """Keeping is an ensure: done again it moves nothing, so that nobody has to look again."""
    log = GitLog(repo)
    log.append(event(0), Position())
    log.keep({"a.md": "one\n", "b.md": "one\n"}, "why", when=1.0)
    before = repo.resolve(REF)
    log.keep({"a.md": "one\n", "b.md": "one\n"}, "why", when=2.0)
    assert repo.resolve(REF) == before


def test_a_person_who_writes_in_the_same_moment_is_not_overwritten(repo: git.Repo, tmp_path: Path) -> None:
    """Two machines keep a file at once: the second is told to look again, and then finds what the first wrote."""
    one, two = remote(repo, tmp_path / "one.git"), remote(repo, tmp_path / "two.git")
    one.append(event(0), Position())
    two.read()
    one.keep({"knowledge.md": "by one\n"}, "why", when=1.0)
    with pytest.raises(Moved):
        two.keep({"knowledge.md": "by two\n"}, "why", when=1.0)
    two.read()
    assert two.beside("knowledge.md") == "by one\n"
