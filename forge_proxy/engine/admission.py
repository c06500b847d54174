"""Lets requests to the backend, as many at a time as it has slots: the others wait here, where leaving is cheap.

A request that waits here is unknown to the backend, so one whose caller leaves never costs it anything. Which of them
is next is decided in `core/queueing.py`; which model is, where one at a time is loaded, in `core/scheduling.py`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType

from forge_proxy.core.errors import (
    BackendBroke,
    BackendError,
    BackendFault,
    BackendUnreachable,
    ModelNotLoaded,
    Overloaded,
)
from forge_proxy.core.queueing import FairQueue, QueueEntry, State
from forge_proxy.core.scheduling import LoadFailure, ModelSchedule
from forge_proxy.engine.events import SlotsDetected
from forge_proxy.engine.ports import Backend, Clock, Observer

QUEUE_LIMIT = 100
"""Requests that may wait unless the settings say otherwise."""
_BELIEVED_FOR = 30.0
"""Seconds for which a number of slots is believed: a model server may have been started anew with another."""
_FIRST_GUESS = 10.0
"""Seconds that a request is taken to need until some have ended."""
_LATEST = 0.2
"""How much the latest request counts in the mean of what requests need."""
_LONGEST_WAIT = 60
"""Seconds after which a caller is told to come again at most; the openai SDK disregards longer ones."""


class Admission:
    """The door to one backend. Its slots are `slots`; where that is None the backend is asked for their number.

    A backend that does not say how many it has is asked without bounds: it works on hundreds at a time (vLLM) or has a
    queue itself (Ollama), and a number of ours would only be in its way.

    With a `schedule` models take turns: a request gets its slot once its model is the one that is `served`.
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
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._observe = observe
        self.queue = FairQueue(slots, limit, schedule)
        self._calls: dict[QueueEntry, asyncio.Future[None]] = {}
        self._believed_until = math.inf if slots is not None else -math.inf
        self._asked_before = False
        self._asking: asyncio.Event | None = None
        self._pauses = 0
        self._stirred = asyncio.Event()
        """Set, and replaced, whenever somebody comes to wait or leaves, or the door is opened."""
        self._mean_seconds = _FIRST_GUESS

    def slot(self, client: str, model: str = "") -> Slot:
        """A slot for one request of that client, had inside of `async with`. Clients are told apart by any string."""
        return Slot(self, self._clock, client, model)

    async def enter(self, client: str, model: str = "") -> QueueEntry:
        """Wait for a slot. Raises `Overloaded`, `ModelNotLoaded`, or `BackendUnreachable` where the backend has to be
        asked first.
        """
        self._refuse_failed(model)
        if self._clock.now() > self._believed_until and not self._pauses:
            await self._find_slots()
        place = self.queue.enter(client, model, self._clock.now())
        if place is None:
            raise Overloaded(self.queue.waiting, self._seconds_until_a_slot())
        if place.state is State.WAITING:
            call = self._calls[place] = asyncio.get_running_loop().create_future()
            self._stir()
            try:
                await call
            except asyncio.CancelledError:
                self.leave(place)  # also where it was called just before: the slot is the next one's
                raise
            finally:
                del self._calls[place]
        return place

    def leave(self, place: QueueEntry) -> None:
        """Give a place up; the next ones are called."""
        self._call(self.queue.leave(place, self._clock.now()))
        self._stir()

    async def wanted(self) -> str:
        """Wait until another model is to be loaded, which then nobody who is inside hinders. Which one."""
        while (model := self.queue.wanted(self._clock.now())) is None:
            await self._stirred.wait()
        return model

    def serves(self, model: str | None) -> None:
        """This model is loaded now, or none is."""
        self._call(self.queue.serve(model, self._clock.now()))
        self._stir()

    def refuse(self, model: str, why: str) -> LoadFailure | None:
        """This model cannot be loaded: those who wait for it are told, and so are others for a while."""
        if self.queue.schedule is None:
            return None
        now = self._clock.now()
        self.queue.schedule = self.queue.schedule.failing(model, why, now)
        for place in self.queue.refuse(model):
            if not (call := self._calls[place]).done():
                call.set_exception(ModelNotLoaded(model, why, self._again_in(model)))
        self.serves(self.queue.schedule.loaded)
        return self.queue.schedule.refusal(model, now)

    def forgive(self) -> None:
        """Models that could not be loaded may be tried again at once."""
        if self.queue.schedule is not None:
            self.queue.schedule = self.queue.schedule.forgiving()

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """In here nobody is let in: who comes waits in line. What runs goes on. Then the slots are asked for anew."""
        self._pauses += 1
        self.queue.paused = True
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                await self._resume()

    async def drained(self, seconds: float | None) -> bool:
        """Wait until nobody is inside, at most so long where a number is given; whether that came about. Of use while
        it is `paused`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.queue.running:
                    await self._stirred.wait()
        return self.queue.running == 0

    async def _resume(self) -> None:
        try:
            if self._believed_until < math.inf:
                with suppress(BackendFault):  # each request finds that out for itself
                    await self._find_slots()
        finally:
            if self._pauses == 0:  # nobody has paused it meanwhile
                self._call(self.queue.resume(self._clock.now()))
                self._stir()

    def note(self, seconds: float, error: BaseException | None) -> None:
        """Learn from a request that has run: how long it took, and whether the backend may be another one by now."""
        self._mean_seconds += _LATEST * (seconds - self._mean_seconds)
        if isinstance(error, BackendUnreachable | BackendBroke) and self._believed_until < math.inf:
            self._believed_until = -math.inf

    async def _find_slots(self) -> None:
        """Ask for the number of slots. At the first time all who come wait for it, later only who asks."""
        if self._asking is not None:
            if not self._asked_before:
                await self._asking.wait()
            return
        self._asking = asyncio.Event()
        try:
            slots = await self._backend.slots()
        except BackendUnreachable:  # nor will the request itself be answered
            raise
        except BackendError:  # loading, perhaps: it says so at once, so it is asked again by the next
            return
        except BackendFault:  # it may say nothing for long, and that is not to hold up everyone
            slots = self.queue.slots
        finally:
            self._asking.set()
            self._asking = None
        self._believed_until = self._clock.now() + _BELIEVED_FOR
        if slots != self.queue.slots or not self._asked_before:
            self._observe(SlotsDetected(slots))
        self._asked_before = True
        self._call(self.queue.resize(slots, self._clock.now()))

    def _call(self, started: list[QueueEntry]) -> None:
        for place in started:
            if not (call := self._calls[place]).done():  # a cancelled one gives its slot up when it wakes
                call.set_result(None)

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    def _refuse_failed(self, model: str) -> None:
        schedule = self.queue.schedule
        if schedule is not None and (failure := schedule.refusal(model, self._clock.now())):
            raise ModelNotLoaded(model, failure.why, self._again_in(model))

    def _again_in(self, model: str) -> int:
        now = self._clock.now()
        failure = self.queue.schedule.refusal(model, now) if self.queue.schedule else None
        return max(1, math.ceil(failure.until - now)) if failure else 1

    def _seconds_until_a_slot(self) -> int:
        return min(max(1, math.ceil(self._mean_seconds / (self.queue.slots or 1))), _LONGEST_WAIT)


class Slot:
    """One request's slot. `leave` it as soon as the backend has nothing more to do; the end of the block does else."""

    def __init__(self, admission: Admission, clock: Clock, client: str, model: str = "") -> None:
        self._admission = admission
        self._clock = clock
        self._client = client
        self.model = model
        """The model it is for, which may still be said until it is waited for."""
        self._place: QueueEntry | None = None
        self._came = self._began = 0.0
        self._waits = False

    @property
    def queued(self) -> float:
        """Seconds spent waiting for it, so far."""
        return (self._clock.now() if self._waits else self._began) - self._came

    async def __aenter__(self) -> Slot:
        """Wait for the slot. Raises `Overloaded`, `ModelNotLoaded` or `BackendUnreachable`."""
        self._came = self._clock.now()
        self._waits = True
        try:
            self._place = await self._admission.enter(self._client, self.model)
        finally:
            self._waits = False
            self._began = self._clock.now()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(error)

    def leave(self, error: BaseException | None = None) -> None:
        """Give the slot to the next one. Once is enough."""
        place, self._place = self._place, None
        if place is not None:
            self._admission.note(self._clock.now() - self._began, error)
            self._admission.leave(place)
