"""What the replies of an attempt hold: read here, or away from the event loop if that may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forge_proxy.core.guardrails.extraction import EXTRACTION_LIMIT, Extraction, estimate_extraction, read
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.stream import Reply
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import ThoroughReader

_MOST_WORK = 100_000
"""The same if no process can do it: longer texts are delivered as they are."""
_SHORT = 5_000
"""Microseconds of estimated work that need not wait for a turn."""


async def readings_of(
    turn: Turn, replies: Sequence[Reply], thorough: ThoroughReader | None, turns: LoopTurns
) -> list[Extraction]:
    """A reading of each reply. The light one stands where a thorough one is not needed, or cannot be had."""
    light: list[Extraction | None] = []
    for reply in replies:
        work = estimate_extraction(reply)
        if _SHORT < work <= EXTRACTION_LIMIT:
            await turns.take(heavy=True)
        light.append(read(turn, reply) if work <= EXTRACTION_LIMIT else None)
    readings = [reading for reading in light if reading and not (thorough and reading.unread)]
    if len(readings) == len(replies):  # nearly always; a task for each request would cost more than the rest of this
        return readings
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_reading_of(turn, reply, thorough, so_far, turns))
            for reply, so_far in zip(replies, light, strict=True)
        ]
    return [task.result() for task in tasks]


async def _reading_of(
    turn: Turn, reply: Reply, thorough: ThoroughReader | None, light: Extraction | None, turns: LoopTurns
) -> Extraction:
    if light and not (thorough and light.unread):
        return light
    if thorough is None:  # no process to give it to; a thread leaves the event loop its share
        return await asyncio.to_thread(read, turn, reply)
    light = light or await thorough.read(turn, reply, lightly=True)
    if light is None:
        return await _read_at_most(turn, reply, turns)
    return await thorough.read(turn, reply) or light if light.unread else light


async def _read_at_most(turn: Turn, reply: Reply, turns: LoopTurns) -> Extraction:
    """What can be read without holding up the event loop: else the text as it is, and no call that stands in it."""
    if estimate_extraction(reply) <= _MOST_WORK:
        await turns.take(heavy=True)
        return read(turn, reply)
    text = reply.text or ""
    return Extraction(text, reply.calls, written=text)
