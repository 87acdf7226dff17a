"""The deeds of proposing: an idea is asked for, checked and reviewed, and a candidate that crashed is mended.

What comes back is a candidate, or a refusal with its reason: nothing that a proposer says does anything else. Who proposes, who
reviews and who mends is in World.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bot import actions as a
from bot import events as e
from bot import static
from bot.briefing import brief, past
from bot.forge import ForgeError
from bot.git import GitError
from bot.log import KNOWLEDGE
from bot.propose import Brief, Idea, Mender, NoIdea, apply
from bot.propose.near import near
from bot.propose.proposal import contract_fault
from bot.propose.review import TRAINER, NotReviewed, Rejected, Reviewer, diff_of
from bot.propose.tried import Tried
from bot.remote import Busy
from bot.report import markdown
from bot.spending import FREE, Spent
from bot.state import Campaign, Candidate, branch_of
from bot.world import World, editable, source_at


@dataclass
class Memory:
    """What edits of `source` are held against. Called, it says which earlier idea they repeat."""

    source: str
    past: tuple[Tried, ...]
    campaign: str
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
        return found.words if found else None


@dataclass(frozen=True, kw_only=True)
class Fine:
    """It may be run. `review`: who looked at it, and what they had to say."""

    edited: str
    review: str
    spent: Spent


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why it may not; `source` names what it would have made, see static.hash_of. `halt`: nobody could review it, see NoIdea."""

    reason: str
    halt: str = ""
    source: str = ""
    repeats: int = 0
    spent: Spent = FREE


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, and all that an idea is held against: texts and numbers of one moment, whatever happens until the answer."""

    brief: Brief
    memory: Memory
    path: str  # of the file that is edited
    parent: int  # the candidate whose code that is
    who: tuple[str, str]  # the names of whoever proposes, and of whoever mends


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer. Of what is no idea `checked` says why."""

    question: Question
    idea: Idea | NoIdea
    checked: Fine | Refusal

    @property
    def spent(self) -> Spent:
        return self.idea.spent + self.checked.spent

    @property
    def repeats(self) -> int:
        return self.idea.repeats + (self.checked.repeats if isinstance(self.checked, Refusal) else 0)


def propose(world: World, c: Campaign, action: a.Propose) -> e.Event | None:
    """One idea for the tip, as a candidate, a refusal or a pause; None while somebody thinks. If there is another tip meanwhile
    it is still one for the tip for which it was asked, like every candidate that waits."""
    found = world.asked(f"{c.name}: propose", lambda owed: _proposal(world.minded(world, c), c, action, owed))
    if found is None:
        return None
    with _owing(world, c, found):
        return _told(world, c, action, found)


@contextmanager
def _owing(world: World, c: Campaign, found: Found) -> Iterator[None]:
    """Whatever keeps what comes of an answer from the log, its price is owed."""
    try:
        yield
    except Exception:
        if found.spent.calls:
            world.owed.append(e.Billed(campaign=c.name, at=world.now(), spent=found.spent))
        raise


def _told(world: World, c: Campaign, action: a.Propose, found: Found) -> e.Event:
    idea, checked, parent = found.idea, found.checked, found.question.parent
    if isinstance(checked, Refusal) and checked.halt == "pause":
        return _paused(world, c, found)
    if isinstance(checked, Refusal) or isinstance(idea, NoIdea):
        return _not_proposed(world, c, found)
    by = idea.proposer or found.question.who[0]
    return e.Proposed(
        campaign=c.name, at=world.now(), n=action.n, parent=parent, title=_storable(idea.title),
        hypothesis=_storable(idea.hypothesis), edits=idea.edits, tags=tuple(map(_storable, idea.tags)), proposer=by,
        source=static.hash_of(checked.edited), shorter=static.size(found.question.brief.source) - static.size(checked.edited),
        expected_effect=_storable(idea.expected_effect), spent=found.spent, repeats=found.repeats,
        review=_storable(checked.review), repairs=c.settings.model.repairs if by == found.question.who[1] else 0,
    )  # fmt: skip


