"""Responses of the engine become items and events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest
from forge_proxy.wire.clients.responses.request import decode_request
from tests.fakes.response_events import final_response, read_events, validate_response

JsonDict = dict[str, Any]
DONE = Report(Outcome.CLEAN)
TOOLS: list[JsonDict] = [
    {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False},
    {"type": "custom", "name": "apply_patch", "description": "Edit."},
    {"type": "namespace", "name": "docs", "description": "Docs.", "tools": [
        {"type": "function", "name": "search", "parameters": {"type": "object"}},
        {"type": "custom", "name": "note"},
    ]},
    {"type": "local_shell"},
    {"type": "tool_search", "execution": "client"},
]  # fmt: skip
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def decoded(**fields: Any) -> DecodedResponsesRequest:
    return DecodedResponsesRequest(decode_request({"model": "m", "input": "Hi", **fields}), "resp_ab")


def streamed(*deltas: Delta, **fields: Any) -> list[JsonDict]:
    encoder = decoded(**fields).build_stream_encoder("r", 7)
    stream = b"".join(encoder.write(Chunk((delta,))) for delta in deltas)
    return read_events(stream + encoder.write(Chunk(usage=USAGE)) + encoder.finish(DONE))


def whole(*deltas: Delta, **fields: Any) -> JsonDict:
    collector = ResponseCollector()
    for delta in deltas:
        collector.add(Chunk((delta,)))
    collector.add(Chunk(usage=USAGE))
    return json.loads(decoded(**fields).encode_response(collector, "r", 7))


def call(name: str, *arguments: str, index: int = 0) -> list[Delta]:
    first = Delta(calls=(CallDelta(index, f"call_{index}", name),))
    return [first, *(Delta(calls=(CallDelta(index, arguments=part),)) for part in arguments)]


def names(events: list[JsonDict]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_the_events_of_text_have_openais_order() -> None:
    events = streamed(Delta(text="It is "), Delta(text="sunny."), Delta(finish="stop"))

    assert names(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.get("delta") for event in events if "delta" in event] == ["It is ", "sunny."]
    assert {event["item_id"] for event in events if "item_id" in event} == {"msg_ab00"}
    assert final_response(events)["output"][0]["content"][0]["text"] == "It is sunny."


def test_reasoning_text_and_two_calls_are_four_items() -> None:
    deltas = [Delta(reasoning="Hm"), Delta(reasoning="m."), Delta(text="I look."), *call("get_weather", '{"a"', ": 1}"),
              *call("get_weather", "{}", index=1), Delta(finish="tool_calls")]  # fmt: skip
    events = streamed(*deltas, tools=TOOLS)

    assert names(events)[2:] == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
        "reasoning_text.done", "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert [item["type"] for item in final_response(events)["output"]] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip
    assert final_response(events)["output"][2] == {
        "id": "fc_ab02",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_0",
        "name": "get_weather",
        "arguments": '{"a": 1}',
    }


def test_calls_that_are_written_at_the_same_time_are_both_complete() -> None:
    deltas = [*call("get_weather", '{"a":'), *call("get_weather", '{"b":', index=1)]
    deltas += [Delta(calls=(CallDelta(0, arguments="1}"),)), Delta(calls=(CallDelta(1, arguments="2}"),))]

    output = final_response(streamed(*deltas, tools=TOOLS))["output"]

    assert [item["arguments"] for item in output] == ['{"a":1}', '{"b":2}']


def test_a_name_in_pieces_is_complete_when_the_item_begins() -> None:
    deltas = [Delta(calls=(CallDelta(0, "c", "get_"),)), Delta(calls=(CallDelta(0, name="weather"),)),
              Delta(calls=(CallDelta(0, arguments="{}"),))]  # fmt: skip
    events = streamed(*deltas, tools=TOOLS)

    assert next(event["item"]["name"] for event in events if event["type"].endswith("added")) == "get_weather"


def test_a_name_after_the_arguments_is_waited_for() -> None:
    deltas = [Delta(calls=(CallDelta(0, "c", arguments='{"a": '),)), Delta(calls=(CallDelta(0, name="get_weather"),)),
              Delta(calls=(CallDelta(0, arguments="1}"),))]  # fmt: skip
    (item,) = final_response(streamed(*deltas, tools=TOOLS))["output"]

    assert (item["name"], item["arguments"]) == ("get_weather", '{"a": 1}')


def test_a_call_of_a_custom_tool_is_a_text() -> None:
    events = streamed(*call("apply_patch", '{"input": "*** Be', 'gin\\n"}'), tools=TOOLS)

    assert names(events)[2:-1] == [
        "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
    ]  # fmt: skip
    assert final_response(events)["output"] == [
        {"id": "fc_ab00", "type": "custom_tool_call", "status": "completed", "call_id": "call_0",
         "name": "apply_patch", "input": "*** Begin\n"}
    ]  # fmt: skip


def test_a_custom_call_without_its_object_is_what_the_model_wrote() -> None:
    (item,) = final_response(streamed(*call("apply_patch", "*** Begin"), tools=TOOLS))["output"]

    assert item["input"] == "*** Begin"


def test_calls_of_a_namespace_have_its_name_and_their_own() -> None:
    output = final_response(
        streamed(*call("docs__search", "{}"), *call("docs__note", '{"input": "x"}', index=1), tools=TOOLS)
    )["output"]

    assert [(item["type"], item["namespace"], item["name"]) for item in output] == [
        ("function_call", "docs", "search"), ("custom_tool_call", "docs", "note"),
    ]  # fmt: skip


def test_calls_of_tools_that_the_client_executes_have_their_own_items() -> None:
    events = streamed(
        *call("local_shell", '{"command": ["ls"], "timeout_ms": 5}'),
        *call("tool_search", '{"query": "git"}', index=1),
        tools=TOOLS,
    )

    shell, search = final_response(events)["output"]
    assert shell["action"] == {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "git"},
    )
    assert names(events)[2:-1] == ["output_item.added", "output_item.done"] * 2


def test_a_requested_summary_holds_the_reasoning() -> None:
    events = streamed(Delta(reasoning="Hm."), Delta(text="Hi."), reasoning={"summary": "auto"})

    assert names(events)[2:8] == [
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
    ]  # fmt: skip
    item = final_response(events)["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert "content" not in item


def test_encrypted_reasoning_is_given_to_the_model_on_the_next_turn() -> None:
    include = ["reasoning.encrypted_content"]
    output = whole(Delta(reasoning="Hm. ü"), Delta(text="Hi."), include=include)["output"]

    bare = [{**output[0], "content": None}, output[1]]
    again = decode_request({"input": [{"role": "user", "content": "Hi"}, *bare, {"role": "user", "content": "And?"}]})

    assert again.chat.messages[1] == {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm. ü"}
    assert "encrypted_content" not in whole(Delta(reasoning="Hm."))["output"][0]


def test_a_refusal_is_a_part_of_its_own() -> None:
    events = streamed(Delta(text="Hm."), Delta(extra={"refusal": "No."}))

    (item,) = final_response(events)["output"]
    assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]
    assert [event["content_index"] for event in events if event["type"].endswith("part.added")] == [0, 1]


def test_log_probabilities_are_those_of_the_text() -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    events = streamed(Delta(text="Hi", logprobs=LogProbs({"content": json.dumps(token).encode()})))

    (item,) = final_response(events)["output"]
    assert item["content"][0]["logprobs"] == [token]
    assert next(event["logprobs"] for event in events if event["type"].endswith("text.delta")) == [token]


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_a_response_that_was_cut_is_incomplete(finish: str, reason: str) -> None:
    response = final_response(streamed(Delta(text="It is"), Delta(finish=finish)))

    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert response["output"][0]["status"] == "incomplete"


def test_usage_has_the_names_of_the_api() -> None:
    assert final_response(streamed(Delta(text="Hi")))["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }


def test_streamed_and_whole_have_the_same_response() -> None:
    deltas = [Delta(reasoning="Hm."), Delta(text="I look."), *call("get_weather", '{"a"', ": 1}"),
              *call("apply_patch", '{"input": "x"}', index=1), Delta(finish="tool_calls")]  # fmt: skip

    assert final_response(streamed(*deltas, tools=TOOLS)) == whole(*deltas, tools=TOOLS)


def test_the_response_repeats_the_request() -> None:
    fields: JsonDict = {
        "instructions": "Be short.",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "reasoning": {"effort": "low", "summary": None},
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}},
        "tool_choice": "required",
        "tools": TOOLS,
        "top_p": 0.9,
        "user": "u",
    }
    response = whole(Delta(text="Hi"), **fields)

    validate_response(response)
    assert {name: response[name] for name in fields} == fields
    assert (response["id"], response["created_at"], response["model"]) == ("resp_ab", 7, "m")
    assert (response["store"], response["background"], response["status"]) == (False, False, "completed")


def test_an_empty_response_is_complete() -> None:
    assert final_response(streamed(Delta(finish="stop")))["output"] == []


def test_silence_is_filled_with_the_state() -> None:
    encoder = decoded().build_stream_encoder("r", 7)

    events = read_events(encoder.keepalive() + encoder.keepalive() + encoder.comment("x") + encoder.finish(DONE))

    assert names(events) == ["created", "in_progress", "in_progress", "completed"]


def test_events_stay_in_order_if_silence_is_filled_while_a_response_is_saved() -> None:
    encoder = decoded().build_stream_encoder("r", 7)
    stream = encoder.write(Chunk((Delta(text="Hi"),)))
    encoder.close()

    events = read_events(stream + encoder.keepalive() + encoder.finish(DONE))

    assert names(events)[-3:] == ["output_item.done", "in_progress", "completed"]


FAILURES = [
    (ClassifiedError(400, "invalid_request_error", "context_length_exceeded", "too long"),
     "context_length_exceeded", "too long"),
    (ClassifiedError(429, "rate_limit_error", "rate_limit_exceeded", "full", headers={"retry-after": "5"}),
     "rate_limit_exceeded", "full (try again in 5s)"),
    (ClassifiedError(502, "server_error", "backend_broke_off", "gone"), "server_error", "gone"),
    (ClassifiedError(400, "invalid_request_error", None, "bad"), "invalid_prompt", "bad"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "message"), FAILURES, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("begun", [False, True])
def test_an_error_ends_the_stream_as_a_failed_response(
    error: ClassifiedError, code: str, message: str, begun: bool
) -> None:
    encoder = decoded().build_stream_encoder("r", 7)
    stream = encoder.write(Chunk((Delta(text="It"),))) if begun else b""

    events = read_events(stream + encoder.error(error))

    assert names(events)[0] == "created"
    assert final_response(events)["error"] == {"code": code, "message": message}
    assert final_response(events)["status"] == "failed"
