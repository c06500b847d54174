"""Waiting for a slot: the order of admission, clients that disconnect, the number of slots, and when to retry."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendFault, BackendTimeout, BackendUnreachable
from forge_proxy.core.background import BackgroundPolicy, DailyHours
from forge_proxy.core.chat import ChatRequest, ModelCall, ModelCard, ToolSpec
from forge_proxy.core.errors import Overloaded
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.health import Health
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.admission import Admission, Slot
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.background_hours import BackgroundHours
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, SlotsDetected
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp

URL = "http://model:8080"
DOWN = BackendUnreachable(URL, "connection refused")


@dataclass
class Has:
    """A backend that reports these numbers of slots one after the other, the last one repeatedly, once `may` is set."""

    said: list[int | BackendFault | None]
    may: asyncio.Event = field(default_factory=asyncio.Event)
    times: int = 0
    url: str = URL

    async def slots(self) -> int | None:
        self.times += 1
        await self.may.wait()
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, BackendFault):
            raise said
        return said

    def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        raise NotImplementedError

    async def models(self) -> Sequence[ModelCard]:
        return ()

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


@dataclass
class SetClock:
    """Shows what it is set to."""

    time: float = 1000.0

    def now(self) -> float:
        return self.time


@dataclass
class World:
    """An admission queue, its clock, its backend, and the requests that run or wait."""

    backend: Has
    admission: Admission
    clock: SetClock
    heard: list[Event]
    inside: list[str] = field(default_factory=list[str])
    tasks: dict[str, asyncio.Task[Slot]] = field(default_factory=dict[str, "asyncio.Task[Slot]"])

    async def comes(self, *names: str) -> None:
        """Send this many requests, each of a different client, and admit those that there are slots for."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._enters(name))
        await self.settled()

    async def _enters(self, name: str) -> Slot:
        slot = await self.admission.slot(name).__aenter__()
        self.inside.append(name)
        return slot

    def leaves(self, name: str) -> None:
        """End a running request."""
        self.inside.remove(name)
        self.tasks[name].result().leave()

    async def settled(self) -> None:
        """Wait until all tasks that can continue have done so."""
        for _ in range(10):
            await asyncio.sleep(0)


def world(*said: int | BackendFault | None, slots: int | None = None, limit: int = 100) -> World:
    heard: list[Event] = []
    clock = SetClock()
    backend = Has(list(said or [None]))
    backend.may.set()
    return World(backend, Admission(backend, clock, heard.append, slots=slots, limit=limit), clock, heard)


async def test_a_released_slot_goes_to_the_next_in_turn() -> None:
    w = world(slots=2)
    await w.comes("a", "b", "c", "d")
    assert w.inside == ["a", "b"]

    w.leaves("a")
    await w.settled()

    assert w.inside == ["b", "c"]


async def test_a_request_cancelled_in_the_queue_is_skipped() -> None:
    w = world(slots=1)
    await w.comes("a", "b", "c")

    w.tasks["b"].cancel()
    await w.settled()
    w.leaves("a")
    await w.settled()

    assert w.tasks["b"].cancelled()
    assert w.inside == ["c"]


@pytest.mark.parametrize("called_first", [True, False], ids=["called, then cancelled", "cancelled, then called"])
async def test_a_slot_given_to_a_request_cancelled_at_that_moment_goes_to_the_next(
    called_first: bool,
) -> None:
    w = world(slots=1)
    await w.comes("a", "b", "c")

    for act in (lambda: w.leaves("a"), w.tasks["b"].cancel)[:: 1 if called_first else -1]:
        act()
    await w.settled()

    assert w.tasks["b"].cancelled()
    assert w.inside == ["c"]
    w.leaves("c")
    await w.comes("d")
    assert w.inside == ["d"]


async def test_an_error_inside_frees_the_slot() -> None:
    w = world(slots=1)

    with pytest.raises(BackendBroke):
        async with w.admission.slot("a"):
            raise BackendBroke(URL, "cut")

    await w.comes("b")
    assert w.inside == ["b"]


