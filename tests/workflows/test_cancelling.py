"""Waiting that may end early."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.workflows.cancellation import Cancelled, take


@pytest.mark.parametrize("moments", range(10))
async def test_a_lock_is_not_kept_by_who_is_cancelled_just_when_it_is_had(moments: int) -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    taking = asyncio.create_task(take(lock, asyncio.Event()))
    await asyncio.sleep(0.01)

    lock.release()
    for _ in range(moments):
        await asyncio.sleep(0)
    taking.cancel()

    await asyncio.wait({taking})
    assert lock.locked() is not taking.cancelled()


@pytest.mark.parametrize("moments", range(10))
async def test_a_lock_is_not_kept_by_who_gives_up_just_when_it_is_had(moments: int) -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    taking = asyncio.create_task(take(lock, event))
    await asyncio.sleep(0.01)

    lock.release()
    for _ in range(moments):
        await asyncio.sleep(0)
    event.set()

    await asyncio.wait({taking})
    assert lock.locked() is (taking.exception() is None)


async def test_who_is_cancelled_while_it_waits_leaves_the_lock_to_others() -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    taking = asyncio.create_task(take(lock, event))
    await asyncio.sleep(0.01)

    taking.cancel()
    await asyncio.wait({taking})
    assert lock.locked()
    lock.release()
    await take(lock, event)

    assert lock.locked()


async def test_an_event_that_is_set_keeps_the_lock_free() -> None:
    lock, event = asyncio.Lock(), asyncio.Event()
    event.set()

    with pytest.raises(Cancelled):
        await take(lock, event)

    assert not lock.locked()
