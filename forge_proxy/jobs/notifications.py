"""Notifies the clients of jobs: what is stored with a change of a job is sent until it has arrived or was given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import orjson

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import NOTIFIED, JobHead, Notification, StoredJob
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ports import JobStore, NotificationSender
from forge_proxy.jobs.retries import retry_until_store_returns

_AT_A_TIME = 8


class JobNotifications:
    """Sends the notifications of a daemon's jobs. A job never waits for one."""

    def __init__(self, sender: NotificationSender, tasks: BackgroundTasks) -> None:
        self._sender = sender
        self._tasks = tasks
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._sending: set[tuple[str, int]] = set()
        self._store: JobStore | None = None

    async def open(self, store: JobStore) -> Callable[[], None]:
        """Return a function that sends what an earlier daemon has not sent."""
        unsent = await store.list_notifications()
        self._store = store

        def send() -> None:
            for notification in unsent:
                self._start(notification)

        return send

    def on_change(self, before: StoredJob, after: StoredJob) -> None:
        """Send the notification that was stored with a change."""
        if after.notify_url is not None and after.status in NOTIFIED:
            self._tasks.spawn(self._read_and_start())

    async def _read_and_start(self) -> None:
        async for attempt in retry_until_store_returns():
            with attempt:
                for notification in await self._current_store.list_notifications():
                    self._start(notification)

    def _start(self, notification: Notification) -> None:
        place = (notification.job_id, notification.event)
        if place not in self._sending:
            self._sending.add(place)
            self._tasks.spawn(self._send(notification)).add_done_callback(lambda _: self._sending.discard(place))

    async def _send(self, notification: Notification) -> None:
        async with self._slots:
            if (head := await self._head(notification.job_id)) is None:
                return
            await self._sender.send(notification.url, _body(head, notification), _key(notification))
            async for attempt in retry_until_store_returns():
                with attempt:
                    await self._current_store.delete_notification(notification)

    async def _head(self, job_id: str) -> JobHead | None:
        async for attempt in retry_until_store_returns():
            with attempt, suppress(JobNotFound):  # deleted before it was sent
                return await self._current_store.head(job_id)
        return None

    @property
    def _current_store(self) -> JobStore:
        assert self._store is not None  # noqa: S101 - a job changes after its store was opened
        return self._store


def _key(notification: Notification) -> str:
    return f"{notification.job_id}:{notification.event}"


def _body(head: JobHead, notification: Notification) -> bytes:
    """Return the body: no content of the job, which its client requests with its own key."""
    job = {"id": head.id, "kind": head.kind, "status": head.status, "title": head.title}
    return orjson.dumps({"type": "job.status", "key": _key(notification), "event": notification.event, "job": job})