async def test_a_slot_released_early_is_not_released_twice() -> None:
    w = world(slots=1)

    async with w.admission.slot("a") as slot:
        await w.comes("b", "c")
        slot.leave()
        await w.settled()

    await w.settled()
    assert w.inside == ["b"]


@pytest.mark.parametrize("seed", range(5))
async def test_in_any_order_of_requests_the_slots_are_respected_and_none_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    w = world(slots=3)
    inside = most = 0

    async def comes_and_goes(client: str, stays: int) -> None:
        nonlocal inside, most
        async with w.admission.slot(client):
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(stays):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [asyncio.create_task(comes_and_goes(chance.choice("abc"), chance.randrange(4))) for _ in range(60)]
    for task in chance.sample(tasks, 40):
        task.cancel()
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
    await asyncio.wait(tasks)

    assert (inside, most) == (0, 3)
    await w.comes("x", "y", "z", "late")
    assert w.inside == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("slots", "took", "seconds"), [(1, None, 10), (4, None, 3), (1, 0.01, 1), (1, 30, 30), (2, 30, 15), (1, 900, 60)]
)
async def test_a_full_queue_estimates_retry_after_from_the_duration_of_requests(
    slots: int, took: float | None, seconds: int
) -> None:
    w = world(slots=slots, limit=0)
    for _ in range(40 if took is not None else 0):
        async with w.admission.slot("a"):
            w.clock.time += took or 0.0
    await w.comes(*"abcd"[:slots])

    with pytest.raises(Overloaded) as refused:
        await w.admission.slot("late").__aenter__()

    assert refused.value.seconds == pytest.approx(seconds, abs=1)


async def test_a_slow_client_does_not_hold_its_slot_once_the_backend_has_finished() -> None:
    backend = OpenAICompatible(URL, ScriptedHttp([Said(text="hi"), Said(calls=(("get_weather", "{}"),))]))
    admission = Admission(backend, SetClock(), lambda _: None, slots=1, limit=0)
    engine = Engine(EngineConfig(backend, SetClock(), lambda _: None, admission=admission))
    plain, guarded = ChatRequest({}, stream=True), ChatRequest({}, tools=(ToolSpec("get_weather"),))

    *said, report = [await is_free(admission) async for _ in engine.answer(plain, GuardPolicy(), request_id="plain")]
    of_calls = [
        await is_free(admission)
        async for event in engine.answer(guarded, GuardPolicy(), request_id="guarded")
        if isinstance(event, Chunk) and any(delta.calls for delta in event.deltas)
    ]

    assert said
    assert (any(said), report) == (False, True)
    assert of_calls
    assert all(of_calls)


async def is_free(admission: Admission) -> bool:
    """Return whether a request would get a slot now without waiting."""
    try:
        async with admission.slot("tries"):
            return True
    except Overloaded:
        return False


async def test_the_time_in_the_queue_is_available_during_and_after_the_wait() -> None:
    w = world(slots=1)
    slot = w.admission.slot("b")
    assert slot.queued == 0
    await w.comes("a")
    waits = asyncio.create_task(slot.__aenter__())
    await w.settled()
    w.clock.time += 3
    assert slot.queued == 3

    w.leaves("a")
    await waits
    w.clock.time += 5

    assert slot.queued == 3


async def test_the_backend_is_asked_for_its_slots_once_and_all_wait_for_its_answer() -> None:
    w = world(2)
    w.backend.may.clear()
    await w.comes("a", "b", "c")
    assert w.inside == []

    w.backend.may.set()
    await w.settled()

    assert sorted(w.inside) == ["a", "b"]
    assert (w.backend.times, w.heard) == (1, [SlotsDetected(2)])


async def test_a_number_in_the_settings_asks_nobody() -> None:
    w = world(5, slots=1)

    await w.comes("a", "b")

    assert (w.inside, w.backend.times) == (["a"], 0)


async def test_a_backend_without_a_number_of_slots_receives_all_requests_at_once() -> None:
    w = world(None)

    await w.comes(*(f"{number}" for number in range(500)))

    assert len(w.inside) == 500
    assert w.heard == [SlotsDetected(None)]


