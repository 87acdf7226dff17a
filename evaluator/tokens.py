"""From documents to tokens on disk and back: the tokenizer, the encoding, and the checks of one cache folder.

    train.bin  public.bin  vault.bin    little-endian uint16, no header (a file descriptor of train.bin can be mapped as it is)
    tokenizer.txt                       one line a token, its bytes in hex; the line number is its rank
    manifest.json                       sizes and SHA-256 of the files above, document lengths, raw bytes, and its own seal

A token is bytes, not characters: one may end in the middle of a UTF-8 character. So nothing here ever decodes single tokens
to text, and the raw bytes of a split are counted on the text itself, before it is encoded.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from evaluator.corpus import DataError, Scale, Split, Tell, file_hash

if TYPE_CHECKING:
    import tiktoken

# GPT-4's split (cl100k_base in https://github.com/openai/tiktoken), but at most two digits in a token instead of three:
# a small vocabulary has no room for a thousand numbers.
PATTERN = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,2}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
BOS = "<|bos|>"
TOKEN = np.dtype("<u2")
BATCH = 1024  # documents encoded at a time
HASHED_BELOW = 32 << 20  # bytes: a larger training file is checked by size only, hashing it at each load would take too long


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """A held-out split: one 1-d array of tokens a document, without BOS, and the raw UTF-8 bytes of exactly these documents."""

    tokens: tuple[NDArray[np.uint16], ...]
    nbytes: int


def write(folder: Path, split: Split, scale: Scale, tell: Tell) -> None:
    """Learn the tokenizer from the training text, encode all splits, and seal the folder with its manifest."""
    _learn(folder, split, scale, tell)
    encoder = encoding(folder)
    _write_train(folder / "train.bin", split, encoder, scale, tell)
    body: dict[str, Any] = {
        "public": _write_held(folder / "public.bin", split.public, encoder),
        "vault": _write_held(folder / "vault.bin", split.vault, encoder),
    }
    body["files"] = {p.name: {"size": p.stat().st_size, "sha256": file_hash(p)} for p in sorted(folder.iterdir())}
    (folder / "manifest.json").write_text(json.dumps(body | {"seal": _seal(body)}, indent=1))
    tell("encoding", 1.0)


def read(folder: Path) -> tuple[NDArray[np.uint16], HeldOut, HeldOut] | None:
    """Training tokens, public and vault split; None when the folder is not there or not what was written."""
    try:
        body = json.loads((folder / "manifest.json").read_text())
        if body.pop("seal") != _seal(body):
            return None
        if not all(unchanged(folder / name, **entry) for name, entry in body["files"].items()):
            return None
        train = np.memmap(folder / "train.bin", dtype=TOKEN, mode="r")
        return train, _read_held(folder / "public.bin", body["public"]), _read_held(folder / "vault.bin", body["vault"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, AttributeError):
        return None


def encoding(folder: Path) -> tiktoken.Encoding:
    """The tokenizer of a cache folder; its last token is BOS."""
    import tiktoken  # here: a measurement maps tokens that exist, and need not wait for this import

    lines = (folder / "tokenizer.txt").read_text().splitlines()
    ranks = {bytes.fromhex(line): rank for rank, line in enumerate(lines)}
    return tiktoken.Encoding(name="autoresearch", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={BOS: len(ranks)})


def _learn(folder: Path, split: Split, scale: Scale, tell: Tell) -> None:
    try:
        import rustbpe  # an extra: only a machine that trains has it
    except ImportError:
        raise DataError("rustbpe, which learns the tokenizer, is not installed: pip install 'autoresearch-bot[train]'") from None
    size = min(split.train_bytes, scale.learnt)
    learner = rustbpe.Tokenizer()
    texts = (text.decode() for text in _telling(_up_to(split.train(), scale.learnt), "tokenizer", size, tell))
    learner.train_from_iterator(texts, vocab_size=scale.vocab_size - 1, pattern=PATTERN)
    ranks = sorted((rank, bytes(token)) for token, rank in learner.get_mergeable_ranks())
    if len(ranks) != scale.vocab_size - 1:
        raise DataError(f"the text is too little or too uniform for {scale.vocab_size} tokens ({len(ranks)} found): add text")
    tell("tokenizer", 1.0)
    (folder / "tokenizer.txt").write_text("".join(f"{token.hex()}\n" for _, token in ranks))


def _write_train(path: Path, split: Split, encoder: tiktoken.Encoding, scale: Scale, tell: Tell) -> None:
    bos = np.array([scale.vocab_size - 1], dtype=TOKEN).tobytes()
    with path.open("wb") as file:
        for tokens in _encoded(_telling(split.train(), "encoding", split.train_bytes, tell), encoder):
            file.write(bos + tokens.tobytes())
        _sync(file)


def _write_held(path: Path, documents: list[bytes], encoder: tiktoken.Encoding) -> dict[str, Any]:
    """Write the tokens of a held-out split; return its entry in the manifest."""
    lengths = []
    with path.open("wb") as file:
        for document, tokens in zip(documents, _encoded(documents, encoder), strict=True):
            assert encoder.decode_bytes(tokens.tolist()) == document, "a token stream that is not its text"
            file.write(tokens.tobytes())
            lengths.append(tokens.size)
        _sync(file)
    return {"lengths": lengths, "nbytes": sum(len(document) for document in documents)}


def _read_held(path: Path, entry: dict[str, Any]) -> HeldOut:
    tokens = np.frombuffer(path.read_bytes(), dtype=TOKEN)
    ends = np.cumsum(entry["lengths"])
    return HeldOut(tokens=tuple(np.split(tokens, ends[:-1])), nbytes=entry["nbytes"])


def _encoded(documents: Iterable[bytes], encoder: tiktoken.Encoding) -> Iterator[NDArray[np.uint16]]:
    """Tokens of each document. "<|bos|>" in a text is eight letters like any others, never the special token."""

    def encode(document: bytes) -> NDArray[np.uint16]:
        return encoder.encode_to_numpy(document.decode(), disallowed_special=()).astype(TOKEN)

    waiting = iter(documents)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the encoder releases the interpreter lock
        while batch := list(islice(waiting, BATCH)):
            yield from pool.map(encode, batch)


def _up_to(documents: Iterable[bytes], limit: int) -> Iterator[bytes]:
    for document in documents:
        if limit <= 0:
            return
        limit -= len(document)
        yield document


def _telling(documents: Iterable[bytes], stage: str, size: int, tell: Tell) -> Iterator[bytes]:
    """The same documents; says after each how much of `size` bytes has gone by."""
    done = 0
    for document in documents:
        yield document
        done += len(document)
        tell(stage, min(1.0, done / size))


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _seal(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def unchanged(path: Path, size: int, sha256: str) -> bool:
    """Whether a file is what the manifest says; of training tokens over HASHED_BELOW only the size is looked at."""
    if path.stat().st_size != size:
        return False
    return (path.name == "train.bin" and size > HASHED_BELOW) or file_hash(path) == sha256
