"""The prefix cache of the model server keeps hitting from turn to turn."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage, ChatCompletionMessageParam

from tests.fakes.processes import daemon
from tests.live.weather import MODEL, TOOLS, says, tool

GET_WEATHER = tool("get_weather", "get the weather", city="string", days="integer")
GET_WEATHER["function"]["parameters"] = {
    "type": "object",
    "properties": {"city": {"type": "string", "not": {"const": "Rome"}}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
CITIES = ["Paris", "Berlin", "London", "Madrid", "Rome", "Oslo", "Vienna", "Lisbon", "Tokyo", "Cairo"]
NUDGED = CITIES.index("Rome")
"""The turn that the daemon retries: its call breaks a rule that no grammar can enforce."""


@pytest.fixture(scope="module")
def client() -> Generator[openai.OpenAI]:
    """A daemon whose model has one slot: no other conversation replaces it in the cache."""
    env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1", "FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "1"}
    with (
        daemon("--backend", "embedded", env=env) as process,
        openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


@dataclass(frozen=True)
class Turn:
    """One turn: tokens of the delivered attempt's prompt that were cached and that were processed, tokens of the
    client's own prompt, and the number of attempts.
    """

    cached: int
    read: int
    own: int
    attempts: int


def asked(
    client: openai.OpenAI, messages: list[ChatCompletionMessageParam], tool_choice: Any, *, stream: bool
) -> tuple[ChatCompletion, int]:
    """One turn, and the number of attempts."""
    body: dict[str, Any] = {"messages": messages, "tools": [GET_WEATHER, *TOOLS[1:]], "tool_choice": tool_choice}
    if not stream:
        raw = client.chat.completions.with_raw_response.create(model=MODEL, temperature=0, **body)
        return raw.parse(), int(raw.headers["x-forge-attempts"])
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, temperature=0, stream=True, stream_options={"include_usage": True}, **body
    )
    extra: dict[str, Any] = {}
    attempts = 0
    for line in raw.http_response.iter_lines():
        if line.startswith("data: {"):
            chunk = ChatCompletionChunk.model_validate_json(line[6:])
            state.handle_chunk(chunk)
            extra |= chunk.model_extra or {}
        elif told := re.search("x-forge-attempts=([0-9]+)", line):
            attempts = int(told[1])
    return ChatCompletion.model_validate({**state.get_final_completion().model_dump(), **extra}), attempts


def after(message: ChatCompletionMessage, result: str) -> list[ChatCompletionMessageParam]:
    """The messages that a client adds after it has run the calls of a response, and the text of one without calls."""
    told: Any = message.model_dump(exclude_none=True)
    results: list[Any] = [
        {"role": "tool", "tool_call_id": call.id, "content": result} for call in message.tool_calls or []
    ]
    return [told, *results]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tool_choice", ["auto", "required"])
def test_each_turn_of_a_conversation_begins_with_what_was_read_before(
    client: openai.OpenAI, tool_choice: Any, stream: bool
) -> None:
    messages: list[ChatCompletionMessageParam] = []
    turns: list[Turn] = []
    for city in CITIES:
        messages += says(f"Please get the weather with city {city} and days 3.")

        answer, attempts = asked(client, messages, tool_choice, stream=stream)

        timings = (answer.model_extra or {})["timings"]
        assert answer.usage
        turns.append(Turn(timings["cache_n"], timings["prompt_n"], answer.usage.prompt_tokens, attempts))
        messages += after(answer.choices[0].message, "weather: sunny")

    ours = turns[1].cached + turns[1].read - turns[1].own
    assert [turn.attempts > 1 for turn in turns] == [number == NUDGED for number in range(len(turns))]
    assert (ours > 0) is (tool_choice == "auto")
    for number, (turn, following) in enumerate(pairwise(turns)):
        assert following.cached >= turn.own + ours  # all that the client sent in the turn before
        assert number == NUDGED or turn.cached + turn.read == turn.own + ours
