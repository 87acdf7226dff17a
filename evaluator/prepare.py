"""Data for training and scoring: corpus, tokenizer, splits, constants. Reads and writes a cache; knows no model.

`load` gives the same `Prepared` for the same corpus and key, from a cache that it checks and, where it is missing or
damaged, builds anew beside the old one and moves into place. Run as a program it prepares and says what it did:

    python -m evaluator.prepare --corpus climbmix --shards 10

Corpora: "austen" (bundled, 4 MB), "climbmix" or "climbmix:N" (N training shards of the original's data), or the path of a
folder of text or parquet. `corpus.py` splits them, `climbmix.py` downloads, `tokens.py` learns the tokenizer and encodes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evaluator import corpus as corpora
from evaluator import tokens
from evaluator.corpus import DataError, Source, Tell
from evaluator.tokens import HeldOut

if TYPE_CHECKING:
    import tiktoken

__all__ = ["DataError", "HeldOut", "Prepared", "load"]

FORMAT = 1  # of the cache; part of the digest
KEY = "vault.key"
KEY_BYTES = 32
ABANDONED = 24 * 3600.0  # seconds after which a half-built folder belongs to nobody


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Tokens ready to train on and to score. `context` is in tokens; `bos` begins every document of the training tokens."""

    vocab_size: int
    context: int
    bos: int
    digest: str  # of corpus, key and parameters: numbers compare only where it is equal; does not give the key away
    folder: Path  # train.bin in it is the raw array that `train_tokens` maps
    train: NDArray[np.uint16]
    public: HeldOut
    vault: HeldOut

    def train_tokens(self) -> NDArray[np.uint16]:
        """All training tokens, 1-d, memory-mapped read-only: BOS, document, BOS, document ..."""
        return self.train

    def tokenizer(self) -> tiktoken.Encoding:
        """The tokenizer that made them."""
        return tokens.encoding(self.folder)


def load(
    corpus: str, cache: Path, *, key: bytes | None = None, tell: Tell = lambda stage, done: None, url: str | None = None
) -> Prepared:
    """Prepared data of a corpus, from the cache or built now (austen: about 2 s). Raises DataError, and nothing else.

    `key` draws the vault split; None means the key of this cache, made when it is first needed. `tell(stage, done)` is
    called with done from 0 to 1 for a progress bar. `url` is a mirror of climbmix.
    """
    try:
        return _load(corpus, cache, key, tell, url)
    except OSError as error:
        reason = f"{error.filename or cache}: {error.strerror or error}"
        raise DataError(f"cannot prepare data ({reason}): make room or give rights there, or use another cache folder") from error


def _load(corpus: str, cache: Path, key: bytes | None, tell: Tell, url: str | None) -> Prepared:
    cache.mkdir(parents=True, exist_ok=True)
    key = own_key(cache) if key is None else key
    source = _source(corpus, cache, tell, url)
    digest = _digest(source, key)
    if found := _read(cache / digest, digest, source):
        return found
    _build(source, key, cache, digest, tell)
    if _source(corpus, cache, tell, url).identity != source.identity:
        raise DataError(f"the corpus {corpus} changed while it was read: run this again when nobody writes to it")
    if found := _read(cache / digest, digest, source):
        return found
    raise DataError(f"what was just written to {cache / digest} does not read back: check that disk, or use another cache folder")


def _source(corpus: str, cache: Path, tell: Tell, url: str | None) -> Source:
    name, _, shards = corpus.partition(":")
    if corpus == "austen":
        return corpora.austen()
    if name == "climbmix" and (shards.isdecimal() or corpus == name):
        from evaluator import climbmix  # here: the HTTP client takes 0.1 s to import

        return climbmix.source(cache / "climbmix", shards=int(shards or climbmix.SHARDS), url=url or climbmix.URL, tell=tell)
    if Path(corpus).is_dir():
        return corpora.folder(Path(corpus))
    raise DataError(f"no corpus {corpus!r}: use austen, climbmix, climbmix:N, or a folder of .txt, .md or .parquet files")


