"""What each token of the public text cost under code that was measured here: an audit looks where there was most to gain.

One small file for each (code, data, device) on the machine that measures, in its cache, where no candidate can reach it. An ok
run writes its own and a later run of the same code writes over it; whoever is compared with that code reads it. Nothing is lost
but sharpness when a file is gone: whatever is missing, damaged or of another size is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILES, BYTES = 16, 2**28  # at most so much is kept; of the largest corpus, 20 MB of text, one file takes about 20 MB
WORST = -1e6  # nats: no candidate can say anything that float32 has no room for
DIGEST = hashlib.sha256().digest_size


def name_of(code: str, data: str, device: str) -> str:
    """Of the file; `code` and `data` are names of the caller's, of any form."""
    return hashlib.sha256(repr((code, data, device)).encode()).hexdigest()[:32]


def keep(folder: Path, name: str, numbers: NDArray[np.float64]) -> None:
    """Write log-probabilities (nats, one for each scored token in order) whole or not at all; then forget the oldest files.

    A disk that is full costs nothing but the file.
    """
    body = numbers.clip(WORST, 0.0).astype("<f4").tobytes()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{name}-{uuid.uuid4().hex}"
        draft.write_bytes(hashlib.sha256(body).digest() + body)
        draft.rename(folder / name)
        _forget(folder)


def recall(folder: Path, name: str) -> NDArray[np.float64] | None:
    """What was written last under that name, to float32; None when it is not there or damaged."""
    try:
        content = (folder / name).read_bytes()
    except OSError:
        return None
    digest, body = content[:DIGEST], content[DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(folder / name)  # what is read is needed: others are forgotten first
    return np.frombuffer(body, dtype="<f4").astype(np.float64)


def _forget(folder: Path) -> None:
    """Delete what is beyond FILES or BYTES, what was not used for longest first; drafts of killed writers with it."""
    found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir())
    total = 0
    for place, (_, size, path) in enumerate(reversed(found), 1):
        total += size
        if place > FILES or total > BYTES:
            path.unlink(missing_ok=True)
