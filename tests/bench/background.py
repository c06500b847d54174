"""How much background requests delay interactive ones, on a real llama.cpp: `python -m tests.bench.background`.

The embedded llama.cpp with the test model is the model server. One interactive client sends a request, reads the
response and pauses, as an agent does; background clients send the next request as soon as they have a response. On a
machine with few cores the slots share them, so part of the delay is shared compute time and not the queue.
"""

# ruff: noqa: T201  a command line prints
from __future__ import annotations

import argparse
import asyncio
import random
import time
from dataclasses import dataclass
from statistics import median, quantiles

from forge_proxy.core.background import Priority
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.requests.records import RequestOrigin, RequestRecord
from forge_proxy.daemon import assemble
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event, RequestAnswered
from forge_proxy.settings import build_settings
from forge_proxy.wire.clients.chat_completions.request import decode_request

_BACKGROUND_CLIENTS = 8
_PAUSE_SECONDS = (0.2, 1.0)
"""Between an interactive response and the next request."""


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement: who sends requests, and with which priority the load is sent."""

    label: str
    has_interactive: bool
    load: Priority | None


_LOADS = (
    Load("interactive alone", True, None),
    Load("with background load", True, "background"),
    Load("with the same load, not marked as background", True, "interactive"),
    Load("background alone", False, "background"),
)


class _Traffic:
    """The requests of one measurement, and their records."""

    def __init__(self, engine: Engine, heard: list[Event], tokens: int) -> None:
        self._engine = engine
        self._heard = heard
        self._tokens = tokens
        self._number = 0

    async def ask(self, client: str, priority: Priority) -> None:
        """Send a request and read its response to the end. No two prompts begin alike."""
        self._number += 1
        prompt = f"{self._number} {client} " + "the quick brown fox " * 40
        messages: Json = [{"role": "user", "content": prompt}]
        body: dict[str, Json] = {"messages": messages, "stream": True, "max_tokens": self._tokens, "ignore_eos": True}
        answer = self._engine.answer(
            decode_request(body), GuardPolicy(), request_id=f"{client}-{self._number}", client=client,
            origin=RequestOrigin(priority=priority),
        )  # fmt: skip
        async for _ in answer:
            pass

    async def repeat(self, client: str, priority: Priority) -> None:
        """Send requests without a pause."""
        while True:
            await self.ask(client, priority)

    def records(self, prefix: str) -> list[RequestRecord]:
        """Return the records of the clients whose names begin so."""
        found = [event.record for event in self._heard if isinstance(event, RequestAnswered)]
        return [record for record in found if record.request_id.startswith(prefix)]


async def _measure(load: Load, slots: int, requests: int, tokens: int) -> None:
    heard: list[Event] = []
    settings = build_settings({"backend": {"kind": "embedded", "llama_server": {"slots": slots, "context": 1024}}})
    async with assemble(settings, heard.append) as parts:
        await parts.load()
        traffic, pause = _Traffic(parts.engine, heard, tokens), random.Random(7)
        clients = range(_BACKGROUND_CLIENTS) if load.load else ()
        others = [asyncio.create_task(traffic.repeat(f"load{number}", load.load or "background")) for number in clients]
        began = time.monotonic()
        for _ in range(requests):
            await asyncio.sleep(pause.uniform(*_PAUSE_SECONDS))
            if load.has_interactive:
                await traffic.ask("person", "interactive")
        seconds = time.monotonic() - began
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        _report(load, traffic, seconds)


def _report(load: Load, traffic: _Traffic, seconds: float) -> None:
    rate = len(traffic.records("load")) / seconds
    words = [f"{load.label:<46}", f"load {rate:5.2f} requests/s" if load.load else " " * 22]
    if load.has_interactive:
        records = traffic.records("person")
        first = [1000 * (record.first_output or 0.0) for record in records]
        queued = [1000 * record.queued for record in records]
        words.append(f"first token p50 {median(first):6.0f} ms, p95 {quantiles(first, n=20)[-1]:6.0f} ms")
        words.append(f"of it queued p50 {median(queued):5.0f} ms, p95 {quantiles(queued, n=20)[-1]:5.0f} ms")
    print("  ".join(words), flush=True)


def main() -> None:
    """Measure every load for each number of slots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--requests", type=int, default=40, help="interactive requests of each measurement")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of each response")
    options = parser.parse_args()
    for slots in options.slots:
        print(f"{slots} slots", flush=True)
        for load in _LOADS:
            asyncio.run(_measure(load, slots, options.requests, options.tokens))


if __name__ == "__main__":
    main()
