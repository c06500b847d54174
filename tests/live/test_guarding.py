"""The guardrails deliver more valid calls of a model that makes mistakes, and report each invalid one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import jsonschema_rs
import openai
import pytest
from openai.types.chat import ChatCompletionMessage

from tests.live.weather import MODEL
from tests.tiny_model.conversations import Case, heldout_requests

REQUESTS = 60
RAW = {"x-forge-guardrails": "off"}


@dataclass(frozen=True)
class Tried:
    """The result of one request."""

    outcome: str
    calls: bool
    valid: bool


def try_out(client: openai.OpenAI, case: Case, seed: int, headers: Mapping[str, str]) -> Tried:
    """One held-out request at temperature 1."""
    asked: Any = {"messages": case.messages, "tools": case.tools}
    try:
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, temperature=1, seed=seed, max_tokens=200, extra_headers=headers, **asked
        )
    except openai.InternalServerError as error:
        return Tried(str(error.code), calls=False, valid=False)
    message = raw.parse().choices[0].message
    return Tried(raw.headers["x-forge-outcome"], bool(message.tool_calls), is_valid(message, case.tools))


def is_valid(message: ChatCompletionMessage, tools: Iterable[Any]) -> bool:
    """Whether there is a call, and each call is of an offered tool with arguments that its schema allows."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    functions = [call.function for call in message.tool_calls or [] if call.type == "function"]
    return bool(functions) and all(
        function.name in schemas and jsonschema_rs.is_valid(schemas[function.name], json.loads(function.arguments))
        for function in functions
    )


def test_more_calls_are_valid_with_guardrails_and_invalid_ones_are_reported(client: openai.OpenAI) -> None:
    cases = list(heldout_requests(REQUESTS, seed=0))

    def try_all(headers: Mapping[str, str]) -> list[Tried]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(try_out, repeat(client), cases, range(REQUESTS), repeat(headers)))

    raw, guarded = try_all(RAW), try_all({})

    assert {tried.outcome for tried in raw} == {"passthrough"}
    assert sum(tried.valid for tried in guarded) > sum(tried.valid for tried in raw)
    assert sum(tried.valid for tried in guarded) >= 0.9 * REQUESTS
    assert all(tried.valid for tried in guarded if tried.calls and tried.outcome != "exhausted")


@pytest.mark.parametrize("seed", range(8))
def test_streamed_calls_are_valid_too(client: openai.OpenAI, seed: int) -> None:
    (case,) = heldout_requests(1, seed=seed)
    asked: Any = {"messages": case.messages, "tools": strict(case.tools)}

    with client.chat.completions.stream(model=MODEL, temperature=1, seed=seed, max_tokens=200, **asked) as stream:
        answer = stream.get_final_completion()

    message = answer.choices[0].message
    assert not message.tool_calls or is_valid(message, case.tools)


def strict(tools: Iterable[Any]) -> list[Any]:
    """The tools marked strict: the SDK's helper accepts no others."""
    return [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools]
