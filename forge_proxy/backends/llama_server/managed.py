"""The `Backend` over a managed llama.cpp server: requests wait until it is ready and fail if it dies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager

from forge_proxy.backends.llama_server.instance import ServerInstance
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.status import COMING, describe_stopped
from forge_proxy.core.backend_errors import (
    BackendError,
    BackendFault,
    BackendLost,
    BackendNotReady,
    BackendTimeout,
    RouteNotSupported,
)
from forge_proxy.core.chat import ModelCall, ModelCard, find_window
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.relay import RawCall

_RETRY_SECONDS = 2
"""Retry-After in seconds: a server that died has usually restarted by then."""


class ManagedLlama:
    """`Backend` adapter for a managed server. The creator of the manager starts and closes it."""

    def __init__(self, manager: ServerManager) -> None:
        self._manager = manager

    @property
    def url(self) -> str:
        """See `engine.ports.Backend`."""
        run = self._manager.current
        return run.server.url if run else self._manager.status().spec.program.kind

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`. Raises `BackendLost`, `BackendNotReady` and `BackendDown` as well."""
        async with self._manager.use() as run:
            self._refuse_other(run, call.model.served)
            try:
                async with aclosing(run.server.stream(call)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except BackendFault as fault:
                await _raise_if_lost(run, fault)
                raise
            run.has_responded = True

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`. Returns the last known ones of a sleeping server, without waking it."""
        while True:
            if self._manager.status().state == "asleep" and (latest := self._manager.latest):
                return latest.models
            run = await self._manager.ready(wake=False)
            try:
                run.models = await run.server.models()
            except BackendError:
                raise
            except BackendFault:
                if not await run.is_over():
                    raise
            else:
                return run.models

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. Raises `BackendNotReady` while it is not known."""
        spec, latest = self._manager.status().spec, self._manager.latest
        if spec.slots is not None:
            return spec.slots
        if latest is None or latest.spec != spec:
            raise BackendNotReady(self.url, self._manager.status().state, _RETRY_SECONDS)
        return latest.slots

    async def read_template(self, model: str | None) -> str | None:
        """See `chat_templates.server.TemplateServer`. None while no server runs."""
        run = self._manager.current
        return await run.server.read_template(model) if run else None

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        """See `chat_templates.server.TemplateServer`. None while no server runs."""
        run = self._manager.current
        return await run.server.render_template(model, body) if run else None

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`. Returns the last known one of a sleeping server, without waking it.

        Does not wait for a loading server, so that the status page can show its progress.
        """
        status, latest, run = self._manager.status(), self._manager.latest, self._manager.current
        if run is not None:
            return await run.server.context_window(model)
        if status.state == "asleep" and latest:
            return find_window(latest.models, model)
        raise BackendNotReady(self.url, status.state, _RETRY_SECONDS)

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`."""
        async with self._manager.use() as run:
            self._refuse_other(run, call.model.served)
            return await run.server.count_tokens(call)

    @property
    def kind(self) -> str:
        """See `engine.ports.RawRelay`."""
        return self._manager.status().spec.program.kind

    @asynccontextmanager
    async def relay(self, call: RawCall) -> AsyncGenerator[RawResponse]:
        """See `engine.ports.RawRelay`. A request that only reads the state does not wake the server or wait for it."""
        if call.is_read:
            status, run = self._manager.status(), self._manager.current
            if run is None:
                raise BackendNotReady(self.url, status.state, _RETRY_SECONDS)
            async with run.server.relay(call) as response:
                yield response
            return
        async with self._manager.use() as run:
            self._refuse_other(run, call.served)
            try:
                async with run.server.relay(call) as response:
                    yield response
            except RouteNotSupported:  # the server has answered
                raise
            except BackendFault as fault:
                await _raise_if_lost(run, fault)
                raise
            run.has_responded = True

    async def health(self) -> Health:
        """See `engine.ports.Backend`. Does not wake the server or count as use. Asleep is ok: a request wakes it."""
        status, run = self._manager.status(), self._manager.current
        if run is not None:
            return await run.server.health()
        if status.state in COMING or status.state == "ready":  # "ready" without an instance: it has just died
            return Health("loading", str(status.progress or status.last_error or status.state))
        if status.state == "asleep":
            return Health("ok", "asleep; the next request wakes it")
        if status.state == "stopped":
            return Health("down", describe_stopped(status.spec.program.kind))
        return Health("down", status.last_error or status.state)

    def _refuse_other(self, run: ServerInstance, model: str | None) -> None:
        """Raise `BackendNotReady` if this server does not serve the model. No-op: this backend has one model."""


async def _raise_if_lost(run: ServerInstance, fault: BackendFault) -> None:
    """Raise `BackendLost` if the cause of the fault is that the server exited or is being stopped."""
    if isinstance(fault, BackendError):
        if fault.status < 500 or not (run.is_stopping or run.process.has_ended):
            return
    elif not await run.is_over(silent=isinstance(fault, BackendTimeout)):
        return
    cause = "it was stopped" if run.is_stopping else run.process.describe_end(loading=False)
    raise BackendLost(fault.url, cause, _RETRY_SECONDS) from fault
