"""The contract of the port `Backend` for every adapter, streamed and whole, however the bytes are cut."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendError, ContextOverflow
from forge_proxy.core.health import Health
from tests.contracts.adapters import ADAPTERS, Adapter, Dialect, put_together
from tests.contracts.recordings import Recording
from tests.fakes.literal import EVENTS, JSON
from tests.folding import folded
from tests.properties import sample

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
OVERFLOW = b"""{"error":{"code":400,"message":"too much","type":"exceed_context_size_error",\
"n_prompt_tokens":9,"n_ctx":4}}"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each adapter that can do what the test requires, with each answer that a server of its dialect gives."""
    required = [name for mark in metafunc.definition.iter_markers("requires") for name in mark.args]
    dialects = [dialect for dialect in ADAPTERS if all(getattr(dialect, name) for name in required)]
    if "said" in metafunc.fixturenames:
        names = ["dialect", "said"]
        cases = [dialect.as_case(said, name=said.name) for dialect in dialects for said in dialect.recordings]
    else:
        names, cases = ["dialect"], [dialect.as_case() for dialect in dialects]
    metafunc.parametrize(names, cases, indirect=["dialect"], scope="module")


@pytest.fixture(scope="module")
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@pytest.fixture(scope="module")
def adapter(dialect: Dialect) -> Generator[Adapter]:
    with dialect.run() as running:
        yield running


def cuts(whole: bytes) -> Generator[list[bytes]]:
    """At once, in two at one place after the other, and byte by byte."""
    yield [whole]
    yield from ([whole[:at], whole[at:]] for at in sample(range(1, len(whole)), 7))
    yield [whole[at : at + 1] for at in range(len(whole))]


def test_a_stream_gives_the_same_reply_at_any_chunk_boundaries(adapter: Adapter, said: Recording) -> None:
    for pieces in cuts(said.streamed):
        got = put_together(adapter.chunks(pieces, stream=True))

        assert got.replies[0].calls == said.reply.calls
        assert (got.replies[0].text or "", got.replies[0].reasoning) == (said.reply.text or "", said.reply.reasoning)
        assert got.replies[0].finish == said.reply.finish
        assert (got.usage or {}).get("total_tokens") == said.tokens


def test_a_whole_response_equals_its_stream(adapter: Adapter, said: Recording) -> None:
    whole = put_together(adapter.chunks([said.whole], stream=False))
    streamed = put_together(adapter.chunks([said.streamed], stream=True))

    (one,), (other,) = whole.replies, streamed.replies
    assert one.calls == other.calls == said.reply.calls
    assert (one.text or "", one.reasoning, one.finish) == (other.text or "", other.reasoning, other.finish)
    assert (whole.usage or {}).get("total_tokens") == (streamed.usage or {}).get("total_tokens")
    assert whole.head.get("id") == streamed.head.get("id")


@folded
@both
@pytest.mark.parametrize("body", ["an answer in one piece", "a stream"])
@pytest.mark.parametrize("kind", ["", "text/plain", "application/octet-stream", JSON, EVENTS])
def test_what_an_answer_is_its_first_bytes_say_and_not_its_content_type(
    adapter: Adapter, said: Recording, stream: bool, body: str, kind: str
) -> None:
    sent = said.whole if body == "an answer in one piece" else said.streamed
    ahead = b" \n\r\n" + sent.removeprefix(b"\xef\xbb\xbf")
    for pieces in ([sent], [sent[:1], sent[1:]], [sent[at : at + 1] for at in range(len(sent))], [ahead]):
        adapter.http.says(pieces, kind)
        got = put_together(adapter.answer(stream=stream)).replies[0]

        assert (got.calls, got.finish, got.reasoning) == (said.reply.calls, said.reply.finish, said.reply.reasoning)
        assert (got.text or "") == (said.reply.text or "")


@pytest.mark.requires("relays")
@folded
@both
@pytest.mark.parametrize("kind", ["", "text/plain", JSON, EVENTS])
def test_a_relayed_response_has_the_requested_format(
    adapter: Adapter, said: Recording, stream: bool, kind: str
) -> None:
    for sent in (said.whole, said.streamed):
        adapter.http.says([sent], kind)
        chunks = adapter.answer(stream=stream, verbatim=True)

        assert all((chunk.as_sent is not None) is ((sent is said.streamed) is stream) for chunk in chunks)


