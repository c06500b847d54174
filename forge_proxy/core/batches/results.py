"""The lines of output and error files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson

from forge_proxy.core.batches.records import LineTotals
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_object

MissingReason: TypeAlias = Literal["batch_expired", "batch_cancelled", "internal_error"]
_MISSING: dict[MissingReason, str] = {
    "batch_expired": "the completion window ended before the request was finished",
    "batch_cancelled": "the batch was cancelled before the request was sent",
    "internal_error": "an error inside forge-proxy; its log has the details",
}


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of a line: what is written to the output or error file, and how it counts."""

    text: bytes
    is_completed: bool
    totals: LineTotals


def encode_response(line_id: str, custom_id: str, status: int, request_id: str, body: bytes) -> LineResult:
    """Return the result of a line whose request was answered, also with an error."""
    try:
        parsed: Json = orjson.loads(body)
    except orjson.JSONDecodeError:
        error = {"code": "response_not_json", "message": "the model server's response is not JSON"}
        return _encode(line_id, custom_id, None, error, LineTotals(failed=1))
    response = {"status_code": status, "request_id": request_id, "body": parsed}
    is_completed = status < 400
    totals = _count_tokens(parsed) if is_completed else LineTotals(failed=1)
    return _encode(line_id, custom_id, response, None, totals)


def encode_missing(line_id: str, custom_id: str, reason: MissingReason) -> LineResult:
    """Return the result of a line without a response."""
    error = {"code": reason, "message": _MISSING[reason]}
    return _encode(line_id, custom_id, None, error, LineTotals(failed=1))


def read_custom_id(line: bytes) -> str:
    """Return the `custom_id` of a line of an input file."""
    return str(orjson.loads(line)["custom_id"])


def _encode(
    line_id: str, custom_id: str, response: JsonObject | None, error: JsonObject | None, totals: LineTotals
) -> LineResult:
    text = orjson.dumps({"id": line_id, "custom_id": custom_id, "response": response, "error": error})
    return LineResult(text + b"\n", totals.completed == 1, totals)


def _count_tokens(body: Json) -> LineTotals:
    """Return the tokens of a response in OpenAI's, Anthropic's or Ollama's format."""
    body = body if is_object(body) else {}
    usage = found if is_object(found := body.get("usage")) else body
    prompt = found if is_object(found := usage.get("prompt_tokens_details", usage.get("input_tokens_details"))) else {}
    output = (
        found if is_object(found := usage.get("completion_tokens_details", usage.get("output_tokens_details"))) else {}
    )
    return LineTotals(
        completed=1,
        input_tokens=_first_count(usage, "prompt_tokens", "input_tokens", "prompt_eval_count"),
        cached_tokens=_first_count(prompt, "cached_tokens") or _first_count(usage, "cache_read_input_tokens"),
        output_tokens=_first_count(usage, "completion_tokens", "output_tokens", "eval_count"),
        reasoning_tokens=_first_count(output, "reasoning_tokens"),
    )


def _first_count(values: JsonObject, *names: str) -> int:
    return next((value for name in names if is_count(value := values.get(name))), 0)
