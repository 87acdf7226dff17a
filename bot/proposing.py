"""The deeds of proposing: an idea is asked for, checked and reviewed, and a candidate that crashed is mended.

What comes back is a candidate, or a refusal with its reason: nothing that a proposer says does anything else. Who proposes, who
reviews and who mends is in World.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from bot import actions as a
from bot import events as e
from bot import static
from bot.briefing import brief, left, past
from bot.log import KNOWLEDGE
from bot.propose import Idea, NoIdea, apply
from bot.propose.near import near
from bot.propose.proposal import contract_fault
from bot.propose.review import TRAINER, Rejected, Reviewer, diff_of
from bot.propose.tried import Tried
from bot.report import markdown
from bot.spending import FREE, Spent
from bot.state import Campaign, branch_of
from bot.world import World, editable, source_at


@dataclass
class Memory:
    """What edits of `source` are held against. Called, it says which earlier idea they repeat; it counts how often they did."""

    source: str
    past: tuple[Tried, ...]
    campaign: str
    repeats: int = 0
    known: dict[tuple[e.Edit, ...], str | None] = field(default_factory=dict)

    def __call__(self, edits: tuple[e.Edit, ...]) -> str | None:
        if edits not in self.known:
            self.known[edits] = self._seen(edits)
        return self.known[edits]

    def _seen(self, edits: tuple[e.Edit, ...]) -> str | None:
        try:
            found = near(self.source, edits, self.past, self.campaign)
        except Exception as error:  # noqa: BLE001  see check
            return static.unchecked(error)
        self.repeats += found is not None
        return found.words if found else None


@dataclass(frozen=True, kw_only=True)
class Fine:
    """It may be run. `review`: who looked at it, and what they had to say."""

    edited: str
    review: str
    spent: Spent


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why it may not; `source` names what it would have made, see static.hash_of."""

    reason: str
    source: str = ""
    repeats: int = 0
    spent: Spent = FREE


def propose(world: World, c: Campaign, action: a.Propose) -> e.Event | None:
    """One idea for the tip, as a candidate, a refusal or a pause."""
    world = world.minded(world, c)
    source = source_at(world, c, c.candidates[action.parent].sha)
    tried = past(world.code, c)
    memory = Memory(source, tried, c.name)
    asked = brief(world.code, c, action.parent, action.seed, past=tried, learned=world.log.beside(KNOWLEDGE))
    idea = world.proposer.propose(replace(asked, refuses=memory))
    if isinstance(idea, NoIdea):
        return _nothing(world, c, idea, memory.repeats)
    checked = check(world.reviewer, c, idea, source, asked.tried, memory)
    if isinstance(checked, Refusal):
        return e.ProposalRefused(
            campaign=c.name, at=world.now(), title=_storable(idea.title), reason=_storable(checked.reason), parent=action.parent,
            source=checked.source, spent=idea.spent + checked.spent, repeats=memory.repeats + checked.repeats,
        )  # fmt: skip
    by = idea.proposer or world.proposer.name
    return e.Proposed(
        campaign=c.name, at=world.now(), n=action.n, parent=action.parent, title=_storable(idea.title),
        hypothesis=_storable(idea.hypothesis), edits=idea.edits, tags=tuple(map(_storable, idea.tags)), proposer=by,
        source=static.hash_of(checked.edited), shorter=static.size(source) - static.size(checked.edited),
        expected_effect=_storable(idea.expected_effect), spent=idea.spent + checked.spent, repeats=memory.repeats,
        review=_storable(checked.review), repairs=c.settings.model.repairs if world.mender and world.mender.name == by else 0,
    )  # fmt: skip


def _nothing(world: World, c: Campaign, idea: NoIdea, repeats: int) -> e.Event:
    reason = _storable(idea.reason)
    if idea.halt == "pause":
        return e.Paused(campaign=c.name, at=world.now(), reason=reason, spent=idea.spent)
    return e.ProposalRefused(
        campaign=c.name, at=world.now(), title="no proposal", reason=reason, exhausted=idea.exhausted,
        broke=idea.halt == "money", spent=idea.spent, repeats=repeats,
    )  # fmt: skip


