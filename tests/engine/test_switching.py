"""An exchange of the model server behind admission: running requests end, new ones wait, and all continue then."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendUnreachable
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.models import Models
from tests.engine.test_admission import URL, World, world


def switching(w: World) -> BackendSwitcher:
    return BackendSwitcher(w.admission, Models(w.backend, w.clock).forget)


async def test_running_requests_finish_and_new_ones_wait_until_the_switch_is_done() -> None:
    w = world(slots=2)
    await w.comes("a")
    went: list[str] = []

    async def exchange() -> str:
        went.append("exchanged while inside: " + ", ".join(w.inside))
        return "done"

    switch = asyncio.create_task(switching(w).switch(exchange, drain_seconds=60))
    await w.settled()
    await w.comes("b", "c", "d")
    before = list(w.inside), list(went)
    w.leaves("a")
    said = await switch
    await w.settled()

    assert before == (["a"], [])
    assert went == ["exchanged while inside: "]
    assert said == "done"
    assert w.inside == ["b", "c"]


async def test_a_request_that_does_not_finish_delays_a_switch_until_the_deadline_only() -> None:
    w = world(slots=2)
    await w.comes("a")

    async def exchange() -> list[str]:
        return list(w.inside)

    assert await switching(w).switch(exchange, drain_seconds=0) == ["a"]


async def test_after_a_failed_or_cancelled_switch_no_request_waits() -> None:
    w = world(slots=1)

    async def fails() -> None:
        await w.comes("a")
        raise BackendBroke(URL, "it does not start")

    async def takes_for_ever() -> None:
        await w.comes("b")
        await asyncio.Event().wait()

    with pytest.raises(BackendBroke):
        await switching(w).switch(fails, drain_seconds=0)
    await w.settled()
    inside = list(w.inside)
    w.leaves("a")
    given_up = asyncio.create_task(switching(w).switch(takes_for_ever, drain_seconds=0))
    await w.settled()
    given_up.cancel()
    await w.settled()

    assert inside == ["a"]
    assert w.inside == ["b"]


async def test_after_a_switch_the_slots_of_the_new_server_apply() -> None:
    w = world(1, 3)
    await w.comes("a")
    w.leaves("a")

    async def exchange() -> None:
        await w.comes("b", "c", "d", "e")

    await switching(w).switch(exchange, drain_seconds=0)
    await w.settled()

    assert w.inside == ["b", "c", "d"]


async def test_slots_that_cannot_be_had_then_are_those_of_before() -> None:
    w = world(2, BackendUnreachable(URL, "connection refused"))
    await w.comes("a")
    w.leaves("a")

    async def exchange() -> None:
        await w.comes("b", "c", "d")

    await switching(w).switch(exchange, drain_seconds=0)
    await w.settled()

    assert w.inside == ["b", "c"]


async def test_two_exchanges_are_made_one_after_the_other() -> None:
    w = world(slots=1)
    door = switching(w)
    first_may_end = asyncio.Event()
    made: list[str] = []

    async def first() -> None:
        made.append("first begins")
        await first_may_end.wait()
        made.append("first ends")

    async def second() -> None:
        made.append("second")

    tasks = [asyncio.create_task(door.switch(one, drain_seconds=0)) for one in (first, second)]
    await w.settled()
    first_may_end.set()
    await asyncio.gather(*tasks)

    assert made == ["first begins", "first ends", "second"]


async def test_a_request_cancelled_during_a_switch_is_skipped() -> None:
    w = world(slots=1)

    async def exchange() -> None:
        await w.comes("a", "b")
        w.tasks["a"].cancel()
        await w.settled()

    await switching(w).switch(exchange, drain_seconds=0)
    await w.settled()

    assert w.inside == ["b"]
