"""What is remembered of the incumbent's single tokens: it comes back as it was, or not at all, and never grows without bound."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from evaluator import shelf

NUMBERS = -np.random.default_rng(1).exponential(2.0, 5000)


def test_what_is_kept_comes_back_under_its_name(tmp_path: Path) -> None:
    """To float32, the last one written; another code, data or device is another name."""
    name = shelf.name_of("guard", "digest", "cpu")
    shelf.keep(tmp_path / "made" / "anew", name, NUMBERS - 1.0)
    shelf.keep(tmp_path / "made" / "anew", name, NUMBERS)
    assert shelf.recall(tmp_path / "made" / "anew", name) == pytest.approx(NUMBERS, rel=1e-6)
    others = [shelf.name_of(*key) for key in (("other", "digest", "cpu"), ("guard", "other", "cpu"), ("guard", "digest", "cuda"))]
    assert len({name, *others}) == 4
    assert all(shelf.recall(tmp_path / "made" / "anew", other) is None for other in others)


def test_any_name_of_code_is_safe_as_a_file(tmp_path: Path) -> None:
    """A path that leads elsewhere is only a name."""
    shelf.keep(tmp_path / "shelf", shelf.name_of("../../escape", "x", "cpu"), NUMBERS)
    assert [path.parent.name for path in tmp_path.rglob("*") if path.is_file()] == ["shelf"]


def test_numbers_that_float32_cannot_hold_come_back_finite(tmp_path: Path) -> None:
    """A candidate that is infinitely wrong somewhere must not spoil the gains of the next one."""
    shelf.keep(tmp_path, "x", np.array([-1e300, -np.inf, 0.5, -2.0]))
    assert (shelf.recall(tmp_path, "x") == [shelf.WORST, shelf.WORST, 0.0, -2.0]).all()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:40], lambda b: b"", lambda b: b[:50] + b"x" + b[51:]])
def test_a_damaged_file_is_not_there(tmp_path: Path, damage: object) -> None:
    """Cut, emptied or with one byte changed: nothing comes back, and nothing is raised."""
    shelf.keep(tmp_path, "x", NUMBERS)
    path = tmp_path / "x"
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert shelf.recall(tmp_path, "x") is None


def test_a_place_that_cannot_be_written_costs_nothing_but_the_file(tmp_path: Path) -> None:
    """The measurement goes on."""
    (tmp_path / "taken").write_text("a file where the folder should be")
    shelf.keep(tmp_path / "taken", "x", NUMBERS)
    assert shelf.recall(tmp_path / "taken", "x") is None


def test_what_was_not_used_for_longest_is_forgotten_first(tmp_path: Path) -> None:
    """The incumbent, which is read with every candidate, stays; so does the newest; drafts of killed writers go."""
    (tmp_path / ".draft-of-a-killed-writer").write_bytes(b"x")
    os.utime(tmp_path / ".draft-of-a-killed-writer", (0, 0))
    for k in range(3 * shelf.FILES):
        shelf.keep(tmp_path, f"{k}", NUMBERS)
        os.utime(tmp_path / f"{k}", (k, k))  # as if a second lay between them
        if k:
            assert shelf.recall(tmp_path, "0") is not None
    left = {path.name for path in tmp_path.iterdir()}
    assert {"0", f"{3 * shelf.FILES - 1}"} <= left and len(left) == shelf.FILES
    assert ".draft-of-a-killed-writer" not in left


def test_large_files_leave_room_for_fewer(tmp_path: Path) -> None:
    """The sum of all bytes is bounded as well: old ones go when a new one needs their room."""
    for k in range(3):
        with (tmp_path / f"old-{k}").open("wb") as file:
            file.truncate(shelf.BYTES // 3)  # sparse: costs no disk
        os.utime(tmp_path / f"old-{k}", (k, k))
    shelf.keep(tmp_path, "new", NUMBERS)
    assert {path.name for path in tmp_path.iterdir()} == {"old-1", "old-2", "new"}
