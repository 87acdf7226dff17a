"""One question to a model, through the openai SDK, on any server that speaks its protocol.

    Model(settings, connect(base_url, key)).ask(Ask(system="...", turns=(Turn("user", "..."),)))  ->  Answer | Trouble

What a server or a network does wrong is a value, never an exception. The SDK's own retries are off: each call costs money, so
they are counted here, against the cap of dollars before each one, with pauses that the server may lengthen. What a server does
not know (a JSON schema, a stream, a newer parameter) is left out after its first complaint, and then remembered.

Only the command line reads the environment: base_url and key are handed in, and so are clock, sleep and luck.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2  # what the SDK runs on: a few of its errors come through
import openai
from openai import OpenAI, Stream

from bot.propose import money, replies
from bot.propose.money import Price, Usage
from bot.propose.replies import EXTRAS, KINDS, Answer, Trouble
from bot.spending import FREE, Meter, Spent

OPENAI = "https://api.openai.com/v1"
PATHS = {"chat": "/chat/completions", "responses": "/responses"}
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds: doubled from call to call, with jitter
PATIENCE = 120.0  # seconds; a server that asks for a longer pause than this is told about instead
CONNECT_SECONDS = 10.0
WHOLE = 10  # times model.seconds, for an answer from its first piece to its last
GAVE_UP = (408, 504, 524)  # somebody in between did, and the model may have worked on
MORE_ROOM = 2  # times the tokens, for the one further try after an answer that did not fit


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What program.md says about models. `seconds`: to the next piece of an answer; the whole may take WHOLE times as long."""

    model: str
    reviewer: str = ""  # another model that reads the diff; empty: the same
    api: str = "chat"  # or "responses"
    structured: bool = True  # ask for JSON by schema where the server has it
    stream: bool = True
    max_output: int = 16_000  # tokens of one answer, thinking included
    seconds: float = 300.0
    tries: int = 5  # calls for one question
    repairs: int = 2
    usd: float | None = None  # the cap for a campaign
    prices: Mapping[str, Price] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; `who` is "user" or "assistant"."""

    who: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question. `plain` is added to `system` where no schema is imposed, and says in words how to answer; `usd_left` is what
    the campaign may still spend, None for no cap."""

    system: str
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = None
    plain: str = ""
    model: str = ""  # empty: the one of the settings
    max_output: int = 0  # tokens; 0: as the settings say
    usd_left: float | None = None


def connect(base_url: str, key: str, seconds: float = ModelSettings.seconds) -> OpenAI:
    """A client. Empty `base_url`: OpenAI's own. A local server mostly wants no key; the SDK wants one that is not empty."""
    timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
    return OpenAI(base_url=base_url or OPENAI, api_key=key or "none", max_retries=0, timeout=timeout)


