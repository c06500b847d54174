"""Validates the `options` of a run, which are added to each of its requests to the model server.

The proxy forwards such fields unchecked, because the client receives the server's error at once. The client of a run
may be gone by the time of a request, so values that no server accepts are refused at submission. The range of a value
and unknown fields are still left to the server.
"""

from __future__ import annotations

from collections.abc import Iterator

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.chat_completions.request import decode_request

_RUN_FIELDS = frozenset(
    {"messages", "tools", "tool_choice", "stream", "stream_options", "model", "n", "parallel_tool_calls"}
)
"""Fields of a model request that the run itself sets."""
_NUMBERS = frozenset({
    "temperature", "top_p", "min_p", "typical_p", "presence_penalty", "frequency_penalty", "repeat_penalty",
    "repetition_penalty",
})  # fmt: skip
_INTEGERS = frozenset({"top_k", "seed", "top_logprobs", "repeat_last_n", "n_predict"})
_FLAGS = frozenset({"logprobs", "cache_prompt"})
_TEXTS = frozenset({"reasoning_effort", "grammar"})
_OBJECTS = frozenset({"response_format", "chat_template_kwargs"})
_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1
"""The range of integers that the JSON library writes."""


def check_options(options: JsonObject) -> None:
    """Raise `InvalidRequest` with the path of an invalid field."""
    for name, value in options.items():
        at = f"options.{name}"
        if name in _RUN_FIELDS:
            raise InvalidRequest(at, "set by the run itself; remove it")
        _check_integers(value, at)
        if value is not None:
            _check_kind(name, value, at)
    try:
        decode_request({**options, "messages": [{"role": "user"}]})
    except InvalidRequest as error:
        raise InvalidRequest(f"options.{error.at}", error.why) from error


def _check_integers(value: Json, at: str) -> None:
    for one in _leaves(value):
        if is_integer(one) and not _SMALLEST_INTEGER <= one <= _LARGEST_INTEGER:
            raise InvalidRequest(at, "contains an integer longer than 64 bits")


def _check_kind(name: str, value: Json, at: str) -> None:
    if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        fields.reject(at, "a number", value)
    if name in _INTEGERS and not (is_integer(value) or (isinstance(value, float) and value.is_integer())):
        fields.reject(at, "an integer", value)
    if name in _FLAGS and not isinstance(value, bool):
        fields.reject(at, "true or false", value)
    if name in _TEXTS and not isinstance(value, str):
        fields.reject(at, "a string", value)
    if name in _OBJECTS and not is_object(value):
        fields.reject(at, "an object", value)
    if name == "stop" and not all(isinstance(one, str) for one in (value if is_list(value) else [value])):
        raise InvalidRequest(at, "expected a string or a list of strings")


def _leaves(value: Json) -> Iterator[Json]:
    pending = [value]
    while pending:
        one = pending.pop()
        if is_object(one):
            pending += one.values()
        elif is_list(one):
            pending += one
        else:
            yield one
