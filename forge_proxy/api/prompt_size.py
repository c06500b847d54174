"""Measures a prompt while its response begins, for APIs whose first event has the number of its tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Protocol, runtime_checkable

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.engine.context_fitting import PromptSize

_MAX_WAIT = 0.5
"""Seconds that the first token waits for the size. The encoder estimates it if that is not enough."""


@runtime_checkable
class PromptSizeEncoder(Protocol):
    """A stream encoder that needs the size of the prompt."""

    def set_prompt_tokens(self, tokens: int) -> None:
        """Set the tokens of the prompt. Called before the first chunk if possible, and possibly not at all."""
        ...


async def with_prompt_size(
    answer: AsyncGenerator[AnswerEvent], measure: Callable[[], Awaitable[PromptSize]], encoder: PromptSizeEncoder
) -> AsyncGenerator[AnswerEvent]:
    """Yield the answer, and report the size of the prompt to the encoder before the first chunk of the response.

    A keep-alive may be the first event: it has the size if it is known by then.
    """

    async def run() -> None:
        with suppress(ForgeError):  # the request itself will raise it
            encoder.set_prompt_tokens((await measure()).tokens)

    task = asyncio.create_task(run(), name="prompt size")
    try:
        has_begun = False
        async with aclosing(answer) as events:
            async for event in events:
                if not has_begun and isinstance(event, Chunk) and event.progress is None:
                    has_begun = True
                    await asyncio.wait([task], timeout=_MAX_WAIT)
                yield event
    finally:
        task.cancel()
        await asyncio.wait([task])
