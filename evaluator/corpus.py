"""From a corpus to documents, and which of them are for training, which are held out. Not tokens, not a cache.

A `Source` knows what its text is (`identity`, a content hash) without reading more than it must, and opens into a `Split`:
training documents as a stream, and two small held-out parts. The public part is the same for everyone who has the corpus;
the vault part is drawn with a key that stays on the machine, so nobody can know beforehand which passages it holds.
"""

from __future__ import annotations

import hashlib
import hmac
import lzma
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

CHUNK = 16 * 1024  # bytes of one document cut from running text
EVERY = 10  # each tenth document is kept out of training for the public split
SMALL_BELOW = 20_000_000  # bytes on disk from which a folder gets the large scale
SUFFIXES = (".txt", ".md", ".parquet")
AUSTEN = Path(__file__).parent / "data" / "austen.txt.xz"
AUSTEN_SHA256 = "5378d018b4bdfd18ae3d45c0d6175cbeff13a38a4c76433f26fa1102cf46ef64"  # of the packed file
PUBLIC = b"public"  # orders the public pool; no secret

Documents = Callable[[], Iterator[bytes]]  # each call starts over, in the same order
Tell = Callable[[str, float], None]  # stage, and how much of it is done, from 0 to 1


class DataError(Exception):
    """The data cannot be had. The text is one sentence for people: what is wrong and what to do."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large a vocabulary and a context (in tokens) a corpus is worth, and how many bytes are scored or learnt from."""

    vocab_size: int
    context: int
    scored: int  # at most, in each held-out split
    learnt: int  # the tokenizer learns from this much training text


SMALL = Scale(vocab_size=1024, context=128, scored=100_000, learnt=SMALL_BELOW)
LARGE = Scale(vocab_size=8192, context=2048, scored=20_000_000, learnt=250_000_000)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Documents as raw UTF-8 bytes, none empty. `train_bytes` is about how much `train` yields: for progress only."""

    train: Documents
    train_bytes: int
    public: list[bytes]
    vault: list[bytes]

    def __post_init__(self) -> None:
        if not (self.train_bytes and self.public and self.vault):
            raise DataError("the corpus has too few pieces of text to hold some out: add text, 200 KB at least")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus whose content is known by hash; `open(key)` reads it and may take long."""

    identity: str
    scale: Scale
    open: Callable[[bytes], Split]


def austen() -> Source:
    """The bundled corpus: Jane Austen's six novels (see data/README.md)."""
    if not AUSTEN.is_file() or file_hash(AUSTEN) != AUSTEN_SHA256:
        raise DataError(f"the bundled corpus {AUSTEN} is missing or damaged: restore that file from the repository")
    return Source(identity=AUSTEN_SHA256, scale=SMALL, open=_open_austen)


def _open_austen(key: bytes) -> Split:
    documents = list(chunks(lzma.decompress(AUSTEN.read_bytes())))
    return split(lambda: iter(documents), key)


