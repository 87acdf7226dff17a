"""Asking a model over real HTTP: what servers answer, what they do wrong, and that the cap of dollars holds.

`llmock` is somebody else's double of OpenAI's API, with faults and a verdict on how a client takes them; tests/model_server.py
is a tiny one of ours for what it cannot say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmock.pytest_plugin import LLMock
from llmock.testing import LLMockServer

from bot.propose import money, replies
from bot.propose.money import Price
from bot.propose.replies import KINDS, Answer, Trouble
from bot.propose.wire import Ask, ModelSettings, Turn
from bot.spending import FREE, Spent
from tests.model_server import KEY, PRICE, WHOLE, Reply, Server, chat, error, model, pieces, response, serving, streamed

STREAM = replace(WHOLE, stream=True)
RESPONSES = replace(WHOLE, api="responses")


@pytest.fixture
def mock(llmock_server: LLMockServer) -> LLMock:
    return LLMock(llmock_server).reset()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def question(**more: Any) -> Ask:
    return Ask(system="be brief", turns=(Turn("user", "what now?"),), **more)


def answer(found: Answer | Trouble) -> Answer:
    assert isinstance(found, Answer), found
    return found


def trouble(found: Answer | Trouble) -> Trouble:
    assert isinstance(found, Trouble), found
    return found


# What a server answers

EVERY = {
    "chat": WHOLE, "chat streamed": STREAM, "responses": RESPONSES, "responses streamed": replace(RESPONSES, stream=True),
}  # fmt: skip
every = pytest.mark.parametrize("settings", EVERY.values(), ids=EVERY)


@every
def test_a_model_is_asked_and_answers(mock: LLMock, settings: ModelSettings) -> None:
    """Both protocols, whole and streamed, give the text, the tokens that were counted and what they cost."""
    mock.reply("make it wider, then")
    found = answer(model(mock.base_url(), settings)[0].ask(question()))
    assert found.text == "make it wider, then"
    assert found.usage is not None
    assert found.spent == Spent(calls=1, input=found.usage.input, output=found.usage.output, usd=money.cost(found.usage, PRICE))
    mock.assert_resilient(strict=True)


@every
def test_the_answer_is_asked_for_by_a_schema(mock: LLMock, settings: ModelSettings) -> None:
    """A server that has structured output gets the schema, and its answer keeps it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    found = answer(model(mock.base_url(), settings)[0].ask(question(schema=schema, plain="IN WORDS")))
    assert json.loads(found.text).keys() == {"n"}
    assert "IN WORDS" not in json.dumps(mock.last_request.body)


def test_what_is_sent_is_what_the_protocols_know(server: Server) -> None:
    """The bodies: roles, limits, schema; nothing is kept by the server; the key stands in no body."""
    server.will(chat("a"), Reply(body=json.dumps(response("b")).encode()))
    ask = question(schema={"type": "object"}, max_output=77)
    for settings in (WHOLE, RESPONSES):
        answer(model(server.url, settings)[0].ask(ask))
    one, two = server.asked
    assert server.paths == ["/v1/chat/completions", "/v1/responses"]
    assert one["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what now?"}]
    assert one["max_completion_tokens"] == two["max_output_tokens"] == 77
    form = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert one["response_format"] == {"type": "json_schema", "json_schema": form}
    assert two["text"] == {"format": {"type": "json_schema"} | form}
    assert (two["instructions"], two["input"], two["store"]) == ("be brief", [{"role": "user", "content": "what now?"}], False)
    assert KEY not in json.dumps(server.asked)


def test_cached_tokens_cost_less(server: Server) -> None:
    """Tokens that the server had read before are counted at their own price."""
    server.will(Reply(body=json.dumps(response("b")).encode()))
    found = answer(model(server.url, RESPONSES)[0].ask(question()))
    assert found.spent == Spent(calls=1, input=1000, cached=400, output=100, usd=(600 * 1.0 + 400 * 0.1 + 100 * 10.0) / 1e6)


