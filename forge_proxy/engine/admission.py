"""Admits as many requests to the backend as it has slots; the others wait in a queue here.

A client that disconnects while queued never reaches the backend, so its request costs the backend nothing.
`core/queueing.py` decides which request is next; `core/scheduling.py` decides which model is next if only one is loaded
at a time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType

from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendFault, BackendUnreachable, ModelNotLoaded
from forge_proxy.core.background import BackgroundPolicy, Priority
from forge_proxy.core.errors import Overloaded
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.scheduling import LoadFailure, ModelSchedule
from forge_proxy.core.waiting import EntryState, QueueEntry
from forge_proxy.engine.background_hours import ALL_HOURS, BackgroundHours, DelayedCall
from forge_proxy.engine.events import SlotsDetected
from forge_proxy.engine.ports import Backend, Clock, Observer

QUEUE_LIMIT = 100
"""Requests that may wait unless the settings say otherwise."""
_CACHED_SECONDS = 30.0
"""Seconds for which the number of slots is cached: a model server may have been restarted with another number."""
_INITIAL_MEAN_SECONDS = 10.0
"""Assumed duration of a request in seconds, until some have ended."""
_LATEST_WEIGHT = 0.2
"""Weight of the latest request in the moving mean of the durations."""
_MAX_RETRY_AFTER = 60
"""Largest `Retry-After` in seconds; the openai SDK ignores longer ones."""


class Admission:
    """The admission control of one backend. If `slots` is None, the backend reports the number of slots.

    A backend that does not report a number receives requests without a limit: it processes hundreds concurrently
    (vLLM) or has its own queue (Ollama), and a limit here would only slow it down.

    With a `schedule` models take turns: a request gets its slot once its model is loaded.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        observe: Observer,
        *,
        slots: int | None = None,
        limit: int = QUEUE_LIMIT,
        schedule: ModelSchedule | None = None,
        background: BackgroundPolicy | None = None,
        hours: BackgroundHours = ALL_HOURS,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._observe = observe
        self.queue = FairQueue(slots, limit, schedule, background)
        self._hours = hours
        self._check = DelayedCall(self._start_due)
        self._grants: dict[QueueEntry, asyncio.Future[None]] = {}
        self._cached_until = math.inf if slots is not None else -math.inf
        self._is_detected = False
        self._detection: asyncio.Event | None = None
        self._pauses = 0
        self._changed = asyncio.Event()
        """Set and replaced whenever a request enters or leaves the queue, or admission is resumed."""
        self._mean_seconds = _INITIAL_MEAN_SECONDS
        self._spares: set[SpareSlot] = set()

    def slot(self, client: str, model: str | None = None, priority: Priority = "interactive") -> Slot:
        """Return a slot for one request of that client, held inside `async with`. Any string identifies a client."""
        return Slot(self, self._clock, client, model or "", priority)

    async def enter(
        self,
        client: str,
        model: str = "",
        priority: Priority = "interactive",
        on_wait: Callable[[QueueEntry], None] = lambda _: None,
    ) -> QueueEntry:
        """Wait for a slot. `on_wait` is called with an entry that has to wait.

        Raises `ModelNotLoaded`, `BackendUnreachable` if the number of slots must be requested first, and `Overloaded`
        for an interactive request if too many wait.
        """
        self._raise_if_failed(model)
        if self._clock.now() > self._cached_until and not self._pauses:
            await self._detect_slots()
        entry = self.queue.enter(client, model, self._now(), priority)
        if entry is None:
            raise Overloaded(self.queue.waiting, self._seconds_until_a_slot())
        if entry.state is EntryState.WAITING:
            on_wait(entry)
            grant = self._grants[entry] = asyncio.get_running_loop().create_future()
            if priority == "interactive":  # drafts improve interactive responses, so they come before background work
                self._revoke_spares()
            self._wake()
            try:
                await grant
            except asyncio.CancelledError:
                self.leave(entry)  # also if the slot was granted just before: it passes to the next request
                raise
            finally:
                del self._grants[entry]
        return entry

    def spare(self, client: str, model: str, priority: Priority = "interactive") -> SpareSlot | None:
        """Return a slot that is free and for which no request waits; None if there is none or the number is unknown."""
        entry = self.queue.enter_spare(client, model, self._now(), priority)
        if entry is None:
            return None
        slot = SpareSlot(self, self._clock, entry)
        self._spares.add(slot)
        return slot

    def release_spare(self, slot: SpareSlot, entry: QueueEntry) -> None:
        """Take a spare slot back."""
        self._spares.discard(slot)
        self.leave(entry)

    def _revoke_spares(self) -> None:
        for spare in tuple(self._spares):
            spare.revoke()

    def leave(self, entry: QueueEntry) -> None:
        """Remove an entry from the queue and grant its slot to the next ones."""
        self._grant(self.queue.leave(entry, self._now()))
        self._wake()

    async def wait_for_swap(self) -> str:
        """Wait until another model is due and no running request prevents loading it; return its name."""
        while (model := self.queue.next_model(self._now())) is None:
            await self._changed.wait()
        return model

    def set_loaded(self, model: str | None) -> None:
        """Record that this model is loaded now, or none."""
        self._grant(self.queue.serve(model, self._now()))
        self._wake()

    def fail_model(self, model: str, reason: str) -> LoadFailure | None:
        """Record that this model cannot be loaded: fail its waiting requests, and new ones for a while."""
        if self.queue.schedule is None:
            return None
        now = self._now()
        self.queue.schedule = self.queue.schedule.with_failure(model, reason, now)
        for entry in self.queue.refuse(model):
            if not (grant := self._grants[entry]).done():
                grant.set_exception(ModelNotLoaded(model, reason, self._retry_after(model)))
        self.set_loaded(self.queue.schedule.loaded)
        return self.queue.schedule.find_failure(model, now)

    def reset_failures(self) -> None:
        """Allow models that could not be loaded to be retried immediately."""
        if self.queue.schedule is not None:
            self.queue.schedule = self.queue.schedule.without_failures()

    @asynccontextmanager
    async def pause(self) -> AsyncGenerator[None]:
        """Admit no request inside this block: new ones wait, running ones continue. Then determine the slots again."""
        self._pauses += 1
        self.queue.paused = True
        self._revoke_spares()
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                await self._resume()

    async def wait_until_drained(self, seconds: float | None) -> bool:
        """Wait until no request runs, at most `seconds` if given, and return whether that happened.

        Use it inside `pause`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.queue.running:
                    await self._changed.wait()
        return self.queue.running == 0

    async def _resume(self) -> None:
        try:
            if self._cached_until < math.inf:
                with suppress(BackendFault):  # the next request raises it
                    await self._detect_slots()
        finally:
            if self._pauses == 0:  # not paused again meanwhile
                self._grant(self.queue.resume(self._now()))
                self._wake()

    def record_duration(self, seconds: float, error: BaseException | None) -> None:
        """Record the duration of a request, and whether its error means that the backend may have been replaced."""
        self._mean_seconds += _LATEST_WEIGHT * (seconds - self._mean_seconds)
        if isinstance(error, BackendUnreachable | BackendBroke) and self._cached_until < math.inf:
            self._cached_until = -math.inf

    async def _detect_slots(self) -> None:
        """Request the number of slots. The first time all requests wait for it, later only the one that triggers it."""
        if self._detection is not None:
            if not self._is_detected:
                await self._detection.wait()
            return
        self._detection = asyncio.Event()
        try:
            slots = await self._backend.slots()
        except BackendUnreachable:  # the request itself would fail in the same way
            raise
        except BackendError:  # perhaps loading: it responds immediately, so the next request can try again
            return
        except BackendFault:  # it may be silent for long, which must not delay every request
            slots = self.queue.slots
        finally:
            self._detection.set()
            self._detection = None
        self._cached_until = self._clock.now() + _CACHED_SECONDS
        if slots != self.queue.slots or not self._is_detected:
            self._observe(SlotsDetected(slots))
        self._is_detected = True
        self._grant(self.queue.resize(slots, self._now()))

    def _grant(self, started: list[QueueEntry]) -> None:
        for entry in started:
            if not (grant := self._grants[entry]).done():  # a cancelled request returns its slot when it resumes
                grant.set_result(None)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self.queue.background_waiting:
            self._plan_check()

    def _now(self) -> float:
        """Return the time, after informing the queue whether the hours permit background requests at that time."""
        self.queue.is_open = self._hours.is_open()
        return self._clock.now()

    def _plan_check(self) -> None:
        """Call `_start_due` when background requests may start by the passing of time."""
        now = self._now()
        at = self.queue.next_check(now)
        if not self.queue.is_open:
            self._check.plan(self._hours.seconds_until_open())
        elif at is not None:
            self._check.plan(at - now)
        else:
            self._check.cancel()

    def _start_due(self) -> None:
        self._grant(self.queue.start_due(self._now()))
        self._wake()

    def _raise_if_failed(self, model: str) -> None:
        schedule = self.queue.schedule
        if schedule is not None and (failure := schedule.find_failure(model, self._clock.now())):
            raise ModelNotLoaded(model, failure.reason, self._retry_after(model))

    def _retry_after(self, model: str) -> int:
        now = self._clock.now()
        failure = self.queue.schedule.find_failure(model, now) if self.queue.schedule else None
        return max(1, math.ceil(failure.until - now)) if failure else 1

    def _seconds_until_a_slot(self) -> int:
        return min(max(1, math.ceil(self._mean_seconds / (self.queue.slots or 1))), _MAX_RETRY_AFTER)


class Slot:
    """The slot of one request. Call `leave` as soon as the backend is done; otherwise the end of the block does."""

    def __init__(
        self,
        admission: Admission,
        clock: Clock,
        client: str,
        model: str = "",
        priority: Priority = "interactive",
    ) -> None:
        self._admission = admission
        self._clock = clock
        self._client = client
        self._priority: Priority = priority
        self.model = model
        """The model of the request; it may be set until the block is entered."""
        self._entry: QueueEntry | None = None
        self._waiting_entry: QueueEntry | None = None
        self._arrived_at = self._started_at = 0.0
        self.is_waiting = False

    def spare(self) -> SpareSlot | None:
        """Return a further slot for the same request, see `Admission.spare`."""
        return self._admission.spare(self._client, self.model, self._priority)

    @property
    def queued(self) -> float:
        """Seconds spent in the queue so far."""
        return (self._clock.now() if self.is_waiting else self._started_at) - self._arrived_at

    @property
    def position(self) -> int | None:
        """The place in the queue, from 1; None if the request does not wait."""
        return None if self._waiting_entry is None else self._admission.queue.find_position(self._waiting_entry)

    @property
    def is_paused(self) -> bool:
        """Whether all requests wait because the model server is loading, stopping or switching."""
        return self._admission.queue.paused

    async def __aenter__(self) -> Slot:
        """Wait for the slot. Raises `Overloaded`, `ModelNotLoaded` or `BackendUnreachable`."""
        self._arrived_at = self._clock.now()
        self.is_waiting = True
        try:
            self._entry = await self._admission.enter(self._client, self.model, self._priority, self._note_waiting)
        finally:
            self.is_waiting, self._waiting_entry = False, None
            self._started_at = self._clock.now()
        return self

    def _note_waiting(self, entry: QueueEntry) -> None:
        self._waiting_entry = entry

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(error)

    def leave(self, error: BaseException | None = None) -> None:
        """Release the slot. Further calls have no effect."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._admission.record_duration(self._clock.now() - self._started_at, error)
            self._admission.leave(entry)


class SpareSlot(Slot):
    """A further slot of a request, which is revoked as soon as another request would have to wait for it."""

    def __init__(self, admission: Admission, clock: Clock, entry: QueueEntry) -> None:
        super().__init__(admission, clock, entry.client, entry.model, entry.priority)
        self._entry = entry
        self._revoked: Callable[[], object] | None = None

    def on_revoke(self, call: Callable[[], object]) -> None:
        """Set what is called when the slot is revoked; called at once if it was already."""
        self._revoked = call
        if self._entry is None:
            call()

    def revoke(self) -> None:
        """Release the slot and stop what uses it."""
        self.leave()
        if self._revoked is not None:
            self._revoked()

    def leave(self, error: BaseException | None = None) -> None:
        """Release the slot. Its duration is not recorded: it says nothing about when a slot becomes free."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._admission.release_spare(self, entry)
