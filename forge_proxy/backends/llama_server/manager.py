"""One managed llama.cpp server, as callers have it: started, kept alive, stopped, restarted and exchanged.

What callers want they order of its owner (`owner.py`), and wait for; requests have the server by `use`, and wait there
while there is none. Who waits may leave at any time: what was ordered is done nevertheless, so a server is never left
half exchanged.
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
from forge_proxy.core.errors import BackendDown, BackendNotReady
from forge_proxy.engine.ports import Clock, Observer

__all__ = ["Done", "ServerManager", "Superseded", "SwitchFailed"]

_COME_AGAIN = 5
"""Seconds after which a caller who has waited in vain is told to come again."""


class ServerManager:
    """One server. `close` it at the end, in the loop in which it was used."""

    def __init__(
        self, spec: LaunchSpec, config: LlamaServerConfig, http: HttpClient, clock: Clock, observe: Observer
    ) -> None:
        self._config = config
        self._board = ServerState(spec, observe)
        self._owner = Supervisor(self._board, config, http, clock)

    async def ensure(self, spec: LaunchSpec, *, drain_seconds: float | None = None) -> Done:
        """Have this run. One that runs already is left alone; another one is stopped first, its requests given
        `drain_seconds` to end.

        Raises `CannotStart`; `SwitchFailed` where there was another one before, which then runs again; `Superseded`.
        """
        return await self._order("ensure", spec, drain_seconds)

    async def start(self) -> Done:
        """Start what was stopped, has failed, or is asleep. Raises `CannotStart` or `Superseded`."""
        return await self._order("start")

    async def stop(self, *, drain_seconds: float | None = None) -> Done:
        """Stop it until it is started again. Requests that come are refused."""
        return await self._order("stop", drain_seconds=drain_seconds)

    async def restart(self, *, drain_seconds: float | None = None) -> Done:
        """Stop and start it. Requests that come wait. Raises as `start`."""
        return await self._order("restart", drain_seconds=drain_seconds)

    def status(self) -> ServerStatus:
        """How it is now."""
        return self._board.status

    def logs(self, count: int = 100) -> list[str]:
        """The last lines that it said, and the ones before it, oldest first."""
        return self._owner.log.last(count)

    @property
    def current(self) -> ServerInstance | None:
        """The server that runs and is ready; None while there is none."""
        return self._owner.run if self._board.status.state == "ready" else None

    @property
    def latest(self) -> ServerInstance | None:
        """The server that was ready last, for what it told of itself; it may have ended."""
        return self._owner.latest

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[ServerInstance]:
        """Have the server for one request: waits for it, wakes it, and keeps it from being unloaded or stopped.

        Raises `BackendNotReady` when that takes too long, `BackendDown` when it does not come by itself.
        """
        run = await self.ready(wake=True)
        with self._owner.in_use():
            yield run

    async def ready(self, *, wake: bool) -> ServerInstance:
        """The server once it is ready. Raises as `use`; without `wake` also where it is asleep."""
        try:
            async with asyncio.timeout(self._config.wait_seconds):
                while (run := self._run_for_use(wake=wake)) is None:
                    await self._board.turns()
                return run
        except TimeoutError as exc:
            raise BackendNotReady(self._board.name, self._board.in_words, _COME_AGAIN) from exc

    async def close(self) -> None:
        """End the server, and this. Requests should have ended."""
        await self._owner.close()

    def _run_for_use(self, *, wake: bool) -> ServerInstance | None:
        status, name, run = self._board.status, self._board.name, self._owner.run
        match status.state:
            case "ready":
                return None if run is None or run.process.has_ended else run
            case "asleep" if wake:
                if not self._owner.is_ordered:
                    self._owner.submit("wake", status.spec, 0)
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

    async def _order(self, verb: Verb, spec: LaunchSpec | None = None, drain_seconds: float | None = None) -> Done:
        drain = self._config.drain_seconds if drain_seconds is None else drain_seconds
        return await asyncio.shield(self._owner.submit(verb, spec or self._board.status.spec, drain).done)
