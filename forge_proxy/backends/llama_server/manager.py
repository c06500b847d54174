"""The public interface of one managed llama.cpp server: start, stop, restart, switch and use it.

Methods submit commands to the supervisor (`supervisor.py`) and wait for them; requests get the server from `use`, which
waits until it is ready. A cancelled wait does not cancel the command, so a switch is never left half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_never

from forge_proxy.backends.config import LlamaServerConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.commands import Done, Superseded, SwitchFailed, Verb
from forge_proxy.backends.llama_server.instance import ServerInstance
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.server_state import ServerState
from forge_proxy.backends.llama_server.status import ServerStatus, describe_stopped
from forge_proxy.backends.llama_server.supervisor import Supervisor
from forge_proxy.core.backend_errors import BackendDown, BackendNotReady
from forge_proxy.engine.ports import Clock, Observer

__all__ = ["Done", "ServerManager", "Superseded", "SwitchFailed"]

_RETRY_SECONDS = 5
"""Retry-After in seconds for a request that timed out waiting for the server."""


class ServerManager:
    """The manager of one server. Call `close` in the event loop in which it was used."""

    def __init__(
        self, spec: LaunchSpec, config: LlamaServerConfig, http: HttpClient, clock: Clock, observe: Observer
    ) -> None:
        self._config = config
        self._state = ServerState(spec, observe)
        self._supervisor = Supervisor(self._state, config, http, clock)

    async def ensure(self, spec: LaunchSpec, *, drain_seconds: float | None = None) -> Done:
        """Ensure that a server with this spec runs. A different one is stopped first; its requests get `drain_seconds`
        to end.

        Raises `CannotStart`, `SwitchFailed` (the previous server is started again) or `Superseded`.
        """
        return await self._submit("ensure", spec, drain_seconds)

    async def start(self) -> Done:
        """Start a server that is stopped, failed or asleep. Raises `CannotStart` or `Superseded`."""
        return await self._submit("start")

    async def stop(self, *, drain_seconds: float | None = None) -> Done:
        """Stop the server until `start`. New requests are rejected."""
        return await self._submit("stop", drain_seconds=drain_seconds)

    async def restart(self, *, drain_seconds: float | None = None) -> Done:
        """Stop and start the server. New requests wait. Raises the same errors as `start`."""
        return await self._submit("restart", drain_seconds=drain_seconds)

    def status(self) -> ServerStatus:
        """Return the current status."""
        return self._state.status

    def logs(self, count: int = 100) -> list[str]:
        """Return the last `count` log lines, including those of earlier instances, oldest first."""
        return self._supervisor.log.last(count)

    @property
    def current(self) -> ServerInstance | None:
        """The running server if it is ready, else None."""
        return self._supervisor.instance if self._state.status.state == "ready" else None

    @property
    def latest(self) -> ServerInstance | None:
        """The server that was ready last, for its reported properties; it may have exited."""
        return self._supervisor.latest

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[ServerInstance]:
        """Use the server for one request: wake it, wait until it is ready, and prevent unloading while in use.

        Raises `BackendNotReady` after `wait_seconds`, or `BackendDown` if it does not start by itself.
        """
        run = await self.ready(wake=True)
        with self._supervisor.in_use():
            yield run

    async def ready(self, *, wake: bool) -> ServerInstance:
        """Wait until the server is ready. Raises as `use` does, and `BackendDown` if asleep without `wake`."""
        try:
            async with asyncio.timeout(self._config.wait_seconds):
                while (run := self._run_for_use(wake=wake)) is None:
                    await self._state.wait_for_change()
                return run
        except TimeoutError as exc:
            raise BackendNotReady(self._state.name, self._state.description, _RETRY_SECONDS) from exc

    async def close(self) -> None:
        """Stop the server and its supervisor. Requests should have ended."""
        await self._supervisor.close()

    def _run_for_use(self, *, wake: bool) -> ServerInstance | None:
        status, name, run = self._state.status, self._state.name, self._supervisor.instance
        match status.state:
            case "ready":
                return None if run is None or run.process.has_ended else run
            case "asleep" if wake:
                if not self._supervisor.has_commands:
                    self._supervisor.submit("wake", status.spec, 0)
                return None
            case "asleep":
                raise BackendDown(name, f"{name} is asleep")
            case "stopped":
                raise BackendDown(name, describe_stopped(name))
            case "failed" | "crash-loop":
                raise BackendDown(name, status.last_error or "")
            case "starting" | "loading" | "draining":
                return None
            case _:
                assert_never(status.state)

    async def _submit(self, verb: Verb, spec: LaunchSpec | None = None, drain_seconds: float | None = None) -> Done:
        drain = self._config.drain_seconds if drain_seconds is None else drain_seconds
        return await asyncio.shield(self._supervisor.submit(verb, spec or self._state.status.spec, drain).done)
