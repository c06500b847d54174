"""A hostile model server: the memory that its responses take, and that each ends in a typed error at worst."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendFault, ResponseTooDeep, ResponseTooLarge
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.stream import Completion, CompletionBuilder
from tests.fakes.literal import EVENTS, LiteralHttp

LIMIT = 40_000
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
WORDS = "ten words, "
DEPTHS = [260, 900, 10_000]


@dataclass
class Endless(LiteralHttp):
    """Answers with the pieces that `make` gives, which may never end; `given` counts their bytes."""

    make: Callable[[], Iterator[bytes]] = lambda: iter(())
    given: int = field(default=0)

    def __post_init__(self) -> None:
        self.kind = EVENTS
        self.sent = self  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]  # it is iterated over

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.make():
            self.given += len(piece)
            yield piece


def event(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def again(piece: bytes, times: int = 10_000_000) -> Callable[[], Iterator[bytes]]:
    return lambda: (piece for _ in range(times))


def calls_at(indices: Iterator[int]) -> Iterator[bytes]:
    return (event(tool_calls=[{"index": i, "function": {"name": "f", "arguments": ""}}]) for i in indices)


def choices_at(indices: Iterator[int]) -> Iterator[bytes]:
    return (
        b"data: " + json.dumps({"choices": [{"index": i, "delta": {"content": "x"}}]}).encode() + b"\n\n"
        for i in indices
    )


async def put_together(http: LiteralHttp, *, stream: bool = True, buffered: bool = True) -> Completion:
    backend = OpenAICompatible("http://m", http, max_response=LIMIT)
    call = ModelCall(ChatRequest({"messages": []}, stream=stream), stream=stream, buffered=buffered)
    builder = CompletionBuilder()
    async for chunk in backend.stream(call):
        builder.add(chunk)
    return builder.completion()


HOSTILE: dict[str, Callable[[], Iterator[bytes]]] = {
    "text": again(event(content=WORDS)),
    "reasoning": again(event(reasoning_content=WORDS)),
    "arguments": again(event(tool_calls=[{"index": 0, "function": {"arguments": WORDS}}])),
    "name": again(event(tool_calls=[{"index": 0, "function": {"name": WORDS}}])),
    "refusal": again(event(refusal=WORDS)),
    "thinking blocks": again(event(thinking_blocks=[{"index": 0, "thinking": WORDS}])),
    "line": again(b"data: " + b"x" * 1000),
    "lines of data": again(b"data: x\n"),
    "empty lines of data": again(b"data:\n" * 100),
    "comment": again(b": x"),
    "event of 100 MB": lambda: iter([b"data: ", *[b"x" * 100_000] * 1000, b"\n\n"]),
    "calls": lambda: calls_at(iter(range(10_000_000))),
    "choices": lambda: choices_at(iter(range(10_000_000))),
    "fields": lambda: (b'data: {"choices":[],"f%d":"x"}\n\n' % n for n in range(10_000_000)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
async def test_an_endless_stream_is_aborted_at_the_limit(name: str) -> None:
    with pytest.raises(ResponseTooLarge):  # one-time allocations do not count as memory of the response
        await put_together(Endless(make=HOSTILE[name]))

    tracemalloc.start()
    with pytest.raises(ResponseTooLarge) as caught:
        await put_together(Endless(make=HOSTILE[name]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "backend.max_response_mb" in str(caught.value)
    assert peak < 6 * LIMIT + 300_000


@pytest.mark.parametrize("start", [b'{"choices":"', b"", b"   "], ids=["JSON", "spaces", "more spaces"])
async def test_an_endless_whole_response_is_aborted_at_the_limit(start: bytes) -> None:
    def body() -> Iterator[bytes]:
        yield start
        yield from (b" " * 1000 for _ in range(3000))
        yield from (b"x" * 1000 for _ in range(3000))

    with pytest.raises(BackendFault):
        await put_together(Endless(make=body), stream=False)


async def test_what_is_only_passed_on_is_not_bounded() -> None:
    backend = OpenAICompatible(
        "http://m", Endless(make=lambda: iter([*[event(content="ab" * 5000)] * 30, FINISH])), max_response=LIMIT
    )
    call = ModelCall(ChatRequest({"messages": []}, stream=True), stream=True, buffered=False)

    passed = sum([len(chunk.deltas[0].text or "") async for chunk in backend.stream(call) if chunk.deltas])

    assert passed == 300_000


async def test_the_same_limit_applies_to_ollama() -> None:
    line = b'{"message":{"role":"assistant","content":"ab"},"done":false}\n'
    for make in (again(line), again(b"x" * 1000), again(b"[]," * 1000)):
        backend = Ollama("http://m", Endless(make=make), OllamaConfig(), lambda _: None, max_response=100_000)
        with pytest.raises(ResponseTooLarge):
            async for _ in backend.stream(ModelCall(ChatRequest({"messages": []}, stream=True), stream=True)):
                pass


@pytest.mark.parametrize("index", [10**9, -(10**9), -1, 2**63 - 1])
async def test_an_index_of_a_call_or_choice_is_a_name_and_no_size(index: int) -> None:
    made = lambda: iter([*calls_at(iter([index])), *choices_at(iter([index])), FINISH])  # noqa: E731

    completion = await put_together(Endless(make=made))

    assert sum(len(reply.calls) for reply in completion.replies) == 1


async def test_many_deltas_in_one_event_are_bounded() -> None:
    choices = b",".join([b'{"index":0,"delta":{"content":"a"}}'] * 100_000)

    with pytest.raises(ResponseTooLarge):
        await put_together(Endless(make=lambda: iter([b'data: {"choices":[' + choices + b"]}\n\n"])))


async def test_what_takes_many_times_its_size_once_it_is_parsed_is_not_parsed() -> None:
    backend = OpenAICompatible(
        "http://m", Endless(make=lambda: iter([b'{"a":[' + b"[]," * 600_000 + b"1]}"])), max_response=2_000_000
    )

    tracemalloc.start()
    with pytest.raises(ResponseTooLarge):
        async for _ in backend.stream(ModelCall(ChatRequest({"messages": []}), stream=False)):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 20_000_000


PLACES = {
    "arguments": '{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":%s}}]}}]}',
    "field of the delta": '{"choices":[{"index":0,"delta":{"annotations":%s}}]}',
    "log probabilities": '{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":%s}]}',
    "usage": '{"choices":[],"usage":%s}',
    "field of the chunk": '{"choices":[],"timings":%s}',
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("place", PLACES)
async def test_what_is_nested_too_deeply_is_a_fault_of_the_model(place: str, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    sent = b"data: " + (PLACES[place] % deep).encode() + b"\n\n"

    with pytest.raises(ResponseTooDeep) as caught:
        await put_together(Endless(make=lambda: iter([sent])))

    assert caught.value.status == 502


async def test_invalid_utf8_is_not_text() -> None:
    sent = b'data: {"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}\n\n'

    with pytest.raises(BackendFault, match="not JSON"):
        await put_together(Endless(make=lambda: iter([sent])))


async def test_data_after_done_is_not_read() -> None:
    sent = (
        event(content="hi") + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )

    completion = await put_together(Endless(make=lambda: iter([sent + b"\x00\xff trailing", b"data: {"])))

    assert completion.replies[0].text == "hi"
