"""Histories and schemas that a bare llama.cpp rejects, through the daemon."""

from __future__ import annotations

from typing import Any

import openai
import pytest

JsonDict = dict[str, Any]
USER: JsonDict = {"role": "user", "content": "Please get the weather with city Paris and days 3."}


def tool(parameters: Any, **fields: Any) -> Any:
    return {"type": "function", "function": {"name": "get_weather", "parameters": parameters, **fields}}


def city(schema: Any) -> JsonDict:
    return {"type": "object", "properties": {"city": schema}}


def called(arguments: Any, **fields: Any) -> JsonDict:
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}, **fields}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


HISTORIES: dict[str, list[JsonDict]] = {
    "broken arguments": [called('{city: "a'), {"role": "tool", "tool_call_id": "c1", "content": "x"}],
    "empty arguments": [called(""), {"role": "tool", "tool_call_id": "c1", "content": "x"}],
    "null ids": [called("{}", id=None), {"role": "tool", "tool_call_id": None, "content": "x"}],
    "no type": [called("{}", type=None), {"role": "tool", "tool_call_id": "c1", "content": "x"}],
    "result without content": [called("{}"), {"role": "tool", "tool_call_id": "c1"}],
    "empty answer": [{"role": "assistant"}],
}
SCHEMAS: dict[str, Any] = {
    "items: true": city({"type": "array", "items": True}),
    "a boolean": city(True),
    "parameters are true": True,
    "bad pattern": city({"type": "string", "pattern": "^[a-$"}),
    "too many items": city({"type": "array", "items": {"type": "string"}, "minItems": 3000}),
    "reference to the root": city({"$ref": "#"}),
    "remote reference": city({"$ref": "https://example.com/s.json"}),
    "empty enum": city({"enum": []}),
    "unknown type": city({"type": "any"}),
    "null properties": {"type": "object", "properties": None},
}


@pytest.mark.parametrize("messages", HISTORIES.values(), ids=HISTORIES.keys())
def test_a_broken_history_does_not_end_the_conversation(client: openai.OpenAI, messages: list[Any]) -> None:
    answer = client.chat.completions.create(model="tiny-tools", messages=[USER, *messages, USER], max_tokens=8)  # pyright: ignore[reportArgumentType]

    assert answer.choices


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_of_any_kind_can_be_offered(client: openai.OpenAI, schema: Any, choice: Any) -> None:
    answer = client.chat.completions.create(
        model="tiny-tools",
        messages=[USER],  # pyright: ignore[reportArgumentType]
        tools=[tool(schema)],
        tool_choice=choice,
        extra_headers={"x-forge-guardrails": "off"},  # the model's response does not matter
        max_tokens=40,
    )

    assert answer.choices


def test_a_tool_without_a_description_can_be_offered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-tools",
        messages=[USER],  # pyright: ignore[reportArgumentType]
        tools=[tool(city({"type": "string"}), description=None)],
        max_tokens=60,
    )

    assert answer.choices


def test_an_overflow_error_has_the_numbers(client: openai.OpenAI) -> None:
    long: Any = [{"role": "user", "content": "hi " * 3000}]

    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny-tools", messages=long)

    assert refused.value.code == "context_length_exceeded"
    assert refused.value.message.count("maximum context length is 2048 tokens") == 1


@pytest.mark.parametrize("limit", [100_000, 2**40])
def test_a_token_limit_larger_than_the_window_is_accepted(client: openai.OpenAI, limit: int) -> None:
    answer = client.chat.completions.create(
        model="tiny-tools",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=limit,
    )

    assert answer.choices[0].message.content