def _proposal(world: World, c: Campaign, action: a.Propose, owed: Spent) -> Callable[[], Found]:
    """Everything that is read of the campaign is read now; `owed` is what its log does not know yet of what was spent."""
    tried = past(world.code, c)
    asked = brief(world.code, c, action.parent, action.seed, past=tried, learned=world.log.beside(KNOWLEDGE))
    asked = replace(asked, source=source_at(world, c, c.candidates[action.parent].sha))
    question = _question(world, c, asked, tried, action.parent, owed)
    return lambda: _answer(world.reviewer, question, world.proposer.propose(question.brief))


def _question(world: World, c: Campaign, asked: Brief, tried: tuple[Tried, ...], parent: int, owed: Spent) -> Question:
    left = None if asked.usd_left is None else asked.usd_left - owed.usd
    memory, who = Memory(asked.source, tried, c.name), (world.proposer.name, world.mender.name if world.mender else "")
    asked = replace(asked, refuses=memory, usd_left=left)
    return Question(brief=asked, memory=memory, path=editable(c), parent=parent, who=who)


def _answer(reviewer: Reviewer, question: Question, idea: Idea | NoIdea) -> Found:
    if isinstance(idea, NoIdea):
        return Found(question=question, idea=idea, checked=Refusal(reason=idea.reason, halt=idea.halt))
    return Found(question=question, idea=idea, checked=check(reviewer, question, idea))


def _paused(world: World, c: Campaign, found: Found, reason: str = "") -> e.Event:
    reason = reason or (found.checked.reason if isinstance(found.checked, Refusal) else "")
    return e.Paused(campaign=c.name, at=world.now(), reason=_storable(reason), spent=found.spent)


def _not_proposed(world: World, c: Campaign, found: Found) -> e.Event:
    """No idea, one that is refused, or one that nobody could review."""
    idea, checked, parent = found.idea, found.checked, found.question.parent
    assert isinstance(checked, Refusal)
    return e.ProposalRefused(
        campaign=c.name, at=world.now(), title=_storable(idea.title) if isinstance(idea, Idea) else "no proposal",
        reason=_storable(checked.reason), exhausted=isinstance(idea, NoIdea) and idea.exhausted and parent == c.tip,
        broke=checked.halt == "money", parent=parent if isinstance(idea, Idea) else -1, source=checked.source, spent=found.spent,
        repeats=found.repeats,
    )  # fmt: skip


def check(reviewer: Reviewer, question: Question, idea: Idea) -> Fine | Refusal:
    """Everything that can be known without a run: soundness, the contract, repeats; then the reviewer. Code that a model wrote
    may be odd in ways that nobody thought of: what breaks a check is refused, and the campaign goes on."""
    try:
        return _check(reviewer, question, idea)
    except Exception as error:  # noqa: BLE001  as said above
        return Refusal(reason=static.unchecked(error))


def _check(reviewer: Reviewer, question: Question, idea: Idea) -> Fine | Refusal:
    asked = question.brief
    source, tried = asked.source, asked.tried
    edited = apply(source, idea.edits)
    fault = static.fault(source, edited, tried)
    if edited is None or fault:
        made = "" if edited is None else static.hash_of(edited)
        return Refusal(reason=fault or "", source=made, repeats=int(made in tried and made != static.hash_of(source)))
    made = static.hash_of(edited)
    lost = contract_fault(edited) if contract_fault(source) is None else None
    if words := lost or question.memory(idea.edits):
        return Refusal(reason=words, source=made, repeats=int(not lost))
    seen = reviewer.review(
        source, edited, diff_of(source, edited, question.path), replace(TRAINER, path=question.path), hoped=hoped(idea),
        usd_left=None if asked.usd_left is None else asked.usd_left - idea.spent.usd,
    )  # fmt: skip
    if isinstance(seen, NotReviewed):
        return Refusal(reason=seen.reason, halt=seen.halt, spent=seen.spent)
    if isinstance(seen, Rejected):
        return Refusal(reason=f"the reviewer ({seen.by}) refuses it: {'; '.join(seen.reasons)}", source=made, spent=seen.spent)
    return Fine(edited=edited, review=f"approved by {seen.by}" + (f"; {seen.note}" if seen.note else ""), spent=seen.spent)


