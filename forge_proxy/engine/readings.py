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
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_reading_of(turn, reply, thorough)) for reply in replies]
    return [task.result() for task in tasks]


async def _reading_of(turn: Turn, reply: Reply, thorough: ThoroughReader) -> Reading:
    length = len(reply.text or "") + len(reply.reasoning or "") + sum(len(call.arguments) for call in reply.calls)
    if length > _LONG:
        return await thorough.read(turn, reply) or read(turn, reply)
    light = read(turn, reply)
    return (await thorough.read(turn, reply) if light.unread else None) or light