def own_key(cache: Path) -> bytes:
    """The key of this cache, made once: whoever links it into place first wins, everybody else reads that one."""
    path = cache / KEY
    if not path.exists():
        handle, draft = tempfile.mkstemp(dir=cache, prefix=f".{KEY}-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            Path(draft).unlink()
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise DataError(f"{path} is damaged ({len(key)} bytes, not {KEY_BYTES}): delete it, and a new vault split will be drawn")
    return key


def _digest(source: Source, key: bytes) -> str:
    """16 hex digits. The key goes in hashed, under a name of its own, so that no digest tells anything of it."""
    parts = (FORMAT, source.identity, source.scale, corpora.CHUNK, corpora.EVERY, tokens.PATTERN)
    inputs = hashlib.sha256(repr(parts).encode())
    inputs.update(hashlib.sha256(b"autoresearch vault key\0" + key).digest())
    return inputs.hexdigest()[:16]


def _read(folder: Path, digest: str, source: Source) -> Prepared | None:
    found = tokens.read(folder)
    if found is None:
        return None
    train, public, vault = found
    size = source.scale
    return Prepared(
        vocab_size=size.vocab_size,
        context=size.context,
        bos=size.vocab_size - 1,
        digest=digest,
        folder=folder,
        train=train,
        public=public,
        vault=vault,
    )


def _build(source: Source, key: bytes, cache: Path, digest: str, tell: Tell) -> None:
    """Build aside and move into place: other processes see the old folder, or none, or the whole new one."""
    for old in cache.glob(".building-*"):
        if time.time() - old.stat().st_mtime > ABANDONED:
            shutil.rmtree(old, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=cache, prefix=f".building-{digest}-"))
    try:
        tell("reading", 0.0)
        tokens.write(draft, source.open(key), source.scale, tell)
        _into_place(draft, cache / digest)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _into_place(draft: Path, folder: Path) -> None:
    if folder.exists() and tokens.read(folder) is None:
        damaged = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".building-damaged-"))
        folder.rename(damaged / folder.name)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        draft.rename(folder)
    except OSError:
        if tokens.read(folder) is None:  # else another process was faster, with the same content
            raise


def main(arguments: list[str]) -> int:
    """Prepare, and say what was done. Returns 0, or 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="python -m evaluator.prepare", description="Prepare a corpus for training and scoring.")
    parser.add_argument("--corpus", default="austen", help="austen, climbmix, climbmix:N or a folder (default: austen)")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "autoresearch", help="default: %(default)s")
    parser.add_argument("--shards", type=int, help="training shards of climbmix; the same as --corpus climbmix:N")
    parser.add_argument("--url", help="a mirror of climbmix")
    asked = parser.parse_args(arguments)
    if asked.shards is not None and asked.corpus != "climbmix":
        parser.error("--shards goes with --corpus climbmix")
    corpus = asked.corpus if asked.shards is None else f"climbmix:{asked.shards}"
    began = time.monotonic()
    try:
        prepared = load(corpus, asked.cache, tell=partial(_print_progress, {}), url=asked.url)
    except DataError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    _print_summary(corpus, prepared, time.monotonic() - began)
    return 0


def _print_progress(shown: dict[str, int], stage: str, done: float) -> None:
    """A line for every tenth of a stage."""
    tenth = int(done * 10)
    if shown.get(stage, -1) < tenth:
        shown[stage] = tenth
        print(f"{stage} {tenth * 10} %", flush=True)


def _print_summary(corpus: str, prepared: Prepared, seconds: float) -> None:
    print(f"corpus      {corpus}, digest {prepared.digest}")
    print(f"tokenizer   {prepared.vocab_size} tokens, context {prepared.context}")
    print(f"training    {prepared.train.size:,} tokens")
    for name, held in (("public", prepared.public), ("vault", prepared.vault)):
        print(f"{name:<11} {sum(t.size for t in held.tokens):,} tokens, {held.nbytes:,} bytes, {len(held.tokens):,} documents")
    print(f"in          {prepared.folder}, {seconds:.1f} s")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