@pytest.mark.requires("relays")
def test_what_is_only_passed_on_is_passed_on_byte_for_byte(adapter: Adapter, said: Recording) -> None:
    sent = [event for event in said.events if event != b"[DONE]"]
    for pieces in cuts(said.streamed):
        chunks = adapter.chunks(pieces, stream=True, verbatim=True)

        assert b"\n\ndata: ".join(chunk.as_sent or b"" for chunk in chunks).split(b"\n\ndata: ") == sent

    (whole,) = adapter.chunks([said.whole], stream=False, verbatim=True)
    assert whole.as_sent == said.whole.removeprefix(b"\xef\xbb\xbf")


@folded
@pytest.mark.parametrize("verbatim", [False, True], ids=["read", "verbatim"])
def test_a_stream_that_ends_early_is_never_treated_as_complete(
    adapter: Adapter, said: Recording, verbatim: bool
) -> None:
    complete = said.streamed.index(b"}", said.streamed.index(said.finished))

    for length in sample(range(complete), 7):
        with pytest.raises(BackendBroke):
            adapter.chunks([said.streamed[:length]], stream=True, verbatim=verbatim)


def test_an_answer_whose_end_got_lost_behind_its_finish_reason_is_whole(adapter: Adapter, said: Recording) -> None:
    complete = said.streamed.index(b"\n", said.streamed.index(said.finished))

    for length in sample(range(complete, len(said.streamed)), 3):
        got = put_together(adapter.chunks([said.streamed[:length]], stream=True))

        assert (got.replies[0].calls, got.replies[0].finish) == (said.reply.calls, said.reply.finish)


@folded
@both
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, b'{"error":{"code":400,"message":"bad field","type":"invalid_request_error"}}', "bad field"),
        (401, b'{"error":{"message":"Invalid API Key","type":"authentication_error"}}', "Invalid API Key"),
        (404, b'{"error":{"message":"model \'x\' not found","type":"api_error"}}', "model 'x' not found"),
        (422, b'{"detail":[{"msg":"field required"}]}', "field required"),
        (429, b'{"object":"error","message":"slow down","type":"TooManyRequests","code":429}', "slow down"),
        (500, b"Internal Server Error", "Internal Server Error"),
        (503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', "Loading model"),
    ],
)
def test_a_rejection_keeps_its_status_message_and_retry_after(
    adapter: Adapter, stream: bool, status: int, body: bytes, words: str
) -> None:
    adapter.http.says([body[:5], body[5:]], JSON, status, {"retry-after": "7"})

    with pytest.raises(BackendError) as caught:
        adapter.answer(stream=stream)

    assert caught.value.status == status
    assert words in caught.value.server_message
    assert caught.value.headers == {"retry-after": "7"}


@folded
@both
@pytest.mark.parametrize("kind", [JSON, EVENTS], ids=["JSON", "events"])
def test_an_error_under_a_200_is_what_it_would_have_been_under_its_own_status(
    dialect: Dialect, adapter: Adapter, stream: bool, kind: str
) -> None:
    adapter.http.says([OVERFLOW if kind == JSON else dialect.event(OVERFLOW)], kind)

    with pytest.raises(ContextOverflow) as caught:
        adapter.answer(stream=stream)

    assert (caught.value.status, caught.value.tokens, caught.value.window) == (400, 9, 4)


@folded
@both
@pytest.mark.parametrize("kind", [JSON, EVENTS], ids=["JSON", "events"])
@pytest.mark.parametrize(
    "error",
    [
        b'{"error":"out of memory"}',
        b'{"error":{"message":"out of memory"}}',
        b'{"object":"error","message":"out of memory","type":"InternalServerError","code":500}',
    ],
)
def test_an_error_under_a_200_is_never_an_answer(
    dialect: Dialect, adapter: Adapter, stream: bool, kind: str, error: bytes
) -> None:
    adapter.http.says([error if kind == JSON else dialect.event(error)], kind)

    with pytest.raises(BackendError) as caught:
        adapter.answer(stream=stream)

    assert caught.value.status >= 500
    assert caught.value.server_message == "out of memory"


@pytest.mark.requires("streams_events")
@folded
@both
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (EVENTS, b'data: {"object":"error","message":"out of memory","code":500}\n\ndata: [DONE]\n\n'),
        (EVENTS, b'event: error\ndata: {"error":{"message":"out of memory"}}\n\ndata: [DONE]\n\n'),
    ],
)
def test_an_error_event_is_never_an_answer(adapter: Adapter, stream: bool, kind: str, body: bytes) -> None:
    adapter.http.says([body], kind)

    with pytest.raises(BackendError) as caught:
        adapter.answer(stream=stream)

    assert caught.value.status >= 500
    assert caught.value.server_message == "out of memory"


