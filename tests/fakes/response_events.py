"""Reads the events of a streamed response as the openai package does, each validated by the package's own type."""

from __future__ import annotations

import json
from typing import Any, get_args

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

JsonDict = dict[str, Any]
_TYPES: dict[str, type[BaseModel]] = {
    get_args(event.model_fields["type"].annotation)[0]: event for event in get_args(get_args(ResponseStreamEvent)[0])
}
_FINAL = ("response.completed", "response.incomplete", "response.failed")


def read_events(stream: bytes) -> list[JsonDict]:
    """The events of a stream in order, numbered without a gap; comments are ignored."""
    events: list[JsonDict] = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        validate_event(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def validate_event(event: JsonDict) -> None:
    """Validate an event by its type in the openai package, which does not know all codes that Codex acts on."""
    error = (event.get("response") or {}).get("error")
    if error and error["code"] in ("context_length_exceeded", "insufficient_quota"):
        event = {**event, "response": {**event["response"], "error": {**error, "code": "server_error"}}}
    _TYPES[event["type"]].model_validate(event)


def validate_response(response: JsonDict) -> Response:
    """Validate a whole response."""
    return Response.model_validate(response)


def final_response(events: list[JsonDict]) -> JsonDict:
    """The response with which a stream ends; it has the items that the stream had."""
    *others, last = events
    assert last["type"] in _FINAL
    done = sorted(
        (event["output_index"], event["item"]) for event in others if event["type"] == "response.output_item.done"
    )
    response = last["response"]
    assert [item for _, item in done] == response["output"] or last["type"] == "response.failed"
    return response
