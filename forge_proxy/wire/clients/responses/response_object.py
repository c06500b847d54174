"""The response object: what the request set, repeated, with the output and the state so far."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_object

_REPEATED = (
    "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
    "safety_identifier", "service_tier", "temperature", "top_logprobs", "top_p", "user",
)  # fmt: skip
_DEFAULTS: JsonObject = {
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
}
QUEUED_EVENTS = 2
"""Events of a response in the background that precede its answer: `created` and `queued`."""


def encode_repeated(body: JsonObject) -> bytes:
    """Return the fields of a request that its response repeats, as JSON. Raises `InvalidRequest`."""
    repeated: dict[str, Json] = {name: body.get(name) for name in _REPEATED}
    repeated |= {name: default if body.get(name) is None else body[name] for name, default in _DEFAULTS.items()}
    repeated["background"] = is_background(body)
    repeated["reasoning"] = _reasoning(body)
    repeated["text"] = _text(body)
    if (conversation := find_conversation_id(body)) is not None:
        repeated["conversation"] = {"id": conversation}
    try:
        return orjson.dumps(repeated)
    except TypeError as exc:
        raise InvalidRequest(_find_unwritable(repeated), "nested too deeply to be repeated in the response") from exc


class ResponseHead:
    """The fields of a response that stay the same: each event that has a response repeats them."""

    def __init__(self, repeated: bytes, response_id: str, created: int, model: str) -> None:
        """`repeated` is the result of `encode_repeated`."""
        head: JsonObject = {"id": response_id, "object": "response", "created_at": created, "model": model}
        self._encoded = b"".join((orjson.dumps(head)[:-1], b",", repeated[1:-1]))

    def encode(
        self,
        status: str,
        output: Sequence[JsonObject],
        *,
        store: bool,
        usage: JsonObject | None = None,
        error: JsonObject | None = None,
        incomplete: str | None = None,
    ) -> bytes:
        """Return the response as JSON. `incomplete` is the reason why it is not complete."""
        state: dict[str, Json] = {
            "status": status,
            "store": store,
            "output": [*output],
            "usage": usage,
            "error": error,
            "incomplete_details": {"reason": incomplete} if incomplete else None,
        }
        return b"".join((self._encoded, b",", orjson.dumps(state)[1:]))


def encode_state_event(name: str, number: int, document: bytes) -> bytes:
    """Encode the event `response.NAME`, which has the whole response. `number` is its `sequence_number`."""
    event = b'{"type":"response.%b","sequence_number":%d,"response":' % (name.encode(), number)
    return b"".join((b"event: response.", name.encode(), b"\ndata: ", event, document, b"}\n\n"))


def is_background(body: JsonObject) -> bool:
    """Whether the response is made in the background."""
    return body.get("background") is True


def find_conversation_id(body: JsonObject) -> str | None:
    """Return the id of the conversation that a request names."""
    conversation = body.get("conversation")
    named = conversation.get("id") if is_object(conversation) else conversation
    return named if isinstance(named, str) else None


def convert_usage(usage: JsonObject | None) -> JsonObject | None:
    """Return the token counts of a chat completion as this API names them."""
    if usage is None:
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": _count(_details(usage, "prompt_tokens_details"), "cached_tokens"),
            "cache_write_tokens": _count(_details(usage, "prompt_tokens_details"), "cache_write_tokens"),
        },
        "output_tokens": completion,
        "output_tokens_details": {
            "reasoning_tokens": _count(_details(usage, "completion_tokens_details"), "reasoning_tokens")
        },
        "total_tokens": _count(usage, "total_tokens") or prompt + completion,
    }


def _find_unwritable(repeated: JsonObject) -> str:
    """Return the name of the field that cannot be written as JSON."""
    for name, value in repeated.items():
        try:
            orjson.dumps(value)
        except TypeError:
            return name
    return "body"


def _details(usage: JsonObject, name: str) -> JsonObject:
    details = usage.get(name)
    return details if is_object(details) else {}


def _count(counts: JsonObject, name: str) -> int:
    value = counts.get(name)
    return value if is_count(value) else 0


def _reasoning(body: JsonObject) -> Json:
    reasoning = body.get("reasoning")
    return {"effort": None, "summary": None, **(reasoning if is_object(reasoning) else {})}


def _text(body: JsonObject) -> Json:
    text = body.get("text")
    return {"format": {"type": "text"}, **(text if is_object(text) else {})}
