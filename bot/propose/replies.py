"""What a model's server answered, read at the door: an Answer, or a Trouble that says whose fault it is and what to do.

Two shapes come in, the bodies of /chat/completions and of /responses, each whole or as the events of a stream. A server that
calls itself compatible may send anything, so every field is looked at once, here, and nothing is taken from it but text, token
counts and the reason why it stopped. A chat stream that ends without a finish_reason was cut: nothing else tells.
https://platform.openai.com/docs/api-reference/chat, https://platform.openai.com/docs/api-reference/responses

Pure: values in, values out. Calling is wire.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bot.propose.money import Usage
from bot.report.quoting import one_line
from bot.spending import FREE, Spent

LONGEST = 400_000  # characters of one answer: a train.py has 64 KB at most
SAID = 300  # characters of a server's own words that are passed on
KEY = 6  # characters of the shortest key that is taken out wherever it stands


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Text of a model that finished what it had to say."""

    text: str
    usage: Usage | None
    model: str
    finish: str = "stop"
    spent: Spent = FREE


@dataclass(frozen=True)
class Kind:
    """`tries`: so many such calls in all, since the same one may go well in a moment. After that none will, until a person did
    what `todo` says."""

    words: str
    todo: str
    tries: int = 1


# Everything that can happen instead of an answer. All of it halts the campaign, since it is no fault of an idea.
KINDS: Mapping[str, Kind] = MappingProxyType({
    "timeout": Kind("the server did not answer in time", "wait, or raise model.seconds", tries=3),
    "busy": Kind("the server wants fewer calls", "wait, or ask its owner for a higher rate limit", tries=6),
    "server": Kind("the server has a fault of its own", "wait until it is back", tries=6),
    "dropped": Kind("there is no connection to the server", "check OPENAI_BASE_URL and the network", tries=6),
    "cut": Kind("the answer was cut off on its way", "check what stands between here and the server", tries=3),
    "body": Kind("what came back is not an answer of a model", "check OPENAI_BASE_URL: is that a model's server?", tries=3),
    "empty": Kind("the model answered with nothing", "raise model.max_output, or take another model", tries=2),
    "refusal": Kind("the model refuses to answer this", "look at program.md and the issue, or take another model", tries=2),
    "length": Kind("the answer did not fit into model.max_output tokens", "raise model.max_output, or take another model"),
    "overflow": Kind("the prompt is too long for this model", "shorten program.md, or take another model"),
    "room": Kind("the model cannot answer with so many tokens", "lower model.max_output"),
    "model": Kind("the server does not have this model", "correct the model's name in program.md"),
    "address": Kind("the server does not know this address", "check OPENAI_BASE_URL (it mostly ends in /v1) and model.api"),
    "key": Kind("the server does not accept the key", "set OPENAI_API_KEY to a key that is valid for this server and model"),
    "quota": Kind("the account has no credit left", "add credit, or use another key"),
    "request": Kind("the server does not understand the call", "try the other model.api, or report this as a fault of the bot"),
    "price": Kind("money.usd caps the dollars, but this model has no price", "add it to money.prices in program.md"),
    "money": Kind("the next call could break the cap of money.usd", "raise money.usd to go on"),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """No answer. `said` is what the server told, made harmless; `sent`: a model may have worked on it, and be paid for that."""

    kind: str
    said: str = ""
    retry_after: float | None = None
    usage: Usage | None = None
    sent: bool = False
    spent: Spent = FREE

    @property
    def words(self) -> str:
        kind = KINDS[self.kind]
        return f"{kind.words}{f' ({self.said})' if self.said else ''}: {kind.todo}"

    @property
    def halt(self) -> str:
        """As in NoIdea: whether the campaign waits for a person, or has spent what it may."""
        return "money" if self.kind == "money" else "pause"


def whole_chat(body: object) -> Answer | Trouble:
    """A body of /chat/completions."""
    if not isinstance(body, Mapping):
        return _no_answer(body)
    choice = _mapping(_first(body.get("choices")))
    if not choice:
        return _no_answer(body)
    message, finish = _mapping(choice.get("message")), choice.get("finish_reason")
    text = _text(message.get("content"))
    refused = _text(message.get("refusal")) or ("content filter" if finish == "content_filter" else "")
    if not finish:
        return Trouble(kind="cut", usage=_usage(body), sent=True)
    return _judged(body, text, refused, cut=finish == "length")


def whole_response(body: object) -> Answer | Trouble:
    """A body of /responses."""
    if not isinstance(body, Mapping) or not isinstance(body.get("output"), list) or body.get("status") == "failed":
        return _no_answer(body)
    items = [_mapping(item) for item in body["output"]]
    parts = [_mapping(p) for item in items if item.get("type") == "message" for p in _list(item.get("content"))]
    text = "".join(_text(part.get("text")) for part in parts if part.get("type") == "output_text")
    why = _mapping(body.get("incomplete_details")).get("reason")
    refused = "".join(_text(part.get("refusal")) for part in parts) or ("content filter" if why == "content_filter" else "")
    if body.get("status") not in ("completed", "incomplete", None):
        return Trouble(kind="cut", usage=_usage(body), sent=True)
    return _judged(body, text, refused, cut=why == "max_output_tokens" or (body.get("status") == "incomplete" and not refused))


def _judged(body: Mapping[str, Any], text: str, refused: str, *, cut: bool) -> Answer | Trouble:
    usage = _usage(body)
    if refused:
        return Trouble(kind="refusal", said=harmless(refused), usage=usage, sent=True)
    if cut:
        return Trouble(kind="length", usage=usage, sent=True)
    if not text.strip():
        return Trouble(kind="empty", usage=usage, sent=True)
    return Answer(text=text[:LONGEST], usage=usage, model=_text(body.get("model")))


def _no_answer(body: object) -> Trouble:
    """An error that came as a success (some gateways do that), or something that is no reply of a model at all."""
    error = _mapping(body).get("error")
    if error:
        code, said = _text(_mapping(error).get("code")), _text(_mapping(error).get("message")) or _text(error)
        found = refused_as(400, code, said)
        return Trouble(kind="server" if found == "request" else found, said=harmless(said), sent=True)
    return Trouble(kind="body", said=harmless(body) if isinstance(body, str) else "", sent=True)


def joined_chat(chunks: Iterable[object]) -> dict[str, Any]:
    """The body that the chunks of a chat stream make, without a finish_reason where it broke off; nothing of no chunk."""
    text: list[str] = []
    refusal: list[str] = []
    finish, usage, model, began = None, None, "", False
    for chunk in _bounded(chunks):
        usage, model = chunk.get("usage") or usage, chunk.get("model") or model
        choice = _mapping(_first(chunk.get("choices")))
        delta = _mapping(choice.get("delta"))
        text.append(_text(delta.get("content")))
        refusal.append(_text(delta.get("refusal")))
        finish, began = choice.get("finish_reason") or finish, began or bool(choice)
    message = {"content": "".join(text), "refusal": "".join(refusal)}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage, "model": model} if began else {}


def joined_response(events: Iterable[object]) -> dict[str, Any]:
    """The body that the last event of a stream of /responses carries; a body without an end where there is none."""
    ends = ("response.completed", "response.incomplete", "response.failed")
    for event in _bounded(events):
        if event.get("type") in ends:
            return dict(_mapping(event.get("response")))
        if event.get("type") == "error":
            return {"error": event}
    return {"output": [], "status": "in_progress"}


def _bounded(chunks: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """The chunks that are objects. A stream that does not end is left: what came so far then counts as cut."""
    size = 0
    for chunk in chunks:
        if isinstance(chunk, Mapping):
            yield chunk
            size += len(str(chunk))
        if size > 20 * LONGEST:  # a chunk of one token has some hundred characters around it
            return


def refused_as(status: int, code: str, said: str) -> str:
    """Which kind of trouble an HTTP status is, with the error's own code and words: servers differ in all three."""
    words = f"{code} {said}".lower()
    if status == 413 or re.search(OVERFLOW, words):
        return "overflow"
    if re.search(ROOM, words):
        return "room"
    if status == 402 or re.search(QUOTA, words):
        return "quota"
    if status in (404, 400) and re.search(MODEL, words):
        return "model"
    if "content_filter" in words:
        return "refusal"
    return _STATUS.get(status, "server" if status >= 500 else "request")


_STATUS = {401: "key", 403: "key", 404: "address", 405: "address", 408: "timeout", 409: "server", 425: "server", 429: "busy"}
OVERFLOW = r"context_length|context (length|window|size)|maximum context|(prompt|input|request).{0,40}too (long|large)"
ROOM = r"max_(completion_|output_)?tokens.{0,80}(too large|too high|at most|exceed|less than|maximum|<=)"
QUOTA = r"insufficient_quota|insufficient (balance|funds|credit)|exceeded your current quota|credit balance|billing_hard_limit"
MODEL = r"model_not_found|model.{0,80}(not found|does not exist|not exist|is not available)|(no such|unknown|invalid) model"


def retry_after(value: str | None) -> float | None:
    """Seconds, from the header. Its other form, a date, would need a clock that both sides agree on: it is left aside."""
    return float(value) if value and re.fullmatch(r"\d{1,7}(\.\d{1,6})?", value.strip()) else None


# What a call asks for beyond the least that every server takes: the words by which a server names it, in what it complains of.
EXTRAS: Mapping[str, str] = MappingProxyType({
    "schema": r"response_format|json_schema|text\.format|structured output|grammar|guided|schema",
    "usage": r"stream_options|include_usage",
    "room": r"max_completion_tokens",
    "store": r"\bstore\b",
    "stream": r"\bstream(ing)?\b",
})  # fmt: skip


def unwanted(status: int, param: str, said: str, asked: Iterable[str]) -> str | None:
    """Which of the extras that were asked for a server complains of; None: of something else."""
    words = f"{param} {said}".lower()
    named = (extra for extra in asked if re.search(EXTRAS[extra], words))
    return next(named, None) if status in (400, 404, 415, 422, 501) else None


def _usage(body: Mapping[str, Any]) -> Usage | None:
    """Whole token counts, or nothing: half a report is none."""
    told = _mapping(body.get("usage"))
    read = told.get("prompt_tokens", told.get("input_tokens"))
    written = told.get("completion_tokens", told.get("output_tokens"))
    details = _mapping(told.get("prompt_tokens_details") or told.get("input_tokens_details"))
    if not (_count(read) and _count(written)) or not read:
        return None
    cached = details.get("cached_tokens")
    return Usage(input=read, cached=min(cached, read) if _count(cached) else 0, output=written)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def harmless(said: object, key: str = "") -> str:
    """A server's words, in one line, harmless, and without our key or what looks like one: servers quote it."""
    return re.sub(r"\b(sk|key|Bearer)[-_ ][\w*.-]{6,}", "(key)", one_line(keyless(_text(said), key), SAID))


def keyless(said: Any, key: str) -> Any:
    """What a server sent, with our key nowhere in it. A key shorter than KEY is a word, such as the "none" of a local server."""
    if isinstance(said, str):
        return said.replace(key, "(key)") if len(key) >= KEY else said
    if isinstance(said, Mapping):
        return {keyless(name, key): keyless(value, key) for name, value in said.items()}
    return [keyless(value, key) for value in said] if isinstance(said, list) else said


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _text(value: object) -> str:
    """Text, or the texts of a list of parts."""
    if isinstance(value, list):
        return "".join(_text(_mapping(part).get("text")) for part in value)
    return value if isinstance(value, str) else ""


READERS: Mapping[str, Callable[[object], Answer | Trouble]] = {"chat": whole_chat, "responses": whole_response}
JOINERS: Mapping[str, Callable[[Iterable[object]], dict[str, Any]]] = {"chat": joined_chat, "responses": joined_response}