@folded
@both
@pytest.mark.parametrize("verbatim", [False, True], ids=["read", "verbatim"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b""),
        (JSON, b"<html>"),
        (JSON, b"[1]"),
        (JSON, b"{}"),
        (JSON, b'{"detail":"Not Found"}'),
        (JSON, b'{"choices":[]}'),
        (JSON, b'{"choices":[{"index":0,"message":{"content":"hal'),
        (EVENTS, b""),
        (EVENTS, b"data: [DONE]\n\n"),
        (EVENTS, b": ping\n\n"),
        (EVENTS, b"data: nonsense\n\n"),
        (EVENTS, b"\x00\xff\xfe" * 20),
        (EVENTS, b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'),
    ],
)
def test_anything_but_a_response_is_an_error(
    adapter: Adapter, stream: bool, verbatim: bool, kind: str, body: bytes
) -> None:
    adapter.http.says([body], kind)

    with pytest.raises(BackendBroke):
        adapter.answer(stream=stream, verbatim=verbatim)


@pytest.mark.requires("relays")
@pytest.mark.parametrize("verbatim", [False, True], ids=["read", "verbatim"])
@pytest.mark.parametrize("garbage", [b"data: nonsense\n\n", b'data: {"choices":[{"ind\n\n', b"data: 7\n\n"])
def test_garbage_in_the_middle_is_passed_on_to_nobody(adapter: Adapter, verbatim: bool, garbage: bytes) -> None:
    begun = b'data: {"choices":[{"index":0,"delta":{"content":"one "},"finish_reason":null}]}\n\n'
    got: list[bytes | None] = []

    async def taken() -> None:
        async for chunk in adapter.backend.stream(adapter.call(stream=True, verbatim=verbatim)):
            got.append(chunk.as_sent)  # noqa: PERF401  what came before the fault counts

    adapter.http.says([begun, garbage], EVENTS)
    with pytest.raises(BackendBroke):
        adapter.runner.run(taken())

    assert got == [begun[6:-2]]


@both
def test_closing_the_stream_closes_the_exchange(dialect: Dialect, adapter: Adapter, stream: bool) -> None:
    said = dialect.recordings[0]
    adapter.http.says([said.streamed] if stream else [said.whole], EVENTS if stream else JSON)

    async def leave_after_the_first_chunk() -> int:
        chunks = adapter.backend.stream(adapter.call(stream=stream))
        await anext(chunks)
        open_then = adapter.http.open_now
        await chunks.aclose()
        return open_then

    assert adapter.runner.run(leave_after_the_first_chunk()) == 1 or not stream  # read to its end, it may be closed
    assert adapter.http.open_now == 0


@pytest.mark.parametrize(
    ("status", "body", "health"),
    [
        (200, b'{"status":"ok"}', Health("ok")),
        (503, b'{"error":{"code":503,"message":"Loading model"}}', Health("loading", "Loading model")),
        (500, b"no", Health("down", "answered 500: no")),
    ],
)
def test_health_is_returned_and_never_raised(adapter: Adapter, status: int, body: bytes, health: Health) -> None:
    adapter.http.says([body], JSON, status)

    found = adapter.runner.run(adapter.backend.health())

    assert found.status == health.status
    assert found.detail.endswith(health.detail)


@pytest.mark.requires("relays")
@pytest.mark.parametrize(
    ("told", "model", "window"),
    [
        ({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 2}, "any", 2048),
        ({"default_generation_settings": {"n_ctx": 0}, "data": [{"id": "a", "max_model_len": 4096}]}, None, 4096),
        ({"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}, "a", 4096),
        ({"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}, "b", None),
        ({"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}, None, None),
        ({}, "a", None),
    ],
)
def test_the_window_passed_on_is_that_of_a_slot_else_that_of_the_list(
    adapter: Adapter, told: dict[str, Any], model: str | None, window: int | None
) -> None:
    adapter.http.says([json.dumps(told).encode()], JSON)  # whatever the request

    assert adapter.runner.run(adapter.backend.context_window(model)) == window


@pytest.mark.requires("lists_models")
def test_the_models_are_those_that_the_server_lists(dialect: Dialect, adapter: Adapter) -> None:
    adapter.http.says([json.dumps(dialect.models).encode()], JSON)

    cards = adapter.runner.run(adapter.backend.models())

    assert [(card.id, card.window) for card in cards] == [("one", 2048), ("two", None)]
