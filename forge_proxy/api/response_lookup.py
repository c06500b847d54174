"""The responses that clients name by an id: those in the background, which are jobs, and the stored ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import NotCancellable, ResponseNotFound


class ResponseLookup:
    """Finds a response among the jobs, if there are any, else among the stored ones.

    All methods raise `ResponseNotFound` for an id that is neither, or whose response belongs to another owner.
    """

    def __init__(self, storage: ResponseStorage, background: BackgroundResponses | None) -> None:
        self._storage = storage
        self._background = background

    async def read(self, response_id: str, owner: str) -> bytes:
        """Return a response as JSON, in its current state."""
        if self._background is not None:
            with suppress(ResponseNotFound):
                return await self._background.read(response_id, owner)
        return await self._storage.get(response_id, owner)

    async def follow(self, response_id: str, owner: str, after: int) -> AsyncGenerator[bytes]:
        """Return the events after `after`, as they happen. Raises `InvalidRequest` if none are stored."""
        if self._background is not None:
            with suppress(ResponseNotFound):
                return await self._background.follow(response_id, owner, after)
        await self._storage.get(response_id, owner)
        raise InvalidRequest("stream", "only responses made with `background` and `stream` can be streamed again")

    async def cancel(self, response_id: str, owner: str) -> bytes:
        """Cancel a response in the background, and return it. Raises `NotCancellable` for others."""
        if self._background is not None:
            with suppress(ResponseNotFound):
                return await self._background.cancel(response_id, owner)
        await self._storage.get(response_id, owner)
        raise NotCancellable

    async def delete(self, response_id: str, owner: str) -> None:
        """Delete a response: the job, and what is stored. Raises `JobConflict` if the job has not ended."""
        was_job = False
        if self._background is not None:
            with suppress(ResponseNotFound):
                await self._background.delete(response_id, owner)
                was_job = True
        try:
            await self._storage.delete(response_id, owner)
        except ResponseNotFound:
            if not was_job:
                raise
