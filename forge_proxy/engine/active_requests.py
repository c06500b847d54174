"""The requests under way. A follower gets a snapshot of all of them several times a second, and may cancel one.

Without a follower nothing is computed: a snapshot reads the counters that each request has anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import islice

from forge_proxy.core.errors import RequestCancelled
from forge_proxy.core.live_requests import LiveRequest, RequestPhase
from forge_proxy.engine.admission import Slot
from forge_proxy.engine.request_recorder import RequestRecorder

_MAX_FOLLOWERS = 32
_MAX_SHOWN = 200
_INTERVAL = 0.25
"""Seconds between two snapshots of the requests under way."""


class ActiveRequest:
    """A request under way. It is known to others inside its `with` block, which the task of the request executes."""

    def __init__(self, requests: ActiveRequests, recorder: RequestRecorder, slot: Slot) -> None:
        self._requests = requests
        self._recorder = recorder
        self._slot = slot
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = False

    @property
    def request_id(self) -> str:
        return self._recorder.request_id

    def __enter__(self) -> ActiveRequest:
        self._task = asyncio.current_task()
        self._requests.add(self._recorder, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Raise `RequestCancelled` if the request was cancelled by `cancel`."""
        self._requests.remove(self._recorder)
        task, self._task = self._task, None
        # A generator that is closed because its consumer was cancelled meanwhile gets a GeneratorExit instead.
        if self._is_cancelled and task is not None and isinstance(error, asyncio.CancelledError | GeneratorExit):
            task.uncancel()
            raise RequestCancelled from None

    def cancel(self) -> None:
        """Stop the request. Its client gets the error `RequestCancelled`."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    def describe(self) -> LiveRequest:
        """Return what the request is doing now."""
        recorder, activity, origin = self._recorder, self._recorder.activity, self._recorder.origin
        waits = self._slot.is_waiting
        progress = activity.progress
        return LiveRequest(
            request_id=recorder.request_id,
            surface=origin.surface,
            client=origin.key_label,
            program=origin.program,
            model=recorder.served or recorder.model,
            priority=origin.priority,
            streamed=activity.is_streamed,
            tools=recorder.tools,
            phase=self._find_phase(),
            attempt=recorder.attempt,
            faults=recorder.faults,
            elapsed=round(recorder.seconds, 3),
            queue_position=self._slot.position if waits else None,
            prompt_tokens=activity.prompt_tokens,
            processed_tokens=None if progress is None else progress.processed,
            output_tokens=activity.received,
            tokens_per_second=activity.tokens_per_second,
        )

    def describe_origin(self) -> dict[str, str | None]:
        """Return the names of the model, the client and its program."""
        recorder, origin = self._recorder, self._recorder.origin
        return {"model": recorder.served or recorder.model, "client": origin.key_label, "program": origin.program}

    def _find_phase(self) -> RequestPhase:
        if self._slot.is_waiting:
            return "loading" if self._slot.is_paused else "queued"
        return self._recorder.activity.find_phase(self._recorder.attempt, is_open=self._recorder.is_open)


class ActiveRequests:
    """All requests under way, in the order of their arrival."""

    def __init__(self, max_followers: int = _MAX_FOLLOWERS, interval: float = _INTERVAL) -> None:
        self.max_followers = max_followers
        self.followers = 0
        self._interval = interval
        self._requests: dict[RequestRecorder, ActiveRequest] = {}
        self._arrived = asyncio.Event()
        self._closed = asyncio.Event()

    def add(self, recorder: RequestRecorder, request: ActiveRequest) -> None:
        """Add a request."""
        self._requests[recorder] = request
        if self.followers:
            self._arrived.set()

    def remove(self, recorder: RequestRecorder) -> None:
        """Remove a request, if it is still there: its response is complete, and it can no longer be cancelled."""
        self._requests.pop(recorder, None)

    def cancel(self, request_id: str) -> int:
        """Cancel the requests with this id, which clients may use more than once. Returns their number."""
        found = [request for request in self._requests.values() if request.request_id == request_id]
        for request in found:
            request.cancel()
        return len(found)

    def describe_origin(self, request_id: str) -> dict[str, str | None]:
        """Return model, client and program of a request under way; nothing if there is none with this id."""
        found = next((one for one in self._requests.values() if one.request_id == request_id), None)
        return {} if found is None else found.describe_origin()

    def list(self) -> Sequence[LiveRequest]:
        """Return what the oldest requests are doing now, 200 at most."""
        return [request.describe() for request in islice(self._requests.values(), _MAX_SHOWN)]

    @property
    def count(self) -> int:
        """The number of all requests under way."""
        return len(self._requests)

    async def follow(self) -> AsyncGenerator[Sequence[LiveRequest]]:
        """Yield what the requests are doing, several times a second while there are any, until `close` is called."""
        self.followers += 1
        shown: Sequence[LiveRequest] | None = None
        try:
            while not self._closed.is_set():
                snapshot = self.list()
                if snapshot or snapshot != shown:
                    yield snapshot
                shown = snapshot
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._closed.wait()
                if not snapshot and not self._requests and not self._closed.is_set():
                    self._arrived.clear()
                    await self._arrived.wait()
        finally:
            self.followers -= 1

    def close(self) -> None:
        """End all feeds: the daemon is about to stop."""
        self._closed.set()
        self._arrived.set()
