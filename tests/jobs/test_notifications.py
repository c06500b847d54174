"""The clients of jobs are notified, also after a restart, and no job waits for that."""

from __future__ import annotations

import asyncio
import json

from forge_proxy.core.jobs.actions import Finished, NextAction, Wait
from forge_proxy.jobs.writer import JobWriter
from tests.fakes.job_kind import SECOND, ScriptedKind, continue_job, job_world
from tests.fakes.owned_store import OwnedJobRepository


class Sender:
    """Records what it sends. Without `works` it never ends."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.sent: list[tuple[str, str, str]] = []

    async def send(self, url: str, body: bytes, key: str) -> None:
        read = json.loads(body)
        assert read["key"] == key
        self.sent.append((url, key, read["job"]["status"]))
        if not self.works:
            await asyncio.Event().wait()


async def first(writer: JobWriter) -> NextAction:
    return Wait(None, SECOND, "requires_action")


async def second(writer: JobWriter) -> NextAction:
    return Finished()


KIND = {"first": first, "second": second}


async def all_sent(store: OwnedJobRepository) -> None:
    async with asyncio.timeout(20):
        while await store.list_notifications():  # noqa: ASYNC110 - a deletion sets no event
            await asyncio.sleep(0.001)


async def test_a_client_is_notified_when_its_job_waits_for_it_and_when_it_ends(store: OwnedJobRepository) -> None:
    sender = Sender()
    async with job_world(store, ScriptedKind(KIND), sender=sender) as world:
        await world.submit("job_1", "http://client/hook")
        await world.submit("job_2")
        await world.until("job_1", "requires_action")
        await all_sent(store)
        await continue_job(world.jobs, "job_1")
        ended = await world.until("job_1", "completed")
        await all_sent(store)

    assert sender.sent == [
        ("http://client/hook", "job_1:3", "requires_action"),
        ("http://client/hook", f"job_1:{ended.last_event}", "completed"),
    ]


async def test_a_client_that_does_not_answer_delays_no_job_and_is_notified_after_a_restart(
    store: OwnedJobRepository,
) -> None:
    silent, sender = Sender(works=False), Sender()
    async with job_world(store, ScriptedKind(KIND), sender=silent) as world:
        await world.submit("job_1", "http://client")
        await world.until("job_1", "requires_action")
        await continue_job(world.jobs, "job_1")
        await world.until("job_1", "completed")
    async with job_world(store, ScriptedKind(KIND), sender=sender) as world:
        await world.jobs.resume()
        await all_sent(store)

    keys = sorted(key for _, key, _ in sender.sent)  # they are sent at the same time
    assert keys == ["job_1:3", "job_1:6"]
    assert {key for _, key, _ in silent.sent} <= {*keys}
