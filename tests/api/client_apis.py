"""The four client APIs as rows of a table: how each writes a conversation, and where each has the response."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One entry of a conversation: a message, calls of the model, or the result of a call by its place."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, JsonDict], ...] = ()
    call: int = 0
    """For a result, the place of its call among all calls."""


@dataclass(frozen=True)
class ApiResponse:
    """What a client makes of a response, whatever its API."""

    text: str
    calls: tuple[tuple[str, Any], ...]
    reasoning: str


@dataclass(frozen=True)
class ClientApi:
    """An API: its path, its requests and its responses."""

    name: str
    path: str
    encode: Callable[[tuple[Turn, ...], Mapping[str, JsonDict]], JsonDict]
    """Returns the request for a conversation, with the JSON schemas of the offered tools."""
    read_whole: Callable[[JsonDict], ApiResponse]
    read_stream: Callable[[str], ApiResponse]

    def request(self, turns: tuple[Turn, ...], tools: Mapping[str, JsonDict], *, stream: bool) -> JsonDict:
        """The body of a request."""
        return {**self.encode(turns, tools), "model": "scripted", "stream": stream}

    def read(self, body: str, *, stream: bool) -> ApiResponse:
        """What a client makes of a response body."""
        return self.read_stream(body) if stream else self.read_whole(json.loads(body))


@dataclass
class _Parts:
    """A response that is being put together."""

    text: str = ""
    reasoning: str = ""
    calls: list[list[Any]] = field(default_factory=list[list[Any]])

    def response(self) -> ApiResponse:
        read = tuple((name, json.loads(given) if isinstance(given, str) else given) for name, given in self.calls)
        return ApiResponse(self.text, read, self.reasoning)


def _events(body: str) -> list[JsonDict]:
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _functions(tools: Mapping[str, JsonDict]) -> list[JsonDict]:
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in tools.items()]


def _numbered(turns: tuple[Turn, ...]) -> list[tuple[Turn, int]]:
    """Each turn with the number of calls before it."""
    counts = [len(turn.calls) for turn in turns]
    return [(turn, sum(counts[:place])) for place, turn in enumerate(turns)]


def _encode_chat(turns: tuple[Turn, ...], tools: Mapping[str, JsonDict]) -> JsonDict:
    messages: list[JsonDict] = []
    for turn, before in _numbered(turns):
        message: JsonDict = {"role": turn.role, "content": turn.text or (None if turn.calls else "")}
        if turn.reasoning:
            message["reasoning_content"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for n, (name, given) in enumerate(turn.calls, before)
            ]
        if turn.role == "tool":
            message["tool_call_id"] = f"call_{turn.call}"
        messages.append(message)
    return {"messages": messages, **({"tools": _functions(tools)} if tools else {})}


def _read_chat(body: JsonDict) -> ApiResponse:
    message = body["choices"][0]["message"]
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or []]
    return _Parts(message.get("content") or "", message.get("reasoning_content") or "", calls).response()


def _read_chat_stream(body: str) -> ApiResponse:
    parts = _Parts()
    for chunk in _events(body):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            parts.text += delta.get("content") or ""
            parts.reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(parts.calls):
                    parts.calls.append(["", ""])
                parts.calls[call["index"]][0] += call["function"].get("name", "")
                parts.calls[call["index"]][1] += call["function"].get("arguments", "")
    return parts.response()


def _encode_responses(turns: tuple[Turn, ...], tools: Mapping[str, JsonDict]) -> JsonDict:
    items: list[JsonDict] = []
    for turn, before in _numbered(turns):
        if turn.reasoning:
            content = [{"type": "reasoning_text", "text": turn.reasoning}]
            items.append({"type": "reasoning", "id": f"rs_{before}", "summary": [], "content": content})
        if turn.role == "tool":
            items.append({"type": "function_call_output", "call_id": f"call_{turn.call}", "output": turn.text})
        elif turn.text or not turn.calls:
            items.append({"type": "message", "role": turn.role, "content": turn.text})
        items += [
            {"type": "function_call", "call_id": f"call_{n}", "name": name, "arguments": json.dumps(given)}
            for n, (name, given) in enumerate(turn.calls, before)
        ]
    offered = [{"type": "function", "name": name, "parameters": schema} for name, schema in tools.items()]
    return {"input": items, **({"tools": offered} if tools else {})}


def _read_responses(body: JsonDict) -> ApiResponse:
    parts = _Parts()
    for item in body["output"]:
        if item["type"] == "message":
            parts.text += "".join(part["text"] for part in item["content"])
        elif item["type"] == "reasoning":
            parts.reasoning += "".join(part["text"] for part in item["content"])
        elif item["type"] == "function_call":
            parts.calls.append([item["name"], item["arguments"]])
    return parts.response()


def _read_responses_stream(body: str) -> ApiResponse:
    parts = _Parts()
    for event in _events(body):
        if event["type"] == "response.output_text.delta":
            parts.text += event["delta"]
        elif event["type"] == "response.reasoning_text.delta":
            parts.reasoning += event["delta"]
        elif event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            parts.calls.append([event["item"]["name"], event["item"]["arguments"]])
    return parts.response()


def _encode_messages(turns: tuple[Turn, ...], tools: Mapping[str, JsonDict]) -> JsonDict:
    messages: list[JsonDict] = []
    system = "\n".join(turn.text for turn in turns if turn.role == "system")
    for turn, before in _numbered(turns):
        blocks: list[JsonDict] = []
        if turn.reasoning:
            blocks.append({"type": "thinking", "thinking": turn.reasoning, "signature": ""})
        if turn.role == "tool":
            blocks.append({"type": "tool_result", "tool_use_id": f"call_{turn.call}", "content": turn.text})
        elif turn.text and turn.role != "system":
            blocks.append({"type": "text", "text": turn.text})
        blocks += [
            {"type": "tool_use", "id": f"call_{n}", "name": name, "input": given}
            for n, (name, given) in enumerate(turn.calls, before)
        ]
        role = "user" if turn.role == "tool" else turn.role
        if role != "system":
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": role, "content": blocks})
    offered = [{"name": name, "input_schema": schema} for name, schema in tools.items()]
    request: JsonDict = {"max_tokens": 1000, "messages": messages, **({"system": system} if system else {})}
    return {**request, **({"tools": offered} if tools else {})}


def _read_messages(body: JsonDict) -> ApiResponse:
    parts = _Parts()
    for block in body["content"]:
        if block["type"] == "tool_use":
            parts.calls.append([block["name"], block["input"]])
        parts.text += block.get("text", "")
        parts.reasoning += block.get("thinking", "")
    return parts.response()


def _read_messages_stream(body: str) -> ApiResponse:
    parts = _Parts()
    for event in _events(body):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            parts.calls.append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            parts.text += delta.get("text", "")
            parts.reasoning += delta.get("thinking", "")
            if delta["type"] == "input_json_delta":
                parts.calls[-1][1] += delta["partial_json"]
    return parts.response()


def _encode_ollama(turns: tuple[Turn, ...], tools: Mapping[str, JsonDict]) -> JsonDict:
    names = [name for turn in turns for name, _ in turn.calls]
    messages: list[JsonDict] = []
    for turn in turns:
        message: JsonDict = {"role": turn.role, "content": turn.text}
        if turn.reasoning:
            message["thinking"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [{"function": {"name": name, "arguments": given}} for name, given in turn.calls]
        if turn.role == "tool":
            message["tool_name"] = names[turn.call]
        messages.append(message)
    return {"messages": messages, **({"tools": _functions(tools)} if tools else {})}


def _read_ollama(body: JsonDict) -> ApiResponse:
    return _read_ollama_stream(json.dumps(body))


def _read_ollama_stream(body: str) -> ApiResponse:
    parts = _Parts()
    for line in body.splitlines():
        message = json.loads(line)["message"]
        parts.text += message["content"]
        parts.reasoning += message.get("thinking", "")
        for call in message.get("tool_calls", []):
            parts.calls.append([call["function"]["name"], call["function"]["arguments"]])
    return parts.response()


CHAT_COMPLETIONS_API = ClientApi(
    "chat completions", "/v1/chat/completions", _encode_chat, _read_chat, _read_chat_stream
)
CLIENT_APIS = (
    CHAT_COMPLETIONS_API,
    ClientApi("responses", "/v1/responses", _encode_responses, _read_responses, _read_responses_stream),
    ClientApi("messages", "/v1/messages", _encode_messages, _read_messages, _read_messages_stream),
    ClientApi("ollama", "/api/chat", _encode_ollama, _read_ollama, _read_ollama_stream),
)
