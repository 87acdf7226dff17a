"""Data for training and scoring: splits, tokens, cache. What comes over a network is tested in test_climbmix.py."""

from __future__ import annotations

import itertools
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator import corpus, prepare, tokens

KEY = b"k" * 32
ROOT = Path(__file__).parents[1]
HARD = "Ship it 👩🏽\u200d🚀! e\u0301 \u00a0 日本語 ｶﾞ <|bos|> <|endoftext|>\r\n\ttab \x00 end 12345678901 \ufeff don't"


def words(seed: int, count: int) -> str:
    """Made-up prose with enough variety for a vocabulary of 1024."""
    rng = random.Random(seed)
    lexicon = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 8))) for _ in range(1500)]
    return "".join(rng.choice(lexicon) + ("\n\n" if rng.random() < 0.01 else " ") for _ in range(count))


@pytest.fixture(scope="module")
def austen(tmp_path_factory: pytest.TempPathFactory) -> prepare.Prepared:
    return prepare.load("austen", tmp_path_factory.mktemp("cache"), key=KEY)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of text that is quick to prepare."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_text(words(1, 30_000))
    (folder / "sub").mkdir()
    (folder / "sub" / "b.md").write_bytes((words(2, 8_000) + HARD).encode())
    return folder


@pytest.fixture
def cached(small: Path, tmp_path: Path) -> tuple[str, Path]:
    """(corpus, cache) that holds it already."""
    prepare.load(str(small), tmp_path / "cache", key=KEY)
    return str(small), tmp_path / "cache"


def content(prepared: prepare.Prepared) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(prepared.folder.iterdir())}


def texts(prepared: prepare.Prepared, held: prepare.HeldOut) -> list[bytes]:
    decode = prepared.tokenizer().decode_bytes
    return [decode(document.tolist()) for document in held.tokens]


def trained(prepared: prepare.Prepared) -> list[bytes]:
    """The documents of the training tokens."""
    stream = np.array(prepared.train_tokens())
    ends = np.flatnonzero(stream == prepared.bos)
    assert ends[0] == 0
    decode = prepared.tokenizer().decode_bytes
    return [decode(document[1:].tolist()) for document in np.split(stream, ends[1:])]


def test_austen_has_the_promised_shape(austen: prepare.Prepared) -> None:
    """The CPU corpus has 1024 tokens, context 128, over a million training tokens and 100 KB in each held-out split."""
    assert (austen.vocab_size, austen.context, austen.bos) == (1024, 128, 1023)
    assert austen.tokenizer().n_vocab == 1024
    train = austen.train_tokens()
    assert train.dtype == np.uint16
    assert train.ndim == 1
    assert 1_200_000 < train.size < 1_300_000
    assert train.max() == 1023
    for held in (austen.public, austen.vault):
        assert 98_000 < held.nbytes <= 100_000
        assert all(document.dtype == np.uint16 and document.size and document.max() < 1023 for document in held.tokens)


def test_every_byte_of_the_corpus_is_in_one_place_at_most(austen: prepare.Prepared) -> None:
    """Training, public and vault documents are pieces of the corpus, byte for byte, and no two of them overlap."""
    whole = lzma.decompress(corpus.AUSTEN.read_bytes())
    places = []
    pieces = [*trained(austen), *texts(austen, austen.public), *texts(austen, austen.vault)]
    for piece in sorted(pieces, key=len, reverse=True):
        at = whole.find(piece)
        assert at >= 0
        places.append((at, at + len(piece)))
    places.sort()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(places))
    train_share = sum(len(piece) for piece in trained(austen)) / len(whole)
    assert 0.86 < train_share < 0.88  # all but the pool of every tenth chunk and the vault


def test_the_denominator_is_the_raw_text(austen: prepare.Prepared) -> None:
    """`nbytes` of a split is the length of the UTF-8 text that its tokens decode to."""
    for held in (austen.public, austen.vault):
        assert held.nbytes == sum(len(text) for text in texts(austen, held))


