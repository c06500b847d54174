"""A response that is interrupted before anything of it was sent is retried, up to twice."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendTimeout, BackendUnreachable
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.events import Event, LostResponseRetried
from forge_proxy.telemetry.log_events import to_log_line
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT
from tests.fakes.says import Said
from tests.fakes.scripted import chat

PLAIN = {key: value for key, value in ASK.items() if key != "tools"}
CLOSED = BackendBroke("http://scripted", "it closed the connection without a response")
OUT_OF_MEMORY: dict[str, Any] = {"error": {"code": 500, "message": "out of memory", "type": "server_error"}}
ERROR_FIRST = Said(status=200, events=[OUT_OF_MEMORY])


class StreamedAnyway(Said):
    """The response of a server that streams whether the request asks for a stream or not."""

    def as_whole(self) -> bytes:
        return self.as_stream()


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("body", [PLAIN, ASK], ids=["unguarded", "guarded"])


@both
@pytest.mark.parametrize(
    "broken",
    [
        CLOSED,
        Said(text="It is", breaks_off=True),
        Said(calls=(("get_weather", PARIS_TEXT[:12]),), breaks_off=True),
        Said(reasoning="Let me", breaks_off=True),
        Said(calls=(("get_weather", PARIS_TEXT),), breaks_off=True),
    ],
    ids=["closed before any header", "in text", "in a call", "in reasoning", "without a finish reason"],
)
async def test_a_guarded_response_that_breaks_off_is_retried(broken: Said | Exception, stream: bool) -> None:
    heard: list[Event] = []

    answer = await chat([broken, broken, RIGHT], ASK, stream=stream, heard=heard)

    assert (answer.status, answer.calls, answer.finish) == (200, [("get_weather", PARIS)], "tool_calls")
    assert answer.asked[0] == answer.asked[1] == answer.asked[2]
    lines = [to_log_line(event) for event in heard if isinstance(event, LostResponseRetried)]
    assert [line.event for line in lines] == ["retried"] * 2
    assert all("was interrupted" in line.fields["reason"] for line in lines)


@both
@guarded_too
@pytest.mark.parametrize("broken", [CLOSED, ERROR_FIRST], ids=["closed before any header", "an error event first"])
async def test_a_response_of_which_nothing_was_sent_is_retried_unguarded_too(
    broken: Said | Exception, body: dict[str, Any], stream: bool
) -> None:
    answer = await chat([broken, broken, RIGHT], body, stream=stream)

    assert (answer.status, answer.calls) == (200, [("get_weather", PARIS)])


@guarded_too
async def test_a_whole_response_that_the_server_streams_is_retried(body: dict[str, Any]) -> None:
    broken = StreamedAnyway(text="It is sunny in", breaks_off=True)

    answer = await chat(
        [broken, broken, StreamedAnyway(text="It rains.")], body, policy=GuardPolicy(text_responses="accept")
    )

    assert (answer.status, answer.text, answer.finish) == (200, "It rains.", "stop")


@both
@guarded_too
async def test_the_third_response_that_breaks_off_ends_the_request(body: dict[str, Any], stream: bool) -> None:
    answer = await chat([CLOSED] * 3 + [RIGHT], body, stream=stream)

    assert answer.status == 502
    assert answer.error
    assert answer.error["code"] == "backend_broke_off"
    assert len(answer.asked) == 3


@both
@pytest.mark.parametrize(
    "error",
    [
        BackendTimeout("http://scripted", 1800),
        BackendUnreachable("http://scripted", "connection refused"),
        Said(status=500, body=OUT_OF_MEMORY),
        Said(status=503, body={"error": {"code": 503, "message": "loading"}}),
        Said(status=429, body={"error": {"message": "slow down"}}),
        Said(status=400, body={"error": {"message": "no"}}),
    ],
    ids=["silence", "no connection", "500", "503", "429", "400"],
)
async def test_errors_that_clients_handle_are_forwarded_at_once(error: Said | Exception, stream: bool) -> None:
    answer = await chat([error, RIGHT], ASK, stream=stream)

    assert answer.status >= 400
    assert len(answer.asked) == 1


async def test_an_error_event_that_blames_the_request_is_not_retried() -> None:
    wrong = {"error": {"code": 400, "message": "no such role", "type": "invalid_request_error"}}

    answer = await chat([Said(events=[wrong]), RIGHT], ASK, stream=True)

    assert (answer.status, len(answer.asked)) == (400, 1)


async def test_a_whole_response_is_retried_whatever_it_began_with() -> None:
    said = Said(text="It is sunny in Paris.", reasoning="Hm.", breaks_off=True)
    again = Said(text="It rains.", reasoning="Let me see.")

    answer = await chat([said, said, again], ASK, stream=False, policy=GuardPolicy(text_responses="accept"))

    assert (answer.status, answer.text, answer.reasoning) == (200, "It rains.", "Let me see.")
    assert answer.outcome == "clean"


async def test_there_is_no_retry_after_text_was_sent() -> None:
    said = Said(text="It is sunny in Paris today and tomorrow.", breaks_off=True)

    with pytest.raises(AssertionError):  # the stream has no end, which the reader of the tests insists on
        await chat([said, RIGHT], ASK, stream=True, policy=GuardPolicy(text_responses="accept"))