@dataclass(kw_only=True)
class Model:
    """A server, how to ask it, and what it turned out not to know."""

    settings: ModelSettings
    client: OpenAI
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    luck: Callable[[], float] = random.random  # in [0, 1)
    without: set[str] = field(default_factory=set)
    meter: Meter = field(default_factory=Meter)

    def ask(self, ask: Ask) -> Answer | Trouble:
        """The answer, or what kept it away after all tries; either carries what all calls for it cost."""
        ask = replace(ask, model=ask.model or self.settings.model, max_output=ask.max_output or self.settings.max_output)
        met: list[str] = []
        spent = FREE
        while True:
            got = self._within_means(ask, spent)
            spent = spent + got.spent
            if isinstance(got, Answer):
                return replace(got, spent=spent)
            if "length" in met and got.kind in ("room", "request"):
                got = replace(got, kind="length")  # it was asked for more than the model can write
            met.append(got.kind)
            pause = self._pause(got, met)
            if pause is None:
                return replace(got, spent=spent)
            if got.kind == "length":
                ask = replace(ask, max_output=MORE_ROOM * ask.max_output)
            self.sleep(pause)

    def _pause(self, trouble: Trouble, met: list[str]) -> float | None:
        """Seconds until the next try; None: there is none. Jitter keeps those apart who were turned away together."""
        if trouble.kind == "length":
            return None if met.count("length") > 1 else 0.0
        if met.count(trouble.kind) >= KINDS[trouble.kind].tries or len(met) >= self.settings.tries:
            return None
        backoff = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (len(met) - 1)) * (0.5 + 0.5 * self.luck())
        if trouble.retry_after is None:
            return backoff
        return None if trouble.retry_after > PATIENCE else trouble.retry_after + self.luck()

    def _within_means(self, ask: Ask, spent: Spent) -> Answer | Trouble:
        """One call, if its worst fits into what may be spent, with its entry in the books."""
        price = self.settings.prices.get(ask.model)
        texts = (ask.system, ask.plain, str(ask.schema or ""), *(turn.text for turn in ask.turns))
        worst = Usage(input=money.ceiling(texts), cached=0, output=ask.max_output)
        left = None if ask.usd_left is None else ask.usd_left - spent.usd
        if not money.may_spend(left, worst, price):
            return Trouble(kind="money" if price else "price", said=replies.harmless(ask.model))
        self.meter.begin(money.booked(None, worst, price))
        got = self._adapting(ask)
        free = isinstance(got, Trouble) and not got.sent
        cost = FREE if free else money.booked(got.usage, worst, price)
        self.meter.end(cost)
        return replace(got, spent=cost)

    def _adapting(self, ask: Ask) -> Answer | Trouble:
        """One call, again without what the server does not know. It is remembered only once the server is content."""
        without = set(self.without)
        while True:
            wanted = [extra for extra in self._extras(ask) if extra not in without]
            got = self._call(ask, frozenset(wanted))
            if not isinstance(got, str):
                self.without |= without if isinstance(got, Answer) else set()
                return got
            without.add(got)

    def _extras(self, ask: Ask) -> Iterator[str]:
        chat, stream = self.settings.api == "chat", self.settings.stream
        asked = {
            "schema": self.settings.structured and ask.schema is not None, "usage": chat and stream, "room": chat,
            "store": not chat, "stream": stream,
        }  # fmt: skip
        yield from (extra for extra in EXTRAS if asked[extra])

    def _call(self, ask: Ask, extras: frozenset[str]) -> Answer | Trouble | str:
        """One exchange; a text: the extra that the server does not know."""
        api = self.settings.api
        body = (chat_body if api == "chat" else response_body)(ask, extras)
        try:
            got = self._streamed(body) if "stream" in extras else self._whole(body)
            return replies.READERS[api](replies.keyless(got, self.client.api_key))
        except openai.APIStatusError as error:
            return _unknown(error, extras) or _refused(error, api, self.client.api_key)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError) as error:
            return _broken(error, self.client.api_key)

    def _whole(self, body: dict[str, Any]) -> object:
        timeout = httpx2.Timeout(WHOLE * self.settings.seconds, connect=CONNECT_SECONDS)
        return self.client.post(PATHS[self.settings.api], cast_to=object, body=body, options={"timeout": timeout})

    def _streamed(self, body: dict[str, Any]) -> object:
        """The body that a stream makes. Who does not know `stream` sends it whole; who is no model's server, a page."""
        path, join = PATHS[self.settings.api], replies.JOINERS[self.settings.api]
        with self.client.post(path, cast_to=object, body=body, stream=True, stream_cls=Stream[object]) as stream:
            kind = stream.response.headers.get("content-type", "")
            if "json" not in kind and "html" not in kind:
                return join(self._in_time(stream))
            text = stream.response.read().decode("utf-8", "replace")
            return json.loads(text) if "json" in kind else text

    def _in_time(self, stream: Iterable[object]) -> Iterator[object]:
        """The pieces of an answer. One that trickles for ever is left."""
        until = self.clock() + WHOLE * self.settings.seconds
        for piece in stream:
            if self.clock() > until:
                raise TooSlow
            yield piece


class TooSlow(ValueError):
    """The whole answer takes too long, although each piece came in time."""


