"""The responses that a daemon answers in the background: submit, read, follow, cancel, delete."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress

from forge_proxy.api.background.events import build_page, read_pages
from forge_proxy.api.background.handler import RESPONSE
from forge_proxy.api.background.request import BackgroundRequest, read_job_response
from forge_proxy.api.response_storage import DAY, MAX_STORED, ResponseStorage
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.stored_responses import ResponseNotFound
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.service import Jobs
from forge_proxy.wire.clients.responses.response_object import encode_state_event

_ID = re.compile(r"resp_[0-9a-f]{44}")
_PURGED = 20
"""Expired responses that one submission deletes."""
_CANCEL_SECONDS = 5.0
"""How long a cancellation waits until the model server has been left."""


class BackgroundResponses:
    """The responses of a daemon that are jobs. All methods raise `StoreUnavailable`."""

    def __init__(self, jobs: Jobs, storage: ResponseStorage) -> None:
        self._jobs = jobs
        self._storage = storage

    async def submit(self, request: BackgroundRequest, owner: str) -> tuple[str, bytes]:
        """Store a request, which is then answered. Return the id of the response, and the response as JSON.

        Raises `InvalidRequest`.
        """
        now, state = self._storage.now(), request.write()
        if len(state) > MAX_STORED:
            raise InvalidRequest("input", f"a response in the background may have at most {MAX_STORED} bytes")
        await self._delete_expired(now)
        response_id = f"resp_{round(now * 1000):012x}{secrets.token_hex(16)}"
        document = request.document(response_id, "queued")
        begun = [encode_state_event(name, number, document) for number, name in enumerate(("created", "queued"))]
        events = [build_page(0, b"".join(begun))] if request.streams else []
        model = request.body.get("model")
        new = NewJob(response_id, RESPONSE, RESPONSE, state, model if isinstance(model, str) else None)
        await self._jobs.submit(new, events, owner=owner)
        return response_id, document

    async def read(self, response_id: str, owner: str) -> bytes:
        """Return the current state of a response as JSON. Raises `ResponseNotFound`."""
        job = await self._get(response_id, owner)
        return read_job_response(job, await self._jobs.read_state(job))

    async def follow(self, response_id: str, owner: str, after: int = -1) -> AsyncGenerator[bytes]:
        """Return the events after `after`, as they happen. Raises `ResponseNotFound` or `InvalidRequest`."""
        job = await self._get(response_id, owner)
        if not BackgroundRequest.read(await self._jobs.read_state(job)).streams:
            raise InvalidRequest("stream", "only responses made with `background` and `stream` can be streamed again")
        return read_pages(self._jobs.follow_events(job.id), after)

    async def cancel(self, response_id: str, owner: str) -> bytes:
        """Cancel a response, and return it. One that has ended stays as it is. Raises `ResponseNotFound`."""
        job = await self._get(response_id, owner)
        with suppress(JobConflict, JobNotFound):
            job = await self._jobs.cancel(job.id)
        with suppress(TimeoutError, JobNotFound):  # another client may delete it
            async with asyncio.timeout(_CANCEL_SECONDS):
                async for _ in self._jobs.follow_events(job.id, job.last_event):
                    pass
        return await self.read(response_id, owner)

    async def delete(self, response_id: str, owner: str) -> None:
        """Delete a response that has ended. Raises `ResponseNotFound`, or `JobConflict` if it has not."""
        job = await self._get(response_id, owner)
        try:
            await self._jobs.delete(job.id)
        except JobNotFound as error:
            raise ResponseNotFound(response_id) from error

    async def _get(self, response_id: str, owner: str) -> StoredJob:
        if _ID.fullmatch(response_id) is None:
            raise ResponseNotFound(response_id)
        try:
            job = await self._jobs.get(response_id)
        except JobNotFound as error:
            raise ResponseNotFound(response_id) from error
        is_expired = job.is_finished and job.created_at + self._storage.retention.days * DAY <= self._storage.now()
        if job.kind != RESPONSE or job.owner != owner or is_expired:
            raise ResponseNotFound(response_id)
        return job

    async def _delete_expired(self, now: float) -> None:
        oldest = round((now - self._storage.retention.days * DAY) * 1000)
        expired = await self._jobs.list(JobFilter(kind=RESPONSE), before=f"resp_{max(0, oldest):012x}", limit=_PURGED)
        for job in expired:
            with suppress(JobConflict, JobNotFound):
                await self._jobs.delete(job.id)
