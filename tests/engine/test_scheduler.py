"""Switching models while requests arrive and finish: with the real admission, and a server that loads on command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from forge_proxy.core.backend_errors import BackendDown, ModelNotLoaded
from forge_proxy.core.errors import Overloaded
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.engine.admission import Admission, Slot
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.events import Event, ModelFailed, ModelSwapped
from forge_proxy.engine.scheduler import Scheduler
from tests.engine.test_admission import Has, SetClock

SWAP_AFTER = 30.0


@dataclass
class World:
    """An admission queue for models, its running requests as `client:model`, and a server that records its loads."""

    admission: Admission
    switching: BackendSwitcher
    clock: SetClock
    heard: list[Event] = field(default_factory=list[Event])
    inside: list[str] = field(default_factory=list[str])
    tasks: dict[str, asyncio.Task[Slot]] = field(default_factory=dict[str, "asyncio.Task[Slot]"])
    loads: list[str] = field(default_factory=list[str])
    broken: set[str] = field(default_factory=set[str])
    may_load: asyncio.Event = field(default_factory=asyncio.Event)

    async def load(self, model: str) -> None:
        """Exchange models one at a time, without running requests; a failure restores the former one."""
        assert self.inside == []
        self.loads.append(model)
        await self.may_load.wait()
        if model in self.broken:
            raise BackendDown("server", "out of memory")
        self.admission.set_loaded(model)

    async def comes(self, *names: str) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._enters(name))
        await self.settled()

    async def _enters(self, name: str) -> Slot:
        client, _, model = name.partition(":")
        slot = await self.admission.slot(client, model).__aenter__()
        self.inside.append(name)
        return slot

    async def leaves(self, *names: str) -> None:
        for name in names:
            self.inside.remove(name)
            self.tasks[name].result().leave()
        await self.settled()

    async def settled(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)


@asynccontextmanager
async def world(slots: int = 1, limit: int = 100) -> AsyncGenerator[World]:
    """Yield a world in which `a` is loaded and loads take no time."""
    clock, heard = SetClock(), list[Event]()
    backend = Has([slots])
    backend.may.set()
    admission = Admission(backend, clock, heard.append, limit=limit, schedule=ModelSchedule(SWAP_AFTER, "a"))
    forget: Callable[[], None] = lambda: None  # noqa: E731
    w = World(admission, BackendSwitcher(admission, forget), clock, heard)
    w.may_load.set()
    running = asyncio.create_task(Scheduler(admission, w.switching, w.load, clock, heard.append).run())
    yield w
    running.cancel()
    for task in w.tasks.values():
        task.cancel()
    await asyncio.gather(running, *w.tasks.values(), return_exceptions=True)


async def test_a_request_for_another_model_waits_for_the_answers_and_then_for_its_model() -> None:
    async with world(slots=2) as w:
        await w.comes("x:a", "y:a", "z:b")
        before = list(w.loads)
        await w.leaves("x:a")
        still = list(w.loads)
        await w.leaves("y:a")

        assert (before, still, w.loads) == ([], [], ["b"])
        assert w.inside == ["z:b"]
        assert [event for event in w.heard if isinstance(event, ModelSwapped)] == [ModelSwapped("b", "a", 0.0)]


async def test_the_loaded_model_has_precedence_until_the_configured_time_is_over() -> None:
    async with world() as w:
        await w.comes("x:a", "y:b", "x2:a")
        await w.leaves("x:a")
        first = list(w.inside)
        w.clock.time += SWAP_AFTER
        await w.comes("x3:a")
        await w.leaves("x2:a")

        assert first == ["x2:a"]
        assert w.inside == ["y:b"]

        await w.leaves("y:b")

        assert w.inside == ["x3:a"]
        assert w.loads == ["b", "a"]


async def test_a_model_that_fails_to_load_fails_its_own_requests_and_is_not_retried_for_a_while() -> None:
    async with world() as w:
        w.broken.add("b")
        await w.comes("x:a", "y:b", "z:b", "x2:a")
        w.clock.time += SWAP_AFTER
        await w.leaves("x:a")
        faults = [w.tasks[name].exception() for name in ("y:b", "z:b")]

        assert [(str(fault), type(fault)) for fault in faults] == [
            ("the model 'b' could not be loaded: out of memory; loading is retried in 5 s", ModelNotLoaded)
        ] * 2
        assert w.inside == ["x2:a"]
        assert w.heard[-1] == ModelFailed("b", "out of memory", 5.0)

        await w.leaves("x2:a")
        await w.comes("late:b")
        refused = w.tasks["late:b"].exception()
        w.clock.time += 5
        w.broken.clear()
        await w.comes("later:b")

        assert isinstance(refused, ModelNotLoaded)
        assert w.loads == ["b", "b"]
        assert w.inside == ["later:b"]


async def test_requests_cancelled_while_a_model_loads_are_skipped() -> None:
    async with world() as w:
        w.may_load.clear()
        await w.comes("x:a", "y:b", "z:b")
        w.tasks["y:b"].cancel()
        await w.leaves("x:a")
        loading = list(w.loads)
        w.tasks["z:b"].cancel()
        await w.comes("x2:a")
        w.may_load.set()
        await w.settled()

        assert loading == ["b"]
        assert w.inside == ["x2:a"]
        assert w.loads == ["b", "a"]
        assert w.admission.queue.waiting == 0


async def test_no_model_is_loaded_for_cancelled_requests() -> None:
    async with world() as w:
        await w.comes("x:a", "y:b")
        w.tasks["y:b"].cancel()
        await w.settled()
        await w.leaves("x:a")

        assert w.loads == []


async def test_a_concurrent_switch_goes_first_and_may_have_loaded_the_model_already() -> None:
    async with world() as w:
        may_end = asyncio.Event()

        async def exchange() -> None:
            await may_end.wait()
            w.admission.set_loaded("b")

        other = asyncio.create_task(w.switching.switch(exchange, drain_seconds=0))
        await w.comes("y:b")
        may_end.set()
        await other
        await w.settled()

        assert w.loads == []
        assert w.inside == ["y:b"]


async def test_the_line_is_bounded_for_all_models_together() -> None:
    async with world(limit=1) as w:
        await w.comes("x:a", "y:b", "y:c")

        with pytest.raises(Overloaded):
            w.tasks["y:c"].result()


async def test_all_of_a_crowd_are_let_in_whatever_they_ask_for() -> None:
    async with world(slots=2) as w:
        names = [f"{number}:{'abc'[number % 3]}" for number in range(30)]
        await w.comes(*names)
        let_in = 0
        while w.inside:
            assert len({name.partition(":")[2] for name in w.inside}) == 1
            let_in += len(w.inside)
            w.clock.time += 11
            await w.leaves(*w.inside)

        assert let_in == len(names)
        assert len(w.loads) < 12


async def test_background_requests_change_the_model_only_if_no_interactive_client_uses_it() -> None:
    async with world() as w:
        w.clock.time += 100
        await w.comes("i:a")
        background = asyncio.create_task(w.admission.slot("x", "b", "background").__aenter__())
        await w.settled()
        await w.leaves("i:a")
        during = list(w.loads)
        w.clock.time += 5
        w.admission.set_loaded("a")  # as any event
        await w.settled()

        await background
        assert (during, w.loads) == ([], ["b"])


async def test_a_background_request_for_a_model_that_cannot_be_loaded_fails() -> None:
    async with world() as w:
        w.broken.add("b")
        with pytest.raises(ModelNotLoaded):
            await w.admission.slot("x", "b", "background").__aenter__()