def test_broken_characters_count_as_the_bytes_they_are(tmp_path: Path) -> None:
    """Where tokens end inside a character, documents still come back byte for byte and `nbytes` counts raw bytes."""
    prose = words(1, 50_000)
    text = "".join(f"{prose[i * 300 :][:300]}{HARD}{chr(0x1F300 + i)}\n\n" for i in range(900)).encode()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_bytes(text)
    prepared = prepare.load(str(tmp_path / "text"), tmp_path / "cache", key=KEY)
    encoder = prepared.tokenizer()
    documents = [document for held in (prepared.public, prepared.vault) for document in held.tokens]
    found = [text for held in (prepared.public, prepared.vault) for text in texts(prepared, held)]
    assert sum(text.count(HARD.encode()) for text in found) > 50
    assert all(piece in text for piece in [*found, *trained(prepared)])
    assert not any(prepared.bos in document for document in documents)
    by_table = sum(len(encoder.decode([int(token)]).encode()) for document in documents for token in document)
    exact = sum(len(text) for text in found)
    assert by_table != exact  # these documents do hold tokens that are no text: the wrong way would be seen here
    assert prepared.public.nbytes + prepared.vault.nbytes == exact


def test_the_same_key_gives_the_same_files(small: Path, tmp_path: Path) -> None:
    """Two caches of one corpus and key are equal byte for byte, so their numbers compare."""
    one, two = (prepare.load(str(small), tmp_path / name, key=KEY) for name in ("one", "two"))
    assert one.digest == two.digest
    assert content(one) == content(two)


def test_another_key_draws_another_vault_and_keeps_the_public_split(austen: prepare.Prepared, tmp_path: Path) -> None:
    """The vault depends on the key; the public split does not; the digest does."""
    other = prepare.load("austen", tmp_path, key=b"another key, of whatever length")
    assert other.digest != austen.digest
    assert texts(other, other.public) == texts(austen, austen.public)
    assert set(texts(other, other.vault)) != set(texts(austen, austen.vault))


def test_a_machine_makes_its_own_key_once(small: Path, tmp_path: Path) -> None:
    """Without a key, 32 random bytes are kept in the cache for their owner alone, and used again."""
    first = prepare.load(str(small), tmp_path / "a")
    key = tmp_path / "a" / prepare.KEY
    assert len(key.read_bytes()) == 32
    assert key.stat().st_mode & 0o777 == 0o600
    assert prepare.load(str(small), tmp_path / "a").digest == first.digest
    assert prepare.load(str(small), tmp_path / "b", key=key.read_bytes()).digest == first.digest
    assert prepare.load(str(small), tmp_path / "c").digest != first.digest


def test_a_key_is_made_once_whoever_comes_first(tmp_path: Path) -> None:
    """Eight first comers at the same moment all get the same key."""
    start = threading.Barrier(8)

    def come(_: int) -> bytes:
        start.wait()
        return prepare.own_key(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(come, range(8)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == [prepare.KEY]


def test_a_damaged_key_is_an_error(small: Path, tmp_path: Path) -> None:
    """A key file of a wrong length is never used nor replaced silently: the vault would change unseen."""
    (tmp_path / prepare.KEY).write_bytes(b"short")
    with pytest.raises(prepare.DataError, match="delete it"):
        prepare.load(str(small), tmp_path)


def test_a_whole_cache_is_used_as_it_is(cached: tuple[str, Path]) -> None:
    """The second load writes nothing, not even where it could."""
    where, cache = cached
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    prepare.load(where, cache, key=KEY)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 2)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_truncate, _flip, Path.unlink], ids=["truncated", "one bit changed", "missing"])
@pytest.mark.parametrize("name", ["train.bin", "public.bin", "vault.bin", "tokenizer.txt", "manifest.json"])
def test_a_damaged_cache_is_built_again(cached: tuple[str, Path], name: str, damage: object) -> None:
    """Whatever is wrong with any file of the cache, the next load has the right data again."""
    where, cache = cached
    prepared = prepare.load(where, cache, key=KEY)
    before = content(prepared)
    assert callable(damage)
    damage(prepared.folder / name)
    assert tokens.read(prepared.folder) is None
    assert content(prepare.load(where, cache, key=KEY)) == before
    assert not list(cache.glob(".building-*"))


def test_a_large_training_file_is_checked_by_size(tmp_path: Path) -> None:
    """Tokens too many to hash at every load are still noticed when the file was cut; other files are always hashed."""
    for name in ("train.bin", "public.bin"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, tokens.HASHED_BELOW + 2)  # sparse
    assert tokens.unchanged(tmp_path / "train.bin", size=tokens.HASHED_BELOW + 2, sha256="of other bytes")
    assert not tokens.unchanged(tmp_path / "public.bin", size=tokens.HASHED_BELOW + 2, sha256="of other bytes")
    _truncate(tmp_path / "train.bin")
    assert not tokens.unchanged(tmp_path / "train.bin", size=tokens.HASHED_BELOW + 2, sha256="of other bytes")


