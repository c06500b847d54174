"""Parses the replies of an attempt: on the event loop, or in another process if that may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forge_proxy.core.guardrails.extraction import EXTRACTION_LIMIT, Extraction, estimate_extraction, extract
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.stream import Reply
from forge_proxy.engine.pacing import LoopTurns, Weight
from forge_proxy.engine.ports import ThoroughReader

_MAX_WORK = 100_000
"""Microseconds of estimated work allowed on the event loop if no process is available; longer texts stay unparsed."""
_IMMEDIATE_WORK = 5_000
"""Microseconds of estimated work that does not wait for a turn."""


async def parse_replies(
    turn: Turn, replies: Sequence[Reply], thorough: ThoroughReader | None, turns: LoopTurns
) -> list[Extraction]:
    """Parse each reply. The light extraction is used if a thorough one is unnecessary or unavailable."""
    light: list[Extraction | None] = []
    for reply in replies:
        work = estimate_extraction(reply)
        if _IMMEDIATE_WORK < work <= EXTRACTION_LIMIT:
            await turns.take(Weight.HEAVY)
        light.append(extract(turn, reply) if work <= EXTRACTION_LIMIT else None)
    extractions = [extraction for extraction in light if extraction and not (thorough and extraction.may_recover_more)]
    if len(extractions) == len(replies):  # nearly always; a task per request would cost more than everything else here
        return extractions
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_extract(turn, reply, thorough, so_far, turns))
            for reply, so_far in zip(replies, light, strict=True)
        ]
    return [task.result() for task in tasks]


async def _extract(
    turn: Turn, reply: Reply, thorough: ThoroughReader | None, light: Extraction | None, turns: LoopTurns
) -> Extraction:
    if light and not (thorough and light.may_recover_more):
        return light
    if thorough is None:  # no process pool; a thread lets the event loop run in between
        return await asyncio.to_thread(extract, turn, reply)
    light = light or await thorough.read(turn, reply, lightly=True)
    if light is None:
        return await _extract_within_limit(turn, reply, turns)
    return await thorough.read(turn, reply) or light if light.may_recover_more else light


async def _extract_within_limit(turn: Turn, reply: Reply, turns: LoopTurns) -> Extraction:
    """Parse what does not block the event loop; otherwise return the text unchanged, without the calls in it."""
    if estimate_extraction(reply) <= _MAX_WORK:
        await turns.take(Weight.HEAVY)
        return extract(turn, reply)
    text = reply.text or ""
    return Extraction(text, reply.calls, text_with_calls=text)
