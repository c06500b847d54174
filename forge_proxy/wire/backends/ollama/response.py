"""Reading what `/api/chat` answers: lines of JSON, each a piece of the answer, the last one with the counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list, is_object
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.backends.responses import UnreadableAnswer, read_answer

_FINISH = {"load": "stop", "unload": "stop", "": "stop"}
_PER_MS = 1e6
"""Ollama counts in nanoseconds."""
_TIMES = {
    "prompt_eval_duration": "prompt_ms",
    "eval_duration": "predicted_ms",
    "load_duration": "load_ms",
    "total_duration": "total_ms",
}
_COUNTS = {"prompt_eval_cached_count": "cache_n", "prompt_eval_count": "prompt_n", "eval_count": "predicted_n"}


class LineDecoder:
    """Makes chunks of the lines of one answer: calls get their places, the first chunk the head of the answer.

    `model` is put in place of the name that Ollama gives its model.
    """

    def __init__(self, model: str | None = None) -> None:
        self.done = False
        """Whether the last line has been read."""
        self.prompt_tokens: int | None = None
        """Tokens of the prompt that was read in the end, those in the cache included, once that is told."""
        self._model = model
        self._begun = False
        self._calls = 0

    def read(self, line: bytes) -> Chunk:
        """The chunk that a line means. Raises `UnreadableAnswer`."""
        said = read_answer(line)
        message = said.get("message")
        self.done = said.get("done") is True
        if not is_object(message) and not self.done:
            raise UnreadableAnswer("a line without a message")
        fields: JsonObject = message if is_object(message) else {}
        calls = fields.get("tool_calls")
        delta = Delta(
            text=_text(fields.get("content")),
            reasoning=_text(fields.get("thinking")),
            calls=tuple(self._call(call, said) for call in calls if is_object(call)) if is_list(calls) else (),
            choice_fields=_logprobs(said.get("logprobs")),
        )
        head = {} if self._begun else _head(said, self._model)
        self._begun = True
        if not self.done:
            return Chunk((delta,), head=head)
        tokens = said.get("prompt_eval_count")
        self.prompt_tokens = tokens if is_count(tokens) else None
        if timings := _timings(said):
            head["timings"] = timings
        return Chunk((replace(delta, finish=self._finish(said.get("done_reason"))),), _usage(said), head)

    def _finish(self, reason: Json) -> str:
        finish = reason if isinstance(reason, str) else ""
        finish = _FINISH.get(finish, finish)
        return "tool_calls" if finish == "stop" and self._calls else finish

    def _call(self, call: JsonObject, line: JsonObject) -> CallDelta:
        said, identity = call.get("function"), call.get("id")
        function: JsonObject = said if is_object(said) else {}
        name, arguments = function.get("name"), function.get("arguments")
        place = self._calls
        self._calls += 1
        return CallDelta(
            index=place,
            id=identity if isinstance(identity, str) and identity else _made_id(line, place),
            name=name if isinstance(name, str) else "",
            arguments=arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode(),
        )


def _text(said: Json) -> str | None:
    return said if isinstance(said, str) and said else None


def _made_id(line: JsonObject, place: int) -> str:
    """An id for a call of a version that gives none: by when it was made, so that no other answer has the same."""
    made = line.get("created_at")
    digits = "".join(filter(str.isdigit, made)) if isinstance(made, str) else ""
    return f"call_{digits}{place}"


def _head(said: JsonObject, model: str | None) -> dict[str, Json]:
    name = model if model is not None else said.get("model")
    head: dict[str, Json] = {"model": name} if isinstance(name, str) else {}
    if (created := seconds_of(said.get("created_at"))) is not None:
        head["created"] = created
    return head


def seconds_of(moment: Json) -> int | None:
    """A moment as Ollama writes it, in seconds since 1970; None for anything else."""
    if not isinstance(moment, str):
        return None
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return None


def _usage(said: JsonObject) -> JsonObject | None:
    """The counts as OpenAI names them; None where none is told, as by a server in front that leaves them out."""
    prompt, completion = said.get("prompt_eval_count"), said.get("eval_count")
    if not is_count(prompt) and not is_count(completion):
        return None
    prompt = prompt if is_count(prompt) else 0  # what is zero is left out of the line
    completion = completion if is_count(completion) else 0
    usage: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if is_count(cached := said.get("prompt_eval_cached_count")):
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage


def _timings(said: JsonObject) -> dict[str, Json]:
    """How long what took, under llama-server's names where it has one."""
    times: dict[str, Json] = {
        name: took / _PER_MS for key, name in _TIMES.items() if isinstance(took := said.get(key), int | float)
    }
    if not times:
        return {}
    counts: dict[str, Json] = {name: count for key, name in _COUNTS.items() if is_count(count := said.get(key))}
    if is_count(read := counts.get("prompt_n")) and is_count(cached := counts.get("cache_n")):
        counts["prompt_n"] = read - cached
    return {**counts, **times}


def _logprobs(said: Json) -> dict[str, Json]:
    """Log probabilities as OpenAI has them: beside the delta, every field there."""
    if not is_list(said) or not said:
        return {}
    content: list[Json] = [
        {**_token(token), "top_logprobs": [_token(one) for one in _tokens(token.get("top_logprobs"))]}
        for token in _tokens(said)
    ]
    return {"logprobs": {"content": content, "refusal": None}}


def _tokens(said: Json) -> list[JsonObject]:
    return [token for token in said if is_object(token)] if is_list(said) else []


def _token(token: JsonObject) -> dict[str, Json]:
    return {"token": token.get("token"), "logprob": token.get("logprob"), "bytes": token.get("bytes")}
