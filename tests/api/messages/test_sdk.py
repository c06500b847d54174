"""The real anthropic SDK against the daemon's own HTTP server, with a scripted model server behind it."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from anthropic.types import MessageParam, ToolParam

from tests.api.messages.world import PARIS, Served, served
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict

USER: list[MessageParam] = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOL: ToolParam = {
    "name": "get_weather",
    "description": "The weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
LEAKED = Said(text='{"name": "get_weather", "arguments": {"city": "Paris"}}')


def play(asked: JsonDict) -> Said:
    """A model that reasons, writes its call as text, and answers when it has the result."""
    if any(message["role"] == "tool" for message in asked["messages"]):
        return Said(text="It is sunny in Paris.")
    return LEAKED if asked.get("tools") else Said(text="It is sunny.", reasoning="Easy.")


def create(world: Served, **options: Any) -> Any:
    return world.client.messages.create(model="claude-x", max_tokens=100, messages=USER, **options)


def test_create_returns_a_message() -> None:
    with served(play) as world:
        message = create(world)

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[1].text == "It is sunny."
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("end_turn", 10, 5)
    assert message._request_id.startswith("req_")


def test_the_stream_helper_assembles_a_call() -> None:
    with (
        served(play) as world,
        world.client.messages.stream(model="claude-x", max_tokens=100, messages=USER, tools=[TOOL]) as stream,
    ):
        kinds = [event.type for event in stream]
        message = stream.get_final_message()

    (block,) = message.content
    assert block.type == "tool_use"
    assert block.input == {"city": "Paris"}
    assert message.stop_reason == "tool_use"
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


def test_the_stream_helper_assembles_reasoning_and_text() -> None:
    with served(play) as world, world.client.messages.stream(model="claude-x", max_tokens=100, messages=USER) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()

    assert text == "It is sunny."
    assert message.content[0].type == "thinking"
    assert message.content[0].signature


def test_raw_events_are_streamed() -> None:
    with served(play) as world:
        kinds = [event.type for event in create(world, stream=True)]

    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-2:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_tool_runner_runs_the_tool_and_returns_the_answer(stream: bool) -> None:
    cities: list[str] = []

    @beta_tool
    def get_weather(city: str) -> str:
        """The weather.

        Args:
            city: The city.
        """
        cities.append(city)
        return "sunny"

    with served(play) as world:
        runner = world.client.beta.messages.tool_runner(
            model="claude-x", max_tokens=100, messages=[{"role": "user", "content": "Weather?"}], tools=[get_weather],
            stream=stream,
        )  # fmt: skip
        final: Any = runner.until_done()
        asked = world.http.asked

    assert cities == ["Paris"]
    assert final.content[0].text == "It is sunny in Paris."
    call, result = asked[1]["messages"][1:3]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == json.loads(PARIS)
    assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "sunny"}


def test_tokens_are_counted() -> None:
    with served(play) as world:
        short = world.client.messages.count_tokens(model="claude-x", messages=USER)
        long = world.client.messages.count_tokens(model="claude-x", messages=USER, tools=[TOOL], system="x" * 400)

    assert long.input_tokens - 100 > short.input_tokens > 0


def test_models_are_listed_and_retrieved() -> None:
    with served(play) as world:
        listed = list(world.client.models.list())
        one = world.client.models.retrieve("scripted")

    assert [(model.id, model.type, model.display_name) for model in listed] == [("scripted", "model", "scripted")]
    assert one == listed[0]
    assert one.created_at.year == 1970


def test_an_overflow_is_a_bad_request_with_its_id() -> None:
    body = {"error": {"message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 90, "n_ctx": 80}}
    with served([Said(status=400, body=body)]) as world, pytest.raises(anthropic.BadRequestError) as caught:
        create(world)

    assert caught.value.type == "invalid_request_error"
    assert "prompt is too long: 90 tokens > 80 maximum" in caught.value.message
    assert caught.value.request_id


def test_a_key_is_sent_in_either_way() -> None:
    with served(play, api_keys=["kkkkkkkk"]) as world:
        keys: list[dict[str, Any]] = [{"api_key": "kkkkkkkk"}, {"auth_token": "kkkkkkkk"}]
        for key in keys:
            with anthropic.Anthropic(base_url=world.url, max_retries=0, **key) as client:
                assert client.messages.create(model="m", max_tokens=9, messages=USER).content
        with pytest.raises(anthropic.AuthenticationError):
            create(world)


async def test_the_async_client_creates_streams_and_counts() -> None:
    with served(play) as world:
        async with anthropic.AsyncAnthropic(base_url=world.url, auth_token="none", max_retries=0) as client:
            message = await client.messages.create(model="claude-x", max_tokens=100, messages=USER)
            async with client.messages.stream(model="claude-x", max_tokens=100, messages=USER, tools=[TOOL]) as stream:
                streamed = await stream.get_final_message()
            count = await client.messages.count_tokens(model="claude-x", messages=USER)

    assert message.content[-1].type == "text"
    assert streamed.stop_reason == "tool_use"
    assert count.input_tokens > 0
