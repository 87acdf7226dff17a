"""Who proposes, who reviews and who mends, as program.md says: built from settings, the offline proposers and a model's server.

What is lacking, or cannot be right (a key, an address, a library), is told before anything starts (`lacking`); what goes wrong
later pauses the campaign. The openai SDK is imported only where a model is asked: it takes half a second.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bot.propose import Mender, Proposer, review
from bot.propose.mix import Mix, Part
from bot.propose.replies import Answer
from bot.propose.review import Reviewer
from bot.report.quoting import one_line
from bot.settings import Settings
from bot.spending import Meter, prices

SHOWN = 120  # characters of an address
RIGHT = "Write it as https://HOST/v1 or http://HOST:PORT/v1"


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
    if settings.models and (wrong := _no_address(server.base_url) or _no_key(server.key) or _no_client(server)):
        return wrong
    if "optuna" in settings.proposers and importlib.util.find_spec("optuna") is None:
        return "program.md asks optuna for proposals, and it is not installed: `pip install 'autoresearch-bot[search]'`"
    return None


def _no_address(url: str) -> str | None:
    """Why nobody can be asked there. It is shown, unless it has a password in it."""
    if not url:
        return None
    shown = _shown(url)
    if not url.isprintable() or " " in url or not url.isascii():
        return f"OPENAI_BASE_URL is {shown}, and no address has such characters in it. {RIGHT}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"OPENAI_BASE_URL is {shown}, which is no address. {RIGHT}"
    if parts.scheme not in ("http", "https") or not host:
        return f"OPENAI_BASE_URL is {shown}, which does not begin with http:// or https:// and a host. {RIGHT}"
    if "?" in url or "#" in url:
        return f"OPENAI_BASE_URL is {shown}, and what follows its path (? or #) would be lost. {RIGHT}"
    return None


def _shown(url: str) -> str:
    return one_line(repr(url), SHOWN) if "@" not in url else "set"


def _no_client(server: Server) -> str | None:
    """Why nobody can be asked, in words of ours: those of the library may have a password in them."""
    from bot.propose.wire import connect

    try:
        connect(server.base_url, server.key).close()
    except ImportError:
        return "ALL_PROXY, HTTP_PROXY or HTTPS_PROXY names a proxy by SOCKS: `pip install socksio`, or take it out"
    except Exception as error:  # noqa: BLE001  whatever the library refuses is one of these
        what, why = _shown(server.base_url) if server.base_url else "empty", type(error).__name__
        return f"OPENAI_BASE_URL is {what}, and nobody can be asked there ({why}). {RIGHT}; mind the proxy that is set, too"
    return None


def _no_key(key: str) -> str | None:
    """Why it cannot be one, without showing it: what no header takes."""
    if key.isascii() and key.isprintable() and " " not in key:
        return None
    return "OPENAI_API_KEY holds characters that no key has, such as a space, a line end or a letter with an accent: copy it anew"


def minds(
    settings: Settings, offline: Mapping[str, Proposer], server: Server, *,
    sleep: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic, meter: Meter | None = None,
) -> Minds:  # fmt: skip
    """`offline` has the proposers that need no model, by name; `clock` is looked at whenever a piece of an answer comes; `meter`
    counts all calls."""
    if not settings.models:
        return Minds(proposer=_proposer(settings, offline))
    from bot.propose.llm import Researcher
    from bot.propose.wire import Ask, Model, Turn, connect

    client = connect(server.base_url, server.key, settings.model.seconds)
    model = Model(settings=wired(settings), client=client, sleep=sleep, clock=clock, meter=meter or Meter())
    researcher = Researcher(model=model)

    def ask(system: str, user: str, schema: Mapping[str, Any], usd_left: float | None) -> review.Told:
        asked = Ask(
            system=system, turns=(Turn("user", user),), schema=schema, plain=review.FORM, model=settings.model.reviewer or "",
            usd_left=usd_left,
        )  # fmt: skip
        got = model.ask(asked)
        if isinstance(got, Answer):
            return review.Told(text=got.text, spent=got.spent)
        return review.Told(text=None, spent=got.spent, trouble=f"model.reviewer {asked.model}: {got.words}", halt=got.halt)

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
