"""`GET /admin/v1/events`: the format of the stream, and its parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.guardrails.turn import Fault, Outcome
from forge_proxy.engine.events import AttemptRetried, RequestAnswered, ServerStateChanged
from forge_proxy.telemetry.event_feed import EventFeed
from tests.api.admin.world import ADMIN, error, world
from tests.fakes.records import CLEAN
from tests.fakes.says import Said

PATH = f"{ADMIN}/events"


def parse(text: str) -> list[dict[str, Any]]:
    """The events of a stream, each with its `id` or its `type`."""
    events: list[dict[str, Any]] = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append({**json.loads(fields.pop("data")), **fields})
    return events


def filled() -> EventFeed:
    feed = EventFeed(read_clock=lambda: 1_700_000_000.5)
    feed(ServerStateChanged("llama-server", "ready", model="tiny"))
    feed(AttemptRetried("req-1", 1, Fault.UNKNOWN_TOOL, "get_wether", "no such tool"))
    return feed


async def test_an_event_is_the_line_of_the_log_with_an_id() -> None:
    async with world(events=filled()) as client:
        answer = await client.get(PATH, params={"follow": "false", "event": "retried"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-request-id"]
    assert parse(answer.text) == [
        {
            "id": "1700000000500002",
            "timestamp": "2023-11-14T22:13:20.500002Z",
            "level": "info",
            "event": "retried",
            "request_id": "req-1",
            "attempt": 1,
            "fault": "unknown_tool",
            "tool": "get_wether",
            "reason": "no such tool",
        }
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["model server", "retried"]),
        ("?last=1", ["retried"]),
        ("?event=retried&event=model%20server", ["model server", "retried"]),
        ("?request_id=req-1", ["retried"]),
        ("?model=tiny", ["model server"]),
        ("?level=warning", []),
        ("?after=1700000000500001", ["retried"]),
    ],
)
async def test_the_stream_begins_with_the_stored_events_and_ends_with_the_daemon(
    query: str, expected: list[str]
) -> None:
    feed = filled()
    feed.close()
    async with world(events=feed) as client:
        events = parse((await client.get(PATH + query)).text)

    assert [event["event"] for event in events] == [*expected, "stopping"]
    assert events[-1] == {"event": "stopping", "message": "the daemon is stopping"}


async def test_a_client_that_was_disconnected_continues_after_its_last_event() -> None:
    async with world(events=filled()) as client:
        headers = {"last-event-id": "1700000000500001"}
        answer = await client.get(PATH, params={"follow": "false", "last": 0}, headers=headers)

    assert [event["event"] for event in parse(answer.text)] == ["retried"]


@pytest.mark.parametrize(
    ("query", "headers", "param"),
    [
        ("?event=retry", {}, "event.0"),
        ("?level=debug", {}, "level"),
        ("?after=-1", {}, "after"),
        (f"?after={2**53}", {}, "after"),
        ("?evnt=retried", {}, "evnt"),
        ("", {"last-event-id": "x"}, "Last-Event-ID"),
        ("", {"last-event-id": str(2**53)}, "Last-Event-ID"),
    ],
)
async def test_a_wrong_parameter_is_named(query: str, headers: dict[str, str], param: str) -> None:
    async with world() as client:
        assert error(await client.get(PATH + query, headers=headers)) == (400, None, param)


async def test_more_followers_than_allowed_are_refused() -> None:
    async with world(events=EventFeed(max_followers=0)) as client:
        answer = await client.get(PATH)

    assert error(answer) == (429, "too_many_followers", None)
    assert "0 clients follow this stream already" in answer.text


async def test_a_count_of_any_size_is_sent() -> None:
    feed = EventFeed()
    feed(RequestAnswered(CLEAN, Report(Outcome.CLEAN, tokens=2**70)))
    async with world(events=feed) as client:
        answer = await client.get(PATH, params={"follow": "false"})

    assert parse(answer.text)[0]["tokens"] == 2**70


async def test_no_prompt_and_no_response_is_in_the_events() -> None:
    feed = EventFeed()
    heard: list[Any] = []
    secret = "Amalfi"
    wrong = Said(calls=(("get_weather", f'{{"town": "{secret}"}}'),))
    right = Said(calls=(("get_weather", f'{{"city": "{secret}"}}'),))
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    body = {"model": "scripted", "messages": [{"role": "user", "content": secret}], "tools": [tool]}
    async with world(wrong, right, events=feed, heard=heard) as client:
        assert (await client.post("/v1/chat/completions", json=body)).is_success
        for event in heard:
            feed(event)
        text = (await client.get(PATH, params={"follow": "false"})).text

    assert [event["event"] for event in parse(text)][-2:] == ["retried", "answered"]
    assert secret not in text
