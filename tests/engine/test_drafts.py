"""Several responses to one request at the same time, on free slots only; the majority's is delivered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.core.backend_errors import BackendBroke, BackendFault, BackendUnreachable
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.drafts import Vote, choose
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.health import Health
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK
from tests.fakes.scripted import StillClock

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass
class Drafting:
    """A backend that sends these responses in order, each once it may: a city, None for text, or a fault."""

    says: Sequence[str | BackendFault | None]
    held: set[int] = field(default_factory=set[int])
    """The responses that are held back until the test releases them."""
    asked: list[ModelCall] = field(default_factory=list[ModelCall])
    stopped: list[int] = field(default_factory=list[int])
    """The responses that were stopped before their end."""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = "http://drafts"

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        number = len(self.asked)
        self.asked.append(call)
        if len(self.asked) == 3:
            self.begun.set()
        said = self.says[number]
        try:
            if number in self.held:
                await self.let_go.wait()
            if isinstance(said, BackendFault):
                raise said
            arguments = json.dumps({"city": said, "days": 3})
            delta = Delta(text="Hm.") if said is None else Delta(calls=(CallDelta(0, "c", "get_weather", arguments),))
            yield Chunk((delta,))
            yield Chunk((Delta(finish="stop"),), usage=USAGE)
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped.append(number)
            raise

    async def slots(self) -> int | None:
        return None

    async def models(self) -> Sequence[ModelCard]:
        return (ModelCard("m"),)

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


def engine_for(backend: Drafting, slots: int | None = 3, **policy: Any) -> Engine:
    admission = Admission(backend, StillClock(), lambda _: None, slots=slots)
    policy = {"drafts": 3, "text_responses": "accept", **policy}
    return Engine(
        EngineConfig(
            backend, StillClock(), lambda _: None, admission=admission, guardrails=GuardPolicy.model_validate(policy)
        )
    )


async def ask(engine: Engine, **fields: Any) -> tuple[str | None, Report]:
    """The city of the call that is delivered, or None; and the report."""
    request = decode_request({**ASK, "stream": True, **fields})
    arguments, report = "", None
    async with aclosing(engine.answer(request, engine.policies.guardrails, request_id="r")) as events:
        async for event in events:
            if isinstance(event, Report):
                report = event
            elif isinstance(event, Chunk):
                arguments += "".join(call.arguments or "" for delta in event.deltas for call in delta.calls)
    assert report is not None
    return (json.loads(arguments)["city"] if arguments else None), report


def details(report: Report) -> list[str]:
    return [one.detail for one in report.interventions]


@pytest.mark.parametrize(
    ("says", "delivered", "agree"),
    [
        (["Oslo", "Paris", "Paris"], "Paris", "2 of 3 drafts agree"),
        (["Oslo", "Paris", "Rome"], "Oslo", "1 of 3 drafts agree"),
        (["Oslo", None, None], None, "2 of 3 drafts agree"),
        ([None, "Paris", "Paris"], "Paris", "2 of 3 drafts agree"),
    ],
)
async def test_the_majority_is_delivered_and_the_first_draft_on_a_tie(
    says: list[str | None], delivered: str | None, agree: str
) -> None:
    engine = engine_for(backend := Drafting(says))

    city, report = await ask(engine)

    assert (city, len(backend.asked)) == (delivered, 3)
    assert details(report) == [agree]
    assert report.tokens == 45
    assert engine.queue.running == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_receives_one_response_with_the_usage_of_all_drafts(stream: bool) -> None:
    engine = engine_for(backend := Drafting(["Oslo", "Paris", "Paris"]))
    app = create_app(engine, backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        response = await client.post("/v1/chat/completions", json={**ASK, "stream": stream})

    assert ("Paris" in response.text, "Oslo" in response.text) == (True, False)
    reported = response.text if stream else str(response.headers)
    assert "2 of 3 drafts agree" in reported
    assert ("x-forge-tokens-spent=45" if stream else "'x-forge-tokens-spent': '45'") in reported
    assert stream or response.json()["usage"] == USAGE


async def test_a_certain_majority_stops_the_other_drafts() -> None:
    backend = Drafting(["Oslo", "Paris", "Paris"], held={0})

    city, report = await ask(engine_for(backend))

    assert (city, backend.stopped) == ("Paris", [0])
    assert (details(report), report.tokens) == (["2 of 2 drafts agree"], 30)


@pytest.mark.parametrize("slots", [1, None], ids=["one slot", "unknown slots"])
async def test_without_a_free_slot_there_is_one_response(slots: int | None) -> None:
    backend = Drafting(["Oslo"])

    city, report = await ask(engine_for(backend, slots=slots))

    assert (city, len(backend.asked), details(report)) == ("Oslo", 1, [])


async def test_as_many_drafts_are_made_as_slots_are_free() -> None:
    backend = Drafting(["Oslo", "Paris"])

    await ask(engine_for(backend, slots=2))

    assert len(backend.asked) == 2


async def test_a_draft_gives_its_slot_to_a_request_that_would_have_to_wait() -> None:
    backend = Drafting(["Oslo", "Paris", "Paris", "Rome"], held={0, 1, 2})
    engine = engine_for(backend)

    first = asyncio.create_task(ask(engine))
    await backend.begun.wait()
    city, _ = await ask(engine, temperature=0)
    backend.let_go.set()
    delivered, report = await first

    assert (city, delivered) == ("Rome", "Oslo")
    assert sorted(backend.stopped) == [1, 2]
    assert details(report) == []
    assert engine.queue.running == 0


async def test_drafts_never_hold_up_a_change_of_the_model() -> None:
    backend = Drafting(["Oslo", "Paris", "Paris"], held={0, 1, 2})
    admission = Admission(backend, StillClock(), lambda _: None, slots=3)
    policy = GuardPolicy(drafts=3)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, admission=admission, guardrails=policy))

    first = asyncio.create_task(ask(engine))
    await backend.begun.wait()
    async with admission.pause():
        assert engine.queue.running == 1
    backend.let_go.set()

    assert (await first)[0] == "Oslo"


async def test_a_client_that_leaves_stops_every_draft() -> None:
    backend = Drafting(["Oslo", "Paris", "Rome"], held={0, 1, 2})
    engine = engine_for(backend)

    waiting = asyncio.create_task(ask(engine))
    await backend.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert sorted(backend.stopped) == [0, 1, 2]
    assert engine.queue.running == 0


async def test_a_draft_that_fails_has_no_vote() -> None:
    broken = BackendBroke("http://drafts", "it broke")

    city, report = await ask(engine_for(Drafting(["Oslo", broken, broken])))

    assert (city, details(report)) == ("Oslo", [])


async def test_if_all_drafts_fail_the_error_is_that_of_the_first() -> None:
    engine = engine_for(Drafting([BackendUnreachable("http://drafts", f"refused {number}") for number in range(3)]))

    with pytest.raises(BackendUnreachable, match="refused 0"):
        await ask(engine)
    assert engine.queue.running == 0


async def test_drafts_that_are_all_invalid_are_retried_once_more_as_usual() -> None:
    backend = Drafting([None, None, None, "Oslo"])

    city, report = await ask(engine_for(backend, text_responses="nudge"))

    assert (city, report.attempts, len(backend.asked)) == ("Oslo", 2, 4)


async def test_a_seed_differs_from_draft_to_draft() -> None:
    backend = Drafting(["Oslo", "Paris", "Rome"])

    await ask(engine_for(backend), seed=7)

    assert [call.request.body["seed"] for call in backend.asked] == [7, 8, 9]


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"tools": []}, {"tool_choice": "none"}], ids=str)
async def test_where_drafts_cannot_differ_or_no_call_is_possible_there_are_none(fields: dict[str, Any]) -> None:
    backend = Drafting([None])

    await ask(engine_for(backend), **fields)

    assert len(backend.asked) == 1


PARIS: Vote = (("get_weather", {"city": "Paris", "days": 3}),)
SAME: Vote = (("get_weather", {"days": 3.0, "city": "Paris"}),)
OSLO: Vote = (("get_weather", {"city": "Oslo", "days": 3}),)


@pytest.mark.parametrize(
    ("votes", "running", "index"),
    [
        ([PARIS, SAME, OSLO], 0, 0),
        ([OSLO, PARIS, SAME], 0, 1),
        ([OSLO, PARIS], 0, 0),
        ([None, PARIS, OSLO], 0, 1),
        ([None, None], 0, None),
        ([None, PARIS, SAME], 1, 1),
        ([PARIS, None, None], 2, None),
        ([PARIS, SAME, OSLO, None, None], 2, None),
        ([PARIS, SAME, SAME, None, None], 2, 0),
        ([(), PARIS, ()], 0, 0),
    ],
)
def test_a_choice_is_certain_only_if_the_running_drafts_cannot_change_it(
    votes: list[Vote | None], running: int, index: int | None
) -> None:
    choice = choose(votes, running)

    assert (choice.index if choice else None) == index
