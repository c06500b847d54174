"""Sends one call several times at the same time and passes on the response on which most of them agree.

Only on slots that are free: a draft loses its slot as soon as another request would have to wait for it. Called by
`attempts.py` for first attempts if `guardrails.drafts` is above 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Intervention, Outcome, Turn
from forge_proxy.core.guardrails.attempt import Attempt
from forge_proxy.core.guardrails.drafts import Choice, Vote, choose, vote
from forge_proxy.core.guardrails.split_chunk import split_chunk
from forge_proxy.core.jsontypes import JsonObject, is_integer
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.admission import SpareSlot
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.engine.exchange import BackendExchange, BackendSession, CallResent, ExchangeEvent
from forge_proxy.engine.pacing import Pace
from forge_proxy.engine.parse_replies import parse_replies


class _Draft:
    """One of the responses, collected before any part of it is passed on."""

    def __init__(self, session: BackendSession, call: ModelCall, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self.exchange = BackendExchange(session, call)
        self.chunks: list[Chunk] = []
        self.compactions: list[ContextCompacted] = []
        self.is_complete = False
        self.vote: Vote | None = None
        self.error: ForgeError | None = None

    async def run(self, may_resend: Callable[[BackendFault], bool]) -> None:
        """Receive the response and vote. An error is kept: another draft may be delivered."""
        try:
            attempt = await self._receive(may_resend)
            deps = self._session.deps
            extractions = await parse_replies(self._turn, attempt.replies(), deps.thorough, deps.turns)
            self.vote = vote(self._turn, attempt.replies()[0], extractions[0], attempt.loops)
            self.is_complete = True
        except ForgeError as error:
            self.error = error

    async def _receive(self, may_resend: Callable[[BackendFault], bool]) -> Attempt:
        pace = Pace(self._session.deps.turns)
        attempt = Attempt(self._turn, 1)
        async with aclosing(self.exchange.events(may_resend)) as events:
            async for event in events:
                if isinstance(event, ContextCompacted):
                    self.compactions.append(event)
                elif isinstance(event, CallResent):
                    attempt, self.chunks = Attempt(self._turn, 1), []
                elif event.progress is None:
                    self.chunks.append(event)
                    for piece in split_chunk(event):
                        await pace.begin_step()
                        attempt.take(piece)
                        pace.end_step()
                    if attempt.is_over:
                        break
        return attempt


class DraftedExchange(BackendExchange):
    """A `BackendExchange` whose response is the choice of the majority. The first draft has the request's own slot."""

    def __init__(self, session: BackendSession, call: ModelCall, turn: Turn, spares: Sequence[SpareSlot]) -> None:
        super().__init__(session, call)
        self._turn = turn
        self._spares = spares
        self._drafts: list[_Draft] = []
        self._choice: Choice | None = None

    async def events(self, may_resend: Callable[[BackendFault], bool]) -> AsyncGenerator[ExchangeEvent]:
        """See `BackendExchange`. Nothing is yielded before the choice is certain."""
        chosen = await self._run(may_resend)
        self.call, self.usage = chosen.exchange.call, chosen.exchange.usage
        spent = [draft.exchange.usage for draft in self._drafts if draft is not chosen]
        self.discarded = tuple(usage for usage in spent if usage is not None)
        complete = sum(draft.is_complete for draft in self._drafts)
        if self._choice is not None and complete > 1:
            detail = f"{self._choice.votes} of {complete} drafts agree"
            self.interventions = (Intervention(Outcome.CLEAN, "", detail),)
        for compaction in chosen.compactions:
            yield compaction
        if chosen.error is not None:
            raise chosen.error
        for chunk in chosen.chunks:
            yield chunk

    async def _run(self, may_resend: Callable[[BackendFault], bool]) -> _Draft:
        """Run the drafts until the choice is certain, and return the chosen one."""
        sessions = [BackendSession(self._deps, spare, self._session.recorder) for spare in self._spares]
        calls = [_with_seed(self.call, number) for number in range(1, len(sessions) + 1)]
        first = _Draft(self._session, self.call, self._turn)
        self._drafts = [first, *(_Draft(one, call, self._turn) for one, call in zip(sessions, calls, strict=True))]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(first.run(may_resend))]
                tasks += [group.create_task(draft.run(lambda _: False)) for draft in self._drafts[1:]]
                for spare, task in zip(self._spares, tasks[1:], strict=True):
                    spare.on_revoke(task.cancel)
                await self._decide(tasks)
        finally:
            for session, spare in zip(sessions, self._spares, strict=True):
                session.memory.release()
                spare.leave()
        if self._choice is not None:
            return self._drafts[self._choice.index]
        return next((draft for draft in self._drafts if draft.is_complete), first)

    async def _decide(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait until the choice is certain, then cancel the other drafts."""
        running = set(tasks)
        while running and self._choice is None:
            _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self._choice = choose([draft.vote for draft in self._drafts], len(running))
        for task in running:
            task.cancel()


def _with_seed(call: ModelCall, number: int) -> ModelCall:
    """Return the call of a further draft: with the same seed its response would be the same."""
    body: JsonObject = call.request.body
    seed = body.get("seed")
    if not is_integer(seed) or seed < 0:
        return call
    return replace(call, request=replace(call.request, body={**body, "seed": seed + number}))