def hoped(idea: Idea) -> float | None:
    """The gain that its proposer names, in bits per byte: the largest decimal that may be one. None when there is none."""
    named = [float(number) for number in re.findall(r"(?<![\d.])0?\.\d{1,9}(?![\d.])", idea.expected_effect)]
    return max(named, default=None)


def repair(world: World, c: Campaign, action: a.Repair) -> e.Event | None:
    """A candidate that crashed, mended by whom proposed it: the same branch, another commit. Killed before it was written down,
    it is asked for again, and what was pushed is overwritten; what cannot be pushed now is not asked for again. None while
    somebody thinks."""
    world, x = world.minded(world, c), c.candidates[action.n]
    if world.mender is None:
        return e.NotRepaired(campaign=c.name, at=world.now(), n=x.n, reason="who proposed it is not there any more")
    mender, key = world.mender, f"{c.name}: repair {x.n}, {x.head}"
    found = world.asked(key, lambda owed: _mended(world, mender, c, x, owed))
    if found is None:
        return None
    with _owing(world, c, found):
        try:
            return _repaired(world, c, x, found)
        except Busy:
            world.asked.keep(key, _paid(found))
            raise
        except (GitError, ForgeError) as error:
            return _paused(world, c, found, str(error))


def _paid(found: Found) -> Found:
    """The same answer, for nothing."""
    return replace(found, idea=replace(found.idea, spent=FREE), checked=replace(found.checked, spent=FREE))


def _repaired(world: World, c: Campaign, x: Candidate, found: Found) -> e.Event:
    idea, checked, spent = found.idea, found.checked, found.spent
    if isinstance(checked, Refusal) and checked.halt == "pause":
        return _paused(world, c, found)
    if isinstance(checked, Refusal) or isinstance(idea, NoIdea):
        reason = checked.reason if isinstance(checked, Refusal) else ""
        return e.NotRepaired(campaign=c.name, at=world.now(), n=x.n, reason=_storable(reason), spent=spent)
    head = world.code.commit_file(x.on, editable(c), checked.edited, markdown.commit_message(c, x), when=x.at)
    mended = e.Repaired(
        campaign=c.name, at=world.now(), n=x.n, edits=idea.edits, base=x.on, head=head, guard=world.code.guard_of(head),
        source=static.hash_of(checked.edited), shorter=static.size(found.question.brief.source) - static.size(checked.edited),
        spent=spent,
    )  # fmt: skip
    world.forge.push(branch_of(c.name, x.n), head)
    return mended


def _mended(world: World, mender: Mender, c: Campaign, x: Candidate, owed: Spent) -> Callable[[], Found]:
    """As _proposal."""
    tried = tuple(row for row in past(world.code, c) if (row.campaign, row.n) != (c.name, x.n))
    asked = brief(world.code, c, x.parent, 0, past=tried, learned=world.log.beside(KNOWLEDGE))
    question = _question(world, c, replace(asked, source=source_at(world, c, x.on)), tried, x.parent, owed)
    edits, log = x.edits, f"{x.result.get('log_tail', '')}\n{x.fault}"
    return lambda: _answer(
        world.reviewer, question, mender.repair(question.brief, question.brief.source, edits, log)
    )  # fmt: skip


def _storable(text: str) -> str:
    """Words of a proposer as the log can hold them: half a surrogate pair is no UTF-8."""
    return text.encode("utf-8", "replace").decode()
