"""Has the models take turns of which one at a time can be loaded: what `core/scheduling.py` decides is done here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from forge_proxy.core.errors import BackendFault
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.events import ModelFailed, ModelSwapped
from forge_proxy.engine.ports import Clock, Observer


class Scheduler:
    """The one who swaps because of requests. `load` loads a model and tells the admission which one is served then.

    An answer that is under way is never cut for another model. Who is the cause of a load that fails is told so; the
    others go on with what `load` left behind.
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
        """Swap whenever that is due, until this is cancelled."""
        while True:
            model = await self._admission.wanted()
            await self._switching.switch(lambda model=model: self._swap(model), drain_seconds=None)

    async def _swap(self, model: str) -> None:
        schedule = self._admission.queue.schedule
        if schedule is None or schedule.next != model:  # who waited has left, or somebody else has loaded it
            return
        before, began = schedule.loaded, self._clock.now()
        try:
            await self._load(model)
        except Exception as error:  # noqa: BLE001  # whatever it is, those who wait must hear of it, and the others go on
            why = error.summary if isinstance(error, BackendFault) else f"{type(error).__name__}: {error}"
            failure = self._admission.refuse(model, why)
            self._observe(ModelFailed(model, why, failure.until - self._clock.now() if failure else 0))
        else:
            self._observe(ModelSwapped(model, before, self._clock.now() - began))
