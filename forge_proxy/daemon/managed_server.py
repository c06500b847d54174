"""Adapts a managed llama.cpp server to the ports of the context budgets and of the admin API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from forge_proxy.api.admin.ports import ServerStatusReport
from forge_proxy.backends.llama_server import status as llama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.core.backend_errors import BackendDown
from forge_proxy.core.errors import UnknownModel
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.shielded_tasks import ShieldedTasks


class SwitchableServer:
    """`Resizer` of a managed server, which is changed only while no request runs.

    Running responses get `drain_seconds` to finish; new requests wait meanwhile.
    """

    def __init__(self, manager: ServerManager, switching: BackendSwitcher, drain_seconds: float) -> None:
        self.manager = manager
        self._switching = switching
        self._drain = drain_seconds
        self._changes = ShieldedTasks()
        self._default_context = manager.status().spec.context

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        return (None,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`. Does not start a stopped server."""

        async def ensure() -> None:
            self._raise_if_stopped()
            context = self._default_context if tokens is None else tokens
            await self.manager.ensure(replace(self.manager.status().spec, context=context), drain_seconds=0)

        await self.switch(ensure)

    async def switch(self, change: Callable[[], Awaitable[object]]) -> None:
        """Await `change` once running responses have finished. Raises what it raises.

        Cancelling this call does not cancel the change: the model server completes a load that it has begun, and what
        it then serves must be recorded.
        """
        await self._changes.run(self._switching.switch(change, drain_seconds=self._drain))

    def _raise_if_stopped(self) -> None:
        """Raise `BackendDown` if an administrator has stopped the server."""
        now = self.manager.status()
        if now.state == "stopped":
            kind = now.spec.program.kind
            raise BackendDown(kind, llama.describe_stopped(kind))


class ManagedServerControl:
    """`BackendControl` of a managed server with one model."""

    def __init__(self, server: SwitchableServer) -> None:
        self._server = server
        self._manager = server.manager

    def status(self) -> ServerStatusReport:
        """See `api.admin.ports.BackendControl`."""
        now = self._manager.status()
        return ServerStatusReport(now.state, now.spec.alias, now.pid, now.restarts, _detail(now))

    async def start(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        await self._server.switch(self._manager.start)

    async def stop(self) -> None:
        """See `api.admin.ports.BackendControl`. Later requests are rejected until it is started again."""
        await self._server.switch(lambda: self._manager.stop(drain_seconds=0))

    async def restart(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        await self._server.switch(lambda: self._manager.restart(drain_seconds=0))

    async def use(self, model: str) -> None:
        """See `api.admin.ports.BackendControl`. There is one model."""
        served = self._manager.status().spec.alias
        if model != served:
            raise UnknownModel(model, [served])

    def logs(self, lines: int) -> Sequence[str]:
        """See `api.admin.ports.BackendControl`."""
        return self._manager.logs(lines)


def _detail(now: llama.ServerStatus) -> str:
    if now.state == "loading" and now.progress:
        return str(now.progress)
    if now.state in ("failed", "crash-loop"):
        return now.last_error or ""
    return f"last error: {now.last_error}" if now.last_error else ""
