"""An exchange behind the door: who runs may end, who comes waits, and all go on, whatever becomes of it."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.errors import BackendBroke, BackendUnreachable
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.models import Models
from tests.engine.test_admission import URL, World, world


def switching(w: World) -> BackendSwitcher:
    return BackendSwitcher(w.admission, Models(w.backend, w.clock).forget)


async def test_who_runs_may_end_who_comes_waits_and_goes_on_when_it_is_done() -> None:
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


async def test_one_who_does_not_end_holds_it_up_no_longer_than_the_deadline() -> None:
    w = world(slots=2)
    await w.comes("a")

    async def exchange() -> list[str]:
        return list(w.inside)

    assert await switching(w).switch(exchange, drain_seconds=0) == ["a"]


async def test_an_exchange_that_fails_or_is_given_up_leaves_nobody_waiting() -> None:
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


async def test_the_slots_of_what_comes_after_it_count() -> None:
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


async def test_who_leaves_while_it_is_exchanged_is_passed_over() -> None:
    w = world(slots=1)

    async def exchange() -> None:
        await w.comes("a", "b")
        w.tasks["a"].cancel()
        await w.settled()

    await switching(w).switch(exchange, drain_seconds=0)
    await w.settled()

    assert w.inside == ["b"]