def chat_body(ask: Ask, extras: frozenset[str]) -> dict[str, Any]:
    """Of /chat/completions. Reasoning models know only max_completion_tokens, older servers only max_tokens."""
    turns = [{"role": "system", "content": _system(ask, extras)}, *({"role": t.who, "content": t.text} for t in ask.turns)]
    body: dict[str, Any] = {"model": ask.model, "messages": turns}
    body["max_completion_tokens" if "room" in extras else "max_tokens"] = ask.max_output
    if "schema" in extras:
        body["response_format"] = {"type": "json_schema", "json_schema": _schema(ask)}
    if "stream" in extras:
        body["stream"] = True
        body |= {"stream_options": {"include_usage": True}} if "usage" in extras else {}
    return body


def response_body(ask: Ask, extras: frozenset[str]) -> dict[str, Any]:
    """Of /responses. Nothing of it is to be kept there: that is the default of the API."""
    turns = [{"role": turn.who, "content": turn.text} for turn in ask.turns]
    body: dict[str, Any] = {"model": ask.model, "instructions": _system(ask, extras), "input": turns}
    body["max_output_tokens"] = ask.max_output
    if "schema" in extras:
        body["text"] = {"format": {"type": "json_schema"} | _schema(ask)}
    if "stream" in extras:
        body["stream"] = True
    return body | ({"store": False} if "store" in extras else {})


def _system(ask: Ask, extras: frozenset[str]) -> str:
    return ask.system if "schema" in extras or not ask.plain else f"{ask.system}\n\n{ask.plain}"


def _schema(ask: Ask) -> dict[str, Any]:
    return {"name": "answer", "schema": dict(ask.schema or {}), "strict": True}


def _unknown(error: openai.APIStatusError, extras: frozenset[str]) -> str | None:
    """The extra that the server does not know; the schema, too, where it only says that it does not understand the call."""
    kind = _refused(error, "", "").kind
    if kind not in ("request", "address", "server"):
        return None
    param = error.param if isinstance(error.param, str) else ""
    named = replies.unwanted(error.status_code, param, _words(error), sorted(extras, key=list(EXTRAS).index))
    return named or ("schema" if kind == "request" and "schema" in extras else None)


def _refused(error: openai.APIStatusError, api: str, key: str) -> Trouble:
    kind = replies.refused_as(error.status_code, str(error.code or error.type or ""), _words(error))
    said = replies.harmless(f"{error.status_code}: {_words(error)}", key)
    if kind == "address" and api == "responses":
        said = f"{said}; it may have /chat/completions only: try model.api: chat"
    after = replies.retry_after(error.response.headers.get("retry-after"))
    return Trouble(kind=kind, said=said, retry_after=after, sent=error.status_code in GAVE_UP)


def _words(error: openai.APIStatusError) -> str:
    """What the server says: the message of the error that it describes, else the text that came."""
    body = error.body
    message = body.get("message") if isinstance(body, Mapping) else body
    return message if isinstance(message, str) else str(body or error.response.reason_phrase)


def _broken(error: Exception, key: str) -> Trouble:
    """No reply that has a status. Only a connection that was never made is sure to have cost nothing."""
    cause = error.__cause__ or error
    if isinstance(error, openai.APITimeoutError | TooSlow | httpx2.TimeoutException):
        return Trouble(kind="timeout", sent=not isinstance(cause, httpx2.ConnectTimeout))
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | httpx2.InvalidURL):
        never = isinstance(cause, httpx2.ConnectError | httpx2.InvalidURL | httpx2.UnsupportedProtocol)
        return Trouble(kind="dropped", said=replies.harmless(str(cause), key), sent=not never)
    if isinstance(error, openai.APIError):  # told within a stream
        kind = replies.refused_as(400, str(error.code or ""), error.message)
        return Trouble(kind="server" if kind == "request" else kind, said=replies.harmless(error.message, key), sent=True)
    return Trouble(kind="body", said=type(error).__name__, sent=True)
