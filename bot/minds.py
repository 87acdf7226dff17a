"""Who proposes, who reviews and who mends, as program.md says: built from settings, the offline proposers and a model's server.

A key or a library that is lacking is told before anything starts (`lacking`); what goes wrong later pauses the campaign. The
openai SDK is imported only where a model is asked: it takes half a second.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.propose import Mender, Proposer, review
from bot.propose.mix import Mix, Part
from bot.propose.review import Reviewer
from bot.settings import Settings
from bot.spending import prices


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where models are asked. Empty `base_url`: OpenAI's own. A server of one's own mostly wants no key."""

    base_url: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Minds:
    """See World."""

    proposer: Proposer
    reviewer: Reviewer = review
    mender: Mender | None = None


def lacking(settings: Settings, server: Server) -> str | None:
    """What must be there before a campaign with these settings can begin, and what to do; None when all is."""
    if settings.models and not server.key and not server.base_url:
        names = " and ".join(settings.models)
        return (
            f"program.md asks the model {names}, and no key for it is there: set OPENAI_API_KEY (and OPENAI_BASE_URL for a "
            "server other than OpenAI's; one of your own may need no key). Without a model: `proposer: mutate`, no model.reviewer"
        )
    if "optuna" in settings.proposers and importlib.util.find_spec("optuna") is None:
        return "program.md asks optuna for proposals, and it is not installed: `pip install 'autoresearch-bot[search]'`"
    return None


def minds(
    settings: Settings, offline: Mapping[str, Proposer], server: Server, *,
    sleep: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic,
) -> Minds:  # fmt: skip
    """`offline` has the proposers that need no model, by name; `clock` is looked at whenever a piece of an answer comes."""
    if not settings.models:
        return Minds(proposer=_proposer(settings, offline))
    from bot.propose.llm import Researcher
    from bot.propose.wire import Ask, Model, Turn, connect

    client = connect(server.base_url, server.key, settings.model.seconds)
    model = Model(settings=wired(settings), client=client, sleep=sleep, clock=clock)
    researcher = Researcher(model=model)

    def ask(system: str, user: str, schema: Mapping[str, Any], usd_left: float | None) -> review.Told:
        asked = Ask(
            system=system, turns=(Turn("user", user),), schema=schema, plain=review.FORM, model=settings.model.reviewer or "",
            usd_left=usd_left,
        )  # fmt: skip
        got = model.ask(asked)
        return review.Told(text=getattr(got, "text", None), spent=got.spent)

    return Minds(
        proposer=_proposer(settings, {**offline, researcher.name: researcher}),
        reviewer=review.ByModel(ask=ask) if settings.model.reviewer else review,
        mender=researcher if researcher.name in settings.proposers else None,
    )


def wired(settings: Settings) -> Any:
    """What program.md says about models, as the client takes it."""
    from bot.propose.wire import ModelSettings

    m, table = settings.model, prices(settings.money.prices)
    assert not isinstance(table, str), "program.py has looked at them"
    return ModelSettings(
        model=m.proposer or m.reviewer or "", reviewer=m.reviewer or "", api=m.api, structured=m.structured, stream=m.stream,
        max_output=m.max_output, seconds=m.seconds, tries=m.tries, repairs=m.repairs, usd=settings.money.usd, prices=table,
    )  # fmt: skip


def _proposer(settings: Settings, known: Mapping[str, Proposer]) -> Proposer:
    if settings.proposer != "mix":
        return known[settings.proposer]
    weights = {name: getattr(settings.mix, name) for name in settings.proposers}
    return Mix(parts=tuple(Part(proposer=known[name], weight=weight) for name, weight in weights.items()))
