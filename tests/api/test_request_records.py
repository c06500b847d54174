"""The record of a request: where it came from and what happened to it, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.requests.records import CallRecord, RequestOrigin, RequestRecord, TokenCounts
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered, RequestFailed
from tests.api.test_mistakes import ASK, RIGHT, both
from tests.fakes.says import Said
from tests.fakes.scripted import chat

UNKNOWN = Said(calls=(("get_wether_report_now", '{"city": "Paris"}'),))


async def record_of(script: list[Said | Exception], stream: bool, **options: Any) -> RequestRecord:
    """Return the record of one request."""
    heard: list[Event] = []
    await chat(script, options.pop("body", ASK), stream=stream, heard=heard, **options)
    (record,) = [
        event.record for event in heard if isinstance(event, RequestAnswered | RequestFailed | RequestAbandoned)
    ]
    return record


@both
async def test_a_retried_request_has_a_record_of_each_attempt(stream: bool) -> None:
    record = await record_of([UNKNOWN, RIGHT], stream)

    first, second = record.attempts
    assert (first.number, first.fault, first.tool) == (1, "unknown_tool", "get_wether_report_now")
    assert (second.number, second.fault) == (2, None)
    assert first.tokens == second.tokens == TokenCounts(prompt=10, completion=5)
    assert record.tokens == TokenCounts(prompt=20, completion=10)
    assert (record.retry_tokens, record.faults, record.result) == (15, ("unknown_tool",), "retried")
    assert record.calls == (CallRecord("get_weather", Outcome.RETRIED),)
    assert (record.is_streamed, record.tools, record.error) == (stream, len(ASK["tools"]), "")


@both
async def test_a_request_without_tools_has_one_attempt(stream: bool) -> None:
    body = {"messages": ASK["messages"], "stream_options": {"include_usage": True}} if stream else ASK["messages"]
    record = await record_of([Said(text="Hello.")], stream, body=body if stream else {"messages": body})

    (attempt,) = record.attempts
    assert attempt.tokens == TokenCounts(prompt=10, completion=5)
    assert (record.result, record.retry_tokens, record.calls) == ("passthrough", 0, ())


@both
async def test_a_failed_request_has_the_error_without_the_prompt(stream: bool) -> None:
    record = await record_of([Said(status=500, body={"error": {"message": "out of memory"}})], stream)

    assert record.result == "failed"
    assert "out of memory" in record.error
    assert record.first_output is None


@pytest.mark.parametrize(
    ("agent", "program"),
    [
        ("OpenAI/Python 3.54.0", "OpenAI/Python"),
        ("claude-cli/2.1.330 (external, cli)", "claude-cli/2.1.330"),
        ("Mozilla/5.0 (X11; Linux)", "Mozilla/5.0"),
        ("", ""),
        ("(none)", ""),
        ("x" * 500, "x" * 41),
    ],
)
async def test_a_record_names_the_client_program(agent: str, program: str) -> None:
    record = await record_of([RIGHT], False, headers={"user-agent": agent})

    assert record.origin == RequestOrigin("chat_completions", "", program)


async def test_a_record_contains_neither_prompt_nor_response() -> None:
    secret = "hunter2-in-a-prompt"
    body = {**ASK, "messages": [{"role": "user", "content": secret}]}
    call = (("get_weather", json.dumps({"city": secret, "days": "many"})),)
    record = await record_of([Said(calls=call), Said(text=secret), RIGHT], True, body=body)

    assert len(record.attempts) > 1
    assert secret not in repr(record)


@pytest.mark.parametrize(
    ("headers", "fields", "priority"),
    [
        ({}, {}, "interactive"),
        ({"x-forge-priority": "background"}, {}, "background"),
        ({"x-forge-priority": "Interactive"}, {"service_tier": "flex"}, "interactive"),
        ({}, {"service_tier": "flex"}, "background"),
        ({}, {"service_tier": "default"}, "interactive"),
    ],
)
async def test_a_request_has_the_priority_that_its_client_chose(
    headers: dict[str, str], fields: dict[str, str], priority: str
) -> None:
    record = await record_of([RIGHT], False, headers=headers, body={**ASK, **fields})

    assert record.origin.priority == priority


async def test_an_unknown_priority_is_a_400_that_names_the_header() -> None:
    answer = await chat([RIGHT], ASK, headers={"x-forge-priority": "low"})

    assert answer.status == 400
    assert answer.error is not None
    assert answer.error["param"] == "header x-forge-priority"
    assert "interactive or background" in answer.error["message"]
