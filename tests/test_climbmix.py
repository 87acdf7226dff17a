"""Downloads of the GPU corpus, from a small server on this machine that misbehaves as told."""

from __future__ import annotations

import hashlib
import io
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from evaluator import climbmix, prepare  # noqa: E402

KEY = b"k" * 32
ROOT = Path(__file__).parents[1]
DATA = random.Random(0).randbytes(45 * climbmix.BLOCK + 1000)  # ends in a piece small enough to stay in a buffer


@dataclass
class Hub:
    """What the server holds and how it behaves: `faults` are used up one a request, in order."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    tells_hash: bool = True
    tells_size: bool = True
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # the Range of each request, "" for none


class Handler(BaseHTTPRequestHandler):
    """Hugging Face in small: /resolve names hash and size on a redirect, /cdn sends the bytes."""

    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        place, _, name = self.path.lstrip("/").partition("/")
        if place == "resolve":
            self.redirect(name)
        else:
            self.send_file(self.hub.files[name])

    def redirect(self, name: str) -> None:
        if name not in self.hub.files:
            self.send_error(404)
            return
        self.send_response(302)
        if self.hub.tells_hash:
            self.send_header("X-Linked-ETag", f'"{hashlib.sha256(self.hub.files[name]).hexdigest()}"')
        if self.hub.tells_size:
            self.send_header("X-Linked-Size", str(len(self.hub.files[name])))
        self.send_header("Location", f"/cdn/{name}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_file(self, data: bytes) -> None:
        asked = self.headers.get("Range", "")
        self.hub.asked.append(asked)
        fault = self.hub.faults.pop(0) if self.hub.faults else ""
        start = int(found[1]) if (found := re.fullmatch(r"bytes=(\d+)-", asked)) and fault != "no ranges" else 0
        if fault.isdecimal() or start >= len(data):
            self.send_error(int(fault or 416))
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.hub.tells_size and fault != "ends early":
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        some = data[start : start + 1_200_000]
        body = {"lost": some, "ends early": some, "other": bytes(len(data) - start)}.get(fault, data[start:])
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hangs up is part of these tests, and no news."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "*")
    handler = type("Handler", (Handler,), {})
    server = Server(("127.0.0.1", 0), handler)
    handler.hub = Hub(f"http://127.0.0.1:{server.server_port}/resolve", {"a.parquet": DATA})  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler.hub  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch(hub: Hub, tmp_path: Path) -> Callable[[], list[float]]:
    """Fetch a.parquet; gives the pauses that were made."""

    def run() -> list[float]:
        pauses: list[float] = []
        climbmix.fetch(f"{hub.url}/a.parquet", tmp_path / "a.parquet", pause=pauses.append)
        return pauses

    return run


Fetch = Callable[[], list[float]]


def test_a_file_comes_whole(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """A download that goes well asks once, and leaves the file and its record and nothing else."""
    assert fetch() == []
    assert (tmp_path / "a.parquet").read_bytes() == DATA
    assert hub.asked == [""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet"]
    assert fetch() == []
    assert hub.asked == [""]  # the second time nothing is asked


def test_a_lost_connection_is_resumed(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """After a connection breaks, only what is missing is asked for."""
    hub.faults = ["lost", "lost"]
    assert len(fetch()) == 2
    assert (tmp_path / "a.parquet").read_bytes() == DATA
    first, *resumed = hub.asked
    starts = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in resumed]
    assert first == ""
    assert 1_100_000 < starts[0] <= 1_200_000  # all but a last block that came in part
    assert 2_200_000 < starts[1] <= 2_400_000


def test_an_interrupted_download_is_resumed_by_the_next_run(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """What a killed process had fetched already is used."""
    (tmp_path / "a.parquet.part").write_bytes(DATA[:1000])
    fetch()
    assert hub.asked == ["bytes=1000-"]
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def test_an_answer_that_ends_early_without_a_word_is_noticed(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """Where neither a hash nor the connection shows it, the size that was promised on the redirect does."""
    hub.tells_hash = False
    hub.faults = ["ends early"]
    assert len(fetch()) == 2  # the cut answer, and a resumption that no hash could have checked
    assert (tmp_path / "a.parquet").read_bytes() == DATA


@pytest.mark.parametrize("part", [b"x" * 1000, b"x" * len(DATA), b"x" * 4_000_000], ids=["short", "as long", "too long"])
def test_a_wrong_part_is_thrown_away(fetch: Fetch, tmp_path: Path, part: bytes) -> None:
    """When the bytes on disk are not the beginning of the file, the hash shows it and the download starts over."""
    (tmp_path / "a.parquet.part").write_bytes(part)
    assert len(fetch()) == 1
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def test_a_server_without_ranges_is_fetched_from_the_start(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """An answer that ignores the Range replaces what was there; it is not appended to it."""
    hub.faults = ["lost", "no ranges"]
    assert len(fetch()) == 1
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def test_nothing_is_resumed_that_no_hash_can_check(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """A mirror without hashes may have another version by now, so a part is not completed from it but fetched anew."""
    hub.tells_hash = False
    (tmp_path / "a.parquet.part").write_bytes(b"x" * 1000)
    assert len(fetch()) == 1
    assert hub.asked == ["bytes=1000-", ""]
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def test_errors_that_pass_are_waited_for_longer_and_longer(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """503 and 429 are tried again after growing pauses."""
    hub.faults = ["503", "429", "500"]
    assert fetch() == [2.0, 4.0, 8.0]
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def test_attempts_end(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """A server that never recovers is given up with a sentence that says what it answered."""
    hub.faults = ["503"] * 100
    with pytest.raises(prepare.DataError, match="503"):
        fetch()
    assert len(hub.asked) == climbmix.ATTEMPTS
    assert not (tmp_path / "a.parquet").exists()


def test_a_wrong_hash_is_never_accepted(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """Bytes of the right number but the wrong hash are thrown away, and if they keep coming it is an error."""
    hub.faults = ["other"]
    assert len(fetch()) == 1
    assert (tmp_path / "a.parquet").read_bytes() == DATA
    (tmp_path / "a.parquet").unlink()
    hub.faults = ["other"] * 100
    with pytest.raises(prepare.DataError, match="SHA-256"):
        fetch()
    assert not (tmp_path / "a.parquet").exists()


def test_a_truncated_file_is_never_accepted(hub: Hub, fetch: Fetch, tmp_path: Path) -> None:
    """A server that sends no hash and breaks off each time leaves no file, however often it is tried."""
    hub.tells_hash = False
    hub.faults = ["lost"] * 100
    with pytest.raises(prepare.DataError, match="could not download"):
        fetch()
    assert not (tmp_path / "a.parquet").exists()


def test_a_file_that_nothing_vouches_for_is_refused(hub: Hub, fetch: Fetch) -> None:
    """A server that tells neither size nor hash cannot be checked and is refused at once."""
    hub.tells_hash = hub.tells_size = False
    with pytest.raises(prepare.DataError, match="neither size nor hash"):
        fetch()
    assert len(hub.asked) == 1


def test_a_missing_file_is_not_tried_again(hub: Hub, fetch: Fetch) -> None:
    """404 is an answer: one request, one sentence with the address."""
    hub.files.clear()
    with pytest.raises(prepare.DataError, match=r"/resolve/a\.parquet answered 404"):
        fetch()


def test_a_server_that_is_not_there_is_one_clear_sentence(tmp_path: Path) -> None:
    """A refused connection is retried, then told."""
    with pytest.raises(prepare.DataError, match="connection lost or refused"):
        climbmix.fetch("http://127.0.0.1:9/a.parquet", tmp_path / "a.parquet", pause=lambda seconds: None)


def test_two_downloads_at_once_fetch_once(hub: Hub, tmp_path: Path) -> None:
    """A second process that wants the same shard waits for the first and uses its file."""
    code = (
        "import sys; from pathlib import Path; from evaluator import climbmix; "
        f"climbmix.fetch('{hub.url}/a.parquet', Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.parquet")]
    started = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    assert hub.asked == [""]
    assert (tmp_path / "a.parquet").read_bytes() == DATA


def shard(seed: int, rows: int) -> tuple[list[str], bytes]:
    rng = random.Random(seed)
    lexicon = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(6000)]
    texts = [" ".join(rng.choices(lexicon, k=rng.randint(20, 200))) for _ in range(rows)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=100)
    return texts, sink.getvalue()


@pytest.fixture
def mixed(hub: Hub) -> dict[str, list[str]]:
    """Two training shards and the validation shard on the hub; their texts by name."""
    named = {f"shard_{i:05d}.parquet": shard(i, rows) for i, rows in ((0, 400), (1, 400), (climbmix.VALIDATION, 300))}
    hub.files = {name: data for name, (_, data) in named.items()}
    return {name: texts for name, (texts, _) in named.items()}


def test_climbmix_is_prepared_from_its_shards(hub: Hub, mixed: dict[str, list[str]], tmp_path: Path) -> None:
    """Training text is the training shards, held-out text the last shard: public and vault are different rows of it."""
    told: list[float] = []
    prepared = prepare.load("climbmix:2", tmp_path, key=KEY, url=hub.url, tell=lambda stage, done: told.append(done))
    assert (prepared.vocab_size, prepared.context, prepared.bos) == (8192, 2048, 8191)
    encoder = prepared.tokenizer()
    *training, validation = mixed.values()
    expected = [token for texts in training for text in texts for token in (prepared.bos, *encoder.encode_ordinary(text))]
    assert prepared.train_tokens().tolist() == expected
    public, vault = ([encoder.decode(d.tolist()) for d in held.tokens] for held in (prepared.public, prepared.vault))
    assert public == validation[0::2]
    assert vault == validation[1::2]
    assert prepared.public.nbytes == sum(len(text) for text in public)
    assert all(0.0 <= done <= 1.0 for done in told)


def test_shards_may_go_once_their_tokens_are_cached(hub: Hub, mixed: dict[str, list[str]], tmp_path: Path) -> None:
    """With the records kept, the cache is found without the shards and without the network; a rebuild fetches them again."""
    prepared = prepare.load("climbmix:1", tmp_path, key=KEY, url=hub.url)
    for path in (tmp_path / "climbmix").glob("*.parquet"):
        path.unlink()
    asked = len(hub.asked)
    assert prepare.load("climbmix:1", tmp_path, key=KEY, url=hub.url).digest == prepared.digest
    assert len(hub.asked) == asked
    (prepared.folder / "train.bin").unlink()
    again = prepare.load("climbmix:1", tmp_path, key=KEY, url=hub.url)
    assert again.train_tokens().tolist() == prepared.train_tokens().tolist()
    assert len(hub.asked) == asked + 2
    assert len(mixed) == 3


def test_a_shard_that_rots_on_disk_is_fetched_again(hub: Hub, mixed: dict[str, list[str]], tmp_path: Path) -> None:
    """A shard with one changed byte is noticed before it is read."""
    path = tmp_path / "climbmix" / "shard_00000.parquet"
    prepared = prepare.load("climbmix:1", tmp_path, key=KEY, url=hub.url)
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    other = prepare.load("climbmix:1", tmp_path, key=b"other", url=hub.url)
    assert path.read_bytes() == hub.files[path.name]
    assert other.train_tokens().tolist() == prepared.train_tokens().tolist()
    assert len(mixed) == 3


def test_a_shard_that_changed_upstream_is_said(hub: Hub, mixed: dict[str, list[str]], tmp_path: Path) -> None:
    """When a shard must be fetched again and is another one by now, that is an error and not a silent mixture."""
    prepare.load("climbmix:1", tmp_path, key=KEY, url=hub.url)
    (tmp_path / "climbmix" / "shard_00000.parquet").unlink()
    hub.files["shard_00000.parquet"] = shard(7, 400)[1]
    with pytest.raises(prepare.DataError, match="has changed"):
        prepare.load("climbmix:1", tmp_path, key=b"other", url=hub.url)
    assert len(mixed) == 3


@pytest.mark.parametrize("corpus", ["climbmix:0", "climbmix:9999"])
def test_an_impossible_number_of_shards_is_refused(tmp_path: Path, corpus: str) -> None:
    """Shards go from 1 to all there are."""
    with pytest.raises(prepare.DataError, match="1 to 6542"):
        prepare.load(corpus, tmp_path, key=KEY)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    """Where the extra is not installed, a folder with parquet is answered with the line that installs it."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['pyarrow'] = None; from pathlib import Path; from evaluator import prepare; "
        "sys.exit(prepare.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "--corpus", str(tmp_path), "--cache", str(tmp_path / "cache")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "autoresearch-bot[parquet]" in done.stderr
