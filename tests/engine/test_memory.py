"""The memory budget: reservations beyond it wait in order, small ones never behind large ones."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.engine.memory import MEGABYTE, SMALL, MemoryBudget, MemoryFull, TooLargeForMemory, memory_limit


async def waiting(memory: MemoryBudget, size: int) -> asyncio.Task[None]:
    """A task that waits for that reservation."""
    task = asyncio.create_task(memory.reserve(size))
    await asyncio.sleep(0)
    return task


async def test_a_reservation_without_room_waits_for_a_release() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(60 * MEGABYTE)
    second = await waiting(memory, 60 * MEGABYTE)

    assert not second.done()
    memory.release(60 * MEGABYTE)
    await second
    assert memory.used == 60 * MEGABYTE


async def test_large_reservations_are_granted_in_order() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    larger, smaller = await waiting(memory, 60 * MEGABYTE), await waiting(memory, 5 * MEGABYTE)

    assert not smaller.done()  # there is room for it, but the other came first
    memory.release(70 * MEGABYTE)
    await asyncio.gather(larger, smaller)


async def test_a_small_one_does_not_wait_behind_large_ones() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(75 * MEGABYTE)
    large = await waiting(memory, 60 * MEGABYTE)

    await memory.reserve(SMALL)
    assert not large.done()
    large.cancel()


async def test_large_ones_leave_a_quarter_to_small_ones() -> None:
    memory = MemoryBudget(100 * MEGABYTE)

    with pytest.raises(TooLargeForMemory, match=r"server\.memory_mb"):
        await memory.reserve(76 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    assert not memory.take(10 * MEGABYTE)
    assert memory.take(SMALL)


async def test_an_ordinary_request_waits_behind_no_response() -> None:
    memory = MemoryBudget(16 * MEGABYTE)
    await memory.reserve(12 * MEGABYTE)
    growing = asyncio.create_task(memory.grow(3 * MEGABYTE, 3 * MEGABYTE, 30))
    new = await waiting(memory, SMALL)

    assert memory.take(MEGABYTE)
    assert not growing.done()
    assert not new.done()
    growing.cancel()
    new.cancel()


async def test_small_reservations_leave_an_eighth_to_ordinary_requests() -> None:
    memory = MemoryBudget(80 * MEGABYTE)
    for _ in range(17):
        assert memory.take(SMALL)

    assert not memory.take(SMALL)
    assert memory.take(MEGABYTE)


async def test_a_reservation_that_times_out_raises_and_reserves_nothing() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    behind = await waiting(memory, 30 * MEGABYTE)

    with pytest.raises(MemoryFull, match=r"100 MB of server\.memory_mb"):
        await memory.reserve(50 * MEGABYTE, seconds=0)
    behind.cancel()
    await asyncio.gather(behind, return_exceptions=True)
    memory.release(70 * MEGABYTE)
    assert memory.used == 0
    assert memory.take(75 * MEGABYTE)


async def test_a_reservation_cancelled_when_it_is_granted_is_returned() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    second = await waiting(memory, 70 * MEGABYTE)
    memory.release(70 * MEGABYTE)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)

    assert memory.used == 0


async def test_a_reservation_is_extended_immediately_or_not_at_all() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(60 * MEGABYTE)
    behind = await waiting(memory, 60 * MEGABYTE)

    assert memory.extend(30 * MEGABYTE)
    assert not memory.extend(30 * MEGABYTE)
    behind.cancel()


@pytest.mark.parametrize(
    ("setting", "machine", "megabytes"),
    [(100, 64_000, 100), (None, 4_000, 1_000), (None, 64_000, 2_048), (None, None, 2_048)],
)
def test_the_budget_is_the_setting_else_a_quarter_of_the_machine(
    setting: int | None, machine: int | None, megabytes: int
) -> None:
    assert memory_limit(setting, machine) == megabytes * MEGABYTE
