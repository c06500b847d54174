"""Measures how long the event loop is blocked by a response with a long malformed call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass

from forge_proxy.core.chat import ChatRequest, ModelCall, ModelCard, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.health import Health
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.daemon import MonotonicClock
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.process_pool import ProcessPool

_SIZE = 160_000
_PIECE = 4096
_BEAT_SECONDS = 0.001
_LINE = '    print(f"{name}: {value}", sep="", end=x[0])  # as it was\\n'
_CODE = (_LINE * (_SIZE // len(_LINE) + 1))[:_SIZE]
_QUIET = _CODE.replace('"', "'")
_ARGUMENTS = {
    "unescaped quotes": f'{{"path": "a.py", "content": "{_CODE}", "mode": 1}}',
    "and a comma missing": f'{{"path": "a.py" "content": "{_CODE}"}}',
    "line breaks in strings": '{"path": "a.py", "content": "' + _QUIET.replace("\\n", "\n") + '",}',
    "in single quotes": "{'path': 'a.py', 'content': '" + _CODE.replace('"', '\\"').replace("'", "\\'") + "'}",
    "bare keys": f'{{path: "a.py", content: "{_QUIET}"}}',
    "no end": f'{{"path": "a.py", "content": "{_QUIET}',
    "a value missing": f'{{"path": , "content": "{_QUIET}"}}',
    "quotes only": f'{{"path": "{chr(34) * _SIZE}"}}',
    "many members": "{" + '"a": [{b: "c"}, ' * (_SIZE // 16) + "}",
}
_TOOL = ToolSpec("write_file", {"type": "object", "required": ["path", "content"]})


async def longest_gaps(times: int) -> list[tuple[str, float]]:
    """Return the longest gap of several runs in seconds, by kind of damage, as text and as a native call."""
    gaps = [("nothing at all, for comparison", max([await _longest_gap(asyncio.sleep(1.0)) for _ in range(times)]))]
    for label, arguments in _ARGUMENTS.items():
        text = f'<tool_call>{{"name": "write_file", "arguments": {arguments}}}</tool_call>'
        gaps.append(
            (f"markup, {label}", await _longest_of(times, [Delta(text=text[at:][:_PIECE]) for at in _at(text)]))
        )
        call = [Delta(calls=(CallDelta(0, "c", "write_file", arguments[at:][:_PIECE]),)) for at in _at(arguments)]
        gaps.append((f"native call, {label}", await _longest_of(times, call)))
    return gaps


def _at(text: str) -> range:
    return range(0, len(text), _PIECE)


async def _longest_of(times: int, deltas: Sequence[Delta]) -> float:
    """With a new pool each time: starting a process counts too."""
    gaps: list[float] = []
    for _ in range(times):
        pool = ProcessPool()
        gaps.append(await _longest_gap(_answer(deltas, pool)))
        await pool.close()
    return max(gaps)


async def _answer(deltas: Sequence[Delta], pool: ProcessPool) -> None:
    engine = Engine(EngineConfig(_Says(deltas), MonotonicClock(), lambda _: None, reader=pool))
    request = ChatRequest({}, tools=(_TOOL,), stream=True)
    async for _ in engine.answer(request, GuardPolicy(), request_id="bench"):
        pass


async def _longest_gap(work: Awaitable[None]) -> float:
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(2 * _BEAT_SECONDS)
    beating.cancel()
    return longest


@dataclass(frozen=True, slots=True)
class _Says:
    """A backend that sends this text first, and then a valid call."""

    deltas: Sequence[Delta]
    url = "http://bench"

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        good = Delta(calls=(CallDelta(0, "c", "write_file", '{"path": "a", "content": "b"}'),), finish="tool_calls")
        for delta in (good,) if call.added else (*self.deltas, Delta(finish="stop")):
            await asyncio.sleep(0)
            yield Chunk((delta,))

    async def models(self) -> Sequence[ModelCard]:
        return [ModelCard("bench")]

    async def slots(self) -> int | None:
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")