def check(
    reviewer: Reviewer, c: Campaign, idea: Idea, source: str, tried: frozenset[str], memory: Memory
) -> Fine | Refusal:  # fmt: skip
    """Everything that can be known without a run: soundness, the contract, repeats; then the reviewer. Code that a model wrote
    may be odd in ways that nobody thought of: what breaks a check is refused, and the campaign goes on."""
    try:
        return _check(reviewer, c, idea, source, tried, memory)
    except Exception as error:  # noqa: BLE001  as said above
        return Refusal(reason=static.unchecked(error))


def _check(
    reviewer: Reviewer, c: Campaign, idea: Idea, source: str, tried: frozenset[str], memory: Memory
) -> Fine | Refusal:  # fmt: skip
    edited = apply(source, idea.edits)
    fault = static.fault(source, edited, tried)
    if edited is None or fault:
        made = "" if edited is None else static.hash_of(edited)
        return Refusal(reason=fault or "", source=made, repeats=int(made in tried and made != static.hash_of(source)))
    made = static.hash_of(edited)
    lost = contract_fault(edited) if contract_fault(source) is None else None
    if words := lost or memory(idea.edits):
        return Refusal(reason=words, source=made)
    usd_left = left(c)
    seen = reviewer.review(
        source, edited, diff_of(source, edited, editable(c)), replace(TRAINER, path=editable(c)), hoped=hoped(idea),
        usd_left=None if usd_left is None else usd_left - idea.spent.usd,
    )  # fmt: skip
    if isinstance(seen, Rejected):
        return Refusal(reason=f"the reviewer ({seen.by}) refuses it: {'; '.join(seen.reasons)}", source=made, spent=seen.spent)
    return Fine(edited=edited, review=f"approved by {seen.by}" + (f"; {seen.note}" if seen.note else ""), spent=seen.spent)


def hoped(idea: Idea) -> float | None:
    """The gain that its proposer names, in bits per byte: the largest decimal that may be one. None when there is none."""
    named = [float(number) for number in re.findall(r"(?<![\d.])0?\.\d{1,9}(?![\d.])", idea.expected_effect)]
    return max(named, default=None)


def repair(world: World, c: Campaign, action: a.Repair) -> e.Event | None:
    """A candidate that crashed, mended by whom proposed it: the same branch, another commit. Killed before it was written down,
    it is asked for again, and what was pushed is overwritten."""
    world, x = world.minded(world, c), c.candidates[action.n]
    if world.mender is None:
        return e.NotRepaired(campaign=c.name, at=world.now(), n=x.n, reason="who proposed it is not there any more")
    source = source_at(world, c, x.on)
    tried = tuple(row for row in past(world.code, c) if (row.campaign, row.n) != (c.name, x.n))
    memory = Memory(source, tried, c.name)
    asked = brief(world.code, c, x.parent, 0, past=tried, learned=world.log.beside(KNOWLEDGE))
    asked = replace(asked, source=source, refuses=memory)
    idea = world.mender.repair(asked, source, x.edits, f"{x.result.get('log_tail', '')}\n{x.fault}")
    if isinstance(idea, NoIdea) and idea.halt == "pause":
        return _nothing(world, c, idea, 0)
    checked = _refused(idea) if isinstance(idea, NoIdea) else check(world.reviewer, c, idea, source, asked.tried, memory)
    spent = idea.spent + checked.spent
    if isinstance(checked, Refusal) or isinstance(idea, NoIdea):
        reason = checked.reason if isinstance(checked, Refusal) else ""
        return e.NotRepaired(campaign=c.name, at=world.now(), n=x.n, reason=_storable(reason), spent=spent)
    head = world.code.commit_file(x.on, editable(c), checked.edited, markdown.commit_message(c, x), when=x.at)
    world.forge.push(branch_of(c.name, x.n), head)
    return e.Repaired(
        campaign=c.name, at=world.now(), n=x.n, edits=idea.edits, base=x.on, head=head, guard=world.code.guard_of(head),
        source=static.hash_of(checked.edited), shorter=static.size(source) - static.size(checked.edited), spent=spent,
    )  # fmt: skip


def _refused(idea: NoIdea) -> Refusal:
    return Refusal(reason=idea.reason)


def _storable(text: str) -> str:
    """Words of a proposer as the log can hold them: half a surrogate pair is no UTF-8."""
    return text.encode("utf-8", "replace").decode()
