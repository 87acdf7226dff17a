"""The GPU corpus: ClimbMix 400B, shuffled, as parquet shards on Hugging Face. Downloads them; knows nothing of tokens.

Training text comes from the first shards, held-out text from the last one, as in the original autoresearch. A shard counts
as there only after its size and its hash were compared with what the server promised; it then stands under its final name
with a small .json beside it that records both. An interrupted download is a .part file, which the next attempt resumes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import requests

from evaluator.corpus import LARGE, PUBLIC, DataError, Source, Split, Tell, file_hash, pick, rows, take

URL = "https://huggingface.co/datasets/karpathy/climbmix-400b-shuffle/resolve/main"
VALIDATION = 6542  # the last shard: never trained on
SHARDS = 10  # the original's default: about 0.5 billion tokens, one pass of five minutes on an H100
ATTEMPTS = 6
TIMEOUT = 30  # seconds without a byte
BLOCK = 1 << 16  # bytes; when a connection breaks, at most this much comes twice


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What the server says of a file; a field is None where it says nothing."""

    size: int | None
    sha256: str | None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a shard was when it was checked."""

    size: int
    sha256: str


class _Again(Exception):
    """This attempt failed in a way that another one may heal."""


def source(home: Path, *, shards: int, url: str = URL, tell: Tell = lambda stage, done: None) -> Source:
    """The first `shards` training shards and the validation shard, downloaded to `home` unless known already."""
    if not 1 <= shards <= VALIDATION:
        raise DataError(f"climbmix:{shards} is not possible: the number of training shards goes from 1 to {VALIDATION}")
    home.mkdir(parents=True, exist_ok=True)
    names = [f"shard_{i:05d}.parquet" for i in [*range(shards), VALIDATION]]
    records = {}
    for k, name in enumerate(names):
        share = partial(_tell_share, tell, k, len(names))
        records[home / name] = _known(home / name) or fetch(f"{url}/{name}", home / name, tell=share)
    identity = hashlib.sha256("".join(record.sha256 for record in records.values()).encode()).hexdigest()
    return Source(identity=identity, scale=LARGE, open=lambda key: _open(records, url, key))


def _tell_share(tell: Tell, k: int, of: int, done: float) -> None:
    tell("downloading", (k + done) / of)


def _open(records: dict[Path, Record], url: str, key: bytes) -> Split:
    """Both held-out splits lie in the validation shard: public among the even rows, vault among the odd ones."""
    for path, record in records.items():
        _ensure_unchanged(path, record, url)
    *training, validation = records
    sizes = dict(enumerate(len(row) for row in rows(validation)))
    public = pick({i: n for i, n in sizes.items() if i % 2 == 0}, PUBLIC, LARGE.scored)
    vault = pick({i: n for i, n in sizes.items() if i % 2 == 1}, key, LARGE.scored)
    held = take(lambda: rows(validation), public | vault)

    def train() -> Iterator[bytes]:
        return (row for path in training for row in rows(path))

    return Split(
        train=train,
        train_bytes=len(training) * sum(sizes.values()),  # shards are of about one size
        public=[held[i] for i in public],
        vault=[held[i] for i in vault],
    )


def _ensure_unchanged(path: Path, record: Record, url: str) -> None:
    if path.is_file() and path.stat().st_size == record.size and file_hash(path) == record.sha256:
        return
    path.unlink(missing_ok=True)
    _beside(path).unlink(missing_ok=True)
    if fetch(f"{url}/{path.name}", path) != record:
        raise DataError(f"{path.name} has changed at {url} since it was first fetched: run this again to prepare the new data")


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _known(path: Path) -> Record | None:
    """The record of a shard. The shard itself may be gone: once its tokens are cached nobody needs it."""
    try:
        return Record(**json.loads(_beside(path).read_text()))
    except FileNotFoundError:
        return _remember(path) if path.is_file() else None  # killed between the last two steps, or copied here by hand
    except (ValueError, TypeError):
        return None


def _remember(path: Path) -> Record:
    record = Record(size=path.stat().st_size, sha256=file_hash(path))
    draft = path.with_name(f"{path.name}.json.{os.getpid()}")
    draft.write_text(json.dumps(asdict(record)))
    draft.rename(_beside(path))
    return record


def fetch(
    url: str, path: Path, *, tell: Callable[[float], None] = lambda done: None, pause: Callable[[float], None] = time.sleep
) -> Record:
    """Download one file, whole or not at all. Raises DataError; what has come so far stays in a .part file."""
    part = path.with_name(path.name + ".part")
    with part.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # a second process waits here until the first has the file
        if path.is_file():
            return _known(path) or _remember(path)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _attempt(url, file, tell)
                break
            except _Again as again:
                reason = str(again)
            if attempt == ATTEMPTS:
                raise DataError(f"could not download {url} in {ATTEMPTS} attempts ({reason}): try again later")
            pause(min(2.0**attempt, 60.0))
        os.fsync(file.fileno())
        part.rename(path)
    return _remember(path)


def _attempt(url: str, file: BinaryIO, tell: Callable[[float], None]) -> None:
    """Ask for what is missing of the file, append it, and compare the whole with the promise."""
    have = os.fstat(file.fileno()).st_size
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            promise = _promise(response)
            _check_answer(response, promise, file)
            came = have if response.status_code == 206 else 0
            for block in response.iter_content(BLOCK):
                file.write(block)
                came += len(block)
                tell(min(1.0, came / promise.size) if promise.size else 0.0)
    except requests.RequestException as error:
        raise _Again(f"connection lost or refused: {type(error).__name__}") from None
    finally:
        file.flush()
    _check_whole(file, promise)


def _check_answer(response: requests.Response, promise: Promise, file: BinaryIO) -> None:
    """Go on, start over or give up, before a byte is written."""
    status = response.status_code
    if status == 416:  # the .part is longer than the file
        file.truncate(0)
    if status in (408, 416, 425, 429) or status >= 500:
        raise _Again(f"the server answered {status}")
    if status not in (200, 206):
        raise DataError(f"{_asked(response)} answered {status} ({response.reason}): check it, and that anyone may read it")
    if promise.size is None and promise.sha256 is None:
        raise DataError(f"{_asked(response)} tells neither size nor hash, so nothing could be checked: use another mirror")
    if status == 200:
        file.truncate(0)
    elif promise.sha256 is None:
        file.truncate(0)  # nothing would tell a file sewn together from two versions
        raise _Again("the download could not be resumed safely")


def _asked(response: requests.Response) -> str:
    """The address that was asked for, not where redirects led (those carry signatures)."""
    return [*response.history, response][0].url


def _promise(response: requests.Response) -> Promise:
    """Size and SHA-256. Hugging Face names both on the redirect, not on the file that it leads to.

    X-Linked-Size and X-Linked-ETag (the SHA-256 of a file in LFS):
    https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/file_download.py
    """
    chain = [*response.history, response]
    tags = [r.headers.get(name, "").strip('"') for name in ("X-Linked-ETag", "ETag") for r in chain]
    sha256 = next((tag for tag in tags if re.fullmatch("[0-9a-f]{64}", tag)), None)
    linked = [r.headers["X-Linked-Size"] for r in chain if "X-Linked-Size" in r.headers]
    if response.status_code == 206:
        linked.append(response.headers.get("Content-Range", "").rpartition("/")[2])
    else:
        linked.append(response.headers.get("Content-Length", ""))
    size = next((int(text) for text in linked if text.isdecimal()), None)
    return Promise(size=size, sha256=sha256)


def _check_whole(file: BinaryIO, promise: Promise) -> None:
    size = os.fstat(file.fileno()).st_size
    if promise.size is not None and size < promise.size:
        raise _Again(f"only {size} of {promise.size} bytes came")
    if promise.size is not None and size > promise.size:
        file.truncate(0)
        raise _Again(f"{size} bytes came where {promise.size} were promised")
    if promise.sha256 is not None and file_hash(Path(file.name)) != promise.sha256:
        file.truncate(0)
        raise _Again("what came does not have the promised SHA-256")
