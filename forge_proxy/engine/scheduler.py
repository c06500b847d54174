"""Swaps models if only one can be loaded at a time; `core/scheduling.py` decides when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.events import ModelFailed, ModelSwapped
from forge_proxy.engine.ports import Clock, Observer


class Scheduler:
    """Swaps models on demand of queued requests. `load` loads a model and informs the admission which one is served.

    A response in progress is never cut for another model. If a load fails, the requests that caused it fail; the
    others continue with the model that `load` left in place.
    """

    def __init__(
        self,
        admission: Admission,
        switching: BackendSwitcher,
        load: Callable[[str], Awaitable[object]],
        clock: Clock,
        observe: Observer,
    ) -> None:
        self._admission = admission
        self._switching = switching
        self._load = load
        self._clock = clock
        self._observe = observe

    async def run(self) -> None:
        """Swap models whenever a swap is due, until cancelled."""
        while True:
            model = await self._admission.wait_for_swap()
            await self._switching.switch(lambda model=model: self._swap(model), drain_seconds=None)

    async def _swap(self, model: str) -> None:
        queue = self._admission.queue
        schedule = queue.schedule
        if schedule is None or not queue.is_awaited(model, self._clock.now()):
            return  # the request left the queue, or the model was loaded meanwhile
        before, began = schedule.loaded, self._clock.now()
        try:
            await self._load(model)
        except Exception as error:  # noqa: BLE001  # any error must reach the waiting requests; the others continue
            reason = error.summary if isinstance(error, BackendFault) else f"{type(error).__name__}: {error}"
            failure = self._admission.fail_model(model, reason)
            self._observe(ModelFailed(model, reason, failure.until - self._clock.now() if failure else 0))
        else:
            self._observe(ModelSwapped(model, before, self._clock.now() - began))
