"""Relays requests that only the model server interprets. They share its slots, and model names are resolved."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from forge_proxy.core.backend_errors import RouteNotSupported
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.requests.records import UNKNOWN_ORIGIN, RequestOrigin
from forge_proxy.engine.active_requests import ActiveRequest, ActiveRequests
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.events import RequestAbandoned, RequestAnswered, RequestFailed
from forge_proxy.engine.models import Models
from forge_proxy.engine.ports import Backend, Clock, Observer, RawRelay, RawResponse
from forge_proxy.engine.request_recorder import RequestRecorder
from forge_proxy.wire.relay import RawCall


class RequestRelay:
    """Relays requests to one backend. They share the slots of all other requests."""

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        models: Models,
        clock: Clock,
        observe: Observer,
        active: ActiveRequests,
    ) -> None:
        self._backend = backend
        self._admission = admission
        self._models = models
        self._clock = clock
        self._observe = observe
        self._active = active

    @property
    def kind(self) -> str:
        """The kind of model server, such as `ollama`."""
        return self._backend.kind if isinstance(self._backend, RawRelay) else type(self._backend).__name__

    @property
    def url(self) -> str:
        """The address of the model server, for messages."""
        return self._backend.url

    @asynccontextmanager
    async def open(
        self, call: RawCall, *, request_id: str, client: str = "", origin: RequestOrigin = UNKNOWN_ORIGIN
    ) -> AsyncGenerator[RawResponse]:
        """Send a request and yield the response. A call that runs a model has a slot until the block ends.

        Raises `Overloaded`, `UnknownModel`, `RouteNotSupported`, `RequestCancelled` or a `BackendFault`.
        """
        done, model = False, call.body.model
        recorder = RequestRecorder(self._clock, request_id, model, origin)
        slot = self._admission.slot(client, priority=origin.priority)
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(ActiveRequest(self._active, recorder, slot))
                if call.runs_model:
                    slot.model = self._models.resolve_cached(model).served or ""
                    await stack.enter_async_context(slot)
                    resolved = await self._models.resolve(model)
                    recorder.set_model(resolved)
                    call = call.for_model(resolved.served)
                recorder.begin_exchange()
                yield await stack.enter_async_context(self._relay_of(call).relay(call))
            done = True
            report = Report(Outcome.PASSTHROUGH)
            self._observe(RequestAnswered(recorder.finish_answered(report, slot.queued), report))
        except ForgeError as error:
            done = True
            self._observe(RequestFailed(recorder.finish_failed(error.summary, slot.queued)))
            raise
        finally:
            if not done:
                self._observe(RequestAbandoned(recorder.finish_abandoned(slot.queued)))

    async def load(self, model: str | None, *, client: str = "") -> None:
        """Wait until the model is loaded, in the queue only if another one is loaded now. Raises like `open`."""
        served, schedule = (await self._models.resolve(model)).served, self._admission.queue.schedule
        if schedule is not None and schedule.loaded != served:
            async with self._admission.slot(client, served):
                pass

    def _relay_of(self, call: RawCall) -> RawRelay:
        if not isinstance(self._backend, RawRelay):
            raise RouteNotSupported(self.url, self.kind, call.method, call.route)
        return self._backend