def test_a_manifest_cannot_be_edited_by_accident(cached: tuple[str, Path]) -> None:
    """A changed denominator in an otherwise valid manifest is seen, because the manifest is sealed too."""
    where, cache = cached
    prepared = prepare.load(where, cache, key=KEY)
    path = prepared.folder / "manifest.json"
    body = json.loads(path.read_text())
    body["public"]["nbytes"] += 1
    path.write_text(json.dumps(body))
    assert prepare.load(where, cache, key=KEY).public.nbytes == prepared.public.nbytes


def test_a_changed_corpus_is_another_corpus(small: Path, tmp_path: Path) -> None:
    """One changed letter in a folder gives another digest, and no cached data of the old text."""
    folder = tmp_path / "text"
    shutil.copytree(small, folder)
    before = prepare.load(str(folder), tmp_path / "cache", key=KEY)
    with (folder / "a.txt").open("r+") as file:
        file.write("Z")
    assert prepare.load(str(folder), tmp_path / "cache", key=KEY).digest != before.digest


def test_text_that_repeats_is_not_held_out_and_trained_on(tmp_path: Path) -> None:
    """The same file three times in a folder counts once, so that no held-out passage is in the training text."""
    folder = tmp_path / "text"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(words(1, 40_000))
    prepared = prepare.load(str(folder), tmp_path / "cache", key=KEY)
    training = set(trained(prepared))
    for text in [*texts(prepared, prepared.public), *texts(prepared, prepared.vault)]:
        assert not any(text in document for document in training)


def test_two_processes_at_once_agree(small: Path, tmp_path: Path) -> None:
    """Two first loads of one cache at the same moment both succeed with one key and one result, and leave no litter."""
    command = [sys.executable, "-m", "evaluator.prepare", "--corpus", str(small), "--cache", str(tmp_path / "cache")]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    digests = {line.split()[-1] for text in said for line in text.splitlines() if "digest" in line}
    assert digests | {prepare.KEY} == {path.name for path in (tmp_path / "cache").iterdir()}
    assert len(digests) == 1


def test_half_built_folders_of_the_dead_are_removed(small: Path, tmp_path: Path) -> None:
    """What a killed process left behind goes after a day; what may be somebody's work in progress stays."""
    old, new = tmp_path / ".building-old", tmp_path / ".building-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    prepare.load(str(small), tmp_path, key=KEY)
    assert not old.exists()
    assert new.exists()


def test_a_full_disk_is_one_clear_sentence(small: Path, tmp_path: Path) -> None:
    """When a file cannot be written to its end, the program says where and what to do, and leaves nothing half done."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from evaluator import prepare; sys.exit(prepare.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "--corpus", str(small), "--cache", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "make room" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [prepare.KEY]


@pytest.mark.parametrize("below", ["a file", "/proc/nowhere"], ids=["not a folder", "read-only"])
def test_a_cache_that_cannot_be_written_is_one_clear_sentence(small: Path, tmp_path: Path, below: str) -> None:
    """A cache folder that cannot be made is the user's to change, and said so."""
    (tmp_path / "a file").touch()
    with pytest.raises(prepare.DataError, match="another cache folder"):
        prepare.load(str(small), tmp_path / below / "cache", key=KEY)


