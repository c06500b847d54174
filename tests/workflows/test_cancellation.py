"""Waiting for a lock that an event or a cancellation ends."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.jobs.cancellation import Cancelled, acquire_cancellable


@pytest.mark.parametrize("moments", range(10))
async def test_a_task_cancelled_as_it_acquires_the_lock_releases_it(moments: int) -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    taking = asyncio.create_task(acquire_cancellable(lock, asyncio.Event()))
    await asyncio.sleep(0.01)

    lock.release()
    for _ in range(moments):
        await asyncio.sleep(0)
    taking.cancel()

    await asyncio.wait({taking})
    assert lock.locked() is not taking.cancelled()


@pytest.mark.parametrize("moments", range(10))
async def test_an_event_set_as_the_lock_is_acquired_releases_it(moments: int) -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    taking = asyncio.create_task(acquire_cancellable(lock, event))
    await asyncio.sleep(0.01)

    lock.release()
    for _ in range(moments):
        await asyncio.sleep(0)
    event.set()

    await asyncio.wait({taking})
    assert lock.locked() is (taking.exception() is None)


async def test_a_task_cancelled_while_waiting_leaves_the_lock_free() -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    taking = asyncio.create_task(acquire_cancellable(lock, event))
    await asyncio.sleep(0.01)

    taking.cancel()
    await asyncio.wait({taking})
    assert lock.locked()
    lock.release()
    await acquire_cancellable(lock, event)

    assert lock.locked()


async def test_an_event_set_before_leaves_the_lock_free() -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    event.set()

    with pytest.raises(Cancelled):
        await acquire_cancellable(lock, event)

    assert not lock.locked()
