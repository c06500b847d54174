"""The same conversation through each client API: the overhead of each compared with chat completions.

This belongs in the benchmark because only figures taken in turn, within one run, can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import orjson

from tests.bench.asks import LATENCY, Ask, JsonDict
from tests.bench.children import Setup
from tests.bench.client import Unexpected, connections
from tests.bench.measures import Samples, spread

CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
CLIENT_APIS = (CHAT, RESPONSES, MESSAGES, OLLAMA)
CONVERSATIONS = tuple(ask for ask in LATENCY if ask.tools)
"""Those with tools: each API has its own format for a call."""


@dataclass(frozen=True, slots=True)
class ClientApiRequest:
    """One conversation in the format of one client API."""

    ask: Ask
    path: str

    def as_bytes(self) -> bytes:
        """Return the bytes of the HTTP request."""
        raw = orjson.dumps(_BODIES[self.path](self.ask.body()))
        head = f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw

    def check(self, body: bytes) -> None:
        """Raises `Unexpected` if the response has no call."""
        if b"get_weather" not in body:
            raise Unexpected(f"{self.path}: no call in {body[-300:]!r}")


def _as_chat(body: JsonDict) -> JsonDict:
    return body


def _as_responses(body: JsonDict) -> JsonDict:
    items: list[JsonDict] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            output = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            items.append(output)
        elif called := message.get("tool_calls"):
            items += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in called]
        else:
            items.append(message)
    tools = [{"type": "function", **tool["function"]} for tool in body["tools"]]
    kept = {name: body[name] for name in ("model", "stream", "temperature")}
    return {**kept, "input": items, "tools": tools, "max_output_tokens": body["max_tokens"], "store": False}


def _as_messages(body: JsonDict) -> JsonDict:
    system, *others = body["messages"]
    messages: list[JsonDict] = []
    for message in others:
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            messages.append({"role": "user", "content": [result]})
        elif called := message.get("tool_calls"):
            uses = [
                {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
                 "input": orjson.loads(call["function"]["arguments"])}
                for call in called
            ]  # fmt: skip
            messages.append({"role": "assistant", "content": uses})
        else:
            messages.append(message)
    tools = [
        {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
        for one in (tool["function"] for tool in body["tools"])
    ]
    return {**body, "system": system["content"], "messages": messages, "tools": tools}


def _as_ollama(body: JsonDict) -> JsonDict:
    messages: list[JsonDict] = []
    for message in body["messages"]:
        called = [
            {"function": {**call["function"], "arguments": orjson.loads(call["function"]["arguments"])}}
            for call in message.get("tool_calls", ())
        ]
        messages.append({**message, "content": message["content"] or "", **({"tool_calls": called} if called else {})})
    options: dict[str, Any] = {"num_predict": body["max_tokens"], "temperature": body["temperature"]}
    kept = {name: body[name] for name in ("model", "stream", "tools")}
    return {**kept, "messages": messages, "options": options}


_BODIES = {CHAT: _as_chat, RESPONSES: _as_responses, MESSAGES: _as_messages, OLLAMA: _as_ollama}


async def client_api_latency(setup: Setup, ask: Ask, rounds: int) -> Samples:
    """Return the seconds to the last byte: of the backend itself, and of the daemon by client API. In turn, as in
    `latency`.
    """
    direct = "direct"
    requests = {path: ClientApiRequest(ask, path) for path in CLIENT_APIS}
    sent = {direct: requests[CHAT].as_bytes(), **{path: request.as_bytes() for path, request in requests.items()}}
    taken: Samples = {name: [] for name in sent}
    async with AsyncExitStack() as stack:
        ports = {direct: setup.backend.port, **dict.fromkeys(CLIENT_APIS, setup.daemon.port)}
        kept = {name: (await stack.enter_async_context(connections(port, 1)))[0] for name, port in ports.items()}
        for path, request in requests.items():
            request.check((await kept[path].ask(sent[path])).body)
        names = list(sent)
        for number in range(-rounds // 10, rounds):  # the first ones are for warming up
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                answer = await kept[name].ask(sent[name])
                if number >= 0:
                    taken[name].append(answer.last)
    return taken


def print_client_apis(taken: Sequence[tuple[Ask, Samples]], bound: float) -> None:
    """Print a line for each conversation and API: the added time, and its ratio to chat completions with the fifths."""
    print(f"\nThe same conversation through each client API, medians of {len(taken[0][1][CHAT])}, µs added to direct")  # noqa: T201
    for ask, samples in taken:
        direct = median(samples["direct"])
        for path in CLIENT_APIS:
            added = median(samples[path]) - direct
            ratio = added / (median(samples[CHAT]) - direct)
            low, high = spread(samples, path, CHAT)
            verdict = "kept" if ratio <= bound else "OVER"
            ratios = f"{ratio:.2f} ({low:.2f}-{high:.2f})  bound {bound}x: {verdict}"
            print(f"{ask.label:31}{path:24}{1e6 * added:+9.0f}  {ratios}")  # noqa: T201
