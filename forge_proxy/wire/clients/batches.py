"""OpenAI's Batch API: requests and objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import orjson

from forge_proxy.core.batches.limits import HOUR, MAX_WINDOW, MIN_WINDOW
from forge_proxy.core.batches.progress import BatchProgress
from forge_proxy.core.batches.records import BatchRequest, LineTotals
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.files import read_expiry
from forge_proxy.wire.clients.responses.conversations import read_metadata

_MAX_URL = 2000
_WINDOW = re.compile(r"(\d{1,3})([hd])", re.ASCII)


def decode_batch_request(body: JsonObject, endpoints: Collection[str]) -> BatchRequest:
    """Decode the request of a new batch. Raises `InvalidRequest`."""
    file_id, endpoint = body.get("input_file_id"), body.get("endpoint")
    if not isinstance(file_id, str):
        fields.reject("input_file_id", "the id of a file", file_id)
    if not isinstance(endpoint, str) or endpoint not in endpoints:
        raise InvalidRequest("endpoint", f"expected one of {', '.join(sorted(endpoints))}")
    window = body.get("completion_window")
    metadata: dict[str, str] | None = orjson.loads(read_metadata(body)) if body.get("metadata") is not None else None
    return BatchRequest(
        file_id, endpoint, str(window), _read_window(window), metadata, _read_output_expiry(body), _read_url(body)
    )


def encode_batch(batch: BatchProgress) -> JsonObject:
    """Return the object of a batch."""
    state, request = batch.state, batch.state.request
    end = state.end
    encoded: dict[str, Json] = {
        "id": batch.id,
        "object": "batch",
        "endpoint": request.endpoint,
        "model": state.model,
        "errors": _encode_errors(batch),
        "input_file_id": request.input_file_id,
        "completion_window": request.completion_window,
        "status": batch.status,
        "output_file_id": state.output_file_id,
        "error_file_id": state.error_file_id,
        "created_at": int(state.created_at),
        "in_progress_at": _seconds(state.in_progress_at),
        "expires_at": int(state.expires_at),
        "finalizing_at": _seconds(state.finalizing_at),
        "completed_at": _seconds(state.ended_at if end == "completed" else None),
        "failed_at": _seconds(state.ended_at if end == "failed" else None),
        "expired_at": _seconds(state.ended_at if end == "expired" else None),
        "cancelling_at": _seconds(state.cancelling_at),
        "cancelled_at": _seconds(state.ended_at if batch.status == "cancelled" else None),
        "request_counts": {
            "total": state.total, "completed": batch.totals.completed, "failed": batch.totals.failed,
        },
        "usage": _encode_usage(batch.totals),
        "metadata": _to_json(request.metadata),
        "forge": {
            "seconds": _round(batch.seconds),
            "lines_per_second": _round(batch.lines_per_second),
            "output_tokens_per_second": _round(batch.tokens_per_second),
            "remaining_seconds": _round(batch.remaining_seconds),
        },
    }  # fmt: skip
    return encoded


def _encode_errors(batch: BatchProgress) -> JsonObject | None:
    if not batch.state.errors:
        return None
    data: list[Json] = [
        {"code": fault.code, "line": fault.line, "message": fault.message, "param": fault.param}
        for fault in batch.state.errors
    ]
    return {"object": "list", "data": data}


def _encode_usage(totals: LineTotals) -> JsonObject:
    return {
        "input_tokens": totals.input_tokens,
        "input_tokens_details": {"cached_tokens": totals.cached_tokens},
        "output_tokens": totals.output_tokens,
        "output_tokens_details": {"reasoning_tokens": totals.reasoning_tokens},
        "total_tokens": totals.input_tokens + totals.output_tokens,
    }


def _to_json(metadata: Mapping[str, str] | None) -> JsonObject | None:
    return None if metadata is None else dict(metadata)


def _seconds(at: float | None) -> int | None:
    return None if at is None else int(at)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _read_window(value: Json) -> int:
    found = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    seconds = int(found[1]) * (HOUR if found[2] == "h" else 24 * HOUR) if found else 0
    if not MIN_WINDOW <= seconds <= MAX_WINDOW:
        raise InvalidRequest("completion_window", "expected 24h, or another time from 1h to 7d")
    return seconds


def _read_url(body: JsonObject) -> str | None:
    url = body.get("notify_url")
    if url is not None and not (isinstance(url, str) and len(url) <= _MAX_URL):
        fields.reject("notify_url", f"a URL of at most {_MAX_URL} characters", url)
    return url


def _read_output_expiry(body: JsonObject) -> int | None:
    value = body.get("output_expires_after")
    if value is None:
        return None
    if not is_object(value):
        fields.reject("output_expires_after", "an object", value)
    try:
        return read_expiry(value.get("anchor"), value.get("seconds"))
    except InvalidRequest as error:
        raise InvalidRequest(f"output_{error.at}", error.why) from error
