"""Encodes responses of the engine in the format of `/api/chat` and `/api/generate`: lines of JSON, or one object.

Calls are sent whole: their arguments are objects. The last line has the token counts and durations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_object, read_object
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Chunk, Completion, Delta, Reply, ReplyBuilder
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.ollama.errors import encode_error
from forge_proxy.wire.message_repair import to_arguments_object

_NS_PER_MS = 1e6
_TIMES = {"load_duration": "load_ms", "prompt_eval_duration": "prompt_ms", "eval_duration": "predicted_ms"}
"""Durations, and what the timings of a response call them."""
_FINISH = {"tool_calls": "stop", "function_call": "stop"}
_Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """Where a response has its text: in a message, or at the top."""

    has_message: bool

    def place(self, text: str, fields: Mapping[str, object]) -> _Fields:
        """Return the fields of a line with this text, and with `fields` beside it."""
        if self.has_message:
            return {"message": {"role": "assistant", "content": text, **fields}}
        return {"response": text, **fields}


CHAT, GENERATE = ResponseForm(has_message=True), ResponseForm(has_message=False)


class OllamaStreamEncoder:
    """Encodes one streamed response as lines of JSON (`api.streaming.StreamEncoder`).

    `created` is in seconds since 1970, `now` and `began` in nanoseconds since an arbitrary moment.
    """

    media_type = "application/x-ndjson"

    def __init__(self, form: ResponseForm, model: str | None, created: int, now: Callable[[], int], began: int) -> None:
        self._form = form
        self._model = model
        self._created = format_time(created)
        self._now = now
        self._began = began
        self._first_at: int | None = None
        self._calls = ReplyBuilder()
        """The calls whose arguments have not all come yet."""
        self._sent_calls = 0
        self._finish = "stop"
        self._usage: JsonObject | None = None
        self._timings: Json = None

    def write(self, chunk: Chunk) -> bytes:
        """Encode a chunk. Prompt progress has no form here: keep-alives fill the silence."""
        if chunk.progress is not None:
            return b""
        self._usage = chunk.usage or self._usage
        self._timings = chunk.head.get("timings", self._timings)
        if self._model is None and isinstance(model := chunk.head.get("model"), str):
            self._model = model
        return b"".join(self._write_delta(delta) for delta in chunk.deltas if delta.choice == 0)

    def comment(self, text: str) -> bytes:
        """Return nothing: lines of JSON have no comments. The last line reports the outcome."""
        return b""

    def keepalive(self) -> bytes:
        """Encode a line that adds no text."""
        return self._line(self._form.place("", {}))

    def finish(self, report: Report) -> bytes:
        """Encode the last line, with the outcome if the daemon did more than pass the response on."""
        ended = self._now()
        first = ended if self._first_at is None else self._first_at
        last: _Fields = {
            **self._form.place("", {}),
            "done": True,
            "done_reason": self._finish,
            **convert_durations(self._timings, ended - self._began, first - self._began),
            **convert_counts(self._usage),
        }
        if report.outcome is not Outcome.PASSTHROUGH:
            last |= {"x-forge-outcome": report.outcome.value, "x-forge-attempts": report.attempts}
            last |= {"x-forge-interventions": list(report.descriptions)} if report.descriptions else {}
        return self._flush_calls() + self._line(last)

    def error(self, error: ClassifiedError) -> bytes:
        """Encode an error as the last line."""
        return _dump({**encode_error(error)})

    def _write_delta(self, delta: Delta) -> bytes:
        fields: _Fields = {"thinking": delta.reasoning} if delta.reasoning else {}
        line = self._form.place(delta.text or "", fields)
        if logprobs := _encode_logprobs(delta.logprobs):
            line["logprobs"] = logprobs
        out = self._line(line) if delta.text or fields or logprobs else b""
        for call in delta.calls:
            self._calls.add(Delta(calls=(call,)))
        if delta.finish is not None:
            self._finish = _FINISH.get(delta.finish, delta.finish)
            out += self._flush_calls()
        if out and self._first_at is None:
            self._first_at = self._now()
        return out

    def _flush_calls(self) -> bytes:
        """Encode the calls in one line. Only the end of the response shows that their arguments are complete."""
        calls, self._calls = self._calls.reply().calls, ReplyBuilder()
        if not calls:
            return b""
        encoded = encode_calls(calls, self._sent_calls)
        self._sent_calls += len(calls)
        return self._line(self._form.place("", {"tool_calls": encoded}))

    def _line(self, fields: _Fields) -> bytes:
        return _dump({"model": self._model or "", "created_at": self._created, "done": False, **fields})


def encode_whole(completion: Completion, form: ResponseForm, model: str | None, created: int, elapsed: int) -> bytes:
    """Encode a response that is not streamed. `elapsed` is in nanoseconds."""
    reply = completion.replies[0] if completion.replies else Reply()
    fields: _Fields = {"thinking": reply.reasoning} if reply.reasoning else {}
    if reply.calls:
        fields["tool_calls"] = encode_calls(reply.calls, 0)
    finish = reply.finish or "stop"
    body: _Fields = {
        "model": model or completion.head.get("model") or "",
        "created_at": format_time(created),
        **form.place(reply.text or "", fields),
        "done": True,
        "done_reason": _FINISH.get(finish, finish),
        **convert_durations(completion.head.get("timings"), elapsed, 0),
        **convert_counts(completion.usage),
    }
    if logprobs := _encode_logprobs(reply.logprobs):
        body["logprobs"] = logprobs
    return orjson.dumps(body)


def encode_loading(form: ResponseForm, model: str | None, created: int, reason: str) -> bytes:
    """Encode the response to a request without a prompt. It is the same streamed and whole."""
    line = {"model": model or "", "created_at": format_time(created), **form.place("", {})}
    return _dump({**line, "done": True, "done_reason": reason})


def encode_calls(calls: tuple[ToolCall, ...], first: int) -> list[object]:
    """Return calls in Ollama's format; `first` is the number of calls before them."""
    return [
        {"id": call.id, "function": {"index": index, "name": call.tool, "arguments": _arguments(call.arguments)}}
        for index, call in enumerate(calls, first)
    ]


