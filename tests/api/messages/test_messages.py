"""The Messages API: what the model server receives, what the client receives, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy
from tests.api.messages.world import GUARDED, MESSAGES, PARIS, PLAIN, USER, WEATHER, send
from tests.fakes.message_events import assemble
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict
from tests.properties import sample

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
CALL = Said(calls=(("get_weather", PARIS),))


@both
async def test_a_text_is_one_block(stream: bool) -> None:
    answer = await send([Said(text="It is sunny.")], PLAIN, stream=stream)

    assert answer.message["content"] == [{"type": "text", "text": "It is sunny."}]
    assert (answer.message["role"], answer.message["model"]) == ("assistant", "claude-x")
    assert (answer.message["stop_reason"], answer.message["stop_sequence"]) == ("end_turn", None)
    usage = answer.message["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (10, 5, 0)


@both
async def test_reasoning_is_a_signed_block_before_the_text(stream: bool) -> None:
    answer = await send([Said(text="Yes.", reasoning="Is it? It is.")], PLAIN, stream=stream)

    thinking, text = answer.message["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Is it? It is.")
    assert thinking["signature"].startswith("forge-proxy.1.")
    assert text == {"type": "text", "text": "Yes."}


@both
async def test_reasoning_that_the_client_wants_omitted_comes_back_by_its_signature(stream: bool) -> None:
    omitted: JsonDict = {**PLAIN, "thinking": {"type": "adaptive", "display": "omitted"}}
    answer = await send([Said(text="Yes.", reasoning="It is.")], omitted, stream=stream)
    history = [USER, {"role": "assistant", "content": answer.message["content"]}, USER]

    after = await send([Said(text="Yes.")], {**omitted, "messages": history})

    assert answer.message["content"][0]["thinking"] == ""
    assert "It is." not in json.dumps(answer.message)
    assert after.asked[0]["messages"][1]["reasoning_content"] == "It is."


@both
async def test_a_call_is_guarded(stream: bool) -> None:
    leaked = Said(text='{"name": "get_weather", "arguments": {"city": "Paris"}}')

    answer = await send([leaked], GUARDED, stream=stream)

    (block,) = answer.message["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "get_weather", {"city": "Paris"})
    assert block["id"]
    assert answer.message["stop_reason"] == "tool_use"
    said = answer.response.text if stream else answer.headers["x-forge-outcome"]
    assert "rescued" in said


@both
async def test_an_invalid_call_is_retried(stream: bool) -> None:
    answer = await send([Said(calls=(("get_weather", '{"town": 1}'),)), CALL], GUARDED, stream=stream)

    (block,) = answer.message["content"]
    assert block["input"] == {"city": "Paris"}
    assert len(answer.asked) == 2


@both
async def test_parallel_calls_that_the_server_interleaves_are_sent_one_after_another(stream: bool) -> None:
    def piece(index: int, **fields: Any) -> JsonDict:
        delta = {"tool_calls": [{"index": index, **fields}]}
        return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}

    end = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    events = [
        piece(0, id="a", type="function", function={"name": "get_weather", "arguments": '{"ci'}),
        piece(1, id="b", type="function", function={"name": "get_weather", "arguments": '{"city": "Os'}),
        piece(0, function={"arguments": 'ty": "Paris"}'}),
        piece(1, function={"arguments": 'lo"}'}),
        end,
    ]
    whole = Said(calls=(("get_weather", PARIS), ("get_weather", '{"city": "Oslo"}')), ids="ab")
    relayed = {"x-forge-guardrails": "off"}

    answer = await send([Said(events=events) if stream else whole], GUARDED, stream=stream, headers=relayed)

    blocks = answer.message["content"]
    assert [block["input"] for block in blocks] == [{"city": "Paris"}, {"city": "Oslo"}]
    assert len({block["id"] for block in blocks}) == 2


@pytest.mark.parametrize("cut", sample(range(1, 40), 1))
async def test_a_stream_gives_the_same_events_wherever_it_is_cut(cut: int) -> None:
    said = Said(text="Zürich, 東京", reasoning="Hm 😀", calls=(("get_weather", PARIS),))
    for body, headers in ((GUARDED, {}), (GUARDED, {"x-forge-guardrails": "off"})):
        at_once = await send([said], body, stream=True, headers={**headers, "x-request-id": "r"})

        in_pieces = await send([said], body, stream=True, cut=cut, headers={**headers, "x-request-id": "r"})

        assert in_pieces.message == at_once.message
        assert in_pieces.message["content"][0]["type"] == "thinking"


@both
@pytest.mark.parametrize(
    ("finish", "extra", "reason"),
    [
        ("stop", {}, "end_turn"),
        ("length", {"max_tokens": 5}, "max_tokens"),
        ("length", {"max_tokens": 32000}, "model_context_window_exceeded"),
        ("content_filter", {}, "refusal"),
        ("function_call", {}, "tool_use"),
    ],
)
async def test_the_stop_reason_is_anthropics(stream: bool, finish: str, extra: JsonDict, reason: str) -> None:
    answer = await send([Said(text="It is", finish=finish)], {**PLAIN, **extra}, stream=stream)

    assert answer.message["stop_reason"] == reason


async def test_the_stop_sequence_that_the_server_reports_is_returned() -> None:
    choice = {"index": 0, "delta": {"content": "It is"}, "finish_reason": "stop", "stop_reason": "###"}
    said = Said(events=[{"id": "x", "model": "m", "choices": [choice]}])

    answer = await send([said], {**PLAIN, "stop_sequences": ["###"]}, stream=True)

    assert (answer.message["stop_reason"], answer.message["stop_sequence"]) == ("stop_sequence", "###")
    assert answer.asked[0]["stop"] == ["###"]


@both
async def test_cached_tokens_are_not_input_tokens(stream: bool) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "total_tokens": 109,
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    message = {"role": "assistant", "content": "Yes."}
    whole = {"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    delta = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}
    events = [delta, {"id": "x", "choices": [], "usage": usage}] if stream else [{**whole, "usage": usage}]

    answer = await send([Said(events=events)], PLAIN, stream=stream)

    assert answer.message["usage"] == {
        "input_tokens": 20,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 80,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 4},
    }


async def test_a_server_without_usage_has_estimates() -> None:
    events = [chunk for chunk in Said(text="It is sunny today.").as_chunks() if "usage" not in chunk]

    answer = await send([Said(events=events)], PLAIN, stream=True)

    usage = answer.message["usage"]
    assert usage["input_tokens"] > usage["output_tokens"] > 0


async def test_what_is_dropped_is_reported_without_values() -> None:
    body: JsonDict = {
        **GUARDED,
        "tools": [WEATHER, {"type": "web_search_20250305", "name": "web_search"}],
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "new_beta_field": {"secret": "value"},
    }

    whole = await send([CALL], body)
    streamed = await send([CALL], body, stream=True)

    for answer in (whole, streamed):
        said = answer.headers["x-forge-interventions"]
        assert "dropped tools[1]: web_search_20250305 runs on Anthropic's servers only" in said
        assert "dropped new_beta_field: unknown field" in said
        assert "dropped context_management.edits[0]: clear_tool_uses_20250919 is not supported" in said
        assert "secret" not in said
    assert [tool["function"]["name"] for tool in whole.asked[0]["tools"]] == ["get_weather", "respond"]


async def test_the_beta_query_is_accepted() -> None:
    answer = await send([Said(text="Yes.")], PLAIN, path=f"{MESSAGES}?beta=true")

    assert answer.status == 200


async def test_a_required_tool_choice_is_enforced() -> None:
    body: JsonDict = {**GUARDED, "tool_choice": {"type": "tool", "name": "get_weather"}}

    answer = await send([Said(text="No."), CALL], body)

    assert answer.message["stop_reason"] == "tool_use"
    assert len(answer.asked) == 2


async def test_one_call_is_delivered_if_parallel_use_is_disabled() -> None:
    two = Said(calls=(("get_weather", PARIS), ("get_weather", '{"city": "Oslo"}')))
    body: JsonDict = {**GUARDED, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}

    answer = await send([two], body)

    assert len(answer.message["content"]) == 1


async def test_an_empty_relayed_response_is_an_empty_message() -> None:
    answer = await send([Said()], PLAIN, stream=True)

    assert answer.message["content"] == []
    assert assemble(answer.events)["stop_reason"] == "end_turn"


async def test_a_refusal_is_text() -> None:
    choice = {"index": 0, "delta": {"refusal": "I cannot."}, "finish_reason": "content_filter"}
    said = Said(events=[{"id": "x", "model": "m", "choices": [choice]}])

    answer = await send([said], PLAIN, stream=True, policy=GuardPolicy())

    assert answer.message["content"] == [{"type": "text", "text": "I cannot."}]
    assert answer.message["stop_reason"] == "refusal"


async def test_reasoning_that_anthropics_api_signed_is_not_sent_to_another_server() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
    history = [USER, {"role": "assistant", "content": [signed, {"type": "text", "text": "Yes."}]}, USER]

    answer = await send([Said(text="Yes.")], {**PLAIN, "messages": history})

    assert answer.asked[0]["messages"][1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}


@both
async def test_a_response_that_was_cut_in_a_loop_does_not_fill_the_window(stream: bool) -> None:
    loops = [Said(text="again and again and again. " * 3000, piece=30)] * 4

    answer = await send(loops, {**GUARDED, "max_tokens": 32000}, stream=stream)

    assert answer.message["stop_reason"] == "max_tokens"