def folder(root: Path) -> Source:
    """All .txt, .md and .parquet files (column "text") below a folder, hidden ones left out.

    SMALL scale when the files are under 20 MB on disk, LARGE above. Text is cut into chunks of 16 KiB at paragraphs; a row
    of parquet is treated as a text of its own. Every tenth chunk is held out, and repeated chunks count once, so that no
    held-out text stands in the training text too.
    """
    paths = sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES and p.is_file() and not _hidden(p.relative_to(root)))
    if not paths:
        raise DataError(f"the folder {root} holds no {', '.join(SUFFIXES)} file: give a folder of text, or use the corpus austen")
    scale = SMALL if sum(p.stat().st_size for p in paths) < SMALL_BELOW else LARGE
    names = "".join(f"{p.relative_to(root).as_posix()}\0{file_hash(p)}\0" for p in paths)
    identity = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()
    return Source(identity=identity, scale=scale, open=partial(split, partial(_folder_documents, paths), scale=scale))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _folder_documents(paths: Iterable[Path]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for path in paths:
        for chunk in _parquet_chunks(path) if path.suffix == ".parquet" else _text_chunks(path):
            mark = hashlib.sha256(chunk).digest()
            if mark not in seen:
                seen.add(mark)
                yield chunk


def _text_chunks(path: Path) -> Iterator[bytes]:
    if path.stat().st_size == 0:  # cannot be mapped
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        for chunk in chunks(text):
            try:
                chunk.decode()
            except UnicodeDecodeError as error:
                raise DataError(f"{path} is not UTF-8 text ({error.reason}): convert it, or take it out of the folder") from None
            yield chunk


def _parquet_chunks(path: Path) -> Iterator[bytes]:
    for row in rows(path):
        yield from chunks(row)


def rows(path: Path) -> Iterator[bytes]:
    """The column "text" of a parquet file, row by row, as UTF-8; empty rows are left out."""
    try:
        import pyarrow  # an extra: most corpora need none of its 100 MB
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs pyarrow to be read: pip install 'autoresearch-bot[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            if "text" not in table.schema_arrow.names:
                raise DataError(f'{path} has no column "text": rename the column that holds it')
            for batch in table.iter_batches(batch_size=1024, columns=["text"]):
                yield from (str(text).encode() for text in batch.column(0).to_pylist() if text)
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} is not a whole parquet file ({reason}): delete it and fetch it again") from None


def chunks(text: bytes | mmap.mmap) -> Iterator[bytes]:
    """Pieces of at most CHUNK bytes that add up to the text, each ending at a paragraph where there is one."""
    start = 0
    while start < len(text):
        end = cut(text, start, CHUNK)
        yield text[start:end]
        start = end


def cut(text: bytes | mmap.mmap, start: int, limit: int) -> int:
    """Where a piece that begins at `start` should end, at most `limit` bytes later: a paragraph, a line, or a whole character."""
    stop = start + limit
    if stop >= len(text):
        return len(text)
    for mark in (b"\n\n", b"\n"):
        if (found := text.rfind(mark, start, stop)) >= 0:
            return found + len(mark)
    end = stop
    while end > max(start, stop - 4) and text[end] & 0xC0 == 0x80:  # a byte inside a UTF-8 character
        end -= 1
    return end if end > start else stop


def split(documents: Documents, key: bytes, *, scale: Scale = SMALL) -> Split:
    """Every tenth document is the pool of the public split; the vault is drawn by key from the others; the rest trains."""
    sizes = dict(enumerate(len(document) for document in documents()))
    pool = {i: n for i, n in sizes.items() if i % EVERY == EVERY - 1}
    rest = {i: n for i, n in sizes.items() if i not in pool}
    limit = min(scale.scored, sum(rest.values()) // EVERY)
    public, vault = pick(pool, PUBLIC, limit), pick(rest, key, limit)
    held = take(documents, public | vault)

    def train() -> Iterator[bytes]:
        return (document for i, document in enumerate(documents()) if i not in pool and i not in vault)

    train_bytes = sum(rest.values()) - sum(rest[i] for i in vault)
    return Split(train=train, train_bytes=train_bytes, public=[held[i] for i in public], vault=[held[i] for i in vault])


def pick(sizes: Mapping[int, int], secret: bytes, limit: int) -> dict[int, int]:
    """Draw documents in the order of HMAC-SHA256(secret, index) until they fill `limit` bytes.

    Returns index -> bytes to keep of it, in the order of the corpus.
    """
    chosen: dict[int, int] = {}
    for i in sorted(sizes, key=lambda i: hmac.digest(secret, b"%d" % i, "sha256")):
        if limit <= 0:
            break
        chosen[i] = min(sizes[i], limit)
        limit -= sizes[i]
    return dict(sorted(chosen.items()))


def take(documents: Documents, ends: Mapping[int, int]) -> dict[int, bytes]:
    """The documents named in `ends`, by index, each cut at a paragraph to at most that many bytes."""
    return {i: d[: cut(d, 0, ends[i])] for i, d in enumerate(documents()) if i in ends}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
