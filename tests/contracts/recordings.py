"""Responses of model servers, as bytes.

llama-server's was recorded and shortened; the others are written after reports of their users, quirks included. Each
exists streamed and whole, with its content.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply

JsonDict = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Recording:
    """One answer. `events` are the data of its stream, `streamed` the bytes in which they came."""

    name: str
    streamed: bytes
    events: list[bytes]
    whole: bytes
    reply: Reply
    tokens: int | None
    finished: bytes = b'finish_reason":"'
    """Occurs once in the stream, where the response is declared complete."""


def _answer(reply: Reply, tokens: int | None, **head: Any) -> bytes:
    """A whole answer, as the same server gives it."""
    message: JsonDict = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish}
    body: JsonDict = {"object": "chat.completion", **head, "choices": [choice]}
    if tokens is not None:
        body["usage"] = {"prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens}
    return json.dumps(body, ensure_ascii=False).encode()


def _events(*written: str) -> list[bytes]:
    return [event.encode() for event in written]


def _plain(events: list[bytes]) -> bytes:
    return b"".join(b"data: " + event + b"\n\n" for event in events)


def _llama_server() -> Recording:
    tail = '"created":1795281771,"id":"chatcmpl-QbIv","model":"tiny-tools","object":"chat.completion.chunk"'

    def chunk(delta: str, finish: str = "null") -> str:
        return f'{{"choices":[{{"finish_reason":{finish},"index":0,"delta":{delta}}}],{tail}}}'

    events = _events(
        chunk('{"role":"assistant","content":null}'),
        chunk('{"tool_calls":[{"index":0,"id":"XRLm","type":"function","function":{"name":"get_weather","arguments":"{"}}]}'),
        chunk('{"tool_calls":[{"index":0,"function":{"arguments":"\\"city\\": \\"Zürich\\"}"}}]}'),
        chunk("{}", '"tool_calls"'),
        f'{{"choices":[],{tail},"usage":{{"completion_tokens":32,"prompt_tokens":66,"total_tokens":98}},"timings":{{"cache_n":0}}}}',
        "[DONE]",
    )  # fmt: skip
    reply = Reply(calls=(ToolCall("get_weather", '{"city": "Zürich"}', "XRLm"),), finish="tool_calls")
    return Recording("llama-server", _plain(events), events, _answer(reply, 98, id="chatcmpl-QbIv"), reply, 98)


def _vllm() -> Recording:
    head = '"id":"chatcmpl-a0e8","object":"chat.completion.chunk","created":1749994809,"model":"Qwen/Qwen3-8B"'

    def chunk(delta: str, rest: str = '"finish_reason":null') -> str:
        return f'{{{head},"choices":[{{"index":0,"delta":{delta},"logprobs":null,{rest}}}]}}'

    # a new id with each delta, as in older releases; usage in a chunk that also has a choice
    events = _events(
        chunk('{"role":"assistant","content":""}'),
        chunk('{"reasoning":"Hm 😀"}'),
        chunk('{"tool_calls":[{"id":"chatcmpl-tool-040a","type":"function","index":0,"function":{"name":"get_weather"}}]}'),
        chunk('{"tool_calls":[{"id":"chatcmpl-tool-77b1","type":"function","index":0,"function":{"arguments":"{}"}}]}'),
        chunk('{"content":""}', '"finish_reason":"tool_calls","stop_reason":null'),
        f'{{{head},"choices":[],"usage":{{"prompt_tokens":9,"total_tokens":24,"completion_tokens":15}}}}',
        "[DONE]",
    )  # fmt: skip
    call = ToolCall("get_weather", "{}", "chatcmpl-tool-040a")
    reply = Reply(text="", reasoning="Hm 😀", calls=(call,), finish="tool_calls")
    return Recording("vllm", _plain(events), events, _answer(reply, 24, id="chatcmpl-a0e8"), reply, 24)


def _ollama() -> Recording:
    head = '"id":"chatcmpl-476","object":"chat.completion.chunk","created":1730000000,"model":"qwen3"'

    def chunk(delta: str, finish: str = "null") -> str:
        return f'{{{head},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}'

    def call(identity: str, city: str) -> str:
        function = f'{{"name":"get_weather","arguments":"{{\\"city\\":\\"{city}\\"}}"}}'
        calls = f'[{{"id":"{identity}","index":0,"type":"function","function":{function}}}]'
        return chunk(f'{{"role":"assistant","content":"","tool_calls":{calls}}}')

    # the role in each chunk, and two calls that both claim index 0
    end = chunk('{"role":"assistant","content":""}', '"tool_calls"')
    events = _events(call("call_1", "Oslo"), call("call_2", "Rome"), end, "[DONE]")
    calls = (ToolCall("get_weather", '{"city":"Oslo"}', "call_1"), ToolCall("get_weather", '{"city":"Rome"}', "call_2"))
    reply = Reply(text="", calls=calls, finish="tool_calls")
    whole = _answer(reply, None, id="chatcmpl-476", created=1730000000, model="qwen3")
    whole = whole.replace(b'{"id": "call_', b'{"index": 0, "id": "call_')
    return Recording("ollama", _plain(events), events, whole, reply, None)


def _lm_studio() -> Recording:
    head = '"id":"chatcmpl-x9","object":"chat.completion.chunk","created":1754000000,"model":"qwen3-4b"'

    def chunk(delta: str, finish: str = "null") -> str:
        return f'{{{head},"choices":[{{"delta":{delta},"finish_reason":{finish}}}]}}'

    # no role, no index of choice or call, an empty id; the end of the stream replaces [DONE]
    events = _events(
        chunk('{"tool_calls":[{"id":"","type":"function","function":{"name":"get_weather","arguments":""}}]}'),
        chunk('{"tool_calls":[{"function":{"arguments":"{\\"city\\":"}}]}'),
        chunk('{"tool_calls":[{"function":{"arguments":"\\"Köln\\"}"}}]}'),
        chunk("{}", '"tool_calls"'),
    )
    reply = Reply(calls=(ToolCall("get_weather", '{"city":"Köln"}', ""),), finish="tool_calls")
    return Recording("lm-studio", _plain(events), events, _answer(reply, None, id="chatcmpl-x9"), reply, None)


def _decorated() -> Recording:
    """All that the specification of server-sent events allows, and a byte order mark."""
    events = _events(
        '{"id":"7","choices":[{"index":0,"delta":{"role":"assistant","content":"Grüße "},"finish_reason":null}]}',
        '{"id":"7","choices":[{"index":0,"delta":{"content":"nach 東京 😀"},"finish_reason":null}]}',
        '{"id":"7","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
        '"usage":{"prompt_tokens":1,"completion_tokens":6,"total_tokens":7}}',
        "[DONE]",
    )
    first, second, last, done = events
    streamed = b"".join(
        [
            b"\xef\xbb\xbf: connected\r\n\r\n",
            b"event: message\r\nid: 1\r\ndata:" + first + b"\r\n\r\n",
            b": keep-alive\r\n\r\nretry: 3000\r\n",
            b"data:" + second + b"\r\nevent: message\r\n\r\n",
            b"data: \r\n\r\n",
            b"data: " + last + b"\r\n\r\ndata:" + done + b"\r\n\r\n",
        ]
    )
    reply = Reply(text="Grüße nach 東京 😀", finish="stop")
    return Recording("decorated", streamed, events, b"\xef\xbb\xbf" + _answer(reply, 7, id="7"), reply, 7)


RECORDINGS = (_llama_server(), _vllm(), _ollama(), _lm_studio(), _decorated())
