"""Answers in Anthropic's dialect, as their bytes: the events are those of the service's documentation of streaming."""

from __future__ import annotations

import json
from typing import Any

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from tests.contracts.recordings import Recording

JsonDict = dict[str, Any]
_ENDS = b'stop_reason":"'


def _recording(name: str, blocks: list[JsonDict], stop: str, reply: Reply, *deltas: tuple[int, JsonDict]) -> Recording:
    """An answer of these blocks, as a stream that gives them in these deltas, and whole."""
    usage = {"input_tokens": 11, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4, "output_tokens": 1}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-test", "content": []}
    unfinished = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[JsonDict] = [{"type": "message_start", "message": unfinished}]
    for index, block in enumerate(blocks):
        began = {key: {} if key == "input" else "" for key in block if key in ("text", "thinking", "input")}
        kept = {key: value for key, value in block.items() if key not in ("text", "thinking", "input", "signature")}
        events.append({"type": "content_block_start", "index": index, "content_block": {**kept, **began}})
        events.append({"type": "ping"})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for place, delta in deltas if place == index
        ]
        events.append({"type": "content_block_stop", "index": index})
    told = {"output_tokens": 5}
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": told})
    events.append({"type": "message_stop"})
    data = [json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() for event in events]
    streamed = b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), line) for event, line in zip(events, data, strict=True)
    )
    whole = {**unfinished, "content": blocks, "stop_reason": stop, "usage": {**usage, **told}}
    return Recording(name, streamed, data, json.dumps(whole, ensure_ascii=False).encode(), reply, 40, _ENDS)


def _json(piece: str) -> JsonDict:
    return {"type": "input_json_delta", "partial_json": piece}


_CALLS = _recording(
    "thoughts-and-calls",
    [
        {"type": "thinking", "thinking": "Zürich, 東京", "signature": "EqQBCgIYAhIM"},
        {"type": "text", "text": "Let me see 😀"},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Zürich"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ],
    "tool_use",
    Reply(
        text="Let me see 😀",
        reasoning="Zürich, 東京",
        calls=(ToolCall("get_weather", '{"city":"Zürich"}', "toolu_1"), ToolCall("now", "{}", "toolu_2")),
        finish="tool_calls",
    ),
    (0, {"type": "thinking_delta", "thinking": "Zürich, "}),
    (0, {"type": "thinking_delta", "thinking": "東京"}),
    (0, {"type": "signature_delta", "signature": "EqQBCgIYAhIM"}),
    (1, {"type": "text_delta", "text": "Let me "}),
    (1, {"type": "text_delta", "text": "see 😀"}),
    (2, _json("")),
    (2, _json('{"city":')),
    (2, _json('"Zürich"}')),
)
_CUT = _recording(
    "cut",
    [{"type": "text", "text": "one two"}],
    "max_tokens",
    Reply(text="one two", finish="length"),
    (0, {"type": "text_delta", "text": "one"}),
    (0, {"type": "text_delta", "text": " two"}),
)

MESSAGES_RECORDINGS = (_CALLS, _CUT)