def test_a_damaged_bundled_corpus_is_refused(tmp_path: Path) -> None:
    """A copy of the project whose corpus has one changed byte does not prepare it."""
    shutil.copytree(ROOT / "evaluator", tmp_path / "evaluator")
    _flip(tmp_path / "evaluator" / "data" / "austen.txt.xz")
    command = [sys.executable, "-m", "evaluator.prepare", "--cache", str(tmp_path / "cache")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "restore that file" in done.stderr
    assert "Traceback" not in done.stderr


def bad_folders() -> Iterator[tuple[str, dict[str, bytes], str]]:
    text = words(1, 40_000).encode()
    yield "empty", {}, "holds no"
    yield "only an empty file", {"a.txt": b""}, "too few pieces"
    yield "too little", {"a.txt": b"hello\n\nworld"}, "too few pieces"
    yield "not UTF-8", {"a.txt": text, "b.txt": b"caf\xe9 " * 10}, "b.txt is not UTF-8"
    yield "no variety", {f"{i}.txt": b"%d" % i for i in range(40)}, "too uniform"
    yield "cut parquet", {"a.txt": text, "b.parquet": b"PAR1 and then nothing"}, "b.parquet is not a whole parquet"


@pytest.mark.parametrize(("files", "says"), [case[1:] for case in bad_folders()], ids=[case[0] for case in bad_folders()])
def test_a_bad_folder_is_one_clear_sentence(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    """Text that cannot be used is refused with the file and the reason, and nothing half done stays."""
    folder = tmp_path / "text"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(prepare.DataError, match=says):
        prepare.load(str(folder), tmp_path / "cache", key=KEY)
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("name", ["", "nowhere", "austen:3", "climbmix:", "climbmix:-1", "climbmix:many", __file__])
def test_an_unknown_corpus_is_refused(tmp_path: Path, name: str) -> None:
    """A name that is no corpus is answered with those that are."""
    with pytest.raises(prepare.DataError, match="use austen, climbmix"):
        prepare.load(name or "\0", tmp_path, key=KEY)


def test_parquet_in_a_folder_is_read_too(tmp_path: Path) -> None:
    """Rows of the column "text" are documents like any others; another column is an error that names it."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "text"
    folder.mkdir()
    rows = [words(seed, 300) for seed in range(100)] + [None, "", HARD]
    pq.write_table(pa.table({"text": rows, "n": range(len(rows))}), folder / "a.parquet")
    prepared = prepare.load(str(folder), tmp_path / "cache", key=KEY)
    assert set(trained(prepared)) <= {row.encode() for row in rows if row}
    pq.write_table(pa.table({"body": rows}), folder / "a.parquet")
    with pytest.raises(prepare.DataError, match='no column "text"'):
        prepare.load(str(folder), tmp_path / "cache", key=KEY)


def test_hidden_and_other_files_are_left_alone(small: Path, tmp_path: Path) -> None:
    """What is not text, or lies under a dot, does not change the corpus."""
    folder = tmp_path / "text"
    shutil.copytree(small, folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.txt").write_text("no")
    (folder / "photo.jpg").write_bytes(b"\xff")
    assert corpus.folder(folder).identity == corpus.folder(small).identity


def test_progress_goes_from_nothing_to_all(small: Path, tmp_path: Path) -> None:
    """Each stage of a build tells fractions that only grow and end at 1."""
    told: dict[str, list[float]] = {}
    prepare.load(str(small), tmp_path, key=KEY, tell=lambda stage, done: told.setdefault(stage, []).append(done))
    assert list(told) == ["reading", "tokenizer", "encoding"]
    for stage in ("tokenizer", "encoding"):
        assert told[stage] == sorted(told[stage])
        assert told[stage][-1] == 1.0
        assert 0.0 < told[stage][0] < 1.0


def test_the_program_says_what_it_did(small: Path, tmp_path: Path) -> None:
    """`python -m evaluator.prepare` prints sizes and never the key; a bad corpus gives exit code 1 and one line."""
    command = [sys.executable, "-m", "evaluator.prepare", "--cache", str(tmp_path), "--corpus"]
    done = subprocess.run([*command, str(small)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "1024 tokens" in done.stdout
    assert (tmp_path / prepare.KEY).read_bytes().hex() not in done.stdout
    bad = subprocess.run([*command, "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert bad.returncode == 1
    assert len(bad.stderr.splitlines()) == 1


@given(st.binary(max_size=400), st.integers(1, 40))
def test_a_piece_ends_within_its_limit_and_moves_on(data: bytes, limit: int) -> None:
    """Cutting always makes progress and never passes the limit, whatever the bytes."""
    start = 0
    while start < len(data):
        end = corpus.cut(data, start, limit)
        assert start < end <= start + limit
        start = end


@given(st.text(max_size=300), st.integers(4, 40))
def test_a_piece_never_ends_inside_a_character(text: str, limit: int) -> None:
    """Every piece of UTF-8 text is UTF-8 text, and the pieces add up."""
    data, start, pieces = text.encode(), 0, []
    while start < len(data):
        end = corpus.cut(data, start, limit)
        pieces.append(data[start:end].decode())
        start = end
    assert "".join(pieces) == text


@given(st.dictionaries(st.integers(0, 999), st.integers(1, 5000), max_size=60), st.binary(max_size=8), st.integers(0, 40_000))
def test_the_draw_fills_its_limit_exactly(sizes: dict[int, int], secret: bytes, limit: int) -> None:
    """Drawn documents add up to the limit, or to all there is, and none is cut to nothing."""
    chosen = corpus.pick(sizes, secret, limit)
    assert sum(chosen.values()) == min(limit, sum(sizes.values()))
    assert all(0 < kept <= sizes[i] for i, kept in chosen.items())
    assert list(chosen) == sorted(chosen)
