"""The exchange of one call for its response: lost responses are requested again, within the limits of the request."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendFault, BackendTimeout, ContextOverflow
from forge_proxy.core.chat import ChatRequest, ModelCall, ModelCard, ResolvedModel, ToolSpec
from forge_proxy.core.dialect import AS_SENT
from forge_proxy.core.guardrails import GuardPolicy, open_turn
from forge_proxy.core.guardrails.learned_policy import LearnedPolicy
from forge_proxy.core.health import Health
from forge_proxy.core.stream import CallDelta, Chunk, Delta, PromptProgress
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.attempts import AttemptRunner
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import Event, LostResponseRetried
from forge_proxy.engine.exchange import BackendExchange, BackendSession, CallResent, EngineDeps, ExchangeEvent
from forge_proxy.engine.request_recorder import RequestRecorder
from tests.fakes.scripted import StillClock

URL = "http://model"
LOOK = ToolSpec("look", {"type": "object"})
TEXT = Chunk((Delta(0, "Hi."),))
LOST = BackendBroke(URL, "connection reset")


class Script:
    """A `Backend` whose responses are lists of chunks, each of which may end in an error."""

    url = URL

    def __init__(self, *responses: Sequence[Chunk | BackendFault]) -> None:
        self._responses = iter(responses)

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        for item in next(self._responses):
            if isinstance(item, BackendFault):
                raise item
            yield item

    async def models(self) -> Sequence[ModelCard]:
        return []

    async def slots(self) -> int | None:
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


def session_with(backend: Script, heard: list[Event] | None = None) -> BackendSession:
    observe = (heard if heard is not None else []).append
    requests = CompatibleBackend(backend, observe, AS_SENT)
    fitting = ContextFitter(Budgets(backend, StillClock(), observe), requests.count_tokens, observe)
    deps = EngineDeps(requests, fitting, LearnedPolicy(), None, observe)
    return BackendSession(
        deps, Admission(backend, StillClock(), observe).slot("client"), RequestRecorder(StillClock(), "r", None)
    )


def exchange_in(session: BackendSession) -> BackendExchange:
    return BackendExchange(session, ModelCall(ChatRequest({"messages": []}), stream=True))


async def events_of(exchange: BackendExchange, *, may_resend: bool = True) -> list[ExchangeEvent]:
    return [event async for event in exchange.events(lambda _: may_resend)]


async def test_a_lost_response_is_requested_again_and_the_restart_is_marked() -> None:
    heard: list[Event] = []
    session = session_with(Script([TEXT, LOST], [TEXT]), heard)

    assert await events_of(exchange_in(session)) == [TEXT, CallResent(), TEXT]
    assert [event for event in heard if isinstance(event, LostResponseRetried)] == [
        LostResponseRetried("r", LOST.summary)
    ]


async def test_the_usage_is_that_of_the_response_that_was_not_lost() -> None:
    counted = Chunk(usage={"prompt_tokens": 7})
    exchange = exchange_in(session_with(Script([counted, LOST], [TEXT])))

    await events_of(exchange)

    assert exchange.usage is None


async def test_a_response_that_the_client_has_begun_to_receive_is_not_requested_again() -> None:
    exchange = exchange_in(session_with(Script([TEXT, LOST], [TEXT])))

    with pytest.raises(BackendBroke):
        await events_of(exchange, may_resend=False)


async def test_all_exchanges_of_a_request_share_two_retries_of_lost_responses() -> None:
    session = session_with(Script([LOST], [TEXT], [LOST], [LOST]))

    first = await events_of(exchange_in(session))
    with pytest.raises(BackendBroke):
        await events_of(exchange_in(session))

    assert first == [CallResent(), TEXT]


@pytest.mark.parametrize(
    "fault",
    [BackendTimeout(URL, 60), ContextOverflow(URL, 400, {"error": "too long"})],
    ids=["timeout", "overflow without compaction"],
)
async def test_other_faults_end_the_exchange(fault: BackendFault) -> None:
    exchange = exchange_in(session_with(Script([fault], [TEXT])))

    with pytest.raises(type(fault)):
        await events_of(exchange)


class Broken(Script):
    """A backend that loses each response."""

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        yield TEXT
        raise BackendBroke(URL, "connection reset")


async def test_a_failed_exchange_is_freed_without_garbage_collection() -> None:
    async def fail() -> weakref.ref[BackendExchange]:
        exchange = exchange_in(session_with(Broken()))
        with suppress(BackendBroke):
            await events_of(exchange)
        return weakref.ref(exchange)

    gc.disable()
    try:
        exchange = await fail()
        assert exchange() is None
    finally:
        gc.enable()


async def test_pending_bytes_are_counted_and_not_yielded() -> None:
    progress = Chunk(progress=PromptProgress(1, 2))
    exchange = exchange_in(session_with(Script([Chunk(pending_bytes=1), progress, TEXT])))

    assert await events_of(exchange) == [progress, TEXT]


@pytest.mark.parametrize(
    "lost", [Delta(0, reasoning="Hm."), Delta(0, "Hi."), Delta(0, calls=(CallDelta(0, "c", "look", "{"),))]
)
async def test_a_restart_is_marked_for_a_workflow_that_has_received_any_part_of_the_lost_response(lost: Delta) -> None:
    session = session_with(Script([Chunk((lost,)), LOST], [LOST], [TEXT]))
    request = ChatRequest({"messages": []}, tools=(LOOK,), stream=True)
    turn = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert turn
    runner = AttemptRunner(session, request, turn, ResolvedModel(None), raw=True)

    chunks = [event async for event in runner.attempt() if isinstance(event, Chunk)]

    assert chunks == [Chunk((lost,)), Chunk(restarts=True), TEXT]
