"""What the replies of an attempt hold: read lightly here, and away from the event loop where that is not enough."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forge_proxy.core.guardrails.reading import Reading, read
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.stream import Reply
from forge_proxy.engine.ports import ThoroughReader

_LONG = 200_000
"""Characters of one reply that are read here: a few milliseconds for what is well formed, 50 at the very worst."""


async def readings_of(turn: Turn, replies: Sequence[Reply], thorough: ThoroughReader | None) -> list[Reading]:
    """A reading of each reply. The light one stands where a thorough one is not needed, or cannot be had."""
    if thorough is None:
        return [read(turn, reply) for reply in replies]
    light = [None if _is_long(reply) else read(turn, reply) for reply in replies]
    readings = [reading for reading in light if reading and not reading.unread]
    if len(readings) == len(replies):  # nearly always; a task for each request would cost more than the rest of this
        return readings
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_reading_of(turn, reply, thorough, so_far))
            for reply, so_far in zip(replies, light, strict=True)
        ]
    return [task.result() for task in tasks]


def _is_long(reply: Reply) -> bool:
    length = len(reply.text or "") + len(reply.reasoning or "") + sum(len(call.arguments) for call in reply.calls)
    return length > _LONG


async def _reading_of(turn: Turn, reply: Reply, thorough: ThoroughReader, light: Reading | None) -> Reading:
    if light and not light.unread:
        return light
    return await thorough.read(turn, reply) or light or read(turn, reply)
