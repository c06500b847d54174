"""Clients that send requests to a daemon without a pause, in every mode, and check each response."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx

from tests.system.asking import PATH, JsonDict, events

CLIENTS = 8


@dataclass
class Answered:
    """The seconds that each response took, by client."""

    seconds: list[list[float]] = field(default_factory=lambda: [[] for _ in range(CLIENTS)])

    @property
    def each(self) -> list[int]:
        """Return how many responses each client has received."""
        return [len(one) for one in self.seconds]

    @property
    def in_words(self) -> str:
        """Return a summary for a report."""
        return f"{sum(self.each)} answers, the longest in {max(map(max, self.seconds)):.1f} s"


@asynccontextmanager
async def load(url: str, body: JsonDict) -> AsyncGenerator[Answered]:
    """Run eight clients, each with its own connections, with and without the tools of `body`.

    Raises if a request fails, is rejected or is answered in part.
    """
    answered, stopping = Answered(), asyncio.Event()
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(_ask_on(url, body, number, answered.seconds[number], stopping))
        try:
            yield answered
        finally:
            stopping.set()


async def _ask_on(url: str, body: JsonDict, number: int, seconds: list[float], stopping: asyncio.Event) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        for turn in count(number):
            if stopping.is_set():
                return
            stream, guarded = turn % 2 == 0, turn // 2 % 2 == 0
            began = time.monotonic()
            asked = {name: value for name, value in body.items() if guarded or name != "tools"}
            response = await client.post(PATH, json={**asked, "stream": stream})
            seconds.append(time.monotonic() - began)
            assert response.status_code == 200, response.text
            assert (_streamed(response.text) if stream else response.json())["choices"][0]["finish_reason"]


def _streamed(text: str) -> JsonDict:
    """The chunk with the end of a stream."""
    *chunks, done = events(text.splitlines())
    assert done == "[DONE]"
    return next(chunk for chunk in map(json.loads, reversed(chunks)) if chunk["choices"])
