"""The requests of the measurements, and checks that the responses are as the measurement assumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from tests.bench.backend import CALLS, RESPONDS, TALKS, TOOL
from tests.bench.client import Answer, Unexpected

JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One kind of request. `guardrails` goes into the header of that name, `outcome` is the one that the daemon
    reports.
    """

    label: str
    model: str
    pieces: int
    stream: bool
    tools: bool = False
    turns: int = 1
    guardrails: str = ""
    pace_ms: float = 0.0

    @property
    def outcome(self) -> str:
        return "clean" if self.tools else "passthrough"

    def body(self) -> JsonDict:
        """The request as a chat completion."""
        body: JsonDict = {
            "model": self.model,
            "messages": _conversation(self.turns),
            "max_tokens": self.pieces,
            "stream": self.stream,
            "temperature": 0.7,
        }
        if self.tools:
            body["tools"] = _tools(2 * self.turns)
        if self.pace_ms:
            body["bench_pace_ms"] = self.pace_ms
        return body

    def request(self) -> bytes:
        """The bytes of the HTTP request."""
        raw = orjson.dumps(self.body())
        lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
        if self.guardrails:
            lines.append(f"x-forge-guardrails: {self.guardrails}")
        return "\r\n".join([*lines, f"content-length: {len(raw)}", "", ""]).encode() + raw

    def check(self, answer: Answer, *, by_daemon: bool) -> None:
        """Raise `Unexpected` for a response that is incomplete, or was not guarded as expected."""
        told = answer.body if self.stream else answer.head
        if self.stream and b"data: [DONE]" not in answer.body:
            raise Unexpected(f"{self.label}: no end in {answer.body[-200:]!r}")
        if self.tools and self.model == CALLS and TOOL.encode() not in answer.body:
            raise Unexpected(f"{self.label}: no call in {answer.body[-200:]!r}")
        separator = "=" if self.stream else ": "
        reported = f"x-forge-outcome{separator}{self.outcome}".encode() in told
        if by_daemon and not reported and not (self.stream and self.outcome == "passthrough"):
            raise Unexpected(f"{self.label}: not {self.outcome}: {told[-500:]!r}")


STREAMED_PIECES = 32
LATENCY = (
    Ask("pass-through, whole", TALKS, STREAMED_PIECES, stream=False),
    Ask("pass-through, streamed", TALKS, STREAMED_PIECES, stream=True),
    Ask("guarded, whole", CALLS, STREAMED_PIECES, stream=False, tools=True),
    Ask("guarded, streamed", CALLS, STREAMED_PIECES, stream=True, tools=True),
    Ask("guarded, streamed, 50 kB asked", CALLS, STREAMED_PIECES, stream=True, tools=True, turns=20),
)
PASS_THROUGH = Ask("pass-through", TALKS, STREAMED_PIECES, stream=True)
STREAMS = (
    PASS_THROUGH,
    Ask("guarded: a call, held", CALLS, STREAMED_PIECES, stream=True, tools=True),
    Ask("guarded: respond, live", RESPONDS, STREAMED_PIECES, stream=True, tools=True),
    # without `retry` there is no reason to hold text back
    Ask("guarded: text, live", TALKS, STREAMED_PIECES, stream=True, tools=True, guardrails="respond,rescue,validate"),
)


def _conversation(turns: int) -> list[JsonDict]:
    messages: list[JsonDict] = [{"role": "system", "content": "You are a helpful assistant. " * 5 * turns}]
    for number in range(turns - 1):
        called = {"name": TOOL, "arguments": '{"city": "Paris"}'}
        call = {"id": f"call_{number}", "type": "function", "function": called}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "sunny, 21 degrees. " * 75})
    return [*messages, {"role": "user", "content": "What is the weather in Paris?"}]


def _tools(count: int) -> list[JsonDict]:
    names = (TOOL, *(f"other_tool_{number}" for number in range(1, count)))
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    about = "Looks something up in the place that is named, for so many days ahead."
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}} for name in names
    ]
