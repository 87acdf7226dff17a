"""The spine: fold, decide, do one thing, write it down.

    while the campaign goes on: state = fold(log); for action in decide(state): if (event := act(action)): append; break

One deed per look: after each event the state is folded again, or two winners of one batch would merge onto a stale base. The
log is appended by compare-and-swap: when somebody else wrote first (a stop from another terminal), nothing is written, and the
next look sees it. A wake-up means "look again", so a lost, doubled or late one costs nothing.

What is lost with an event that was not written is what it cost: that is owed, and written down by the next look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bot import events as e
from bot.act import act
from bot.actions import Action
from bot.decide import decide
from bot.fold import check, fold
from bot.log import Moved, Position
from bot.remote import Busy
from bot.spending import FREE
from bot.state import Campaign, State
from bot.world import World

Deed = Callable[[World, Campaign, Action], e.Event | None]


@dataclass(kw_only=True)
class View:
    """How far the log was read, and the state there."""

    state: State = field(default_factory=State)
    position: Position = field(default_factory=Position)


def refresh(world: World, view: View) -> State:
    """Fold what is new in the log."""
    happened, view.position = world.log.events_since(view.position)
    view.state = fold(happened, view.state)
    world.owed[:] = [event for event in world.owed if event not in happened]  # it was written after all
    return view.state


def append(world: World, view: View, event: e.Event) -> bool:
    """Write one event down; False when somebody else wrote first: look again. An event that cannot follow is our own bug."""
    if not isinstance(event, e.CampaignStarted):
        check(view.state.campaigns[event.campaign], event)
    try:
        world.log.append(event, view.position)
    except (Moved, Busy) as error:
        if getattr(event, "spent", FREE).calls:
            world.owed.append(event)
        if isinstance(error, Busy):
            raise
        return False
    return True


def pay(world: World, view: View) -> bool:
    """Write down what one event cost that is not in the log. True when something is owed."""
    refresh(world, view)
    if not world.owed:
        return False
    event = world.owed.pop(0)
    append(world, view, e.Billed(campaign=event.campaign, at=world.now(), spent=getattr(event, "spent", FREE)))
    return True


def step(world: World, view: View, deed: Deed = act) -> bool:
    """One look: the first action that yields an event is written down. True when something happened."""
    if pay(world, view):
        return True
    campaign = view.state.active
    if campaign is None:
        return False
    for action in decide(campaign, world.now()):
        try:
            event = deed(world, campaign, action)
        except Busy as busy:
            world.later(busy)  # the other deeds do not depend on this one, and doing it again heals what was half done
            continue
        if event is not None:
            if append(world, view, event):
                world.tell(campaign, event)
            return True
    return bool(world.owed)


def run(world: World, view: View, deed: Deed = act) -> Campaign | None:
    """Go on until the active campaign has ended or waits for a person; return it as it then stands."""
    campaign = refresh(world, view).active
    while campaign is not None and campaign.ended is None:
        try:
            if step(world, view, deed):
                refresh(world, view)
                continue
        except Busy as busy:  # the log itself cannot be reached
            world.later(busy)
        if campaign.paused and not any(x.flight for x in campaign.live.values()):
            break
        world.tell(campaign, None)
        world.runner.warm()
        world.sleep(world.poll_seconds)
    return campaign
