"""The events of a Messages stream, validated by the types of the anthropic package and assembled as a client does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from anthropic.types import RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter

JsonDict = dict[str, Any]
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def read_events(text: str) -> list[JsonDict]:
    """Return the events of a stream. Each is named after its type and matches the SDK's types."""
    events: list[JsonDict] = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        if block.startswith(": "):
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        if event["type"] not in ("ping", "error"):
            check_fields(_EVENT.validate_python(event))
        events.append(event)
    return events


def check_fields(value: object) -> None:
    """Fail for a field that the SDK's types do not have."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, value
        for name in type(value).model_fields:
            check_fields(getattr(value, name))
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            check_fields(item)  # pyright: ignore[reportUnknownArgumentType]


def assemble(events: Sequence[JsonDict]) -> JsonDict:
    """Return the message that a client makes of the events. Blocks are opened and closed strictly one after another."""
    message: JsonDict = {}
    blocks: list[JsonDict] = []
    is_open = False
    for event in events:
        match event["type"]:
            case "message_start":
                assert not message
                message = {**event["message"]}
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                is_open = True
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                _add_delta(blocks[-1], event["delta"])
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
                written = blocks[-1].pop("json")
                if blocks[-1]["type"] == "tool_use":
                    blocks[-1]["input"] = json.loads(written or "{}")
            case "message_delta":
                message |= {**event["delta"], "usage": {**message["usage"], **event["usage"]}}
            case _:
                pass
    assert not is_open
    assert events[-1]["type"] == "message_stop"
    return {**message, "content": blocks}


def _add_delta(block: JsonDict, delta: JsonDict) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] += delta["signature"]
        case _:
            block["json"] += delta["partial_json"]
