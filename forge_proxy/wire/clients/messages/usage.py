"""Converts OpenAI's usage to Anthropic's, whose `input_tokens` do not include cached tokens."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_object


def encode_usage(usage: JsonObject | None, head: JsonObject, *, prompt: int, completion: int) -> dict[str, Json]:
    """Return the usage of a complete response.

    `prompt` and `completion` are counts or estimates for those that the model server does not report. `head` may have
    llama-server's `timings`, whose `cache_n` are the prompt tokens that were cached.
    """
    reported = usage or {}
    details, timings = reported.get("prompt_tokens_details"), head.get("timings")
    cached = _read(details, "cached_tokens")
    cached = _read(timings, "cache_n") if cached is None else cached
    stored = _read(details, "cache_write_tokens")
    total = _read(reported, "prompt_tokens")
    total = prompt if total is None else total
    output = _read(reported, "completion_tokens")
    out: dict[str, Json] = {
        "input_tokens": max(0, total - (cached or 0) - (stored or 0)),
        "cache_creation_input_tokens": stored or 0,
        "cache_read_input_tokens": cached or 0,
        "output_tokens": completion if output is None else output,
    }
    reasoning = _read(reported.get("completion_tokens_details"), "reasoning_tokens")
    return out if reasoning is None else {**out, "output_tokens_details": {"thinking_tokens": reasoning}}


def begin_usage(prompt: int) -> dict[str, Json]:
    """Return the usage at the beginning of a response, when only its prompt is known."""
    return {
        "input_tokens": prompt, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0,
    }  # fmt: skip


def _read(fields: Json, key: str) -> int | None:
    count = fields.get(key) if is_object(fields) else None
    return count if is_count(count) else None