def test_usage_that_nobody_reports_is_counted_at_its_worst(server: Server) -> None:
    """A server without usage, or with half of it, costs what the call can have cost at most, and the books say so."""
    server.will(chat("a", usage=None))
    found = answer(model(server.url)[0].ask(question(max_output=50)))
    assert found.spent.guessed == 1
    assert (found.spent.input, found.spent.output) == (money.ceiling(["be brief", "", "", "what now?"]), 50)


# What goes wrong and may go well in a moment

FAILING = {"busy": 429, "server": 503, "timeout": 408}


@every
@pytest.mark.parametrize("kind", FAILING)
def test_a_passing_failure_is_waited_out(mock: LLMock, settings: ModelSettings, kind: str) -> None:
    """Two failures in a row and then an answer: it is found, after pauses that grow."""
    mock.fail(FAILING[kind], times=2, retry_after=0).reply("there")
    asked, clock = model(mock.base_url(), settings)
    assert answer(asked.ask(question())).text == "there"
    assert len(clock.slept) == 2
    assert len(mock.requests) == 3


def test_pauses_grow_with_jitter_and_are_bounded() -> None:
    """Half of each pause is luck; a server without end is asked `tries` times, then told about."""
    for luck in (0.0, 0.999):
        with serving() as server:
            server.will(*[error(502, "bad gateway")] * 9)
            asked, clock = model(server.url, replace(WHOLE, tries=5), luck=luck)
            found = trouble(asked.ask(question()))
        assert found.kind == "server"
        assert len(server.asked) == 5
        assert clock.slept == pytest.approx([(0.5 + 0.5 * luck) * 2.0**k for k in range(4)])


def test_a_server_says_how_long_to_wait(server: Server) -> None:
    """Retry-After is kept to, a little more is waited; one of an hour is told instead of slept."""
    server.will(error(429, "slow down", retry_after="7"), chat("a"))
    asked, clock = model(server.url)
    assert answer(asked.ask(question())).text == "a"
    assert clock.slept == [7.5]
    server.will(error(429, "slow down", retry_after="3600"), chat("a"))
    found = trouble(asked.ask(question()))
    assert (found.kind, found.retry_after, len(clock.slept)) == ("busy", 3600.0, 1)


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt"])
@pytest.mark.parametrize("settings", [STREAM, replace(RESPONSES, stream=True)], ids=["chat", "responses"])
def test_a_broken_stream_is_no_answer(mock: LLMock, settings: ModelSettings, fault: str) -> None:
    """A stream that is cut, ends without a reason or holds a piece that is no JSON is asked for again; what came is dropped."""
    getattr(mock, fault)(after_chunks=2)
    mock.reply("the half of this that comes is not the answer").reply("the whole answer")
    found = answer(model(mock.base_url(), settings)[0].ask(question()))
    assert found.text == "the whole answer"
    assert found.spent.calls == 2
    assert found.spent.guessed == 1  # what the broken call cost, nobody says
    mock.assert_resilient()


def test_a_slow_server_is_left(mock: LLMock) -> None:
    """A server that does not answer within model.seconds is asked again, three times in all."""
    mock.delay(1.0, times=3)
    asked, _ = model(mock.base_url(), STREAM, seconds=0.1)
    found = trouble(asked.ask(question()))
    assert (found.kind, found.spent.calls) == ("timeout", 3)


def test_a_stream_that_never_ends_is_left(server: Server) -> None:
    """Each piece in time does not help an answer that takes ten times model.seconds."""
    server.will(*[streamed(*pieces(*"abc"))] * 3)
    asked, clock = model(server.url, replace(STREAM, tries=1, seconds=0.001))
    asked.clock = lambda: (clock.slept.append(0.01), clock())[1]  # type: ignore[func-returns-value]
    assert trouble(asked.ask(question())).kind == "timeout"


