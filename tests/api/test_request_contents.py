"""The text of a request as an observer of contents receives it, streamed and whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.core.stream import Reply
from forge_proxy.engine import answer
from forge_proxy.engine.content_recorder import MAX_COLLECTED
from forge_proxy.engine.events import Event, RequestAnswered, RequestFailed
from forge_proxy.wire.request_content import decode_content, encode_content
from tests.api.test_mistakes import ASK, PARIS, RIGHT, both
from tests.fakes.says import Said
from tests.fakes.scripted import chat

UNKNOWN = Said(calls=(("get_wether_report_now", '{"city": "Paris"}'),))
IN_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
PLAIN = {"messages": ASK["messages"]}


async def content_of(script: list[Said | Exception], stream: bool, body: Any = None, **options: Any) -> RequestContent:
    """Return the text of one request. It is that of the record in the event of its end."""
    contents: list[AttemptContent | RequestContent] = []
    heard: list[Event] = []
    await chat(script, body or ASK, stream=stream, contents=contents, heard=heard, **options)
    *attempts, request = contents
    assert isinstance(request, RequestContent)
    assert tuple(attempts) == request.attempts
    (ended,) = [event for event in heard if isinstance(event, RequestAnswered | RequestFailed)]
    assert ended.record is request.record
    return request


def plain(replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
    """The replies without what is not stored of them."""
    return tuple(replace(reply, extra={}, choice_fields={}) for reply in replies)


@both
async def test_a_retried_request_has_what_was_sent_and_written_at_each_attempt(stream: bool) -> None:
    content = await content_of([UNKNOWN, RIGHT], stream)

    first, second = content.attempts
    assert (first.verdict, first.fault, second.verdict, second.fault) == ("retried", "unknown_tool", "delivered", None)
    (reply,) = first.replies
    assert [(call.tool, call.args()) for call in reply.calls] == [("get_wether_report_now", {"city": "Paris"})]
    failed, correction = first.correction
    assert failed.tool_calls[0].tool == "get_wether_report_now"
    assert "get_weather" in correction.content
    assert second.call.added == first.correction
    assert first.usage == second.usage == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert [call.tool for call in content.received[0].calls] == ["get_weather"]


@both
async def test_a_stored_attempt_is_the_request_that_the_model_server_received(stream: bool) -> None:
    contents: list[AttemptContent | RequestContent] = []
    received = await chat([UNKNOWN, RIGHT], ASK, stream=stream, contents=contents)
    content = contents[-1]
    assert isinstance(content, RequestContent)
    encoded = encode_content(content)
    assert encoded is not None

    stored = decode_content(encoded.data)

    call: Any = stored.request
    assert call == {**ASK, "stream": stream}
    for attempt, asked in zip(stored.attempts, received.asked, strict=True):
        call = attempt.call.apply(call)
        assert call == asked
    assert stored.attempts[1].call.kept_messages == len(ASK["messages"])
    assert stored.attempts[1].call.messages == stored.attempts[0].correction
    assert stored.received == plain(content.received)
    assert [one.replies for one in stored.attempts] == [plain(one.replies) for one in content.attempts]


@both
async def test_a_call_in_text_is_kept_as_the_model_wrote_it(stream: bool) -> None:
    content = await content_of([Said(text=IN_TEXT)], stream)

    (attempt,) = content.attempts
    assert attempt.replies[0].text == IN_TEXT
    assert attempt.replies[0].calls == ()
    (call,) = content.received[0].calls
    assert (call.tool, call.args(), content.received[0].text) == ("get_weather", PARIS, None)


@both
async def test_a_relayed_response_is_parsed_only_for_the_observer(stream: bool) -> None:
    said = Said(text="It is a long way, said the cat.", reasoning="Hm.")

    content = await content_of([said], stream, PLAIN)

    (attempt,) = content.attempts
    assert (attempt.verdict, attempt.replies) == ("delivered", content.received)
    assert (content.received[0].text, content.received[0].reasoning) == (said.text, said.reasoning)


@both
async def test_a_relayed_response_is_the_same_bytes_with_an_observer(stream: bool) -> None:
    said = Said(text="It is a long way.", reasoning="Hm.")
    deep: Any = "x"
    for _ in range(230):  # more than can be encoded for another API; it is forwarded all the same
        deep = [deep]
    choice = {"index": 0, "delta": {"content": "a"}, "message": {"content": "a"}, "finish_reason": "stop"}
    nested = Said(events=[{"choices": [{**choice, "deep": deep}]}])

    for one in (said, nested):
        with_observer = await chat([one], PLAIN, stream=stream, contents=[])

        assert with_observer == await chat([one], PLAIN, stream=stream)
        assert with_observer.status == 200


@both
async def test_suppressed_calls_are_in_the_attempt_and_not_in_the_response(stream: bool) -> None:
    said = Said(text="No.", calls=(("get_weather", "{}"),))

    content = await content_of([said], stream, {**ASK, "tool_choice": "none"})

    assert content.attempts[0].replies[0].calls == (ToolCall("get_weather", "{}", "call_0"),)
    assert content.received[0].calls == ()
    assert content.received[0].text == "No."


@both
async def test_a_failed_request_has_its_attempts(stream: bool) -> None:
    content = await content_of([UNKNOWN, Said(status=500, body={"error": {"message": "no"}})], stream)

    assert [one.verdict for one in content.attempts] == ["retried", "delivered"]
    failed = await content_of([Said(status=500, body={"error": {"message": "no"}})], stream)
    assert [one.verdict for one in failed.attempts] == ["failed"]
    assert failed.received == ()


async def test_a_response_of_any_length_is_collected_up_to_a_limit() -> None:
    content = await content_of([Said(text="x" * (MAX_COLLECTED + 10), piece=50_000)], True, PLAIN, cut=1000)

    assert content.is_cut
    assert MAX_COLLECTED - 100_000 < len(content.received[0].text or "") <= MAX_COLLECTED


@both
async def test_without_an_observer_nothing_is_collected(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(answer, "ContentRecorder", refuse)

    assert (await chat([UNKNOWN, RIGHT], ASK, stream=stream)).outcome == "retried"
