"""The daemon as a real process, a real model behind it, and the real openai SDK in front."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessage, ChatCompletionMessageParam

from tests.live.weather import ASK_PARIS, MODEL, PARIS, TOOLS, says


def calls_of(message: ChatCompletionMessage) -> list[tuple[str, Any]]:
    """The calls as (name, parsed arguments)."""
    functions = [call.function for call in message.tool_calls or [] if call.type == "function"]
    return [(function.name, json.loads(function.arguments)) for function in functions]


def after_call(message: ChatCompletionMessage, result: str) -> list[ChatCompletionMessageParam]:
    """The messages that a client adds after it has run the one call of a response."""
    (call,) = message.tool_calls or []
    assert call.type == "function"
    return [
        {
            "role": "assistant",
            "content": message.content,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": call.id, "content": result},
    ]


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_tool_call_arrives(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0)

    (choice,) = answer.choices
    assert calls_of(choice.message) == [("get_weather", PARIS)]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)


async def test_a_tool_call_arrives_at_the_async_client(async_client: openai.AsyncOpenAI) -> None:
    answer = await async_client.chat.completions.create(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0)

    assert calls_of(answer.choices[0].message) == [("get_weather", PARIS)]


def test_a_streamed_tool_call_has_perfect_deltas(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0, stream=True
    ) as stream:
        chunks = list(stream)

    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == [
        "tool_calls"
    ]
    first, *rest = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    assert first.id
    assert first.function
    assert (first.index, first.type, first.function.name, first.function.arguments) == (
        0,
        "function",
        "get_weather",
        "",
    )
    functions = [piece.function for piece in rest if piece.function]
    assert {(piece.index, piece.id, piece.type) for piece in rest} == {(0, None, None)}
    assert {function.name for function in functions} == {None}
    assert json.loads("".join(function.arguments or "" for function in functions)) == PARIS
    assert text_of(chunks) == ""


async def test_the_async_client_streams_a_tool_call(async_client: openai.AsyncOpenAI) -> None:
    stream = await async_client.chat.completions.create(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0, stream=True
    )
    async with stream:
        deltas = [choice.delta async for chunk in stream for choice in chunk.choices]

    functions = [call.function for delta in deltas for call in delta.tool_calls or [] if call.function]
    assert "".join(function.name or "" for function in functions) == "get_weather"
    assert json.loads("".join(function.arguments or "" for function in functions)) == PARIS


def test_the_streaming_helper_puts_the_call_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        answer = stream.get_final_completion()

    assert [(event.name, event.parsed_arguments) for event in done] == [("get_weather", PARIS)]
    (call,) = answer.choices[0].message.tool_calls or []
    assert (call.function.name, call.function.parsed_arguments) == ("get_weather", PARIS)
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_the_async_streaming_helper_puts_the_call_together(async_client: openai.AsyncOpenAI) -> None:
    async with async_client.chat.completions.stream(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0
    ) as stream:
        answer = await stream.get_final_completion()

    (call,) = answer.choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == PARIS


def test_a_conversation_goes_from_call_to_result_to_text(client: openai.OpenAI) -> None:
    asked = client.chat.completions.create(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0)
    messages = [*ASK_PARIS, *after_call(asked.choices[0].message, '{"weather": "sunny"}')]

    said = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=0)

    (choice,) = said.choices
    assert (choice.message.content, choice.finish_reason) == ("The weather is sunny.", "stop")
    assert not choice.message.tool_calls


def test_a_streamed_conversation_goes_from_call_to_result_to_text(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0) as stream:
        asked = stream.get_final_completion()
    messages = [*ASK_PARIS, *after_call(asked.choices[0].message, '{"weather": "sunny"}')]

    with client.chat.completions.create(
        model=MODEL, messages=messages, tools=TOOLS, temperature=0, stream=True
    ) as stream:
        chunks = list(stream)

    assert text_of(chunks) == "The weather is sunny."
    assert len([chunk for chunk in chunks if text_of([chunk])]) > 1  # as it was written, not at the end
    assert not any(choice.delta.tool_calls for chunk in chunks for choice in chunk.choices)
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]


def test_two_tasks_in_one_message_become_two_consecutive_calls(client: openai.OpenAI) -> None:
    messages = says("first find the invoice for customer Anna, then get the weather, city Oslo and days 7")
    made: list[tuple[str, Any]] = []

    for result in ('{"ok": true, "amount": 240}', "weather: rainy"):
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=0)
        made += calls_of(answer.choices[0].message)
        messages += after_call(answer.choices[0].message, result)
    last = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=0)

    assert made == [("find_invoice", {"customer": "Anna"}), ("get_weather", {"city": "Oslo", "days": 7})]
    assert last.choices[0].message.content == "The weather is rainy."


def test_a_greeting_gets_a_plain_text_response_although_tools_are_offered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=says("hi"), tools=TOOLS, temperature=0)

    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello! How can I help?", "stop")
    assert not choice.message.tool_calls


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_required_call_is_made(client: openai.OpenAI, choice: Any) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, tool_choice=choice, temperature=0
    )

    assert calls_of(answer.choices[0].message) == [("get_weather", PARIS)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_named_tool_is_called_although_the_prompt_suggests_another(client: openai.OpenAI, stream: bool) -> None:
    choice: Any = {"type": "function", "function": {"name": "find_invoice"}}
    asked: Any = {"messages": ASK_PARIS, "tools": TOOLS, "tool_choice": choice, "temperature": 0, "max_tokens": 100}

    if stream:
        with client.chat.completions.stream(model=MODEL, **asked) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model=MODEL, **asked).choices[0].message

    assert [name for name, _ in calls_of(message)] == ["find_invoice"]


def test_plain_chat_passes_through(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=says("hi"), temperature=0)

    answer = raw.parse()
    assert raw.headers["x-forge-outcome"] == "passthrough"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hello! How can I help?", "stop")
    assert answer.usage
    assert answer.usage.completion_tokens > 0


def test_plain_chat_streams_as_the_model_writes(client: openai.OpenAI) -> None:
    with client.chat.completions.create(model=MODEL, messages=says("hi"), temperature=0, stream=True) as stream:
        chunks = list(stream)

    assert text_of(chunks) == "Hello! How can I help?"
    assert len(chunks) > 5


def test_the_headers_report_the_attempts(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0, extra_headers={"x-request-id": "mine"}
    )

    assert raw.headers["x-request-id"] == "mine"
    assert (raw.headers["x-forge-outcome"], raw.headers["x-forge-attempts"]) == ("clean", "1")
    assert raw.request_id == "mine"


def test_the_end_of_a_stream_reports_the_attempts(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0, stream=True
    )
    lines = [line for line in raw.http_response.iter_lines() if line]

    assert raw.headers["x-request-id"].startswith("req_")
    assert lines[-2].startswith(": x-forge-outcome=clean x-forge-attempts=1")
    assert lines[-1] == "data: [DONE]"


async def test_concurrent_requests_each_get_their_own_response(async_client: openai.AsyncOpenAI) -> None:
    cities = ["Paris", "Berlin", "London", "Madrid", "Rome", "Oslo", "Vienna", "Lisbon", "Tokyo", "Cairo"]

    async def ask(city: str) -> str:
        messages = says(f"Please get the weather with city {city} and days 3.")
        async with async_client.chat.completions.stream(
            model=MODEL, messages=messages, tools=TOOLS, temperature=0
        ) as stream:
            answer = await stream.get_final_completion()
        ((_, args),) = calls_of(answer.choices[0].message)
        return args["city"]

    assert await asyncio.gather(*map(ask, cities)) == cities


def test_the_model_is_listed_with_its_window(client: openai.OpenAI) -> None:
    listed = list(client.models.list())
    found = client.models.retrieve(MODEL)

    assert [model.id for model in listed] == [MODEL]
    assert found.id == MODEL
    assert (found.model_extra or {})["context_length"] == 2048


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.models.retrieve("gpt-9")


@pytest.mark.parametrize("tools", [openai.omit, TOOLS], ids=["passed-through", "guarded"])
def test_an_unknown_name_is_served_and_echoed(client: openai.OpenAI, tools: Any) -> None:
    whole = client.chat.completions.create(model="gpt-9", messages=says("hi"), tools=tools, temperature=0)
    with client.chat.completions.create(
        model="gpt-9", messages=says("hi"), tools=tools, temperature=0, stream=True
    ) as stream:
        chunks = list(stream)

    assert whole.model == "gpt-9"
    assert {chunk.model for chunk in chunks} == {"gpt-9"}
    assert whole.choices[0].message.content == text_of(chunks) == "Hello! How can I help?"


@pytest.mark.parametrize("tools", [openai.omit, TOOLS], ids=["passed-through", "guarded"])
def test_usage_comes_last_where_it_was_asked_for_and_only_there(client: openai.OpenAI, tools: Any) -> None:
    def chunks(include: bool) -> list[ChatCompletionChunk]:
        with client.chat.completions.create(
            model=MODEL, messages=ASK_PARIS, tools=tools, temperature=0, max_tokens=50,
            stream=True, stream_options={"include_usage": include},
        ) as stream:  # fmt: skip
            return list(stream)

    asked, unasked = chunks(include=True), chunks(include=False)

    *before, last = asked
    assert last.choices == []
    assert last.usage
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
    assert all(chunk.usage is None for chunk in [*before, *unasked])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_conversation_that_does_not_fit_is_an_error_that_clients_act_on(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=says("word " * 3000), tools=TOOLS, stream=stream)

    assert caught.value.code == "context_length_exceeded"
    assert caught.value.request_id
