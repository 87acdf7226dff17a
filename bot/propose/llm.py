"""The researcher: a model that reads where the campaign stands and proposes the next edit, or repairs one that crashed.

An answer that cannot be used is told back with its fault, at most `repairs` times; what then still is none, and whatever the
model's server does wrong, comes out as NoIdea with a reason for people. It can do nothing but propose: an answer is read for
edits of train.py and a few words, and nothing else in it has an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.events import Edit
from bot.propose import Brief, Idea, NoIdea, apply, prompt, proposal
from bot.propose.proposal import Proposal
from bot.propose.replies import Answer, Trouble
from bot.propose.wire import Ask, Model, Turn
from bot.spending import FREE, Spent
from bot.static import unchecked

SHARES = (1.0, 0.5, 0.25, 0.0)  # of the history, from one to the next where the prompt is too long for the model

Build = Callable[[float], str]


@dataclass(kw_only=True)
class Researcher:
    """A proposer on top of a model. What `Brief.refuses` says of edits that pass the static checks is told to the model."""

    model: Model
    name: str = "llm"
    fits: int = 0  # index into SHARES: how much of the history this model takes

    def propose(self, brief: Brief) -> Idea | NoIdea:
        """A new idea for brief.source."""
        return self._settle(brief, lambda share: prompt.joined(prompt.proposing(brief, share)), brief.source, brief.source)

    def repair(self, brief: Brief, source: str, edits: tuple[Edit, ...], traceback: str) -> Idea | NoIdea:
        """The same idea once more, without the crash that the traceback shows; its edits are for `source` again."""
        broken = apply(source, edits)
        if broken is None:
            return NoIdea(reason="the edit that crashed does not apply to this source")
        change = "\n".join(f"replaced:\n{edit.old}\nby:\n{edit.new}" for edit in edits)
        brief = replace(brief, source=source)
        return self._settle(
            brief, lambda share: prompt.joined(prompt.repairing(brief, broken, change, traceback, share)), source, broken
        )

    def _settle(self, brief: Brief, build: Build, base: str, seen: str) -> Idea | NoIdea:
        """Ask until an answer can be used. The model edits `seen`; what comes out are edits of `base`."""
        spent, fault, repeats = FREE, "", 0
        turns: tuple[Turn, ...] = ()

        def refuses(edits: tuple[Edit, ...]) -> str | None:
            nonlocal repeats
            words = brief.refuses(edits)
            repeats += words is not None
            return words

        for _ in range(self.model.settings.repairs + 1):
            got = self._ask(brief, build, turns, spent)
            spent = spent + got.spent
            if isinstance(got, Trouble):
                return NoIdea(reason=got.words, halt=got.halt, spent=spent, repeats=repeats)
            try:
                found = self._read(replace(brief, refuses=refuses), got, base, seen)
            except Exception as error:  # noqa: BLE001  what a model writes may be odd in ways that nobody thought of
                found = unchecked(error)
            if isinstance(found, Idea):
                return replace(found, spent=spent, repeats=repeats)
            fault = found
            turns = (Turn("assistant", got.text), Turn("user", prompt.AGAIN.format(fault=fault)))
        times = f"after {self.model.settings.repairs} repairs" if self.model.settings.repairs else "at the first try"
        return NoIdea(reason=f"the model's answer could not be used, {times}: {fault}", spent=spent, repeats=repeats)

    def _ask(self, brief: Brief, build: Build, turns: tuple[Turn, ...], spent: Spent) -> Answer | Trouble:
        """The answer, with less of the history where the prompt does not fit. How much fits is remembered."""
        left, before = brief.usd_left, FREE
        while True:
            ask = Ask(
                system=prompt.SYSTEM, turns=(Turn("user", build(SHARES[self.fits])), *turns), schema=proposal.SCHEMA,
                plain=proposal.FORM, usd_left=None if left is None else left - spent.usd - before.usd,
            )  # fmt: skip
            got = self.model.ask(ask)
            before = before + got.spent
            if isinstance(got, Answer) or got.kind != "overflow" or self.fits == len(SHARES) - 1:
                return replace(got, spent=before)
            self.fits += 1

    def _read(self, brief: Brief, got: Answer, base: str, seen: str) -> Idea | str:
        """The idea in an answer, or its fault."""
        read = proposal.parse(got.text)
        if isinstance(read, str):
            return read
        edits = proposal.edits_of(seen, read, brief.tried)
        if not isinstance(edits, str) and base != seen:
            edits = proposal.edits_of(base, replace(read, blocks=(), whole_file=apply(seen, edits) or ""), brief.tried)
        if isinstance(edits, str):
            return edits
        return brief.refuses(edits) or _idea(read, edits, self.name)


def _idea(read: Proposal, edits: tuple[Edit, ...], name: str) -> Idea:
    return Idea(
        title=read.title, hypothesis=read.hypothesis, expected_effect=read.expected_effect, tags=read.tags, edits=edits,
        proposer=name,
    )  # fmt: skip
