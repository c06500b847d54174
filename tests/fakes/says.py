"""The response of a scripted model, as the bytes that a server would send for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

_HEAD = {"id": "chatcmpl-scripted", "created": 1700000000, "model": "scripted"}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Said:
    """One answer: text, reasoning, native calls as (name, arguments text), a finish reason; or an error by status."""

    text: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    reasoning: str | None = None
    finish: str | None = None
    status: int = 200
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    ids: str = "call_"
    """Prefix of the ids of the calls; the index in the response follows."""
    piece: int = 3
    """Characters of text in one delta."""
    events: list[dict[str, Any]] | None = None
    """The stream's events in place of those made from the fields above; the first is the whole response."""
    breaks_off: bool = False
    """Whether the connection ends before the response is complete: without finish reason and without `[DONE]`."""

    @property
    def _finish(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def _usage(self) -> dict[str, int]:
        return {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    def as_whole(self) -> bytes:
        """Return the response to a request without `stream`."""
        if self.events is not None:
            return json.dumps(self.events[0]).encode()
        if self.breaks_off:
            return replace(self, breaks_off=False).as_whole()[:-20]
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [self._call(i, name, arguments) for i, (name, arguments) in enumerate(self.calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": self._usage}).encode()

    def as_stream(self) -> bytes:
        """Return the response to a request with `stream`, cut as llama-server cuts it."""
        chunks = self.as_chunks() if self.events is None else self.events
        if self.breaks_off:
            return b"".join(as_event(chunk) for chunk in chunks[:-2])  # without the finish reason and the usage
        return b"".join(as_event(chunk) for chunk in chunks) + DONE

    def as_chunks(self) -> list[dict[str, Any]]:
        """Return the chunks of the stream, one for each event but the last."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"reasoning_content": part} for part in _parts(self.reasoning or "", self.piece)]
        deltas += [{"content": part} for part in _parts(self.text or "", self.piece)]
        for index, (name, arguments) in enumerate(self.calls):
            deltas.append({"tool_calls": [{"index": index, **self._call(index, name, "")}]})
            parts = _parts(arguments, self.piece)
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in parts]
        chunks = [_chunk(choices=[{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        chunks.append(_chunk(choices=[{"index": 0, "delta": {}, "finish_reason": self._finish}]))
        chunks.append(_chunk(choices=[], usage=self._usage))
        return chunks

    def _call(self, index: int, name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"id": f"{self.ids}{index}", "type": "function", "function": function}


def respond(message: str) -> Said:
    """A call of the `respond` tool."""
    return Said(calls=(("respond", json.dumps({"message": message})),))


def as_event(chunk: dict[str, Any]) -> bytes:
    """Return the event that carries this chunk."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _chunk(**fields: Any) -> dict[str, Any]:
    return {**_HEAD, "object": "chat.completion.chunk", **fields}


def _parts(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]
