"""A walk with nothing of ours replaced: the longest test here. `make e2e` has another, with a merge, and shows what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.others import Missing
from tests.e2e import Disturbed, a_machine_that_dies, lacking, place


@pytest.mark.timeout(300)
def test_a_machine_dies_while_it_trains(tmp_path: Path) -> None:
    """Its comment, model, trainings, pull request, check and message are real or somebody else's doubles: see tests/e2e.py."""
    if reason := lacking():
        pytest.skip(reason)
    try:
        with place(tmp_path, baseline=1) as there:
            a_machine_that_dies(there)
    except (Missing, Disturbed) as reason:
        pytest.skip(str(reason))
