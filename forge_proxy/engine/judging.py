"""Judges an attempt: on the event loop, or in a thread if the response is long or its text must match a grammar.

This belongs in `engine` because it decides where the pure verdict is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from forge_proxy.core.guardrails import Retry
from forge_proxy.core.guardrails.attempt import Attempt, FinishedAttempt
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.engine.pacing import LoopTurns, Weight

_IMMEDIATE = 2_000
"""Characters of a response that is judged without waiting for a turn."""
_ON_LOOP = 16_000
"""Characters of a response that is judged on the event loop. Validating and repairing them takes up to 20 ms."""


async def judge_attempt(
    attempt: Attempt, extractions: Sequence[Extraction], turns: LoopTurns
) -> Retry | FinishedAttempt:
    """Return the verdict on a finished attempt. Raises like `Attempt.judge`."""
    size = sum(len(one.text) + sum(len(call.arguments) for call in one.calls) for one in extractions)
    if size > _ON_LOOP or attempt.matches_grammar(extractions):
        return await turns.run_in_thread(partial(attempt.judge, extractions))
    if size > _IMMEDIATE:
        await turns.take(Weight.HEAVY)
    return attempt.judge(extractions)