async def test_the_slots_are_queried_again_after_a_while_and_only_one_request_waits_for_that() -> None:
    w = world(1, 3)
    await w.comes("a", "b")
    w.clock.time += 29
    await w.comes("c")
    assert w.backend.times == 1

    w.clock.time += 2
    w.backend.may.clear()
    await w.comes("d", "e")
    w.leaves("a")
    await w.settled()
    assert w.inside == ["b"]
    w.backend.may.set()
    await w.settled()

    assert w.inside == ["b", "c", "e"]
    assert w.heard == [SlotsDetected(1), SlotsDetected(3)]


@pytest.mark.parametrize(
    ("error", "times"), [(DOWN, 2), (BackendBroke(URL, "cut"), 2), (BackendError(URL, 500, "no"), 1), (None, 1)]
)
async def test_the_slots_are_queried_again_after_the_backend_was_unreachable(
    error: BackendFault | None, times: int
) -> None:
    w = world(1, 2)
    await w.comes("a")

    w.inside.remove("a")
    w.tasks["a"].result().leave(error)
    await w.comes("b", "c")

    assert w.backend.times == times
    assert len(w.inside) == times


async def test_if_the_backend_is_down_only_the_querying_request_fails() -> None:
    w = world(DOWN, 1)
    w.backend.may.clear()
    await w.comes("a", "b", "c")

    w.backend.may.set()
    await w.settled()

    assert w.tasks["a"].exception() is DOWN
    assert (w.inside, w.backend.times) == (["b", "c"], 1)
    await w.comes("d")
    assert (w.inside, w.backend.times) == (["b", "c"], 2)


async def test_a_loading_backend_is_queried_by_each_request() -> None:
    w = world(BackendError(URL, 503, "Loading model"), BackendError(URL, 503, "Loading model"), 1)

    await w.comes("a")
    await w.comes("b")
    await w.comes("c")

    assert w.inside == ["a", "b"]
    assert w.heard == [SlotsDetected(1)]


async def test_an_unresponsive_backend_is_not_queried_for_a_while() -> None:
    w = world(2, BackendTimeout(URL, 5), 7)
    await w.comes("a")
    w.clock.time += 31
    await w.comes("b", "c")
    await w.comes("d")

    assert (w.inside, w.backend.times) == (["a", "b"], 2)


async def test_a_request_cancelled_during_the_query_does_not_block_others() -> None:
    w = world(1)
    w.backend.may.clear()
    await w.comes("a", "b")

    w.tasks["a"].cancel()
    await w.settled()

    assert w.inside == ["b"]
    w.backend.may.set()
    await w.comes("c")
    assert w.inside == ["b"]


class LoopClock:
    """The clock of the event loop's timers."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


async def test_a_background_request_starts_when_the_interactive_clients_become_idle() -> None:
    backend = Has([2])
    backend.may.set()
    admission = Admission(backend, LoopClock(), lambda _: None, background=BackgroundPolicy(idle_seconds=0.01))
    async with admission.slot("a"):
        background = asyncio.create_task(admission.slot("x", priority="background").__aenter__())
        await settle()
        waiting = admission.queue.background_waiting

    await background  # no request arrives or ends

    assert waiting == 1


async def test_a_background_request_waits_for_the_hours_and_is_started_by_a_timer() -> None:
    backend, moments = Has([1]), [59.99]
    backend.may.set()
    hours = BackgroundHours(DailyHours(1, 2), lambda: moments[-1], lambda moment: int(moment // 60))
    admission = Admission(backend, SetClock(), lambda _: None, hours=hours)
    background = asyncio.create_task(admission.slot("x", priority="background").__aenter__())
    await settle()
    obstacle = admission.queue.find_obstacle(1000.0)

    moments.append(60.0)
    await background  # no request arrives or ends

    assert obstacle == "hours"


async def test_a_background_request_cancelled_in_the_queue_is_skipped() -> None:
    w = world(slots=1)
    await w.comes("a")
    waiting = [asyncio.create_task(w.admission.slot(name, priority="background").__aenter__()) for name in "xy"]
    await w.settled()

    waiting[0].cancel()
    await w.settled()
    w.leaves("a")
    await w.settled()

    assert waiting[0].cancelled()
    assert waiting[1].done()
    assert w.admission.queue.background_waiting == 0


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