def convert_durations(timings: Json, total: int, prompt: int) -> JsonObject:
    """Return the durations in nanoseconds: the model server's if it reports them, else the measured ones.

    `total` and `prompt` are measured, from the request to the end and to the first token.
    """
    reported = timings if is_object(timings) else {}
    measured = {"load_duration": 0, "prompt_eval_duration": prompt, "eval_duration": total - prompt}
    known = {
        name: int(ms * _NS_PER_MS) for name, key in _TIMES.items() if isinstance(ms := reported.get(key), int | float)
    }
    return {"total_duration": total, **measured, **known}


def convert_counts(usage: JsonObject | None) -> JsonObject:
    """Return the token counts under Ollama's names."""
    if usage is None:
        return {}
    details = usage.get("prompt_tokens_details")
    values = {
        "prompt_eval_count": usage.get("prompt_tokens"),
        "prompt_eval_cached_count": details.get("cached_tokens") if is_object(details) else None,
        "eval_count": usage.get("completion_tokens"),
    }
    return {name: value for name, value in values.items() if is_count(value)}


def format_time(created: int) -> str:
    """Return seconds since 1970 as a time of RFC 3339."""
    return datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")


def _arguments(text: str) -> object:
    """Return arguments as a JSON object, with the model's own numbers and spelling if they are one."""
    if not text.strip():
        return {}
    if read_object(text) is None:
        return to_arguments_object(text)
    # Between the tokens of valid JSON a line end is only space, and inside strings there is none.
    return orjson.Fragment(text.replace("\n", " ").replace("\r", " "))


def _encode_logprobs(logprobs: LogProbs | None) -> orjson.Fragment | None:
    """Return the log probabilities of the text: Ollama's entries are OpenAI's."""
    items = logprobs.lists.get("content") if logprobs is not None else None
    return orjson.Fragment(b"[" + items + b"]") if items else None


def _dump(fields: Mapping[str, object]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