BROKEN = {
    "an empty answer": (chat(""), "empty"),
    "white space": (chat(" \n"), "empty"),
    "thinking only": (chat(None, reasoning_content="hm"), "empty"),
    "an empty stream": (streamed(*pieces()), "empty"),
    "a web page": (Reply(body=b"<html>login</html>", kind="text/html"), "body"),
    "half a body": (Reply(body=b'{"choices": [{"mess'), "body"),
    "fewer bytes than announced": (Reply(body=b'{"choices": [', missing=10), "dropped"),
    "not an object": (Reply(body=b"[1, 2]"), "body"),
    "null": (Reply(body=b"null"), "body"),
    "no choices": (Reply(body=b'{"choices": []}'), "body"),
    "odd choices": (Reply(body=b'{"choices": [7], "usage": 3}'), "body"),
    "bytes": (Reply(body=b"\xff\xfe\x00"), "body"),
    "an error as success": (Reply(body=b'{"error": {"message": "upstream is down"}}'), "server"),
    "no reason to stop": (chat("half an ans", finish=None), "cut"),
    "a stream without a reason": (streamed(*pieces("half an ans", finish=None)), "cut"),
    "a stream without an end": (streamed(*pieces("half an ans", finish=None), done=False, missing=10), "dropped"),
    "an error in the stream": (streamed(*pieces("half"), {"error": {"message": "overloaded"}}), "server"),
    "a broken piece": (streamed(*pieces("half"), '{"choices": [{"de'), "body"),
    "a refusal": (chat(None, refusal="I cannot help with that"), "refusal"),
    "a filter": (chat("no", finish="content_filter"), "refusal"),
    "a filter in front": (error(400, "content was flagged", code="content_filter"), "refusal"),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_no_answer_is_asked_for_again_and_then_told(server: Server, broken: str) -> None:
    """Whatever a server sends in place of an answer: once it is healed, for ever it is a Trouble of the right kind."""
    reply, kind = BROKEN[broken]
    asked, _ = model(server.url, STREAM if reply.kind == "text/event-stream" or "page" in broken else WHOLE)
    server.will(reply, chat("healed"))
    assert answer(asked.ask(question())).text == "healed"
    server.will(*[reply] * 9)
    assert trouble(asked.ask(question())).kind == kind


def test_nobody_there_costs_nothing() -> None:
    """A server that does not run, and an address that is none, are told; no call was paid."""
    with serving() as server:
        gone = server.url
    for url in (gone, "localhost:1/v1", "http://", "ftp://127.0.0.1/v1"):
        found = trouble(model(url, replace(WHOLE, tries=2))[0].ask(question()))
        assert (found.kind, found.spent) == ("dropped", FREE)
        assert "OPENAI_BASE_URL" in found.words


# What does not go away

FINAL = [
    (error(401, f"Incorrect API key provided: {KEY}", code="invalid_api_key"), "key", "OPENAI_API_KEY"),
    (error(403, "Country not supported"), "key", "Country not supported"),
    (error(429, "You exceeded your current quota", code="insufficient_quota"), "quota", "add credit"),
    (error(402, "Insufficient Balance"), "quota", "add credit"),
    (error(404, "The model `m` does not exist", code="model_not_found"), "model", "correct the model's name"),
    (error(400, "invalid model: m"), "model", "correct the model's name"),
    (error(404, "Not Found"), "address", "model.api"),
    (Reply(body=b"<html>nginx</html>", status=404, kind="text/html"), "address", "OPENAI_BASE_URL"),
    (error(400, "maximum context length is 8192 tokens", code="context_length_exceeded"), "overflow", "too long"),
    (error(413, "payload"), "overflow", "too long"),
    (error(400, "the request exceeds the available context size"), "overflow", "too long"),
    (error(400, "max_completion_tokens is too large: 9. It supports at most 4"), "room", "lower model.max_output"),
    (error(422, "temperature must be 1"), "request", "temperature must be 1"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "kind", "said"), FINAL, ids=range(len(FINAL)))
def test_what_does_not_go_away_is_told_at_once(server: Server, reply: Reply, kind: str, said: str) -> None:
    """One call, no pause, and words that say whose fault it is and what to do, without the key that the server quotes."""
    server.will(reply, chat("never asked for"))
    asked, clock = model(server.url)
    found = trouble(asked.ask(question()))
    assert (found.kind, len(server.asked), clock.slept) == (kind, 1, [])
    assert said in found.words
    assert KEY not in found.words


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("length", response("half", status="incomplete", why="max_output_tokens")),
        ("refusal", response("", refusal="no")),
        ("refusal", response("", status="incomplete", why="content_filter")),
        ("server", response("", status="failed", error={"code": "server_error", "message": "sorry"})),
        ("cut", response("half", status="in_progress")),
        ("empty", response("")),
        ("body", {"status": "completed", "output": 7}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_other_protocol_says_the_same(server: Server, kind: str, body: dict[str, Any], *, stream: bool) -> None:
    """An answer of /responses that is none is found, whole or as the last event of a stream."""
    event = {"type": f"response.{body['status']}", "response": body}
    reply = streamed({"type": "response.created"}, event, done=False) if stream else Reply(body=json.dumps(body).encode())
    server.will(*[reply] * 9)
    found = trouble(model(server.url, replace(RESPONSES, stream=stream))[0].ask(question()))
    assert found.kind == kind


def test_a_server_without_the_other_protocol_is_named(server: Server) -> None:
    """404 on /responses: the setting that helps is in the words."""
    server.will(error(404, "Not Found"))
    assert "model.api: chat" in trouble(model(server.url, RESPONSES)[0].ask(question())).words


def test_an_answer_that_does_not_fit_gets_more_room_once(server: Server) -> None:
    """The limit is doubled for one further call; what does not fit then is told."""
    server.will(chat("half", finish="length"), chat("whole"))
    asked, _ = model(server.url)
    assert answer(asked.ask(question(max_output=100))).text == "whole"
    server.will(*[chat("half", finish="length")] * 3)
    assert trouble(asked.ask(question(max_output=100))).kind == "length"
    server.will(chat("half", finish="length"), error(400, "max_completion_tokens is too large: 200. It supports at most 150"))
    assert trouble(asked.ask(question(max_output=100))).kind == "length"
    assert [body["max_completion_tokens"] for body in server.asked] == [100, 200] * 3


# What a server does not know

UNKNOWN = [
    (WHOLE, "response_format", error(400, "'response_format' of type 'json_schema' is not supported with this model")),
    (WHOLE, "response_format", error(422, "Extra inputs are not permitted")),
    (WHOLE, "max_completion_tokens", error(400, "Unrecognized request argument", param="max_completion_tokens")),
    (STREAM, "stream_options", error(400, "unknown field: stream_options")),
    (STREAM, "stream", error(400, "streaming is not supported")),
    (RESPONSES, "store", error(400, "Unknown parameter: 'store'.", param="store")),
    (RESPONSES, "text", error(400, "Invalid schema", param="text.format")),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "name", "reply"), UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_a_server_does_not_know_is_left_out_and_remembered(
    server: Server, settings: ModelSettings, name: str, reply: Reply
) -> None:
    """One complaint, one further call at once, and never again; without a schema the form is told in words."""
    good = Reply(body=json.dumps(response("ok")).encode()) if settings.api == "responses" else chat("ok")
    server.will(reply, good, good)
    asked, clock = model(server.url, settings)
    for _ in range(2):
        assert answer(asked.ask(question(schema={"type": "object"}, plain="IN WORDS"))).text == "ok"
    assert [name in body for body in server.asked] == [True, False, False]
    assert clock.slept == []
    assert ("IN WORDS" in json.dumps(server.asked[-1])) == (name in ("response_format", "text"))
    assert name != "max_completion_tokens" or "max_tokens" in server.asked[-1]


def test_what_was_not_at_fault_is_not_forgotten(server: Server) -> None:
    """A complaint that stays when the schema is left out was about something else: the next call has the schema again."""
    server.will(error(400, "no"), error(400, "no"), chat("ok"))
    asked, _ = model(server.url)
    assert trouble(asked.ask(question(schema={"type": "object"}))).kind == "request"
    assert answer(asked.ask(question(schema={"type": "object"}))).text == "ok"
    assert ["response_format" in body for body in server.asked] == [True, False, True]


def test_a_server_that_does_not_stream_answers_whole(server: Server) -> None:
    """A body in one piece, though a stream was asked for, is read as it is."""
    server.will(chat("in one piece"))
    assert answer(model(server.url, STREAM)[0].ask(question())).text == "in one piece"


@pytest.mark.parametrize("kind", KINDS)
def test_a_trouble_halts_what_it_should(kind: str) -> None:
    """Every kind of trouble says what to do, and halts the campaign: until a person did it, or for good when money is spent."""
    trouble = Trouble(kind=kind, said="so")
    assert trouble.words.startswith(KINDS[kind].words)
    assert KINDS[kind].todo in trouble.words
    assert trouble.halt == ("money" if kind == "money" else "pause")


def test_a_gateway_that_gave_up_may_have_cost_something(server: Server) -> None:
    """504: the model may have worked on, so the call is in the books at its worst; a plain 503 costs nothing."""
    server.will(error(504, "upstream timeout"), error(503, "no"), chat("a"))
    found = answer(model(server.url)[0].ask(question()))
    assert (found.spent.calls, found.spent.guessed) == (2, 1)


# Money


def test_the_call_that_could_break_the_cap_is_not_made(server: Server) -> None:
    """What may be spent is held against the worst that a call can cost, before it is made, and retries count."""
    worst = money.cost(money.Usage(input=money.ceiling(["be brief", "", "", "what now?"]), cached=0, output=100), PRICE)
    asked, _ = model(server.url)
    found = trouble(asked.ask(question(max_output=100, usd_left=worst * 0.99)))
    assert (found.kind, server.asked, found.spent) == ("money", [], FREE)
    server.will(chat("", usage=None), chat("late"))
    found = trouble(asked.ask(question(max_output=100, usd_left=worst * 1.5)))
    assert (found.kind, len(server.asked)) == ("money", 1)
    assert found.spent.usd == pytest.approx(worst)
    assert "money.usd" in found.words


def test_a_cap_needs_a_price(server: Server) -> None:
    """A model without a price is not called under a cap; without a cap it is, and the books say that it is not priced."""
    server.will(chat("a"))
    asked, _ = model(server.url, replace(WHOLE, prices={}))
    assert "money.prices" in trouble(asked.ask(question(usd_left=100.0))).words
    assert server.asked == []
    assert answer(asked.ask(question())).spent == Spent(calls=1, input=1000, output=100, unpriced=1)


@given(st.lists(st.sampled_from([(5, 3), (60, 10), None]), max_size=30), st.floats(0, 0.01))
def test_the_cap_holds(calls: list[tuple[int, int] | None], cap: float) -> None:
    """Whatever calls cost, up to their worst, what is booked never passes the cap."""
    worst, spent = money.Usage(input=60, cached=0, output=10), FREE
    for call in calls:
        if money.may_spend(cap - spent.usd, worst, PRICE):
            spent += money.booked(call and money.Usage(input=call[0], cached=0, output=call[1]), worst, PRICE)
    assert spent.usd <= cap + 1e-12


@pytest.mark.parametrize("row", ["", "m", "m 1 2", "m 1 2 3 4", "m 1 x 3", "m -1 0 0", "m nan 0 0", "m inf 0 0"])
def test_a_wrong_price_is_a_sentence(row: str) -> None:
    """Each price is a model and three numbers."""
    assert "write MODEL INPUT CACHED OUTPUT" in str(money.prices([row]))
    assert "two prices" in str(money.prices(["m 1 1 1", "m 2 2 2"]))
    assert money.prices(["m 1 0.1 10", "org/n:free 0 0 0"]) == {"m": PRICE, "org/n:free": Price(input=0, cached=0, output=0)}


def test_an_estimate_says_from_what_it_comes() -> None:
    """Before the first experiment by rules of thumb, later by what was spent; without a price in tokens only."""
    first = money.estimate(50, money.about(["x" * 40_000]), PRICE)
    assert first.usd == pytest.approx(75 * (10_000 * 1.0 + 3_000 * 10.0) / 1e6)
    assert "10,000 tokens" in first.why
    later = money.estimate(50, 0, PRICE, Spent(calls=12, input=90_000, output=10_000, usd=0.5), done=10)
    assert later.usd == pytest.approx(2.5)
    assert later.tokens == 500_000
    assert money.estimate(5, 1, None).usd is None


# The door


KEYS = ["choices", "message", "content", "delta", "finish_reason", "usage", "output", "type", "text", "status", "error"]
KEYS += ["prompt_tokens", "completion_tokens", "response", "model", "incomplete_details"]
VALUES = ["completed", "incomplete", "response.completed", "message", "stop"]
bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(bodies)
def test_no_body_breaks_the_door(body: object) -> None:
    """Whatever a server sends, the readers give an answer or a trouble."""
    for read, join in zip(replies.READERS.values(), replies.JOINERS.values(), strict=True):
        assert isinstance(read(body), Answer | Trouble)
        assert isinstance(read(join(body if isinstance(body, list) else [body])), Answer | Trouble)


OPAQUE = "AbC/123+xyz=="  # looks like no key
QUOTED = f"{'x' * (replies.SAID - 24)} you sent {OPAQUE}!"
QUOTES = {
    "a refusal": (error(401, QUOTED), False),
    "an error with status 200": (Reply(body=json.dumps({"error": {"message": QUOTED}}).encode()), False),
    "a page": (Reply(body=f"<p>{QUOTED}".encode(), kind="text/html"), True),
    "a refusal to answer": (chat(None, refusal=QUOTED), False),
    "an answer": (chat(QUOTED), False),
    "an error in a stream": (streamed(json.dumps({"error": {"message": QUOTED}})), True),
    "an answer in pieces": (streamed(*pieces("you sent AbC/123", "+xyz==")), True),
}  # fmt: skip


@pytest.mark.parametrize("way", QUOTES)
def test_our_key_comes_back_in_no_way(server: Server, way: str) -> None:
    """Whatever it looks like, and wherever a server quotes it, also where its words are cut: in no part of it."""
    reply, stream = QUOTES[way]
    server.will(*[reply] * 9)
    asked, _ = model(server.url, replace(WHOLE, stream=stream))
    asked.client = asked.client.with_options(api_key=OPAQUE)
    got = asked.ask(question())
    assert "AbC/" not in repr(got) and "(key)" in repr(got)


def test_a_key_that_is_a_common_word_stays_in_what_is_said() -> None:
    """A local server's "none" is no secret, and a sentence without that word would be none."""
    assert replies.harmless("there is none", "none") == "there is none"


@pytest.mark.parametrize("said", [f"bad key {KEY}", "Bearer abcdef123456", "sk-***************6789 is wrong", "key-0123456789"])
def test_a_key_that_a_server_quotes_is_not_passed_on(said: str) -> None:
    """What looks like a key is taken out of a server's words, and their length is bounded."""
    shown = replies.harmless(said + " x" * 1000)
    assert "(key)" in shown
    assert "6789" not in shown
    assert len(shown) <= replies.SAID
