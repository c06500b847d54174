"""Decodes the response of `/api/chat`: lines of JSON, the last one with the token counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list, is_object
from forge_proxy.core.logprobs import LogProbs, read_logprobs
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.backends.responses import UnreadableResponse, parse_response

_FINISH = {"load": "stop", "unload": "stop", "": "stop"}
_PER_MS = 1e6
"""Ollama reports durations in nanoseconds."""
_TIMES = {
    "prompt_eval_duration": "prompt_ms",
    "eval_duration": "predicted_ms",
    "load_duration": "load_ms",
    "total_duration": "total_ms",
}
_COUNTS = {"prompt_eval_cached_count": "cache_n", "prompt_eval_count": "prompt_n", "eval_count": "predicted_n"}


class LineDecoder:
    """Decodes the lines of one response to chunks: numbers the calls and adds the head to the first chunk.

    `model` replaces Ollama's model name.
    """

    def __init__(self, model: str | None = None) -> None:
        self.is_done = False
        """Whether the last line has been read."""
        self.prompt_tokens: int | None = None
        """Prompt tokens, including cached ones; None until the last line, or if it does not report them."""
        self._model = model
        self._begun = False
        self._calls = 0

    def decode(self, line: bytes) -> Chunk:
        """Decode a line. Raises `UnreadableResponse`."""
        fields = parse_response(line)
        value = fields.get("message")
        self.is_done = fields.get("done") is True
        if not is_object(value) and not self.is_done:
            raise UnreadableResponse("a line without a message")
        message: JsonObject = value if is_object(value) else {}
        calls = message.get("tool_calls")
        delta = Delta(
            text=_text(message.get("content")),
            reasoning=_text(message.get("thinking")),
            calls=tuple(self._call(call, fields) for call in calls if is_object(call)) if is_list(calls) else (),
            logprobs=_logprobs(fields.get("logprobs")),
        )
        head = {} if self._begun else _head(fields, self._model)
        self._begun = True
        if not self.is_done:
            return Chunk((delta,), head=head)
        tokens = fields.get("prompt_eval_count")
        self.prompt_tokens = tokens if is_count(tokens) else None
        if timings := _timings(fields):
            head["timings"] = timings
        return Chunk((replace(delta, finish=self._finish(fields.get("done_reason"))),), _usage(fields), head)

    def _finish(self, reason: Json) -> str:
        finish = reason if isinstance(reason, str) else ""
        finish = _FINISH.get(finish, finish)
        return "tool_calls" if finish == "stop" and self._calls else finish

    def _call(self, call: JsonObject, line: JsonObject) -> CallDelta:
        value, identity = call.get("function"), call.get("id")
        function: JsonObject = value if is_object(value) else {}
        name, arguments = function.get("name"), function.get("arguments")
        place = self._calls
        self._calls += 1
        return CallDelta(
            index=place,
            id=identity if isinstance(identity, str) and identity else _generate_id(line, place),
            name=name if isinstance(name, str) else "",
            arguments=arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode(),
        )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _generate_id(line: JsonObject, place: int) -> str:
    """Return an id for a call without one (older versions): from the time of creation, so that it is unique."""
    made = line.get("created_at")
    digits = "".join(filter(str.isdigit, made)) if isinstance(made, str) else ""
    return f"call_{digits}{place}"


def _head(fields: JsonObject, model: str | None) -> dict[str, Json]:
    name = model if model is not None else fields.get("model")
    head: dict[str, Json] = {"model": name} if isinstance(name, str) else {}
    if (created := parse_time(fields.get("created_at"))) is not None:
        head["created"] = created
    return head


def parse_time(moment: Json) -> int | None:
    """Return the seconds since 1970 of an RFC 3339 time; None for any other value."""
    if not isinstance(moment, str):
        return None
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return None


def _usage(fields: JsonObject) -> JsonObject | None:
    """Return the usage in OpenAI's format; None if the line has no token counts (some reverse proxies drop them)."""
    prompt, completion = fields.get("prompt_eval_count"), fields.get("eval_count")
    if not is_count(prompt) and not is_count(completion):
        return None
    prompt = prompt if is_count(prompt) else 0  # Ollama omits zeros
    completion = completion if is_count(completion) else 0
    usage: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if is_count(cached := fields.get("prompt_eval_cached_count")):
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage


def _timings(fields: JsonObject) -> dict[str, Json]:
    """Return the durations in milliseconds and the token counts, under llama-server's names if it has one."""
    times: dict[str, Json] = {
        name: duration / _PER_MS for key, name in _TIMES.items() if isinstance(duration := fields.get(key), int | float)
    }
    if not times:
        return {}
    counts: dict[str, Json] = {name: count for key, name in _COUNTS.items() if is_count(count := fields.get(key))}
    if is_count(read := counts.get("prompt_n")) and is_count(cached := counts.get("cache_n")):
        counts["prompt_n"] = read - cached
    return {**counts, **times}


def _logprobs(tokens: Json) -> LogProbs | None:
    """Return the log probabilities in OpenAI's format."""
    if not is_list(tokens) or not tokens:
        return None
    content: list[Json] = [
        {**_token(token), "top_logprobs": [_token(one) for one in _tokens(token.get("top_logprobs"))]}
        for token in _tokens(tokens)
    ]
    return read_logprobs({"content": content, "refusal": None})


def _tokens(value: Json) -> list[JsonObject]:
    return [token for token in value if is_object(token)] if is_list(value) else []


def _token(token: JsonObject) -> dict[str, Json]:
    return {"token": token.get("token"), "logprob": token.get("logprob"), "bytes": token.get("bytes")}
